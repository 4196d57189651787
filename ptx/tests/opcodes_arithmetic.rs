// SPDX-License-Identifier: MIT OR Apache-2.0
//! Integer arithmetic, as in the manual (PTX ISA 8.0), 9.7.1 and 9.7.2.

mod support;

use support::{d, fault, r, r16, r32, r64, words};

/// The bits of a negative number.
const fn neg(number: i32) -> u32 {
    number.cast_unsigned()
}

const fn neg64(number: i64) -> u64 {
    number.cast_unsigned()
}

/// 9.7.1.1: d = a + b. Without saturation it wraps.
#[test]
fn add() {
    assert_eq!(r32("add.u32", &[40, 2]), 42);
    assert_eq!(r32("add.s32", &[0x7fff_ffff, 1]), 0x8000_0000);
    assert_eq!(r32("add.u32", &[u32::MAX, 1]), 0);
    assert_eq!(r64("add.s64", &[u64::from(u32::MAX), 1]), 1 << 32);
    assert_eq!(r64("add.u64", &[u64::MAX, 2]), 1);
    assert_eq!(r16("add.u16", &[u16::MAX, 2]), 1);
    assert_eq!(r16("add.s16", &[0x7fff, 1]), 0x8000);
}

/// 9.7.1.2: d = a - b.
#[test]
fn sub() {
    assert_eq!(r32("sub.s32", &[2, 3]), u32::MAX);
    assert_eq!(r32("sub.u32", &[7, 3]), 4);
    assert_eq!(r64("sub.s64", &[1 << 32, 1]), u64::from(u32::MAX));
    assert_eq!(r16("sub.u16", &[0, 1]), u16::MAX);
}

/// 9.7.1.3: .lo and .hi are the halves of the product, .wide is the whole product.
#[test]
fn mul() {
    assert_eq!(r32("mul.lo.s32", &[0x1_0001, 0x1_0001]), 0x2_0001);
    assert_eq!(r32("mul.lo.u32", &[neg(-3), 5]), neg(-15));
    assert_eq!(r32("mul.hi.u32", &[u32::MAX, u32::MAX]), u32::MAX - 1);
    assert_eq!(r32("mul.hi.s32", &[neg(-1), neg(-1)]), 0);
    assert_eq!(r32("mul.hi.s32", &[neg(-1), 1]), u32::MAX);
    assert_eq!(r32("mul.hi.s32", &[0x8000_0000, 0x8000_0000]), 0x4000_0000);
    assert_eq!(r64("mul.hi.u64", &[u64::MAX, u64::MAX]), u64::MAX - 1);
    assert_eq!(r64("mul.hi.s64", &[u64::MAX, 1]), u64::MAX);
    assert_eq!(r64("mul.hi.s64", &[1 << 63, 1 << 63]), 1 << 62);
    assert_eq!(r64("mul.lo.s64", &[1 << 63, 3]), 1 << 63);
    assert_eq!(r16("mul.hi.u16", &[0xffff, 0xffff]), 0xfffe);
    assert_eq!(r16("mul.hi.s16", &[0xffff, 2]), 0xffff);
    assert_eq!(
        d("mul.wide.u32 %d0, 4294967295, 4294967295;"),
        0xffff_fffe_0000_0001
    );
    assert_eq!(d("mul.wide.s32 %d0, -1, 5;"), neg64(-5));
    assert_eq!(r("mul.wide.u16 %r0, 0xffff, 0xffff;"), 0xfffe_0001);
    assert_eq!(r("mul.wide.s16 %r0, -2, 3;"), neg(-6));
}

