// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that is refused: texts, launches, and forbidden actions of threads.

mod support;

use luxor_ptx::{Fault, Grid, Kernel, Machine, Module, Parameters, ParseFault, RunError, Space};
use support::{FIRST_LINE, fault, fault_of, launch, module, parse_fault, r, text};

#[test]
fn unknown_instructions_are_named_with_their_line() {
    for (line, opcode) in [
        ("shfl.sync.idx.b32 %r0, %r1, 0, 31, -1;", "shfl"),
        ("@%p0 atom.global.add.u32 %r0, [%d0], 1;", "atom"),
        ("call foo;", "call"),
        ("fma.rn.f32 %r0, %r1, %r2, %r3;", "fma"),
        ("%r0 = %r1;", "%r0"),
    ] {
        let opcode = opcode.to_owned();
        assert_eq!(
            parse_fault(&format!("\n\n{line}")),
            (3, ParseFault::UnknownOpcode { opcode })
        );
    }
}

#[test]
fn unknown_modifiers_are_named_with_their_instruction() {
    for (name, modifier) in [
        ("add.sat.s32", "sat"),
        ("add.f32", "f32"),
        ("add.b32", "b32"),
        ("and.u32", "u32"),
        ("ld.global.v8.u32", "v8"),
        ("ld.shared.nc.u32", "nc"),
        ("ld.acquire.gpu.global.u32", "acquire"),
        ("st.const.u32", "const"),
        ("st.param.u32", "param"),
        ("prmt.b32.f5e", "f5e"),
        ("shf.l.wrap.u32", "u32"),
        ("shl.u32", "u32"),
        ("lop3.or.b32", "or"),
        ("setp.num.u32", "num"),
        ("setp.lo.s32", "s32"),
        ("setp.lt.b32", "b32"),
        ("setp.lt.nand.u32", "nand"),
        ("cvt.rn.f32.s32", "rn"),
        ("cvt.u32.f32", "f32"),
        ("mul.wide.u64", "u64"),
        ("mad.wide.cc.u32", "cc"),
        ("min.b32", "b32"),
        ("bar.red.popc.u32", "red"),
        ("bar.warp.sync", "warp"),
        ("fence.proxy.alias", "proxy"),
        ("abs.u32", "u32"),
        ("ret.now", "now"),
        ("bra.div", "div"),
        ("mov.u32.u32", "u32"),
        ("xor.b32.x", "x"),
    ] {
        let expected = ParseFault::UnknownModifier {
            instruction: name.to_owned(),
            modifier: modifier.to_owned(),
        };
        let body = format!("\n{name} %r0, %r1, %r2, %r3;");
        assert_eq!(parse_fault(&body), (2, expected));
    }
    for name in [
        "add",
        "mul",
        "shf.l",
        "setp.lt",
        "ld.global",
        "bar",
        "membar",
    ] {
        let (line, fault) = parse_fault(&format!("{name} %r0, %r1, %r2;"));
        assert!(
            matches!(&fault, ParseFault::MissingModifier { instruction, .. } if instruction == name),
            "{name}: {fault}"
        );
        assert_eq!(line, 1);
    }
}

#[test]
fn unknown_directives_and_special_registers_are_named() {
    let directive = |name: &str| ParseFault::UnknownDirective {
        directive: name.to_owned(),
    };
    for (body, name) in [
        (".branchtargets a, b;", ".branchtargets"),
        (".reg .f32 %f<3>;", ".f32"),
        (".reg .b8 %b<3>;", ".b8"),
        (".const .u32 x;", ".const"),
        (".tex .u32 x;", ".tex"),
    ] {
        assert_eq!(parse_fault(&format!("\n{body}")), (2, directive(name)));
    }
    for name in ["%clock", "%lanemask_lt", "%tid.w", "%r99", "%smid"] {
        let expected = ParseFault::UnknownSpecial {
            name: name.to_owned(),
        };
        assert_eq!(parse_fault(&format!("mov.u32 %r0, {name};")), (1, expected));
    }
    let head = ".version 8.0\n.target sm_75\n.address_size 64\n";
    for (rest, name) in [
        (".func f() { ret; }", ".func"),
        (".section .debug_str { }", ".section"),
        (
            ".visible .entry k() .maxclusterrank 8 { ret; }",
            ".maxclusterrank",
        ),
        (".global .f32 x;", ".f32"),
    ] {
        let error = Module::parse(&format!("{head}\n{rest}")).unwrap_err();
        assert_eq!((error.line, error.what), (5, directive(name)), "{rest}");
    }
}

