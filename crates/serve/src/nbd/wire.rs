// SPDX-License-Identifier: MIT OR Apache-2.0
//! The constants of the protocol. Their names are the document's without the prefix.

use std::{fmt, io};

/// `NBDMAGIC`: the first bytes that a server sends.
pub const INIT_PASSWD: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: announces newstyle negotiation, and begins each option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Begins each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Begins each request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Begins a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Begins a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// The greatest length of a string in bytes: names, descriptions, messages and queries.
pub const MAX_STRING: usize = 4096;
/// The name of the only metadata context that the document defines.
pub const BASE_ALLOCATION: &str = "base:allocation";

/// Defines a set of flags in an integer.
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

            /// Makes a set from any bits, including unknown ones.
            #[must_use]
            pub const fn from_bits(bits: $int) -> Self {
                Self(bits)
            }

            /// The bits as sent on the wire.
            #[must_use]
            pub const fn bits(self) -> $int {
                self.0
            }

            /// Whether all flags of `other` are set.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// These flags and those of `other`.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// These flags without those of `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// Whether no flag is set.
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
    /// Handshake flags: the first flags that the server sends.
    HandshakeFlags: u16 {
        /// The server supports fixed newstyle.
        FIXED_NEWSTYLE = 0;
        /// The server can leave out the zeros after `NBD_OPT_EXPORT_NAME`.
        NO_ZEROES = 1;
    }
}

flag_set! {
    /// Client flags: the answer to [`HandshakeFlags`].
    ClientFlags: u32 {
        /// The client supports fixed newstyle.
        FIXED_NEWSTYLE = 0;
        /// The server leaves out the zeros after `NBD_OPT_EXPORT_NAME`.
        NO_ZEROES = 1;
    }
}

flag_set! {
    /// Transmission flags: the capabilities of an export.
    TransmissionFlags: u16 {
        /// Always set.
        HAS_FLAGS = 0;
        /// The export cannot be written.
        READ_ONLY = 1;
        /// `NBD_CMD_FLUSH` is supported.
        SEND_FLUSH = 2;
        /// `NBD_CMD_FLAG_FUA` is supported.
        SEND_FUA = 3;
        /// Seeks are slow.
        ROTATIONAL = 4;
        /// `NBD_CMD_TRIM` is supported.
        SEND_TRIM = 5;
        /// `NBD_CMD_WRITE_ZEROES` and `NBD_CMD_FLAG_NO_HOLE` are supported.
        SEND_WRITE_ZEROES = 6;
        /// `NBD_CMD_FLAG_DF` is supported. Only with structured replies.
        SEND_DF = 7;
        /// A flush on one connection covers writes acknowledged on all connections.
        CAN_MULTI_CONN = 8;
        /// Part of an experimental extension.
        SEND_RESIZE = 9;
        /// `NBD_CMD_CACHE` is supported.
        SEND_CACHE = 10;
        /// `NBD_CMD_FLAG_FAST_ZERO` is supported.
        SEND_FAST_ZERO = 11;
    }
}

flag_set! {
    /// Command flags: how to serve a request.
    CommandFlags: u16 {
        /// The data must be durable before the reply.
        FUA = 0;
        /// The zeroed range stays allocated.
        NO_HOLE = 1;
        /// A read is answered in one chunk.
        DF = 2;
        /// The client wants only one extent.
        REQ_ONE = 3;
        /// The request must fail if it cannot be fast.
        FAST_ZERO = 4;
    }
}

flag_set! {
    /// The flags of a chunk of a structured reply.
    ReplyFlags: u16 {
        /// The last chunk for this request.
        DONE = 0;
    }
}

flag_set! {
    /// The state of an extent in `base:allocation`.
    AllocationFlags: u32 {
        /// The extent is not allocated.
        HOLE = 0;
        /// The extent reads as zeros.
        ZERO = 1;
    }
}

