// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes descriptors, checks them, and computes how their units are divided into beats.
//
// Each descriptor becomes one record for xts_issue (`rec_*`, in a cycle with `rec_ready`). Each
// valid descriptor in XTS or CTR mode also starts xts_tweaks (`gen_*`, in the same cycle). These
// descriptors are numbered with `rec_id`, so that tweaks that are left over from a descriptor that
// was cut short can be told from those of the next one. A descriptor takes three cycles.
//
// In CTR mode a partial block is a block like any other, and a unit may have less than one block.
`default_nettype none

module xts_front #(
    parameter int CIPHER = luxor_pkg::CIPHER_ENC,
    parameter int LANES = 1,
    parameter int CTR = 0
) (
    input wire clk,
    input wire rst,

    input  wire         desc_valid,
    output wire         desc_ready,
    input  wire [127:0] desc_number,
    input  wire [ 63:0] desc_stride,
    input  wire [ 31:0] desc_unit_len,
    input  wire [ 31:0] desc_unit_count,
    input  wire [  7:0] desc_slot,
    input  wire         desc_decrypt,
    input  wire [  1:0] desc_mode,

    input  wire [7:0] slot_state,
    output logic [3:0] taken_slot,  // the slot of the descriptor being checked, one cycle late

    output wire                rec_valid,
    input  wire                rec_ready,
    output wire [luxor_pkg::RECORD_BITS-1:0] rec,

    output wire         gen_valid,
    input  wire         gen_ready,
    output wire [127:0] gen_number,
    output wire [ 63:0] gen_stride
);
  `include "luxor_types.svh"

  localparam logic [31:0] UNIT_MAX = 32'd1 << 24;  // 2^20 blocks: SP 800-38E

  logic [127:0] number_reg;
  logic [63:0] stride_reg;
  logic [31:0] units_reg;
  logic [7:0] slot_reg;
  logic decrypt_reg;
  logic [1:0] mode_reg;
  // The step of the descriptor: 0 none, 1 taken and its blocks counted, 2 ready.
  logic [1:0] step_reg;

  logic no_data_reg, too_short_reg, too_long_reg, no_slot_reg, one_unit_reg;
  logic [20:0] whole_reg;  // blocks in a unit
  logic [3:0] tail_reg;

  logic [3:0] status_reg;
  logic sound_reg, owns_reg, short_reg, steal_reg, split_reg, start_reg;
  logic one_beat_reg, one_whole_reg, one_split_reg, two_beats_reg;
  logic [19:0] beats_m1_reg;
  logic [1:0] lane_reg;
  logic [5:0] keep_m1_reg;
  logic [3:0] last_lanes_reg;
  logic [2:0] id_reg;

  wire done = step_reg == 2'd2 && rec_ready && (!start_reg || gen_ready);
  assign desc_ready = step_reg == 2'd0;

  always_ff @(posedge clk) begin
    taken_slot <= {4{step_reg != 2'd0 && slot_reg < 8'd4}} & (4'd1 << slot_reg[1:0]);
  end

  // Step 1: is it valid? A mode that does not exist, or not in this build, is refused.
  wire ecb = mode_reg[0];
  wire ctr = CTR != 0 && mode_reg[1];
  wire no_mode = mode_reg[1] && (CTR == 0 || mode_reg[0]);
  wire no_direction = !ctr
      && (decrypt_reg ? CIPHER == luxor_pkg::CIPHER_ENC : CIPHER == luxor_pkg::CIPHER_DEC);
  wire [1:0] state = slot_state[2*slot_reg[1:0]+:2];
  logic [3:0] status_new;
  always_comb begin
    if (no_data_reg) status_new = luxor_pkg::DONE_NO_DATA;
    else if (too_short_reg) status_new = luxor_pkg::DONE_TOO_SHORT;
    else if (too_long_reg) status_new = luxor_pkg::DONE_TOO_LONG;
    else if (no_slot_reg) status_new = luxor_pkg::DONE_NO_SLOT;
    else if (state == luxor_pkg::SLOT_EMPTY) status_new = luxor_pkg::DONE_EMPTY_SLOT;
    else if (state == luxor_pkg::SLOT_EQUAL) status_new = luxor_pkg::DONE_EQUAL_KEYS;
    else if (no_mode || no_direction) status_new = luxor_pkg::DONE_NO_CIPHER;
    else if (ecb && tail_reg != 0) status_new = luxor_pkg::DONE_ECB_TAIL;
    else status_new = luxor_pkg::DONE_OK;
  end

  // The beats of a unit: which lane the last block is in, whole or not, unless a partial block has
  // a beat of its own.
  wire steal = tail_reg != 0 && !ctr;
  localparam int LOG = $clog2(LANES);
  localparam logic [1:0] LAST_LANE = 2'(LANES - 1);
  wire split = steal && (whole_reg[1:0] & LAST_LANE) == 2'd0;
  // The number of beats of a unit: full ones, and one for the rest.
  wire [20:0] full = whole_reg >> LOG;
  wire rest = (whole_reg[1:0] & LAST_LANE) != 2'd0 || (ctr && tail_reg != 0);
  wire one_beat = full == 21'(!rest);
  wire two_beats = rest ? full == 21'd1 : full == 21'd2;
  wire [1:0] last_lane = (whole_reg[1:0] - 2'(tail_reg == 0)) & LAST_LANE;
  wire [1:0] whole_lane = (whole_reg[1:0] - 2'd1) & LAST_LANE;

  always_ff @(posedge clk) begin
    if (step_reg == 2'd0) begin
      number_reg   <= desc_number;
      stride_reg   <= desc_stride;
      units_reg    <= desc_unit_count;
      slot_reg     <= desc_slot;
      decrypt_reg  <= desc_decrypt;
      mode_reg     <= desc_mode;
      no_data_reg <= desc_unit_len == 0 || desc_unit_count == 0;
      too_short_reg <= desc_unit_len < 16 && !(CTR != 0 && desc_mode == luxor_pkg::MODE_CTR);
      too_long_reg <= desc_unit_len > UNIT_MAX;
      no_slot_reg <= desc_slot > 8'd3;
      whole_reg <= desc_unit_len[24:4];
      tail_reg <= desc_unit_len[3:0];
    end
    if (step_reg == 2'd1) begin
      status_reg <= status_new;
      sound_reg <= status_new == luxor_pkg::DONE_OK;
      start_reg <= status_new == luxor_pkg::DONE_OK && !ecb;
      owns_reg <= !no_data_reg;
      one_unit_reg <= units_reg == 1;
      short_reg <= state == luxor_pkg::SLOT_128;
      steal_reg <= steal;
      split_reg <= split;
      beats_m1_reg <= full[19:0] - 20'(!rest);
      one_beat_reg <= one_beat;
      one_whole_reg <= one_beat && !split;
      one_split_reg <= one_beat && split;
      two_beats_reg <= two_beats;
      lane_reg <= whole_lane;
      keep_m1_reg <= {last_lane, tail_reg - 4'd1};
      // If the partial block is in a beat of its own, the beat before it is full.
      last_lanes_reg <= split ? 4'hf : {last_lane >= 2'd3, last_lane >= 2'd2, last_lane != 0, 1'b1};
    end
    if (rst) begin
      step_reg <= 2'd0;
      id_reg   <= 3'd0;
    end else begin
      case (step_reg)
        2'd0: if (desc_valid) step_reg <= 2'd1;
        2'd1: step_reg <= 2'd2;
        default:
        if (done) begin
          step_reg <= 2'd0;
          if (start_reg) id_reg <= id_reg + 3'd1;
        end
      endcase
    end
  end

  assign rec_valid = done;
  record_t record;
  assign record.sound = sound_reg;
  assign record.owns = owns_reg;
  assign record.status = status_reg;
  assign record.slot = slot_reg[1:0];
  assign record.short_key = short_reg;
  assign record.decrypt = decrypt_reg && !ctr;
  assign record.ecb = ecb;
  assign record.ctr = ctr;
  assign record.id = id_reg;
  assign record.units = units_reg;
  assign record.one_unit = one_unit_reg;
  assign record.beats_m1 = beats_m1_reg;
  assign record.one_beat = one_beat_reg;
  assign record.one_whole = one_whole_reg;
  assign record.one_split = one_split_reg;
  assign record.two_beats = two_beats_reg;
  assign record.steal = steal_reg;
  assign record.split = split_reg;
  assign record.tail = tail_reg;
  assign record.lane = lane_reg;
  assign record.keep_m1 = keep_m1_reg;
  assign record.last_lanes = last_lanes_reg;
  assign rec = record;

  assign gen_valid = done && start_reg;
  assign gen_number = number_reg;
  assign gen_stride = stride_reg;
endmodule

`default_nettype wire
