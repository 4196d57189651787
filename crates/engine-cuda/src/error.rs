// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the driver's results mean here.

use luxor_engine_gpu::DeviceError;

use crate::{
    driver::Failure,
    library::{self, Absent},
};

/// Why no device can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// There is no driver.
    #[error(transparent)]
    Absent(#[from] Absent),
    /// The driver knows no kernels like these.
    #[error(
        "NVIDIA's driver is too old: it supports CUDA {}, and Luxor needs {}",
        version(*found),
        version(*needed)
    )]
    DriverTooOld {
        /// The driver's CUDA: 11040 is 11.4.
        found: u32,
        /// What is needed.
        needed: u32,
    },
    /// The driver found no device.
    #[error("NVIDIA's driver found no GPU")]
    NoDevice,
    /// The device lacks what the kernels need.
    #[error("{device} has {found}, and Luxor needs {needed}")]
    Device {
        /// Its name.
        device: String,
        /// What it has.
        found: String,
        /// What it should have.
        needed: String,
    },
    /// The kernels that this program was built with are not those that it expects.
    #[error("the kernels have {found}, and {expected} was expected")]
    Kernels {
        /// What they have.
        found: String,
        /// What they should have.
        expected: String,
    },
    /// The driver refused something.
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

/// A failed call as an error of the device's.
///
/// After most of what happens while a kernel runs, the driver does nothing more in this
/// process (`cuda.h`: "the process must be terminated and relaunched"): then the device is
/// lost, as if it had been pulled out.
pub(crate) fn device_error(failure: &Failure) -> DeviceError {
    let message = failure.to_string();
    match failure.code {
        library::OUT_OF_MEMORY => DeviceError::OutOfMemory { message },
        // Of images and their compilation, of versions that do not fit, and names.
        34 | 200 | 209 | 218 | 221..=223 | 500 | 803 | 804 => DeviceError::Library { message },
        // No driver or context any more (3, 4, 201, 709), no device (46, 100, 101), memory or
        // a link that failed (214, 220, 226), the system (304, 802, 805..=807), a kernel that
        // did what it must not (700, 702, 710, 714..=719), and what nobody knows (999).
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
    fn results_are_told_apart() {
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
        // Invalid value, launch out of resources, and one that no driver has today.
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
