// SPDX-License-Identifier: MIT OR Apache-2.0
//! What client and server agreed on, and which requests conform to it.

use super::{
    request::{Command, Request},
    wire::{CommandFlags, ErrorValue, TransmissionFlags},
};

/// The most bytes that one read or write can carry: 32 MiB. Requests that carry no bytes can be as
/// long as the protocol allows, because the Linux kernel's client does not ask for limits.
pub const MAX_PAYLOAD: u32 = 32 << 20;

/// What client and server agreed on in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The length of the export in bytes.
    pub size: u64,
    /// The capabilities of the export that the client was given.
    pub flags: TransmissionFlags,
    /// Whether the client enabled structured replies: reads are then answered in chunks, and errors
    /// can have messages.
    pub structured_replies: bool,
    /// Whether the client chose the metadata context `base:allocation`.
    pub base_allocation: bool,
}

/// Why a request must not be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The error value for the reply.
    pub error: ErrorValue,
    /// The reason, for people.
    pub message: &'static str,
}

impl Agreed {
    /// Checks whether `request` can be served: the command and its flags were offered, and the
    /// range lies within the export.
    ///
    /// A request of zero bytes is refused, because the document does not define it. A
    /// [`Command::Disconnect`] is never refused.
    ///
    /// # Errors
    /// Returns a [`Refusal`] with the error value that the document prescribes. The caller still
    /// has to skip the payload ([`Request::payload_len`]).
    pub fn check(&self, request: &Request) -> Result<(), Refusal> {
        let flag = |flag| self.flags.contains(flag);
        match request.command {
            Command::Disconnect => return Ok(()),
            command if command.writes() && flag(TransmissionFlags::READ_ONLY) => {
                return refuse(ErrorValue::Perm, "the export is read-only");
            }
            _ => {}
        }
        let offered = match request.command {
            Command::Read | Command::Write | Command::Disconnect => true,
            Command::Flush => flag(TransmissionFlags::SEND_FLUSH),
            Command::Trim => flag(TransmissionFlags::SEND_TRIM),
            Command::Cache => flag(TransmissionFlags::SEND_CACHE),
            Command::WriteZeroes => flag(TransmissionFlags::SEND_WRITE_ZEROES),
            Command::BlockStatus => self.base_allocation,
            Command::Other(_) => false,
        };
        if !offered {
            return refuse(ErrorValue::Inval, "a command that was not offered");
        }
        if !self.flags_for(request.command).contains(request.flags) {
            return refuse(ErrorValue::Inval, "a flag that this command cannot have");
        }
        if request.command == Command::Flush {
            return if request.offset == 0 && request.len == 0 {
                Ok(())
            } else {
                refuse(ErrorValue::Inval, "a flush has no offset and no length")
            };
        }
        if request.len == 0 {
            return refuse(ErrorValue::Inval, "a length of zero bytes");
        }
        if matches!(request.command, Command::Read | Command::Write) && request.len > MAX_PAYLOAD {
            return refuse(ErrorValue::Inval, "longer than 32 MiB");
        }
        match request.offset.checked_add(u64::from(request.len)) {
            Some(end) if end <= self.size => Ok(()),
            _ => {
                let error = match request.command {
                    Command::Write | Command::WriteZeroes => ErrorValue::NoSpc,
                    _ => ErrorValue::Inval,
                };
                refuse(error, "beyond the end of the export")
            }
        }
    }

    fn flags_for(&self, command: Command) -> CommandFlags {
        let mut flags = match command {
            Command::Read if self.flags.contains(TransmissionFlags::SEND_DF) => CommandFlags::DF,
            Command::WriteZeroes if self.flags.contains(TransmissionFlags::SEND_FAST_ZERO) => {
                CommandFlags::NO_HOLE.with(CommandFlags::FAST_ZERO)
            }
            Command::WriteZeroes => CommandFlags::NO_HOLE,
            Command::BlockStatus => CommandFlags::REQ_ONE,
            _ => CommandFlags::default(),
        };
        // FUA is also valid, without effect, for commands that do not write.
        if self.flags.contains(TransmissionFlags::SEND_FUA) {
            flags = flags.with(CommandFlags::FUA);
        }
        flags
    }
}

