// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sockets on which a server listens: a Unix socket for the current user, TCP addresses, or
//! sockets inherited from systemd.
//!
//! The mode of a Unix socket is set before it is bound, because Linux gives the socket file the
//! mode of the socket. Setting the umask would affect the whole process.

mod inherited;

use std::{
    fmt::Write as _,
    fs::{self, File, Metadata, Permissions, TryLockError},
    io,
    net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            fs::{FileTypeExt, MetadataExt, PermissionsExt},
            net::UnixListener,
        },
    },
    path::{self, Path, PathBuf},
    thread,
    time::Duration,
};

use luxor_serve::Listener;
use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, OFlag},
    sys::{
        socket::{
            AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket,
        },
        stat::{Mode, fchmod},
    },
};

pub(crate) use self::inherited::inherited;
use luxor::files::{open_at, open_to_read, path_name, temporary::Temporary};

use crate::error::{Error, ErrorClass, Result};

/// The port of NBD, registered at IANA as `nbd`.
const NBD_PORT: u16 = 10809;

/// Returns the URI of an export on `listener`. `tls` is whether TCP clients use TLS
/// (<https://github.com/NetworkBlockDevice/nbd/blob/master/doc/uri.md>).
#[must_use]
pub(crate) fn uri(listener: &Listener, export: &str, tls: bool) -> String {
    let export = escaped(export.as_bytes());
    match listener {
        Listener::Unix(listener) => {
            let address = listener.local_addr().ok();
            let path = address.as_ref().and_then(|address| address.as_pathname());
            // The client may run in another folder.
            let path = path.and_then(|path| path::absolute(path).ok());
            let path = path.unwrap_or_default().into_os_string();
            format!("nbd+unix:///{export}?socket={}", escaped(path.as_bytes()))
        }
        Listener::Tcp(listener) => {
            let address = listener.local_addr();
            let address = address.map_or_else(|_| String::new(), |address| address.to_string());
            let scheme = if tls { "nbds" } else { "nbd" };
            format!("{scheme}://{address}/{export}")
        }
    }
}

/// Percent-encodes every byte that is not allowed in all parts of a URI (RFC 3986, 2.1).
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(byte.into());
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// A Unix socket's file. Removed when dropped, if the path still names the same file.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    made: Metadata,
    /// While it is open, no other file gets its inode number. `None` for the moment before it is opened.
    file: Option<File>,
    _temporary: Temporary,
}

impl SocketFile {
    /// Refuses an unusable path early, before the socket is made.
    ///
    /// # Errors
    /// Those of [`SocketFile::listen`].
    pub(crate) fn check(path: &Path) -> Result<()> {
        address(path)?;
        stale(path).map(drop)
    }

    /// Listens at `path`. From the first moment only this user and root can connect. A stale socket
    /// is replaced.
    ///
    /// # Errors
    /// Fails when another program listens there, when the path is not a socket or too long, and
    /// when the system refuses.
    pub(crate) fn listen(path: &Path) -> Result<(UnixListener, Self)> {
        let failed = |errno: Errno| cannot(path, &errno.into());
        let address = address(path)?;
        let fd = unix_socket(SockFlag::empty()).map_err(failed)?;
        // The socket file gets the mode that the socket has when it is bound. So the mode is never
        // too wide, and the process's umask is not changed.
        fchmod(&fd, Mode::S_IRUSR | Mode::S_IWUSR).map_err(failed)?;
        let _turn = turn(path);
        match bind(fd.as_raw_fd(), &address) {
            Err(Errno::EADDRINUSE) => {
                if let Some(old) = stale(path)?
                    && fs::symlink_metadata(path).is_ok_and(|now| is_same(&now, &old))
                {
                    fs::remove_file(path).map_err(|error| cannot(path, &error))?;
                }
                bind(fd.as_raw_fd(), &address).map_err(failed)?;
            }
            bound => bound.map_err(failed)?,
        }
        // From here on a failure removes the socket again. `symlink_metadata` needs no descriptor, of
        // which there may be none left.
        let temporary = Temporary::new(path.to_owned());
        let mut file = Self {
            path: path.to_owned(),
            made: fs::symlink_metadata(path).map_err(|error| cannot(path, &error))?,
            file: None,
            _temporary: temporary,
        };
        // Not by `OpenOptions`, which ignores `O_PATH` if the C library is musl.
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW;
        let opened = open_at(AT_FDCWD, path, flags, Mode::empty()).map_err(failed)?;
        // The umask may have taken bits away. `chmod` on a descriptor without access needs its name.
        let name = format!("/proc/self/fd/{}", opened.as_raw_fd());
        let _ = fs::set_permissions(name, Permissions::from_mode(0o600));
        file.file = Some(opened);
        listen(&fd, Backlog::MAXCONN).map_err(failed)?;
        Ok((fd.into(), file))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|named| is_same(&self.made, &named)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Locks the folder, so that processes that start at the same time take turns: a socket that is
/// bound but does not listen yet looks like one that a crash has left. Waits at most a second,
/// because any user who can read the folder can lock it.
fn turn(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|path| !path.as_os_str().is_empty());
    let folder = open_to_read(folder.unwrap_or(Path::new("."))).ok()?;
    for _ in 0..100 {
        match folder.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(10)),
            _ => break,
        }
    }
    Some(folder)
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn address(path: &Path) -> Result<UnixAddr> {
    if path.as_os_str().is_empty() {
        return Err(Error::failure("--socket needs a path"));
    }
    UnixAddr::new(path).map_err(|errno| match errno {
        Errno::ENAMETOOLONG => Error::failure(format!(
            "{} is too long for the name of a socket: the limit is 107 bytes",
            path_name(path)
        ))
        .hint("A path relative to the current folder may be shorter."),
        errno => cannot(path, &errno.into()),
    })
}

