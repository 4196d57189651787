// SPDX-License-Identifier: MIT OR Apache-2.0
// Chooses, cycle by cycle, what enters the pipeline.
//
// In this order: the second pass of a block whose ciphertext was stolen from (`again_*`), a
// data unit number (`req_*`, unless TWEAK_DEDICATED), a beat of data. What enters is in
// `x`, `t`, `key`, `inverse`, `short_key` and `step` in the next cycle; `t` is the tweak to
// be added to `x`. The pipeline never stalls: whatever enters has its places behind it, for
// which `*_pop` give the room back.
//
// A unit that ends in a part of a block (IEEE 1619-2018, 5.3.2 and 5.4.2): the whole block
// before it goes through first, with the unit's last tweak but one to encrypt and its last
// to decrypt. The part waits in the queue `tail_*`, and takes no cycle of the pipeline of
// its own, so that the second pass finds one. If it lies in a beat of its own, the block
// waits until that is there; nothing else could come between.
//
// A packet that ends early leaves a hollow place behind its last one; a descriptor that was
// refused leaves nothing else.
`default_nettype none

module xts_issue #(
    parameter int TWEAK = luxor_pkg::TWEAK_SHARED,
    parameter int LANES = 1,
    parameter int PLACES_LOG2 = 6,  // places in the output's buffer
    parameter int UNITS_LOG2 = 5,   // units in the pipeline
    parameter int TAILS_LOG2 = 5    // units in it that end in a part of a block
) (
    input wire clk,
    input wire rst,

    input  wire                              rec_valid,
    input  wire [luxor_pkg::RECORD_BITS-1:0] rec,
    output wire                              rec_pop,

    input  wire                 in_valid,
    output wire                 in_ready,
    input  wire [128*LANES-1:0] in_data,
    input  wire                 in_last,

    input  wire         tw_valid,
    input  wire [127:0] tw_tweak,
    input  wire [  2:0] tw_id,
    output wire         tw_pop,

    input  wire         req_valid,
    output wire         req_ready,
    input  wire [127:0] req_number,
    input  wire [  1:0] req_slot,
    input  wire         req_short,
    input  wire [  2:0] req_id,

    input wire         again_valid,
    input wire [127:0] again_block,  // the tweak added
    input wire [  3:0] again_key,
    input wire         again_inverse,
    input wire         again_short,

    output wire [           128*LANES-1:0] x,
    output wire [           128*LANES-1:0] t,
    output wire [                     3:0] key,
    output wire                            inverse,
    output wire                            short_key,
    output wire [luxor_pkg::STEP_BITS-1:0] step,

    // The tweak of a unit's first block.
    output wire         unit_push,
    output wire [127:0] unit_tweak,
    input  wire         unit_pop,

    output wire                            tail_push,
    output wire [luxor_pkg::TAIL_BITS-1:0] tail,
    input  wire                            tail_done,  // a second pass is written

    output wire                             place_push,
    output wire [luxor_pkg::PLACE_BITS-1:0] place,
    input  wire                             place_pop,

    input  wire       drained,  // no beat is in the pipeline: TWEAK_PAPER waits for that
    output wire       cut,      // the descriptor `cut_id` needs no more tweaks
    output wire [2:0] cut_id,
    output wire       busy
);
  `include "luxor_types.svh"

  localparam logic [5:0] FULL = 6'(16 * LANES - 1);

  localparam logic [1:0] IDLE = 2'd0;
  localparam logic [1:0] RUN = 2'd1;
  localparam logic [1:0] SWALLOW = 2'd2;  // the rest of a packet
  localparam logic [1:0] HOLLOW = 2'd3;  // a hollow place is to be left

  // The descriptor that is at work, and the next one.
  /* verilator lint_off UNUSEDSIGNAL */  // units are counted in units_reg
  record_t cur_reg, next;
  /* verilator lint_on UNUSEDSIGNAL */
  assign next = rec;

  logic [1:0] state_reg;
  logic tail_reg;  // the beat at hand is a part of a block
  logic first_beat_reg, last_beat_reg, last_unit_reg;
  logic [19:0] beats_reg;  // that this unit has after the one at hand
  logic [31:0] units_reg;
  logic tweak_valid_reg;
  logic [127:0] tweak_reg;  // of the beat at hand
  logic room_reg;

  // Two beats, that at hand and the one behind it.
  logic [128*LANES-1:0] beat_reg, behind_reg;
  logic valid_reg, last_reg, behind_valid_reg, behind_last_reg;

  // ---- What happens in this cycle.
  wire may_tweak;
  if (TWEAK == luxor_pkg::TWEAK_PAPER) begin : g_paper
    assign may_tweak = drained && state_reg == RUN && !tweak_valid_reg && !cur_reg.ecb
        && req_id == cur_reg.id;
  end else begin : g_ahead
    assign may_tweak = TWEAK == luxor_pkg::TWEAK_SHARED;
    wire unused = &{1'b0, drained};
  end
  wire go_tweak = req_valid && may_tweak && !again_valid;
  assign req_ready = may_tweak && !again_valid;

  wire at_split = last_beat_reg && cur_reg.split;
  wire slot_free = !again_valid && !go_tweak && room_reg;
  wire go_data = state_reg == RUN && !tail_reg && tweak_valid_reg && valid_reg && slot_free
      && !(at_split && !behind_valid_reg && !last_reg);
  // The part of a block that should follow is not in the packet.
  wire go_drop = go_data && at_split && last_reg;
  wire go_beat = go_data && !go_drop;
  wire go_tail = tail_reg;
  wire go_hollow = state_reg == HOLLOW && slot_free;
  wire go_swallow = state_reg == SWALLOW && valid_reg;

  wire unit_done = (go_beat && last_beat_reg && !cur_reg.split) || go_tail;
  wire final_beat = unit_done && last_unit_reg;
  wire excess = final_beat && !last_reg;
  wire cut_now = last_reg && (go_data || go_tail) && !final_beat;
  wire load = rec_valid && (state_reg == IDLE || (final_beat && last_reg));
  assign rec_pop = load;
  assign cut = cut_now && !cur_reg.ecb;
  assign cut_id = cur_reg.id;
  assign busy = state_reg != IDLE;

  // ---- The descriptor, its units, its beats.
  always_ff @(posedge clk) begin
    if (load) begin
      cur_reg <= next;
      units_reg <= next.units;
      last_unit_reg <= next.one_unit;
    end else if (unit_done) begin
      units_reg <= units_reg - 32'd1;
      last_unit_reg <= units_reg == 32'd2;
    end
    if (load) begin
      beats_reg <= next.beats_m1;
      last_beat_reg <= next.one_beat;
      first_beat_reg <= 1'b1;
    end else if (unit_done) begin
      beats_reg <= cur_reg.beats_m1;
      last_beat_reg <= cur_reg.one_beat;
      first_beat_reg <= 1'b1;
    end else if (go_beat) begin
      beats_reg <= beats_reg - 20'd1;
      last_beat_reg <= beats_reg == 20'd1 || last_beat_reg;
      first_beat_reg <= 1'b0;
    end
    if (rst) begin
      state_reg <= IDLE;
      tail_reg  <= 1'b0;
    end else begin
      tail_reg <= go_beat && at_split;
      if (load) begin
        state_reg <= next.sound ? RUN : next.owns ? SWALLOW : HOLLOW;
      end else begin
        case (state_reg)
          RUN: begin
            if (excess) state_reg <= SWALLOW;
            else if (final_beat) state_reg <= IDLE;
            else if (cut_now) state_reg <= HOLLOW;
          end
          SWALLOW: if (go_swallow && last_reg) state_reg <= cur_reg.sound ? IDLE : HOLLOW;
          HOLLOW: if (go_hollow) state_reg <= IDLE;
          default: ;
        endcase
      end
    end
  end

  // ---- The tweak of the beat at hand.
  wire [127:0] stepped;
  xts_alpha #(
      .STEPS(LANES)
  ) next_beat (
      .x(tweak_reg),
      .y(stepped)
  );

  // At a unit's end: what the next unit has. It is worked out before it is known whether a
  // unit ends in this cycle.
  wire next_follows = rec_valid && next.sound && last_reg;
  wire then_ecb = last_unit_reg ? next_follows && next.ecb : !last_reg && cur_reg.ecb;
  wire then_tweak = tw_valid && (last_unit_reg ? next_follows && !next.ecb && tw_id == next.id
      : !last_reg && !cur_reg.ecb && tw_id == cur_reg.id);
  // Else a unit waits for its tweak. One of another descriptor is left over from one that
  // was cut.
  wire waits = state_reg == RUN && !tweak_valid_reg && !tail_reg;
  wire comes = waits && !cur_reg.ecb && tw_valid;
  assign tw_pop = unit_done ? then_tweak : comes;

  always_ff @(posedge clk) begin
    if (unit_done || waits) tweak_reg <= (unit_done ? then_ecb : cur_reg.ecb) ? '0 : tw_tweak;
    else if (go_beat) tweak_reg <= stepped;
    if (rst) tweak_valid_reg <= 1'b0;
    else if (unit_done) tweak_valid_reg <= then_ecb || then_tweak;
    else if (waits) tweak_valid_reg <= cur_reg.ecb || (comes && tw_id == cur_reg.id);
    else if (cut_now) tweak_valid_reg <= 1'b0;
  end

  // ---- The beats.
  assign in_ready = !behind_valid_reg;
  wire in_fire = in_valid && in_ready;
  wire pop = go_data || go_tail || go_swallow;
  always_ff @(posedge clk) begin
    if (in_ready) begin
      behind_reg <= in_data;
      behind_last_reg <= in_last;
    end
    if (pop || !valid_reg) begin
      beat_reg <= behind_valid_reg ? behind_reg : in_data;
      last_reg <= behind_valid_reg ? behind_last_reg : in_last;
    end
    if (rst) begin
      valid_reg <= 1'b0;
      behind_valid_reg <= 1'b0;
    end else if (pop || !valid_reg) begin
      valid_reg <= behind_valid_reg || in_fire;
      behind_valid_reg <= 1'b0;
    end else begin
      behind_valid_reg <= behind_valid_reg || in_fire;
    end
  end

  // ---- What enters the pipeline.
  logic [128*LANES-1:0] x_reg, t_reg;
  logic [3:0] key_reg;
  logic inverse_reg, short_reg;
  step_t step_reg;
  assign x = x_reg;
  assign t = t_reg;
  assign key = key_reg;
  assign inverse = inverse_reg;
  assign short_key = short_reg;
  assign step = step_reg;

  wire steal_now = last_beat_reg && cur_reg.steal;
  for (genvar l = 0; l < LANES; l++) begin : g_lane
    wire [127:0] mine, following;
    xts_alpha #(
        .STEPS(l)
    ) to_mine (
        .x(tweak_reg),
        .y(mine)
    );
    xts_alpha #(
        .STEPS(l + 1)
    ) to_following (
        .x(tweak_reg),
        .y(following)
    );
    wire swapped = steal_now && cur_reg.decrypt && cur_reg.lane == l;
    always_ff @(posedge clk) begin
      x_reg[128*l+:128] <= again_valid ? again_block : go_tweak ? req_number : beat_reg[128*l+:128];
      if (go_data) t_reg[128*l+:128] <= swapped ? following : mine;
      else t_reg[128*l+:128] <= '0;
    end
  end

  always_ff @(posedge clk) begin
    if (again_valid) begin
      key_reg <= again_key;
      inverse_reg <= again_inverse;
      short_reg <= again_short;
    end else if (go_tweak) begin
      key_reg <= {luxor_pkg::KIND_TWEAK, req_slot};
      inverse_reg <= 1'b0;
      short_reg <= req_short;
    end else begin
      key_reg <= {cur_reg.decrypt ? luxor_pkg::KIND_DEC : luxor_pkg::KIND_ENC, cur_reg.slot};
      inverse_reg <= cur_reg.decrypt;
      short_reg <= cur_reg.short_key;
    end
    step_reg.first <= go_beat && first_beat_reg;
    step_reg.steal <= go_beat && steal_now;
    step_reg.split <= cur_reg.split;
    step_reg.decrypt <= cur_reg.decrypt;
    step_reg.lane <= cur_reg.lane;
    step_reg.lanes <= go_hollow ? 4'd0 : last_beat_reg ? cur_reg.last_lanes : 4'hf;
    step_reg.id <= req_id;
    step_reg.entry <= !rst && (go_beat || go_hollow);
    step_reg.again <= !rst && again_valid;
    step_reg.tweak <= !rst && go_tweak;
  end

  // ---- What it leaves behind for the way out. One cycle later, too.
  logic unit_push_reg, tail_push_reg, place_push_reg;
  logic [127:0] unit_tweak_reg;
  tail_t tail_out_reg;
  place_t place_reg;
  assign unit_push = unit_push_reg;
  assign unit_tweak = unit_tweak_reg;
  assign tail_push = tail_push_reg;
  assign tail = tail_out_reg;
  assign place_push = place_push_reg;
  assign place = place_reg;

  wire push_unit = go_beat && first_beat_reg;
  wire push_tail = go_tail || (go_beat && steal_now && !cur_reg.split);
  wire push_place = go_beat || go_tail || go_hollow;

  wire [119:0] part;
  if (LANES == 1) begin : g_part_one
    assign part = beat_reg[119:0];
  end else begin : g_part_more
    // The part is in the lane after the whole block's, or in lane 0 of the next beat.
    localparam int LOG = $clog2(LANES);
    wire [LOG-1:0] part_lane = cur_reg.split ? '0 : cur_reg.lane[LOG-1:0] + 1'b1;
    assign part = beat_reg[128*part_lane+:120];
  end

  always_ff @(posedge clk) begin
    unit_tweak_reg <= tweak_reg;
    tail_out_reg.key <= {
      cur_reg.decrypt ? luxor_pkg::KIND_DEC : luxor_pkg::KIND_ENC, cur_reg.slot
    };
    tail_out_reg.inverse <= cur_reg.decrypt;
    tail_out_reg.short_key <= cur_reg.short_key;
    tail_out_reg.len <= cur_reg.tail;
    tail_out_reg.bytes <= part;
    place_reg.last <= final_beat || go_hollow;
    place_reg.hollow <= go_hollow;
    place_reg.silent <= go_hollow && !cur_reg.owns;
    place_reg.swap <= go_tail;
    place_reg.counted <= cur_reg.sound;
    place_reg.slot <= cur_reg.slot;
    if (go_hollow) place_reg.status <= cur_reg.sound ? luxor_pkg::DONE_CUT : cur_reg.status;
    else place_reg.status <= excess ? luxor_pkg::DONE_EXCESS : luxor_pkg::DONE_OK;
    place_reg.keep_m1 <= unit_done ? cur_reg.keep_m1 : FULL;
    unit_push_reg <= !rst && push_unit;
    tail_push_reg <= !rst && push_tail;
    place_push_reg <= !rst && push_place;
  end

  // ---- Room. The counts are a cycle behind, and so is what is made of them.
  localparam int MARGIN = 4;
  logic [PLACES_LOG2:0] places_reg;
  logic [UNITS_LOG2:0] units_out_reg;
  logic [TAILS_LOG2:0] tails_reg;
  always_ff @(posedge clk) begin
    if (rst) begin
      places_reg <= '0;
      units_out_reg <= '0;
      tails_reg <= '0;
      room_reg <= 1'b0;
    end else begin
      places_reg <= places_reg + (PLACES_LOG2 + 1)'(push_place) - (PLACES_LOG2 + 1)'(place_pop);
      units_out_reg <= units_out_reg + (UNITS_LOG2 + 1)'(push_unit) - (UNITS_LOG2 + 1)'(unit_pop);
      tails_reg <= tails_reg + (TAILS_LOG2 + 1)'(push_tail) - (TAILS_LOG2 + 1)'(tail_done);
      room_reg <= places_reg < (PLACES_LOG2 + 1)'((1 << PLACES_LOG2) - MARGIN)
          && units_out_reg < (UNITS_LOG2 + 1)'((1 << UNITS_LOG2) - MARGIN)
          && tails_reg < (TAILS_LOG2 + 1)'((1 << TAILS_LOG2) - MARGIN);
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk) begin
    if (!rst && go_tail && !valid_reg) $fatal(1, "xts_issue: the part of a block is not there");
    if (!rst && places_reg > (PLACES_LOG2 + 1)'(1 << PLACES_LOG2)) $fatal(1, "xts_issue: no place");
  end
`endif
endmodule

`default_nettype wire
