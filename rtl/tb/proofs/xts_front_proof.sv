// SPDX-License-Identifier: MIT OR Apache-2.0
// What xts_front.ys proves of each record from xts_front, as xts_issue requires: a partial block
// has a beat of its own only if there is a partial block and the block before it is in the last
// lane; that block is always in an existing lane; and fields with the same meaning agree.
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

  // `hierconn`: `flatten` connects this wire to the wire of that name in the instance. A record is
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
