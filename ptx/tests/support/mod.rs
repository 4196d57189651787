// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels of a few lines, run by one thread.

#![allow(dead_code, reason = "each test program uses only a part of it")]

use luxor_ptx::{Fault, Grid, Machine, Module, Parameters, ParseFault, RunError};

/// The number of a body's first line in the text.
pub const FIRST_LINE: u32 = 13;

/// A kernel `k` with registers of every width, and 64 bytes at `%out`.
pub fn text(body: &str) -> String {
    format!(
        ".version 8.0
         .target sm_75
         .address_size 64
         .const .align 8 .b8 table[16] = {{1, 2, 3, 4, 0xff, 254, 128, 127}};
         .global .align 8 .u32 words[2] = {{0x01020304, 7}};
         .extern .shared .align 16 .b8 dynamic[];
         .visible .entry k(.param .u64 out, .param .u32 a, .param .u32 b)
         {{
         .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .b64 %out;
         .shared .align 8 .b8 static[64]; .local .align 8 .b8 own[16];
         ld.param.u64 %out, [out];
         cvta.to.global.u64 %out, %out;
{body}
         ret;
         }}"
    )
}

/// Parses a kernel with this body.
pub fn module(body: &str) -> Module {
    let text = text(body);
    Module::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the error in a body, and its line there, from 1.
pub fn parse_fault(body: &str) -> (u32, ParseFault) {
    let error = Module::parse(&text(body)).expect_err("it should not parse");
    (error.line + 1 - FIRST_LINE, error.what)
}

/// Runs a body and returns the bytes at `%out`.
pub fn launch(body: &str, grid: Grid) -> Result<Vec<u8>, RunError> {
    let mut machine = Machine::new(&module(body))?;
    let out = machine.alloc(64);
    machine.write(out, &[0; 64])?;
    let params = Parameters::new().u64(out).u32(0x1234_5678).u32(40);
    machine.launch("k", grid, params.bytes())?;
    Ok(machine.read(out, 64)?.to_vec())
}

/// Returns the fault of one thread that runs this body.
pub fn fault(body: &str) -> Fault {
    fault_of(body, Grid::new(1, 1))
}

/// Returns the fault of a thread in a grid that runs this body.
pub fn fault_of(body: &str, grid: Grid) -> Fault {
    match launch(body, grid) {
        Err(RunError::Fault { fault, .. }) => fault,
        other => panic!("no fault, but {other:x?}\n{body}"),
    }
}

/// Runs a body with one thread and returns the words at `%out`.
pub fn words(body: &str) -> [u64; 8] {
    let out = launch(body, Grid::new(1, 1)).unwrap_or_else(|error| panic!("{error}\n{body}"));
    std::array::from_fn(|i| u64::from_le_bytes(out[8 * i..8 * i + 8].try_into().unwrap()))
}

/// Returns `%r0` after a body.
pub fn r(body: &str) -> u32 {
    let [word, ..] = words(&format!("{body} st.global.u32 [%out], %r0;"));
    u32::try_from(word).unwrap()
}

/// Returns `%d0` after a body.
pub fn d(body: &str) -> u64 {
    words(&format!("{body} st.global.u64 [%out], %d0;"))[0]
}

/// Returns `%h0` after a body.
pub fn h(body: &str) -> u16 {
    let [word, ..] = words(&format!("{body} st.global.u16 [%out], %h0;"));
    u16::try_from(word).unwrap()
}

/// Returns `%p0` after a body.
pub fn p(body: &str) -> bool {
    r(&format!("{body} selp.u32 %r0, 1, 0, %p0;")) == 1
}

/// Returns an instruction's 32-bit result for 32-bit sources, from registers and as numbers.
pub fn r32(name: &str, sources: &[u32]) -> u32 {
    let registers: Vec<String> = (1..=sources.len()).map(|i| format!("%r{i}")).collect();
    let numbers: Vec<String> = sources.iter().map(u32::to_string).collect();
    let moves: Vec<String> = registers
        .iter()
        .zip(&numbers)
        .map(|(register, number)| format!("mov.u32 {register}, {number};"))
        .collect();
    let from_registers = r(&format!(
        "{} {name} %r0, {};",
        moves.concat(),
        registers.join(", ")
    ));
    let from_numbers = r(&format!("{name} %r0, {};", numbers.join(", ")));
    assert_eq!(from_registers, from_numbers, "{name} {sources:x?}");
    from_registers
}

/// The same with 64 bits.
pub fn r64(name: &str, sources: &[u64]) -> u64 {
    let sources: Vec<String> = sources.iter().map(u64::to_string).collect();
    d(&format!("{name} %d0, {};", sources.join(", ")))
}

/// The same with 16 bits.
pub fn r16(name: &str, sources: &[u16]) -> u16 {
    let sources: Vec<String> = sources.iter().map(u16::to_string).collect();
    h(&format!("{name} %h0, {};", sources.join(", ")))
}