#[test]
fn invalid_ptx_is_refused() {
    for (body, expected) in [
        ("add.u32 %r0, %r1;", "expected `,`, found ;"),
        ("add.u32 %r0, %r1, %r2", "expected `;`, found ret"),
        (
            "add.u32 %r0, %r1, %d2;",
            "%d2 is 64 bits wide, but must be 32 bits wide",
        ),
        (
            "add.u32 %h0, %r1, %r2;",
            "%h0 is 16 bits wide, but must be 32 bits wide",
        ),
        (
            "selp.u32 %r0, %r1, %r2, %r3;",
            "%r3 is 32 bits wide, but must be a predicate",
        ),
        (
            "ld.global.u32 %h0, [%d0];",
            "%h0 is 16 bits wide, but must be 32 bits wide",
        ),
        (
            "ld.global.v2.u32 {%r0, %r1, %r2}, [%d0];",
            "expected 2 elements, found another number",
        ),
        (
            "ld.global.u32 %r0, [static];",
            "static is in shared memory, but must be in global memory",
        ),
        (
            "ld.global.u32 %r0, [%h0];",
            "%h0 is 16 bits wide, but must be 64 bits wide",
        ),
        (
            "mov.u32 %r0, static;",
            "static is 64 bits wide, but must be 32 bits wide",
        ),
        ("mov.u64 %d0, nowhere;", "nowhere is not declared"),
        ("bra nowhere;", "nowhere is not declared"),
        ("a: a: ret;", "a is declared twice"),
        (".reg .b32 %r0;", "%r0 is declared twice"),
        (".shared .b32 static;", "static is declared twice"),
        (
            "mov.u16 %h0, 65536;",
            "65536 is invalid: too many bits for the type",
        ),
        (
            "mov.u32 %r0, 0f3f800000;",
            "0f3f800000 is invalid: not an integer",
        ),
        (
            "mov.b64 %d0, {%r0, %r1, %r2};",
            "expected two or four parts of the type, found {",
        ),
        (
            "lop3.b32 %r0, %r1, %r2, %r3, 256;",
            "256 is invalid: too many bits for the type",
        ),
        ("mov.u32 5, %r0;", "expected a word, found 5"),
        (
            ".pragma \"unroll\";",
            "expected \"nounroll\", found \"unroll\"",
        ),
    ] {
        let (line, fault) = parse_fault(&format!("\n{body}"));
        assert_eq!(fault.to_string(), expected, "{body}");
        // Text missing at the end of a line is noticed in the next line.
        assert_eq!(line, if body.ends_with(';') { 2 } else { 3 }, "{body}");
    }
    for (text, expected) in [
        ("", "line 1: expected .version, found the end of the text"),
        (
            ".version 8",
            "line 1: 8 is invalid: a version consists of two numbers",
        ),
        (
            ".version 8.0\n.target sm_75\n.address_size 32",
            "line 3: 32 is invalid: only 64-bit addresses are supported",
        ),
        (
            ".version 8.0 /* open",
            "line 1: expected */, found the end of the text",
        ),
        (
            ".version 8.0 .target sm_75 .address_size 64\n.entry k() { ret;",
            "line 2: expected an instruction, found the end of the text",
        ),
        (
            ".version 8.0 .target sm_75 .address_size 64\n.const .u8 x[2] = {1, 2, 3};",
            "line 2: expected no more elements, found x",
        ),
        (
            ".version 8.0 .target sm_75 .address_size 64\n.const .u8 x = 256;",
            "line 2: 256 is invalid: too many bits for the type",
        ),
        (
            ".version 8.0 .target sm_75 .address_size 64\n.entry k() { ret; }\n.entry k() { ret; }",
            "line 3: k is declared twice",
        ),
        (
            ".version 8.0 .target sm_75 .address_size 64\n.shared .align 3 .u8 x;",
            "line 2: 3 is invalid: not a power of two up to 1024",
        ),
    ] {
        assert_eq!(Module::parse(text).unwrap_err().to_string(), expected);
    }
}