const fn refuse(error: ErrorValue, message: &'static str) -> Result<(), Refusal> {
    Err(Refusal { error, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = (1 << 40) + 7;
    const ALL: TransmissionFlags = TransmissionFlags::HAS_FLAGS
        .with(TransmissionFlags::SEND_FLUSH)
        .with(TransmissionFlags::SEND_FUA)
        .with(TransmissionFlags::SEND_TRIM)
        .with(TransmissionFlags::SEND_WRITE_ZEROES)
        .with(TransmissionFlags::SEND_DF)
        .with(TransmissionFlags::CAN_MULTI_CONN)
        .with(TransmissionFlags::SEND_CACHE);

    const COMMANDS: [Command; 8] = [
        Command::Read,
        Command::Write,
        Command::Trim,
        Command::Cache,
        Command::WriteZeroes,
        Command::BlockStatus,
        Command::Flush,
        Command::Other(8),
    ];

    fn agreed(flags: TransmissionFlags) -> Agreed {
        Agreed {
            size: SIZE,
            flags,
            structured_replies: true,
            base_allocation: true,
        }
    }

    fn verdict(agreed: &Agreed, command: Command, flags: u16, offset: u64, len: u32) -> u32 {
        let request = Request {
            cookie: 1,
            command,
            flags: CommandFlags::from_bits(flags),
            offset,
            len,
        };
        match agreed.check(&request) {
            Ok(()) => 0,
            Err(refusal) => {
                assert!(!refusal.message.is_empty());
                refusal.error.code()
            }
        }
    }

    /// The error values for read, write, trim, cache, write zeroes and block status. 0 means
    /// accepted.
    #[test]
    fn ranges() {
        let mib_32 = 32 << 20;
        let table: [(u64, u32, [u32; 6]); 12] = [
            (0, 1, [0; 6]),
            (SIZE - 1, 1, [0; 6]),
            (SIZE - u64::from(mib_32), mib_32, [0; 6]),
            (0, mib_32 + 1, [22, 22, 0, 0, 0, 0]),
            (0, u32::MAX, [22, 22, 0, 0, 0, 0]),
            (0, 0, [22; 6]),
            (SIZE, 0, [22; 6]),
            (SIZE, 1, [22, 28, 22, 22, 28, 22]),
            (SIZE - 1, 2, [22, 28, 22, 22, 28, 22]),
            (u64::MAX, 1, [22, 28, 22, 22, 28, 22]),
            (u64::MAX - 4095, 4096, [22, 28, 22, 22, 28, 22]),
            (u64::MAX, u32::MAX, [22, 22, 22, 22, 28, 22]),
        ];
        let agreed = agreed(ALL);
        for (offset, len, expected) in table {
            for (command, expected) in COMMANDS.into_iter().zip(expected) {
                assert_eq!(
                    verdict(&agreed, command, 0, offset, len),
                    expected,
                    "{command:?} of {len} at {offset}"
                );
            }
        }
    }

    #[test]
    fn a_flush_has_no_range() {
        let agreed = agreed(ALL);
        assert_eq!(verdict(&agreed, Command::Flush, 0, 0, 0), 0);
        assert_eq!(verdict(&agreed, Command::Flush, 0, 0, 1), 22);
        assert_eq!(verdict(&agreed, Command::Flush, 0, 1, 0), 22);
    }

    #[test]
    fn a_disconnect_is_never_refused() {
        let agreed = agreed(TransmissionFlags::HAS_FLAGS.with(TransmissionFlags::READ_ONLY));
        let all = u16::MAX;
        assert_eq!(
            verdict(&agreed, Command::Disconnect, all, u64::MAX, u32::MAX),
            0
        );
    }

    #[test]
    fn commands_that_were_not_offered_are_refused() {
        let offers = [
            (Command::Trim, TransmissionFlags::SEND_TRIM),
            (Command::Cache, TransmissionFlags::SEND_CACHE),
            (Command::WriteZeroes, TransmissionFlags::SEND_WRITE_ZEROES),
            (Command::Flush, TransmissionFlags::SEND_FLUSH),
        ];
        for (command, flag) in offers {
            let len = u32::from(command != Command::Flush);
            assert_eq!(verdict(&agreed(ALL), command, 0, 0, len), 0, "{command:?}");
            let without = agreed(ALL.without(flag));
            assert_eq!(verdict(&without, command, 0, 0, len), 22, "{command:?}");
        }
        let no_context = Agreed {
            base_allocation: false,
            ..agreed(ALL)
        };
        assert_eq!(verdict(&no_context, Command::BlockStatus, 0, 0, 1), 22);
        assert_eq!(verdict(&agreed(ALL), Command::Other(8), 0, 0, 1), 22);
    }

    /// Tests each command with each flag alone.
    #[test]
    fn flags() {
        // FUA, NO_HOLE, DF, REQ_ONE, FAST_ZERO, and an undefined flag.
        let table = [
            (Command::Read, [0, 22, 0, 22, 22, 22]),
            (Command::Write, [0, 22, 22, 22, 22, 22]),
            (Command::Trim, [0, 22, 22, 22, 22, 22]),
            (Command::Cache, [0, 22, 22, 22, 22, 22]),
            (Command::WriteZeroes, [0, 0, 22, 22, 22, 22]),
            (Command::BlockStatus, [0, 22, 22, 0, 22, 22]),
            (Command::Flush, [0, 22, 22, 22, 22, 22]),
        ];
        for (command, expected) in table {
            let len = u32::from(command != Command::Flush);
            for (bit, expected) in expected.into_iter().enumerate() {
                let flags = 1 << bit;
                let found = verdict(&agreed(ALL), command, flags, 0, len);
                assert_eq!(found, expected, "{command:?}, bit {bit}");
                let found = verdict(&agreed(ALL), command, flags | 0x8000, 0, len);
                assert_eq!(found, 22, "{command:?}, bit {bit} and an unknown one");
            }
            let without = agreed(ALL.without(TransmissionFlags::SEND_FUA));
            assert_eq!(verdict(&without, command, 1, 0, len), 22, "{command:?}");
        }
        let without = agreed(ALL.without(TransmissionFlags::SEND_DF));
        assert_eq!(verdict(&without, Command::Read, 1 << 2, 0, 1), 22);
        let fast = agreed(ALL.with(TransmissionFlags::SEND_FAST_ZERO));
        assert_eq!(verdict(&fast, Command::WriteZeroes, 0b1_0011, 0, 1), 0);
    }

    /// The read-only error comes before all others, so that the client learns the actual reason.
    #[test]
    fn a_read_only_export_is_not_written() {
        let read_only = agreed(ALL.with(TransmissionFlags::READ_ONLY));
        for command in COMMANDS {
            let expected = match command {
                Command::Write | Command::Trim | Command::WriteZeroes => 1,
                Command::Flush | Command::Other(_) => 22,
                _ => 0,
            };
            assert_eq!(
                verdict(&read_only, command, 0, 0, 1),
                expected,
                "{command:?}"
            );
        }
        assert_eq!(verdict(&read_only, Command::Write, 0x8000, u64::MAX, 0), 1);
        assert_eq!(verdict(&read_only, Command::Flush, 0, 0, 0), 0);
        let no_trim = agreed(TransmissionFlags::HAS_FLAGS.with(TransmissionFlags::READ_ONLY));
        assert_eq!(verdict(&no_trim, Command::Trim, 0, 0, 1), 1);
    }
}
