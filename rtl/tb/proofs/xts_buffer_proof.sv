// SPDX-License-Identifier: MIT OR Apache-2.0
// What xts_buffer.ys proves: xts_issue never grants a place that does not exist, in the output
// buffer and in the queues for units and for partial blocks, whatever comes in and however long the
// output waits. So nothing that enters the pipeline is lost after it:
// - the places, units and partial blocks in use never exceed the existing ones, and one place
//   always stays free, because a full buffer would otherwise look like an empty one;
// - each place is written once after it was assigned, before it is read, and never while it is
//   read;
// - what was read is offered until it is taken, and nothing else is offered;
// - no queue is popped while it is empty or pushed while it is full.
//
// xts_issue, xts_exit, block_fifo and block_queue are the real modules, connected as in xts_core.
// fifo is the model that fifo.ys proves equal to it. The contents of block RAMs are arbitrary.
// Tweaks and requests for tweaks come at any time. About a record, the proof assumes what
// xts_front.ys proves.
//
// About the pipeline, the proof assumes only that what leaves it has entered it, at least two
// cycles before it is `step6`. The pipeline may keep each step for any time, and may even return
// the steps in another order. So the result holds for each length of 8 or more; the shortest in
// xts_core is 11.
//
// The proof is by induction. Everything stated with HOLDS is assumed in one cycle, with any other
// contents of the registers, and proved for the next; and it is proved for the cycle after a reset,
// whatever was before. The statements outside "What is proved" are needed for the induction. The
// distance of a place from what is read next is counted modulo the number of places, which is
// sufficient because one place stays free.
`default_nettype none

// What a step takes and frees. `places` is 2 for a partial block in a beat of its own.
module xts_buffer_step (
    input  wire [luxor_pkg::STEP_BITS-1:0] bits,
    input  wire [1:0] last_lane,
    output wire [1:0] places,
    output wire unit,
    output wire steal,
    output wire split,
    output wire again,
    output wire entry,
    output wire ctr,
    output wire sound,
    output wire [1:0] lane
);
  `include "luxor_types.svh"
  step_t step;
  assign step = bits;
  assign entry = step.entry;
  assign places = {step.entry && step.steal && step.split,
                   step.entry && !(step.steal && step.split)};
  assign unit = step.entry && step.first;
  assign steal = step.entry && step.steal;
  assign split = steal && step.split;
  assign again = step.again;
  assign ctr = step.entry && step.ctr;
  assign lane = step.lane;
  assign sound = !(step.entry && step.again) && !(step.entry && step.tweak)
      && !(step.again && step.tweak)
      && (!steal || (step.split ? lane == last_lane : lane <= last_lane));
endmodule

// `first`: the cycle in which the conditions are assumed.
module xts_buffer_holds (
    input wire first,
    input wire rst,
    input wire condition
);
  always_comb begin
    if (!first) assert (condition);
    else if (!rst) assume (condition);
  end
endmodule

