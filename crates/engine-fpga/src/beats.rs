// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data units in beats: each unit begins on a beat of its own, and its last beat is padded. The
//! core ignores the padding of its input, and pads its output with zeros.

/// Returns the bytes of a packet with `units` units of `unit_len` bytes. `beat_len` is
/// [`Config::beat_len`](crate::registers::Config::beat_len).
#[must_use]
pub const fn packet_len(units: usize, unit_len: usize, beat_len: usize) -> usize {
    units * unit_len.next_multiple_of(beat_len)
}

/// Replaces the contents of `packet` with the packet of `units`, which are the data units one after
/// the other without padding. Padding is 0.
///
/// # Panics
/// If `unit_len` is 0, or `units` does not consist of whole units.
pub fn pack(units: &[u8], unit_len: usize, beat_len: usize, packet: &mut Vec<u8>) {
    assert!(units.len().is_multiple_of(unit_len), "whole data units");
    packet.clear();
    packet.reserve_exact(packet_len(units.len() / unit_len, unit_len, beat_len));
    for unit in units.chunks_exact(unit_len) {
        packet.extend_from_slice(unit);
        packet.resize(packet.len().next_multiple_of(beat_len), 0);
    }
}

/// Copies the data units out of a packet to `units`, one after the other without padding.
///
/// # Panics
/// If the packet does not hold exactly the units that fit `units`, or as [`pack`].
pub fn unpack(packet: &[u8], unit_len: usize, beat_len: usize, units: &mut [u8]) {
    let count = units.len() / unit_len;
    assert!(units.len().is_multiple_of(unit_len), "whole data units");
    assert_eq!(packet.len(), packet_len(count, unit_len, beat_len));
    let padded = packet.chunks_exact(unit_len.next_multiple_of(beat_len));
    for (unit, padded) in units.chunks_exact_mut(unit_len).zip(padded) {
        unit.copy_from_slice(&padded[..unit_len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_begins_on_a_beat() {
        let units: Vec<u8> = (1..=40).collect();
        let mut packet = vec![0xff; 7];
        pack(&units, 20, 16, &mut packet);
        let padding = [0; 12];
        assert_eq!(
            packet,
            [&units[..20], &padding, &units[20..], &padding].concat()
        );
        pack(&units, 8, 16, &mut packet);
        assert_eq!(packet.len(), 5 * 16);
        pack(&units, 40, 64, &mut packet);
        assert_eq!(packet.len(), 64);
    }

    #[test]
    fn unpacking_undoes_packing() {
        for (unit_len, beat_len) in [(1, 16), (16, 16), (17, 16), (40, 32), (60, 64), (64, 64)] {
            for count in 0..4 {
                let units: Vec<u8> = (0..).take(unit_len * count).collect();
                let mut packet = Vec::new();
                pack(&units, unit_len, beat_len, &mut packet);
                assert_eq!(packet.len(), packet_len(count, unit_len, beat_len));
                let mut back = vec![0xff; units.len()];
                unpack(&packet, unit_len, beat_len, &mut back);
                assert_eq!(back, units, "{count} units of {unit_len} bytes");
            }
        }
    }
}
