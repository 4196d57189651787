// SPDX-License-Identifier: MIT OR Apache-2.0
// What xts_buffer.ys proves: xts_issue grants no place that there is not, in the output's
// buffer and in the queues for units and for parts of blocks, whatever comes in and however
// long the output waits. So what enters the pipeline is never lost behind it:
// - no more places, units and parts are out than there are,
// - each place is written once after it was given, and before it is read,
// - what was read is offered until it is taken,
// - no queue is popped while it is empty or pushed while it is full.
// xts_issue and xts_exit are themselves, joined as in xts_core, with queues that fifo.ys
// proves equal to fifo.sv, and the pipeline a line of DELAY steps. Tweaks and requests for
// tweaks come at any time, and so TWEAK has no part in it. Of a record is assumed what
// xts_front.ys proves. Data are cut off, they decide nothing.
//
// By induction: all that is said by HOLDS is assumed of one cycle, whatever the registers have
// in it otherwise, and shown of the next; and shown of the one after a reset, whatever was
// before. What is not in "What is to be shown" carries the induction: how far each step in the
// pipeline is behind what is read next, in places, units, parts and second passes.
`default_nettype none

// What a step gives and takes. `places` is 2 for a part of a block with a beat of its own.
module xts_buffer_step #(
    parameter int LANES = 1
) (
    input  wire [luxor_pkg::STEP_BITS-1:0] bits,
    output wire [1:0] places,
    output wire unit,
    output wire steal,
    output wire again,
    output wire entry,
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
  assign again = step.again;
  assign lane = step.lane;
  assign sound = !(step.entry && step.again)
      && (!steal || (step.split ? lane == LANES - 1 : lane < LANES));
endmodule

// `first`: the cycle of which things are assumed.
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
    parameter int LANES = 1,
    parameter int DELAY = 21,
    parameter int PLACES_LOG2 = 6,
    parameter int UNITS_LOG2 = 5,
    parameter int TAILS_LOG2 = 5
) (
    input wire clk,
    input wire rst,
    input wire rec_valid,
    input wire [luxor_pkg::RECORD_BITS-1:0] rec,
    input wire in_valid,
    input wire in_last,
    input wire tw_valid,
    input wire [2:0] tw_id,
    input wire req_valid,
    input wire [128*LANES-1:0] in_data,
    input wire [128*LANES-1:0] blocks,
    input wire out_ready,
    input wire mark  // choose the next place as the one that is watched
);
  `include "luxor_types.svh"

  localparam int P = PLACES_LOG2;
  localparam int Q = UNITS_LOG2 > TAILS_LOG2 ? UNITS_LOG2 : TAILS_LOG2;

  // ---- As in xts_core.
  wire again_valid, again_inverse, again_short;
  wire [127:0] again_block;
  wire [3:0] again_key;
  wire [luxor_pkg::STEP_BITS-1:0] step;
  wire unit_push, unit_pop, tail_push, tail_done, place_push, place_pop;
  wire [127:0] unit_tweak;
  wire [luxor_pkg::TAIL_BITS-1:0] tail;
  wire [luxor_pkg::PLACE_BITS-1:0] place;
  xts_issue #(
      .TWEAK(luxor_pkg::TWEAK_SHARED), .LANES(LANES), .PLACES_LOG2(PLACES_LOG2),
      .UNITS_LOG2(UNITS_LOG2), .TAILS_LOG2(TAILS_LOG2)
  ) issue (
      .clk, .rst, .rec_valid, .rec, .in_valid, .in_data, .in_last,
      .tw_valid, .tw_tweak(128'd0), .tw_id,
      .req_valid, .req_number(128'd0), .req_slot(2'd0), .req_short(1'b0), .req_id(3'd0),
      .again_valid, .again_block, .again_key, .again_inverse, .again_short,
      .step, .unit_push, .unit_tweak, .unit_pop, .tail_push, .tail, .tail_done,
      .place_push, .place, .place_pop, .drained(1'b0)
  );

  localparam int STEP = luxor_pkg::STEP_BITS;
  logic [DELAY*STEP-1:0] steps_reg;
  always_ff @(posedge clk) begin
    steps_reg <= {steps_reg[(DELAY-1)*STEP-1:0], step};
    if (rst) steps_reg <= '0;
  end

  wire out_valid;
  xts_exit #(
      .LANES(LANES), .PLACES_LOG2(PLACES_LOG2), .UNITS_LOG2(UNITS_LOG2),
      .TAILS_LOG2(TAILS_LOG2)
  ) exit (
      .clk, .rst, .blocks,
      .step0(steps_reg[(DELAY-1)*STEP+:STEP]),
      .step1(steps_reg[(DELAY-2)*STEP+:STEP]),
      .step2(steps_reg[(DELAY-3)*STEP+:STEP]),
      .unit_push, .unit_tweak, .unit_pop, .tail_push, .tail, .tail_done,
      .place_push, .place, .place_pop,
      .again_valid, .again_block, .again_key, .again_inverse, .again_short,
      .out_valid, .out_ready
  );

  // `hierconn`: flatten joins them to the wires of the instances that have their names.
  (* hierconn *) wire [PLACES_LOG2:0] \issue.places_reg ;
  (* hierconn *) wire [UNITS_LOG2:0] \issue.units_out_reg ;
  (* hierconn *) wire [TAILS_LOG2:0] \issue.tails_reg ;
  (* hierconn *) wire \issue.room_reg ;
  (* hierconn *) wire \issue.tail_reg ;
  (* hierconn *) wire [1:0] \issue.state_reg ;
  (* hierconn *) wire [luxor_pkg::RECORD_BITS-1:0] \issue.cur_reg ;
  (* hierconn *) wire \issue.push_place ;
  (* hierconn *) wire [STEP-1:0] \exit.s_reg ;
  (* hierconn *) wire [P-1:0] \exit.exit_reg ;
  (* hierconn *) wire [P-1:0] \exit.write_reg ;
  (* hierconn *) wire [P-1:0] \exit.limit_reg ;
  (* hierconn *) wire [P-1:0] \exit.read_reg ;
  (* hierconn *) wire [P-1:0] \exit.give_reg ;
  (* hierconn *) wire \exit.reading ;
  (* hierconn *) wire \exit.present_reg ;
  (* hierconn *) wire [UNITS_LOG2:0] \exit.units.count_reg ;
  (* hierconn *) wire [TAILS_LOG2:0] \exit.tails.count_reg ;
  (* hierconn *) wire [TAILS_LOG2:0] \exit.seconds.count_reg ;
  (* hierconn *) wire [TAILS_LOG2:0] \exit.waiting.count_reg ;
  (* hierconn *) wire [((P+2)<<TAILS_LOG2)-1:0] \exit.waiting.queue_reg ;
  (* hierconn *) wire \exit.units.push ;
  (* hierconn *) wire \exit.units.pop ;
  (* hierconn *) wire \exit.tails.push ;
  (* hierconn *) wire \exit.tails.pop ;
  (* hierconn *) wire \exit.seconds.push ;
  (* hierconn *) wire \exit.seconds.pop ;
  (* hierconn *) wire \exit.waiting.push ;
  (* hierconn *) wire \exit.waiting.pop ;
  (* hierconn *) wire [P+1:0] \exit.waiting.push_data ;

  localparam logic [1:0] RUN = 2'd1;
  record_t next, cur;
  assign next = rec;
  assign cur = \issue.cur_reg ;

  logic first_reg = 1'b1;
  always_ff @(posedge clk) first_reg <= 1'b0;

`define HOLDS(NAME, CONDITION) \
  xts_buffer_holds NAME (.first(first_reg), .rst(rst), .condition(CONDITION ));

  always_comb begin
    assume (!next.split || (next.steal && next.lane == LANES - 1));
    assume (next.lane < LANES);
  end

  wire [1:0] w_in, w_out, lane_out;
  wire f_in, s_in, a_in, s_out, a_out, entry_out, sound_in, sound_out;
  xts_buffer_step #(.LANES(LANES)) of_step (
      .bits(step), .places(w_in), .unit(f_in), .steal(s_in), .again(a_in), .sound(sound_in)
  );
  xts_buffer_step #(.LANES(LANES)) of_out (
      .bits(\exit.s_reg ), .places(w_out), .steal(s_out), .again(a_out), .entry(entry_out),
      .sound(sound_out), .lane(lane_out)
  );

  // ---- How much lies between what is read next and a step: at hand, then in the pipeline.
  // For units up to where their tweaks are taken, for parts and second passes since the last
  // second pass that is over.
  wire [P:0] pop = (P + 1)'(place_pop);
  wire [Q:0] unit_popped = (Q + 1)'(unit_pop);
  wire [Q:0] through = (Q + 1)'(a_out);
  logic [P:0] places_in_reg;
  logic [Q:0] units_in_reg, steals_in_reg, agains_in_reg;
  logic [(P+1)*DELAY-1:0] places_line_reg;
  logic [(Q+1)*DELAY-1:0] units_line_reg, steals_line_reg, agains_line_reg;
  always_ff @(posedge clk) begin
    places_in_reg <= places_in_reg + w_in - pop;
    units_in_reg  <= units_in_reg + f_in - unit_popped;
    steals_in_reg <= steals_in_reg + s_in - through;
    agains_in_reg <= agains_in_reg + a_in - through;
    if (rst) begin
      places_in_reg <= '0;
      units_in_reg  <= '0;
      steals_in_reg <= '0;
      agains_in_reg <= '0;
    end
  end
  wire [(P+1)*(DELAY+1)-1:0] places_line = {places_line_reg, places_in_reg};
  wire [(Q+1)*(DELAY+1)-1:0] units_line = {units_line_reg, units_in_reg};
  wire [(Q+1)*(DELAY+1)-1:0] steals_line = {steals_line_reg, steals_in_reg};
  wire [(Q+1)*(DELAY+1)-1:0] agains_line = {agains_line_reg, agains_in_reg};
  for (genvar k = 0; k < DELAY; k++) begin : g_stage
    wire [1:0] w;
    wire f, s, a, sound;
    xts_buffer_step #(.LANES(LANES)) of_stage (
        .bits(steps_reg[STEP*k+:STEP]), .places(w), .unit(f), .steal(s), .again(a), .sound(sound)
    );
    always_ff @(posedge clk) begin
      places_line_reg[(P+1)*k+:P+1] <= rst ? '0 : places_line[(P+1)*k+:P+1] - pop;
      units_line_reg[(Q+1)*k+:Q+1]  <= rst ? '0 : units_line[(Q+1)*k+:Q+1] - unit_popped;
      steals_line_reg[(Q+1)*k+:Q+1] <= rst ? '0 : steals_line[(Q+1)*k+:Q+1] - through;
      agains_line_reg[(Q+1)*k+:Q+1] <= rst ? '0 : agains_line[(Q+1)*k+:Q+1] - through;
    end
    `HOLDS(stage_sound, sound)
    `HOLDS(stage_places, places_line_reg[(P+1)*k+:P+1] + w == places_line[(P+1)*k+:P+1])
    `HOLDS(stage_given, places_line_reg[(P+1)*k+:P+1] <= give)
    `HOLDS(stage_order, places_line_reg[(P+1)*k+:P+1] <= places_line[(P+1)*k+:P+1])
    if (k <= DELAY - 3) begin : g_units
      `HOLDS(stage_units, units_line_reg[(Q+1)*k+:Q+1] + f == units_line[(Q+1)*k+:Q+1])
      `HOLDS(stage_units_order, units_line_reg[(Q+1)*k+:Q+1] <= units_line[(Q+1)*k+:Q+1])
    end
    `HOLDS(stage_steals, steals_line_reg[(Q+1)*k+:Q+1] + s == steals_line[(Q+1)*k+:Q+1])
    `HOLDS(stage_steals_order, steals_line_reg[(Q+1)*k+:Q+1] <= steals_line[(Q+1)*k+:Q+1])
    `HOLDS(stage_agains, agains_line_reg[(Q+1)*k+:Q+1] + a == agains_line[(Q+1)*k+:Q+1])
    `HOLDS(stage_agains_order, agains_line_reg[(Q+1)*k+:Q+1] <= agains_line[(Q+1)*k+:Q+1])
  end
  wire [P:0] leave = places_line_reg[(P+1)*(DELAY-1)+:P+1];
  wire [Q:0] steals_out = steals_line_reg[(Q+1)*(DELAY-1)+:Q+1];

  // The same for the pointers of xts_exit and for the places that wait for a second pass.
  wire [P:0] give = \issue.places_reg - place_push;
  logic [P:0] limit_ahead_reg, write_ahead_reg;
  logic [((P+1)<<TAILS_LOG2)-1:0] waiting_reg;
  wire [((P+1)<<TAILS_LOG2)+P:0] waiting = {{P + 1{1'b0}}, waiting_reg};
  wire [TAILS_LOG2:0] waiting_left = \exit.waiting.count_reg - \exit.waiting.pop ;
  always_ff @(posedge clk) begin
    limit_ahead_reg <= (\exit.waiting.count_reg != 0 ? waiting_reg[P:0] : leave) - pop;
    write_ahead_reg <= leave - pop;
    if (rst) limit_ahead_reg <= '0;
  end

  // The place that is watched: how far ahead it is, and whether it waits, and where.
  logic watching_reg, written_reg, waits_reg;
  logic [P-1:0] watched_reg;
  logic [P:0] ahead_reg;
  logic [TAILS_LOG2-1:0] waits_at_reg;

  for (genvar k = 0; k < 1 << TAILS_LOG2; k++) begin : g_waiting
    wire [P:0] mine = waiting[(P+1)*k+:P+1];
    wire [P:0] newer = waiting[(P+1)*(k+1)+:P+1];
    always_ff @(posedge clk) begin
      if (\exit.waiting.push && waiting_left == k) waiting_reg[(P+1)*k+:P+1] <= leave - pop;
      else waiting_reg[(P+1)*k+:P+1] <= (\exit.waiting.pop ? newer : mine) - pop;
    end
    wire [P-1:0] held = \exit.waiting.queue_reg [(P+2)*k+:P];
    wire [1:0] lane = \exit.waiting.queue_reg [(P+2)*k+P+:2];
    wire there = \exit.waiting.count_reg > k;
    wire newest = \exit.waiting.count_reg == k + 1;
    wire is_watched = there && mine == ahead_reg && lane == LANES - 1;
    `HOLDS(waiting_lane, !there || lane < LANES)
    `HOLDS(waiting_pointer, !there || held == P'(\exit.read_reg + mine))
    `HOLDS(waiting_bound, !there || mine < leave)
    `HOLDS(waiting_order, \exit.waiting.count_reg <= k + 1 || mine < newer)
    `HOLDS(waiting_newest, !newest || mine < (entry_out && !s_out ? write_ahead_reg : leave))
    `HOLDS(waiting_now, !newest || !s_out || (mine == write_ahead_reg && lane == lane_out))
    `HOLDS(waiting_watched,
           !watching_reg || is_watched == (waits_reg && waits_at_reg == k))
  end
  `HOLDS(waiting_limit, \exit.waiting.count_reg == 0 || limit_ahead_reg <= waiting_reg[P:0])

  // ---- What is to be shown.
  `HOLDS(place_free, !\issue.push_place || \issue.places_reg < 1 << P)
  `HOLDS(places_fit, \issue.places_reg <= 1 << P)
  `HOLDS(units_fit, \issue.units_out_reg <= 1 << UNITS_LOG2)
  `HOLDS(tails_fit, \issue.tails_reg <= 1 << TAILS_LOG2)
  `HOLDS(pop_given, !place_pop || give != 0)
  `HOLDS(units_not_empty, !\exit.units.pop || \exit.units.count_reg != 0)
  `HOLDS(tails_not_empty, !\exit.tails.pop || \exit.tails.count_reg != 0)
  `HOLDS(seconds_not_empty, !\exit.seconds.pop || \exit.seconds.count_reg != 0)
  `HOLDS(waiting_not_empty, !\exit.waiting.pop || \exit.waiting.count_reg != 0)
  `HOLDS(units_not_full, !\exit.units.push || \exit.units.count_reg < 1 << UNITS_LOG2)
  `HOLDS(tails_not_full, !\exit.tails.push || \exit.tails.count_reg < 1 << TAILS_LOG2)
  `HOLDS(seconds_not_full, !\exit.seconds.push || \exit.seconds.count_reg < 1 << TAILS_LOG2)
  `HOLDS(waiting_not_full, !\exit.waiting.push || \exit.waiting.count_reg < 1 << TAILS_LOG2)

  // ---- Room.
  `HOLDS(tail_runs, !\issue.tail_reg || \issue.state_reg == RUN)
  wire cur_sound = (!cur.split || (cur.steal && cur.lane == LANES - 1)) && cur.lane < LANES;
  `HOLDS(record_sound, \issue.state_reg != RUN || cur_sound)
  `HOLDS(room_places, !\issue.room_reg || \issue.places_reg <= (1 << P) - 4)
  `HOLDS(room_tail_place, !\issue.tail_reg || \issue.places_reg <= (1 << P) - 3)
  `HOLDS(room_all_places, \issue.places_reg <= (1 << P) - 2)
  `HOLDS(room_units, !\issue.room_reg || \issue.units_out_reg <= (1 << UNITS_LOG2) - 4)
  `HOLDS(room_all_units, \issue.units_out_reg <= (1 << UNITS_LOG2) - 3)
  `HOLDS(room_tails, !\issue.room_reg || \issue.tails_reg <= (1 << TAILS_LOG2) - 4)
  `HOLDS(room_tail_tail, !\issue.tail_reg || \issue.tails_reg <= (1 << TAILS_LOG2) - 3)
  `HOLDS(room_all_tails, \issue.tails_reg <= (1 << TAILS_LOG2) - 2)

  // ---- Places.
  `HOLDS(push_counted, place_push <= \issue.places_reg )
  `HOLDS(places_counted, places_in_reg + w_in == \issue.places_reg + \issue.tail_reg )
  `HOLDS(limit_order, limit_ahead_reg <= (entry_out ? write_ahead_reg : leave))
  `HOLDS(write_order, !entry_out || write_ahead_reg + w_out == leave)
  `HOLDS(tail_follows, \issue.tail_reg == (w_in == 2'd2))
  `HOLDS(step_sound, sound_in)
  `HOLDS(written_sound, sound_out)
  `HOLDS(give_pointer, \exit.give_reg == P'(\exit.read_reg + give))
  `HOLDS(exit_pointer, \exit.exit_reg == P'(\exit.read_reg + leave))
  `HOLDS(limit_pointer, \exit.limit_reg == P'(\exit.read_reg + limit_ahead_reg))
  `HOLDS(write_pointer, !entry_out || \exit.write_reg == P'(\exit.read_reg + write_ahead_reg))

  // ---- Units.
  `HOLDS(unit_push_is, unit_push == f_in)
  `HOLDS(units_end, units_line_reg[(Q+1)*(DELAY-3)+:Q+1] == 0)
  `HOLDS(units_queued, \exit.units.count_reg == units_in_reg)
  `HOLDS(units_counted, \issue.units_out_reg == units_in_reg + unit_push)
  `HOLDS(units_order, units_in_reg <= \issue.units_out_reg )

  // ---- Parts of blocks: given, used, waiting for their second pass, through it.
  `HOLDS(agains_end, agains_line_reg[(Q+1)*(DELAY-1)+:Q+1] == a_out)
  `HOLDS(agains_counted, agains_in_reg + a_in + again_valid + s_out == steals_out)
  `HOLDS(steals_counted, steals_in_reg + s_in == \issue.tails_reg + \issue.tail_reg )
  `HOLDS(tails_queued, \exit.tails.count_reg + steals_out + tail_push == \issue.tails_reg )
  `HOLDS(tails_order, steals_line_reg[Q:0] + tail_push <= \issue.tails_reg )
  `HOLDS(waiting_queued, \exit.waiting.count_reg == steals_out)
  wire [Q:0] agains_taken = agains_line_reg[(Q+1)*(DELAY-2)+:Q+1];
  `HOLDS(seconds_queued, \exit.seconds.count_reg + agains_taken + s_out == steals_out)
  `HOLDS(agains_order, agains_in_reg <= steals_out)

  // ---- Writes go to places that were given and not yet read. The last lane of any place
  // that is watched is written once before it is read.
  (* hierconn *) wire \exit.g_buffer[0].we , \exit.g_buffer[1].we , \exit.g_buffer[3].we ;
  (* hierconn *) wire [P-1:0] \exit.g_buffer[0].address ;
  (* hierconn *) wire [P-1:0] \exit.g_buffer[1].address ;
  (* hierconn *) wire [P-1:0] \exit.g_buffer[3].address ;
  wire we;
  wire [P-1:0] address;
  if (LANES == 1) assign {we, address} = {\exit.g_buffer[0].we , \exit.g_buffer[0].address };
  if (LANES == 2) assign {we, address} = {\exit.g_buffer[1].we , \exit.g_buffer[1].address };
  if (LANES == 4) assign {we, address} = {\exit.g_buffer[3].we , \exit.g_buffer[3].address };
  wire [P-1:0] address_ahead = address - \exit.read_reg ;
  wire writes_watched = watching_reg && we && address == watched_reg;
  wire reads_watched = watching_reg && place_pop && \exit.read_reg == watched_reg;
  always_ff @(posedge clk) begin
    ahead_reg <= ahead_reg - pop;
    if (\exit.waiting.pop ) begin
      waits_at_reg <= waits_at_reg - 1'b1;
      if (waits_at_reg == 0) waits_reg <= 1'b0;
    end
    if (\exit.waiting.push && leave == ahead_reg
        && \exit.waiting.push_data [P+1:P] == LANES - 1) begin
      waits_reg <= 1'b1;
      waits_at_reg <= waiting_left;
    end
    if (writes_watched) written_reg <= 1'b1;
    if (reads_watched) watching_reg <= 1'b0;
    if (!watching_reg && place_push && mark) begin
      watching_reg <= 1'b1;
      written_reg <= 1'b0;
      waits_reg <= 1'b0;
      watched_reg <= \exit.give_reg ;
      ahead_reg <= give - pop;
    end
    if (rst) watching_reg <= 1'b0;
  end
  `HOLDS(write_given, !we || address_ahead < give)
  `HOLDS(write_once, !writes_watched || !written_reg)
  `HOLDS(write_first, !reads_watched || written_reg)
  `HOLDS(watched_pointer, !watching_reg || watched_reg == P'(\exit.read_reg + ahead_reg))
  `HOLDS(watched_given, !watching_reg || ahead_reg < give)
  `HOLDS(watched_written, !watching_reg || written_reg == (!waits_reg
      && ahead_reg < (entry_out ? write_ahead_reg : leave)))

  // ---- What was read is offered until it is taken.
  logic offered_reg;
  always_ff @(posedge clk) offered_reg <= !rst && (place_pop || (out_valid && !out_ready));
  `HOLDS(out_offered, !offered_reg || \exit.present_reg )
  `HOLDS(out_waits, !out_valid || out_ready || !\exit.reading )
endmodule

`default_nettype wire