/// The options of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OptionType {
    /// Chooses an export. The server cannot answer with an error.
    ExportName,
    /// Ends the session.
    Abort,
    /// Asks for the list of exports.
    List,
    /// Begins TLS.
    StartTls,
    /// Asks for information about an export.
    Info,
    /// Asks for the same information and chooses the export.
    Go,
    /// Enables structured replies.
    StructuredReply,
    /// Asks for the list of metadata contexts.
    ListMetaContext,
    /// Chooses metadata contexts.
    SetMetaContext,
    /// Anything else.
    Other(u32),
}

impl OptionType {
    /// Decodes the code from the wire.
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

    /// The code as sent on the wire.
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

/// The types of replies to an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum OptionReplyType {
    /// Success.
    Ack = 1,
    /// The name of an export.
    Server = 2,
    /// An [`InfoType`] and its payload.
    Info = 3,
    /// A metadata context.
    MetaContext = 4,
    /// The server does not know the option.
    ErrUnsup = (1 << 31) + 1,
    /// The server does not allow the option.
    ErrPolicy = (1 << 31) + 2,
    /// The option's data are not valid, or not valid at this point.
    ErrInvalid = (1 << 31) + 3,
    /// The option is not available on this platform.
    ErrPlatform = (1 << 31) + 4,
    /// The option needs TLS first.
    ErrTlsReqd = (1 << 31) + 5,
    /// The export does not exist.
    ErrUnknown = (1 << 31) + 6,
    /// The server is about to stop.
    ErrShutdown = (1 << 31) + 7,
    /// The client must ask for block sizes first.
    ErrBlockSizeReqd = (1 << 31) + 8,
    /// The request is longer than the server accepts.
    ErrTooBig = (1 << 31) + 9,
}

impl OptionReplyType {
    /// The code as sent on the wire.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// The contents of a reply of the type [`OptionReplyType::Info`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum InfoType {
    /// Size and transmission flags.
    Export = 0,
    /// The canonical name.
    Name = 1,
    /// A description for people.
    Description = 2,
    /// The minimum, preferred and maximum block size.
    BlockSize = 3,
}

impl InfoType {
    /// The code as sent on the wire.
    #[must_use]
    pub const fn code(self) -> u16 {
        self as u16
    }
}

/// The type of a chunk of a structured reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ReplyType {
    /// The end of a reply, without a payload.
    None = 0,
    /// An offset and the bytes at that offset.
    OffsetData = 1,
    /// An offset and the number of zeros at that offset.
    OffsetHole = 2,
    /// A metadata context and its extents.
    BlockStatus = 5,
    /// An error and a message.
    Error = (1 << 15) + 1,
    /// An error, a message and its offset.
    ErrorOffset = (1 << 15) + 2,
}

impl ReplyType {
    /// The code as sent on the wire.
    #[must_use]
    pub const fn code(self) -> u16 {
        self as u16
    }
}

/// An error value in the reply to a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ErrorValue {
    /// `NBD_EPERM`: the export cannot be written.
    Perm = 1,
    /// `NBD_EIO`: the storage failed.
    Io = 5,
    /// `NBD_ENOMEM`: out of memory.
    NoMem = 12,
    /// `NBD_EINVAL`: a request that this server does not accept.
    Inval = 22,
    /// `NBD_ENOSPC`: no space left, or a write beyond the end.
    NoSpc = 28,
    /// `NBD_EOVERFLOW`: too long to be sent in one chunk.
    Overflow = 75,
    /// `NBD_ENOTSUP`: zeroes cannot be written quickly.
    NotSup = 95,
    /// `NBD_ESHUTDOWN`: the server is about to stop.
    Shutdown = 108,
}

impl ErrorValue {
    /// The code as sent on the wire.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// Maps errors of the system. None becomes `NBD_EOVERFLOW` or `NBD_ENOTSUP`, which the document
/// reserves for one case each.
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
        // Option 4 was withdrawn from the document.
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
