// SPDX-License-Identifier: MIT OR Apache-2.0
// Handles what leaves the pipeline: puts the blocks in their places in the buffer and sends the
// beats. Also supplies the tweaks that are added at the end of the pipeline.
//
// `step0` belongs to `blocks`, `step2` to what leaves two cycles later, and so on; `add` belongs to
// what leaves in the next cycle. The tweaks are computed again, by doubling, from the tweak of the
// first block of each unit (`unit_*`), so no tweak travels through the pipeline. In CTR mode that
// tweak is zero, and the data (`data_*`) are added in its place.
//
// The first passes of beats end in the order in which places were assigned, so one pointer says how
// many have ended. A block that waits for its second pass stops the reader at its place; later
// beats still enter the buffer behind it. Bytes without data (lanes after the end of a unit, and
// the rest of a partial block) are zero.
`default_nettype none

module xts_exit #(
    parameter int LANES = 1,
    parameter int CTR = 0,
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
    input wire [luxor_pkg::STEP_BITS-1:0] step3,
    input wire [luxor_pkg::STEP_BITS-1:0] step4,
    input wire [luxor_pkg::STEP_BITS-1:0] step5,
    input wire [luxor_pkg::STEP_BITS-1:0] step6,

    output wire [128*LANES-1:0] add,

    input  wire         unit_push,
    input  wire [127:0] unit_tweak,
    output wire         unit_pop,

    input  wire                            tail_push,
    input  wire [luxor_pkg::TAIL_BITS-1:0] tail,
    output wire                            tail_done,

    input wire                 data_push,
    input wire [128*LANES+3:0] data,

    input  wire                             place_push,
    input  wire [luxor_pkg::PLACE_BITS-1:0] place,
    output wire                             place_pop,

    output wire         again_valid,
    output wire         again_soon,
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

    // A descriptor is done, and its last beat was taken.
    output wire       done_valid,
    output wire [3:0] done_status,
    output wire       done_counted,
    output wire [1:0] done_slot
);
  `include "luxor_types.svh"

  localparam int LOG = LANES > 1 ? $clog2(LANES) : 1;

  /* verilator lint_off UNUSEDSIGNAL */  // other modules use the other fields
  step_t s0, s1, s2, s3, s4, s5, s6;
  /* verilator lint_on UNUSEDSIGNAL */
  assign s0 = step0;
  assign s1 = step1;
  assign s2 = step2;
  assign s3 = step3;
  assign s4 = step4;
  assign s5 = step5;
  assign s6 = step6;

  // ---- Three cycles before: the tweak of lane 0.
  wire [127:0] unit_head;
  assign unit_pop = s6.entry && s6.first;
  block_queue #(
      .WIDTH(128),
      .DEPTH_LOG2(UNITS_LOG2)
  ) units (
      .clk,
      .rst,
      .push(unit_push),
      .push_data(unit_tweak),
      .pop(unit_pop),
      .data(unit_head)
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
    if (s3.entry) chain_reg <= s3.first ? unit_head : stepped;
  end

  // ---- Two cycles before: the tweaks of all lanes, and the tweak for the second pass.
  wire [127:0] second;  // of the second pass that leaves in the next cycle, or zero
  logic [127:0] second1_reg, second0_reg;
  wire [128*(LANES+1)-1:0] powers;  // chain_reg times α^0 … α^LANES
  for (genvar l = 0; l <= LANES; l++) begin : g_power
    xts_alpha #(
        .STEPS(l)
    ) power (
        .x(chain_reg),
        .y(powers[128*l+:128])
    );
  end
  // The data of a beat in CTR mode, otherwise zero. `last_part` are the bytes of the last block with
  // data, if it is a partial one.
  wire [128*LANES-1:0] plain;
  wire [3:0] last_part;
  if (CTR != 0) begin : g_ctr
    block_queue #(
        .WIDTH(128 * LANES + 4),
        .DEPTH_LOG2(PLACES_LOG2)
    ) beats (
        .clk,
        .rst,
        .push(data_push),
        .push_data(data),
        .pop(s5.entry && s5.ctr),
        .data({last_part, plain})
    );
  end else begin : g_no_ctr
    assign {last_part, plain} = '0;
    wire unused = &{1'b0, data_push, data};
  end

  logic other_reg;  // s2 does not belong to a beat
  always_ff @(posedge clk) other_reg <= s3.again || s3.tweak;
  for (genvar l = 0; l < LANES; l++) begin : g_tweak
    wire swapped = s2.steal && s2.decrypt && s2.lane == l;
    logic [127:0] t_reg;
    always_ff @(posedge clk) begin
      if (other_reg) t_reg <= '0;
      else t_reg <= (swapped ? powers[128*(l+1)+:128] : powers[128*l+:128]) ^ plain[128*l+:128];
    end
    assign add[128*l+:128] = t_reg ^ second;
  end
  wire [LOG:0] second_power = {1'b0, s2.lane[LOG-1:0]} + (LOG + 1)'(!s2.decrypt);
  always_ff @(posedge clk) begin
    second1_reg <= powers[128*second_power+:128];
    second0_reg <= second1_reg;
  end

  // ---- The blocks.
  wire [luxor_pkg::TAIL_BITS-1:0] tail_bits;
  // The partial blocks for the next block and for this one, and which bytes each has.
  /* verilator lint_off UNUSEDSIGNAL */  // only the length of the first
  tail_t waiting_part, left;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [luxor_pkg::TAIL_BITS-1:0] left_reg;
  logic [14:0] in_part_reg;
  assign waiting_part = tail_bits;
  assign left = left_reg;
  wire steal1 = s1.entry && s1.steal;
  logic steal0;  // the block that leaves gives up bytes of its ciphertext
  block_queue #(
      .WIDTH(luxor_pkg::TAIL_BITS),
      .DEPTH_LOG2(TAILS_LOG2)
  ) tails (
      .clk,
      .rst,
      .push(tail_push),
      .push_data(tail),
      .pop(s4.entry && s4.steal),
      .data(tail_bits)
  );
  wire [15:0] in_waiting_part = ~(16'hffff << waiting_part.len);
  always_ff @(posedge clk) begin
    steal0 <= !rst && steal1;
    left_reg <= tail_bits;
    in_part_reg <= in_waiting_part[14:0];
  end

  // ---- The places of the blocks.
  // `exit_reg`: one past the last beat whose first pass is over.
  logic [PLACES_LOG2-1:0] exit_reg, limit_reg, read_reg, give_reg;
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
      .pop(s0.again),
      .valid(held_valid),
      .head({held_lane, held})
  );
  assign tail_done = s0.again;
  always_ff @(posedge clk) begin
    if (rst) begin
      exit_reg  <= '0;
      limit_reg <= '0;
    end else begin
      if (s0.entry) exit_reg <= exit_reg + PLACES_LOG2'(1) + PLACES_LOG2'(s0.steal && s0.split);
      limit_reg <= held_valid ? held : exit_reg;
    end
  end

  // The ciphertext of the whole block: its first bytes are sent, the others enter the second pass.
  wire [127:0] stolen_from;
  if (LANES == 1) begin : g_stolen_one
    assign stolen_from = blocks;
  end else begin : g_stolen_more
    assign stolen_from = blocks[128*s0.lane[LOG-1:0]+:128];
  end

  // A register is written only when its value is used, because that simulates faster.
  logic again_valid_reg, again_inverse_reg, again_short_reg;
  logic [127:0] again_block_reg;
  logic [3:0] again_key_reg;
  for (genvar b = 0; b < 16; b++) begin : g_byte
    wire [7:0] merged;
    if (b < 15) begin : g_merged
      assign merged = in_part_reg[b] ? left.bytes[8*b+:8] : stolen_from[8*b+:8];
    end else begin : g_stolen
      assign merged = stolen_from[8*b+:8];
    end
    always_ff @(posedge clk) begin
      if (steal0) again_block_reg[8*b+:8] <= merged ^ second0_reg[8*b+:8];
    end
  end
  assign again_valid = again_valid_reg;
  assign again_soon = steal0;
  assign again_block = again_block_reg;
  assign again_key = again_key_reg;
  assign again_inverse = again_inverse_reg;
  assign again_short = again_short_reg;
  always_ff @(posedge clk) begin
    if (steal0) begin
      again_key_reg <= left.key;
      again_inverse_reg <= left.inverse;
      again_short_reg <= left.short_key;
    end
    again_valid_reg <= !rst && steal0;
  end
  block_queue #(
      .WIDTH(128),
      .DEPTH_LOG2(TAILS_LOG2)
  ) seconds (
      .clk,
      .rst,
      .push(steal0),
      .push_data(second0_reg),
      .pop(s4.again),
      .data(second)
  );

  wire reading, moving;
  logic [128*LANES-1:0] sent;
  for (genvar l = 0; l < LANES; l++) begin : g_buffer
    // The partial block goes to the next lane, or, after the last lane, to the next place of that
    // lane. Which bytes it has, and which the other blocks have, is known in advance.
    wire part_before = l > 0 && steal1 && !s1.split && s1.lane == l - 1;
    logic part_mine_reg;
    logic [15:0] whole_reg, blank_reg;
    wire last_lane = l == LANES - 1 || !s2.lanes[(l+1)%LANES];
    wire [15:0] in_last_part = last_part != 0 && last_lane ? ~(16'hffff << last_part) : '1;
    logic before_reg;
    always_ff @(posedge clk) begin
      part_mine_reg <= s2.entry && s2.steal && s2.split && s2.lane == l;
      whole_reg <= {16{s2.again || s2.lanes[l]}} & in_last_part;
      before_reg <= part_before;
      blank_reg <= ~(part_before || part_mine_reg ? in_waiting_part : whole_reg);
    end

    logic [127:0] value_reg;
    for (genvar b = 0; b < 16; b++) begin : g_byte
      always_ff @(posedge clk) begin
        if (blank_reg[b]) value_reg[8*b+:8] <= 8'd0;
        else value_reg[8*b+:8] <= before_reg ? stolen_from[8*b+:8] : blocks[128*l+8*b+:8];
      end
    end
    logic we_reg;
    logic [PLACES_LOG2-1:0] address_reg;
    wire stolen = steal0 && s0.lane == l;
    always_ff @(posedge clk) begin
      we_reg <= !rst && (s0.again ? held_lane == l : s0.entry && (!stolen || s0.split));
      address_reg <= s0.again ? held : exit_reg + PLACES_LOG2'(stolen);
    end
    block_ram #(
        .WIDTH(128),
        .DEPTH_LOG2(PLACES_LOG2)
    ) ram (
        .clk,
        .write(we_reg),
        .write_address(address_reg),
        .write_data(value_reg),
        .read(reading),
        .read_address(read_reg),
        .move(moving),
        .data(sent[128*l+:128])
    );
  end

  // ---- Output. Data go straight from the buffer to the output, so the mask of valid bytes is
  // computed before they enter the buffer.
  localparam int PLACE_WIDTH = 16 * LANES + luxor_pkg::PLACE_BITS;
  logic [PLACE_WIDTH-1:0] place_in_reg;
  /* verilator lint_off UNUSEDSIGNAL */  // only some fields of each
  place_t given, out;
  /* verilator lint_on UNUSEDSIGNAL */
  assign given = place;
  wire [16*LANES-1:0] beyond = {16 * LANES{1'b1}} << given.keep_m1 << 1;
  logic place_push_reg, read_valid_reg, present_reg, place_pop_reg;
  wire there = read_reg != limit_reg;
  // A silent place does not wait for out_ready. silent_reg says so one cycle late.
  logic silent_reg;
  wire taken = present_reg && (out_ready || silent_reg);
  assign moving = !present_reg || taken;
  assign reading = !read_valid_reg || moving;
  assign place_pop = place_pop_reg;
  block_ram #(
      .WIDTH(PLACE_WIDTH),
      .DEPTH_LOG2(PLACES_LOG2)
  ) places (
      .clk,
      .write(place_push_reg),
      .write_address(give_reg),
      .write_data(place_in_reg),
      .read(reading),
      .read_address(read_reg),
      .move(moving),
      .data({out_keep, out})
  );
  always_ff @(posedge clk) begin
    place_in_reg <= {given.hollow ? '0 : ~beyond, place};
    if (rst) begin
      give_reg <= '0;
      read_reg <= '0;
      place_push_reg <= 1'b0;
      place_pop_reg <= 1'b0;
      read_valid_reg <= 1'b0;
      present_reg <= 1'b0;
      silent_reg <= 1'b0;
    end else begin
      place_push_reg <= place_push;
      place_pop_reg  <= reading && there;
      if (place_push_reg) give_reg <= give_reg + 1'b1;
      if (reading && there) read_reg <= read_reg + 1'b1;
      if (reading) read_valid_reg <= there;
      if (moving) present_reg <= read_valid_reg;
      silent_reg <= !moving && out.silent;
    end
  end

  assign out_valid = present_reg && !out.silent;
  assign out_last  = out.last;
  assign out_error = out.last && out.status != luxor_pkg::DONE_OK;
  if (LANES == 1) begin : g_out_one
    assign out_data = sent;
    wire unused = &{1'b0, out.swap};
  end else begin : g_out_more
    assign out_data = out.swap ? {{128 * (LANES - 1) {1'b0}}, sent[128*(LANES-1)+:128]} : sent;
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
endmodule

`default_nettype wire
