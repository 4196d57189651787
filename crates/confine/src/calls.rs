// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls that a confined process may make, by seccomp.
//!
//! A call that is not listed fails with `EPERM`. A call that this list forgets is then an error on a rare
//! path, and not the loss of a server. Calls that no path of this program makes, and by which an attacker
//! would go on (starting programs, looking into other processes, mounting), end the process instead. Linux
//! logs both where its audit subsystem is on.
//!
//! A filter of the crate `seccompiler` has one action for the calls that it names and one for the others, so
//! there are three filters. The kernel runs all of them and obeys the strictest. For most of the allowed calls
//! it runs none: since Linux 5.11 it knows which calls are always allowed.

use std::{collections::BTreeMap, env::consts::ARCH, process};

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter_all_threads,
};

use crate::{Needs, Outcome};

/// Calls that are allowed whatever their arguments.
#[rustfmt::skip]
const ALLOWED: &[c_long] = &[
    // Files that are open, and those that Landlock allows.
    libc::SYS_close, libc::SYS_close_range, libc::SYS_copy_file_range, libc::SYS_dup, libc::SYS_dup3,
    libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_fadvise64, libc::SYS_fallocate, libc::SYS_fchmod,
    libc::SYS_fcntl, libc::SYS_fdatasync, libc::SYS_flock, libc::SYS_fstat, libc::SYS_fstatfs, libc::SYS_fsync,
    libc::SYS_ftruncate, libc::SYS_getcwd, libc::SYS_getdents64, libc::SYS_linkat, libc::SYS_lseek,
    libc::SYS_newfstatat, libc::SYS_openat, libc::SYS_openat2, libc::SYS_pipe2, libc::SYS_pread64,
    libc::SYS_preadv, libc::SYS_preadv2, libc::SYS_pwrite64, libc::SYS_pwritev, libc::SYS_pwritev2,
    libc::SYS_read, libc::SYS_readlinkat, libc::SYS_readv, libc::SYS_renameat, libc::SYS_renameat2,
    libc::SYS_sendfile, libc::SYS_splice, libc::SYS_statfs, libc::SYS_statx, libc::SYS_sync_file_range,
    libc::SYS_umask, libc::SYS_unlinkat, libc::SYS_write, libc::SYS_writev,
    // Sockets that are open, and clients of those that listen.
    libc::SYS_accept, libc::SYS_accept4, libc::SYS_getpeername, libc::SYS_getsockname, libc::SYS_getsockopt,
    libc::SYS_recvfrom, libc::SYS_recvmsg, libc::SYS_sendmsg, libc::SYS_sendto, libc::SYS_setsockopt,
    libc::SYS_shutdown,
    // Waiting.
    libc::SYS_clock_nanosleep, libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2, libc::SYS_eventfd2, libc::SYS_futex, libc::SYS_futex_waitv, libc::SYS_nanosleep,
    libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_restart_syscall, libc::SYS_wait4, libc::SYS_waitid,
    // Rings that exist. They only read and write: see `crates/uring`.
    libc::SYS_io_uring_enter,
    // Memory.
    libc::SYS_brk, libc::SYS_madvise, libc::SYS_membarrier, libc::SYS_mincore, libc::SYS_mlock,
    libc::SYS_mlock2, libc::SYS_mremap, libc::SYS_msync, libc::SYS_munlock, libc::SYS_munmap,
    // Threads and their ends.
    libc::SYS_clone3, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_get_robust_list, libc::SYS_gettid,
    libc::SYS_rseq, libc::SYS_sched_getaffinity, libc::SYS_sched_getparam, libc::SYS_sched_getscheduler,
    libc::SYS_sched_yield, libc::SYS_set_robust_list, libc::SYS_set_tid_address, libc::SYS_setsid,
    // Signals.
    libc::SYS_rt_sigaction, libc::SYS_rt_sigpending, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend, libc::SYS_rt_sigtimedwait, libc::SYS_sigaltstack,
    // What the process and the system are.
    libc::SYS_clock_getres, libc::SYS_clock_gettime, libc::SYS_getcpu, libc::SYS_getegid, libc::SYS_geteuid,
    libc::SYS_getgid, libc::SYS_getgroups, libc::SYS_getpgid, libc::SYS_getpid, libc::SYS_getppid,
    libc::SYS_getrandom, libc::SYS_getrusage, libc::SYS_getsid, libc::SYS_gettimeofday, libc::SYS_getuid,
    libc::SYS_sysinfo, libc::SYS_times, libc::SYS_uname,
];

