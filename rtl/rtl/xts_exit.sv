// SPDX-License-Identifier: MIT OR Apache-2.0
// What leaves the pipeline: adds the tweak, puts blocks in their places, sends beats out.
//
// `step0` belongs to `blocks`, `step1` to what leaves one cycle later, `step2` two. The
// tweaks are made again, by doubling, from that of each unit's first block (`unit_*`), so
// that none travels along.
//
// Beats' first passes end in the order in which places were given, so one pointer says how
// far they are. A block that waits for its second pass holds the reader back at its place
// while others go on behind it. Data that are not there (lanes behind a unit's end, the rest
// of a part of a block) are zero.
`default_nettype none

module xts_exit #(
    parameter int LANES = 1,
    parameter int PLACES_LOG2 = 6,
    parameter int UNITS_LOG2 = 5,
    parameter int TAILS_LOG2 = 5
) (
    input wire clk,
    input wire rst,

    input wire [           128*LANES-1:0] blocks,
    input wire [luxor_pkg::STEP_BITS-1:0] step0,
    input wire [luxor_pkg::STEP_BITS-1:0] step1,
    input wire [luxor_pkg::STEP_BITS-1:0] step2,

    input  wire         unit_push,
    input  wire [127:0] unit_tweak,
    output wire         unit_pop,

    input  wire                            tail_push,
    input  wire [luxor_pkg::TAIL_BITS-1:0] tail,
    output wire                            tail_done,

    input  wire                             place_push,
    input  wire [luxor_pkg::PLACE_BITS-1:0] place,
    output wire                             place_pop,

    output wire         again_valid,
    output wire [127:0] again_block,
    output wire [  3:0] again_key,
    output wire         again_inverse,
    output wire         again_short,

    output wire                 out_valid,
    input  wire                 out_ready,
    output wire [128*LANES-1:0] out_data,
    output wire [ 16*LANES-1:0] out_keep,
    output wire                 out_last,
    output wire                 out_error,

    // A descriptor is done, after its last beat was taken.
    output wire       done_valid,
    output wire [3:0] done_status,
    output wire       done_counted,
    output wire [1:0] done_slot
);
  `include "luxor_types.svh"

  localparam int LOG = LANES > 1 ? $clog2(LANES) : 1;

  /* verilator lint_off UNUSEDSIGNAL */  // the other fields are others' business
  step_t s0, s1, s2, s_reg;
  /* verilator lint_on UNUSEDSIGNAL */
  assign s0 = step0;
  assign s1 = step1;
  assign s2 = step2;

  // ---- Two cycles before: the tweak of lane 0.
  wire [127:0] unit_head;
  wire unit_valid;
  assign unit_pop = s2.entry && s2.first;
  fifo #(
      .WIDTH(128),
      .DEPTH_LOG2(UNITS_LOG2)
  ) units (
      .clk,
      .rst,
      .push(unit_push),
      .push_data(unit_tweak),
      .pop(unit_pop),
      .valid(unit_valid),
      .head(unit_head)
  );

  logic [127:0] chain_reg;
  wire [127:0] stepped;
  xts_alpha #(
      .STEPS(LANES)
  ) next_beat (
      .x(chain_reg),
      .y(stepped)
  );
  always_ff @(posedge clk) begin
    if (s2.entry) chain_reg <= s2.first ? unit_head : stepped;
  end

  // ---- One cycle before: the tweaks of all lanes, and that of the second pass to come.
  wire again_head_valid;
  wire [127:0] again_head;  // of the second pass that is leaving
  logic [127:0] t_reg[0:LANES-1];
  logic [127:0] second1_reg, second0_reg;
  wire [128*(LANES+1)-1:0] powers;  // chain times α^0 … α^LANES
  for (genvar l = 0; l <= LANES; l++) begin : g_power
    xts_alpha #(
        .STEPS(l)
    ) power (
        .x(chain_reg),
        .y(powers[128*l+:128])
    );
  end
  for (genvar l = 0; l < LANES; l++) begin : g_tweak
    wire swapped = s1.steal && s1.decrypt && s1.lane == l;
    always_ff @(posedge clk) begin
      if (s1.again) t_reg[l] <= again_head;
      else t_reg[l] <= swapped ? powers[128*(l+1)+:128] : powers[128*l+:128];
    end
  end
  wire [LOG:0] second_power = {1'b0, s1.lane[LOG-1:0]} + (LOG + 1)'(!s1.decrypt);
  always_ff @(posedge clk) second1_reg <= powers[128*second_power+:128];

  // ---- The blocks.
  logic [127:0] result_reg[0:LANES-1];
  tail_t tail_head, tail_reg;
  wire tail_valid;
  wire steal0 = s0.entry && s0.steal;
  fifo #(
      .WIDTH(luxor_pkg::TAIL_BITS),
      .DEPTH_LOG2(TAILS_LOG2)
  ) tails (
      .clk,
      .rst,
      .push(tail_push),
      .push_data(tail),
      .pop(steal0),
      .valid(tail_valid),
      .head(tail_head)
  );
  for (genvar l = 0; l < LANES; l++) begin : g_result
    always_ff @(posedge clk) result_reg[l] <= blocks[128*l+:128] ^ t_reg[l];
  end
  always_ff @(posedge clk) begin
    tail_reg <= tail_head;
    second0_reg <= second1_reg;
    s_reg <= step0;
    if (rst) begin
      s_reg.entry <= 1'b0;
      s_reg.again <= 1'b0;
    end
  end

  // ---- Their places.
  // `exit_reg`: behind the last beat whose first pass is over. `write_reg`: that beat.
  logic [PLACES_LOG2-1:0] exit_reg, write_reg, limit_reg, read_reg, give_reg;
  wire [PLACES_LOG2-1:0] held;
  wire held_valid;
  wire [1:0] held_lane;
  fifo #(
      .WIDTH(PLACES_LOG2 + 2),
      .DEPTH_LOG2(TAILS_LOG2)
  ) waiting (
      .clk,
      .rst,
      .push(steal0),
      .push_data({s0.lane, exit_reg}),
      .pop(s_reg.again),
      .valid(held_valid),
      .head({held_lane, held})
  );
  assign tail_done = s_reg.again;
  always_ff @(posedge clk) begin
    write_reg <= exit_reg;
    if (rst) begin
      exit_reg  <= '0;
      limit_reg <= '0;
    end else begin
      if (s0.entry) exit_reg <= exit_reg + PLACES_LOG2'(1) + PLACES_LOG2'(s0.steal && s0.split);
      limit_reg <= held_valid ? held : exit_reg;
    end
  end

  // The whole block's ciphertext: its first bytes go out, the others go through again.
  wire [127:0] stolen_from;
  if (LANES == 1) begin : g_stolen_one
    assign stolen_from = result_reg[0];
  end else begin : g_stolen_more
    assign stolen_from = result_reg[s_reg.lane[LOG-1:0]];
  end
  wire [127:0] part, merged;
  for (genvar b = 0; b < 16; b++) begin : g_byte
    wire mine = tail_reg.len > b;
    assign part[8*b+:8] = mine ? stolen_from[8*b+:8] : 8'd0;
    if (b < 15) begin : g_merged
      assign merged[8*b+:8] = mine ? tail_reg.bytes[8*b+:8] : stolen_from[8*b+:8];
    end else begin : g_stolen
      assign merged[8*b+:8] = stolen_from[8*b+:8];
    end
  end
  wire steal_w = s_reg.entry && s_reg.steal;

  logic again_valid_reg, again_inverse_reg, again_short_reg;
  logic [127:0] again_block_reg;
  logic [3:0] again_key_reg;
  assign again_valid = again_valid_reg;
  assign again_block = again_block_reg;
  assign again_key = again_key_reg;
  assign again_inverse = again_inverse_reg;
  assign again_short = again_short_reg;
  always_ff @(posedge clk) begin
    again_block_reg <= merged ^ second0_reg;
    again_key_reg <= tail_reg.key;
    again_inverse_reg <= tail_reg.inverse;
    again_short_reg <= tail_reg.short_key;
    again_valid_reg <= !rst && steal_w;
  end
  fifo #(
      .WIDTH(128),
      .DEPTH_LOG2(TAILS_LOG2)
  ) seconds (
      .clk,
      .rst,
      .push(steal_w),
      .push_data(second0_reg),
      .pop(s1.again),
      .valid(again_head_valid),
      .head(again_head)
  );

  wire reading;
  logic [128*LANES-1:0] data;
  for (genvar l = 0; l < LANES; l++) begin : g_buffer
    logic [127:0] ram[0:(1<<PLACES_LOG2)-1];
    logic [127:0] data_reg;
    wire mine = s_reg.lane == l;
    // The part of a block: in the next lane, or, at the last one, in its next place.
    wire part_before = l > 0 && steal_w && !s_reg.split && s_reg.lane == l - 1;
    wire part_mine = steal_w && s_reg.split && mine;
    wire we = s_reg.again ? held_lane == l : s_reg.entry && (!steal_w || !mine || s_reg.split);
    wire [PLACES_LOG2-1:0] address = s_reg.again ? held : write_reg + PLACES_LOG2'(part_mine);
    wire [127:0] value = part_before || part_mine ? part
        : s_reg.again || s_reg.lanes[l] ? result_reg[l] : 128'd0;
    always_ff @(posedge clk) if (we) ram[address] <= value;
    always_ff @(posedge clk) if (reading) data_reg <= ram[read_reg];
    assign data[128*l+:128] = data_reg;
  end

  // ---- What is sent out.
  logic [luxor_pkg::PLACE_BITS-1:0] places[0:(1<<PLACES_LOG2)-1];
  logic [luxor_pkg::PLACE_BITS-1:0] place_bits_reg;
  place_t out;
  assign out = place_bits_reg;
  logic present_reg;
  wire there = read_reg != limit_reg;
  wire taken = present_reg && (out_ready || out.silent);
  assign reading   = !present_reg || taken;
  assign place_pop = reading && there;
  always_ff @(posedge clk) begin
    if (place_push) places[give_reg] <= place;
    if (reading) place_bits_reg <= places[read_reg];
    if (rst) begin
      give_reg <= '0;
      read_reg <= '0;
      present_reg <= 1'b0;
    end else begin
      if (place_push) give_reg <= give_reg + 1'b1;
      if (place_pop) read_reg <= read_reg + 1'b1;
      if (reading) present_reg <= there;
    end
  end

  assign out_valid = present_reg && !out.silent;
  assign out_last  = out.last;
  assign out_error = out.last && out.status != luxor_pkg::DONE_OK;
  wire [16*LANES-1:0] beyond = {16 * LANES{1'b1}} << out.keep_m1 << 1;
  assign out_keep  = out.hollow ? '0 : ~beyond;
  if (LANES == 1) begin : g_out_one
    assign out_data = data;
    wire unused = &{1'b0, out.swap};
  end else begin : g_out_more
    assign out_data = out.swap ? {{128 * (LANES - 1) {1'b0}}, data[128*(LANES-1)+:128]} : data;
  end

  logic done_valid_reg, done_counted_reg;
  logic [3:0] done_status_reg;
  logic [1:0] done_slot_reg;
  assign done_valid = done_valid_reg;
  assign done_status = done_status_reg;
  assign done_counted = done_counted_reg;
  assign done_slot = done_slot_reg;
  always_ff @(posedge clk) begin
    done_valid_reg <= !rst && taken && out.last;
    done_status_reg <= out.status;
    done_counted_reg <= out.counted;
    done_slot_reg <= out.slot;
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk) begin
    if (!rst && unit_pop && !unit_valid) $fatal(1, "xts_exit: a unit without a tweak");
    if (!rst && steal0 && !tail_valid) $fatal(1, "xts_exit: a stolen block without its part");
    if (!rst && s1.again && !again_head_valid) $fatal(1, "xts_exit: a second pass of no block");
  end
`endif
endmodule

`default_nettype wire
