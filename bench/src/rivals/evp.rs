// SPDX-License-Identifier: MIT OR Apache-2.0
//! OpenSSL and AWS-LC through EVP, an interface that both have.
//!
//! The key is expanded once into a context. For each data unit, `EVP_CipherInit_ex` without a key
//! sets the IV, and one `EVP_Cipher` processes the unit, since neither library takes several data
//! units at once. A message in OFB has a context of its own, and each piece of it is one
//! `EVP_Cipher`.
//!
//! Each library is a table of its functions: of one that is linked, or of the system's own OpenSSL,
//! which is loaded at run time.

#![allow(unsafe_code)]

use std::{
    ffi::{CStr, c_char, c_int, c_uchar, c_void},
    ptr,
};

use luxor_engine::{Direction, InOut, Mode};

use super::{About, Rival};
use crate::cipher::{Cipher, Stream};

/// `OPENSSL_VERSION` and, since OpenSSL 3.0, `OPENSSL_CPU_INFO`. AWS-LC has only the first.
const VERSION: c_int = 0;
const CPU_INFO: c_int = 9;

/// The declarations of `openssl/evp.h` and `openssl/crypto.h`, with all objects as `c_void`.
macro_rules! functions {
    ($($name:ident: fn($($arg:ty),*) -> $result:ty;)*) => {
        /// The functions of a library.
        #[expect(non_snake_case, reason = "these are the names in the library")]
        #[derive(Clone, Copy)]
        struct Functions {
            $($name: unsafe extern "C" fn($($arg),*) -> $result,)*
        }

        impl Functions {
            /// Returns the functions of a library; `None` if one is missing.
            ///
            /// # Safety
            /// `find` returns addresses of functions with these names and types, which stay valid.
            unsafe fn find(find: impl Fn(&str) -> Option<*const c_void>) -> Option<Self> {
                Some(Self {
                    $($name: {
                        type Function = unsafe extern "C" fn($($arg),*) -> $result;
                        let address = find(stringify!($name)).filter(|address| !address.is_null())?;
                        // SAFETY: the caller promises it.
                        unsafe { std::mem::transmute::<*const c_void, Function>(address) }
                    },)*
                })
            }
        }

        #[cfg(feature = "rivals")]
        mod linked {
            use std::ffi::c_void;

            mod openssl {
                use super::super::*;

                unsafe extern "C" {
                    $(pub(super) fn $name($(_: $arg),*) -> $result;)*
                }
            }

            mod aws_lc {
                pub(super) use aws_lc_sys::*;

                /// AWS-LC has no AES-128-XTS.
                #[expect(non_snake_case, reason = "this is the name in OpenSSL")]
                pub(super) extern "C" fn EVP_aes_128_xts() -> *const EVP_CIPHER {
                    std::ptr::null()
                }
            }

            pub(super) fn openssl(name: &str) -> Option<*const c_void> {
                match name {
                    $(stringify!($name) => Some(openssl::$name as *const c_void),)*
                    _ => None,
                }
            }

            pub(super) fn aws_lc(name: &str) -> Option<*const c_void> {
                match name {
                    $(stringify!($name) => Some(aws_lc::$name as *const c_void),)*
                    _ => None,
                }
            }
        }
    };
}

type Context = *mut c_void;
type Algorithm = *const c_void;

functions! {
    EVP_CIPHER_CTX_new: fn() -> Context;
    EVP_CIPHER_CTX_free: fn(Context) -> ();
    EVP_CIPHER_CTX_set_padding: fn(Context, c_int) -> c_int;
    EVP_CipherInit_ex: fn(Context, Algorithm, *mut c_void, *const c_uchar, *const c_uchar, c_int) -> c_int;
    // The length is an `unsigned int` in OpenSSL, which is the low half of the same register.
    EVP_Cipher: fn(Context, *mut c_uchar, *const c_uchar, usize) -> c_int;
    EVP_aes_128_xts: fn() -> Algorithm;
    EVP_aes_256_xts: fn() -> Algorithm;
    EVP_aes_128_ctr: fn() -> Algorithm;
    EVP_aes_192_ctr: fn() -> Algorithm;
    EVP_aes_256_ctr: fn() -> Algorithm;
    EVP_aes_128_ecb: fn() -> Algorithm;
    EVP_aes_256_ecb: fn() -> Algorithm;
    EVP_aes_256_ofb: fn() -> Algorithm;
    OpenSSL_version: fn(c_int) -> *const c_char;
}

