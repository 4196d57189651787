// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels' source, and the programs built from it.

use std::sync::{Arc, OnceLock};

use luxor_engine_gpu::AesSize;

use crate::{
    cl::{Context, Program},
    error::Failure,
    layout::{Aes, Layout},
};

/// `kernels/luxor.cl` with its includes inlined, since an OpenCL program cannot include files.
const TABLES: &str = concat!(
    include_str!("../kernels/portability.h"),
    include_str!("../kernels/tables.h"),
    include_str!("../kernels/aes.h"),
    include_str!("../kernels/gf128.h"),
    include_str!("../kernels/numbers.h"),
    include_str!("../kernels/xts.h"),
    include_str!("../kernels/ctr.h"),
    include_str!("../kernels/kernels.h"),
);

/// `kernels/bitsliced.cl`, likewise.
const BITSLICED: &str = concat!(
    include_str!("../kernels/portability.h"),
    include_str!("../kernels/bitsliced_aes.h"),
    include_str!("../kernels/gf128.h"),
    include_str!("../kernels/numbers.h"),
    include_str!("../kernels/bitsliced_modes.h"),
    include_str!("../kernels/kernels.h"),
);

fn source(layout: Layout) -> &'static str {
    match layout.aes {
        Aes::Tables { .. } => TABLES,
        Aes::Bitsliced { .. } => BITSLICED,
    }
}

/// The kernels for each key size. Each is built when the first key of that size is loaded, because
/// compiling may take seconds.
pub(crate) struct Programs {
    context: Arc<Context>,
    layout: Layout,
    sizes: [OnceLock<Result<Program, Failure>>; AesSize::ALL.len()],
}

impl Programs {
    /// Builds the kernels for AES-256 in `layout`. While the device has too few registers for the
    /// work-groups, it halves their size and builds again.
    pub(crate) fn new(context: &Arc<Context>, mut layout: Layout) -> Result<Self, Failure> {
        loop {
            let program = build(context, source(layout), layout, AesSize::Aes256)?;
            // This kernel needs the most registers.
            let most = program.kernel("xts_tails_decrypt_256")?.work_group()?;
            match layout.halved() {
                Some(smaller) if most < layout.threads => layout = smaller,
                _ => {
                    let programs = Self {
                        context: Arc::clone(context),
                        layout,
                        sizes: Default::default(),
                    };
                    let _ = programs.sizes[index(AesSize::Aes256)].set(Ok(program));
                    return Ok(programs);
                }
            }
        }
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    pub(crate) fn get_or_build(&self, size: AesSize) -> Result<&Program, Failure> {
        self.sizes[index(size)]
            .get_or_init(|| build(&self.context, source(self.layout), self.layout, size))
            .as_ref()
            .map_err(Clone::clone)
    }
}

fn index(size: AesSize) -> usize {
    match size {
        AesSize::Aes128 => 0,
        AesSize::Aes192 => 1,
        AesSize::Aes256 => 2,
    }
}

fn build(
    context: &Arc<Context>,
    source: &str,
    layout: Layout,
    size: AesSize,
) -> Result<Program, Failure> {
    let options = format!("{} -DSIZE={}", layout.options(), size.bits());
    Program::build(context, source, &options)
}

#[cfg(test)]
mod tests {
    use luxor_engine_gpu::{DeviceError, Tables};

    use super::*;
    use crate::cl;

    /// Needs an OpenCL device, of any kind, and fails without one.
    #[test]
    fn the_log_of_a_program_that_does_not_build_is_in_the_error() {
        let layout = Layout {
            aes: Aes::Tables {
                replicas: 1,
                tables: Tables::One,
            },
            threads: 32,
        };
        let platforms = cl::platforms().unwrap();
        let devices = platforms[0].devices(cl3::device::CL_DEVICE_TYPE_ALL);
        let context = Context::new(devices.unwrap()[0]).unwrap();
        let source = "__kernel void broken(void) { undeclared_thing = 1; }";
        let failure = build(&context, source, layout, AesSize::Aes128)
            .map(drop)
            .unwrap_err();
        let text = failure.to_string();
        assert!(
            text.starts_with("clBuildProgram: CL_BUILD_PROGRAM_FAILURE (-11); ")
                && text.contains("undeclared_thing"),
            "{text}"
        );
        assert!(matches!(failure.into(), DeviceError::Library { .. }));
        let program = build(&context, TABLES, layout, AesSize::Aes128).unwrap();
        let text = program
            .kernel("xts_none")
            .map(drop)
            .unwrap_err()
            .to_string();
        assert_eq!(
            text,
            "clCreateKernel: CL_INVALID_KERNEL_NAME (-46) of xts_none"
        );
    }

    #[test]
    fn each_source_is_that_of_the_file_that_names_its_parts() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels");
        let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
        for (file, source) in [("luxor.cl", TABLES), ("bitsliced.cl", BITSLICED)] {
            let names = read(file);
            let parts = names
                .lines()
                .filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'))
                .map(read);
            assert_eq!(parts.collect::<String>(), source, "{file}");
        }
    }
}