#[test]
fn line_numbers_count_comments_and_blank_lines() {
    let error =
        Module::parse("// one\n/* two\nthree */ .version 8.0\n\n.traget sm_75").unwrap_err();
    assert_eq!(error.line, 5);
}

#[test]
fn accesses_out_of_bounds_are_refused() {
    for (access, space, len) in [
        ("ld.global.u32 %r0, [%out+61]", Space::Global, 4),
        ("ld.global.u8 %r0, [%out+64]", Space::Global, 1),
        ("ld.global.u8 %r0, [%out+-1]", Space::Global, 1),
        ("st.global.u64 [%out+64], %out", Space::Global, 8),
        ("ld.global.u8 %r0, [0]", Space::Global, 1),
        ("ld.global.u32 %r0, [words+8]", Space::Global, 4),
        ("ld.const.u8 %r0, [table+16]", Space::Const, 1),
        ("ld.const.u8 %r0, [table-1]", Space::Const, 1),
        ("ld.shared.u8 %r0, [static+64]", Space::Shared, 1),
        ("st.shared.u8 [static-1], %r1", Space::Shared, 1),
        ("st.shared.u8 [dynamic], %r1", Space::Shared, 1),
        ("ld.shared.u8 %r0, [0]", Space::Shared, 1),
        ("ld.local.u8 %r0, [own+16]", Space::Local, 1),
        ("st.local.u8 [own+-1], %r1", Space::Local, 1),
        ("ld.param.u32 %r0, [b+4]", Space::Param, 4),
    ] {
        // The address itself, aligned or not.
        let access = access.replace("+61", "+64");
        let fault = fault(&format!("mov.u32 %r1, 1; {access};"));
        assert!(
            matches!(fault, Fault::OutOfBounds { space: s, len: l, .. } if s == space && l == len),
            "{access}: {fault}"
        );
    }
    // A vector is out of bounds if its last element is.
    let body = "mov.u64 %d1, words; ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%d1];";
    assert!(matches!(fault(body), Fault::OutOfBounds { .. }));
    let body = "cvta.shared.u64 %d1, 0; ld.u8 %r0, [%d1];";
    let expected = Fault::OutOfBounds {
        space: Space::Shared,
        address: 0,
        len: 1,
    };
    assert_eq!(fault(body), expected);
}

#[test]
fn misaligned_accesses_are_refused() {
    for (access, len) in [
        ("ld.global.u16 %r0, [%out+1]", 2),
        ("ld.global.u32 %r0, [%out+2]", 4),
        ("ld.global.u64 %d0, [%out+4]", 8),
        ("ld.global.v2.u32 {%r0, %r1}, [%out+4]", 8),
        ("ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%out+8]", 16),
        ("st.global.v2.u64 [%out+8], {%out, %out}", 16),
        ("st.shared.u32 [static+2], %r15", 4),
        ("ld.const.u32 %r0, [table+1]", 4),
        ("ld.param.u64 %d0, [b]", 8),
        ("st.local.u32 [own+1], %r15", 4),
    ] {
        let fault = fault(&format!("mov.u32 %r15, 1; {access};"));
        assert!(
            matches!(fault, Fault::Misaligned { len: l, .. } if l == len),
            "{access}: {fault}"
        );
    }
}

#[test]
fn constants_and_parameters_are_read_only() {
    for space in ["const", "param"] {
        let body = format!("cvta.{space}.u64 %d1, 0; add.u64 %d1, %d1, 8; st.u32 [%d1], 1;");
        assert!(matches!(fault(&body), Fault::ReadOnly { .. }), "{space}");
    }
}

