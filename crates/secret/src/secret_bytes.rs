// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory for keys, wiped when dropped. With the `std` feature it is also kept out of swap and core
//! dumps, as far as the system allows.

use alloc::boxed::Box;
use core::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};
use zeroize::Zeroize;

/// Secret bytes: a key, a passphrase or a key schedule.
///
/// With the `std` feature they live in pages of their own, to which `mlock`, `MADV_DONTDUMP` and
/// `MADV_WIPEONFORK` are applied. All three are best effort: an ordinary user may lock only
/// `RLIMIT_MEMLOCK` bytes. [`SecretBytes::is_locked`] and [`SecretBytes::was_lock_refused`] report
/// refused locks, and [`SecretBytes::is_lost`] reports bytes that a fork has wiped. The bytes are
/// overwritten before the memory is returned to the system, and `Debug` never shows them.
pub struct SecretBytes {
    memory: Memory,
    len: usize,
}

impl SecretBytes {
    /// Makes a secret of `len` zero bytes. With the `std` feature it takes at least one page of
    /// memory.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        Self {
            memory: Memory::zeroed(len),
            len,
        }
    }

    /// Makes a secret with a copy of `bytes`. The caller must wipe the original.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut secret = Self::zeroed(bytes.len());
        secret.expose_mut().copy_from_slice(bytes);
        secret
    }

    /// The bytes. A caller that copies them must wipe the copy.
    #[inline]
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.memory.bytes()[..self.len]
    }

    /// The bytes, for writing.
    #[inline]
    pub fn expose_mut(&mut self) -> &mut [u8] {
        &mut self.memory.bytes_mut()[..self.len]
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Shortens the secret to `len` bytes and wipes the rest. No effect if `len` is at least the
    /// current length.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.expose_mut()[len..].zeroize();
            self.len = len;
        }
    }

    /// Whether the pages are locked in memory, so that they are never swapped out.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.memory.is_locked()
    }

    /// Whether the system has refused to lock any secret of this process so far, or the stack of
    /// any thread that handles keys.
    #[must_use]
    pub fn was_lock_refused() -> bool {
        LOCK_REFUSED.load(Ordering::Relaxed)
    }

    /// Registers `note`, to be called at the first refused lock, on the thread that meets it. Call
    /// it at most once and before making the first secret: a second call has no effect, and earlier
    /// refusals are not reported.
    #[cfg(feature = "std")]
    pub fn at_first_refused_lock(note: impl Fn() + Send + Sync + 'static) {
        let _ = AT_FIRST_REFUSAL.set(Box::new(note));
    }

    /// Whether the bytes are zeros because this process is a fork of the one that wrote them.
    #[inline]
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.memory.is_lost()
    }
}

static LOCK_REFUSED: AtomicBool = AtomicBool::new(false);

#[cfg(feature = "std")]
static AT_FIRST_REFUSAL: std::sync::OnceLock<Box<dyn Fn() + Send + Sync>> =
    std::sync::OnceLock::new();

/// Records whether a secret or a stack was locked. All refusals go through this function.
#[cfg(feature = "std")]
pub(crate) fn note_lock(is_locked: bool) {
    if !is_locked
        && !LOCK_REFUSED.swap(true, Ordering::Relaxed)
        && let Some(note) = AT_FIRST_REFUSAL.get()
    {
        note();
    }
}

impl Clone for SecretBytes {
    fn clone(&self) -> Self {
        Self::copy_of(self.expose())
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretBytes({} bytes)", self.len)
    }
}

impl Drop for SecretBytes {
    fn drop(&mut self) {
        self.memory.bytes_mut().zeroize();
    }
}

enum Memory {
    /// The bytes, followed by the [`CANARY`].
    #[cfg(feature = "std")]
    Pages {
        map: memmap2::MmapMut,
        locked: bool,
    },
    Heap(Box<[u8]>),
    #[cfg(test)]
    Watched(tests::Watched),
}

/// The last byte of every mapping. The kernel wipes whole mappings on fork, so a forked child reads
/// 0 there.
#[cfg(feature = "std")]
const CANARY: u8 = 0xa5;

