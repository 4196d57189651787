// SPDX-License-Identifier: MIT OR Apache-2.0
// What xts_front.ys proves of each record from xts_front, as xts_issue requires: a partial block
// has a beat of its own only if there is a partial block and the block before it is in the last
// lane; that block is always in an existing lane; and fields with the same meaning agree. In CTR
// mode, no block waits for another, and the beats, lanes and bytes of a unit are those that its
// length needs.
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
    input wire [1:0] desc_mode,
    input wire [7:0] slot_state,
    input wire rec_ready,
    input wire gen_ready
);
  `include "luxor_types.svh"
  wire [luxor_pkg::RECORD_BITS-1:0] rec;
  xts_front #(
      .CIPHER(luxor_pkg::CIPHER_BOTH), .LANES(LANES), .CTR(1)
  ) dut (
      .clk, .rst, .desc_valid, .desc_number, .desc_stride, .desc_unit_len, .desc_unit_count,
      .desc_slot, .desc_decrypt, .desc_mode, .slot_state, .rec_ready, .rec, .gen_ready
  );
  record_t record;
  assign record = rec;

  // `hierconn`: `flatten` connects these wires to the wires of that name in the instance. A record is
  // given in step 2.
  (* hierconn *) wire [1:0] \dut.step_reg ;
  (* hierconn *) wire [20:0] \dut.whole_reg ;
  (* hierconn *) wire [3:0] \dut.tail_reg ;
  (* hierconn *) wire \dut.no_data_reg , \dut.too_long_reg ;
  wire [24:0] length = {\dut.whole_reg , \dut.tail_reg };
  wire [24:0] last_byte = length - 25'd1;
  wire [1:0] last_lane = last_byte[5:4] & 2'(LANES - 1);
  logic started_reg = 1'b0;
  always_ff @(posedge clk) started_reg <= 1'b1;
  always_comb begin
    if (!started_reg) assume (rst);
    else if (\dut.step_reg == 2'd1) begin
      assert (\dut.no_data_reg || \dut.too_long_reg || (length != 0 && length <= 25'd1 << 24));
    end else if (\dut.step_reg == 2'd2) begin
      assert (!record.split || (record.steal && record.lane == LANES - 1));
      assert (record.lane < LANES);
      assert (record.one_split == (record.one_beat && record.split));
      assert (record.one_whole == (record.one_beat && !record.split));
      if (record.sound && record.ctr) begin
        assert (!record.steal && !record.split && !record.decrypt && !record.ecb);
        assert (record.beats_m1 == 20'(last_byte / (16 * LANES)));
        assert (record.one_beat == (record.beats_m1 == 20'd0));
        assert (record.two_beats == (record.beats_m1 == 20'd1));
        assert (record.keep_m1 == 6'(last_byte % (16 * LANES)));
        assert (record.last_lanes == ~(4'he << last_lane));
        assert (record.tail == length[3:0]);
      end
    end
  end
endmodule

`default_nettype wire
