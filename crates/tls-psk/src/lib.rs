// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server's side of TLS 1.3 with pre-shared keys, by the OpenSSL of the system. rustls does not
//! support keys that both sides have before they connect.
//!
//! OpenSSL 3 is loaded when the first [`PskServer`] is made, so nothing needs it that does not use
//! such keys. A [`Session`] does no input or output: its caller moves the encrypted bytes.
//!
//! Only the mode `psk_dhe_ke` is accepted, which also exchanges ephemeral keys: whoever learns the
//! pre-shared key later cannot decrypt what was recorded.

mod calls;

use std::{
    ffi::{CStr, c_char, c_int, c_uint},
    fmt,
    ptr::{self, NonNull},
    slice,
    sync::{Arc, Mutex, PoisonError},
};

use self::calls::{Bio, Calls, Context, Ssl};

/// The greatest length of a key in bytes that OpenSSL 3 accepts.
pub const MAX_KEY: usize = 512;

/// The greatest length in bytes of the name of a key that OpenSSL 3 accepts.
pub const MAX_NAME: usize = 256;

/// Why TLS with pre-shared keys cannot be used, or why a session failed.
#[non_exhaustive]
#[derive(Clone, Debug, thiserror::Error)]
pub enum PskError {
    /// OpenSSL 3 is not there.
    #[error("OpenSSL 3 cannot be loaded ({message}): install the package libssl3 or openssl-libs")]
    NoLibrary {
        /// The words of the dynamic linker.
        message: String,
    },
    /// The program is linked statically.
    #[error("not in the static program, which cannot load libraries: use certificates instead")]
    Static,
    /// The library lacks a function.
    #[error("the library libssl.so.3 has no function {name}")]
    NoFunction {
        /// The name of the function.
        name: &'static str,
    },
    /// OpenSSL reported an error: usually the other end did not have the key.
    #[error("{0}")]
    Failed(String),
    /// The other end closed the connection without a close notification.
    #[error("the connection ended without the end of TLS")]
    Cut,
}

/// The keys of a server, by name.
pub trait PskKeys: Send + Sync {
    /// Writes the key of `name` to the beginning of `key` and returns its length, at most
    /// `key.len()`. For an unknown name it must write a random key: the client is then refused as it
    /// is with a wrong key, and learns nothing about names.
    fn key(&self, name: &[u8], key: &mut [u8]) -> usize;
}

/// A server's settings, for any number of sessions.
pub struct PskServer {
    calls: &'static Calls,
    context: NonNull<Context>,
    keys: Arc<dyn PskKeys>,
}

// SAFETY: OpenSSL counts references to a context atomically, and a context is not changed after it
// was set up.
unsafe impl Send for PskServer {}
// SAFETY: as above.
unsafe impl Sync for PskServer {}

impl PskServer {
    /// Loads OpenSSL, and makes a server that accepts clients with one of `keys`.
    ///
    /// # Errors
    /// [`PskError::NoLibrary`], [`PskError::Static`], [`PskError::NoFunction`], and those of OpenSSL.
    pub fn new(keys: Arc<dyn PskKeys>) -> Result<Self, PskError> {
        let calls = Calls::get()?;
        // SAFETY: the method is a static object.
        let context = unsafe { (calls.SSL_CTX_new)((calls.TLS_server_method)()) };
        let context = NonNull::new(context).ok_or_else(|| calls.error())?;
        let server = Self {
            calls,
            context,
            keys,
        };
        let context = context.as_ptr();
        // A key belongs to one hash, SHA-256 unless both sides agree on another. OpenSSL chooses the
        // cipher before it looks at the key, so only ciphers with this hash are allowed.
        let ciphers = c"TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
        // SAFETY: the context is valid, and this thread is the only one that has it. The callback
        // has the type that OpenSSL declares.
        let is_set_up = unsafe {
            (calls.SSL_CTX_set_psk_server_callback)(context, Some(find_key));
            (calls.SSL_CTX_ctrl)(context, SET_MIN_PROTO_VERSION, TLS1_3, ptr::null_mut()) == 1
                && (calls.SSL_CTX_set_ciphersuites)(context, ciphers.as_ptr()) == 1
                // Sessions are not resumed: each client shows its key.
                && (calls.SSL_CTX_set_num_tickets)(context, 0) == 1
        };
        if is_set_up {
            Ok(server)
        } else {
            Err(calls.error())
        }
    }