/// OpenSSL or AWS-LC.
pub(super) struct Evp {
    about: About,
    functions: Functions,
}

impl Evp {
    /// OpenSSL, in the newest version of `openssl-src`.
    #[cfg(feature = "rivals")]
    pub(super) fn openssl() -> Self {
        // SAFETY: `linked` declares the functions of `openssl/evp.h`.
        let functions = unsafe { Functions::find(linked::openssl) };
        Self::of_openssl("OpenSSL", functions.expect("all are linked"))
    }

    /// The system's own OpenSSL; `None` if it is not installed.
    #[cfg(not(feature = "rivals"))]
    pub(super) fn of_the_system() -> Option<Self> {
        // SAFETY: it initialises itself when it is loaded, and is never unloaded.
        let library = ["libcrypto.so.3", "libcrypto.so.1.1"]
            .into_iter()
            .find_map(|name| unsafe { libloading::Library::new(name) }.ok())?;
        let library: &'static libloading::Library = Box::leak(Box::new(library));
        // SAFETY: in these versions the functions have the types of `openssl/evp.h`.
        let functions = unsafe {
            Functions::find(|name| {
                let found = library.get::<*const c_void>(name.as_bytes()).ok()?;
                Some(found.try_as_raw_ptr()?.cast_const())
            })
        };
        Some(Self::of_openssl("the system's OpenSSL", functions?))
    }

    fn of_openssl(name: &str, functions: Functions) -> Self {
        let [version, cpu] = [VERSION, CPU_INFO].map(|what| functions.version(what));
        let (wide, how) = super::wide_xts(&version, &cpu);
        Self {
            about: about(name, version, wide, &how),
            functions,
        }
    }

    /// AWS-LC, from `aws-lc-sys`.
    #[cfg(feature = "rivals")]
    pub(super) fn aws_lc() -> Self {
        // SAFETY: `aws_lc_sys` declares the same functions with other types of the same form.
        let functions = unsafe { Functions::find(linked::aws_lc) };
        let functions = functions.expect("all are linked");
        let (wide, cpu) = super::wide_cpu();
        Self {
            about: about("AWS-LC", functions.version(VERSION), wide, &cpu),
            functions,
        }
    }
}

fn about(name: &str, version: String, wide: bool, how: &str) -> About {
    let xts = if wide {
        "VAES on zmm registers"
    } else {
        "AES-NI on xmm registers"
    };
    About {
        name: name.to_owned(),
        version,
        path: format!(
            "XTS by {xts}, because {how}; for each unit EVP_CipherInit_ex with the IV, and EVP_Cipher"
        ),
        hardware: true,
    }
}

impl Functions {
    fn version(&self, what: c_int) -> String {
        // SAFETY: the function returns strings that stay valid.
        let text = unsafe { CStr::from_ptr((self.OpenSSL_version)(what)) };
        text.to_string_lossy().trim().to_owned()
    }
}

impl Rival for Evp {
    fn about(&self) -> &About {
        &self.about
    }

    fn cipher(
        &self,
        mode: Mode,
        direction: Direction,
        key: &[u8],
    ) -> Option<Result<Box<dyn Cipher>, String>> {
        let lib = &self.functions;
        let algorithm = match (mode, key.len()) {
            (Mode::Xts, 32) => lib.EVP_aes_128_xts,
            (Mode::Xts, 64) => lib.EVP_aes_256_xts,
            (Mode::Ctr, 16) => lib.EVP_aes_128_ctr,
            (Mode::Ctr, 24) => lib.EVP_aes_192_ctr,
            (Mode::Ctr, 32) => lib.EVP_aes_256_ctr,
            (Mode::Ecb, 16) => lib.EVP_aes_128_ecb,
            (Mode::Ecb, 32) => lib.EVP_aes_256_ecb,
            _ => return None,
        };
        // SAFETY: the function has no arguments.
        let algorithm = unsafe { algorithm() };
        if algorithm.is_null() {
            return None;
        }
        let big_endian = mode != Mode::Xts;
        let encrypt = direction == Direction::Encrypt;
        // SAFETY: the algorithm has keys of `key.len()` bytes.
        let context = unsafe { EvpContext::new(lib, algorithm, key, [0; 16], encrypt, big_endian) };
        Some(match context {
            Ok(context) => Ok(Box::new(context)),
            Err(e) => Err(format!("{e} for {mode}")),
        })
    }

