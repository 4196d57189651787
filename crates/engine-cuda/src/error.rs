// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps the driver's results to errors.

use luxor_engine_gpu::DeviceError;

use crate::{
    driver::Failure,
    library::{self, Absent},
};

/// The reason why no device can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The driver is missing.
    #[error(transparent)]
    Absent(#[from] Absent),
    /// The driver is too old for the kernels.
    #[error(
        "NVIDIA's driver is too old: it supports CUDA {}, but Luxor needs {}",
        version(*found),
        version(*needed)
    )]
    DriverTooOld {
        /// The newest CUDA version that the driver supports: 11040 is 11.4.
        found: u32,
        /// The CUDA version that the kernels need.
        needed: u32,
    },
    /// The driver found no device.
    #[error("NVIDIA's driver found no GPU")]
    NoDevice,
    /// The device lacks something that the kernels need.
    #[error("{device} has {found}, but Luxor needs {needed}")]
    Device {
        /// The device's name.
        device: String,
        /// What the device has.
        found: String,
        /// What the kernels need.
        needed: String,
    },
    /// The kernels embedded in this program do not match its code.
    #[error("the kernels have {found} instead of {expected}")]
    Kernels {
        /// What the kernels have.
        found: String,
        /// What the code expects.
        expected: String,
    },
    /// A call of the driver failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

fn version(number: u32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

impl From<Unusable> for DeviceError {
    fn from(error: Unusable) -> Self {
        match error {
            Unusable::Failed(failure) => device_error(&failure),
            other => Self::Library {
                message: other.to_string(),
            },
        }
    }
}

/// Converts a failed call to an error of the device.
///
/// After most errors in a running kernel, the driver refuses all further work in this process
/// (`cuda.h`: "the process must be terminated and relaunched"). The device then counts as lost, as
/// if it had been removed.
pub(crate) fn device_error(failure: &Failure) -> DeviceError {
    let message = failure.to_string();
    match failure.code {
        library::OUT_OF_MEMORY => DeviceError::OutOfMemory { message },
        // Errors of images and their compilation, of mismatched versions, and of unknown names.
        34 | 200 | 209 | 218 | 221..=223 | 500 | 803 | 804 => DeviceError::Library { message },
        // The driver or the context is gone (3, 4, 201, 709), no device (46, 100, 101), failed
        // memory or a failed link (214, 220, 226), the system (304, 802, 805..=807), a kernel that
        // did something forbidden (700, 702, 710, 714..=719), or an unknown error (999).
        3
        | 4
        | 46
        | 100
        | 101
        | 201
        | 214
        | 220
        | 226
        | 304
        | 700
        | 702
        | 709
        | 710
        | 714..=719
        | 802
        | 805..=807
        | 999 => DeviceError::Lost { message },
        _ => DeviceError::Launch { message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_map_to_device_errors() {
        let failure = |code| Failure {
            call: "cuCall",
            code,
            name: "CUDA_ERROR_NAME".into(),
            text: "in words".into(),
        };
        let message = |code| format!("cuCall: CUDA_ERROR_NAME ({code}), in words");
        for code in [214, 226, 700, 719, 999] {
            let message = message(code);
            assert_eq!(device_error(&failure(code)), DeviceError::Lost { message });
        }
        for code in [218, 222] {
            let message = message(code);
            assert_eq!(
                device_error(&failure(code)),
                DeviceError::Library { message }
            );
        }
        // Invalid value, launch out of resources, and a code that no driver has today.
        for code in [1, 701, 12345] {
            let message = message(code);
            assert_eq!(
                device_error(&failure(code)),
                DeviceError::Launch { message }
            );
        }
        let message = message(2);
        assert_eq!(
            device_error(&failure(2)),
            DeviceError::OutOfMemory { message }
        );
    }
}
