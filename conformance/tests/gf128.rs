// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the engine's multiplications by powers of α with each other, with the reference and
//! with the paper's table.
//!
//! The multiplications by a constant are linear over GF(2): they are shifts, sums and products without
//! carries, and the tables are linear, as is tested. So the equality with the reference on zero and on
//! single bits proves it for all 2¹²⁸ values. The product is linear in each factor, and equality on
//! all pairs of single bits proves it. A power is a product of the powers α², α⁴, α⁸, …, each
//! compared with the square of the one before, so all powers are proved too.

use luxor_conformance::{Random, vectors};
use luxor_engine::gf128::{
    ALPHA_TABLE, div_alpha, mul, mul_alpha, mul_alpha_pow, mul_alpha8, mul_alpha8_table,
    mul_alpha32, mul_alpha128, mul_alpha128_table,
};
use luxor_reference::multiply_by_alpha;

/// Multiplies by α `times` times, by the definition of IEEE 1619-2007, 5.2.
fn by_reference(t: u128, times: u32) -> u128 {
    let mut block = t.to_le_bytes();
    for _ in 0..times {
        block = multiply_by_alpha(block);
    }
    u128::from_le_bytes(block)
}

/// All values at which a carry could be lost: each single bit, each pair of bits, runs of ones from
/// either end, and every byte value at each position. Also random values.
fn values() -> Vec<u128> {
    let mut values = vec![0, u128::MAX];
    for a in 0..128 {
        values.push(u128::MAX >> a);
        values.push(u128::MAX << a);
        values.push(!(1 << a));
        values.extend((0..=a).map(|b| 1 << a | 1 << b));
    }
    for byte in 0..16 {
        values.extend((0..=255_u128).map(|value| value << (8 * byte)));
    }
    let random = &mut Random::for_test("gf128");
    values.extend((0..5000).map(|_| random.u128()));
    values
}

#[test]
fn all_forms_agree_with_the_reference() {
    for t in values() {
        let by_1 = by_reference(t, 1);
        assert_eq!(mul_alpha(t), by_1, "α, {t:032x}");
        assert_eq!(mul_alpha_pow(t, 1), by_1, "α¹, {t:032x}");
        assert_eq!(div_alpha(by_1), t, "1/α, {t:032x}");
        let by_8 = by_reference(t, 8);
        assert_eq!(mul_alpha8(t), by_8, "α⁸, {t:032x}");
        assert_eq!(mul_alpha8_table(t), by_8, "α⁸ by table, {t:032x}");
        assert_eq!(mul_alpha_pow(t, 8), by_8, "α⁸ as a power, {t:032x}");
        assert_eq!(mul_alpha32(t), by_reference(by_8, 24), "α³², {t:032x}");
        let by_128 = by_reference(by_8, 120);
        assert_eq!(mul_alpha128(t), by_128, "α¹²⁸, {t:032x}");
        assert_eq!(mul_alpha128_table(t), by_128, "α¹²⁸ by table, {t:032x}");
        assert_eq!(mul_alpha_pow(t, 128), by_128, "α¹²⁸ as a power, {t:032x}");
    }
}

#[test]
fn the_product_of_all_pairs_of_bits_is_the_references() {
    // Entry i + j is αⁱ⁺ʲ.
    let powers: Vec<u128> = (0..255)
        .scan(1, |power, _| {
            Some(std::mem::replace(power, by_reference(*power, 1)))
        })
        .collect();
    for i in 0..128 {
        for j in 0..128 {
            assert_eq!(mul(1 << i, 1 << j), powers[i + j], "α^{i} times α^{j}");
        }
        assert_eq!((mul(0, 1 << i), mul(1 << i, 0)), (0, 0));
    }
}

#[test]
fn a_power_of_two_is_the_square_of_the_one_before() {
    let mut square = by_reference(1, 1);
    for k in 0..128 {
        assert_eq!(mul_alpha_pow(1, 1 << k), square, "α to the power 2^{k}");
        square = mul(square, square);
    }
}

#[test]
fn every_power_is_the_reference_repeated() {
    let random = &mut Random::for_test("gf128 powers");
    for start in [1, 1 << 127, u128::MAX, random.u128()] {
        let mut expected = start;
        for j in 0..3000 {
            assert_eq!(
                mul_alpha_pow(start, j),
                expected,
                "α^{j} times {start:032x}"
            );
            expected = by_reference(expected, 1);
        }
    }
    // The last block of the longest data unit.
    let t = random.u128();
    assert_eq!(
        mul_alpha_pow(t, (1 << 20) - 1),
        by_reference(t, (1 << 20) - 1)
    );
}

#[test]
fn powers_add_up() {
    let random = &mut Random::for_test("gf128 sums of powers");
    for _ in 0..300 {
        let (t, a, b) = (random.u128(), random.u128() >> 1, random.u128() >> 1);
        assert_eq!(
            mul_alpha_pow(mul_alpha_pow(t, a), b),
            mul_alpha_pow(t, a + b)
        );
        let k = random.below(7);
        assert_eq!(
            mul_alpha_pow(t, 8 << k),
            (0..1 << k).fold(t, |t, _| mul_alpha8(t))
        );
    }
    // α is primitive: its order is 2¹²⁸ − 1 and no proper divisor of that.
    let order = u128::MAX;
    assert_eq!(mul_alpha_pow(1, order), 1);
    for prime in [
        3,
        5,
        17,
        257,
        641,
        65537,
        274_177,
        6_700_417,
        67_280_421_310_721,
    ] {
        assert_eq!(order % prime, 0);
        assert_ne!(mul_alpha_pow(1, order / prime), 1, "{prime}");
    }
}

#[test]
fn the_table_is_that_of_the_paper() {
    let mut legible = Vec::new();
    let records = vectors::read("gf128/an-seo-2022-table-2.txt").unwrap();
    for (row, record) in records.iter().enumerate() {
        assert_eq!(
            usize::from_str_radix(record.text("ROW").unwrap(), 16),
            Ok(row)
        );
        let entries: Vec<_> = record.text("ENTRIES").unwrap().split(' ').collect();
        assert_eq!(entries.len(), 16);
        for (column, entry) in entries.into_iter().enumerate() {
            if entry != "----" {
                legible.push((row * 16 + column, u16::from_str_radix(entry, 16).unwrap()));
            }
        }
    }
    assert_eq!(records.len(), 16);
    println!("{} legible entries of 256", legible.len());
    assert_eq!(legible.len(), 255);

    let different: Vec<_> = legible
        .iter()
        .filter(|(n, entry)| ALPHA_TABLE[*n] != *entry)
        .collect();
    assert_eq!(different, [&(0xf0, 0x7a70)]);
    // That entry contradicts the paper's other entries, since the table is linear.
    let printed = |n| legible.iter().find(|(at, _)| *at == n).unwrap().1;
    let sum = [0x80, 0x40, 0x20, 0x10]
        .map(printed)
        .iter()
        .fold(0, |sum, entry| sum ^ entry);
    assert_eq!((sum, ALPHA_TABLE[0xf0]), (0x7ad0, 0x7ad0));

    // The table has the meaning that the paper gives it.
    for (n, entry) in (0_u128..).zip(ALPHA_TABLE) {
        assert_eq!(u128::from(entry), by_reference(n << 120, 8));
    }
}