/// musl raises a signal by this call, whose thread may belong to another process. Landlock prevents that.
#[cfg(target_env = "musl")]
const ALLOWED_HERE: &[c_long] = &[libc::SYS_tkill];
#[cfg(not(target_env = "musl"))]
const ALLOWED_HERE: &[c_long] = &[];

/// Older forms of these calls, which not every architecture has. musl makes some of them.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ALLOWED_OLD: &[c_long] = &[
    libc::SYS_access, libc::SYS_arch_prctl, libc::SYS_dup2, libc::SYS_epoll_wait, libc::SYS_getdents,
    libc::SYS_getpgrp, libc::SYS_getrlimit, libc::SYS_link, libc::SYS_lstat, libc::SYS_open, libc::SYS_pause,
    libc::SYS_pipe, libc::SYS_poll, libc::SYS_readlink, libc::SYS_rename, libc::SYS_rmdir, libc::SYS_select,
    libc::SYS_stat, libc::SYS_time, libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_OLD: &[c_long] = &[];

/// Calls that end the process. A driver of a device starts programs, and may make the calls of
/// [`ENDING_WITHOUT_DRIVERS`].
#[rustfmt::skip]
const ENDING: &[c_long] = &[
    libc::SYS_add_key, libc::SYS_bpf, libc::SYS_chroot, libc::SYS_delete_module, libc::SYS_finit_module,
    libc::SYS_fsconfig, libc::SYS_fsmount, libc::SYS_fsopen, libc::SYS_fspick, libc::SYS_init_module,
    libc::SYS_kexec_load, libc::SYS_keyctl, libc::SYS_mount, libc::SYS_mount_setattr, libc::SYS_move_mount,
    libc::SYS_open_by_handle_at, libc::SYS_open_tree, libc::SYS_perf_event_open, libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_ptrace,
    libc::SYS_reboot, libc::SYS_request_key, libc::SYS_setns, libc::SYS_swapoff, libc::SYS_swapon,
    libc::SYS_umount2, libc::SYS_unshare, libc::SYS_userfaultfd,
];
const ENDING_WITHOUT_DRIVERS: &[c_long] = &[libc::SYS_execve, libc::SYS_execveat];

/// Calls of [`ENDING`] that a process makes which reads keys from the kernel's keyring.
const KEYRING: &[c_long] = &[libc::SYS_keyctl, libc::SYS_request_key];

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// The filters, or why there are none.
pub(crate) fn filters(needs: &Needs) -> Result<Vec<BpfProgram>, String> {
    let target = TargetArch::try_from(ARCH);
    let target = target.map_err(|_| "it does not know this CPU".to_owned())?;
    let make = |rules, others, named| {
        let filter = SeccompFilter::new(rules, others, named, target);
        filter
            .and_then(TryInto::try_into)
            .map_err(|error| text(&error))
    };
    let errno = |errno: i32| SeccompAction::Errno(errno.unsigned_abs());
    let mut ending = any_arguments(ENDING);
    if needs.keyring {
        ending.retain(|call, _| !KEYRING.contains(call));
    }
    if needs.drivers.is_some() {
        return Ok(vec![make(
            ending,
            SeccompAction::Allow,
            SeccompAction::KillProcess,
        )?]);
    }
    ending.append(&mut any_arguments(ENDING_WITHOUT_DRIVERS));
    // The arguments of this call are in memory, where a filter cannot see them. The C library then makes
    // threads by `clone`.
    let unknown = any_arguments(&[libc::SYS_clone3]);
    let mut allowed = allowed().map_err(|error| text(&error))?;
    if needs.keyring {
        allowed.append(&mut any_arguments(KEYRING));
    }
    Ok(vec![
        make(ending, SeccompAction::Allow, SeccompAction::KillProcess)?,
        make(unknown, SeccompAction::Allow, errno(libc::ENOSYS))?,
        // Last: it does not allow further filters.
        make(allowed, errno(libc::EPERM), SeccompAction::Allow)?,
    ])
}

