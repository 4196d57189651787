// SPDX-License-Identifier: MIT OR Apache-2.0
//! The constants of the protocol. Names are the document's, less their prefix.

use std::{fmt, io};

/// `NBDMAGIC`: what a server says first.
pub const INIT_PASSWD: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: newstyle negotiation, and the head of each option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// The head of each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// The head of each request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// The head of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// The head of a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// The bytes that no string may exceed: names, descriptions, messages, queries.
pub const MAX_STRING: usize = 4096;
/// The name of the one metadata context that the document defines.
pub const BASE_ALLOCATION: &str = "base:allocation";

/// A set of flags in an integer.
macro_rules! flag_set {
    (
        $(#[$doc:meta])*
        $name:ident: $int:ty { $($(#[$flag_doc:meta])* $flag:ident = $bit:literal;)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name($int);

        impl $name {
            $($(#[$flag_doc])* pub const $flag: Self = Self(1 << $bit);)*

            /// Any bits, unknown ones too.
            #[must_use]
            pub const fn from_bits(bits: $int) -> Self {
                Self(bits)
            }

            /// As on the wire.
            #[must_use]
            pub const fn bits(self) -> $int {
                self.0
            }

            /// Whether all of `other` are set.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// These and `other`.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// These, less `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// Whether none is set.
            #[must_use]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut set = f.debug_set();
                let mut unknown = *self;
                $(
                    if self.contains(Self::$flag) {
                        set.entry(&format_args!("{}", stringify!($flag)));
                        unknown = unknown.without(Self::$flag);
                    }
                )*
                if !unknown.is_empty() {
                    set.entry(&format_args!("{:#x}", unknown.bits()));
                }
                set.finish()
            }
        }
    };
}

flag_set! {
    /// Handshake flags: the server's first word.
    HandshakeFlags: u16 {
        /// The server knows fixed newstyle.
        FIXED_NEWSTYLE = 0;
        /// The server can leave out the zeros after `NBD_OPT_EXPORT_NAME`.
        NO_ZEROES = 1;
    }
}

flag_set! {
    /// Client flags: the answer to [`HandshakeFlags`].
    ClientFlags: u32 {
        /// The client knows fixed newstyle.
        FIXED_NEWSTYLE = 0;
        /// The zeros after `NBD_OPT_EXPORT_NAME` are left out.
        NO_ZEROES = 1;
    }
}

flag_set! {
    /// Transmission flags: what an export can do.
    TransmissionFlags: u16 {
        /// Always set.
        HAS_FLAGS = 0;
        /// Nothing can be written.
        READ_ONLY = 1;
        /// `NBD_CMD_FLUSH` is there.
        SEND_FLUSH = 2;
        /// `NBD_CMD_FLAG_FUA` is there.
        SEND_FUA = 3;
        /// Seeks cost time.
        ROTATIONAL = 4;
        /// `NBD_CMD_TRIM` is there.
        SEND_TRIM = 5;
        /// `NBD_CMD_WRITE_ZEROES` and `NBD_CMD_FLAG_NO_HOLE` are there.
        SEND_WRITE_ZEROES = 6;
        /// `NBD_CMD_FLAG_DF` is there; only with structured replies.
        SEND_DF = 7;
        /// A flush on one connection covers what was acknowledged on all.
        CAN_MULTI_CONN = 8;
        /// Of an experimental extension.
        SEND_RESIZE = 9;
        /// `NBD_CMD_CACHE` is there.
        SEND_CACHE = 10;
        /// `NBD_CMD_FLAG_FAST_ZERO` is there.
        SEND_FAST_ZERO = 11;
    }
}

flag_set! {
    /// Command flags: how a request is to be served.
    CommandFlags: u16 {
        /// Durable before it is acknowledged.
        FUA = 0;
        /// What becomes zero stays allocated.
        NO_HOLE = 1;
        /// A read is answered in one piece.
        DF = 2;
        /// One extent is enough.
        REQ_ONE = 3;
        /// Fail rather than be slow.
        FAST_ZERO = 4;
    }
}

flag_set! {
    /// The flags of a structured reply's chunk.
    ReplyFlags: u16 {
        /// The last chunk for this request.
        DONE = 0;
    }
}

flag_set! {
    /// What `base:allocation` says of an extent.
    AllocationFlags: u32 {
        /// Not allocated.
        HOLE = 0;
        /// Reads as zeros.
        ZERO = 1;
    }
}

/// What a client asks for during the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OptionType {
    /// Takes an export without a chance of an error message.
    ExportName,
    /// Ends the session.
    Abort,
    /// Which exports are there.
    List,
    /// Begins TLS.
    StartTls,
    /// What an export is like.
    Info,
    /// The same, and takes it.
    Go,
    /// Turns structured replies on.
    StructuredReply,
    /// Which metadata contexts are there.
    ListMetaContext,
    /// Chooses metadata contexts.
    SetMetaContext,
    /// Anything else.
    Other(u32),
}

impl OptionType {
    /// From the wire.
    #[must_use]
    pub const fn from_code(code: u32) -> Self {
        match code {
            1 => Self::ExportName,
            2 => Self::Abort,
            3 => Self::List,
            5 => Self::StartTls,
            6 => Self::Info,
            7 => Self::Go,
            8 => Self::StructuredReply,
            9 => Self::ListMetaContext,
            10 => Self::SetMetaContext,
            other => Self::Other(other),
        }
    }

    /// As on the wire.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::ExportName => 1,
            Self::Abort => 2,
            Self::List => 3,
            Self::StartTls => 5,
            Self::Info => 6,
            Self::Go => 7,
            Self::StructuredReply => 8,
            Self::ListMetaContext => 9,
            Self::SetMetaContext => 10,
            Self::Other(code) => code,
        }
    }
}

/// What a server answers to an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum OptionReplyType {
    /// Done.
    Ack = 1,
    /// The name of an export.
    Server = 2,
    /// An [`InfoType`] and its payload.
    Info = 3,
    /// A metadata context.
    MetaContext = 4,
    /// An option that this server does not know.
    ErrUnsup = (1 << 31) + 1,
    /// An option that this server does not allow.
    ErrPolicy = (1 << 31) + 2,
    /// Data that the option cannot have, or not now.
    ErrInvalid = (1 << 31) + 3,
    /// An option that is not there on this platform.
    ErrPlatform = (1 << 31) + 4,
    /// Not before TLS.
    ErrTlsReqd = (1 << 31) + 5,
    /// There is no such export.
    ErrUnknown = (1 << 31) + 6,
    /// The server is about to stop.
    ErrShutdown = (1 << 31) + 7,
    /// Only for clients that heed block sizes.
    ErrBlockSizeReqd = (1 << 31) + 8,
    /// Longer than the server takes.
    ErrTooBig = (1 << 31) + 9,
}

impl OptionReplyType {
    /// As on the wire.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// What a reply of the type [`OptionReplyType::Info`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum InfoType {
    /// Size and transmission flags.
    Export = 0,
    /// The canonical name.
    Name = 1,
    /// A description for people.
    Description = 2,
    /// The minimum, the preferred and the maximum block size.
    BlockSize = 3,
}

impl InfoType {
    /// As on the wire.
    #[must_use]
    pub const fn code(self) -> u16 {
        self as u16
    }
}

/// The type of a structured reply's chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ReplyType {
    /// Nothing more, and no payload.
    None = 0,
    /// An offset and the bytes from there on.
    OffsetData = 1,
    /// An offset and how many zeros are there.
    OffsetHole = 2,
    /// A metadata context and its extents.
    BlockStatus = 5,
    /// An error and a message.
    Error = (1 << 15) + 1,
    /// An error, a message and where in the request it was.
    ErrorOffset = (1 << 15) + 2,
}

