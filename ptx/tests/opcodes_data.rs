// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moves, memory, conversions, control flow, barriers and special registers, as in the manual (PTX
//! ISA 8.0), 9.4, 9.7.8, 9.7.11, 9.7.12 and 10.

mod support;

use luxor_ptx::{Grid, Machine, Module};
use support::{d, h, launch, p, r, words};

/// 9.7.8.3: registers, numbers, special registers, addresses of variables.
#[test]
fn mov() {
    assert_eq!(r("mov.u32 %r1, -1; mov.b32 %r0, %r1;"), u32::MAX);
    assert_eq!(d("mov.u64 %d0, 0x123456789abcdef0;"), 0x1234_5678_9abc_def0);
    assert_eq!(h("mov.s16 %h0, -2;"), 0xfffe);
    assert!(p("mov.pred %p0, 1;"));
    assert_eq!(r("mov.u32 %r0, %ntid.x;"), 1);
    assert_eq!(
        r("mov.u64 %d1, words; ld.global.u32 %r0, [%d1];"),
        0x0102_0304
    );
    assert_eq!(r("mov.u64 %d1, words+4; ld.global.u32 %r0, [%d1];"), 7);
    // 4.5.1: decimal, hexadecimal, octal, binary.
    assert_eq!(
        r("mov.u32 %r0, 0x1F; add.u32 %r0, %r0, 017; add.u32 %r0, %r0, 0b11U;"),
        31 + 15 + 3
    );
}

/// 9.7.8.4: the parts of a value, lowest first; `_` discards a part.
#[test]
fn mov_of_parts() {
    assert_eq!(
        d("mov.b64 %d0, {0x11111111, 0x22222222};"),
        0x2222_2222_1111_1111
    );
    assert_eq!(
        r("mov.u16 %h1, 1; mov.u16 %h2, 2; mov.b32 %r0, {%h1, %h2};"),
        0x2_0001
    );
    assert_eq!(
        d("mov.u16 %h1, 1; mov.u16 %h2, 2; mov.b64 %d0, {%h1, %h2, %h2, %h1};"),
        0x0001_0002_0002_0001
    );
    let parts = words(
        "mov.b64 {%r1, %r2}, 0x0123456789abcdef;
         mov.b64 {_, %r3}, 0x0123456789abcdef;
         mov.b32 {%h1, %h2}, 0x89abcdef;
         st.global.v2.u32 [%out], {%r1, %r2};
         st.global.u32 [%out+8], %r3;
         st.global.v2.u16 [%out+16], {%h1, %h2};",
    );
    assert_eq!(
        parts[..3],
        [0x0123_4567_89ab_cdef, 0x0123_4567, 0x89ab_cdef]
    );
}

