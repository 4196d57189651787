// SPDX-License-Identifier: MIT OR Apache-2.0
//! Luxor's own kernels on a device, with the data of the paper's systems.

use std::time::Instant;

use luxor_engine::{Direction, KeySpec, XtsKey};
use serde::Deserialize;

use super::{Times, same};
use crate::{
    cipher::direction_name,
    devices::{About, LuxorKernels, Work},
    stats::Summary,
};

/// What the result of the bench `gpu` says of the kernels with data on a device.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(super) struct OfGpuBench {
    devices: Vec<OfDevice>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
struct OfDevice {
    about: About,
    resident: Vec<Rate>,
}

#[derive(Deserialize)]
pub(super) struct Rate {
    direction: String,
    pub(super) key_bits: usize,
    pub(super) unit_bytes: usize,
    pub(super) gb_per_s: Summary,
}

impl OfGpuBench {
    /// Returns the rates of encryption, with the names of the devices.
    pub(super) fn encrypting(&self) -> impl Iterator<Item = (&str, &Rate)> {
        self.devices.iter().flat_map(|device| {
            let rates = device.resident.iter();
            let rates = rates.filter(|rate| rate.direction == direction_name(Direction::Encrypt));
            rates.map(|rate| (device.about.name.as_str(), rate))
        })
    }
}

/// A device with the data in its memory and in the host's.
pub(super) struct Own<'a> {
    luxor: &'a mut dyn LuxorKernels,
    pub(super) bytes: usize,
}

impl<'a> Own<'a> {
    pub(super) fn new(luxor: &'a mut dyn LuxorKernels, input: &[u8]) -> Result<Self, String> {
        let bytes = input.len();
        luxor.resident(bytes)?;
        luxor.host(bytes)?;
        luxor.write(0, input)?;
        luxor.host_bytes()?.0.copy_from_slice(input);
        Ok(Self { luxor, bytes })
    }

    pub(super) fn about(&self) -> &About {
        self.luxor.about()
    }

    pub(super) fn key(&mut self, key: &[u8]) -> Result<(), String> {
        let key = XtsKey::new(key).map_err(|e| e.to_string())?;
        self.luxor.key(&KeySpec::Xts(key))
    }

    /// Encrypts the data, once on the device and once from the host's memory and back.
    pub(super) fn run(&mut self, unit: usize, expected: &[u8]) -> Result<Times, String> {
        let (luxor, bytes) = (&mut *self.luxor, self.bytes);
        let work = Work {
            first: 0,
            unit,
            len: bytes,
        };
        // Overwrite the results of earlier runs.
        luxor.copy_resident(bytes)?;
        luxor.host_bytes()?.1.fill(0);
        let begun = Instant::now();
        luxor.crypt_resident(Direction::Encrypt, work)?;
        let kernels = begun.elapsed().as_secs_f64();
        let mut found = vec![0; bytes];
        luxor.read(0, &mut found)?;
        same(&found, expected)?;
        let begun = Instant::now();
        luxor.crypt_host(Direction::Encrypt, work)?;
        let total = begun.elapsed().as_secs_f64();
        same(luxor.host_bytes()?.1, expected)?;
        Ok(Times {
            alpha: None,
            encryption: Some(total),
            kernels: Some(kernels),
            total,
        })
    }
}

#[cfg(test)]
mod tests {
    use luxor_engine_gpu::AesSize;

    use super::*;
    use crate::{devices, papers::an_seo::key};

    /// The committed PTX in the emulator.
    #[test]
    fn the_emulated_gpu_encrypts_on_the_device_and_with_copies() {
        let input: Vec<u8> = (0..=250).cycle().take(4 * 512).collect();
        let mut luxor = devices::emulated().luxor;
        let mut own = Own::new(&mut *luxor, &input).unwrap();
        for size in [AesSize::Aes128, AesSize::Aes256] {
            own.key(&key(size)).unwrap();
            let units = (0..).zip(input.chunks(512));
            let units =
                units.map(|(number, unit)| luxor_reference::xts_encrypt(&key(size), number, unit));
            let expected = units.collect::<Vec<_>>().concat();
            let times = own.run(512, &expected).unwrap();
            assert!(times.kernels.is_some_and(|kernels| kernels > 0.0) && times.total > 0.0);
            let said = own.run(512, &input).unwrap_err();
            assert!(said.contains("the bytes differ"), "{said}");
        }
    }
}
