// SPDX-License-Identifier: MIT OR Apache-2.0
//! A mount gives up its rights, and still unmounts.

use super::*;

/// Mounts a volume with what tries to get out of the confinement.
fn confined(folder: &Folder) -> Mounted {
    let luxor = mount(folder, "-v photos.tar.luks dir").env("LUXOR_TRIALS", "all");
    Mounted::spawn_with_notes(luxor, folder.join("dir"))
}

#[test]
fn a_mount_is_confined_and_still_unmounts() {
    let folder = prepared();
    let mut mounted = confined(&folder);
    assert!(fs::read(folder.join("dir/photos.tar")).unwrap() == plain());
    let said = mounted.notes.clone();
    let has = |measure: &str| said.contains(&format!("{measure} yes"));
    assert!(
        has("confined: no_new_privs") && has("capabilities"),
        "{said}"
    );
    let mut threads = 0;
    for thread in fs::read_dir(format!("/proc/{}/task", mounted.child.id())).unwrap() {
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        assert!(status.contains("NoNewPrivs:\t1\n"), "{status}");
        assert!(status.contains("CapEff:\t0000000000000000\n"), "{status}");
        assert!(
            status.contains("Seccomp:\t2\n") || !has("seccomp"),
            "{status}"
        );
        threads += 1;
    }
    assert!(threads >= 3, "{threads}");
    for place in ["here", "new thread"] {
        let refused = |trial| {
            let line = format!("trial {place} {trial}: ");
            let outcome = said.split(&line).nth(1).unwrap_or_else(|| panic!("{said}"));
            !outcome.starts_with("done")
        };
        assert_eq!(refused("read"), has("Landlock"), "{said}");
        assert_eq!(
            refused("start"),
            has("seccomp") || has("Landlock"),
            "{said}"
        );
    }
    mounted.send(Signal::SIGTERM);
    assert_eq!(mounted.child.wait().unwrap().code(), Some(0));
    assert_eq!(fs::read_dir(folder.join("dir")).unwrap().count(), 0);
}

#[test]
fn a_mount_goes_on_if_the_process_that_unmounts_is_killed() {
    let folder = prepared();
    let mut mounted = confined(&folder);
    kill(mounted.unmounting(), Signal::SIGKILL).unwrap();
    mounted.send(Signal::SIGTERM);
    let mut said = String::new();
    mounted.stderr.read_line(&mut said).unwrap();
    let words = "cannot unmount: the process that unmounts has ended";
    assert!(said.contains(words), "{said}");
    assert!(fs::read(folder.join("dir/photos.tar")).unwrap() == plain());
    luxor("umount dir").current_dir(folder.path()).ok();
    assert_eq!(mounted.child.wait().unwrap().code(), Some(0));
    assert_eq!(fs::read_dir(folder.join("dir")).unwrap().count(), 0);
}
