// SPDX-License-Identifier: MIT OR Apache-2.0
// The write channels of an AXI4 manager, for two users: data (ID 0) and statuses (ID 1).
//
// data_*    Requests for bursts. A user asks for a burst when it has all its beats, so that a burst
//           does not hold the bus while it waits for data. Beats are taken in the order of the
//           bursts, with beat_pop.
// status_*  A word for the last four bytes of the beat at status_addr. Statuses come first.
// ack_*     The responses, one cycle late: they never wait, since bready is always 1.
// stop      No burst begins. One that has begun goes to its end, but its beats are zero and have no
//           strobes. `idle`: all bursts were answered.
//
// The caller makes sure that no burst crosses a boundary of 4 KiB.
`default_nettype none

module axi_write #(
    parameter int LANES = 1,
    parameter logic [3:0] CACHE = 4'b0011,
    parameter logic [2:0] PROT = 3'b000
) (
    input  wire                 clk,
    input  wire                 rst,
    input  wire                 stop,
    output wire                 idle,
    input  wire                 data_valid,
    output wire                 data_ready,
    input  wire [         63:0] data_addr,
    input  wire [          7:0] data_len,     // beats, less 1
    input  wire                 beat_valid,
    output wire                 beat_pop,
    input  wire [128*LANES-1:0] beat_data,
    input  wire [ 16*LANES-1:0] beat_strobes,
    input  wire                 status_valid,
    output wire                 status_ready,
    input  wire [         63:0] status_addr,
    input  wire [         31:0] status_word,
    output wire                 ack_valid,
    output wire                 ack_status,
    output wire                 ack_error,
    output wire                 m_axi_awid,
    output wire [         63:0] m_axi_awaddr,
    output wire [          7:0] m_axi_awlen,
    output wire [          2:0] m_axi_awsize,
    output wire [          1:0] m_axi_awburst,
    output wire [          3:0] m_axi_awcache,
    output wire [          2:0] m_axi_awprot,
    output wire                 m_axi_awvalid,
    input  wire                 m_axi_awready,
    output wire [128*LANES-1:0] m_axi_wdata,
    output wire [ 16*LANES-1:0] m_axi_wstrb,
    output wire                 m_axi_wlast,
    output wire                 m_axi_wvalid,
    input  wire                 m_axi_wready,
    input  wire                 m_axi_bid,
    // OKAY and EXOKAY are no errors, SLVERR and DECERR are.
    /* verilator lint_off UNUSEDSIGNAL */
    input  wire [          1:0] m_axi_bresp,
    /* verilator lint_on UNUSEDSIGNAL */
    input  wire                 m_axi_bvalid,
    output wire                 m_axi_bready
);
  localparam int DATA = 128 * LANES;
  localparam int KEEP = 16 * LANES;
  localparam int QUEUE_LOG2 = 2;

  // An address goes to AW, and what W needs for its burst into a queue.
  logic awvalid_reg, awid_reg;
  logic [63:0] awaddr_reg;
  logic [7:0] awlen_reg;
  logic [QUEUE_LOG2:0] queued_reg;
  wire moves = (!awvalid_reg || m_axi_awready) && !queued_reg[QUEUE_LOG2] && !stop;
  wire begins = moves && (status_valid || data_valid);
  assign status_ready = moves;
  assign data_ready   = moves && !status_valid;
  always_ff @(posedge clk) begin
    if (m_axi_awready) awvalid_reg <= 1'b0;
    if (begins) awvalid_reg <= 1'b1;
    if (moves) begin
      awid_reg   <= status_valid;
      awaddr_reg <= status_valid ? status_addr : data_addr;
      awlen_reg  <= status_valid ? 8'd0 : data_len;
    end
    if (rst) awvalid_reg <= 1'b0;
  end
  assign m_axi_awid = awid_reg;
  assign m_axi_awaddr = awaddr_reg;
  assign m_axi_awlen = awlen_reg;
  assign m_axi_awsize = 3'(4 + $clog2(LANES));
  assign m_axi_awburst = 2'b01;  // INCR
  assign m_axi_awcache = CACHE;
  assign m_axi_awprot = PROT;
  assign m_axi_awvalid = awvalid_reg;

  logic burst_valid, burst_pop, burst_status;
  logic [7:0] burst_len;
  logic [31:0] burst_word;
  fifo #(
      .WIDTH(41),
      .DEPTH_LOG2(QUEUE_LOG2)
  ) bursts (
      .clk(clk),
      .rst(rst),
      .push(begins),
      .push_data({status_valid, status_valid ? 8'd0 : data_len, status_word}),
      .pop(burst_pop),
      .valid(burst_valid),
      .head({burst_status, burst_len, burst_word})
  );

  logic wvalid_reg, wlast_reg;
  logic [DATA-1:0] wdata_reg;
  logic [KEEP-1:0] wstrb_reg;
  logic [7:0] sent_reg;  // beats of the burst
  wire w_moves = !wvalid_reg || m_axi_wready;
  wire there = burst_valid && (burst_status || beat_valid || stop);
  wire last = sent_reg == burst_len;
  assign burst_pop = w_moves && there && last;
  assign beat_pop  = w_moves && there && !burst_status && !stop;
  always_ff @(posedge clk) begin
    if (w_moves) begin
      wvalid_reg <= there;
      wlast_reg  <= last;
      wdata_reg  <= burst_status ? {burst_word, {DATA - 32{1'b0}}} : beat_data;
      wstrb_reg  <= burst_status ? {4'b1111, {KEEP - 4{1'b0}}} : beat_strobes;
      // Nothing is shown of what a buffer held before a reset.
      if (stop || !there) begin
        wdata_reg <= '0;
        wstrb_reg <= '0;
      end
      if (there) sent_reg <= last ? 8'd0 : sent_reg + 8'd1;
    end
    if (rst) begin
      wvalid_reg <= 1'b0;
      sent_reg   <= 8'd0;
    end
  end
  assign m_axi_wdata  = wdata_reg;
  assign m_axi_wstrb  = wstrb_reg;
  assign m_axi_wlast  = wlast_reg;
  assign m_axi_wvalid = wvalid_reg;
  assign m_axi_bready = 1'b1;

  logic bvalid_reg, bid_reg, berror_reg;
  logic [5:0] open_reg;  // bursts begun and not answered
  always_ff @(posedge clk) begin
    bvalid_reg <= m_axi_bvalid && !rst;
    bid_reg    <= m_axi_bid;
    berror_reg <= m_axi_bresp[1];
    queued_reg <= queued_reg + (QUEUE_LOG2 + 1)'(begins) - (QUEUE_LOG2 + 1)'(burst_pop);
    open_reg   <= open_reg + 6'(begins) - 6'(bvalid_reg);
    if (rst) begin
      queued_reg <= '0;
      open_reg   <= 6'd0;
    end
  end
  assign ack_valid = bvalid_reg;
  assign ack_status = bid_reg;
  assign ack_error = berror_reg;
  assign idle = open_reg == 6'd0;
endmodule

`default_nettype wire
