// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of OpenSSL 3 that are used, as its headers declare them.

use std::{
    error::Error as _,
    ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void},
    sync::OnceLock,
};

use super::PskError;

/// `SSL_CTX`.
pub(crate) enum Context {}
/// `SSL`.
pub(crate) enum Ssl {}
/// `BIO`.
pub(crate) enum Bio {}
/// `SSL_METHOD`.
pub(crate) enum Method {}
/// `BIO_METHOD`.
pub(crate) enum BioMethod {}

/// `SSL_psk_server_cb_func`.
type FindKey = unsafe extern "C" fn(*mut Ssl, *const c_char, *mut u8, c_uint) -> c_uint;

macro_rules! calls {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions, by their names.
        #[allow(non_snake_case, reason = "the names of the functions")]
        pub(crate) struct Calls {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Calls {
            /// Finds the functions in the library, or in those that it needs.
            unsafe fn look_up(library: &libloading::Library) -> Result<Self, PskError> {
                Ok(Self {
                    $($name: {
                        let name = stringify!($name);
                        // SAFETY: OpenSSL's headers declare the function of this name with these
                        // arguments. The library is never closed.
                        *unsafe { library.get(name.as_bytes()) }
                            .map_err(|_| PskError::NoFunction { name })?
                    },)*
                })
            }
        }
    };
}

calls! {
    BIO_ctrl_pending(*mut Bio) -> usize;
    BIO_new(*const BioMethod) -> *mut Bio;
    BIO_read_ex(*mut Bio, *mut c_void, usize, *mut usize) -> c_int;
    BIO_s_mem() -> *const BioMethod;
    BIO_write_ex(*mut Bio, *const c_void, usize, *mut usize) -> c_int;
    ERR_clear_error();
    ERR_get_error() -> c_ulong;
    ERR_reason_error_string(c_ulong) -> *const c_char;
    OPENSSL_init_ssl(u64, *const c_void) -> c_int;
    SSL_CTX_ctrl(*mut Context, c_int, c_long, *mut c_void) -> c_long;
    SSL_CTX_free(*mut Context);
    SSL_CTX_new(*const Method) -> *mut Context;
    SSL_CTX_set_ciphersuites(*mut Context, *const c_char) -> c_int;
    SSL_CTX_set_num_tickets(*mut Context, usize) -> c_int;
    SSL_CTX_set_psk_server_callback(*mut Context, Option<FindKey>);
    SSL_do_handshake(*mut Ssl) -> c_int;
    SSL_free(*mut Ssl);
    SSL_get_error(*const Ssl, c_int) -> c_int;
    SSL_get_ex_data(*const Ssl, c_int) -> *mut c_void;
    SSL_new(*mut Context) -> *mut Ssl;
    SSL_read_ex(*mut Ssl, *mut c_void, usize, *mut usize) -> c_int;
    SSL_set_accept_state(*mut Ssl);
    SSL_set_bio(*mut Ssl, *mut Bio, *mut Bio);
    SSL_set_ex_data(*mut Ssl, c_int, *mut c_void) -> c_int;
    SSL_shutdown(*mut Ssl) -> c_int;
    SSL_write_ex(*mut Ssl, *const c_void, usize, *mut usize) -> c_int;
    TLS_server_method() -> *const Method;
}

/// OpenSSL installs no handler for the end of the process: threads may still use it then.
const INIT_NO_ATEXIT: u64 = 0x0008_0000;

impl Calls {
    /// Loads the library, once for the process.
    pub(crate) fn get() -> Result<&'static Self, PskError> {
        static CALLS: OnceLock<Result<Calls, PskError>> = OnceLock::new();
        CALLS.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Self, PskError> {
        if cfg!(target_feature = "crt-static") {
            return Err(PskError::Static);
        }
        // SAFETY: the initialization of OpenSSL has no conditions.
        let library = unsafe { libloading::Library::new("libssl.so.3") };
        let library = library.map_err(|error| PskError::NoLibrary {
            message: error
                .source()
                .map_or_else(|| error.to_string(), ToString::to_string),
        })?;
        // SAFETY: it is OpenSSL 3, which keeps these declarations in all its versions.
        let calls = unsafe { Self::look_up(&library) }?;
        // It must stay loaded as long as functions of it may be called.
        std::mem::forget(library);
        // SAFETY: no settings are passed.
        if unsafe { (calls.OPENSSL_init_ssl)(INIT_NO_ATEXIT, std::ptr::null()) } == 1 {
            Ok(calls)
        } else {
            Err(calls.error())
        }
    }

    /// Takes the first error of this thread's queue.
    pub(crate) fn error(&self) -> PskError {
        // SAFETY: no conditions. The string is static.
        let reason = unsafe {
            let reason = (self.ERR_reason_error_string)((self.ERR_get_error)());
            (!reason.is_null()).then(|| CStr::from_ptr(reason).to_string_lossy())
        };
        PskError::Failed(
            reason
                .unwrap_or("an unknown error of OpenSSL".into())
                .into(),
        )
    }
}
