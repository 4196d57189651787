// SPDX-License-Identifier: MIT OR Apache-2.0
//! OpenSSL and AWS-LC through EVP, an interface that both have.
//!
//! The key is expanded once into a context. For each data unit, `EVP_CipherInit_ex` without a key
//! sets the IV, and one `EVP_Cipher` processes the unit, since neither library takes several data
//! units at once. A message in OFB has a context of its own, and each piece of it is one
//! `EVP_Cipher`.

#![allow(unsafe_code)]

use std::{ffi::CStr, os::raw::c_char, ptr};

use luxor_engine::{Direction, InOut, Mode};

use super::{About, Rival};
use crate::cipher::{Cipher, Stream};

/// OpenSSL's declarations, from `openssl/evp.h` and `openssl/crypto.h`. AWS-LC's have the same
/// names and come from its crate.
mod openssl {
    use std::os::raw::{c_char, c_int, c_uchar, c_uint, c_void};

    #[repr(C)]
    pub(super) struct EVP_CIPHER_CTX {
        _private: [u8; 0],
    }
    #[repr(C)]
    pub(super) struct EVP_CIPHER {
        _private: [u8; 0],
    }

    unsafe extern "C" {
        pub(super) fn EVP_CIPHER_CTX_new() -> *mut EVP_CIPHER_CTX;
        pub(super) fn EVP_CIPHER_CTX_free(ctx: *mut EVP_CIPHER_CTX);
        pub(super) fn EVP_CIPHER_CTX_set_padding(ctx: *mut EVP_CIPHER_CTX, pad: c_int) -> c_int;
        pub(super) fn EVP_CipherInit_ex(
            ctx: *mut EVP_CIPHER_CTX,
            cipher: *const EVP_CIPHER,
            engine: *mut c_void,
            key: *const c_uchar,
            iv: *const c_uchar,
            enc: c_int,
        ) -> c_int;
        pub(super) fn EVP_Cipher(
            ctx: *mut EVP_CIPHER_CTX,
            out: *mut c_uchar,
            input: *const c_uchar,
            len: c_uint,
        ) -> c_int;
        pub(super) fn EVP_aes_128_xts() -> *const EVP_CIPHER;
        pub(super) fn EVP_aes_256_xts() -> *const EVP_CIPHER;
        pub(super) fn EVP_aes_128_ctr() -> *const EVP_CIPHER;
        pub(super) fn EVP_aes_192_ctr() -> *const EVP_CIPHER;
        pub(super) fn EVP_aes_256_ctr() -> *const EVP_CIPHER;
        pub(super) fn EVP_aes_128_ecb() -> *const EVP_CIPHER;
        pub(super) fn EVP_aes_256_ecb() -> *const EVP_CIPHER;
        pub(super) fn EVP_aes_256_ofb() -> *const EVP_CIPHER;
        pub(super) fn OpenSSL_version(what: c_int) -> *const c_char;
    }
}

/// `OPENSSL_VERSION` and `OPENSSL_CPU_INFO`. AWS-LC has only the first.
const VERSION: i32 = 0;
const CPU_INFO: i32 = 9;