/// 9.7.8.8, 9.7.8.11 and 9.4.1: all widths. A value narrower than its register is extended, with
/// its sign if it has one, and truncated when stored.
#[test]
fn ld_and_st() {
    let stored = |t: &str, register: &str| {
        words(&format!(
            "mov.u64 %d1, 0xfedcba98f6f5f4f3; cvt.u32.u64 %r1, %d1; cvt.u16.u64 %h1, %d1;
             st.global.{t} [%out], {register};"
        ))[0]
    };
    assert_eq!(stored("u8", "%h1"), 0xf3);
    assert_eq!(stored("b8", "%r1"), 0xf3);
    assert_eq!(stored("u16", "%h1"), 0xf4f3);
    assert_eq!(stored("u16", "%r1"), 0xf4f3);
    assert_eq!(stored("b32", "%d1"), 0xf6f5_f4f3);
    assert_eq!(stored("u64", "%d1"), 0xfedc_ba98_f6f5_f4f3);
    let loaded = |t: &str| {
        d(&format!(
            "mov.u64 %d1, 0xfedcba98f6f5f4f3; st.global.u64 [%out+8], %d1;
             ld.global.{t} %d0, [%out+8];"
        ))
    };
    assert_eq!(loaded("u8"), 0xf3);
    assert_eq!(loaded("s8"), 0xffff_ffff_ffff_fff3);
    assert_eq!(loaded("b16"), 0xf4f3);
    assert_eq!(loaded("s16"), 0xffff_ffff_ffff_f4f3);
    assert_eq!(loaded("u32"), 0xf6f5_f4f3);
    assert_eq!(loaded("s32"), 0xffff_ffff_f6f5_f4f3);
    assert_eq!(loaded("s64"), 0xfedc_ba98_f6f5_f4f3);
    // Extended to the register's width, and no further.
    assert_eq!(
        h("mov.u32 %r1, 0x80; st.global.u32 [%out+8], %r1; ld.global.s8 %h0, [%out+8];"),
        0xff80
    );
    assert!(p("mov.u32 %r1, 0x80; st.global.u32 [%out+8], %r1;
         ld.global.s8 %h0, [%out+8]; setp.eq.u16 %p0, %h0, 0xff80;"));
}

/// 5.4.5 and 11.3: parameters lie at multiples of their alignment.
#[test]
fn parameters_are_aligned() {
    let text = ".version 8.0 .target sm_75 .address_size 64
        .entry k(.param .u8 a, .param .u16 b, .param .align 16 .b8 c[2], .param .u64 .ptr .global d)
        {
            .reg .b32 %r<4>; .reg .b64 %d;
            ld.param.u64 %d, [d];
            ld.param.u8 %r0, [a]; ld.param.u16 %r1, [b]; ld.param.u8 %r2, [c+1];
            st.global.u32 [%d], %r0; st.global.u32 [%d+4], %r1; st.global.u32 [%d+8], %r2;
            ret;
        }";
    let mut machine = Machine::new(&Module::parse(text).unwrap()).unwrap();
    let out = machine.alloc(12);
    let mut params = [0_u8; 32];
    (params[0], params[2], params[17]) = (1, 2, 3);
    params[24..].copy_from_slice(&out.to_le_bytes());
    machine.launch("k", Grid::new(1, 1), &params).unwrap();
    let found = machine.read(out, 12).unwrap();
    assert_eq!(found, [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
}

/// 9.7.8.8 and 9.7.8.11: the elements of vectors are consecutive in memory.
#[test]
fn vectors() {
    let swapped = words(
        "mov.b64 %d1, {1, 2}; mov.b64 %d2, {3, 4};
         st.global.v2.u64 [%out], {%d1, %d2};
         ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%out];
         st.global.v4.u32 [%out+16], {%r4, %r3, %r2, %r1};
         ld.global.v2.u32 {_, %r5}, [%out+16];
         st.global.u32 [%out+32], %r5;
         ld.global.v4.u8 {%h1, %h2, %h3, %h4}, [%out+4];
         st.global.v2.u8 [%out+40], {%h1, %h1};",
    );
    assert_eq!(swapped[2..6], [3 << 32 | 4, 1 << 32 | 2, 3, 0x0202]);
}

/// 5.1 and 6.4: each space has its own addresses; cvta (9.7.8.17) converts them to generic
/// addresses and back.
#[test]
fn state_spaces() {
    assert_eq!(r("ld.param.u32 %r0, [a];"), 0x1234_5678);
    assert_eq!(r("ld.param.u8 %r0, [a+1];"), 0x56);
    assert_eq!(r("ld.const.u8 %r0, [table+4];"), 0xff);
    assert_eq!(d("ld.const.u64 %d0, [table];"), 0x7f80_feff_0403_0201);
    assert_eq!(r("ld.global.nc.u32 %r0, [words];"), 0x0102_0304);
    assert_eq!(r("ld.volatile.global.u32 %r0, [words+4];"), 7);
    assert_eq!(
        r("mov.u64 %d1, words+8; ld.relaxed.gpu.global.ca.u32 %r0, [%d1+-4];"),
        7
    );
    assert_eq!(
        r(
            "mov.u64 %d1, static; mov.u32 %r1, 9; st.shared.u32 [%d1+4], %r1; ld.shared.u32 %r0, [static+4];"
        ),
        9
    );
    assert_eq!(
        r("mov.u32 %r1, 9; st.local.u32 [own+8], %r1; ld.local.u32 %r0, [own+8];"),
        9
    );
    for (space, name) in [("shared", "static"), ("local", "own"), ("global", "words")] {
        let body = format!(
            "mov.u32 %r1, 77; mov.u64 %d1, {name}; cvta.{space}.u64 %d2, %d1;
             st.u32 [%d2+4], %r1; ld.u32 %r0, [%d2+4];
             cvta.to.{space}.u64 %d3, %d2; ld.{space}.u32 %r2, [%d3+4];
             xor.b64 %d4, %d1, %d3; cvt.u32.u64 %r3, %d4;
             add.u32 %r0, %r0, %r2; add.u32 %r0, %r0, %r3;"
        );
        assert_eq!(r(&body), 154, "{space}");
    }
    assert_eq!(
        r("mov.u64 %d1, table; cvta.const.u64 %d1, %d1; ld.u8 %r0, [%d1+3];"),
        4
    );
}

/// 5.1.8 and `extern`: the shared memory that a launch adds comes after the rest.
#[test]
fn dynamic_shared_memory() {
    let body = "mov.u32 %r1, 5; mov.u32 %r2, 6;
         st.shared.u32 [static+60], %r1; st.shared.u32 [dynamic], %r2;
         ld.shared.u32 %r3, [static+60]; ld.shared.u32 %r4, [dynamic];
         mov.u64 %d1, dynamic; mov.u64 %d2, static; sub.s64 %d3, %d1, %d2;
         st.global.v2.u32 [%out], {%r3, %r4}; st.global.u64 [%out+8], %d3;";
    let out = launch(body, Grid::new(1, 1).with_shared(4)).unwrap();
    assert_eq!(out[..8], [5, 0, 0, 0, 6, 0, 0, 0]);
    assert_eq!(out[8..16], 64_u64.to_le_bytes());
}

/// 9.7.8.18, table 13: conversion to a narrower type truncates, and to a wider one extends by the
/// source's sign; .sat gives the nearest number of the destination's type.
#[test]
fn cvt() {
    assert_eq!(
        d("mov.u32 %r1, 0x80000000; cvt.u64.u32 %d0, %r1;"),
        0x8000_0000
    );
    assert_eq!(
        d("mov.u32 %r1, 0x80000000; cvt.s64.s32 %d0, %r1;"),
        0xffff_ffff_8000_0000
    );
    assert_eq!(
        d("mov.u32 %r1, 0x80000000; cvt.u64.s32 %d0, %r1;"),
        0xffff_ffff_8000_0000
    );
    assert_eq!(
        r("mov.u64 %d1, 0x123456789; cvt.u32.u64 %r0, %d1;"),
        0x2345_6789
    );
    assert_eq!(h("mov.u32 %r1, 0x12345678; cvt.u16.u32 %h0, %r1;"), 0x5678);
    // To 8 bits, and then to the register's width (9.4.1).
    assert_eq!(r("mov.u32 %r1, 0x12345688; cvt.u8.u32 %r0, %r1;"), 0x88);
    assert_eq!(
        r("mov.u32 %r1, 0x12345688; cvt.s8.s32 %r0, %r1;"),
        0xffff_ff88
    );
    assert_eq!(
        r("mov.u32 %r1, 0x12345688; cvt.s32.s8 %r0, %r1;"),
        0xffff_ff88
    );
    assert_eq!(r("mov.u32 %r1, 0x12345688; cvt.u32.u8 %r0, %r1;"), 0x88);
    assert_eq!(h("mov.u32 %r1, 0x12345688; cvt.s8.u32 %h0, %r1;"), 0xff88);
    assert_eq!(r("mov.u16 %h1, 0x8001; cvt.s32.s16 %r0, %h1;"), 0xffff_8001);
    let sat = |t: &str, number: i64| r(&format!("cvt.sat.{t} %r0, {number};"));
    assert_eq!(sat("u8.s32", 300), 255);
    assert_eq!(sat("u8.s32", -1), 0);
    assert_eq!(sat("u8.s32", 77), 77);
    assert_eq!(sat("s8.s32", -300), 0xffff_ff80);
    assert_eq!(sat("s8.u32", 200), 127);
    assert_eq!(sat("s32.u32", 0xffff_ffff), 0x7fff_ffff);
    assert_eq!(sat("u32.s32", -5), 0);
    assert_eq!(sat("u32.s64", 1 << 40), u32::MAX);
    assert_eq!(d("cvt.sat.s64.u64 %d0, -1;"), i64::MAX.cast_unsigned());
    assert_eq!(d("cvt.sat.u64.s64 %d0, -1;"), 0);
}

/// 9.7.11.3: a loop, and a jump over code.
#[test]
fn bra() {
    assert_eq!(
        r("mov.u32 %r0, 0; mov.u32 %r1, 10;
           $again: add.u32 %r0, %r0, %r1; sub.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0;
           @%p1 bra $again;
           bra.uni $end; mov.u32 %r0, 0; $end:"),
        55
    );
}

/// 9.7.11.6 and 9.7.11.7: in a kernel, both end the thread.
#[test]
fn ret_and_exit() {
    for end in ["ret", "ret.uni", "exit"] {
        let body = format!(
            "mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %out, %d1;
             mov.u32 %r0, 1; st.global.u32 [%d2], %r0;
             setp.eq.u32 %p1, %r1, 2; @%p1 {end};
             mov.u32 %r0, 2; st.global.u32 [%d2], %r0;"
        );
        let out = launch(&body, Grid::new(1, 4)).unwrap();
        assert_eq!([out[0], out[4], out[8], out[12]], [2, 2, 1, 2], "{end}");
    }
}

/// 9.7.11.1: braces have their own registers.
#[test]
fn braces() {
    assert_eq!(
        r(
            "mov.u32 %r0, 1; { .reg .b32 %r0; mov.u32 %r0, 2; .reg .b32 t; mov.u32 t, %r0; } add.u32 %r0, %r0, 4;"
        ),
        5
    );
}

/// 9.7.12.1: after a barrier, all threads see what others wrote before it.
#[test]
fn barriers() {
    for barrier in [
        "bar.sync 0",
        "bar.cta.sync 3",
        "barrier.sync 1",
        "barrier.cta.sync.aligned 15",
        "bar.sync 0, 64",
    ] {
        // Each thread writes its number for the thread after the next, twice.
        let body = format!(
            "mov.u32 %r1, %tid.x; mov.u64 %d1, dynamic;
             add.u32 %r2, %r1, 2; and.b32 %r2, %r2, 63;
             mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d1, %d2;
             mul.wide.u32 %d3, %r2, 4; add.u64 %d3, %d1, %d3;
             st.shared.u32 [%d3], %r1;
             {barrier};
             ld.shared.u32 %r3, [%d2];
             {barrier};
             st.shared.u32 [%d3], %r3;
             {barrier};
             ld.shared.u32 %r3, [%d2];
             setp.ne.u32 %p1, %r1, 5; @%p1 ret;
             st.global.u32 [%out], %r3;"
        );
        let out = launch(&body, Grid::new(1, 64).with_shared(256)).unwrap();
        assert_eq!(out[0], 1, "{barrier}");
    }
}

/// 9.7.12.3: threads run one after the other here, so a fence has no effect.
#[test]
fn fences() {
    let fences = "membar.cta; membar.gl; membar.sys; fence.sc.gpu; fence.acq_rel.cta; fence.sys;";
    assert_eq!(r(&format!("mov.u32 %r0, 3; {fences}")), 3);
}

/// 10.1 to 10.8: the position of a thread in its block, its warp and its grid.
#[test]
fn special_registers() {
    let grid = Grid {
        blocks: [2, 3, 4],
        threads: [4, 5, 6],
        dynamic_shared: 0,
    };
    let last = |register: &str| {
        let body = format!(
            "mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;
             mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ctaid.y; mov.u32 %r6, %ctaid.z;
             setp.ne.u32 %p1, %r1, 3; @%p1 ret; setp.ne.u32 %p1, %r2, 4; @%p1 ret;
             setp.ne.u32 %p1, %r3, 5; @%p1 ret; setp.ne.u32 %p1, %r4, 1; @%p1 ret;
             setp.ne.u32 %p1, %r5, 2; @%p1 ret; setp.ne.u32 %p1, %r6, 3; @%p1 ret;
             mov.u32 %r0, {register}; st.global.u32 [%out], %r0;"
        );
        launch(&body, grid).unwrap()[0]
    };
    let all = |name: &str| ["x", "y", "z"].map(|axis| last(&format!("%{name}.{axis}")));
    assert_eq!(all("tid"), [3, 4, 5]);
    assert_eq!(all("ntid"), [4, 5, 6]);
    assert_eq!(all("ctaid"), [1, 2, 3]);
    assert_eq!(all("nctaid"), [2, 3, 4]);
    // The last of 120 threads.
    assert_eq!(["%laneid", "%warpid", "%nwarpid"].map(last), [23, 3, 4]);
}
