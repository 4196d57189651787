// SPDX-License-Identifier: MIT OR Apache-2.0
//! Logic, shifts, permutations and comparisons, as in the manual (PTX ISA 8.0), 9.7.5, 9.7.7 and
//! 9.7.8.7; predicated instructions, 9.7.11.2.

mod support;

use support::{d, h, p, r, r16, r32, r64, words};

/// 9.7.7.1 to 9.7.7.3, also for predicates.
#[test]
fn and_or_xor() {
    assert_eq!(r32("and.b32", &[0b1100, 0b1010]), 0b1000);
    assert_eq!(r32("or.b32", &[0b1100, 0b1010]), 0b1110);
    assert_eq!(r32("xor.b32", &[0b1100, 0b1010]), 0b0110);
    assert_eq!(r64("and.b64", &[u64::MAX, 1 << 63]), 1 << 63);
    assert_eq!(r64("or.b64", &[1 << 40, 1]), (1 << 40) + 1);
    assert_eq!(r64("xor.b64", &[u64::MAX, 1]), u64::MAX - 1);
    assert_eq!(r16("xor.b16", &[0xffff, 0x00ff]), 0xff00);
    for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let set = format!("setp.ne.u32 %p1, {a}, 0; setp.ne.u32 %p2, {b}, 0;");
        assert_eq!(p(&format!("{set} and.pred %p0, %p1, %p2;")), a & b == 1);
        assert_eq!(p(&format!("{set} or.pred %p0, %p1, %p2;")), a | b == 1);
        assert_eq!(p(&format!("{set} xor.pred %p0, %p1, %p2;")), a ^ b == 1);
        assert_eq!(p(&format!("{set} not.pred %p0, %p1;")), a == 0);
    }
}

/// 9.7.7.4 and 9.7.7.5.
#[test]
fn not_and_cnot() {
    assert_eq!(r32("not.b32", &[0x0f0f_0000]), 0xf0f0_ffff);
    assert_eq!(r64("not.b64", &[0]), u64::MAX);
    assert_eq!(r16("not.b16", &[1]), 0xfffe);
    assert_eq!(r32("cnot.b32", &[0]), 1);
    assert_eq!(r32("cnot.b32", &[7]), 0);
    assert_eq!(r64("cnot.b64", &[1 << 32]), 0);
}

