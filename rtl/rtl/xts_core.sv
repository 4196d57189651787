// SPDX-License-Identifier: MIT OR Apache-2.0
// XTS-AES for descriptors of data units: one beat of LANES blocks per cycle.
//
// A descriptor (`desc_*`) is a run of data units of equal length. It has a key slot, the first data
// unit number, a stride, the unit length in bytes (16 to 2^24), the number of units, the direction,
// and the mode (`luxor_pkg::MODE_*`). Its data come in one packet (`in_*`, with `in_last` on the
// last beat) and leave in one packet. Each unit begins on a new beat, and the rest of its last beat
// is ignored. `out_error` is valid with `out_last`. A descriptor that is refused consumes its
// packet and sends one beat without data; a descriptor without bytes has no packet. `done_*`
// reports the result of each descriptor, in order, after its last beat was taken. It cannot be held
// back.
//
// `key_*` loads keys into one of four slots and clears slots: see xts_keys. `rst` must be 1 for at
// least 2 cycles, and at the first clock edge.
//
//     desc ─ xts_front ─┬─ xts_tweaks ── (the pipeline, or aes_iter) ──┐
//                       └─ records ─ xts_issue ── aes_pipe ── xts_exit ── out
//     in ──────────────────────────────┘  └───── second passes ───┘
//
// The latency of a block is L = 2 + ROUNDS·STAGES cycles, and one more if STAGES is more than 2,
// from the registers before the pipeline to the register before the output buffer. ROUNDS is 10 or
// 14. For AES-128 with two registers per round it is 22 cycles.
`default_nettype none

module xts_core #(
    parameter int TWEAK = luxor_pkg::TWEAK_SHARED,
    parameter int CIPHER = luxor_pkg::CIPHER_ENC,
    parameter int KEY128 = 1,
    parameter int KEY256 = 0,
    parameter int SBOX = luxor_pkg::SBOX_TABLE,
    parameter int STAGES = 2,
    parameter int LANES = 1,
    parameter int CTR = 0,
    parameter int PERMIT_EQUAL = 0  // for tests: allows data key = tweak key
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

    input  wire                 in_valid,
    output wire                 in_ready,
    input  wire [128*LANES-1:0] in_data,
    input  wire                 in_last,

    output wire                 out_valid,
    input  wire                 out_ready,
    output wire [128*LANES-1:0] out_data,
    output wire [ 16*LANES-1:0] out_keep,
    output wire                 out_last,
    output wire                 out_error,

    output wire       done_valid,
    output wire [3:0] done_status,

    input  wire         key_valid,
    output wire         key_ready,
    input  wire         key_load,
    input  wire [  7:0] key_slot,
    input  wire         key_long,
    input  wire [255:0] key_data,
    input  wire [255:0] key_tweak,
    output wire         key_done,
    output wire [  3:0] key_result,
    output wire [  7:0] slot_state,
    output wire         wiping,  // for some cycles after reset; key commands wait

    output wire busy
);
  `include "luxor_types.svh"

  localparam int ROUNDS = KEY256 != 0 ? 14 : 10;
  localparam int DELAY = (STAGES > 2 ? 2 : 1) + ROUNDS * STAGES;  // of aes_pipe
  // A block with a second pass stays in the buffer for two latencies.
  localparam int PLACES_LOG2 = 2 * DELAY <= 50 ? 6 : 2 * DELAY <= 110 ? 7 : 8;
  localparam int UNITS_LOG2 = 5;
  localparam int TAILS_LOG2 = 5;

  initial begin
    if (LANES != 1 && LANES != 2 && LANES != 4) $fatal(1, "xts_core: LANES must be 1, 2 or 4");
    if (STAGES < 1 || STAGES > 4) $fatal(1, "xts_core: STAGES must be 1 to 4");
    if (CIPHER == luxor_pkg::CIPHER_DEC && TWEAK != luxor_pkg::TWEAK_DEDICATED)
      $fatal(1, "xts_core: CIPHER_DEC needs TWEAK_DEDICATED, since tweaks must be encrypted");
    if (CTR != 0 && CIPHER == luxor_pkg::CIPHER_DEC)
      $fatal(1, "xts_core: CTR needs a cipher that encrypts");
    if (CTR != 0 && TWEAK == luxor_pkg::TWEAK_PAPER)
      $fatal(1, "xts_core: CTR needs TWEAK_SHARED or TWEAK_DEDICATED");
  end

  // ---- Keys.
  logic [3:0] slot_used;
  wire kw_valid;
  wire [1:0] kw_kind, kw_slot;
  wire [3:0] kw_round;
  wire [127:0] kw_data;
  wire keys_busy;
  wire unused_keys = &{1'b0, keys_busy};  // the sender of a key command waits for key_done
  xts_keys #(
      .CIPHER(CIPHER),
      .KEY128(KEY128),
      .KEY256(KEY256),
      .SBOX(SBOX == luxor_pkg::SBOX_LOGIC ? luxor_pkg::SBOX_LOGIC : luxor_pkg::SBOX_BRAM),
      .PERMIT_EQUAL(PERMIT_EQUAL)
  ) keys (
      .clk,
      .rst,
      .cmd_valid(key_valid),
      .cmd_ready(key_ready),
      .cmd_load(key_load),
      .cmd_slot(key_slot),
      .cmd_long(key_long),
      .cmd_data_key(key_data),
      .cmd_tweak_key(key_tweak),
      .res_valid(key_done),
      .res_code(key_result),
      .slot_used,
      .slot_state,
      .kw_valid,
      .kw_kind,
      .kw_round,
      .kw_slot,
      .kw_data,
      .busy(keys_busy),
      .wiping
  );

  // ---- Descriptors.
  wire [3:0] taken_slot;
  wire front_valid, front_ready;
  wire [luxor_pkg::RECORD_BITS-1:0] front_rec;
  /* verilator lint_off UNUSEDSIGNAL */  // other modules use the other fields
  record_t front;
  /* verilator lint_on UNUSEDSIGNAL */
  assign front = front_rec;
  wire gen_valid, gen_ready;
  wire [127:0] gen_number;
  wire [63:0] gen_stride;
  xts_front #(
      .CIPHER(CIPHER),
      .LANES (LANES),
      .CTR   (CTR)
  ) front_end (
      .clk,
      .rst,
      .desc_valid,
      .desc_ready,
      .desc_number,
      .desc_stride,
      .desc_unit_len,
      .desc_unit_count,
      .desc_slot,
      .desc_decrypt,
      .desc_mode,
      .slot_state,
      .taken_slot,
      .rec_valid(front_valid),
      .rec_ready(front_ready),
      .rec(front_rec),
      .gen_valid,
      .gen_ready,
      .gen_number,
      .gen_stride
  );

  // At most six descriptors are in the queue and one is being processed, which is fewer than there
  // are ids.
  wire rec_valid, rec_pop, records_more;
  wire [luxor_pkg::RECORD_BITS-1:0] rec;
  wire unused_records = &{1'b0, records_more};
  block_fifo #(
      .WIDTH(luxor_pkg::RECORD_BITS),
      .DEPTH_LOG2(3)
  ) records (
      .clk,
      .rst,
      .room(front_ready),
      .push(front_valid),
      .push_data(front_rec),
      .pop(rec_pop),
      .valid(rec_valid),
      .more(records_more),
      .head(rec)
  );

  // ---- Tweaks.
  wire req_valid, req_ready, req_short;
  wire [127:0] req_number;
  wire [1:0] req_slot;
  wire [2:0] req_id;
  wire res_valid;
  wire [127:0] res_tweak;
  wire [2:0] res_id;
  wire tw_soon, tw_pop;
  wire [127:0] tw_tweak;
  wire [2:0] tw_id;
  wire cut;
  wire [2:0] cut_id;
  xts_tweaks #(
      .TWEAK(TWEAK),
      .CTR  (CTR)
  ) tweaks (
      .clk,
      .rst,
      .gen_valid,
      .gen_ready,
      .gen_number,
      .gen_stride,
      .gen_units(front.units),
      .gen_slot (front.slot),
      .gen_short(front.short_key),
      .gen_ctr  (front.ctr),
      .gen_id   (front.id),
      .req_valid,
      .req_ready,
      .req_number,
      .req_slot,
      .req_short,
      .req_id,
      .res_valid,
      .res_tweak,
      .res_id,
      .tw_soon,
      .tw_tweak,
      .tw_id,
      .tw_pop,
      .cut,
      .cut_id
  );

  // ---- Into the pipeline.
  wire again_valid, again_soon, again_inverse, again_short;
  wire [127:0] again_block;
  wire [3:0] again_key;
  wire [128*LANES-1:0] x, add, blocks;
  wire [3:0] key;
  wire inverse, short_key;
  wire [luxor_pkg::STEP_BITS-1:0] step;
  wire unit_push, unit_pop, tail_push, tail_done, place_push, place_pop;
  wire [127:0] unit_tweak;
  wire [luxor_pkg::TAIL_BITS-1:0] tail;
  wire [luxor_pkg::PLACE_BITS-1:0] place;
  wire data_push;
  wire [128*LANES+3:0] data;
  wire drained, issue_busy;
  wire issue_req_ready;
  xts_issue #(
      .TWEAK(TWEAK),
      .CIPHER(CIPHER),
      .LANES(LANES),
      .CTR(CTR),
      .PLACES_LOG2(PLACES_LOG2),
      .UNITS_LOG2(UNITS_LOG2),
      .TAILS_LOG2(TAILS_LOG2)
  ) issue (
      .clk,
      .rst,
      .rec_valid,
      .rec,
      .rec_pop,
      .in_valid,
      .in_ready,
      .in_data,
      .in_last,
      .tw_soon,
      .tw_tweak,
      .tw_id,
      .tw_pop,
      .req_valid,
      .req_ready(issue_req_ready),
      .req_number,
      .req_slot,
      .req_short,
      .req_id,
      .again_valid,
      .again_soon,
      .again_block,
      .again_key,
      .again_inverse,
      .again_short,
      .x,
      .key,
      .inverse,
      .short_key,
      .step,
      .unit_push,
      .unit_tweak,
      .unit_pop,
      .tail_push,
      .tail,
      .tail_done,
      .data_push,
      .data,
      .place_push,
      .place,
      .place_pop,
      .drained,
      .cut,
      .cut_id,
      .busy(issue_busy)
  );

  // ---- The pipeline and the information that travels beside it: g_step[k].step_reg is k + 1
  // cycles old.
  for (genvar l = 0; l < LANES; l++) begin : g_lane
    aes_pipe #(
        .CIPHER(CIPHER),
        .KEY128(KEY128),
        .KEY256(KEY256),
        .SBOX  (SBOX),
        .STAGES(STAGES)
    ) pipe (
        .clk,
        .in_block  (x[128*l+:128]),
        .in_key    (key),
        .in_inverse(inverse),
        .in_short  (short_key),
        .out_add   (add[128*l+:128]),
        .out_block (blocks[128*l+:128]),
        .kw_valid,
        .kw_kind,
        .kw_round,
        .kw_slot,
        .kw_data
    );
  end

  /* verilator lint_off UNUSEDSIGNAL */  // other modules use the other fields
  step_t entering, moving, leaving;
  /* verilator lint_on UNUSEDSIGNAL */
  assign entering = step;
  assign leaving = step0;
  for (genvar k = 0; k < DELAY; k++) begin : g_step
    wire [luxor_pkg::STEP_BITS-1:0] last;
    if (k == 0) begin : g_first
      assign last = step;
    end else begin : g_other
      assign last = g_step[k-1].step_reg;
    end
    logic [luxor_pkg::STEP_BITS-1:0] step_reg;
    always_ff @(posedge clk) begin
      if (rst) step_reg <= '0;
      else step_reg <= last;
    end
  end
  wire [luxor_pkg::STEP_BITS-1:0] step0 = g_step[DELAY-1].step_reg;
  wire [luxor_pkg::STEP_BITS-1:0] step1 = g_step[DELAY-2].step_reg;
  wire [luxor_pkg::STEP_BITS-1:0] step2 = g_step[DELAY-3].step_reg;
  wire [luxor_pkg::STEP_BITS-1:0] step3 = g_step[DELAY-4].step_reg;
  wire [luxor_pkg::STEP_BITS-1:0] step4 = g_step[DELAY-5].step_reg;
  wire [luxor_pkg::STEP_BITS-1:0] step5 = g_step[DELAY-6].step_reg;
  wire [luxor_pkg::STEP_BITS-1:0] step6 = g_step[DELAY-7].step_reg;

  if (TWEAK == luxor_pkg::TWEAK_DEDICATED) begin : g_dedicated
    aes_iter #(
        .KEY128(KEY128),
        .KEY256(KEY256),
        .SBOX  (SBOX),
        .STAGES(STAGES),
        .TAG   (3)
    ) iter (
        .clk,
        .rst,
        .req_valid,
        .req_ready,
        .req_block(req_number),
        .req_slot,
        .req_short,
        .req_tag  (req_id),
        .res_valid,
        .res_block(res_tweak),
        .res_tag  (res_id),
        .kw_valid,
        .kw_kind,
        .kw_round,
        .kw_slot,
        .kw_data
    );
    wire unused = &{1'b0, issue_req_ready, leaving};
  end else begin : g_shared
    assign req_ready = issue_req_ready;
    assign res_valid = leaving.tweak;
    assign res_tweak = blocks[127:0];
    assign res_id    = leaving.id;
  end

  // Counts the beats in the pipeline, without those that leave it in the next two cycles.
  assign moving = step2;
  logic [6:0] moving_reg;
  always_ff @(posedge clk) begin
    if (rst) moving_reg <= '0;
    else
      moving_reg <= moving_reg
          + {{6{moving.entry && !entering.entry}}, moving.entry != entering.entry};
  end
  assign drained = moving_reg == 0 && !entering.entry;

  // ---- Out of the pipeline.
  wire done_counted;
  wire [1:0] done_slot;
  xts_exit #(
      .LANES(LANES),
      .CTR(CTR),
      .PLACES_LOG2(PLACES_LOG2),
      .UNITS_LOG2(UNITS_LOG2),
      .TAILS_LOG2(TAILS_LOG2)
  ) exit (
      .clk,
      .rst,
      .blocks,
      .step0,
      .step1,
      .step2,
      .step3,
      .step4,
      .step5,
      .step6,
      .add,
      .unit_push,
      .unit_tweak,
      .unit_pop,
      .tail_push,
      .tail,
      .tail_done,
      .data_push,
      .data,
      .place_push,
      .place,
      .place_pop,
      .again_valid,
      .again_soon,
      .again_block,
      .again_key,
      .again_inverse,
      .again_short,
      .out_valid,
      .out_ready,
      .out_data,
      .out_keep,
      .out_last,
      .out_error,
      .done_valid,
      .done_status,
      .done_counted,
      .done_slot
  );

  // ---- Which slots are in use. At most as many descriptors as places, records and 2 more.
  localparam int UNDER_WAY = PLACES_LOG2 + 1;
  logic [3:0] more_reg, less_reg;
  wire [3:0] used;
  always_ff @(posedge clk) begin
    more_reg <= {4{!rst && front_valid && front.sound}} & (4'd1 << front.slot);
    less_reg <= {4{!rst && done_valid && done_counted}} & (4'd1 << done_slot);
  end
  for (genvar s = 0; s < 4; s++) begin : g_used
    logic [UNDER_WAY-1:0] used_reg;
    always_ff @(posedge clk) begin
      if (rst) used_reg <= '0;
      else if (less_reg[s] != more_reg[s])
        used_reg <= used_reg + {{UNDER_WAY-1{less_reg[s]}}, 1'b1};
    end
    assign used[s] = used_reg != 0;
  end
  always_ff @(posedge clk) slot_used <= used | taken_slot;

  // Descriptors that are taken and not done.
  logic [UNDER_WAY-1:0] under_way_reg;
  logic taken_reg;
  always_ff @(posedge clk) begin
    if (rst) {taken_reg, under_way_reg} <= '0;
    else begin
      taken_reg <= desc_valid && desc_ready;
      under_way_reg <= under_way_reg
          + {{UNDER_WAY-1{done_valid && !taken_reg}}, done_valid != taken_reg};
    end
  end
  assign busy = taken_reg || under_way_reg != 0 || issue_busy;
endmodule

`default_nettype wire
