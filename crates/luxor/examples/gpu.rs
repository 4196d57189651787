// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decrypts a part of a volume in the memory of a GPU: only ciphertext crosses the bus. Without a GPU, the
//! CPU decrypts it into ordinary memory.

mod support;

use std::sync::Arc;

use luxor::{
    DeviceCopy, OpenOptions,
    engine_cuda::{self, Cuda},
    engine_gpu::{Device, GpuBackend},
    luks::LuksVersion,
};

fn main() -> support::Result {
    let (_folder, path) = support::volume(LuksVersion::Luks2)?;
    let secret = support::secret();
    let disk = OpenOptions::new().write(true).open(&path)?;
    disk.unlock(&secret)?.disk()?.write_at(&[7; 1000], 5000)?;

    let volume = luxor::open(&path)?.unlock(&secret)?;
    let mut bytes = vec![0; 1000];
    match engine_cuda::backend() {
        Err(error) => {
            println!("no GPU: {error}");
            volume.disk()?.read_at(&mut bytes, 5000)?;
        }
        Ok(backend) => {
            let backend: Arc<GpuBackend<Cuda>> = Arc::new(backend);
            let disk = volume.disk_on(&backend)?;
            let gpu = &backend.devices()[0];
            let mut memory = gpu.memory(1000)?;
            let copy = DeviceCopy {
                offset: 5000,
                len: 1000,
                at: 0,
            };
            disk.read_into(0, &mut memory, &[copy])?;
            // Kernels would use the memory here.
            gpu.read(&memory, 0, &mut bytes)?;
        }
    }
    assert!(bytes == [7; 1000]);
    Ok(())
}
