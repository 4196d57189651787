// SPDX-License-Identifier: MIT OR Apache-2.0
// The XTS-AES core of Elmoghany et al., "FPGA Implementation of High Speed XTS-AES for Data Storage
// Devices" (ICITST 2011), section IV.E: one AES pipeline, which encrypts first the data unit number
// with key 2 and then the data with key 1. AES-128, encryption only, whole blocks only, no
// back-pressure. It is for comparison with Luxor's core, and no part of it.
//
// Cycle 1 is the cycle with `start`. In cycles 1 to 22 `tweak_control` is 1, and `in_number` goes
// in. In cycle 23 the first tweak comes out of the pipeline. From this cycle on, each cycle with
// `in_valid` takes a block, which comes out 22 cycles later with `out_valid`. The keys must keep
// their values from `start` until the last block has gone in. The next `start` may come in the cycle
// after the last block: the unit's other blocks do not need the pipeline's entrance.
//
// The text leaves some choices open, and the text of figure 4 is all that was available of it. Here:
// - The tweak of each block is used twice, 22 cycles apart: before AES and after it. Each use has
//   its own register, which begins with the first tweak and is fed back through a multiplier. This
//   follows the text, which saves the first tweak in a register and generates the others by a
//   feedback circuit.
// - A valid bit goes with each block, in place of the counter for `latency control`, so that units
//   may have any length.
`default_nettype none

module elmoghany_xts #(
    parameter int SBOX = luxor_pkg::SBOX_BRAM
) (
    input  wire          clk,
    input  wire          rst,
    input  wire  [127:0] key1,
    input  wire  [127:0] key2,
    input  wire          start,
    input  wire  [127:0] in_number,
    output logic         tweak_control,
    input  wire          in_valid,
    input  wire  [127:0] in_data,
    output logic         out_valid,
    output logic [127:0] out_data
);
  localparam logic [4:0] LATENCY = 5'd22;

  // Cycles since `start`, up to LATENCY. After a reset no unit has begun.
  logic [4:0] count_reg;
  always_ff @(posedge clk) begin
    if (rst) count_reg <= LATENCY + 5'd1;
    else if (start) count_reg <= 5'd1;
    else if (count_reg <= LATENCY) count_reg <= count_reg + 5'd1;
  end
  assign tweak_control = start || count_reg < LATENCY;
  wire first = count_reg == LATENCY;  // the first tweak comes out of the pipeline

  wire  [127:0] aes_out;
  logic [127:0] entry_reg;  // the tweak of the block that goes in
  logic [127:0] exit_reg;  // the tweak of the block that comes out
  wire  [127:0] entry = first ? aes_out : entry_reg;
  wire  [127:0] entry_next, exit_next;
  xts_alpha entry_alpha (.x(entry), .y(entry_next));
  xts_alpha exit_alpha (.x(exit_reg), .y(exit_next));

  wire taken = in_valid && !tweak_control;
  logic [LATENCY-1:0] valid_reg;
  assign out_valid = valid_reg[LATENCY-1];
  always_ff @(posedge clk) begin
    valid_reg <= rst ? '0 : {valid_reg[LATENCY-2:0], taken};
    entry_reg <= taken ? entry_next : entry;
    if (first) exit_reg <= aes_out;
    else if (out_valid) exit_reg <= exit_next;
  end

  elmoghany_aes #(.SBOX(SBOX)) aes (
      .clk(clk), .in_block(tweak_control ? in_number : in_data ^ entry),
      .in_key(tweak_control ? key2 : key1), .out_block(aes_out)
  );
  assign out_data = aes_out ^ exit_reg;
endmodule

`default_nettype wire
