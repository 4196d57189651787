// SPDX-License-Identifier: MIT OR Apache-2.0
//! All texts of the sources that name an option or a command, and how their advice is proven.

/// A text in the sources.
pub(super) struct Advice {
    /// A part of it that no other text has. The message is recognised by it too.
    pub(super) text: &'static str,
    /// The part of it that the user sees, if that is another one.
    pub(super) shown: &'static str,
    /// What must be there before, as a shell makes it.
    pub(super) before: &'static str,
    /// The command with this message.
    pub(super) provokes: &'static str,
    pub(super) proof: Proof,
    /// The exit code of the advised command.
    pub(super) code: i32,
    /// What must be true then.
    pub(super) then: &'static str,
}

#[derive(Clone, Copy)]
pub(super) enum Proof {
    /// It names an option or a command and advises nothing.
    Names,
    /// Another test executes it.
    By(&'static str),
    /// It cannot be executed here, for this reason.
    NotHere(#[expect(dead_code, reason = "for the reader")] &'static str),
    /// The command between the `nth` backticks is executed, with values for words in capitals.
    Run {
        nth: usize,
        with: &'static [(&'static str, &'static str)],
    },
    /// The failed command is executed again, with the option that the message names, and this many
    /// values after it.
    Add {
        option: &'static str,
        values: usize,
        with: &'static [(&'static str, &'static str)],
    },
    /// The failed command is executed without these words.
    Without { option: &'static str },
}

pub(super) const RUN: Proof = Proof::Run { nth: 0, with: &[] };

pub(super) const fn add(option: &'static str) -> Proof {
    Proof::Add {
        option,
        values: 0,
        with: &[],
    }
}

const fn new(text: &'static str, proof: Proof) -> Advice {
    Advice {
        text,
        shown: text,
        before: "",
        provokes: "",
        proof,
        code: 0,
        then: "",
    }
}

pub(super) const fn names(text: &'static str) -> Advice {
    new(text, Proof::Names)
}

const fn by(text: &'static str, test: &'static str) -> Advice {
    new(text, Proof::By(test))
}

const fn not_here(text: &'static str, why: &'static str) -> Advice {
    new(text, Proof::NotHere(why))
}

/// A scenario: the text, what is there before, the command that fails, what the message says, and what
/// it promises.
pub(super) const fn case(
    text: &'static str,
    before: &'static str,
    provokes: &'static str,
    proof: Proof,
    then: &'static str,
) -> Advice {
    Advice {
        text,
        shown: text,
        before,
        provokes,
        proof,
        code: 0,
        then,
    }
}

/// Returns the entries.
#[expect(clippy::too_many_lines, reason = "it is a table")]
pub(super) fn table() -> Vec<Advice> {
    let mut table = super::names::names_only();
    table.extend([
        Advice {
            shown: "To leave the rest out, add --size 8.",
            ..case(
                "To leave the rest out, add --size {size}.",
                "head -c 5000 /dev/zero > x; head -c 32 /dev/urandom > k32",
                r#"luxor decrypt --type plain --sector-size 4096 --key-file k32 x out"#,
                Proof::Add {
                    option: "--size",
                    values: 1,
                    with: &[],
                },
                "test $(stat -c %s out) = 4096",
            )
        },
        not_here(
            "the volume may open only with --header",
            "a write fails while the data move to the place of the header",
        ),
        names("Runs the program luxor-bench"),
        names("beside cryptsetup and a copy"),
        // cli/src/commands
        by("`cargo xtask bench` builds and runs it", "bench_says_how_to_get_the_program_that_measures"),
        case(
            "Make a backup of it first",
            "make",
            r#"luxor convert --type luks1 "$v""#,
            Proof::Run { nth: 0, with: &[("NEW-FILE", "backup")] },
            r#"luxor header restore --batch-mode "$v" backup; same"#,
        ),
        case(
            "Encrypt an archive",
            r#"mkdir "my dir"; cp plain "my dir""#,
            r#"luxor encrypt --key-file key "my dir" "$v""#,
            RUN,
            r#"luxor decrypt --key-file key "$v" - | tar t | grep "my dir/plain""#,
        ),
        case(
            "passes discards on.",
            "make",
            r#"luxor mount --allow-discards "$v" DIR"#,
            Proof::Run { nth: 0, with: &[("SOCKET", "socket")] },
            "same",
        ),
        case(
            "To unmount it",
            r#"make; mkdir "my dir"; luxor mount --key-file key "$v" "my dir" < /dev/null > said 2>&1 &
               until mountpoint -q "my dir"; do sleep 0.05; done; pkill -KILL -P $$ luxor; sleep 0.2"#,
            r#"luxor mount --key-file key "$v" "my dir""#,
            RUN,
            r#"! mountpoint -q "my dir""#,
        ),
        by("These commands replay its journal", "a_journal_is_replayed_as_advised"),
        not_here("if root mounts it without --read-only", "a kernel with ext4"),
        by("to replay its journal: leave out", "root_is_told_that_the_kernel_must_write_to_replay_a_journal"),
        by("in place of --volume-partition.", "partitions_within_and_around_the_volume_are_told_apart"),
        by("Without --confine require, Luxor", "a_server_that_must_be_confined_serves_only_if_it_is"),
        by("Leave out --partition. For a", "partitions_within_and_around_the_volume_are_told_apart"),
        by("header restore VOLUME {}`", "success_is_told_on_a_terminal"),
        by("Leave out --files to see it as a file", "plaintext_without_files_is_named"),
        by("needs no driver, and shows the plaintext", "a_missing_driver_is_named_with_its_packages"),
        names("with --files, `luxor mount` shows the files in it"),
        names("to end it: Ctrl-C"),
        names("--allow-other lets root in"),
        by("To make it: `mkdir -p", "a_missing_folder_is_made_as_advised"),
        not_here("`modprobe fuse` loads the module", "a kernel without FUSE"),
        not_here("Its usual mode is 0666", "a container without the device"),
        case(
            "If the re-encryption has begun, this continues it",
            "make",
            r#"luxor reencrypt --key-file key --hotzone-size 4K "$v" &
               until luxor dump "$v" | grep -q online-reencrypt; do sleep 0.01; done; kill $!; wait"#,
            RUN,
            r#"! luxor dump "$v" | grep online-reencrypt; same"#,
        ),
        by("can begin. The command that continues it needs", "either_program_does_the_first_part_of_the_data"),
        case(
            "--encrypt needs either a new --header FILE",
            r#"cp plain "$v""#,
            r#"luxor reencrypt --encrypt --key-file key "$v""#,
            Proof::Add { option: "--header", values: 1, with: &[("FILE", "header")] },
            "same --header header",
        ),
        case(
            "If --encrypt was interrupted, it is needed",
            r#"cp plain "$v"; luxor reencrypt --encrypt --init-only --key-file key --header "my h" "$v""#,
            r#"luxor reencrypt --encrypt --key-file key --header "my h" "$v""#,
            RUN,
            r#"same --header "my h""#,
        ),
        case(
            "all users can read the keys in",
            r#"make; echo short:00 > "my keys"; chmod 644 "my keys""#,
            r#"luxor serve --listen 127.0.0.1:0 --tls-psk "my keys" --key-file key "$v""#,
            RUN,
            r#"[ $(stat -c %a "my keys") = 600 ]"#,
        ),
        case(
            "no address to listen on",
            "make",
            r#"luxor serve --key-file key "$v""#,
            Proof::Add { option: "--socket", values: 1, with: &[("PATH", "socket")] },
            "same",
        ),
        case(
            "--insecure serves without TLS",
            "make",
            r#"luxor serve --listen 127.0.0.1:0 --key-file key "$v""#,
            add("--insecure"),
            "same",
        ),
        by("makes one of 544 KiB", "encrypt_ends_with_what_it_made_and_how_not_to_lose_it"),
        case(
            "Without its header the data are lost",
            "",
            r#"luxor encrypt --key-file key plain "$v""#,
            RUN,
            r#"head -c 16M /dev/zero | dd of="$v" conv=notrunc
               luxor header restore "$v" "$v.header"; same"#,
        ),
        // cli/src/advice.rs
        case(
            "If it was a volume, restore its header from a backup",
            r#"make; luxor header backup "$v" b; head -c 16M /dev/zero | dd of="$v" conv=notrunc"#,
            r#"luxor check "$v""#,
            Proof::Run { nth: 0, with: &[("BACKUP", "b")] },
            "same",
        ),
        case(
            "If it was a volume and was overwritten",
            r#"make; luxor header backup "$v" b; mkfs.ext4 -q -F "$v" 8M"#,
            r#"luxor decrypt --key-file key "$v" out"#,
            Proof::Run { nth: 1, with: &[("BACKUP", "b")] },
            r#"luxor check --key-file key "$v""#,
        ),
        case(
            "If it was this volume, add --force",
            r#"make; luxor header backup "$v" b; head -c 16M /dev/zero | dd of="$v" conv=notrunc"#,
            r#"luxor header restore --batch-mode "$v" b"#,
            add("--force"),
            "same",
        ),
        by(
            "To open the data, give the backup as their header",
            "a_backup_of_a_detached_header_is_not_written_over_the_data",
        ),
        by(
            "If its LUKS header is in another file, name that as well",
            "a_header_without_data_and_data_without_a_header_are_named",
        ),
        case(
            "For a plain dm-crypt volume use",
            "head -c 1M /dev/urandom > data",
            "luxor decrypt --key-file key data out",
            Proof::Run { nth: 1, with: &[("SOCKET", "socket")] },
            "",
        ),
        case(
            "--socket SOCKET VOLUME` or `luxor mount --type plain",
            "head -c 1M /dev/urandom > data",
            "luxor decrypt --key-file key data out",
            Proof::Run { nth: 2, with: &[] },
            "",
        ),
        by("To open it: `{command}`", "a_volume_in_a_partition_is_opened_as_advised"),
        by("this encrypts it: `luxor encrypt", "a_disk_of_a_virtual_machine_is_encrypted_as_advised"),
        by("The volume will contain that format", "a_disk_of_a_virtual_machine_is_encrypted_as_advised"),
        by(
            "To copy the header of the volume in it",
            "a_header_inside_another_file_is_copied_as_advised",
        ),
        by(
            "If you mean that volume, give --volume-offset",
            "a_part_of_a_disk_has_no_partition_table",
        ),
        by(
            "This begins it again: ",
            "an_encryption_that_has_changed_nothing_begins_again_as_advised",
        ),
        by(
            "Only this continues it: ",
            "an_encryption_that_is_killed_at_its_begin_names_what_continues_it",
        ),
        by(
            "This continues it: `luxor reencrypt VOLUME`",
            "an_encryption_that_is_killed_at_its_begin_names_what_continues_it",
        ),
        by(
            "If you mean the volume in it, add {option}",
            "a_volume_in_a_partition_is_opened_as_advised",
        ),
        by(
            "If you know where the volume begins in it, add --volume-offset SIZE",
            "a_volume_at_another_byte_is_opened_as_advised",
        ),
        by(
            "--volume-offset SIZE opens the part that is there",
            "a_volume_at_an_offset_ends_with_its_file",
        ),
        by(
            "If it is a backup, name the volume",
            "a_header_without_data_and_data_without_a_header_are_named",
        ),
        by(
            "gives it a possible length",
            "the_sector_size_is_that_of_cryptsetup",
        ),
        // cli/src/cryptsetup.rs
        by("Luxor's form of this command has", "advice_leads_to_what_it_promises"),
        case(
            "`luxor mount --type plain --key-file KEY VOLUME DIR` shows",
            "cp plain data",
            "luxor plainOpen data name",
            Proof::Run { nth: 0, with: &[("VOLUME", "data")] },
            "",
        ),
        case(
            "SIGTERM ends `luxor serve`",
            r#"make; setsid luxor mount --key-file key "$v" DIR < /dev/null > said 2>&1 &
               until mountpoint -q DIR; do sleep 0.05; done"#,
            "luxor close name",
            RUN,
            "! mountpoint -q DIR",
        ),
        case(
            "`luxor dump VOLUME` shows the metadata",
            "make; cp \"$v\" VOLUME",
            "luxor status name",
            RUN,
            "",
        ),
        case(
            "shows the plaintext as a file, `luxor serve --socket",
            "make; cp \"$v\" VOLUME",
            "luxor luksOpen \"$v\" name",
            Proof::Run { nth: 4, with: &[("FILE", "file")] },
            "cmp plain file",
        ),
        // cli/src/error.rs
        case(
            "If you have a backup of the header",
            r#"make; luxor header backup "$v" "my backup"; dd if=/dev/zero of="$v" bs=1k seek=1 count=64 conv=notrunc"#,
            r#"luxor decrypt --key-file key "$v" out"#,
            Proof::Run { nth: 0, with: &[("BACKUP", "'my backup'")] },
            "same",
        ),
        case(
            "(--force replaces it)",
            "make; cp key plain2",
            r#"luxor decrypt --key-file key "$v" plain2"#,
            add("--force"),
            "cmp plain plain2",
        ),
        by("--force writes to it", "another_users_fifo_gets_nothing"),
        by("--force overwrites what is on it", "block_devices_are_outputs_and_inputs"),
        by("Detach one of the two first", "one_of_two_loop_devices_over_a_file_is_not_changed"),
        by("Without a lock, two changes", "a_file_system_without_locks_counts_as_no_lock"),
        by("Without the lock, two changes", "a_change_without_cryptsetups_lock_is_refused"),
        by("--force restores it nevertheless", "a_backup_that_does_not_fit_needs_force"),
        by("Name that file as the volume", "a_detached_header_needs_its_data"),
        by("To lose the end of the file nevertheless", "a_token_that_ends_a_file_is_lost_only_by_force"),
        by("and encrypt it again with --uuid UUID", "a_volume_with_a_trailer_keeps_its_uuid"),
        by("this sets the old one back", "a_volume_with_a_trailer_keeps_its_uuid"),
        case(
            "Name another keyslot with --new-key-slot N, or use",
            "make",
            r#"luxor key add --key-file key --new-key-file other --new-key-slot 0 "$v""#,
            Proof::Add { option: "--new-key-slot", values: 1, with: &[("N,", "3"), ("N", "3")] },
            r#"luxor key test --key-file other "$v"; same"#,
        ),
        case(
            "To overwrite it with the new one",
            "make --luks2-keyslots-size 256K",
            r#"luxor key change --key-file key --new-key-file other "$v""#,
            Proof::Add { option: "--in-place", values: 1, with: &[] },
            r#"luxor key test --key-file other "$v"; ! luxor key test --key-file key "$v""#,
        ),
        case(
            "repairs what can be repaired without loss",
            r#"make --type luks1; printf '\1' | dd of="$v" bs=1 seek=544 conv=notrunc"#,
            r#"luxor check "$v""#,
            RUN,
            r#"luxor check "$v"; same"#,
        ),
        by("Otherwise `luxor header repair --force VOLUME` empties", "each_field_of_luks1_is_read_as_cryptsetup_reads_it"),
        by("Otherwise `luxor header repair --force VOLUME` repairs", "the_only_keyslot_survives_every_advised_repair"),
        by("`luxor check VOLUME` says what helps", "each_field_of_luks1_is_read_as_cryptsetup_reads_it"),
        case(
            "To remove it without a secret, add --force",
            r#"make --type luks1; luxor key add --key-file key --new-key-file other "$v"
               printf 'serpent\0' | dd of="$v" bs=1 seek=8 conv=notrunc"#,
            r#"luxor key remove --key-slot 1 --key-file key "$v""#,
            add("--force"),
            r#"test $(luxor key list "$v" | grep -c pbkdf2) = 1"#,
        ),
        case(
            "adds zeros, which become a part of the data",
            r#"head -c 1000 plain > "$v""#,
            r#"luxor reencrypt --encrypt --header h --key-file key "$v""#,
            RUN,
            r#"luxor reencrypt --encrypt --header h --key-file key "$v"
               luxor decrypt --header h --key-file key "$v" out; cmp -n 1000 plain out"#,
        ),
        case(
            "To remove it nevertheless, add --last",
            "make",
            r#"luxor key remove --key-file key "$v""#,
            add("--last"),
            r#"! luxor key test --key-file key "$v""#,
        ),
        case(
            "Use --type luks2, which can store any length",
            "head -c 1000 plain > odd",
            r#"luxor encrypt --type luks1 --key-file key odd "$v""#,
            add("--type luks2"),
            r#"luxor decrypt --key-file key "$v" out; cmp odd out"#,
        ),
        case(
            "Use --read-only, or finish it",
            r#"make; luxor reencrypt --init-only --key-file key "$v""#,
            r#"luxor mount --key-file key "$v" DIR"#,
            RUN,
            r#"! luxor dump "$v" | grep online-reencrypt; same"#,
        ),
        case(
            "To create a new file, add --size SIZE",
            "",
            r#"luxor format --key-file key "$v""#,
            Proof::Add { option: "--size", values: 1, with: &[("SIZE", "1M")] },
            r#"luxor check --key-file key "$v""#,
        ),
        not_here("It may work without --direct", "a file system without direct I/O"),
        case(
            "Finish it first: ",
            r#"make; luxor reencrypt --init-only --key-file key "$v""#,
            r#"luxor key add --key-file key --new-key-file other "$v""#,
            RUN,
            r#"luxor key add --key-file key --new-key-file other "$v"; same"#,
        ),
        case(
            "--force drops it.",
            r#"make --sector-size 512; luxor config --label name "$v""#,
            r#"luxor convert --batch-mode --type luks1 "$v""#,
            add("--force"),
            r#"luxor isLuks --type luks1 "$v"; same"#,
        ),
        case(
            "Run `luxor header repair VOLUME`",
            r#"make; dd if=/dev/zero of="$v" bs=1 seek=16484 count=200 conv=notrunc"#,
            r#"luxor convert --batch-mode --type luks1 "$v""#,
            RUN,
            r#"luxor check "$v"; same"#,
        ),
        case(
            "`luxor engines` lists the engines",
            "",
            "luxor encrypt --engine nothing --key-file key plain w",
            RUN,
            "",
        ),
        by("copy it to a file of its own", "a_header_backup_in_a_part_is_not_restored_from_there"),
        by("--read-only allows other readers", "a_writing_mount_is_exclusive_and_read_only_mounts_are_not"),
        by("to unmount it: `luxor umount", "files_beneath_another_mount_stay_mounted"),
        by("Choose a partition with --partition N", "a_partition_of_the_plaintext_is_chosen"),
        by("to the program that repairs it", "a_file_system_with_errors_is_repaired_as_advised"),
        by("--read-write permits writes", "a_weaker_driver_writes_only_when_asked_to"),
        case(
            "and that file can be mounted in",
            r#"make; mv "$v" plain; make"#,
            r#"luxor mount --files --key-file key "$v" DIR"#,
            RUN,
            "! mountpoint -q DIR",
        ),
        case(
            "and assemble it with the programs of LVM",
            r#"dd if=/dev/zero of=plain bs=1M count=1; printf LABELONE | dd of=plain bs=512 seek=1 conv=notrunc; make"#,
            r#"luxor mount --files --key-file key "$v" DIR"#,
            RUN,
            "! mountpoint -q DIR",
        ),
        by("--read-only needs no permission to write", "read_only_is_advised_where_it_is_an_option"),
        // cli/src
        not_here("memory for secrets could not be locked", "it depends on the system's limits"),
        case(
            "Use --type luks2.",
            "",
            r#"luxor encrypt --type luks1 --sector-size 4096 --key-file key plain "$v""#,
            add("--type luks2"),
            "same",
        ),
        case(
            "Use --key-size {found}.",
            "",
            r#"luxor encrypt --volume-key-file KEY --key-file key plain "$v""#,
            Proof::Add { option: "--key-size", values: 1, with: &[] },
            "same",
        ),
        by("`(umask 077; tail -c +4 {path}", "a_secret_that_fails_may_have_a_newline_or_another_encoding"),
        by("converts it to {to}", "a_secret_that_fails_may_have_a_newline_or_another_encoding"),
        by("`(umask 077; tr -d '\\r\\n' < {path}", "a_secret_that_fails_may_have_a_newline_or_another_encoding"),
        not_here("Put it into a file: --key-file FILE.", "a typed line that is too long"),
        by("clevis luks pass -d", "a_volume_with_tokens_only_names_the_command_for_its_secret"),
        by("cryptsetup luksAddKey --token-id", "a_volume_with_tokens_only_names_the_command_for_its_secret"),
        case(
            "There is no terminal to ask for confirmation",
            "make",
            r#"setsid --wait luxor erase "$v""#,
            add("--batch-mode"),
            r#"! luxor key test --key-file key "$v""#,
        ),
        by("Put the secret into a file: {key_file}", "standard_input_is_not_both_data_and_secret"),
        case(
            "To use a part of it, add",
            "truncate -s 9M big",
            r#"luxor encrypt --key-file big plain "$v""#,
            Proof::Add { option: "--keyfile-size", values: 1, with: &[("BYTES", "100")] },
            r#"luxor decrypt --key-file big --keyfile-size 100 "$v" out; cmp plain out"#,
        ),
        by("give {descriptor} 0 in place", "a_secret_that_fails_may_have_a_newline_or_another_encoding"),
        by("give {descriptor} {number} {number}<", "a_secret_that_fails_may_have_a_newline_or_another_encoding"),
        case(
            "Give the secret with {key_file}",
            "make",
            r#"setsid --wait luxor decrypt "$v" out"#,
            Proof::Add { option: "--key-file", values: 1, with: &[("FILE", "key")] },
            "cmp plain out",
        ),
        // luks/src
        case(
            "Convert the keyslot first",
            r#"make --sector-size 512 --pbkdf argon2id --pbkdf-memory 32 --pbkdf-force-iterations 4"#,
            r#"luxor convert --batch-mode --type luks1 "$v""#,
            RUN,
            r#"luxor convert --batch-mode --type luks1 "$v"; same"#,
        ),
        case(
            "To keep the LUKS volume, overwrite that",
            r#"make; printf 'hsqs' | dd of="$v" bs=1 conv=notrunc"#,
            r#"luxor header repair "$v""#,
            RUN,
            "same",
        ),
        not_here("If that persists, `luxor header repair", "a disk with a bad sector"),
        not_here("check the volume (`luxor dump VOLUME`", "a disk that fails"),
        not_here("When reading works again, check the volume", "a disk that fails"),
        not_here("When writing works again, `luxor header repair VOLUME`", "a disk that fails"),
        not_here("When writing works again, repair its header", "a disk that fails"),
        not_here("makes both copies of the header equal again", "a disk that fails"),
        case(
            "makes both copies equal",
            r#"make; dd if=/dev/zero of="$v" bs=1 seek=16484 count=200 conv=notrunc"#,
            r#"luxor dump "$v""#,
            RUN,
            r#"luxor check "$v"; same"#,
        ),
        by("Keep both: `luxor header backup VOLUME NEW-FILE`", "a_keyslot_of_the_older_copy_is_lost_only_by_force"),
        by("repair --force VOLUME` makes the secondary copy", "copies_of_equal_age_are_overwritten_only_by_force"),
        by("Ask for less with --pbkdf-memory", "too_little_memory_for_argon2_exits_with_3"),
        not_here("`cryptsetup repair VOLUME` adds a digest", "a state of cryptsetup before 2.4.3"),
        by("Unless another program is re-encrypting it now", "programs_that_are_killed_take_turns"),
        case(
            "To try keyslot {number} too, add --key-slot",
            r#"make; luxor key add --key-file key --new-key-file other "$v"
               luxor config --priority ignore --key-slot 0 "$v""#,
            r#"luxor decrypt --key-file key "$v" out"#,
            Proof::Add { option: "--key-slot", values: 1, with: &[] },
            "cmp plain out",
        ),
        case(
            "lets keyslot {number} be tried",
            r#"make; luxor key add --key-file key --new-key-file other "$v"
               luxor config --priority ignore --key-slot 0 "$v""#,
            r#"luxor key remove --key-file key "$v""#,
            RUN,
            r#"luxor key remove --key-file key "$v"; luxor key test --key-file other "$v""#,
        ),
        case(
            "To read the data all the same, use --allow-weak-key",
            r#"head -c 32 KEY > half; cat half half > weak
               truncate -s 18M "$v"; cryptsetup luksFormat --batch-mode --type luks2 --pbkdf pbkdf2 \
               --pbkdf-force-iterations 1000 --volume-key-file weak --key-size 512 --key-file key "$v""#,
            r#"luxor decrypt --key-file key "$v" out"#,
            add("--allow-weak-key"),
            "[ -s out ]",
        ),
        // luxor/src
        by("looks for it in all sectors", "the_trailer_alone_ends_the_file"),
        not_here("{why}: run `luxor engines --calibrate`", "a line of `luxor engines`: calibration.rs"),
        case(
            "names a new file for a copy of the header",
            "make",
            r#"luxor reencrypt --decrypt --key-file key "$v""#,
            Proof::Add {
                option: "--header",
                values: 1,
                with: &[("FILE", "header")],
            },
            "",
        ),
        by("Without --header its own is used", "an_interrupted_decryption_is_continued_as_advised"),
        by("`luxor reencrypt --decrypt VOLUME`", "an_interrupted_decryption_is_continued_as_advised"),
        case(
            "Without --header that one is used",
            r#"make --header header; mv "$v" data; make"#,
            r#"luxor reencrypt --key-file key --header header "$v""#,
            Proof::Without { option: "--header header" },
            "same",
        ),
        case(
            "Leave out --key-slot.",
            r#"make; luxor reencrypt --init-only --key-file key "$v""#,
            r#"luxor reencrypt --key-file key --key-slot 1 "$v""#,
            Proof::Without { option: "--key-slot 1" },
            "same",
        ),
        case(
            "Convert it first: `luxor",
            "make --type luks1",
            r#"luxor reencrypt --key-file key "$v""#,
            RUN,
            r#"luxor reencrypt --key-file key "$v"; same"#,
        ),
        case(
            "cuts that off.",
            r#"make; truncate -s +64K "$v""#,
            r#"luxor reencrypt --key-file key "$v""#,
            RUN,
            r#"luxor reencrypt --key-file key "$v"; same"#,
        ),
        case(
            "The secret of each keyslot is needed",
            r#"make; luxor key add --key-file key --new-key-file other "$v""#,
            r#"luxor reencrypt --key-file key "$v""#,
            Proof::Run { nth: 0, with: &[(" N ", " 0 ")] },
            r#"same; ! luxor key test --key-file other "$v""#,
        ),
        case(
            "This writes the data to a new file",
            r#"cat plain | luxor encrypt --key-file key - - | cat > "$v""#,
            r#"luxor reencrypt --decrypt --header header --key-file key "$v""#,
            Proof::Run { nth: 0, with: &[("NEW-FILE", "new")] },
            "cmp plain new",
        ),
        by("--resilience checksum needs less room than a journal", "what_does_not_fit_stays_as_it_is"),
        by("the same command continues, with the same --reduce-device-size", "either_program_begins_and_either_ends"),
        case(
            "Make it longer first",
            r#"truncate -s 63M "$v"; cat plain >> "$v"; cp "$v" before"#,
            r#"luxor reencrypt --encrypt --reduce-device-size 32M --key-file key "$v""#,
            RUN,
            r#"luxor reencrypt --encrypt --reduce-device-size 32M --key-file key "$v"
               luxor decrypt --key-file key "$v" out; cmp -n 67108864 before out"#,
        ),
        case(
            "This continues it: `luxor reencrypt --resume-only",
            r#"cp plain "$v"; truncate -s 64M "$v"
               luxor reencrypt --encrypt --init-only --reduce-device-size 32M --key-file key "$v""#,
            r#"luxor reencrypt --encrypt --reduce-device-size 32M --key-file key "$v""#,
            RUN,
            r#"luxor decrypt --key-file key "$v" out; cmp -n 1048576 plain out"#,
        ),
        case(
            "`luxor reencrypt VOLUME` continues this",
            r#"make; luxor reencrypt --init-only --resilience none --key-file key "$v""#,
            r#"luxor serve --reencrypt --socket socket --key-file key "$v""#,
            RUN,
            "same",
        ),
        case(
            "Leave out --device-size",
            "make",
            r#"luxor reencrypt --batch-mode --device-size 900M --key-file key "$v""#,
            Proof::Without { option: "--device-size 900M" },
            "same",
        ),
        case(
            "Leave out --shrink",
            r#"luxor format --key-file key --size 1M "$v""#,
            r#"luxor resize --shrink --size 2M "$v""#,
            Proof::Without { option: "--shrink" },
            r#"luxor check "$v""#,
        ),
        not_here("A smaller --hotzone-size needs less", "too little memory"),
        not_here("Unless nothing protects the data (--resilience none), this continues it", "a disk that fails"),
        by("It is kept as it has begun", "the_keyslots_that_are_kept_can_be_named_again"),
        by(
            "If the data are in a partition, or begin at another byte",
            "a_disk_is_not_taken_for_the_data_in_one_of_its_partitions",
        ),
        case(
            "--shrink makes the volume as long as what is left",
            r#"luxor format --key-file key --size 1M "$v"; truncate -s -100 "$v""#,
            r#"luxor resize "$v""#,
            add("--shrink"),
            r#"luxor decrypt --key-file key "$v" out; [ $(length out) = 1044480 ]"#,
        ),
        case(
            "--shrink makes it shorter nevertheless",
            "make",
            r#"luxor resize --size 4096 "$v""#,
            add("--shrink"),
            r#"luxor decrypt --key-file key "$v" out; cmp -n 4096 plain out; [ $(length out) = 4096 ]"#,
        ),
        case(
            "--shrink makes the file shorter nevertheless",
            r#"make; truncate -s +64K "$v""#,
            r#"luxor resize "$v""#,
            add("--shrink"),
            "same",
        ),
        case(
            "To lose the other {lost} bytes, add",
            r#"make; truncate -s -8192 "$v""#,
            r#"luxor resize "$v""#,
            Proof::Add { option: "--shrink --size", values: 1, with: &[] },
            r#"luxor decrypt --key-file key "$v" out; cmp -n 1040384 plain out; [ $(length out) = 1040384 ]"#,
        ),
        case(
            "saves the whole sectors that are left",
            r#"make; truncate -s -5000 "$v""#,
            r#"luxor decrypt --key-file key "$v" out"#,
            Proof::Run { nth: 0, with: &[("NEW-FILE", "new")] },
            "cmp -n 1040384 plain new; [ $(length new) = 1040384 ]",
        ),
        // sector/src, volume/src
        by("Divide it into data units with --data-unit", "without_data_unit_the_input_is_one_data_unit"),
        not_here("Choose another engine with --engine", "an engine without this mode"),
        by("allow it with --pbkdf-memory-limit", "limits_can_be_lifted"),
        by("allow it with --pbkdf-iterations-limit {time}", "limits_can_be_lifted"),
        by("allow it with --pbkdf-iterations-limit {iterations}", "limits_can_be_lifted"),
        not_here("Try one keyslot alone with --key-slot N", "a volume that takes minutes to open"),
    ]);
    for advice in &mut table {
        match advice.text {
            "Give the secret with {key_file}" => advice.shown = "Give the secret with --key-file",
            "To try keyslot {number} too, add --key-slot" => advice.shown = "To try keyslot ",
            "lets keyslot {number} be tried" => advice.shown = "lets keyslot ",
            "Use --key-size {found}." => advice.shown = "Use --key-size ",
            "To lose the other {lost} bytes, add" => advice.shown = "To lose the other ",
            "For a plain dm-crypt volume use"
            | "--socket SOCKET VOLUME` or `luxor mount --type plain" => {
                advice.shown = "For a plain dm-crypt volume";
            }
            "`luxor mount --type plain --key-file KEY VOLUME DIR` shows" => {
                advice.shown = "--key-file KEY ";
            }
            "`luxor dump VOLUME` shows the metadata" => advice.shown = "shows the metadata",
            "shows the plaintext as a file, `luxor serve --socket" => {
                advice.shown = "shows the plaintext as a file";
            }
            "Run `luxor header repair VOLUME`" => advice.shown = "Run `luxor header repair",
            "`luxor reencrypt VOLUME` continues this" => advice.shown = "continues this",
            "saves the whole sectors that are left" => advice.code = 1,
            "If the re-encryption has begun, this continues it" => advice.code = 0,
            _ => {}
        }
    }
    table
}