    fn ofb(&self, key: &[u8], iv: u64) -> Option<Result<Box<dyn Stream>, String>> {
        assert_eq!(key.len(), 32, "OFB needs an AES-256 key");
        let iv = u128::from(iv).to_be_bytes();
        let lib = &self.functions;
        // SAFETY: the function has no arguments, and the algorithm's keys have 32 bytes.
        let context = unsafe { EvpContext::new(lib, (lib.EVP_aes_256_ofb)(), key, iv, true, true) };
        Some(context.map(|context| Box::new(context) as _))
    }
}

struct EvpContext {
    lib: Functions,
    ctx: Context,
    big_endian: bool,
}

impl EvpContext {
    /// # Safety
    /// `algorithm` is one of the library's, with keys of `key.len()` bytes and an IV of 16 bytes.
    unsafe fn new(
        lib: &Functions,
        algorithm: Algorithm,
        key: &[u8],
        iv: [u8; 16],
        encrypt: bool,
        big_endian: bool,
    ) -> Result<Self, String> {
        let lib = *lib;
        // SAFETY: the function has no arguments. A null result is refused below.
        let ctx = unsafe { (lib.EVP_CIPHER_CTX_new)() };
        let context = Self {
            lib,
            ctx,
            big_endian,
        };
        if context.ctx.is_null() {
            return Err("no memory for a context".into());
        }
        // SAFETY: the context is valid. The key and the IV have the algorithm's lengths, and are
        // copied.
        let done = unsafe {
            (lib.EVP_CipherInit_ex)(
                context.ctx,
                algorithm,
                ptr::null_mut(),
                key.as_ptr(),
                iv.as_ptr(),
                c_int::from(encrypt),
            ) == 1
                && (lib.EVP_CIPHER_CTX_set_padding)(context.ctx, 0) == 1
        };
        if done {
            Ok(context)
        } else {
            Err("EVP_CipherInit_ex refused a key".to_owned())
        }
    }
}

impl Drop for EvpContext {
    fn drop(&mut self) {
        // SAFETY: only `self` holds the context, which may be null.
        unsafe { (self.lib.EVP_CIPHER_CTX_free)(self.ctx) }
    }
}

impl Cipher for EvpContext {
    fn crypt(&mut self, first: u64, unit: usize, mut bytes: InOut<'_>) -> Result<(), String> {
        let len = bytes.len();
        let (input, output) = pointers(&mut bytes);
        u32::try_from(unit).map_err(|_| "a data unit of 4 GiB".to_owned())?;
        for (at, number) in (0..len).step_by(unit).zip(u128::from(first)..) {
            let iv = if self.big_endian {
                number.to_be_bytes()
            } else {
                number.to_le_bytes()
            };
            // SAFETY: the context has a key and an algorithm with an IV of 16 bytes, which is copied.
            // `bytes` consists of whole units, so both buffers have `unit` bytes from `at` on. The
            // buffers are the same or do not overlap.
            let done = unsafe {
                (self.lib.EVP_CipherInit_ex)(
                    self.ctx,
                    ptr::null(),
                    ptr::null_mut(),
                    ptr::null(),
                    iv.as_ptr(),
                    -1,
                ) == 1
                    && (self.lib.EVP_Cipher)(self.ctx, output.add(at), input.add(at), unit) > 0
            };
            if !done {
                return Err(format!("EVP failed at data unit {number}"));
            }
        }
        Ok(())
    }
}

impl Stream for EvpContext {
    fn crypt(&mut self, mut bytes: InOut<'_>) -> Result<(), String> {
        let len = bytes.len();
        u32::try_from(len).map_err(|_| "4 GiB at once".to_owned())?;
        let (input, output) = pointers(&mut bytes);
        // SAFETY: the context has a key, an IV and a stream cipher, which accepts any length. Both
        // buffers have `len` bytes; they are the same or do not overlap.
        match unsafe { (self.lib.EVP_Cipher)(self.ctx, output, input, len) } {
            1.. => Ok(()),
            _ => Err("EVP_Cipher failed".to_owned()),
        }
    }
}

/// Returns the pointers to read from and to write to. In place both are the same pointer, because
/// writes through one would invalidate another that was derived from a separate reference.
fn pointers(bytes: &mut InOut<'_>) -> (*const u8, *mut u8) {
    match bytes {
        InOut::InPlace(bytes) => {
            let bytes = bytes.as_mut_ptr();
            (bytes, bytes)
        }
        InOut::Separate { input, output } => (input.as_ptr(), output.as_mut_ptr()),
    }
}