fn text(error: &BackendError) -> String {
    error.to_string()
}

/// Has every thread of the process obey `filters`. They may come from the [`filters`] of a CPU without any.
pub(crate) fn install(filters: &Result<Vec<BpfProgram>, String>) -> Outcome {
    let filters = match filters {
        Ok(filters) => filters,
        Err(why) => return Outcome::Missing(why.clone()),
    };
    for filter in filters {
        if let Err(error) = apply_filter_all_threads(filter) {
            return Outcome::Missing(error.to_string());
        }
    }
    Outcome::Taken
}

fn any_arguments(calls: &[c_long]) -> Rules {
    calls.iter().map(|&call| (call, Vec::new())).collect()
}

/// The calls that are allowed, some of them only with certain arguments.
fn allowed() -> Result<Rules, BackendError> {
    let mut rules = any_arguments(ALLOWED);
    rules.append(&mut any_arguments(ALLOWED_OLD));
    rules.append(&mut any_arguments(ALLOWED_HERE));
    let mut add = |call: c_long, when: Vec<Vec<SeccompCondition>>| {
        let when: Result<Vec<_>, _> = when.into_iter().map(SeccompRule::new).collect();
        when.map(|when| rules.insert(call, when))
    };
    // A thread, not a process.
    let thread = flags(libc::CLONE_THREAD);
    add(libc::SYS_clone, vec![vec![has(0, thread, thread)?]])?;
    // Memory whose bytes were data cannot be executed.
    let executable = flags(libc::PROT_EXEC);
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        add(call, vec![vec![has(2, executable, 0)?]])?;
    }
    // These put typed characters into a terminal, whose shell would take them for commands.
    let typing = [TIOCSTI, TIOCLINUX].map(|request| other_than(1, request));
    add(
        libc::SYS_ioctl,
        vec![typing.into_iter().collect::<Result<_, _>>()?],
    )?;
    // The name of a thread or of memory. The process must not become one that others can look into.
    let names = [libc::PR_SET_NAME, libc::PR_GET_NAME, PR_SET_VMA];
    let names = names.map(|option| Ok(vec![is(0, flags(option))?]));
    add(
        libc::SYS_prctl,
        names.into_iter().collect::<Result<_, BackendError>>()?,
    )?;
    // A limit is read, not set.
    add(libc::SYS_prlimit64, vec![vec![is_null(2)?]])?;
    let itself = u64::from(process::id());
    add(libc::SYS_tgkill, vec![vec![is(0, itself)?]])?;
    add(libc::SYS_kill, vec![vec![is(0, itself)?]])?;
    let unix = flags(libc::AF_UNIX);
    add(libc::SYS_socketpair, vec![vec![is(0, unix)?]])?;
    Ok(rules)
}

/// Names a range of memory (`prctl(2)`).
const PR_SET_VMA: i32 = 0x5356_4d41;

/// The crate `libc` gives these requests a type that depends on the C library.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;

fn flags(value: i32) -> u64 {
    u64::from(value.unsigned_abs())
}

fn is(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

fn other_than(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

fn is_null(argument: u8) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)
}

fn has(argument: u8, mask: u64, value: u64) -> Result<SeccompCondition, BackendError> {
    let equal = SeccompCmpOp::MaskedEq(mask);
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, equal, value)
}