macro_rules! rival {
    ($rival:ident, $context:ident, $lib:path, AES-128-XTS: $xts_128:expr) => {
        impl Rival for $rival {
            fn about(&self) -> &About {
                &self.0
            }

            fn cipher(
                &self,
                mode: Mode,
                direction: Direction,
                key: &[u8],
            ) -> Option<Result<Box<dyn Cipher>, String>> {
                use $lib as lib;
                // SAFETY: these functions return pointers to constants.
                let cipher = unsafe {
                    match (mode, key.len()) {
                        (Mode::Xts, 32) => $xts_128?,
                        (Mode::Xts, 64) => lib::EVP_aes_256_xts(),
                        (Mode::Ctr, 16) => lib::EVP_aes_128_ctr(),
                        (Mode::Ctr, 24) => lib::EVP_aes_192_ctr(),
                        (Mode::Ctr, 32) => lib::EVP_aes_256_ctr(),
                        (Mode::Ecb, 16) => lib::EVP_aes_128_ecb(),
                        (Mode::Ecb, 32) => lib::EVP_aes_256_ecb(),
                        _ => return None,
                    }
                };
                let big_endian = mode != Mode::Xts;
                let encrypt = direction == Direction::Encrypt;
                // SAFETY: `cipher` is one of the library's, with keys of `key.len()` bytes.
                let context = unsafe { $context::new(cipher, key, [0; 16], encrypt, big_endian) };
                Some(match context {
                    Ok(context) => Ok(Box::new(context)),
                    Err(e) => Err(format!("{e} for {mode}")),
                })
            }

            fn ofb(&self, key: &[u8], iv: u64) -> Option<Result<Box<dyn Stream>, String>> {
                assert_eq!(key.len(), 32, "OFB needs an AES-256 key");
                let iv = u128::from(iv).to_be_bytes();
                // SAFETY: `EVP_aes_256_ofb` returns a pointer to a constant; its keys have 32
                // bytes.
                let context = unsafe {
                    use $lib as lib;
                    $context::new(lib::EVP_aes_256_ofb(), key, iv, true, true)
                };
                Some(context.map(|context| Box::new(context) as _))
            }
        }

        struct $context {
            ctx: *mut <$rival as Lib>::Context,
            big_endian: bool,
        }

        impl $context {
            /// # Safety
            /// `cipher` is one of the library's ciphers, with keys of `key.len()` bytes and an IV
            /// of 16 bytes.
            unsafe fn new(
                cipher: *const <$rival as Lib>::Cipher,
                key: &[u8],
                iv: [u8; 16],
                encrypt: bool,
                big_endian: bool,
            ) -> Result<Self, String> {
                use $lib as lib;
                // SAFETY: the function has no arguments. A null result is refused below.
                let ctx = unsafe { lib::EVP_CIPHER_CTX_new() };
                let context = Self { ctx, big_endian };
                if context.ctx.is_null() {
                    return Err("no memory for a context".into());
                }
                // SAFETY: the context is valid. The key and the IV have the cipher's lengths, and
                // are copied.
                let done = unsafe {
                    lib::EVP_CipherInit_ex(
                        context.ctx,
                        cipher,
                        ptr::null_mut(),
                        key.as_ptr(),
                        iv.as_ptr(),
                        i32::from(encrypt),
                    ) == 1
                        && lib::EVP_CIPHER_CTX_set_padding(context.ctx, 0) == 1
                };
                if done {
                    Ok(context)
                } else {
                    Err("EVP_CipherInit_ex refused a key".to_owned())
                }
            }
        }

        impl Drop for $context {
            fn drop(&mut self) {
                use $lib as lib;
                // SAFETY: only `self` holds the context.
                unsafe { lib::EVP_CIPHER_CTX_free(self.ctx) }
            }
        }

        impl Cipher for $context {
            fn crypt(
                &mut self,
                first: u64,
                unit: usize,
                mut bytes: InOut<'_>,
            ) -> Result<(), String> {
                use $lib as lib;
                let len = bytes.len();
                let (input, output) = pointers(&mut bytes);
                let short = u32::try_from(unit).map_err(|_| "a data unit of 4 GiB".to_owned())?;
                for (at, number) in (0..len).step_by(unit).zip(u128::from(first)..) {
                    let iv = if self.big_endian {
                        number.to_be_bytes()
                    } else {
                        number.to_le_bytes()
                    };
                    // SAFETY: the context has a key and a cipher with an IV of 16 bytes, which is
                    // copied. `bytes` consists of whole units, so both buffers have `unit` bytes
                    // from `at` on. The buffers are the same or do not overlap.
                    let done = unsafe {
                        lib::EVP_CipherInit_ex(
                            self.ctx,
                            ptr::null(),
                            ptr::null_mut(),
                            ptr::null(),
                            iv.as_ptr(),
                            -1,
                        ) == 1
                            && lib::EVP_Cipher(self.ctx, output.add(at), input.add(at), short as _)
                                > 0
                    };
                    if !done {
                        return Err(format!("EVP failed at data unit {number}"));
                    }
                }
                Ok(())
            }
        }

        impl Stream for $context {
            fn crypt(&mut self, mut bytes: InOut<'_>) -> Result<(), String> {
                use $lib as lib;
                let len = u32::try_from(bytes.len()).map_err(|_| "4 GiB at once".to_owned())?;
                let (input, output) = pointers(&mut bytes);
                // SAFETY: the context has a key, an IV and a stream cipher, which accepts any
                // length. Both buffers have `len` bytes; they are the same or do not overlap.
                match unsafe { lib::EVP_Cipher(self.ctx, output, input, len as _) } {
                    1.. => Ok(()),
                    _ => Err("EVP_Cipher failed".to_owned()),
                }
            }
        }
    };
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

/// The types of a library.
trait Lib {
    type Context;
    type Cipher;
}

/// OpenSSL, in the newest version of `openssl-src`.
pub(super) struct OpenSsl(About);

impl Lib for OpenSsl {
    type Context = openssl::EVP_CIPHER_CTX;
    type Cipher = openssl::EVP_CIPHER;
}

rival!(OpenSsl, OpenSslContext, openssl, AES-128-XTS: Some(openssl::EVP_aes_128_xts()));

impl OpenSsl {
    pub(super) fn new() -> Self {
        // SAFETY: the function returns strings that stay valid.
        let (version, cpu) = unsafe {
            (
                text(openssl::OpenSSL_version(VERSION)),
                text(openssl::OpenSSL_version(CPU_INFO)),
            )
        };
        Self(About {
            name: "OpenSSL".into(),
            version,
            path: path(super::wide_xts(&cpu), &cpu),
            hardware: true,
        })
    }
}

/// AWS-LC, from `aws-lc-sys`.
pub(super) struct AwsLc(About);

impl Lib for AwsLc {
    type Context = aws_lc_sys::EVP_CIPHER_CTX;
    type Cipher = aws_lc_sys::EVP_CIPHER;
}

// AWS-LC has no AES-128-XTS.
rival!(AwsLc, AwsLcContext, aws_lc_sys, AES-128-XTS: None);

impl AwsLc {
    pub(super) fn new() -> Self {
        // SAFETY: the function returns a string that stays valid.
        let version = unsafe { text(aws_lc_sys::OpenSSL_version(VERSION)) };
        let (wide, cpu) = super::wide_cpu();
        Self(About {
            name: "AWS-LC".into(),
            version,
            path: path(wide, &cpu),
            hardware: true,
        })
    }
}

fn path(wide: bool, how: &str) -> String {
    let xts = if wide {
        "VAES on zmm registers"
    } else {
        "AES-NI on xmm registers"
    };
    format!(
        "XTS by {xts}, because {how}; for each unit EVP_CipherInit_ex with the IV, and EVP_Cipher"
    )
}

/// Converts a C string.
///
/// # Safety
/// `text` ends with a zero byte and stays unchanged.
unsafe fn text(text: *const c_char) -> String {
    // SAFETY: the caller promises it.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().trim().to_owned()
}
