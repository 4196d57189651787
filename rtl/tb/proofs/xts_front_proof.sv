// SPDX-License-Identifier: MIT OR Apache-2.0
// What xts_front.ys proves of each record that xts_front gives, on which xts_issue relies: a
// part of a block has a beat of its own only if there is one and its block is in the last lane,
// and that block is always in a lane that there is; and fields agree that say the same.
`default_nettype none

module xts_front_proof #(
    parameter int LANES = 1
) (
    input wire clk,
    input wire rst,
    input wire desc_valid,
    input wire [127:0] desc_number,
    input wire [63:0] desc_stride,
    input wire [31:0] desc_unit_len,
    input wire [31:0] desc_unit_count,
    input wire [7:0] desc_slot,
    input wire desc_decrypt,
    input wire desc_ecb,
    input wire [7:0] slot_state,
    input wire rec_ready,
    input wire gen_ready
);
  `include "luxor_types.svh"
  wire [luxor_pkg::RECORD_BITS-1:0] rec;
  xts_front #(
      .CIPHER(luxor_pkg::CIPHER_BOTH), .LANES(LANES)
  ) dut (
      .clk, .rst, .desc_valid, .desc_number, .desc_stride, .desc_unit_len, .desc_unit_count,
      .desc_slot, .desc_decrypt, .desc_ecb, .slot_state, .rec_ready, .rec, .gen_ready
  );
  record_t record;
  assign record = rec;

  // `hierconn`: flatten joins it to the wire of the instance that has its name. A record is
  // given in step 2.
  (* hierconn *) wire [1:0] \dut.step_reg ;
  logic started_reg = 1'b0;
  always_ff @(posedge clk) started_reg <= 1'b1;
  always_comb begin
    if (!started_reg) assume (rst);
    else if (\dut.step_reg == 2'd2) begin
      assert (!record.split || (record.steal && record.lane == LANES - 1));
      assert (record.lane < LANES);
      assert (record.one_split == (record.one_beat && record.split));
      assert (record.one_whole == (record.one_beat && !record.split));
    end
  end
endmodule

`default_nettype wire
