// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes packets to the destinations of descriptors, in bursts.
//
// job_*   A destination: its first beat. It must be pushed before the first beat of its packet
//         comes. The caller makes sure that at most 16 are pushed whose ends were not popped.
// in_*    The packets. A beat without bytes is not written; it can only be the last of its packet.
// req_*   Bursts. Each ends at its packet's end or at a multiple of 2^BURST_LOG2 beats, so none
//         crosses a multiple of 4 KiB. A burst is asked for when all its beats are in the buffer. At
//         most 15 are without an answer: `tags` and `answers` have a 16th place for an end of a packet
//         that is no burst, because it can follow a burst before that is counted.
// beat_*  Their beats, in order.
// ack_*   The responses to the bursts, in order. They cannot wait.
// end_*   For each packet whose bursts were all answered: whether an answer was an error.
`default_nettype none

module dma_writer #(
    parameter int LANES = 1,
    parameter int BURST_LOG2 = 4,
    parameter int BUFFER_LOG2 = 8
) (
    input  wire                      clk,
    input  wire                      rst,
    input  wire                      job_push,
    input  wire [59-$clog2(LANES):0] job_addr,
    input  wire                      in_valid,
    output wire                      in_ready,
    input  wire [     128*LANES-1:0] in_data,
    input  wire [      16*LANES-1:0] in_keep,
    input  wire                      in_last,
    output wire                      req_valid,
    input  wire                      req_ready,
    output wire [              63:0] req_addr,
    output wire [               7:0] req_len,      // beats, less 1
    output wire                      beat_valid,
    input  wire                      beat_pop,
    output wire [     128*LANES-1:0] beat_data,
    output wire [      16*LANES-1:0] beat_strobes,
    input  wire                      ack_valid,
    input  wire                      ack_error,
    output wire                      end_valid,
    input  wire                      end_pop,
    output wire                      end_error
);
  localparam int LOG = 4 + $clog2(LANES);  // of the bytes of a beat
  localparam int ADDR = 64 - LOG;
  localparam int JOBS_LOG2 = 4;
  localparam int BURSTS_LOG2 = 4;
  localparam int B = BURST_LOG2;

  // ---- The packets are divided into bursts. Only the low bits of the addresses are needed here.
  logic [B-1:0] next_place;
  logic first_reg;  // the next beat is the first of its packet
  logic [B-1:0] place_reg;  // of the next beat, if it is not the first
  logic [B-1:0] count_reg;  // beats of the burst so far
  logic opens_reg;  // the burst has the first beat of its packet
  wire takes = in_valid && in_ready;
  wire hollow = !in_keep[0];
  wire [B-1:0] place = first_reg ? next_place : place_reg;
  wire closes = takes && (in_last || (&place));
  always_ff @(posedge clk) begin
    if (takes) begin
      first_reg <= in_last;
      place_reg <= place + 1'b1;
      count_reg <= closes ? '0 : count_reg + 1'b1;
      opens_reg <= closes ? in_last : opens_reg;
    end
    if (rst) begin
      first_reg <= 1'b1;
      count_reg <= '0;
      opens_reg <= 1'b1;
    end
  end
  wire unused_places;
  fifo #(
      .WIDTH(B),
      .DEPTH_LOG2(JOBS_LOG2)
  ) places (
      .clk(clk),
      .rst(rst),
      .push(job_push),
      .push_data(job_addr[B-1:0]),
      .pop(takes && first_reg),
      .valid(unused_places),
      .head(next_place)
  );

  logic room, unused_more;
  block_fifo #(
      .WIDTH(144 * LANES),
      .DEPTH_LOG2(BUFFER_LOG2)
  ) buffer (
      .clk(clk),
      .rst(rst),
      .room(room),
      .push(takes && !hollow),
      .push_data({in_keep, in_data}),
      .pop(beat_pop),
      .valid(beat_valid),
      .more(unused_more),
      .head({beat_strobes, beat_data})
  );

  // If a beat without bytes follows a burst that is closed, the end of the packet is an empty burst.
  logic burst_valid, burst_pop, burst_empty, burst_opens, burst_final;
  logic [B-1:0] burst_len_m1;
  logic [BURSTS_LOG2:0] queued_reg;
  fifo #(
      .WIDTH(B + 3),
      .DEPTH_LOG2(BURSTS_LOG2)
  ) bursts (
      .clk(clk),
      .rst(rst),
      .push(closes),
      .push_data({hollow && count_reg == '0, opens_reg, in_last, count_reg - B'(hollow)}),
      .pop(burst_pop),
      .valid(burst_valid),
      .head({burst_empty, burst_opens, burst_final, burst_len_m1})
  );
  logic may_close_reg;
  always_ff @(posedge clk) begin
    queued_reg <= queued_reg + (BURSTS_LOG2 + 1)'(closes) - (BURSTS_LOG2 + 1)'(burst_pop);
    // One more burst can be closed before this is seen.
    may_close_reg <= queued_reg < (BURSTS_LOG2 + 1)'((1 << BURSTS_LOG2) - 1);
    if (rst) begin
      queued_reg <= '0;
      may_close_reg <= 1'b0;
    end
  end
  assign in_ready = room && may_close_reg;

  // ---- The bursts get their addresses.
  logic addr_pop;
  logic [ADDR-1:0] next_addr;
  wire unused_addrs;
  fifo #(
      .WIDTH(ADDR),
      .DEPTH_LOG2(JOBS_LOG2)
  ) addrs (
      .clk(clk),
      .rst(rst),
      .push(job_push),
      .push_data(job_addr),
      .pop(addr_pop),
      .valid(unused_addrs),
      .head(next_addr)
  );
  logic asking_reg, room_reg;
  logic [ADDR-1:0] addr_reg;
  logic [ADDR-1:B] after_reg;  // where the next burst of the packet begins
  wire asks = req_valid && req_ready;
  wire skips = !asking_reg && burst_valid && burst_empty && room_reg;
  assign req_valid = asking_reg && room_reg;
  assign req_addr  = {addr_reg, {LOG{1'b0}}};
  assign req_len   = 8'(burst_len_m1);
  assign burst_pop = asks || skips;
  assign addr_pop  = burst_pop && burst_opens;
  always_ff @(posedge clk) begin
    if (!asking_reg) begin
      asking_reg <= burst_valid && !burst_empty;
      addr_reg   <= burst_opens ? next_addr : {after_reg, {B{1'b0}}};
    end else if (asks) asking_reg <= 1'b0;
    if (asks) after_reg <= addr_reg[ADDR-1:B] + 1'b1;
    if (rst) asking_reg <= 1'b0;
  end

  // ---- The answers.
  logic tag_valid, tag_empty, tag_final, answer_valid, answer_error;
  wire settles = tag_valid && (tag_empty || answer_valid);
  logic [BURSTS_LOG2:0] open_reg;
  fifo #(
      .WIDTH(2),
      .DEPTH_LOG2(BURSTS_LOG2)
  ) tags (
      .clk(clk),
      .rst(rst),
      .push(burst_pop),
      .push_data({burst_empty, burst_final}),
      .pop(settles),
      .valid(tag_valid),
      .head({tag_empty, tag_final})
  );
  fifo #(
      .WIDTH(1),
      .DEPTH_LOG2(BURSTS_LOG2)
  ) answers (
      .clk(clk),
      .rst(rst),
      .push(ack_valid),
      .push_data(ack_error),
      .pop(settles && !tag_empty),
      .valid(answer_valid),
      .head(answer_error)
  );
  logic error_reg;  // in the answers before, for the same packet
  wire error = error_reg || (answer_error && !tag_empty);
  always_ff @(posedge clk) begin
    open_reg <= open_reg + (BURSTS_LOG2 + 1)'(burst_pop) - (BURSTS_LOG2 + 1)'(settles);
    // An end without a burst can come before this is seen. After a burst, the next one takes two
    // cycles.
    room_reg <= open_reg < (BURSTS_LOG2 + 1)'((1 << BURSTS_LOG2) - 1);
    if (settles) error_reg <= error && !tag_final;
    if (rst) begin
      open_reg  <= '0;
      room_reg  <= 1'b0;
      error_reg <= 1'b0;
    end
  end
  fifo #(
      .WIDTH(1),
      .DEPTH_LOG2(JOBS_LOG2)
  ) results (
      .clk(clk),
      .rst(rst),
      .push(settles && tag_final),
      .push_data(error),
      .pop(end_pop),
      .valid(end_valid),
      .head(end_error)
  );

  wire unused = &{1'b0, unused_places, unused_more, unused_addrs};

`ifndef SYNTHESIS
  always @(posedge clk)
    if (!rst && takes && hollow && !in_last) $fatal(1, "dma_writer: a hollow beat within a packet");
`endif
endmodule

`default_nettype wire