    /// Begins a session with a client.
    ///
    /// # Errors
    /// Those of OpenSSL, for example when memory is short.
    pub fn session(&self) -> Result<Session, PskError> {
        let calls = self.calls;
        let asked = Box::new(Asked {
            keys: Arc::clone(&self.keys),
            name: Mutex::default(),
        });
        // SAFETY: the context is valid. The session takes a reference to it.
        let ssl = NonNull::new(unsafe { (calls.SSL_new)(self.context.as_ptr()) });
        let ssl = ssl.ok_or_else(|| calls.error())?;
        // SAFETY: the method is a static object.
        let new_bio = || unsafe { (calls.BIO_new)((calls.BIO_s_mem)()) };
        let (received, to_send) = (new_bio(), new_bio());
        let session = Session {
            calls,
            ssl,
            received,
            to_send,
            asked,
            has_ended: false,
        };
        // SAFETY: all objects are valid or null, and the session owns the BIOs from now on. `asked`
        // is on the heap, and lives as long as the session.
        let is_set_up = unsafe {
            (calls.SSL_set_bio)(ssl.as_ptr(), received, to_send);
            (calls.SSL_set_accept_state)(ssl.as_ptr());
            let asked: *const Asked = &raw const *session.asked;
            (calls.SSL_set_ex_data)(ssl.as_ptr(), 0, asked.cast_mut().cast()) == 1
        };
        if is_set_up && !received.is_null() && !to_send.is_null() {
            Ok(session)
        } else {
            Err(calls.error())
        }
    }
}

impl Drop for PskServer {
    fn drop(&mut self) {
        // SAFETY: the context is valid. Sessions have references of their own.
        unsafe { (self.calls.SSL_CTX_free)(self.context.as_ptr()) }
    }
}

impl fmt::Debug for PskServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PskServer").finish_non_exhaustive()
    }
}

const SET_MIN_PROTO_VERSION: c_int = 123;
const TLS1_3: std::ffi::c_long = 0x0304;
const ERROR_WANT_READ: c_int = 2;
const ERROR_ZERO_RETURN: c_int = 6;

/// What the callback of a session needs.
struct Asked {
    keys: Arc<dyn PskKeys>,
    /// The name that the client gave.
    name: Mutex<Option<Vec<u8>>>,
}

/// OpenSSL calls this with the name that a client gave, and room for `max` bytes of the key.
unsafe extern "C" fn find_key(
    ssl: *mut Ssl,
    name: *const c_char,
    key: *mut u8,
    max: c_uint,
) -> c_uint {
    let Ok(calls) = Calls::get() else {
        return 0;
    };
    // SAFETY: `session` stored a pointer to an `Asked` that lives as long as the session, and
    // nothing changes it but under its lock.
    let asked = unsafe { (calls.SSL_get_ex_data)(ssl, 0).cast::<Asked>().as_ref() };
    if name.is_null() || key.is_null() {
        return 0;
    }
    let Some(asked) = asked else {
        return 0;
    };
    // SAFETY: OpenSSL passes a string, and room for `max` bytes, for the time of this call. The
    // bytes are cleared first, so that they are initialized.
    let (name, key) = unsafe {
        ptr::write_bytes(key, 0, max as usize);
        let key = slice::from_raw_parts_mut(key, max as usize);
        (CStr::from_ptr(name).to_bytes(), key)
    };
    let len = asked.keys.key(name, key).min(key.len());
    let mut asked_for = asked.name.lock().unwrap_or_else(PoisonError::into_inner);
    *asked_for = Some(name.to_owned());
    c_uint::try_from(len).expect("at most `max`")
}

/// A session with one client. The caller passes received bytes to [`Session::feed`], and sends the
/// bytes of [`Session::take`] after each other call.
pub struct Session {
    calls: &'static Calls,
    ssl: NonNull<Ssl>,
    /// Encrypted bytes that were received. Owned by `ssl`, like `to_send`.
    received: *mut Bio,
    to_send: *mut Bio,
    asked: Box<Asked>,
    /// Whether no more bytes will be received.
    has_ended: bool,
}

// SAFETY: OpenSSL permits the use of a session by one thread at a time, which `&mut` ensures.
unsafe impl Send for Session {}

impl Session {
    /// Continues the handshake. Returns whether it is complete; if not, it needs more bytes.
    ///
    /// # Errors
    /// [`PskError::Failed`] if the client does not have the key or does not follow the protocol,
    /// [`PskError::Cut`] after [`Session::end`]. [`Session::take`] may have an alert for the client.
    pub fn handshake(&mut self) -> Result<bool, PskError> {
        // SAFETY: the session is valid.
        let done = self.call(|calls, ssl| unsafe { (calls.SSL_do_handshake)(ssl) })?;
        Ok(done == Some(Done::Some))
    }