/// Returns the metadata of a stale socket, on which no program listens, or `None` if the path does
/// not exist.
fn stale(path: &Path) -> Result<Option<Metadata>> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata.map_err(|error| cannot(path, &error))?,
    };
    if !metadata.file_type().is_socket() {
        return Err(Error::new(
            ErrorClass::Busy,
            format!("{} exists and is not a socket", path_name(path)),
        ));
    }
    let failed = |errno: Errno| cannot(path, &errno.into());
    // If the listener's queue is full, a nonblocking connect fails with EAGAIN.
    let fd = unix_socket(SockFlag::SOCK_NONBLOCK).map_err(failed)?;
    match connect(fd.as_raw_fd(), &address(path)?) {
        Err(Errno::ECONNREFUSED) => Ok(Some(metadata)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno @ (Errno::EACCES | Errno::EPERM)) => Err(failed(errno)),
        _ => Err(Error::new(
            ErrorClass::Busy,
            format!("another program listens on {}", path_name(path)),
        )
        .hint("Stop that program, or use another path.")),
    }
}

fn unix_socket(flags: SockFlag) -> nix::Result<OwnedFd> {
    let flags = flags | SockFlag::SOCK_CLOEXEC;
    socket(AddressFamily::Unix, SockType::Stream, flags, None)
}

fn cannot(path: &Path, error: &io::Error) -> Error {
    Error::io(format!("cannot listen at {}", path_name(path)), error)
}

/// Listens at every address that `text` stands for: an IP address or a name, with or without a
/// port.
///
/// # Errors
/// Fails when `text` is not an address, and when the system refuses.
pub(crate) fn listen_tcp(text: &str) -> Result<Vec<TcpListener>> {
    let found = addresses(text)
        .map_err(|error| Error::io(format!("--listen {text}: no such address"), &error))?;
    let mut listeners = Vec::new();
    for address in found {
        let listener = TcpListener::bind(address).map_err(|error| {
            let what = format!("cannot listen on {address}");
            match error.kind() {
                io::ErrorKind::AddrInUse => Error::new(
                    ErrorClass::Busy,
                    format!("{what}: another program listens there"),
                ),
                _ => Error::io(what, &error),
            }
        })?;
        listeners.push(listener);
    }
    Ok(listeners)
}