impl ReplyType {
    /// As on the wire.
    #[must_use]
    pub const fn code(self) -> u16 {
        self as u16
    }
}

/// An error value: what a client is told of a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ErrorValue {
    /// `NBD_EPERM`: the export cannot be written.
    Perm = 1,
    /// `NBD_EIO`: the storage failed.
    Io = 5,
    /// `NBD_ENOMEM`: out of memory.
    NoMem = 12,
    /// `NBD_EINVAL`: not a request that this server takes.
    Inval = 22,
    /// `NBD_ENOSPC`: no room, or a write beyond the end.
    NoSpc = 28,
    /// `NBD_EOVERFLOW`: too long to be sent in one piece.
    Overflow = 75,
    /// `NBD_ENOTSUP`: zeroes cannot be written quickly.
    NotSup = 95,
    /// `NBD_ESHUTDOWN`: the server is about to stop.
    Shutdown = 108,
}

impl ErrorValue {
    /// As on the wire.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// The document keeps `NBD_EOVERFLOW` and `NBD_ENOTSUP` for two cases of their own, so
/// no error of the system becomes one of them.
impl From<&io::Error> for ErrorValue {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Perm,
            io::ErrorKind::OutOfMemory => Self::NoMem,
            io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => Self::Inval,
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::NoSpc,
            _ => Self::Io,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magics_are_the_documents_words() {
        assert_eq!(&INIT_PASSWD.to_be_bytes(), b"NBDMAGIC");
        assert_eq!(&OPTION_MAGIC.to_be_bytes(), b"IHAVEOPT");
    }