/// 9.7.1.4: d = a × b + c, with c as wide as d.
#[test]
fn mad() {
    assert_eq!(r32("mad.lo.s32", &[6, 7, 8]), 50);
    assert_eq!(r32("mad.lo.u32", &[1 << 31, 2, 5]), 5);
    assert_eq!(r32("mad.hi.u32", &[1 << 31, 6, 5]), 8);
    assert_eq!(r32("mad.hi.s32", &[neg(-1), 1, 5]), 4);
    assert_eq!(r64("mad.lo.s64", &[1 << 32, 1 << 32, 9]), 9);
    assert_eq!(r64("mad.hi.u64", &[1 << 32, 1 << 33, 9]), 11);
    assert_eq!(
        d("mad.wide.u32 %d0, 4294967295, 2, 4294967298;"),
        0x3_0000_0000
    );
    assert_eq!(d("mad.wide.s32 %d0, -1, 2, 1;"), u64::MAX);
    assert_eq!(r("mad.wide.u16 %r0, 0xffff, 2, 0x10000;"), 0x2_fffe);
}

/// 9.7.1.8 and 9.7.1.9: the quotient is truncated towards zero, and the remainder has the
/// dividend's sign. Division by zero has no defined result.
#[test]
fn div_and_rem() {
    assert_eq!(r32("div.u32", &[0xffff_fffe, 3]), 0x5555_5554);
    assert_eq!(r32("div.s32", &[neg(-7), 2]), neg(-3));
    assert_eq!(r64("div.u64", &[u64::MAX, 1 << 60]), 15);
    assert_eq!(r64("div.s64", &[neg64(-9), 2]), neg64(-4));
    assert_eq!(r16("div.u16", &[0xffff, 16]), 0xfff);
    assert_eq!(r32("rem.u32", &[0xffff_fffe, 3]), 2);
    assert_eq!(r32("rem.s32", &[neg(-7), 2]), neg(-1));
    assert_eq!(r64("rem.u64", &[u64::MAX, 10]), 5);
    for name in ["div", "rem"] {
        let body = format!("mov.u32 %r1, 0; {name}.u32 %r0, 1, %r1;");
        assert_eq!(fault(&body), luxor_ptx::Fault::DivisionByZero);
    }
}

/// 9.7.1.10 and 9.7.1.11, signed types only.
#[test]
fn abs_and_neg() {
    assert_eq!(r32("abs.s32", &[neg(-5)]), 5);
    assert_eq!(r32("abs.s32", &[5]), 5);
    assert_eq!(r64("abs.s64", &[neg64(-5)]), 5);
    assert_eq!(r16("abs.s16", &[0xffff]), 1);
    assert_eq!(r32("neg.s32", &[5]), neg(-5));
    assert_eq!(r64("neg.s64", &[1]), u64::MAX);
    assert_eq!(r16("neg.s16", &[1]), 0xffff);
}

/// 9.7.1.12 and 9.7.1.13: signed and unsigned comparisons differ.
#[test]
fn min_and_max() {
    assert_eq!(r32("min.u32", &[neg(-1), 1]), 1);
    assert_eq!(r32("min.s32", &[neg(-1), 1]), neg(-1));
    assert_eq!(r32("max.u32", &[neg(-1), 1]), neg(-1));
    assert_eq!(r32("max.s32", &[neg(-1), 1]), 1);
    assert_eq!(r64("min.s64", &[1 << 63, 0]), 1 << 63);
    assert_eq!(r64("max.u64", &[1 << 63, 0]), 1 << 63);
    assert_eq!(r16("min.s16", &[0x8000, 0]), 0x8000);
    assert_eq!(r16("max.s16", &[0x8000, 0]), 0);
}

/// 9.7.1.14 and 9.7.1.15: the result has 32 bits whatever the operand's width.
#[test]
fn popc_and_clz() {
    assert_eq!(r32("popc.b32", &[0xf0f0_0001]), 9);
    assert_eq!(r32("popc.b32", &[0]), 0);
    assert_eq!(r("popc.b64 %r0, -1;"), 64);
    assert_eq!(r32("clz.b32", &[1]), 31);
    assert_eq!(r32("clz.b32", &[0]), 32);
    assert_eq!(r("clz.b64 %r0, 1;"), 63);
    assert_eq!(r("clz.b64 %r0, 0;"), 64);
}

