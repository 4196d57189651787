// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests the encryption of the data unit numbers of a descriptor, several units ahead, and stores
// the tweaks. In CTR mode (`gen_ctr`) the numbers themselves are the tweaks: they are stored when the
// results of all requests before them have come.
//
// `gen_*` starts a descriptor of `gen_units` units. Requests go out on `req_*`, at most one in two
// cycles, and only as many as there is room for the results, which come back on `res_*` in order.
// `tw_*` is the oldest tweak, from the cycle after `tw_soon` on. `tw_id`, the descriptor that it
// belongs to, is valid together with `tw_soon`. `cut` stops the descriptor `cut_id`. Tweaks that
// were requested up to the cycle after the cut still come, with their `tw_id`.
//
// With TWEAK_PAPER only one tweak is requested at a time, and it goes to `tw_*` without a buffer,
// in the cycle of `tw_soon`. The module that requested it must be waiting.
`default_nettype none

module xts_tweaks #(
    parameter int TWEAK = luxor_pkg::TWEAK_SHARED,
    parameter int CTR = 0,
    parameter int DEPTH_LOG2 = 4
) (
    input wire clk,
    input wire rst,

    input  wire         gen_valid,
    output wire         gen_ready,
    input  wire [127:0] gen_number,
    input  wire [ 63:0] gen_stride,
    input  wire [ 31:0] gen_units,
    input  wire [  1:0] gen_slot,
    input  wire         gen_short,
    input  wire         gen_ctr,
    input  wire [  2:0] gen_id,

    output wire         req_valid,
    input  wire         req_ready,
    output wire [127:0] req_number,
    output wire [  1:0] req_slot,
    output wire         req_short,
    output wire [  2:0] req_id,

    input wire         res_valid,
    input wire [127:0] res_tweak,
    input wire [  2:0] res_id,

    output wire         tw_soon,
    output wire [127:0] tw_tweak,
    output wire [  2:0] tw_id,
    input  wire         tw_pop,

    input wire       cut,
    input wire [2:0] cut_id
);
  logic active_reg;  // there are tweaks left to request
  logic may_reg;  // there are, and there is room for the next tweak
  logic valid_reg;  // and number_reg is the number of the next unit
  logic [127:0] number_reg;
  // The parts of the next number: the lower half with its carry, and the upper half for a carry of
  // 1. So the carry chain is between registers, and the upper half is one cycle late.
  logic [64:0] lower_reg;
  logic [63:0] upper_reg;
  logic carry_reg;
  logic [63:0] stride_reg;
  logic [31:0] units_reg;  // counts up: minus the units left, less 1
  logic last_reg;
  logic [1:0] slot_reg;
  logic short_reg;
  logic [2:0] id_reg;

  assign gen_ready  = !active_reg;
  wire plain;  // the descriptor is in CTR mode
  wire stores;  // a number is stored as it is
  assign req_valid  = valid_reg && !plain;
  assign req_number = number_reg;
  assign req_slot   = slot_reg;
  assign req_short  = short_reg;
  assign req_id     = id_reg;

  wire requested = req_valid && req_ready;
  wire asked = requested || stores;
  logic asked_reg;
  // One cycle late. No other descriptor can have started by then.
  logic cut_reg;
  wire cut_here = cut_reg && active_reg;

  wire active_new = active_reg ? !cut_here && !(asked && last_reg) : gen_valid;

  always_ff @(posedge clk) begin
    lower_reg <= {1'b0, number_reg[63:0]} + {1'b0, stride_reg};
    upper_reg <= number_reg[127:64] + 64'd1;
    carry_reg <= active_reg && asked && lower_reg[64];
    if (!active_reg) begin
      number_reg <= gen_number;
      stride_reg <= gen_stride;
    end else begin
      if (asked) number_reg[63:0] <= lower_reg[63:0];
      if (carry_reg) number_reg[127:64] <= upper_reg;
    end
  end

  always_ff @(posedge clk) begin
    if (!active_reg) begin
      units_reg <= ~gen_units;
      last_reg <= gen_units == 1;
      slot_reg <= gen_slot;
      short_reg <= gen_short;
      id_reg <= gen_id;
    end
    if (active_reg && asked_reg) begin
      units_reg <= units_reg + 32'd1;
      last_reg  <= units_reg == ~32'd2;
    end
    cut_reg   <= cut && active_reg && cut_id == id_reg;
    asked_reg <= !rst && asked;
    if (rst) begin
      active_reg <= 1'b0;
      valid_reg <= 1'b0;
    end else begin
      active_reg <= active_new;
      // A request starts when its number is ready and stays until it is granted, so no grant is
      // wasted, except after a cut. In a shared pipeline only a module that requests gets a grant.
      valid_reg <= (may_reg || valid_reg) && !cut_reg
          && !(TWEAK == luxor_pkg::TWEAK_DEDICATED || plain ? asked : req_ready);
    end
  end

  if (CTR != 0) begin : g_ctr
    logic plain_reg;
    logic [DEPTH_LOG2:0] waiting_reg;  // requests without a result
    always_ff @(posedge clk) begin
      if (!active_reg) plain_reg <= gen_ctr;
      if (rst) waiting_reg <= '0;
      else
        waiting_reg <= waiting_reg
            + {{DEPTH_LOG2{res_valid && !requested}}, res_valid != requested};
    end
    assign plain  = plain_reg;
    assign stores = valid_reg && plain_reg && waiting_reg == 0;
  end else begin : g_no_ctr
    assign plain  = 1'b0;
    assign stores = 1'b0;
    wire unused = &{1'b0, gen_ctr};
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk)
    if (!rst && stores && res_valid) $fatal(1, "xts_tweaks: two tweaks at a time");
`endif

  if (TWEAK == luxor_pkg::TWEAK_PAPER) begin : g_paper
    logic out_reg;  // a tweak was requested and not yet taken
    wire out_new = asked || (out_reg && !tw_pop);
    always_ff @(posedge clk) begin
      out_reg  <= !rst && out_new;
      may_reg <= !rst && active_new && !out_new;
    end
    assign tw_soon  = res_valid;
    assign {tw_id, tw_tweak} = {res_id, res_tweak};
  end else begin : g_ahead
    // The tweaks requested and not yet taken, as of two cycles ago. Up to three more can be
    // requested before the missing room is seen.
    logic [DEPTH_LOG2:0] out_reg;
    logic popped_reg;
    always_ff @(posedge clk) begin
      popped_reg <= !rst && tw_pop;
      if (rst) out_reg <= '0;
      else out_reg <= out_reg + {{DEPTH_LOG2{popped_reg && !asked_reg}}, popped_reg != asked_reg};
      may_reg <= !rst && active_new && out_reg < (DEPTH_LOG2 + 1)'((1 << DEPTH_LOG2) - 4);
    end

    // The owner of a tweak is visible before the tweak itself.
    wire id_valid, tweaks_room;
    wire unused = &{1'b0, id_valid, tweaks_room};
    fifo #(
        .WIDTH(3),
        .DEPTH_LOG2(DEPTH_LOG2)
    ) ids (
        .clk,
        .rst,
        .push(res_valid || stores),
        .push_data(stores ? id_reg : res_id),
        .pop(tw_pop),
        .valid(id_valid),
        .head(tw_id)
    );
    wire tweaks_valid, tweaks_more;
    block_fifo #(
        .WIDTH(128),
        .DEPTH_LOG2(DEPTH_LOG2)
    ) tweaks (
        .clk,
        .rst,
        .room(tweaks_room),
        .push(res_valid || stores),
        .push_data(stores ? number_reg : res_tweak),
        .pop(tw_pop),
        .valid(tweaks_valid),
        .more(tweaks_more),
        .head(tw_tweak)
    );
    assign tw_soon = tweaks_valid || tweaks_more;
  end
endmodule

`default_nettype wire
