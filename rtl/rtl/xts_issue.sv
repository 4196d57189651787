// SPDX-License-Identifier: MIT OR Apache-2.0
// Chooses in each cycle what enters the pipeline.
//
// The choices, by priority: the second pass of a block in ciphertext stealing (`again_*`), a data
// unit number (`req_*`, unless TWEAK_DEDICATED), a beat of data. What was chosen appears in the
// next cycle in `x` (with the tweak already added), `key`, `inverse`, `short_key` and `step`. The
// pipeline never stalls: everything that enters already has places reserved after the pipeline, and
// the `*_pop` inputs free them again.
//
// A unit that ends in a partial block (IEEE 1619-2018, 5.3.2 and 5.4.2): the whole block before it
// enters first, with the last tweak of the unit but one when encrypting and the last one when
// decrypting. The partial block waits in the queue `tail_*`. It takes no cycle of the pipeline, and
// the second pass takes that cycle. If the partial block is in a beat of its own, the whole block
// waits until that beat arrives; nothing else can come between the two.
//
// In CTR mode (SP 800-38A, 6.5) what enters is the counter block: the tweak of a unit is its first
// counter as an integer, and each beat adds LANES to it. The data go to the queue `data_*` beside the
// pipeline, and are added at its end.
//
// Signals that depend on what enters in this cycle are computed in advance for each case and
// selected last, so that few levels of logic follow the decision.
//
// The rest of a packet that is too long, or whose descriptor was refused, is dropped at one beat
// per two cycles. A packet that ends early leaves a hollow place after its last one. A descriptor
// that was refused leaves only a hollow place.
`default_nettype none

module xts_issue #(
    parameter int TWEAK = luxor_pkg::TWEAK_SHARED,
    parameter int CIPHER = luxor_pkg::CIPHER_BOTH,
    parameter int LANES = 1,
    parameter int CTR = 0,
    parameter int PLACES_LOG2 = 6,  // places in the output buffer
    parameter int UNITS_LOG2 = 5,   // units in the pipeline
    parameter int TAILS_LOG2 = 5    // units in it that end in a partial block
) (
    input wire clk,
    input wire rst,

    input  wire                              rec_valid,
    input  wire [luxor_pkg::RECORD_BITS-1:0] rec,  // comes from a register
    output wire                              rec_pop,

    input  wire                 in_valid,
    output wire                 in_ready,
    input  wire [128*LANES-1:0] in_data,
    input  wire                 in_last,

    input  wire         tw_soon,  // with its `tw_id`; the tweak follows in the next cycle
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
    input wire         again_soon,  // again_valid will be 1 in the next cycle
    input wire [127:0] again_block,  // with the tweak added
    input wire [  3:0] again_key,
    input wire         again_inverse,
    input wire         again_short,

    output wire [           128*LANES-1:0] x,
    output wire [                     3:0] key,
    output wire                            inverse,
    output wire                            short_key,
    output wire [luxor_pkg::STEP_BITS-1:0] step,

    // The tweak of the first block of a unit.
    output wire         unit_push,
    output wire [127:0] unit_tweak,
    input  wire         unit_pop,

    output wire                            tail_push,
    output wire [luxor_pkg::TAIL_BITS-1:0] tail,
    input  wire                            tail_done,  // a second pass leaves the pipeline

    // The data of a beat in CTR mode, and the bytes of the partial block at the end of it.
    output wire                 data_push,
    output wire [128*LANES+3:0] data,

    output wire                             place_push,
    output wire [luxor_pkg::PLACE_BITS-1:0] place,
    input  wire                             place_pop,

    input  wire       drained,  // no beat is in the pipeline; TWEAK_PAPER waits for this
    output wire       cut,      // the descriptor `cut_id` needs no more tweaks
    output wire [2:0] cut_id,
    output wire       busy
);
  `include "luxor_types.svh"

  localparam logic [5:0] FULL = 6'(16 * LANES - 1);

  // The current descriptor and the next one. States: `idle`, `run`, `swallow` (drops the rest of a
  // packet) and `hollow` (is about to leave a hollow place).
  /* verilator lint_off UNUSEDSIGNAL */  // units_reg counts the units
  record_t cur_reg, next;
  /* verilator lint_on UNUSEDSIGNAL */
  assign next = rec;
  logic idle_reg, run_reg, swallow_reg, hollow_reg;
  logic loaded_reg;  // the next descriptor became the current one, but is still seen as next

  // Flags of the current beat: the first of its unit; the last of its unit; the last, with a
  // partial block in the next beat; the last, without one; the one before the last; the beat of
  // that partial block itself.
  logic first_beat_reg, last_beat_reg, at_split_reg, ends_reg, before_last_reg, tail_reg;
  logic last_unit_reg;
  logic [31:0] units_reg;  // counts up: minus the units left, less 1
  logic [19:0] beats_reg;  // likewise, the beats of this unit after the current one
  logic tweak_valid_reg;
  logic [127:0] tweak_reg;  // of the current beat
  logic room_reg;
  // The current beat enters; a beat may enter; a data unit number enters.
  logic go_reg = 1'b0;
  logic free_reg, go_tweak_reg;
  // A copy of go_reg that pops the queue of beats. pop_too_reg pops a beat that does not enter. The
  // copy has another initial value, because Yosys would merge the two otherwise.
  logic pop_reg = 1'b1;
  logic pop_too_reg;
  logic other_reg;  // something else enters: `again_valid` or go_tweak_reg

  // Values that are constant in some builds.
  wire decrypt = CIPHER == luxor_pkg::CIPHER_BOTH ? cur_reg.decrypt : CIPHER == luxor_pkg::CIPHER_DEC;
  wire ctr = CTR != 0 && cur_reg.ctr;
  wire [1:0] lane = LANES == 1 ? 2'd0 : cur_reg.lane;

  // The current beat, whether it is the last of its packet, and whether a beat follows it.
  wire [128*LANES-1:0] beat;
  wire beat_valid, last, follows;

  // ---- What happens in this cycle.
  wire may_tweak;
  if (TWEAK == luxor_pkg::TWEAK_PAPER) begin : g_paper
    assign may_tweak = drained && run_reg && !tweak_valid_reg && !cur_reg.ecb
        && req_id == cur_reg.id;
  end else begin : g_ahead
    assign may_tweak = TWEAK == luxor_pkg::TWEAK_SHARED;
    wire unused = &{1'b0, drained};
  end
  // What enters is decided one cycle ahead.
  wire go_tweak_new = req_valid && may_tweak && !again_soon && !go_tweak_reg;
  wire free_new = room_reg && !again_soon && !go_tweak_new;
  wire go_tweak = go_tweak_reg && req_valid;  // unless a cut removed the request
  assign req_ready = go_tweak_reg;

  wire go_data = go_reg;
  // A beat whose partial block should be in the next beat is dropped if the packet ends here.
  wire go_beat = go_data && !(at_split_reg && last);
  wire go_hollow = hollow_reg && free_reg;
  wire go_swallow = swallow_reg && pop_too_reg;

  wire unit_done = (go_data && ends_reg) || tail_reg;
  wire final_beat = unit_done && last_unit_reg;
  wire excess = final_beat && !last;
  wire cut_now = last && (go_data || tail_reg) && !final_beat;
  // If no next descriptor exists, cur_reg takes an undefined value, and the state is idle.
  wire closes = idle_reg || (unit_done && last_unit_reg && last);
  wire next_valid = rec_valid && !loaded_reg;
  wire load = next_valid && closes;
  assign rec_pop = loaded_reg;
  assign busy = !idle_reg;

  logic cut_reg;
  logic [2:0] cut_id_reg;
  assign cut = cut_reg;
  assign cut_id = cut_id_reg;
  always_ff @(posedge clk) begin
    cut_reg <= !rst && cut_now && !cur_reg.ecb;
    cut_id_reg <= cur_reg.id;
  end

  // ---- The descriptor, its units and its beats. At the end of a unit everything is prepared for
  // the next unit, of this descriptor or of the next one, whether that is there or not.
  wire to_next = idle_reg || last_unit_reg;
  wire one_whole = to_next ? next.one_whole : cur_reg.one_whole;
  wire tail_new = go_beat && at_split_reg;
  always_ff @(posedge clk) begin
    if (closes) cur_reg <= next;
    if (idle_reg || unit_done) begin
      units_reg <= to_next ? ~next.units : units_reg + 32'd1;
      last_unit_reg <= to_next ? next.one_unit : units_reg == ~32'd2;
      beats_reg <= ~(to_next ? next.beats_m1 : cur_reg.beats_m1);
      before_last_reg <= to_next ? next.two_beats : cur_reg.two_beats;
      last_beat_reg <= to_next ? next.one_beat : cur_reg.one_beat;
      at_split_reg <= to_next ? next.one_split : cur_reg.one_split;
      ends_reg <= one_whole;
      first_beat_reg <= 1'b1;
    end else if (go_data) begin
      beats_reg <= beats_reg + 20'd1;
      before_last_reg <= beats_reg == ~20'd2;
      last_beat_reg <= before_last_reg;
      at_split_reg <= before_last_reg && cur_reg.split;
      ends_reg <= before_last_reg && !cur_reg.split;
      first_beat_reg <= 1'b0;
    end
    if (rst) begin
      idle_reg <= 1'b1;
      run_reg <= 1'b0;
      swallow_reg <= 1'b0;
      hollow_reg <= 1'b0;
      tail_reg <= 1'b0;
      pop_too_reg <= 1'b0;
      loaded_reg <= 1'b0;
    end else begin
      loaded_reg <= load;
      tail_reg <= tail_new;
      pop_too_reg <= tail_new || (swallow_reg && !pop_too_reg && beat_valid);
      idle_reg <= closes ? !next_valid : go_hollow || (go_swallow && last && cur_reg.sound);
      run_reg <= closes ? next_valid && next.sound
          : run_reg && !((go_data || tail_reg) && (last || (unit_done && last_unit_reg)));
      swallow_reg <= closes ? next_valid && !next.sound && next.owns
          : (unit_done && last_unit_reg) || (swallow_reg && !(go_swallow && last));
      hollow_reg <= closes ? next_valid && !next.sound && !next.owns
          : (last && (go_data || tail_reg)) || (last && go_swallow && !cur_reg.sound)
          || (hollow_reg && !go_hollow);
    end
  end

  // ---- The tweak of the current beat.
  wire [127:0] multiplied, counted;
  xts_alpha #(
      .STEPS(LANES)
  ) next_beat (
      .x(tweak_reg),
      .y(multiplied)
  );
  logic [1:0] ones_reg;  // of the counter of the first beat
  ctr_step #(
      .STEPS(LANES)
  ) next_count (
      .x(tweak_reg),
      .ones(ones_reg),
      .y(counted)
  );
  wire [127:0] stepped = ctr ? counted : multiplied;

  // The owner of the oldest tweak: the current descriptor, the next one, or one that was cut. The
  // owner is checked one cycle ahead, so a tweak cannot be taken in every cycle.
  wire head_cur, head_stale;
  logic next_ok_reg;  // the next descriptor can start when this one and its packet end
  if (TWEAK == luxor_pkg::TWEAK_PAPER) begin : g_at_once
    assign head_cur   = tw_soon && tw_id == cur_reg.id;
    assign head_stale = tw_soon && tw_id != cur_reg.id;
    always_ff @(posedge clk)
      next_ok_reg <= !rst && !load && next_valid && next.sound && next.ecb;
  end else begin : g_before
    logic head_cur_reg, head_stale_reg;
    // 1 more often than the head or the descriptors change, which takes fewer levels of logic.
    wire moved = rst || tw_pop || idle_reg || unit_done
        || (waits && !cur_reg.ecb && (head_cur || head_stale));
    always_ff @(posedge clk) begin
      head_cur_reg <= !moved && tw_soon && tw_id == cur_reg.id;
      head_stale_reg <= !moved && tw_soon && tw_id != cur_reg.id;
      next_ok_reg <= !moved && next_valid && next.sound
          && (next.ecb || (tw_soon && tw_id == next.id));
    end
    assign head_cur   = head_cur_reg;
    assign head_stale = head_stale_reg;
  end

  // At the end of a unit: whether the next unit can start at once. If not, it waits for its tweak.
  wire same_ok = !last && (cur_reg.ecb || head_cur);
  wire then_ok = last_unit_reg ? last && next_ok_reg : same_ok;
  wire then_ecb = last_unit_reg ? next.ecb : cur_reg.ecb;
  wire waits = run_reg && !tweak_valid_reg && !tail_reg;
  wire takes = waits && (cur_reg.ecb || head_cur);
  wire tw_take = unit_done ? then_ok && !then_ecb
      : waits && !cur_reg.ecb && (head_cur || head_stale);
  // The tweak is popped in the next cycle, and the head is ignored until then.
  if (TWEAK == luxor_pkg::TWEAK_PAPER) begin : g_pop_at_once
    assign tw_pop = tw_take;
  end else begin : g_pop_late
    logic tw_pop_reg;
    always_ff @(posedge clk) tw_pop_reg <= !rst && tw_take;
    assign tw_pop = tw_pop_reg;
  end

  // 1: the next value of tweak_reg is the tweak of the first beat of a unit. Also 1 while there is
  // no tweak.
  logic other_unit_reg;
  always_ff @(posedge clk) begin
    if (go_data || tail_reg || !tweak_valid_reg) begin
      tweak_reg <= other_unit_reg ? tw_tweak : stepped;
      if (other_unit_reg) ones_reg <= {&tw_tweak[95:32], &tw_tweak[63:32]};
    end
    other_unit_reg <= unit_done ? one_whole || !then_ok
        : go_data ? (before_last_reg && !cur_reg.split) || at_split_reg || last
        : ends_reg || !(tweak_valid_reg || takes);
    tweak_valid_reg <= !rst
        && (unit_done ? then_ok : takes || (tweak_valid_reg && !(go_data && last)));
  end

  // Whether the beat that will be the current one may enter: after the end of a unit, after another
  // beat, and after neither. A beat whose partial block is in the next beat waits until that is
  // there.
  wire unit_ok = then_ok && follows
      && !(last_unit_reg ? next.one_split : cur_reg.one_split);
  wire beat_ok = !at_split_reg && !last && follows && !(before_last_reg && cur_reg.split);
  wire stay_ok = run_reg && !tail_reg && (tweak_valid_reg || takes)
      && (at_split_reg ? beat_valid && (follows || last) : beat_valid || follows);
  always_ff @(posedge clk) begin
    go_reg <= !rst && free_new && (unit_done ? unit_ok : go_data ? beat_ok : stay_ok);
    pop_reg <= !rst && free_new && (unit_done ? unit_ok : go_data ? beat_ok : stay_ok);
    free_reg <= !rst && free_new;
    go_tweak_reg <= !rst && go_tweak_new;
    other_reg <= again_soon || go_tweak_new;
  end

  // ---- The beats.
  block_fifo #(
      .WIDTH(128 * LANES + 1),
      .DEPTH_LOG2(4)
  ) beats (
      .clk,
      .rst,
      .room(in_ready),
      .push(in_valid && in_ready),
      .push_data({in_last, in_data}),
      .pop(pop_reg || pop_too_reg),
      .valid(beat_valid),
      .more(follows),
      .head({last, beat})
  );

  // ---- What enters the pipeline.
  logic [3:0] key_reg;
  logic inverse_reg, short_reg;
  step_t step_reg;
  assign key = key_reg;
  assign inverse = inverse_reg;
  assign short_key = short_reg;
  assign step = step_reg;

  if (TWEAK == luxor_pkg::TWEAK_DEDICATED) begin : g_no_number
    wire unused = &{1'b0, req_number};
  end

  wire steal_now = last_beat_reg && cur_reg.steal;
  logic [127:0] again_x_reg;
  always_ff @(posedge clk) again_x_reg <= again_valid ? again_block : '0;
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
    // The counter as a big-endian block.
    wire [127:0] count, count_block;
    ctr_step #(
        .STEPS(l)
    ) to_count (
        .x(tweak_reg),
        .ones(ones_reg),
        .y(count)
    );
    for (genvar b = 0; b < 16; b++) begin : g_byte
      assign count_block[8*b+:8] = count[8*(15-b)+:8];
    end
    wire swapped = steal_now && decrypt && lane == l;
    // Zero if something else enters, so that the sum of all sources is what enters.
    logic [127:0] beat_x_reg, tweak_x_reg;
    always_ff @(posedge clk) begin
      if (other_reg) begin
        beat_x_reg  <= '0;
        tweak_x_reg <= '0;
      end else begin
        beat_x_reg  <= ctr ? '0 : beat[128*l+:128];
        tweak_x_reg <= cur_reg.ecb ? '0 : ctr ? count_block : swapped ? following : mine;
      end
    end
    if (TWEAK == luxor_pkg::TWEAK_DEDICATED || l > 0) begin : g_no_tweak
      assign x[128*l+:128] = beat_x_reg ^ tweak_x_reg ^ again_x_reg;
    end else begin : g_tweak
      logic [127:0] number_x_reg;
      logic no_number_reg;
      always_ff @(posedge clk) begin
        no_number_reg <= !go_tweak_new;
        number_x_reg <= no_number_reg ? '0 : req_number;
      end
      assign x[128*l+:128] = beat_x_reg ^ tweak_x_reg ^ again_x_reg ^ number_x_reg;
    end
  end

  always_ff @(posedge clk) begin
    if (again_valid) begin
      key_reg <= again_key;
      inverse_reg <= again_inverse;
      short_reg <= again_short;
    end else if (go_tweak_reg) begin
      key_reg <= {luxor_pkg::KIND_TWEAK, req_slot};
      inverse_reg <= 1'b0;
      short_reg <= req_short;
    end else begin
      key_reg <= {decrypt ? luxor_pkg::KIND_DEC : luxor_pkg::KIND_ENC, cur_reg.slot};
      inverse_reg <= decrypt;
      short_reg <= cur_reg.short_key;
    end
    step_reg.ctr <= go_beat && ctr;
    step_reg.first <= go_beat && first_beat_reg;
    step_reg.steal <= go_beat && steal_now;
    step_reg.split <= cur_reg.split;
    step_reg.decrypt <= decrypt;
    step_reg.lane <= lane;
    step_reg.lanes <= go_hollow ? 4'd0 : last_beat_reg ? cur_reg.last_lanes : 4'hf;
    step_reg.id <= req_id;
    step_reg.entry <= !rst && (go_beat || go_hollow);
    step_reg.again <= !rst && again_valid;
    step_reg.tweak <= !rst && go_tweak;
  end

  // ---- What the exit needs to know of it, one cycle later.
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
  wire push_tail = tail_reg || (go_beat && steal_now && !cur_reg.split);
  wire push_place = go_beat || tail_reg || go_hollow;

  assign data_push = go_beat && ctr;
  assign data = {last_beat_reg ? cur_reg.tail : 4'd0, beat};

  wire [119:0] part;
  if (LANES == 1) begin : g_part_one
    assign part = beat[119:0];
  end else begin : g_part_more
    // The partial block is in the lane after that of the whole block, or in lane 0 of the next
    // beat.
    localparam int LOG = $clog2(LANES);
    wire [LOG-1:0] part_lane = cur_reg.split ? '0 : lane[LOG-1:0] + 1'b1;
    assign part = beat[128*part_lane+:120];
  end

  always_ff @(posedge clk) begin
    unit_tweak_reg <= cur_reg.ecb || ctr ? '0 : tweak_reg;
    // Written only for descriptors whose units end in a partial block.
    if (cur_reg.steal) begin
      tail_out_reg.key <= {
        decrypt ? luxor_pkg::KIND_DEC : luxor_pkg::KIND_ENC, cur_reg.slot
      };
      tail_out_reg.inverse <= decrypt;
      tail_out_reg.short_key <= cur_reg.short_key;
      tail_out_reg.len <= cur_reg.tail;
      tail_out_reg.bytes <= part;
    end
    place_reg.last <= final_beat || go_hollow;
    place_reg.hollow <= go_hollow;
    place_reg.silent <= go_hollow && !cur_reg.owns;
    place_reg.swap <= tail_reg;
    place_reg.counted <= cur_reg.sound;
    place_reg.slot <= cur_reg.slot;
    if (go_hollow) place_reg.status <= cur_reg.sound ? luxor_pkg::DONE_CUT : cur_reg.status;
    else place_reg.status <= excess ? luxor_pkg::DONE_EXCESS : luxor_pkg::DONE_OK;
    place_reg.keep_m1 <= unit_done ? cur_reg.keep_m1 : FULL;
    unit_push_reg <= !rst && push_unit;
    tail_push_reg <= !rst && push_tail;
    place_push_reg <= !rst && push_place;
  end

  // ---- Room. The counts are two cycles late, and the decisions that use them are four cycles
  // late.
  localparam int MARGIN = 7;
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
      // Written so that each is one adder: plus 1, minus 1 or plus 0.
      places_reg <= places_reg
          + {{PLACES_LOG2{place_pop && !place_push_reg}}, place_pop != place_push_reg};
      units_out_reg <= units_out_reg
          + {{UNITS_LOG2{unit_pop && !unit_push_reg}}, unit_pop != unit_push_reg};
      tails_reg <= tails_reg
          + {{TAILS_LOG2{tail_done && !tail_push_reg}}, tail_done != tail_push_reg};
      room_reg <= places_reg < (PLACES_LOG2 + 1)'((1 << PLACES_LOG2) - MARGIN)
          && units_out_reg < (UNITS_LOG2 + 1)'((1 << UNITS_LOG2) - MARGIN)
          && tails_reg < (TAILS_LOG2 + 1)'((1 << TAILS_LOG2) - MARGIN);
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk) begin
    if (!rst && (tail_reg || go_reg) && !beat_valid) $fatal(1, "xts_issue: no beat to take");
    if (!rst && 3'(idle_reg) + 3'(run_reg) + 3'(swallow_reg) + 3'(hollow_reg) != 3'd1)
      $fatal(1, "xts_issue: not exactly one state");
    if (!rst && places_reg > (PLACES_LOG2 + 1)'(1 << PLACES_LOG2))
      $fatal(1, "xts_issue: more places in use than the buffer has");
  end
`endif
endmodule

`default_nettype wire
