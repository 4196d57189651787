// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps OpenCL result codes to errors.

use cl3::error_codes::{self as codes, error_text};
use luxor_engine_gpu::DeviceError;

/// A failed call of the library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {} ({code}){detail}", name(*code))]
pub struct Failure {
    /// The name of the library's function.
    pub call: &'static str,
    /// The result code.
    pub code: i32,
    /// Further text including its separator, such as a program's build log. May be empty.
    pub detail: String,
}

impl Failure {
    /// A failure of `call` with the result `code`.
    #[must_use]
    pub fn new(call: &'static str, code: i32) -> Self {
        Self {
            call,
            code,
            detail: String::new(),
        }
    }

    /// Returns a closure for `map_err`.
    pub(crate) fn in_call(call: &'static str) -> impl Fn(i32) -> Self {
        move |code| Self::new(call, code)
    }
}

/// Returns the name of a result code. Codes beyond the standard's are specific to a vendor.
fn name(code: i32) -> &'static str {
    match code {
        NVIDIA_FAULT => "illegal access in a kernel",
        codes::DLOPEN_FUNCTION_NOT_AVAILABLE => "the library lacks the function",
        _ => error_text(code),
    }
}

/// The result of NVIDIA's library after a kernel accessed invalid memory.
const NVIDIA_FAULT: i32 = -9999;
/// The result after a context was terminated, from the extension `cl_khr_terminate_context`.
const CONTEXT_TERMINATED: i32 = codes::CL_CONTEXT_TERMINATED_KHR;

/// The reason why no device can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The library is missing or cannot be loaded.
    #[error("OpenCL is not available ({message})")]
    Library {
        /// The message of the system's loader.
        message: String,
    },
    /// The library is installed but has no platform.
    #[error("OpenCL is installed, but has no platform")]
    NoPlatform,
    /// There are platforms, but none has a device.
    #[error("OpenCL has no device ({platforms})")]
    NoDevice {
        /// The platforms' names, with the library's error for those that failed.
        platforms: String,
    },
    /// The device lacks something that the kernels need.
    #[error("{device}: {reason}")]
    Device {
        /// The device's name.
        device: String,
        /// What the device lacks.
        reason: String,
    },
    /// A call of the library failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// Converts a failed call to an error of the device.
impl From<Failure> for DeviceError {
    fn from(failure: Failure) -> Self {
        let message = failure.to_string();
        match failure.code {
            codes::CL_MEM_OBJECT_ALLOCATION_FAILURE
            | codes::CL_OUT_OF_HOST_MEMORY
            | codes::CL_INVALID_BUFFER_SIZE
            | codes::CL_MAP_FAILURE => Self::OutOfMemory { message },
            // From a launch this code means too few registers or too little local memory, if
            // anything.
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
    fn error_codes_map_to_device_errors() {
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