fn addresses(text: &str) -> io::Result<Vec<SocketAddr>> {
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    if let Ok(ip) = bare.unwrap_or(text).parse::<IpAddr>() {
        return Ok(vec![(ip, NBD_PORT).into()]);
    }
    let mut found: Vec<SocketAddr> = if text.contains(':') {
        text.to_socket_addrs()?.collect()
    } else {
        (text, NBD_PORT).to_socket_addrs()?.collect()
    };
    found.sort_unstable();
    found.dedup();
    if found.is_empty() {
        Err(io::Error::other("the name has no address"))
    } else {
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use luxor::files::testing::alone;

    #[test]
    fn a_socket_is_private_and_is_removed() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        for _ in 0..2 {
            SocketFile::check(&path).unwrap();
            let (listener, file) = SocketFile::listen(&path).unwrap();
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let client = UnixStream::connect(&path).unwrap();
            listener.accept().unwrap();
            drop((client, file));
            assert!(!path.exists());
        }
    }

    #[test]
    fn a_socket_in_use_is_kept_and_a_stale_one_is_replaced() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (listener, file) = SocketFile::listen(&path).unwrap();
        for error in [
            SocketFile::check(&path).unwrap_err(),
            SocketFile::listen(&path).unwrap_err(),
        ] {
            assert!(error.to_string().contains("another program"), "{error}");
            assert_eq!(error.class(), ErrorClass::Busy);
        }
        assert!(path.exists());
        // The state after a crash.
        drop(listener);
        SocketFile::check(&path).unwrap();
        let (listener, second) = SocketFile::listen(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        // A socket that has replaced this one must not be removed.
        drop(file);
        assert!(path.exists());
        drop((listener, second));
        assert!(!path.exists());
    }

    /// If many processes find a stale socket at once, exactly one gets the path, and clients reach
    /// it.
    #[test]
    fn exactly_one_of_many_processes_gets_the_path() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        for _ in 0..200 {
            drop(UnixListener::bind(&path).unwrap());
            let start = std::sync::Barrier::new(8);
            let all: Vec<_> = thread::scope(|scope| {
                let threads: Vec<_> = (0..8)
                    .map(|_| {
                        scope.spawn(|| {
                            start.wait();
                            SocketFile::listen(&path)
                        })
                    })
                    .collect();
                threads.into_iter().map(|t| t.join().unwrap()).collect()
            });
            let client = UnixStream::connect(&path).unwrap();
            let (winners, others): (Vec<_>, Vec<_>) = all.into_iter().partition(Result::is_ok);
            assert_eq!(winners.len(), 1);
            for other in others {
                assert_eq!(other.unwrap_err().class(), ErrorClass::Busy);
            }
            drop((client, winners));
            assert!(!path.exists());
        }
    }

    #[test]
    fn a_file_that_is_not_a_socket_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("photos");
        fs::write(&path, "photos").unwrap();
        for error in [
            SocketFile::check(&path).unwrap_err(),
            SocketFile::listen(&path).unwrap_err(),
        ] {
            assert!(error.to_string().contains("is not a socket"), "{error}");
            assert_eq!(error.class(), ErrorClass::Busy);
        }
        assert_eq!(fs::read(&path).unwrap(), b"photos");
        let long = folder.path().join("x".repeat(108));
        let error = SocketFile::listen(&long).unwrap_err();
        assert!(error.to_string().contains("107 bytes"), "{error}");
        let nowhere = folder.path().join("no/folder");
        assert!(SocketFile::listen(&nowhere).is_err());
        // Not even root can make a file there, and the error must say so.
        if Path::new("/sys/kernel").exists() {
            let error = SocketFile::listen(Path::new("/sys/luxor.sock")).unwrap_err();
            let words = error.to_string();
            assert!(!words.contains("No such file"), "{words}");
        }
    }

    #[test]
    fn addresses_have_ports_or_get_one() {
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1:10809"),
            ("127.0.0.1:5", "127.0.0.1:5"),
            ("::1", "[::1]:10809"),
            ("[::1]", "[::1]:10809"),
            ("[::1]:5", "[::1]:5"),
            ("0.0.0.0:0", "0.0.0.0:0"),
        ] {
            let expected: SocketAddr = expected.parse().unwrap();
            assert_eq!(addresses(text).unwrap(), [expected], "{text}");
        }
        for text in ["", "127.0.0.1:", "127.0.0.1:70000", ":x", "[::1", "a b"] {
            assert!(addresses(text).is_err(), "{text:?}");
        }
        let taken = listen_tcp("127.0.0.1:0").unwrap();
        let port = taken[0].local_addr().unwrap().port();
        let error = listen_tcp(&format!("127.0.0.1:{port}")).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Busy);
    }

    #[test]
    fn uris_are_escaped() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a socket?&%é");
        let (listener, _file) = SocketFile::listen(&path).unwrap();
        let folder = folder.path().display();
        let found = uri(&Listener::Unix(listener), "my disk", true);
        let expected = format!("nbd+unix:///my%20disk?socket={folder}/a%20socket%3F%26%25%C3%A9");
        assert_eq!(found, expected);
        let listener = listen_tcp("127.0.0.1:0").unwrap().remove(0);
        let address = listener.local_addr().unwrap();
        let listener = Listener::Tcp(listener);
        assert_eq!(uri(&listener, "", false), format!("nbd://{address}/"));
        assert_eq!(uri(&listener, "", true), format!("nbds://{address}/"));
    }
}