    #[test]
    fn every_option_has_one_code() {
        for code in 0..=0x100 {
            assert_eq!(OptionType::from_code(code).code(), code);
        }
        // 4 was withdrawn.
        assert_eq!(OptionType::from_code(4), OptionType::Other(4));
        assert_eq!(OptionType::from_code(10), OptionType::SetMetaContext);
        assert_eq!(OptionType::from_code(11), OptionType::Other(11));
    }

    #[test]
    fn errors_have_bit_31_and_15() {
        assert_eq!(OptionReplyType::ErrTooBig.code(), 0x8000_0009);
        assert_eq!(OptionReplyType::ErrUnsup.code(), 0x8000_0001);
        assert_eq!(ReplyType::Error.code(), 0x8001);
        assert_eq!(ReplyType::ErrorOffset.code(), 0x8002);
    }

    #[test]
    fn flags_are_sets() {
        let flags = TransmissionFlags::HAS_FLAGS.with(TransmissionFlags::SEND_CACHE);
        assert_eq!(flags.bits(), 0x401);
        assert!(flags.contains(TransmissionFlags::SEND_CACHE));
        assert!(!flags.contains(flags.with(TransmissionFlags::SEND_DF)));
        assert_eq!(flags.without(TransmissionFlags::HAS_FLAGS).bits(), 0x400);
        assert!(flags.without(flags).is_empty());
        assert_eq!(
            format!("{:?}", CommandFlags::from_bits(0x8005)),
            "{FUA, DF, 0x8000}"
        );
    }

    #[test]
    fn errors_of_the_system_become_those_of_the_protocol() {
        // EPERM, EACCES, EROFS, ENOMEM, EINVAL, ENOSPC, EDQUOT, EFBIG, EIO, EOPNOTSUPP, ENODEV
        let expected = [
            (1, 1),
            (13, 1),
            (30, 1),
            (12, 12),
            (22, 22),
            (28, 28),
            (122, 28),
            (27, 28),
            (5, 5),
            (95, 22),
            (19, 5),
        ];
        for (errno, value) in expected {
            let error = io::Error::from_raw_os_error(errno);
            assert_eq!(ErrorValue::from(&error).code(), value, "{error}");
        }
        let short = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(ErrorValue::from(&short), ErrorValue::Io);
    }
}