#[test]
fn registers_are_written_before_they_are_read() {
    for (body, name) in [
        ("add.u32 %r0, %r1, 1;", "%r1"),
        ("mov.u32 %r1, 1; add.u32 %r0, %r1, %r2;", "%r2"),
        ("@%p3 mov.u32 %r0, 1;", "%p3"),
        ("st.global.u32 [%out], %r4;", "%r4"),
        ("ld.global.u32 %r0, [%d4];", "%d4"),
        (
            "setp.eq.u32 %p1, 0, 1; @%p1 mov.u32 %r1, 1; mov.u32 %r0, %r1;",
            "%r1",
        ),
        ("setp.eq.and.u32 %p1, 0, 1, %p2;", "%p2"),
        ("mov.b64 %d0, {%r1, %r2};", "%r2"),
        ("bar.sync %r1;", "%r1"),
    ] {
        let register = name.to_owned();
        assert_eq!(fault(body), Fault::Unwritten { register }, "{body}");
    }
}

#[test]
fn shared_and_local_memory_is_written_before_it_is_read() {
    let expected = |space, address| Fault::Uninitialised { space, address };
    assert_eq!(
        fault("ld.shared.u32 %r0, [static+4];"),
        expected(Space::Shared, 1024 + 4)
    );
    // Byte by byte.
    assert_eq!(
        fault("mov.u32 %r1, 0; st.shared.u16 [static], %r1; ld.shared.u32 %r0, [static];"),
        expected(Space::Shared, 1024 + 2)
    );
    assert_eq!(
        fault("mov.u32 %r1, 0; st.local.u8 [own], %r1; ld.local.u16 %r0, [own];"),
        expected(Space::Local, 1024 + 1)
    );
    // A block does not see what the previous block left.
    let body = "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 0;
         @%p1 st.shared.u32 [static], %r1; ld.shared.u32 %r0, [static];";
    assert_eq!(
        fault_of(body, Grid::new(2, 1)),
        expected(Space::Shared, 1024)
    );
}

#[test]
fn races_in_shared_memory_are_found() {
    let both = "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, 7;";
    let race = |body: &str| fault_of(&format!("{both} {body}"), Grid::new(1, 2));
    for body in [
        // Written, then read by another thread.
        "@%p1 st.shared.u32 [static], %r2; ld.shared.u32 %r3, [static];",
        // Written by two threads, even with the same value.
        "st.shared.u32 [static], %r2;",
        // Read, then written by another thread.
        "st.shared.u8 [dynamic], %r2;",
        "@%p1 st.shared.u32 [static], %r2; bar.sync 0;
         ld.shared.u32 %r3, [static]; @!%p1 st.shared.u32 [static], %r3;",
        // One byte of four.
        "@%p1 st.shared.u32 [static], %r2; @!%p1 st.shared.u8 [static+3], %r2;",
    ] {
        let fault = fault_of(&format!("{both} {body}"), Grid::new(1, 2).with_shared(4));
        let Fault::Race { space, .. } = fault else {
            panic!("{body}: {fault}");
        };
        assert_eq!(space, Space::Shared);
    }
    let Fault::Race { other, .. } =
        race("@%p1 st.shared.u32 [static], %r2; ld.shared.u32 %r3, [static];")
    else {
        panic!("no race");
    };
    assert_eq!(other, "thread 0");
    // Different bytes of a word do not conflict, and a barrier is enough.
    let body =
        "mov.u32 %r1, %tid.x; mov.u64 %d1, static; cvt.u64.u32 %d2, %r1; add.u64 %d1, %d1, %d2;
         st.shared.u8 [%d1], %r1; bar.sync 0; ld.shared.u8 %r3, [static];
         ld.shared.u8 %r4, [static+1]; bar.sync 0; st.shared.u8 [%d1], %r4;";
    launch(body, Grid::new(1, 3)).unwrap();
}