/// 9.7.1.16: the index of the highest bit that differs from the sign, or 0xffffffff if there is
/// none. With .shiftamt, the shift that moves it to the top.
#[test]
fn bfind() {
    assert_eq!(r32("bfind.u32", &[0x8000_0000]), 31);
    assert_eq!(r32("bfind.u32", &[1]), 0);
    assert_eq!(r32("bfind.u32", &[0]), u32::MAX);
    assert_eq!(r32("bfind.s32", &[neg(-1)]), u32::MAX);
    assert_eq!(r32("bfind.s32", &[neg(-5)]), 2);
    assert_eq!(r32("bfind.s32", &[5]), 2);
    assert_eq!(r32("bfind.shiftamt.u32", &[1]), 31);
    assert_eq!(r32("bfind.shiftamt.u32", &[0]), u32::MAX);
    assert_eq!(r("bfind.u64 %r0, 0x100000000;"), 32);
    assert_eq!(r("bfind.shiftamt.s64 %r0, -2;"), 63);
}

/// 9.7.1.18: d[i] = a[msb - i].
#[test]
fn brev() {
    assert_eq!(r32("brev.b32", &[1]), 0x8000_0000);
    assert_eq!(r32("brev.b32", &[0x0000_00f1]), 0x8f00_0000);
    assert_eq!(r64("brev.b64", &[3]), 0xc000_0000_0000_0000);
}

/// 9.7.1.19: `c` bits from bit `b` on. Bits beyond the top, and those above the field, are the sign
/// of the field.
#[test]
fn bfe() {
    assert_eq!(r32("bfe.u32", &[0x1234_5678, 8, 8]), 0x56);
    assert_eq!(r32("bfe.s32", &[0x0000_8000, 8, 8]), 0xffff_ff80);
    assert_eq!(r32("bfe.u32", &[0xffff_ffff, 28, 8]), 0xf);
    assert_eq!(r32("bfe.s32", &[0x7fff_ffff, 28, 8]), 7);
    assert_eq!(r32("bfe.s32", &[0x8000_0000, 40, 4]), u32::MAX);
    assert_eq!(r32("bfe.u32", &[0x8000_0000, 40, 4]), 0);
    assert_eq!(r32("bfe.s32", &[0xffff_ffff, 4, 0]), 0);
    assert_eq!(r32("bfe.u32", &[0xabcd_ef01, 0, 32]), 0xabcd_ef01);
    // Only the low 8 bits of start and length count.
    assert_eq!(r32("bfe.u32", &[0x1234_5678, 0x108, 0x308]), 0x56);
    assert_eq!(d("bfe.u64 %d0, 0x123456789abcdef0, 32, 16;"), 0x5678);
    assert_eq!(d("bfe.s64 %d0, 0x8000000000000000, 60, 4;"), neg64(-8));
}

/// 9.7.1.20: the low `d` bits of `a` inserted into `b` at bit `c`.
#[test]
fn bfi() {
    assert_eq!(r32("bfi.b32", &[0xab, 0x1234_5678, 8, 8]), 0x1234_ab78);
    assert_eq!(r32("bfi.b32", &[0xffff, 0, 28, 8]), 0xf000_0000);
    assert_eq!(r32("bfi.b32", &[0xffff, 5, 32, 8]), 5);
    assert_eq!(r32("bfi.b32", &[0xffff, 5, 3, 0]), 5);
    assert_eq!(r32("bfi.b32", &[0x1234, 5, 0, 255]), 0x1234);
    assert_eq!(
        r32("bfi.b32", &[0xab, 0x1234_5678, 0x108, 0x208]),
        0x1234_ab78
    );
    assert_eq!(
        d("bfi.b64 %d0, 0x89abcdef, 0x01234567, 32, 32;"),
        0x89ab_cdef_0123_4567
    );
}