    /// Returns the name of the key that the client has, after the handshake.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        let name = self.asked.name.lock();
        let name = name.unwrap_or_else(PoisonError::into_inner);
        name.as_ref()
            .map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// Takes encrypted bytes that were received.
    ///
    /// # Errors
    /// [`PskError::Failed`] if memory is short.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), PskError> {
        let mut written = 0;
        // SAFETY: the BIO is valid as long as the session, and `bytes` has this length.
        let result = unsafe {
            let bytes_at = bytes.as_ptr().cast();
            (self.calls.BIO_write_ex)(self.received, bytes_at, bytes.len(), &raw mut written)
        };
        if bytes.is_empty() || (result == 1 && written == bytes.len()) {
            Ok(())
        } else {
            Err(self.calls.error())
        }
    }

    /// Says that no more bytes will be received.
    pub fn end(&mut self) {
        self.has_ended = true;
    }

    /// Decrypts into `buf`. Returns the number of bytes, 0 after the client's close notification, or
    /// `None` if more bytes must be received.
    ///
    /// # Errors
    /// Those of [`Session::handshake`].
    pub fn read(&mut self, buf: &mut [u8]) -> Result<Option<usize>, PskError> {
        let mut len = 0;
        // SAFETY: the session is valid, and `buf` has this length.
        let done = self.call(|calls, ssl| unsafe {
            (calls.SSL_read_ex)(ssl, buf.as_mut_ptr().cast(), buf.len(), &raw mut len)
        })?;
        Ok(match done {
            Some(Done::Some) => Some(len),
            Some(Done::Closed) => Some(0),
            None => None,
        })
    }

    /// Encrypts all of `bytes`.
    ///
    /// # Errors
    /// [`PskError::Failed`] after the end of the session.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), PskError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut len = 0;
        // SAFETY: the session is valid, and `bytes` has this length.
        let done = self.call(|calls, ssl| unsafe {
            (calls.SSL_write_ex)(ssl, bytes.as_ptr().cast(), bytes.len(), &raw mut len)
        })?;
        match done {
            Some(Done::Some) if len == bytes.len() => Ok(()),
            _ => Err(PskError::Failed("the session is over".to_owned())),
        }
    }

    /// Encrypts a close notification.
    pub fn close(&mut self) {
        // Fails if the session has failed, and then there is nothing to close.
        // SAFETY: the session is valid.
        let _ = self.call(|calls, ssl| unsafe { (calls.SSL_shutdown)(ssl) });
    }

    /// Whether [`Session::take`] has bytes.
    #[must_use]
    pub fn has_output(&self) -> bool {
        // SAFETY: the BIO is valid as long as the session.
        unsafe { (self.calls.BIO_ctrl_pending)(self.to_send) > 0 }
    }

    /// Appends the encrypted bytes that must be sent to `out`.
    pub fn take(&mut self, out: &mut Vec<u8>) {
        // SAFETY: the BIO is valid as long as the session.
        let len = unsafe { (self.calls.BIO_ctrl_pending)(self.to_send) };
        let start = out.len();
        out.resize(start + len, 0);
        let mut read = 0;
        if len > 0 {
            // SAFETY: as above, and `out` has `len` bytes after `start`.
            unsafe {
                let room = out[start..].as_mut_ptr().cast();
                (self.calls.BIO_read_ex)(self.to_send, room, len, &raw mut read);
            }
        }
        out.truncate(start + read);
    }

    /// Makes a call of OpenSSL that returns 1 for success. Returns `None` if it needs more bytes.
    fn call(
        &mut self,
        call: impl FnOnce(&Calls, *mut Ssl) -> c_int,
    ) -> Result<Option<Done>, PskError> {
        let (calls, ssl) = (self.calls, self.ssl.as_ptr());
        // The queue of errors belongs to the thread, and may have errors of other sessions.
        // SAFETY: no conditions.
        unsafe { (calls.ERR_clear_error)() };
        let result = call(calls, ssl);
        if result == 1 {
            return Ok(Some(Done::Some));
        }
        // SAFETY: the session is valid, and `result` is that of its last call.
        match unsafe { (calls.SSL_get_error)(ssl, result) } {
            ERROR_WANT_READ if self.has_ended => Err(PskError::Cut),
            ERROR_WANT_READ => Ok(None),
            ERROR_ZERO_RETURN => Ok(Some(Done::Closed)),
            _ => Err(calls.error()),
        }
    }
}

/// What a call did that did not fail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    /// It did what it was for.
    Some,
    /// The client has closed the session.
    Closed,
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the session is valid. It frees its BIOs.
        unsafe { (self.calls.SSL_free)(self.ssl.as_ptr()) }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NoKeys;

    impl PskKeys for NoKeys {
        fn key(&self, _: &[u8], _: &mut [u8]) -> usize {
            0
        }
    }

    /// Handshakes with keys are tested with the clients of other projects, in `luxor-cli`.
    #[test]
    fn a_client_that_does_not_speak_tls_gets_an_alert() {
        let server = PskServer::new(Arc::new(NoKeys)).expect("OpenSSL 3 is needed");
        let mut session = server.session().expect("a session");
        assert!(!session.handshake().expect("no bytes yet"));
        assert!(!session.has_output());
        session.feed(b"GET / HTTP/1.1\r\n\r\n").expect("memory");
        let error = session.handshake().expect_err("no TLS");
        assert!(
            matches!(&error, PskError::Failed(words) if words == "http request"),
            "{error}"
        );
        assert_eq!(session.name(), None);
        assert!(session.write(b"data").is_err());
        assert!(session.read(&mut [0; 8]).is_err());

        let mut session = server.session().expect("a session");
        session.feed(&[22, 3, 1, 0, 9]).expect("memory");
        assert!(!session.handshake().expect("a part of a record"));
        session.end();
        assert!(matches!(session.handshake(), Err(PskError::Cut)));
        let mut session = server.session().expect("a session");
        session.feed(&[22, 3, 1, 0, 4, 1, 0, 0, 0]).expect("memory");
        assert!(session.handshake().is_err());
        let mut alert = Vec::new();
        session.take(&mut alert);
        assert_eq!(alert[..2], [21, 3]);
    }
}
