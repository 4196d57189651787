// SPDX-License-Identifier: MIT OR Apache-2.0
//! What OpenCL's results mean here.

use cl3::error_codes::{self as codes, error_text};
use luxor_engine_gpu::DeviceError;

/// What the library said of a call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {} ({code}){detail}", name(*code))]
pub struct Failure {
    /// The library's function.
    pub call: &'static str,
    /// Its result.
    pub code: i32,
    /// What else there is to say, with what separates it: a program's build log. Or empty.
    pub detail: String,
}

impl Failure {
    /// A result of `call`.
    #[must_use]
    pub fn new(call: &'static str, code: i32) -> Self {
        Self {
            call,
            code,
            detail: String::new(),
        }
    }

    /// For `map_err`.
    pub(crate) fn of(call: &'static str) -> impl Fn(i32) -> Self {
        move |code| Self::new(call, code)
    }
}

/// A result's name. Those above the standard's are a vendor's own.
fn name(code: i32) -> &'static str {
    match code {
        NVIDIA_FAULT => "illegal access in a kernel",
        codes::DLOPEN_FUNCTION_NOT_AVAILABLE => "the library lacks the function",
        _ => error_text(code),
    }
}

/// What NVIDIA's library returns after a kernel went astray.
const NVIDIA_FAULT: i32 = -9999;
/// Since OpenCL 1.2 with `cl_khr_terminate_context`.
const CONTEXT_TERMINATED: i32 = codes::CL_CONTEXT_TERMINATED_KHR;

/// Why no device can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The library is not there, or cannot be loaded.
    #[error("OpenCL is not installed ({message})")]
    Library {
        /// What the system's loader said.
        message: String,
    },
    /// The library is there, and knows no implementation.
    #[error("OpenCL is installed, but has no platform")]
    NoPlatform,
    /// There are implementations, and none has a device.
    #[error("OpenCL has no device ({platforms})")]
    NoDevice {
        /// The implementations' names, with what the library said of those that failed.
        platforms: String,
    },
    /// The device lacks what the kernels need.
    #[error("{device}: {reason}")]
    Device {
        /// Its name.
        device: String,
        /// What it lacks.
        reason: String,
    },
    /// The library refused something.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// A failed call as an error of the device's.
impl From<Failure> for DeviceError {
    fn from(failure: Failure) -> Self {
        let message = failure.to_string();
        match failure.code {
            codes::CL_MEM_OBJECT_ALLOCATION_FAILURE
            | codes::CL_OUT_OF_HOST_MEMORY
            | codes::CL_INVALID_BUFFER_SIZE
            | codes::CL_MAP_FAILURE => Self::OutOfMemory { message },
            // Of a launch it means registers or local memory, if it means anything.
            codes::CL_OUT_OF_RESOURCES if failure.call == "clCreateBuffer" => {
                Self::OutOfMemory { message }
            }
            codes::CL_COMPILER_NOT_AVAILABLE
            | codes::CL_BUILD_PROGRAM_FAILURE
            | codes::CL_INVALID_KERNEL_NAME
            | codes::DLOPEN_RUNTIME_LOAD_FAILED
            | codes::DLOPEN_FUNCTION_NOT_AVAILABLE => Self::Library { message },
            codes::CL_DEVICE_NOT_AVAILABLE
            | codes::CL_INVALID_CONTEXT
            | codes::CL_INVALID_COMMAND_QUEUE
            | CONTEXT_TERMINATED
            | NVIDIA_FAULT => Self::Lost { message },
            _ => Self::Launch { message },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_told_apart() {
        let error = |call, code| DeviceError::from(Failure::new(call, code));
        let message = |text: &str| text.to_owned();
        assert_eq!(
            error("clCreateBuffer", -4),
            DeviceError::OutOfMemory {
                message: message("clCreateBuffer: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)")
            }
        );
        let resources = message("clEnqueueNDRangeKernel: CL_OUT_OF_RESOURCES (-5)");
        assert_eq!(
            error("clEnqueueNDRangeKernel", -5),
            DeviceError::Launch { message: resources }
        );
        assert!(matches!(
            error("clCreateBuffer", -5),
            DeviceError::OutOfMemory { .. }
        ));
        for code in [-2, -36, -9999, -1121] {
            assert!(error("clFinish", code).is_lost(), "{code}");
        }
        let fault = error("clFinish", -9999).to_string();
        assert!(fault.contains("illegal access"), "{fault}");
        assert!(matches!(
            error("clBuildProgram", -11),
            DeviceError::Library { .. }
        ));
        assert!(matches!(
            error("clFinish", -12345),
            DeviceError::Launch { .. }
        ));
    }
}