/// 9.7.2.1 and 9.7.2.2: a sum of 128 bits in four words. An addc that does not write the carry
/// leaves it unchanged.
#[test]
fn add_with_carry() {
    let sum = words(
        "add.cc.u32  %r0, 0xffffffff, 1;
         addc.cc.u32 %r1, 0xffffffff, 0;
         addc.cc.u32 %r2, 5, 6;
         addc.u32    %r3, 7, 8;
         st.global.v4.u32 [%out], {%r0, %r1, %r2, %r3};",
    );
    assert_eq!(sum[..2], [0, 15 << 32 | 12]);
    let kept = words(
        "add.cc.u64  %d0, -1, 1;
         addc.u64    %d1, 0, 0;
         add.u64     %d2, 1, 1;
         addc.u64    %d3, 0, 0;
         st.global.v2.u64 [%out], {%d0, %d1};
         st.global.v2.u64 [%out+16], {%d2, %d3};",
    );
    assert_eq!(kept[..4], [0, 1, 2, 1]);
    // A carry that results from the incoming carry alone.
    assert_eq!(
        r("add.cc.u32 %r0, -1, -1; addc.cc.u32 %r0, -1, 0; addc.u32 %r0, 0, 0;"),
        1
    );
    assert_eq!(r("add.cc.s32 %r0, 1, 1; addc.s32 %r0, 0, 0;"), 0);
}

/// 9.7.2.3 and 9.7.2.4: the carry of a difference is the borrow.
#[test]
fn sub_with_borrow() {
    let difference = words(
        "sub.cc.u32  %r0, 0, 1;
         subc.cc.u32 %r1, 0, 0;
         subc.cc.u32 %r2, 5, 2;
         subc.u32    %r3, 7, 2;
         st.global.v4.u32 [%out], {%r0, %r1, %r2, %r3};",
    );
    assert_eq!(difference[..2], [u64::MAX, 5 << 32 | 2]);
    assert_eq!(d("sub.cc.u64 %d0, 1, 1; subc.u64 %d0, 0, 0;"), 0);
    assert_eq!(d("sub.cc.s64 %d0, 0, 1; subc.s64 %d0, 0, 0;"), u64::MAX);
}

/// 9.7.2.5 and 9.7.2.6: a product of 64 bits by 32 bits, from the manual's example.
#[test]
fn mad_with_carry() {
    // 0x1_ffffffff × 0xffffffff + (2^32 - 1), word by word.
    let product = words(
        "mov.u32        %r1, 0xffffffff;
         mad.lo.cc.u32  %r2, %r1, %r1, %r1;
         madc.hi.u32    %r3, %r1, %r1, 0;
         mad.lo.cc.u32  %r3, 1, %r1, %r3;
         madc.hi.u32    %r4, 1, %r1, 0;
         st.global.v2.u32 [%out], {%r2, %r3};
         st.global.u32 [%out+8], %r4;",
    );
    let exact = 0x1_ffff_ffff_u128 * 0xffff_ffff + 0xffff_ffff;
    let words = u128::from(product[1]) << 64 | u128::from(product[0]);
    assert_eq!(words, exact);
    assert_eq!(
        d(
            "mad.lo.cc.u64 %d0, -1, 1, 1; madc.lo.cc.u64 %d0, 2, 3, 4; addc.u64 %d1, 0, 0; add.u64 %d0, %d0, %d1;"
        ),
        11
    );
    assert_eq!(d("mad.hi.cc.u64 %d0, -1, 2, -1; addc.u64 %d0, 0, 0;"), 1);
}

/// 9.7.2: each thread has its own carry, which is undefined before it is written.
#[test]
fn a_carry_is_set_before_it_is_used() {
    for body in [
        "addc.u32 %r0, 1, 1;",
        "subc.u32 %r0, 1, 1;",
        "madc.lo.u32 %r0, 1, 1, 1;",
    ] {
        assert_eq!(fault(body), luxor_ptx::Fault::CarryUnset, "{body}");
    }
}