impl Memory {
    fn zeroed(len: usize) -> Self {
        #[cfg(feature = "std")]
        // Miri locks no pages.
        if !cfg!(miri)
            && let Ok(mut map) = memmap2::MmapMut::map_anon(len + 1)
        {
            // Best effort: kernels without this advice refuse it.
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::DontDump);
            #[cfg(target_os = "linux")]
            // SAFETY: the mapping is private and anonymous and has `map.len()` bytes. In this
            // process the advice changes no byte.
            unsafe {
                libc::madvise(map.as_mut_ptr().cast(), map.len(), libc::MADV_WIPEONFORK);
            }
            #[cfg(unix)]
            let locked = map.lock().is_ok();
            #[cfg(not(unix))]
            let locked = false;
            note_lock(locked);
            map[len] = CANARY;
            return Self::Pages { map, locked };
        }
        // mmap can fail where the heap still has room. Heap memory is not locked.
        #[cfg(feature = "std")]
        note_lock(false);
        Self::Heap(alloc::vec![0; len].into_boxed_slice())
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            #[cfg(feature = "std")]
            Self::Pages { map, .. } => &map[..map.len() - 1],
            Self::Heap(bytes) => bytes,
            #[cfg(test)]
            Self::Watched(watched) => &watched.bytes,
        }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            #[cfg(feature = "std")]
            Self::Pages { map, .. } => {
                let len = map.len() - 1;
                &mut map[..len]
            }
            Self::Heap(bytes) => bytes,
            #[cfg(test)]
            Self::Watched(watched) => &mut watched.bytes,
        }
    }

    #[inline]
    fn is_lost(&self) -> bool {
        match self {
            #[cfg(feature = "std")]
            // SAFETY: `map.len()` is at least 1, and the canary is the last byte. The read is
            // volatile because the kernel changes the byte on fork, which the compiler cannot see.
            Self::Pages { map, .. } => unsafe {
                map.as_ptr().add(map.len() - 1).read_volatile() != CANARY
            },
            Self::Heap(_) => false,
            #[cfg(test)]
            Self::Watched(_) => false,
        }
    }

    fn is_locked(&self) -> bool {
        match self {
            #[cfg(feature = "std")]
            Self::Pages { locked, .. } => *locked,
            Self::Heap(_) => false,
            #[cfg(test)]
            Self::Watched(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use std::sync::mpsc;

    use super::*;

    /// Memory that sends its contents to a channel when it is dropped.
    pub(super) struct Watched {
        pub(super) bytes: Vec<u8>,
        left: mpsc::Sender<Vec<u8>>,
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            self.left.send(self.bytes.clone()).unwrap();
        }
    }

    #[test]
    fn dropped_secrets_are_wiped() {
        let (left, after) = mpsc::channel();
        let bytes = b"correct horse".to_vec();
        let secret = SecretBytes {
            memory: Memory::Watched(Watched { bytes, left }),
            len: 7,
        };
        assert_eq!(secret.expose(), b"correct");
        drop(secret);
        // The bytes beyond `len` are wiped too.
        assert_eq!(after.recv().unwrap(), [0; 13]);
    }

    /// Flags in `smaps`: `lo` means locked, `dd` means excluded from core dumps.
    #[cfg(target_os = "linux")]
    #[test]
    fn pages_are_locked_and_left_out_of_dumps() {
        let secret = SecretBytes::copy_of(b"correct horse");
        let address = secret.expose().as_ptr().addr();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let bounds = |line: &str| {
            let (from, to) = line.split_whitespace().next()?.split_once('-')?;
            let hex = |s| usize::from_str_radix(s, 16).ok();
            Some(hex(from)?..hex(to)?)
        };
        let flags = maps
            .lines()
            .skip_while(|line| !bounds(line).is_some_and(|pages| pages.contains(&address)))
            .find_map(|line| line.strip_prefix("VmFlags:"))
            .expect("the mapping is listed");
        let has = |flag| flags.split_whitespace().any(|found| found == flag);
        assert!(has("dd"), "{flags}");
        assert_eq!(has("lo"), secret.is_locked(), "{flags}");

        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let limit = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max locked memory"))
            .and_then(|rest| rest.split_whitespace().next())
            .unwrap();
        // 1 MiB leaves a page for each secret of the tests that run at the same time.
        if limit
            .parse::<u64>()
            .map_or(limit == "unlimited", |n| n >= 1 << 20)
        {
            assert!(secret.is_locked(), "the limit is {limit}");
        }
    }

    #[test]
    fn truncation_wipes_the_removed_bytes() {
        let mut secret = SecretBytes::copy_of(b"correct horse");
        secret.truncate(7);
        assert_eq!(secret.expose(), b"correct");
        assert!(secret.memory.bytes()[7..13].iter().all(|&b| b == 0));
        secret.truncate(100);
        assert_eq!(secret.len(), 7);
    }

    #[test]
    fn debug_shows_the_length_only() {
        let secret = SecretBytes::copy_of(b"hunter2");
        assert_eq!(alloc::format!("{secret:?}"), "SecretBytes(7 bytes)");
        assert!(SecretBytes::zeroed(0).is_empty());
    }
}
