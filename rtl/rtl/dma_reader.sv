// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads the sources of descriptors, in bursts, and sends each as a packet.
//
// job_*   A source: its first beat and its number of beats. The caller makes sure that at most 16
//         are pushed whose ends were not popped.
// req_*   Bursts. Each ends at its source's end or at a multiple of 2^BURST_LOG2 beats, so none
//         crosses a multiple of 4 KiB. A burst begins only if the buffer has room for all its
//         beats.
// beat_*  The beats that come back, in the order of the bursts. They cannot wait.
// out_*   The packets.
// end_*   For each source whose last beat has come: whether a beat had an error.
`default_nettype none

module dma_reader #(
    parameter int LANES = 1,
    parameter int BURST_LOG2 = 4,
    parameter int BUFFER_LOG2 = 8
) (
    input  wire                           clk,
    input  wire                           rst,
    input  wire                           job_push,
    input  wire [59-$clog2(LANES):0]      job_addr,
    input  wire [27-$clog2(LANES):0]      job_beats,
    output wire                           req_valid,
    input  wire                           req_ready,
    output wire [63:0]                    req_addr,
    output wire [ 7:0]                    req_len,     // beats, less 1
    input  wire                           beat_valid,
    input  wire [128*LANES-1:0]           beat_data,
    input  wire                           beat_last,   // of its burst
    input  wire                           beat_error,
    output wire                           out_valid,
    input  wire                           out_ready,
    output wire [128*LANES-1:0]           out_data,
    output wire                           out_last,
    output wire                           end_valid,
    input  wire                           end_pop,
    output wire                           end_error
);
  localparam int LOG = 4 + $clog2(LANES);  // of the bytes of a beat
  localparam int ADDR = 64 - LOG;
  localparam int COUNT = 32 - LOG;
  localparam int DATA = 128 * LANES;
  localparam int JOBS_LOG2 = 4;
  localparam int BURSTS_LOG2 = 4;  // that are under way at most
  localparam int B = BURST_LOG2;

  logic job_valid, job_pop;
  logic [ADDR-1:0] next_addr;
  logic [COUNT-1:0] next_beats;
  fifo #(
      .WIDTH(ADDR + COUNT),
      .DEPTH_LOG2(JOBS_LOG2)
  ) jobs (
      .clk(clk),
      .rst(rst),
      .push(job_push),
      .push_data({job_addr, job_beats}),
      .pop(job_pop),
      .valid(job_valid),
      .head({next_addr, next_beats})
  );

  // A burst takes two steps: its length is computed, and it is asked for.
  localparam logic [1:0] IDLE = 2'd0;
  localparam logic [1:0] SPLIT = 2'd1;
  localparam logic [1:0] ASK = 2'd2;
  logic [1:0] state_reg;
  logic [ADDR-1:0] addr_reg;
  logic [COUNT-1:0] left_m1_reg;  // beats that are left, less 1
  logic [B-1:0] len_m1_reg;
  logic final_reg, room_reg;
  wire [B-1:0] to_boundary_m1 = ~addr_reg[B-1:0];
  wire ends_here = left_m1_reg[COUNT-1:B] == '0 && left_m1_reg[B-1:0] <= to_boundary_m1;
  wire asks = req_valid && req_ready;
  assign job_pop = state_reg == IDLE && job_valid;
  assign req_valid = state_reg == ASK && room_reg;
  assign req_addr = {addr_reg, {LOG{1'b0}}};
  assign req_len = 8'(len_m1_reg);
  always_ff @(posedge clk) begin
    case (state_reg)
      IDLE: begin
        addr_reg <= next_addr;
        left_m1_reg <= next_beats - 1'b1;
        if (job_valid) state_reg <= SPLIT;
      end
      SPLIT: begin
        len_m1_reg <= ends_here ? left_m1_reg[B-1:0] : to_boundary_m1;
        final_reg  <= ends_here;
        state_reg  <= ASK;
      end
      default:
      if (asks) begin
        addr_reg <= {addr_reg[ADDR-1:B] + 1'b1, {B{1'b0}}};
        left_m1_reg <= left_m1_reg - COUNT'(len_m1_reg) - 1'b1;
        state_reg <= final_reg ? IDLE : SPLIT;
      end
    endcase
    if (rst) state_reg <= IDLE;
  end

  // The beats that were asked for and have not left the buffer, and the bursts that have not come.
  localparam int MOST = (1 << BUFFER_LOG2) - 1 - (1 << B);
  logic [BUFFER_LOG2:0] used_reg;
  logic [BURSTS_LOG2:0] bursts_reg;
  wire leaves = out_valid && out_ready;
  wire comes = beat_valid && beat_last;
  always_ff @(posedge clk) begin
    used_reg <= used_reg - (BUFFER_LOG2 + 1)'(leaves)
        + (asks ? (BUFFER_LOG2 + 1)'(len_m1_reg) + 1'b1 : '0);
    bursts_reg <= bursts_reg + (BURSTS_LOG2 + 1)'(asks) - (BURSTS_LOG2 + 1)'(comes);
    // After a request, the step SPLIT gives the counters time.
    room_reg <= used_reg <= (BUFFER_LOG2 + 1)'(MOST) && !bursts_reg[BURSTS_LOG2];
    if (rst) begin
      used_reg   <= '0;
      bursts_reg <= '0;
      room_reg   <= 1'b0;
    end
  end

  logic last_burst;
  wire unused_valid;
  fifo #(
      .WIDTH(1),
      .DEPTH_LOG2(BURSTS_LOG2)
  ) finals (
      .clk(clk),
      .rst(rst),
      .push(asks),
      .push_data(final_reg),
      .pop(comes),
      .valid(unused_valid),
      .head(last_burst)
  );
  wire ends = comes && last_burst;
  wire unused_room, unused_more;
  block_fifo #(
      .WIDTH(DATA + 1),
      .DEPTH_LOG2(BUFFER_LOG2)
  ) buffer (
      .clk(clk),
      .rst(rst),
      .room(unused_room),
      .push(beat_valid),
      .push_data({ends, beat_data}),
      .pop(leaves),
      .valid(out_valid),
      .more(unused_more),
      .head({out_last, out_data})
  );

  logic error_reg;  // in the beats that came before, of the same source
  always_ff @(posedge clk) begin
    if (beat_valid) error_reg <= (error_reg || beat_error) && !ends;
    if (rst) error_reg <= 1'b0;
  end
  fifo #(
      .WIDTH(1),
      .DEPTH_LOG2(JOBS_LOG2)
  ) results (
      .clk(clk),
      .rst(rst),
      .push(ends),
      .push_data(error_reg || beat_error),
      .pop(end_pop),
      .valid(end_valid),
      .head(end_error)
  );

  wire unused = &{1'b0, unused_valid, unused_room, unused_more};
endmodule

`default_nettype wire