module xts_buffer_proof #(
    parameter int TWEAK = luxor_pkg::TWEAK_SHARED,
    parameter int LANES = 1,
    parameter int CTR = 1,
    parameter int PLACES_LOG2 = 6,
    parameter int UNITS_LOG2 = 5,
    parameter int TAILS_LOG2 = 5
) (
    input wire clk,
    input wire rst,
    input wire front_valid,
    input wire in_valid,
    input wire tw_soon,
    input wire [2:0] tw_id,
    input wire req_valid,
    input wire [2:0] req_id,
    input wire drained,
    input wire [luxor_pkg::STEP_BITS-1:0] emerging,  // what comes out of the pipeline
    input wire out_ready
);
  `include "luxor_types.svh"

  localparam int P = PLACES_LOG2;
  localparam int STEP = luxor_pkg::STEP_BITS;
  localparam int N = P + 4;  // bits of the sums, far more than any of them needs
  localparam logic [1:0] LAST_LANE = 2'(LANES - 1);
  localparam int PLACES = 1 << PLACES_LOG2;
  localparam int UNITS = 1 << UNITS_LOG2;
  localparam int TAILS = 1 << TAILS_LOG2;

  // ---- As in xts_core.
  wire rec_valid, rec_pop, front_ready;
  wire [luxor_pkg::RECORD_BITS-1:0] rec;
  block_fifo #(.WIDTH(luxor_pkg::RECORD_BITS), .DEPTH_LOG2(3)) records (
      .clk, .rst, .room(front_ready), .push(front_valid && front_ready), .pop(rec_pop),
      .valid(rec_valid), .head(rec)
  );

  wire again_valid, again_soon, again_inverse, again_short;
  wire [127:0] again_block;
  wire [3:0] again_key;
  wire [STEP-1:0] step;
  wire unit_push, unit_pop, tail_push, tail_done, place_push, place_pop;
  wire [127:0] unit_tweak;
  wire [luxor_pkg::TAIL_BITS-1:0] tail;
  wire [luxor_pkg::PLACE_BITS-1:0] place;
  wire data_push;
  wire [128*LANES+3:0] data;
  xts_issue #(
      .TWEAK(TWEAK), .LANES(LANES), .CTR(CTR), .PLACES_LOG2(PLACES_LOG2),
      .UNITS_LOG2(UNITS_LOG2), .TAILS_LOG2(TAILS_LOG2)
  ) issue (
      .clk, .rst, .rec_valid, .rec, .rec_pop, .in_valid,
      .tw_soon, .tw_id, .req_valid, .req_id,
      .again_valid, .again_soon, .again_block, .again_key, .again_inverse, .again_short,
      .step, .unit_push, .unit_tweak, .unit_pop, .tail_push, .tail, .tail_done,
      .data_push, .data, .place_push, .place, .place_pop, .drained
  );

  logic [7*STEP-1:0] steps_reg;  // the end of the pipeline, with step6 lowest
  always_ff @(posedge clk) begin
    steps_reg <= {steps_reg[6*STEP-1:0], emerging};
    if (rst) steps_reg <= '0;
  end

  wire out_valid;
  xts_exit #(
      .LANES(LANES), .CTR(CTR), .PLACES_LOG2(PLACES_LOG2), .UNITS_LOG2(UNITS_LOG2),
      .TAILS_LOG2(TAILS_LOG2)
  ) exit (
      .clk, .rst,
      .step0(steps_reg[6*STEP+:STEP]), .step1(steps_reg[5*STEP+:STEP]),
      .step2(steps_reg[4*STEP+:STEP]), .step3(steps_reg[3*STEP+:STEP]),
      .step4(steps_reg[2*STEP+:STEP]), .step5(steps_reg[STEP+:STEP]),
      .step6(steps_reg[0+:STEP]),
      .unit_push, .unit_tweak, .unit_pop, .tail_push, .tail, .tail_done,
      .data_push, .data, .place_push, .place, .place_pop,
      .again_valid, .again_soon, .again_block, .again_key, .again_inverse, .again_short,
      .out_valid, .out_ready
  );

  // `hierconn`: `flatten` connects these wires to the wires of that name in the instances.
  (* hierconn *) wire [P:0] \issue.places_reg ;
  (* hierconn *) wire [UNITS_LOG2:0] \issue.units_out_reg ;
  (* hierconn *) wire [TAILS_LOG2:0] \issue.tails_reg ;
  (* hierconn *) wire \issue.room_reg ;
  (* hierconn *) wire \issue.free_reg ;
  (* hierconn *) wire \issue.go_reg ;
  (* hierconn *) wire \issue.go_tweak_reg ;
  (* hierconn *) wire \issue.tail_reg ;
  (* hierconn *) wire \issue.pop_reg ;
  (* hierconn *) wire \issue.pop_too_reg ;
  (* hierconn *) wire \issue.idle_reg ;
  (* hierconn *) wire \issue.run_reg ;
  (* hierconn *) wire \issue.swallow_reg ;
  (* hierconn *) wire \issue.hollow_reg ;
  (* hierconn *) wire \issue.loaded_reg ;
  (* hierconn *) wire \issue.next_ok_reg ;
  (* hierconn *) wire \issue.last_beat_reg ;
  (* hierconn *) wire \issue.at_split_reg ;
  (* hierconn *) wire \issue.ends_reg ;
  (* hierconn *) wire [luxor_pkg::RECORD_BITS-1:0] \issue.cur_reg ;
  (* hierconn *) wire \issue.last ;
  (* hierconn *) wire \issue.beats.pop ;
  (* hierconn *) wire \issue.beats.valid_reg ;
  (* hierconn *) wire \issue.beats.read_valid_reg ;
  (* hierconn *) wire [P-1:0] \exit.exit_reg ;
  (* hierconn *) wire [P-1:0] \exit.limit_reg ;
  (* hierconn *) wire [P-1:0] \exit.read_reg ;
  (* hierconn *) wire [P-1:0] \exit.give_reg ;
  (* hierconn *) wire \exit.steal0 ;
  (* hierconn *) wire \exit.place_push_reg ;
  (* hierconn *) wire \exit.place_pop_reg ;
  (* hierconn *) wire \exit.read_valid_reg ;
  (* hierconn *) wire \exit.present_reg ;
  (* hierconn *) wire \exit.silent_reg ;
  (* hierconn *) wire \exit.reading ;
  (* hierconn *) wire \exit.moving ;
  (* hierconn *) wire \exit.there ;
  (* hierconn *) wire \exit.taken ;
  (* hierconn *) wire [luxor_pkg::PLACE_BITS-1:0] \exit.out ;
  (* hierconn *) wire \exit.units.push ;
  (* hierconn *) wire \exit.units.pop ;
  (* hierconn *) wire \exit.tails.push ;
  (* hierconn *) wire \exit.tails.pop ;
  (* hierconn *) wire \exit.seconds.push ;
  (* hierconn *) wire \exit.seconds.pop ;
  (* hierconn *) wire [UNITS_LOG2-1:0] \exit.units.write_reg ;
  (* hierconn *) wire [UNITS_LOG2-1:0] \exit.units.read_reg ;
  (* hierconn *) wire [TAILS_LOG2-1:0] \exit.tails.write_reg ;
  (* hierconn *) wire [TAILS_LOG2-1:0] \exit.tails.read_reg ;
  (* hierconn *) wire [TAILS_LOG2-1:0] \exit.seconds.write_reg ;
  (* hierconn *) wire [TAILS_LOG2-1:0] \exit.seconds.read_reg ;
  (* hierconn *) wire \exit.g_ctr.beats.push ;
  (* hierconn *) wire \exit.g_ctr.beats.pop ;
  (* hierconn *) wire [P-1:0] \exit.g_ctr.beats.write_reg ;
  (* hierconn *) wire [P-1:0] \exit.g_ctr.beats.read_reg ;
  (* hierconn *) wire \exit.waiting.push ;
  (* hierconn *) wire \exit.waiting.pop ;
  (* hierconn *) wire [P+1:0] \exit.waiting.push_data ;
  (* hierconn *) wire [TAILS_LOG2:0] \exit.waiting.count_reg ;
  (* hierconn *) wire [((P+2)<<TAILS_LOG2)-1:0] \exit.waiting.queue_reg ;

  logic first_reg = 1'b1;
  always_ff @(posedge clk) first_reg <= 1'b0;

`define HOLDS(NAME, CONDITION) \
  xts_buffer_holds NAME (.first(first_reg), .rst(rst), .condition(CONDITION ));

  record_t next, cur;
  assign next = rec;
  assign cur = \issue.cur_reg ;
  wire next_sound = (!next.split || (next.steal && next.lane == LANES - 1)) && next.lane < LANES
      && next.one_split == (next.one_beat && next.split)
      && next.one_whole == (next.one_beat && !next.split);
  wire cur_sound = (!cur.split || (cur.steal && cur.lane == LANES - 1)) && cur.lane < LANES
      && cur.one_split == (cur.one_beat && cur.split)
      && cur.one_whole == (cur.one_beat && !cur.split);
  always_comb assume (!rec_valid || next_sound);

  // ---- The steps: the one that enters the pipeline, the one that leaves its unspecified part, and
  // those after it, which are step6 to step0.
  wire [1:0] w_in;
  wire f_in, s_in, split_in, a_in, c_in, sound_in, f_out, s_out, a_out, c_out, sound_out;
  xts_buffer_step of_step (
      .bits(step), .last_lane(LAST_LANE), .places(w_in), .unit(f_in), .steal(s_in),
      .split(split_in), .again(a_in), .ctr(c_in), .sound(sound_in)
  );
  xts_buffer_step of_emerging (
      .bits(emerging), .last_lane(LAST_LANE), .places(w[7]), .unit(f_out), .steal(s_out),
      .again(a_out), .ctr(c_out), .sound(sound_out)
  );
  wire [1:0] w[0:7];
  wire [6:0] f, s, a, c, split, entry, sound;
  wire [1:0] lane[0:6];
  for (genvar k = 0; k < 7; k++) begin : g_step
    xts_buffer_step of_step (
        .bits(steps_reg[STEP*(6-k)+:STEP]), .last_lane(LAST_LANE), .places(w[k]),
        .unit(f[k]), .steal(s[k]),
        .split(split[k]), .again(a[k]), .ctr(c[k]), .entry(entry[k]), .sound(sound[k]), .lane(lane[k])
    );
    `HOLDS(step_sound, sound[k])
  end
  `HOLDS(steal_known, \exit.steal0 == s[0])

  // The contents of the unspecified part: units, partial blocks, second passes and places. For
  // places, also the contents of that part and the steps after it, up to and including step0.
  logic [8*N-1:0] left_reg;
  wire [N-1:0] places_left = left_reg[0+:N];
  wire [N-1:0] places_in = left_reg[7*N+:N];
  for (genvar k = 0; k < 8; k++) begin : g_left
    wire [N-1:0] mine = left_reg[N*k+:N];
    always_ff @(posedge clk)
      left_reg[N*k+:N] <= rst ? '0 : mine + w_in - (w[k]);
    `HOLDS(left_bound, mine <= PLACES)
    if (k < 7) begin : g_next
      `HOLDS(left_next, mine == left_reg[N*(k+1)+:N] + N'(w[k]))
    end
  end
  logic [N-1:0] units_in_reg, steals_in_reg, agains_in_reg, ctrs_in_reg;
  always_ff @(posedge clk) begin
    units_in_reg  <= units_in_reg + f_in - f_out;
    steals_in_reg <= steals_in_reg + s_in - s_out;
    agains_in_reg <= agains_in_reg + a_in - a_out;
    ctrs_in_reg   <= ctrs_in_reg + c_in - c_out;
    if (rst) begin
      units_in_reg  <= '0;
      steals_in_reg <= '0;
      agains_in_reg <= '0;
      ctrs_in_reg   <= '0;
    end
  end
  // What entered in the last cycle and in the one before. The pipeline keeps each for at least one
  // cycle.
  logic [1:0] in1_reg, in2_reg;
  always_ff @(posedge clk) {in2_reg, in1_reg} <= rst ? '0 : {in1_reg, w_in};
  `HOLDS(kept_one, N'(in1_reg) <= places_in)
  `HOLDS(kept_two, N'(in1_reg) + N'(in2_reg) <= places_in + N'(w[6]))

  always_comb begin
    assume (sound_out);
    assume (w[7] <= places_in);
    assume (f_out <= units_in_reg);
    assume (s_out <= steals_in_reg);
    assume (a_out <= agains_in_reg);
    assume (c_out <= ctrs_in_reg);
    assume (w[7] - c_out <= places_in - ctrs_in_reg);  // the places of other modes
  end

  // So no sum of them exceeds its bits.
  `HOLDS(units_in_bound, units_in_reg <= UNITS)
  `HOLDS(steals_in_bound, steals_in_reg <= TAILS)
  `HOLDS(agains_in_bound, agains_in_reg <= TAILS)
  `HOLDS(ctrs_in_bound, ctrs_in_reg <= places_in)

  // ---- Distances from the place that is read next: to the one after the last assigned place,
  // counting those about to be assigned; to the one after the last place whose first pass is over;
  // and to the first place that must not be read.
  logic [P-1:0] give_ahead, exit_ahead, limit_ahead;
  wire [P-1:0] oldest_ahead;  // of the oldest place that waits for a second pass
  wire reads = \exit.reading && \exit.there ;
  always_ff @(posedge clk) begin
    give_ahead <= give_ahead + \exit.place_push_reg - reads;
    exit_ahead <= exit_ahead + w[0] - reads;
    limit_ahead <= (\exit.waiting.count_reg != 0 ? oldest_ahead : exit_ahead) - reads;
    if (rst) {give_ahead, exit_ahead, limit_ahead} <= '0;
  end
  `HOLDS(give_pointer, \exit.give_reg == P'(\exit.read_reg + give_ahead))
  `HOLDS(exit_pointer, \exit.exit_reg == P'(\exit.read_reg + exit_ahead))
  `HOLDS(limit_pointer, \exit.limit_reg == P'(\exit.read_reg + limit_ahead))
  wire [N-1:0] given = N'(give_ahead) + N'(\exit.place_push_reg ) + N'(place_push);
  wire [N-1:0] tail_now = N'(\issue.tail_reg );

  // The numbers of entries in the queues.
  logic [N-1:0] units_queued_reg, tails_queued_reg, seconds_queued_reg, data_queued_reg;
  wire [N-1:0] waiting_queued = N'(\exit.waiting.count_reg );
  always_ff @(posedge clk) begin
    units_queued_reg <= units_queued_reg + \exit.units.push - \exit.units.pop ;
    tails_queued_reg <= tails_queued_reg + \exit.tails.push - \exit.tails.pop ;
    seconds_queued_reg <= seconds_queued_reg + \exit.seconds.push - \exit.seconds.pop ;
    data_queued_reg <= data_queued_reg + \exit.g_ctr.beats.push - \exit.g_ctr.beats.pop ;
    if (rst) begin
      units_queued_reg <= '0;
      tails_queued_reg <= '0;
      seconds_queued_reg <= '0;
      data_queued_reg <= '0;
    end
  end

  // ---- What is proved.
  `HOLDS(places_fit, \issue.places_reg < PLACES)
  `HOLDS(given_fit, given + tail_now < PLACES)
  `HOLDS(units_fit, \issue.units_out_reg <= UNITS)
  `HOLDS(tails_fit, \issue.tails_reg <= TAILS)
  `HOLDS(read_given, !reads || give_ahead != 0)
  `HOLDS(units_not_empty, !\exit.units.pop || units_queued_reg != 0)
  `HOLDS(tails_not_empty, !\exit.tails.pop || tails_queued_reg != 0)
  `HOLDS(seconds_not_empty, !\exit.seconds.pop || seconds_queued_reg != 0)
  `HOLDS(data_not_empty, !\exit.g_ctr.beats.pop || data_queued_reg != 0)
  `HOLDS(waiting_not_empty, !\exit.waiting.pop || waiting_queued != 0)
  `HOLDS(units_not_full, !\exit.units.push || units_queued_reg < UNITS)
  `HOLDS(tails_not_full, !\exit.tails.push || tails_queued_reg < TAILS)
  `HOLDS(seconds_not_full, !\exit.seconds.push || seconds_queued_reg < TAILS)
  `HOLDS(data_not_full, !\exit.g_ctr.beats.push || data_queued_reg < PLACES)
  `HOLDS(waiting_not_full, !\exit.waiting.push || waiting_queued < TAILS)
  `HOLDS(waiting_fit, waiting_queued <= TAILS)
  `HOLDS(units_pointers,
         UNITS_LOG2'(\exit.units.write_reg - \exit.units.read_reg )
         == UNITS_LOG2'(units_queued_reg))
  `HOLDS(data_pointers,
         P'(\exit.g_ctr.beats.write_reg - \exit.g_ctr.beats.read_reg ) == P'(data_queued_reg))
  `HOLDS(tails_pointers,
         TAILS_LOG2'(\exit.tails.write_reg - \exit.tails.read_reg )
         == TAILS_LOG2'(tails_queued_reg))
  `HOLDS(seconds_pointers,
         TAILS_LOG2'(\exit.seconds.write_reg - \exit.seconds.read_reg )
         == TAILS_LOG2'(seconds_queued_reg))
  `HOLDS(beats_not_empty, !\issue.beats.pop || \issue.beats.valid_reg )
  `HOLDS(records_not_empty, !rec_pop || rec_valid)

  // ---- The state of xts_issue.
  `HOLDS(one_state, 3'(\issue.idle_reg ) + 3'(\issue.run_reg ) + 3'(\issue.swallow_reg )
         + 3'(\issue.hollow_reg ) == 1)
  `HOLDS(pop_copied, \issue.pop_reg == \issue.go_reg )
  `HOLDS(pop_too, \issue.pop_too_reg == \issue.tail_reg
         || (\issue.pop_too_reg && \issue.swallow_reg && \issue.beats.valid_reg ))
  `HOLDS(record_sound, !\issue.run_reg || cur_sound)
  `HOLDS(at_split, !\issue.run_reg
         || \issue.at_split_reg == (\issue.last_beat_reg && cur.split))
  `HOLDS(ends, !\issue.run_reg
         || \issue.ends_reg == (\issue.last_beat_reg && !cur.split))
  `HOLDS(tail_runs, !\issue.tail_reg || (\issue.run_reg && !\issue.go_reg ))
  `HOLDS(tail_there, !\issue.tail_reg || \issue.beats.valid_reg )
  `HOLDS(go_runs, !\issue.go_reg
         || (\issue.run_reg && \issue.free_reg && \issue.beats.valid_reg ))
  `HOLDS(go_split, !(\issue.go_reg && \issue.at_split_reg )
         || \issue.last || \issue.beats.read_valid_reg )
  `HOLDS(next_there, !\issue.next_ok_reg || (rec_valid && !\issue.loaded_reg && next.sound))
  `HOLDS(again_alone, !again_valid || (!\issue.free_reg && !\issue.go_tweak_reg ))
  `HOLDS(tweak_alone, !\issue.go_tweak_reg || !\issue.free_reg )
  `HOLDS(entering_sound, sound_in)
  `HOLDS(tail_follows, \issue.tail_reg == split_in)

  // ---- Room. The room in places and in the queues that must be left when room_reg is seen.
  // xts_issue leaves no less; smaller values are not sufficient, so these decide how small MARGIN
  // can be.
  localparam int NEED = 4;
  localparam int NEED_QUEUED = 3;
  `HOLDS(room_places, !\issue.room_reg || \issue.places_reg <= PLACES - NEED)
  `HOLDS(room_units, !\issue.room_reg || \issue.units_out_reg <= UNITS - NEED_QUEUED)
  `HOLDS(room_tails, !\issue.room_reg || \issue.tails_reg <= TAILS - NEED_QUEUED)
  wire [N-1:0] places_out = N'(\issue.places_reg ) + N'(place_push);
  wire [N-1:0] units_out = N'(\issue.units_out_reg ) + N'(unit_push);
  wire [N-1:0] tails_out = N'(\issue.tails_reg ) + N'(tail_push) + tail_now;
  `HOLDS(free_places, !\issue.free_reg || places_out <= PLACES - NEED + 2)
  // A beat with a partial block in the next beat never comes directly after another beat.
  `HOLDS(split_places, !(\issue.go_reg && \issue.at_split_reg )
         || places_out <= PLACES - NEED + 1)
  `HOLDS(free_units, !\issue.free_reg || units_out <= UNITS - NEED_QUEUED + 2)
  `HOLDS(free_tails, !\issue.free_reg || tails_out <= TAILS - NEED_QUEUED + 2)
  `HOLDS(all_places, places_out + tail_now <= PLACES - NEED + 3)
  `HOLDS(all_units, units_out <= UNITS - NEED_QUEUED + 3)
  `HOLDS(all_tails, tails_out <= TAILS - NEED_QUEUED + 3)

  // ---- Places: assigned, in the pipeline, out of it, read.
  `HOLDS(places_counted,
         N'(\issue.places_reg ) + N'(place_push) == given + N'(\exit.place_pop_reg ))
  `HOLDS(places_follow,
         N'(exit_ahead) + places_left + N'(w_in) == given + tail_now)
  `HOLDS(push_follows, N'(place_push) + tail_now == N'(w_in) + N'(in1_reg[1]))
  `HOLDS(give_follows,
         N'(\exit.place_push_reg ) + N'(in1_reg[1]) == N'(in1_reg) + N'(in2_reg[1]))
  `HOLDS(exit_fits, N'(exit_ahead) + N'(w[0]) < PLACES)
  `HOLDS(limit_order, limit_ahead <= exit_ahead)

  // ---- Units.
  `HOLDS(unit_enters, unit_push == f_in)
  `HOLDS(units_same, units_queued_reg == N'(\issue.units_out_reg ))
  `HOLDS(units_follow, units_queued_reg == units_in_reg + N'(f[6]))

  // ---- The data in CTR mode wait beside the pipeline, and leave one step before their beat is added
  // to.
  `HOLDS(data_follow, data_queued_reg == ctrs_in_reg + N'(c_in) + N'(c[6]) + N'(c[5]))

  // ---- Partial blocks: queued, in the pipeline, waiting for the second pass, done with it.
  wire [N-1:0] steals_new = N'(s[4]) + N'(s[5]) + N'(s[6]);
  wire [N-1:0] steals_old = N'(s[0]) + N'(s[1]) + N'(s[2]) + N'(s[3]);
  wire [N-1:0] agains_new = N'(a[4]) + N'(a[5]) + N'(a[6]);
  wire [N-1:0] agains_old = N'(a[0]) + N'(a[1]) + N'(a[2]) + N'(a[3]);
  `HOLDS(tail_late, !tail_push || (s_in && !split_in) || steals_in_reg != 0)
  `HOLDS(tails_follow, tails_queued_reg + N'(tail_push) + tail_now
         == steals_new + steals_in_reg + N'(s_in))
  `HOLDS(tails_counted, tails_out
         == waiting_queued + steals_old + steals_new + steals_in_reg + N'(s_in))
  `HOLDS(agains_follow, waiting_queued
         == agains_old + agains_new + agains_in_reg + N'(a_in) + N'(again_valid))
  `HOLDS(seconds_follow, seconds_queued_reg + agains_old == waiting_queued)

  // ---- The places that wait for a second pass, in order, the oldest first.
  // An arbitrary lane of an arbitrary place is watched: whether it waits, and where; whether it was
  // written; and whether it is next to a partial block in a beat of its own, and so has no data.
  logic [P-1:0] watched_reg;
  logic [1:0] watched_lane_reg;
  wire [P-1:0] watched_ahead = watched_reg - \exit.read_reg ;
  logic waits_reg, written_reg, beside_reg;
  logic [TAILS_LOG2-1:0] waits_at_reg;
  wire [TAILS_LOG2:0] waiting_left = \exit.waiting.count_reg - \exit.waiting.pop ;
  wire [((P+2)<<TAILS_LOG2)+P+1:0] waiting = {{P + 2{1'b0}}, \exit.waiting.queue_reg };
  logic [(P<<TAILS_LOG2)-1:0] held_ahead_reg;
  wire [(P<<TAILS_LOG2)+P-1:0] held_line = {{P{1'b0}}, held_ahead_reg};
  for (genvar k = 0; k < TAILS; k++) begin : g_waiting
    wire [P-1:0] held = waiting[(P+2)*k+:P];
    wire [1:0] held_lane = waiting[(P+2)*k+P+:2];
    wire [P-1:0] held_ahead = held_line[P*k+:P];
    wire [P-1:0] newer_ahead = held_line[P*(k+1)+:P];
    always_ff @(posedge clk) begin
      if (\exit.waiting.push && waiting_left == k) held_ahead_reg[P*k+:P] <= exit_ahead - P'(reads);
      else held_ahead_reg[P*k+:P] <= (\exit.waiting.pop ? newer_ahead : held_ahead) - P'(reads);
    end
    `HOLDS(waiting_pointer, !there || held == P'(\exit.read_reg + held_ahead))
    wire there = \exit.waiting.count_reg > k;
    wire newer_there = \exit.waiting.count_reg > k + 1;
    wire is_watched = there && held_ahead == watched_ahead && held_lane == watched_lane_reg;
    `HOLDS(waiting_lane, !there || held_lane < LANES)
    `HOLDS(waiting_bound, !there || held_ahead < exit_ahead)
    `HOLDS(waiting_order, !newer_there || held_ahead < newer_ahead)
    `HOLDS(waiting_watched, is_watched == (waits_reg && waits_at_reg == k))
  end
  assign oldest_ahead = held_ahead_reg[0+:P];
  `HOLDS(waiting_limit, waiting_queued == 0 || limit_ahead <= oldest_ahead)

  // ---- Each write goes to a place that was assigned and is not yet read.
  wire [LANES-1:0] we;
  wire [P*LANES-1:0] addresses;
  (* hierconn *) wire \exit.g_buffer[0].we_reg , \exit.g_buffer[1].we_reg ;
  (* hierconn *) wire \exit.g_buffer[2].we_reg , \exit.g_buffer[3].we_reg ;
  (* hierconn *) wire [P-1:0] \exit.g_buffer[0].address_reg , \exit.g_buffer[1].address_reg ;
  (* hierconn *) wire [P-1:0] \exit.g_buffer[2].address_reg , \exit.g_buffer[3].address_reg ;
  assign we[0] = \exit.g_buffer[0].we_reg ;
  assign addresses[0+:P] = \exit.g_buffer[0].address_reg ;
  if (LANES > 1) begin : g_two
    assign we[1] = \exit.g_buffer[1].we_reg ;
    assign addresses[P+:P] = \exit.g_buffer[1].address_reg ;
  end
  if (LANES > 2) begin : g_four
    assign we[3:2] = {\exit.g_buffer[3].we_reg , \exit.g_buffer[2].we_reg };
    assign addresses[2*P+:2*P] = {\exit.g_buffer[3].address_reg , \exit.g_buffer[2].address_reg };
  end
  wire [LANES-1:0] writes;
  for (genvar l = 0; l < LANES; l++) begin : g_write
    wire [P-1:0] address_ahead = addresses[P*l+:P] - \exit.read_reg ;
    assign writes[l] = we[l] && addresses[P*l+:P] == watched_reg && watched_lane_reg == l;
    `HOLDS(write_given, !we[l]
           || (address_ahead >= limit_ahead && address_ahead < exit_ahead
               && address_ahead < give_ahead))
  end

  wire writing = writes != 0;
  wire reads_watched = reads && \exit.read_reg == watched_reg;
  always_ff @(posedge clk) begin
    watched_reg <= watched_reg;
    watched_lane_reg <= watched_lane_reg;
    if (\exit.waiting.pop ) begin
      waits_at_reg <= waits_at_reg - 1'b1;
      if (waits_at_reg == 0) waits_reg <= 1'b0;
    end
    if (\exit.waiting.push && \exit.waiting.push_data == {watched_lane_reg, watched_reg}) begin
      waits_reg <= 1'b1;
      waits_at_reg <= waiting_left;
    end
    if (split[0] && P'(\exit.exit_reg + 1'b1) == watched_reg && watched_lane_reg != LANES - 1)
      beside_reg <= 1'b1;
    if (writing) written_reg <= 1'b1;
    if (reads_watched) {written_reg, beside_reg} <= '0;
    if (rst) {waits_reg, written_reg, beside_reg} <= '0;
  end
  always_comb assume (watched_lane_reg < LANES);
  `HOLDS(write_once, !(writing && written_reg))
  `HOLDS(write_first, !reads_watched || written_reg || beside_reg)
  `HOLDS(watched_is,
         3'(written_reg) + 3'(writing) + 3'(waits_reg) + 3'(beside_reg)
         == 3'(watched_ahead < exit_ahead))

  // ---- What was read is offered until it is taken.
  place_t out;
  assign out = \exit.out ;
  logic [2:0] reads_out_reg;
  logic offered_reg;
  logic [luxor_pkg::PLACE_BITS-1:0] out_reg;
  always_ff @(posedge clk) begin
    reads_out_reg <= rst ? '0 : reads_out_reg + reads - \exit.taken ;
    offered_reg <= !rst && out_valid && !out_ready;
    out_reg <= \exit.out ;
  end
  `HOLDS(out_counted,
         reads_out_reg == 3'(\exit.read_valid_reg ) + 3'(\exit.present_reg ))
  `HOLDS(out_offered, !offered_reg || (out_valid && out_reg == \exit.out ))
  `HOLDS(out_silent, !\exit.silent_reg || (\exit.present_reg && out.silent))
  `HOLDS(pop_read, reads_out_reg != 0 || !\exit.place_pop_reg )
endmodule

`default_nettype wire