/// 9.7.7.6: the table is the function applied to 0xF0, 0xCC and 0xAA. The manual's examples,
/// asymmetric functions, and every table on its own three inputs.
#[test]
fn lop3() {
    let sources = [0x0123_4567, 0x89ab_cdef, 0x5a5a_3c3c];
    let [a, b, c] = sources;
    let lop3 = |table: u8| {
        let [a, b, c] = sources;
        r(&format!(
            "mov.u32 %r1, {a}; mov.u32 %r2, {b}; mov.u32 %r3, {c};
             lop3.b32 %r0, %r1, %r2, %r3, {table:#x};"
        ))
    };
    assert_eq!(lop3(0x80), a & b & c);
    assert_eq!(lop3(0xfe), a | b | c);
    assert_eq!(lop3(0x40), a & b & !c);
    assert_eq!(lop3(0x1a), (a & b | c) ^ a);
    assert_eq!(lop3(0x96), a ^ b ^ c);
    assert_eq!(lop3(0xca), a & b | !a & c);
    assert_eq!(lop3(0xd8), c & b | !c & a);
    for table in 0..=255_u8 {
        let result = r(&format!(
            "lop3.b32 %r0, 0xF0, 0xCC, 0xAA, {table};
             and.b32 %r0, %r0, 0xff;"
        ));
        assert_eq!(result, u32::from(table));
    }
}

/// 9.7.7.7: shifts {b, a}; the result is the upper word for a left shift and the lower word for a
/// right shift. Amounts are taken modulo 32, or clamped to 32.
#[test]
fn shf() {
    let (a, b) = (0x89ab_cdef, 0x0123_4567);
    assert_eq!(r32("shf.l.wrap.b32", &[a, b, 8]), 0x2345_6789);
    assert_eq!(r32("shf.r.wrap.b32", &[a, b, 8]), 0x6789_abcd);
    for name in ["wrap", "clamp"] {
        assert_eq!(r32(&format!("shf.l.{name}.b32"), &[a, b, 0]), b);
        assert_eq!(r32(&format!("shf.r.{name}.b32"), &[a, b, 0]), a);
        assert_eq!(
            r32(&format!("shf.l.{name}.b32"), &[a, b, 31]),
            b << 31 | a >> 1
        );
        assert_eq!(
            r32(&format!("shf.r.{name}.b32"), &[a, b, 31]),
            b << 1 | a >> 31
        );
    }
    assert_eq!(r32("shf.l.wrap.b32", &[a, b, 32]), b);
    assert_eq!(r32("shf.r.wrap.b32", &[a, b, 40]), 0x6789_abcd);
    assert_eq!(r32("shf.l.clamp.b32", &[a, b, 32]), a);
    assert_eq!(r32("shf.r.clamp.b32", &[a, b, 32]), b);
    assert_eq!(r32("shf.l.clamp.b32", &[a, b, u32::MAX]), a);
    assert_eq!(r32("shf.r.clamp.b32", &[a, b, 40]), b);
    // A rotation.
    assert_eq!(r32("shf.l.wrap.b32", &[a, a, 8]), a.rotate_left(8));
}

/// 9.7.7.8: amounts above the width count as the width, and are unsigned.
#[test]
fn shl() {
    assert_eq!(r32("shl.b32", &[0x8000_0001, 1]), 2);
    assert_eq!(r32("shl.b32", &[1, 31]), 0x8000_0000);
    assert_eq!(r32("shl.b32", &[1, 32]), 0);
    assert_eq!(r32("shl.b32", &[1, u32::MAX]), 0);
    assert_eq!(d("shl.b64 %d0, 1, 63;"), 1 << 63);
    assert_eq!(d("shl.b64 %d0, 1, 64;"), 0);
    assert_eq!(h("shl.b16 %h0, 3, 15;"), 0x8000);
    assert_eq!(h("shl.b16 %h0, 3, 16;"), 0);
}

/// 9.7.7.9: signed numbers are filled with their sign, others with zeros.
#[test]
fn shr() {
    assert_eq!(r32("shr.u32", &[0x8000_0000, 31]), 1);
    assert_eq!(r32("shr.u32", &[0x8000_0000, 32]), 0);
    assert_eq!(r32("shr.b32", &[0x8000_0000, 4]), 0x0800_0000);
    assert_eq!(r32("shr.s32", &[0x8000_0000, 4]), 0xf800_0000);
    assert_eq!(r32("shr.s32", &[0x8000_0000, 32]), u32::MAX);
    assert_eq!(r32("shr.s32", &[0x8000_0000, u32::MAX]), u32::MAX);
    assert_eq!(r32("shr.s32", &[0x7fff_ffff, 99]), 0);
    assert_eq!(d("shr.u64 %d0, -1, 63;"), 1);
    assert_eq!(d("shr.u64 %d0, -1, 64;"), 0);
    assert_eq!(d("shr.s64 %d0, 0x8000000000000000, 200;"), u64::MAX);
    assert_eq!(h("shr.s16 %h0, -32768, 3;"), 0xf000);
    assert_eq!(h("shr.u16 %h0, 0x8000, 16;"), 0);
}

/// 9.7.8.7: each hexadecimal digit selects a byte of {b, a}; its highest bit replicates the byte's
/// sign instead.
#[test]
fn prmt() {
    let (a, b) = (0x8322_1100, 0x7766_d544);
    let prmt = |control| r32("prmt.b32", &[a, b, control]);
    assert_eq!(prmt(0x3210), a);
    assert_eq!(prmt(0x7654), b);
    assert_eq!(prmt(0x5104), 0xd511_0044);
    assert_eq!(prmt(0xbbbb), u32::MAX);
    assert_eq!(prmt(0x8888), 0);
    assert_eq!(prmt(0xd5fc), 0xffd5_0000);
    // Only 16 bits of the control count.
    assert_eq!(prmt(0xffff_3210), a);
}

/// 9.7.8.7, the table of modes: the two lowest bits of the control select the bytes.
#[test]
fn prmt_with_a_mode() {
    // Byte n of {b, a} is n, so the result shows which bytes were selected.
    let modes = [
        ("f4e", [0x0302_0100, 0x0403_0201, 0x0504_0302, 0x0605_0403]),
        ("b4e", [0x0506_0700, 0x0607_0001, 0x0700_0102, 0x0001_0203]),
        ("rc8", [0x0000_0000, 0x0101_0101, 0x0202_0202, 0x0303_0303]),
        ("ecl", [0x0302_0100, 0x0302_0101, 0x0302_0202, 0x0303_0303]),
        ("ecr", [0x0000_0000, 0x0101_0100, 0x0202_0100, 0x0302_0100]),
        ("rc16", [0x0100_0100, 0x0302_0302, 0x0100_0100, 0x0302_0302]),
    ];
    for (mode, rows) in modes {
        for (control, expected) in (0..).zip(rows) {
            // Further bits of the control have no effect.
            for control in [control, control + 0xfff8] {
                let found = r32(
                    &format!("prmt.b32.{mode}"),
                    &[0x0302_0100, 0x0706_0504, control],
                );
                assert_eq!(found, expected, "{mode} {control}");
            }
        }
    }
}

/// 9.7.5.2, tables 16 and 17: signed numbers, unsigned numbers and bits.
#[test]
fn setp() {
    // -1 and 1: unsigned, -1 is the greater one.
    for (t, less) in [("s32", true), ("u32", false)] {
        let holds = |name: &str| p(&format!("setp.{name}.{t} %p0, -1, 1;"));
        assert_eq!(
            ["lt", "le", "gt", "ge"].map(holds),
            [less, less, !less, !less],
            "{t}"
        );
        assert_eq!(["eq", "ne"].map(holds), [false, true]);
        let equal = |name: &str| p(&format!("setp.{name}.{t} %p0, 5, 5;"));
        assert_eq!(
            ["eq", "ne", "lt", "le", "gt", "ge"].map(equal),
            [true, false, false, true, false, true]
        );
    }
    let unsigned = |name: &str| p(&format!("setp.{name}.u64 %p0, -1, 1;"));
    assert_eq!(
        ["lo", "ls", "hi", "hs"].map(unsigned),
        [false, false, true, true]
    );
    let equal = |name: &str| p(&format!("setp.{name}.u64 %p0, 5, 5;"));
    assert_eq!(
        ["lo", "ls", "hi", "hs"].map(equal),
        [false, true, false, true]
    );
    assert!(p("setp.eq.b16 %p0, 0xffff, -1;"));
    assert!(p("setp.lt.s16 %p0, 0x8000, 0;"));
    assert!(p("setp.lt.s64 %p0, 0x8000000000000000, 0;"));
    assert!(p("setp.ne.b64 %p0, 0x100000000, 0;"));
}

/// 9.7.5.2: p = (a cmp b) op c, q = !(a cmp b) op c, with or without `!` before c.
#[test]
fn setp_with_two_results_and_a_third_source() {
    let row = |name: &str, c: u32, not: &str| {
        let [word, ..] = words(&format!(
            "setp.ne.u32 %p2, {c}, 0;
             setp.lt{name}.u32 %p0|%p1, 1, 2{};
             selp.u32 %r0, 2, 0, %p0;
             selp.u32 %r1, 1, 0, %p1;
             or.b32 %r0, %r0, %r1;
             st.global.u32 [%out], %r0;",
            if name.is_empty() {
                String::new()
            } else {
                format!(", {not}%p2")
            }
        ));
        word
    };
    assert_eq!(row("", 0, ""), 0b10);
    assert_eq!([row(".and", 0, ""), row(".and", 1, "")], [0b00, 0b10]);
    assert_eq!([row(".or", 0, ""), row(".or", 1, "")], [0b10, 0b11]);
    assert_eq!([row(".xor", 0, ""), row(".xor", 1, "")], [0b10, 0b01]);
    assert_eq!([row(".and", 0, "!"), row(".and", 1, "!")], [0b10, 0b00]);
    // The sink discards a result.
    assert!(!p("setp.lt.u32 _|%p0, 1, 2;"));
}

/// 9.7.5.1: all ones or zero.
#[test]
fn set() {
    assert_eq!(r("set.lt.u32.s32 %r0, -1, 1;"), u32::MAX);
    assert_eq!(r("set.lt.u32.u32 %r0, -1, 1;"), 0);
    assert_eq!(r("set.eq.s32.u64 %r0, 0x100000000, 0;"), 0);
    assert_eq!(
        r("setp.eq.u32 %p1, 1, 2; set.eq.and.u32.u32 %r0, 1, 1, !%p1;"),
        u32::MAX
    );
}

/// 9.7.5.3: a if p, else b.
#[test]
fn selp() {
    assert_eq!(r("setp.eq.u32 %p1, 1, 1; selp.b32 %r0, 5, 6, %p1;"), 5);
    assert_eq!(r("setp.eq.u32 %p1, 1, 2; selp.s32 %r0, 5, 6, %p1;"), 6);
    assert_eq!(
        d("setp.eq.u32 %p1, 1, 2; selp.b64 %d0, 5, -1, %p1;"),
        u64::MAX
    );
    assert_eq!(h("setp.eq.u32 %p1, 1, 2; selp.u16 %h0, 5, 6, %p1;"), 6);
}

/// 9.7.11.2: an instruction with a false predicate does nothing.
#[test]
fn guards() {
    let body = |guard: &str, a: u32| {
        r(&format!(
            "setp.eq.u32 %p1, {a}, 1; mov.u32 %r0, 7; @{guard} mov.u32 %r0, 8;"
        ))
    };
    assert_eq!([body("%p1", 0), body("%p1", 1)], [7, 8]);
    assert_eq!([body("!%p1", 0), body("!%p1", 1)], [8, 7]);
    // It does not read anything either.
    assert_eq!(
        r("setp.eq.u32 %p1, 0, 1; mov.u32 %r0, 7; @%p1 div.u32 %r0, %r5, 0;"),
        7
    );
}
