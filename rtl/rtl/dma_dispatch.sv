// SPDX-License-Identifier: MIT OR Apache-2.0
// Hands descriptors to the core, to dma_reader and to dma_writer, and puts their results together.
//
// desc_*    The next descriptor. It is stable until desc_pop.
// source_*  Its source, for dma_reader, and in the same cycle its destination, for dma_writer: the
//           first beat of each, and how many beats. Descriptors without data have none.
// core_*    The descriptor goes to the core. Its other fields go there directly.
// done_*    The core's results, in order, which cannot wait.
// read_*    The ends of dma_reader and of dma_writer, in order (`write_*`).
// status_*  The status of each descriptor, in order.
// ack       A status was written. At most 16 descriptors are between desc_pop and this.
`default_nettype none

module dma_dispatch #(
    parameter int LANES = 1
) (
    input  wire                      clk,
    input  wire                      rst,
    input  wire                      desc_valid,
    output wire                      desc_pop,
    input  wire                      desc_error,
    input  wire [              31:0] desc_unit_len,
    input  wire [              31:0] desc_unit_count,
    input  wire [              31:0] desc_length,
    input  wire [              63:0] desc_source,
    input  wire [              63:0] desc_destination,
    output wire                      job_push,
    output wire [59-$clog2(LANES):0] job_source,
    output wire [59-$clog2(LANES):0] job_destination,
    output wire [27-$clog2(LANES):0] job_beats,
    output wire                      core_valid,
    input  wire                      core_ready,
    input  wire                      done_valid,
    input  wire [               3:0] done_status,
    input  wire                      read_valid,
    output wire                      read_pop,
    input  wire                      read_error,
    input  wire                      write_valid,
    output wire                      write_pop,
    input  wire                      write_error,
    output wire                      status_valid,
    input  wire                      status_ready,
    output wire [               9:0] status,
    input  wire                      ack
);
  localparam int LOG = 4 + $clog2(LANES);
  localparam int MOST_LOG2 = 4;

  localparam logic [1:0] CHECK = 2'd0;
  localparam logic [1:0] GIVE = 2'd1;
  localparam logic [1:0] WAIT = 2'd2;
  logic [1:0] state_reg;
  logic owns_reg, bad_reg, failed_reg, room_reg;
  logic [MOST_LOG2:0] open_reg;
  // A descriptor that is refused here never comes to the core.
  wire refused = failed_reg || (owns_reg && bad_reg);
  wire gives = state_reg == GIVE && room_reg;
  wire passes = state_reg == WAIT && core_ready;
  assign core_valid = state_reg == WAIT;
  assign desc_pop = (gives && refused) || passes;
  assign job_push = gives && !refused && owns_reg;
  assign job_source = desc_source[63:LOG];
  assign job_destination = desc_destination[63:LOG];
  assign job_beats = desc_length[31:LOG];
  always_ff @(posedge clk) begin
    case (state_reg)
      CHECK: begin
        owns_reg <= desc_unit_len != 0 && desc_unit_count != 0;
        bad_reg <= (desc_source[LOG-1:0] | desc_destination[LOG-1:0] | desc_length[LOG-1:0]) != '0
            || desc_length[31:LOG] == '0;
        failed_reg <= desc_error;
        if (desc_valid) state_reg <= GIVE;
      end
      GIVE: if (gives) state_reg <= refused ? CHECK : WAIT;
      default: if (passes) state_reg <= CHECK;
    endcase
    open_reg <= open_reg + (MOST_LOG2 + 1)'(gives) - (MOST_LOG2 + 1)'(ack);
    room_reg <= !open_reg[MOST_LOG2];
    if (rst) begin
      state_reg <= CHECK;
      open_reg  <= '0;
      room_reg  <= 1'b0;
    end
  end

  // ---- The results.
  logic order_valid, order_refused, order_owns;
  logic [3:0] order_code, code;
  logic code_valid;
  wire ready = order_valid && (order_refused
      || (code_valid && (!order_owns || (read_valid && write_valid))));
  wire settles = ready && status_ready;
  fifo #(
      .WIDTH(6),
      .DEPTH_LOG2(MOST_LOG2)
  ) order (
      .clk(clk),
      .rst(rst),
      .push(gives),
      .push_data({refused, owns_reg,
                  failed_reg ? luxor_pkg::DONE_FETCH : luxor_pkg::DONE_ADDRESS}),
      .pop(settles),
      .valid(order_valid),
      .head({order_refused, order_owns, order_code})
  );
  fifo #(
      .WIDTH(4),
      .DEPTH_LOG2(MOST_LOG2)
  ) codes (
      .clk(clk),
      .rst(rst),
      .push(done_valid),
      .push_data(done_status),
      .pop(settles && !order_refused),
      .valid(code_valid),
      .head(code)
  );
  wire took_data = !order_refused && order_owns;
  assign read_pop = settles && took_data;
  assign write_pop = settles && took_data;
  assign status_valid = ready;
  assign status = {took_data && write_error, took_data && read_error, 4'd0,
                   order_refused ? order_code : code};
endmodule

`default_nettype wire