#[test]
fn banks_of_shared_memory_are_distinguished() {
    // Lane 1's own bank holds the second word and the 34th.
    for (lane, word, own) in [
        (1, 1, true),
        (1, 33, true),
        (1, 0, false),
        (1, 2, false),
        (1, 32, false),
        (17, 17, true),
        (17, 1, false),
    ] {
        let body = format!(
            "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, {lane};
             @%p1 st.shared.u32 [dynamic+{}], %r1;",
            // After the 16 words of a variable.
            64 + 4 * word
        );
        let mut machine = Machine::new(&module(&body)).unwrap();
        machine.require_own_banks();
        let params = Parameters::new().u64(0).u32(0).u32(0);
        let grid = Grid::new(1, 32).with_shared(256);
        match machine.launch("k", grid, params.bytes()) {
            Ok(()) => assert!(own, "{word}"),
            Err(RunError::Fault { fault, .. }) => {
                assert!(
                    matches!(fault, Fault::Bank { lane: l, .. } if l == lane),
                    "{fault}"
                );
                assert!(!own, "{word}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn races_in_global_memory_are_found() {
    for (body, blocks, expected) in [
        ("st.global.u32 [%out], %r1;", 1, "thread 0 of block 0"),
        (
            "@%p1 st.global.u32 [%out], %r1; ld.global.u32 %r2, [%out];",
            1,
            "thread 0 of block 0",
        ),
        (
            "@%p1 ld.global.u32 %r2, [%out]; @!%p1 st.global.u32 [%out], %r1;",
            1,
            "thread 0 of block 0",
        ),
        (
            "ld.global.u32 %r2, [%out]; @!%p1 st.global.u32 [%out], %r1;",
            1,
            "several threads of block 0",
        ),
        // No barrier orders blocks.
        (
            "bar.sync 0; @%p1 st.global.u32 [%out], %r1;",
            2,
            "thread 0 of block 0",
        ),
        (
            "mov.u32 %r3, %ctaid.x; setp.ne.u32 %p2, %r3, 2; @%p2 ld.global.u32 %r2, [%out];
             bar.sync 0; @!%p2 st.global.u32 [%out], %r1;",
            3,
            "threads of several blocks",
        ),
    ] {
        let body = format!("mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; {body}");
        let Fault::Race { space, other, .. } = fault_of(&body, Grid::new(blocks, 2)) else {
            panic!("{body}");
        };
        assert_eq!((space, &*other), (Space::Global, expected), "{body}");
    }
    // A barrier orders the threads of a block.
    let body = "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 st.global.u32 [%out], %r1;
         bar.sync 0; ld.global.u32 %r2, [%out]; bar.sync 0; @!%p1 st.global.u32 [%out], %r1;";
    launch(body, Grid::new(1, 2)).unwrap();
    // A launch may access what an earlier one wrote.
    let mut machine = Machine::new(&module("mov.u32 %r1, 1; st.global.u32 [%out], %r1;")).unwrap();
    let out = machine.alloc(64);
    let params = Parameters::new().u64(out).u32(0).u32(0);
    for _ in 0..2 {
        machine
            .launch("k", Grid::new(1, 1), params.bytes())
            .unwrap();
    }
}

#[test]
fn memory_read_by_ld_global_nc_may_not_be_written() {
    for body in [
        "ld.global.nc.u32 %r1, [%out]; st.global.u32 [%out], %r1;",
        "mov.u32 %r1, 1; st.global.u32 [%out], %r1; ld.global.nc.u32 %r1, [%out];",
    ] {
        assert!(matches!(fault(body), Fault::NotConstant { .. }), "{body}");
    }
}

#[test]
fn a_barrier_is_for_all_threads() {
    for (body, expected) in [
        ("@%p1 bar.sync 0;", "which has ended"),
        ("@%p1 ret; bar.sync 0;", "which has ended"),
        (
            "@%p1 barrier.sync 0; @!%p1 barrier.sync 1;",
            "which waits at barrier 0 in line 13",
        ),
        (
            "@%p1 bar.sync 0; @!%p1 bar.sync 1;",
            "which waits at barrier 0 in line 13",
        ),
        // One barrier at two instructions, which an aligned barrier must not be.
        (
            "@%p1 bar.sync 0; @!%p1 bar.sync 0;",
            "which waits at barrier 0 in line 13",
        ),
    ] {
        let body = format!("mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 1; {body}");
        let Fault::Barrier { instead, .. } = fault_of(&body, Grid::new(1, 3)) else {
            panic!("{body}");
        };
        assert_eq!(instead, expected, "{body}");
    }
    let apart = "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 1;
         @%p1 barrier.sync 0; @!%p1 barrier.sync 0;";
    launch(apart, Grid::new(1, 3)).unwrap();
    for body in ["bar.sync 16;", "bar.sync 0, 32;"] {
        let fault = fault_of(body, Grid::new(1, 64));
        assert!(matches!(fault, Fault::BarrierOperands { .. }), "{fault}");
    }
}

#[test]
fn a_thread_ends() {
    let text = text("").replace("ret;", "");
    let mut machine = Machine::new(&Module::parse(&text).unwrap()).unwrap();
    let params = Parameters::new().u64(0).u32(0).u32(0);
    let error = machine.launch("k", Grid::new(1, 1), params.bytes());
    assert!(
        matches!(
            error,
            Err(RunError::Fault {
                fault: Fault::NoReturn,
                ..
            })
        ),
        "{error:?}"
    );
    let mut machine = Machine::new(&module("again: bra again;")).unwrap();
    machine.set_max_steps(1000);
    let error = machine.launch("k", Grid::new(1, 1), params.bytes());
    let Err(RunError::Fault { fault, .. }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(fault, Fault::Endless { steps: 1000 });
}

/// The message of a fault.
#[test]
fn a_fault_names_its_place() {
    let body = "\n mov.u32 %r1, %tid.y;\n setp.eq.u32 %p1, %r1, 1;\n @%p1 div.u32 %r0, 1, 0;";
    let grid = Grid {
        blocks: [1, 1, 1],
        threads: [2, 2, 1],
        dynamic_shared: 0,
    };
    assert_eq!(
        launch(body, grid).unwrap_err().to_string(),
        "k, line 16 (@%p1 div.u32 %r0, 1, 0;), block [0, 0, 0], thread [0, 1, 0]: \
         division by zero"
    );
    assert_eq!(FIRST_LINE, 13);
}

#[test]
fn launches_are_checked() {
    let text = text("").replace("b)", "b) .maxntid 64, 1, 1 .minnctapersm 2");
    let mut machine = Machine::new(&Module::parse(&text).unwrap()).unwrap();
    let params = Parameters::new().u64(0).u32(0).u32(0);
    let mut fails = |kernel: &str, grid: Grid, params: &[u8]| {
        machine
            .launch(kernel, grid, params)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        fails("l", Grid::new(1, 1), params.bytes()),
        "no kernel is called l"
    );
    assert_eq!(
        fails("k", Grid::new(1, 1), &params.bytes()[..12]),
        "k takes 16 bytes of parameters, but got 12"
    );
    assert_eq!(
        fails("k", Grid::new(1, 65), params.bytes()),
        "k: a block of [65, 1, 1] threads exceeds .maxntid 64"
    );
    assert_eq!(
        fails("k", Grid::new(0, 1), params.bytes()),
        "k: impossible grid of [0, 1, 1] blocks"
    );
    assert_eq!(
        fails("k", Grid::new(1, 1).with_shared(65536), params.bytes()),
        "k: 65600 bytes of shared memory exceed 65536 bytes"
    );
    let exact = text.replace(".maxntid 64, 1, 1", ".reqntid 32");
    let mut machine = Machine::new(&Module::parse(&exact).unwrap()).unwrap();
    machine
        .launch("k", Grid::new(1, 32), params.bytes())
        .unwrap();
    machine
        .launch("k", Grid::new(1, 33), params.bytes())
        .unwrap_err();
    let module = module("");
    let mut machine = Machine::new(&module).unwrap();
    machine
        .launch("k", Grid::new(1, 1025), params.bytes())
        .unwrap_err();
    machine
        .launch("k", Grid::new(1, 1024), params.bytes())
        .unwrap();
}

#[test]
fn the_host_stays_within_bounds_too() {
    let mut machine = Machine::new(&module("")).unwrap();
    let buffer = machine.alloc(4);
    machine.write(buffer + 1, &[1, 2, 3]).unwrap();
    machine.write(buffer + 1, &[1, 2, 3, 4]).unwrap_err();
    machine.read(buffer, 5).unwrap_err();
    assert_eq!(machine.free(buffer).unwrap()[1..], [1, 2, 3]);
    machine.read(buffer, 1).unwrap_err();
    assert_eq!(machine.free(buffer), None);
    assert_ne!(machine.alloc(4), buffer);

    let (table, len) = machine.variable_address(0, "table").unwrap();
    assert_eq!(len, 16);
    machine.write(table + 14, &[8, 9]).unwrap();
    assert_eq!(machine.read(table + 12, 4).unwrap(), [0, 0, 8, 9]);
    machine.write(table + 15, &[8, 9]).unwrap_err();
    machine.write_variable("table", 13, &[7]).unwrap();
    let found = machine.read_variable("table", 12, 4).unwrap();
    assert_eq!(found, [0, 7, 8, 9]);
    machine.read_variable("table", 12, 5).unwrap_err();
    machine.write_variable("static", 0, &[1]).unwrap_err();
    let (words, len) = machine.variable_address(0, "words").unwrap();
    assert_eq!(machine.read(words, len).unwrap(), [4, 3, 2, 1, 7, 0, 0, 0]);
    machine.read(words, len + 1).unwrap_err();
    machine.variable_address(0, "static").unwrap_err();
    machine.variable_address(1, "words").unwrap_err();
}

/// Modules have variables of their own, and share buffers.
#[test]
fn several_modules() {
    let named = |name: &str, number: u32| {
        let body = "ld.const.u8 %r1, [table]; ld.global.u32 %r2, [words+4];
             st.global.v2.u32 [%out], {%r1, %r2}; st.global.u32 [words+4], %r1;";
        let text = text(body).replace("k(", &format!("{name}("));
        Module::parse(&text.replace("{1, 2,", &format!("{{{number}, 2,"))).unwrap()
    };
    let mut machine = Machine::new(&named("k", 11)).unwrap();
    assert_eq!(machine.load(&named("l", 22)).unwrap(), 1);
    let kernels = machine.module().kernels();
    assert_eq!(kernels.map(Kernel::name).collect::<Vec<_>>(), ["k"]);
    let (words, _) = machine.variable_address(1, "words").unwrap();
    machine.write(words + 4, &[5]).unwrap();
    let out = machine.alloc(8);
    let params = Parameters::new().u64(out).u32(0).u32(0);
    let mut run = |name: &str| {
        let done = machine.launch(name, Grid::new(1, 1), params.bytes());
        done.map(|()| machine.read(out, 8).unwrap().to_vec())
    };
    assert_eq!(run("k").unwrap(), [11, 0, 0, 0, 7, 0, 0, 0]);
    assert_eq!(run("l").unwrap(), [22, 0, 0, 0, 5, 0, 0, 0]);
    assert_eq!(run("l").unwrap(), [22, 0, 0, 0, 22, 0, 0, 0]);
    assert_eq!(run("k").unwrap(), [11, 0, 0, 0, 11, 0, 0, 0]);
    assert!(machine.unload(0) && !machine.unload(0) && !machine.unload(2));
    machine
        .launch("k", Grid::new(1, 1), params.bytes())
        .unwrap_err();
    machine
        .launch("l", Grid::new(1, 1), params.bytes())
        .unwrap();
    machine.read(words, 4).unwrap();

    let text = ".version 8.0 .target sm_75 .address_size 64 .const .b8 big[65537];";
    Machine::new(&Module::parse(text).unwrap()).unwrap_err();
}

/// The way in which another crate's tests break a kernel.
#[test]
fn an_instruction_can_be_changed() {
    let module = module("mov.u32 %r1, 40;\n add.u32 %r1, %r1, 2;\n st.global.u32 [%out], %r1;");
    let instructions = module.instructions("k");
    let add = instructions
        .iter()
        .find(|line| line.text.starts_with("add"))
        .unwrap();
    assert_eq!((add.number, add.text), (14, "add.u32 %r1, %r1, 2;"));
    let changed = module
        .with_line(add.number, "sub.u32 %r1, %r1, 2;")
        .unwrap();
    for (module, expected) in [(&module, 42), (&changed, 38)] {
        let mut machine = Machine::new(module).unwrap();
        let out = machine.alloc(64);
        let params = Parameters::new().u64(out).u32(0).u32(0);
        machine
            .launch("k", Grid::new(1, 1), params.bytes())
            .unwrap();
        assert_eq!(machine.read(out, 1).unwrap(), [expected]);
    }
    module.with_line(14, "nonsense").unwrap_err();
    assert_eq!(r("mov.u32 %r0, 1;"), 1);
}
