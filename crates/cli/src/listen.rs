// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets that clients come to: a Unix socket of this user's, TCP addresses, or what
//! systemd hands over.
//!
//! The mode of a Unix socket is set before the socket has a name: Linux gives the file the mode of
//! the socket that is bound. A umask would apply to the whole process.

mod inherited;

use std::{
    fmt::Write as _,
    fs::{self, File, Metadata, OpenOptions, TryLockError},
    io,
    net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
            net::UnixListener,
        },
    },
    path::{self, Path, PathBuf},
    thread,
    time::Duration,
};

use luxor_serve::nbd::Listener;
use nix::{
    errno::Errno,
    libc,
    sys::{
        socket::{
            AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket,
        },
        stat::{Mode, fchmod},
    },
};

pub(crate) use self::inherited::inherited;
use luxor_files::{path_name, temporary::Temporary};

use crate::error::{Error, ErrorClass, Result};

/// The port of NBD (IANA's `nbd`).
const NBD_PORT: u16 = 10809;

/// The URI by which clients find an export there; `tls` is about TCP
/// (<https://github.com/NetworkBlockDevice/nbd/blob/master/doc/uri.md>).
#[must_use]
pub(crate) fn uri(listener: &Listener, export: &str, tls: bool) -> String {
    let export = escaped(export.as_bytes());
    match listener {
        Listener::Unix(listener) => {
            let address = listener.local_addr().ok();
            let path = address.as_ref().and_then(|address| address.as_pathname());
            // A client may be in another folder.
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

/// Percent-encoding of all that is not plain in every part of a URI (RFC 3986, 2.1).
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

/// A Unix socket's file. Removed when dropped, if it is still the same.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// As long as it is open nothing else has its number.
    file: File,
    _temporary: Temporary,
}

impl SocketFile {
    /// Refuses a path that cannot be taken, before it is time to take it.
    ///
    /// # Errors
    /// As [`SocketFile::listen`].
    pub(crate) fn check(path: &Path) -> Result<()> {
        address(path)?;
        stale(path).map(drop)
    }

    /// Listens at `path`, from the first moment on for this user only (and root). A
    /// socket on which nobody listens any more is replaced.
    ///
    /// # Errors
    /// When somebody listens there, when it is no socket, when the path is too long, and
    /// when the system refuses.
    pub(crate) fn listen(path: &Path) -> Result<(UnixListener, Self)> {
        let failed = |errno: Errno| cannot(path, &errno.into());
        let address = address(path)?;
        let fd = unix_socket(SockFlag::empty()).map_err(failed)?;
        // What a socket has when it is bound, its file gets. Nothing has to be narrowed
        // afterwards, and the process's umask stays.
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
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
            .open(path);
        let file = Self {
            path: path.to_owned(),
            file: file.map_err(|error| cannot(path, &error))?,
            _temporary: Temporary::new(path.to_owned()),
        };
        listen(&fd, Backlog::MAXCONN).map_err(failed)?;
        Ok((fd.into(), file))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let (Ok(ours), Ok(named)) = (self.file.metadata(), fs::symlink_metadata(&self.path))
            && is_same(&ours, &named)
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Those that come at the same time take turns: a socket that has just got its name, and on
/// which nobody listens yet, looks like one that a crash has left. Only for a while, since
/// whoever may read the folder can lock it.
fn turn(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|path| !path.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new("."))).ok()?;
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

/// Which file a socket is on which nobody listens; `None` when there is nothing.
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
    // Where many wait to be let in the answer is EAGAIN.
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

/// Listens at every address that `text` stands for: an IP address or a name, with a port
/// or without.
///
/// # Errors
/// When it stands for none, and when the system refuses.
pub(crate) fn listen_tcp(text: &str) -> Result<Vec<TcpListener>> {
    let found = addresses(text)
        .map_err(|error| Error::io(format!("--listen {text}: no such address"), &error))?;
    let mut listeners = Vec::new();
    for address in found {
        let listener = TcpListener::bind(address).map_err(|error| {
            let what = format!("cannot listen on {address}");
            match error.kind() {
                io::ErrorKind::AddrInUse => {
                    Error::new(ErrorClass::Busy, format!("{what}: another program does"))
                }
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
    use std::os::unix::{fs::PermissionsExt, net::UnixStream};

    use super::*;
    use luxor_files::testing::alone;

    #[test]
    fn a_socket_is_this_users_alone_and_goes() {
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
    fn one_that_is_used_is_kept_and_a_stale_one_is_replaced() {
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
        // As after a crash.
        drop(listener);
        SocketFile::check(&path).unwrap();
        let (listener, second) = SocketFile::listen(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        // What took its place is not its own to remove.
        drop(file);
        assert!(path.exists());
        drop((listener, second));
        assert!(!path.exists());
    }

    /// Of many that find a stale socket one gets it, and clients reach that one.
    #[test]
    fn one_of_many_wins() {
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
    fn what_is_no_socket_is_kept() {
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
        // Nobody can make a file there, root neither, and that is what is said.
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
