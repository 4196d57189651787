// SPDX-License-Identifier: MIT OR Apache-2.0
// The bus master of luxor_xts_dma.sv: everything between xts_regs, xts_axis and the bus.
//
//     xts_regs ─ dma_ring ─── dma_dispatch ─ desc, done ─┐
//                │      │       │      │                 │
//                │      │  dma_reader dma_writer ─ data ─ xts_axis
//                │      │       │      │
//     bus ─ axi_read ───┴───────┘      │
//         └ axi_write ──┴──────────────┘
//
// After a reset of the core, the bus finishes what it has begun, while everything else stays in
// reset (`draining`). `rst` resets the bus too: then the other end must be reset with it.
`default_nettype none

module dma_master #(
    parameter int LANES = 1,
    parameter int BURST_LOG2 = 4,
    parameter int BUFFER_LOG2 = 8,
    parameter logic [3:0] CACHE = 4'b0011,
    parameter logic [2:0] PROT = 3'b000
) (
    input  wire                 clk,
    input  wire                 rst,
    input  wire                 core_rst,
    output wire                 draining,
    input  wire                 ring_write,
    input  wire [          8:0] ring_write_addr,
    input  wire [         31:0] ring_write_data,
    input  wire                 ring_read,
    input  wire [          8:0] ring_read_addr,
    output wire                 ring_read_done,
    output wire [         31:0] ring_read_data,
    input  wire                 enable,
    input  wire [         31:0] tail,
    output wire [         31:0] ring_size,
    output wire [         31:0] taken,
    output wire [         31:0] head,
    output wire                 ring_done,
    output wire                 ring_error,
    output wire                 desc_valid,
    input  wire                 desc_ready,
    output wire [        127:0] desc_number,
    output wire [         63:0] desc_stride,
    output wire [         31:0] desc_unit_len,
    output wire [         31:0] desc_unit_count,
    output wire [          7:0] desc_slot,
    output wire                 desc_decrypt,
    output wire [          1:0] desc_mode,
    input  wire                 done_valid,
    input  wire [          3:0] done_status,
    output wire [128*LANES-1:0] s_axis_tdata,
    output wire                 s_axis_tvalid,
    input  wire                 s_axis_tready,
    output wire                 s_axis_tlast,
    input  wire [128*LANES-1:0] m_axis_tdata,
    input  wire [ 16*LANES-1:0] m_axis_tkeep,
    input  wire                 m_axis_tlast,
    input  wire                 m_axis_tvalid,
    output wire                 m_axis_tready,
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
    input  wire [          1:0] m_axi_bresp,
    input  wire                 m_axi_bvalid,
    output wire                 m_axi_bready,
    output wire                 m_axi_arid,
    output wire [         63:0] m_axi_araddr,
    output wire [          7:0] m_axi_arlen,
    output wire [          2:0] m_axi_arsize,
    output wire [          1:0] m_axi_arburst,
    output wire [          3:0] m_axi_arcache,
    output wire [          2:0] m_axi_arprot,
    output wire                 m_axi_arvalid,
    input  wire                 m_axi_arready,
    input  wire                 m_axi_rid,
    input  wire [128*LANES-1:0] m_axi_rdata,
    input  wire [          1:0] m_axi_rresp,
    input  wire                 m_axi_rlast,
    input  wire                 m_axi_rvalid,
    output wire                 m_axi_rready
);
  localparam int LOG = 4 + $clog2(LANES);
  localparam int DATA = 128 * LANES;

  initial begin
    if (BURST_LOG2 < 1 || BURST_LOG2 > 8 || BURST_LOG2 + LOG > 12)
      $fatal(1, "dma_master: a burst must have 2 to 256 beats and at most 4 KiB");
    if (BUFFER_LOG2 < 5 || BUFFER_LOG2 <= BURST_LOG2)
      $fatal(1, "dma_master: a buffer must have 32 beats or more, and room for two bursts");
  end

  // stop_reg starts as 1, so that nothing sees the first clock edge without a reset.
  logic stop_reg;
  logic read_idle, write_idle;
  initial stop_reg = 1'b1;
  always_ff @(posedge clk) stop_reg <= rst || core_rst || (stop_reg && !(read_idle && write_idle));
  assign draining = stop_reg;

  logic fetch_valid, fetch_ready, source_valid, source_ready;
  logic [63:0] fetch_addr, source_addr;
  logic [7:0] source_len;
  logic got_valid, got_desc, got_last, got_error;
  logic [DATA-1:0] got_data;
  axi_read #(
      .LANES(LANES),
      .CACHE(CACHE),
      .PROT(PROT)
  ) reads (
      .clk,
      .rst,
      .stop(stop_reg),
      .idle(read_idle),
      .data_valid(source_valid),
      .data_ready(source_ready),
      .data_addr(source_addr),
      .data_len(source_len),
      .desc_valid(fetch_valid),
      .desc_ready(fetch_ready),
      .desc_addr(fetch_addr),
      .beat_valid(got_valid),
      .beat_desc(got_desc),
      .beat_data(got_data),
      .beat_last(got_last),
      .beat_error(got_error),
      .m_axi_arid,
      .m_axi_araddr,
      .m_axi_arlen,
      .m_axi_arsize,
      .m_axi_arburst,
      .m_axi_arcache,
      .m_axi_arprot,
      .m_axi_arvalid,
      .m_axi_arready,
      .m_axi_rid,
      .m_axi_rdata,
      .m_axi_rresp,
      .m_axi_rlast,
      .m_axi_rvalid,
      .m_axi_rready
  );

  logic drain_valid, drain_ready, put_valid, put_pop, word_valid, word_ready;
  logic [63:0] drain_addr, word_addr;
  logic [7:0] drain_len;
  logic [DATA-1:0] put_data;
  logic [16*LANES-1:0] put_strobes;
  logic [31:0] word;
  logic ack_valid, ack_status, ack_error;
  axi_write #(
      .LANES(LANES),
      .CACHE(CACHE),
      .PROT(PROT)
  ) writes (
      .clk,
      .rst,
      .stop(stop_reg),
      .idle(write_idle),
      .data_valid(drain_valid),
      .data_ready(drain_ready),
      .data_addr(drain_addr),
      .data_len(drain_len),
      .beat_valid(put_valid),
      .beat_pop(put_pop),
      .beat_data(put_data),
      .beat_strobes(put_strobes),
      .status_valid(word_valid),
      .status_ready(word_ready),
      .status_addr(word_addr),
      .status_word(word),
      .ack_valid,
      .ack_status,
      .ack_error,
      .m_axi_awid,
      .m_axi_awaddr,
      .m_axi_awlen,
      .m_axi_awsize,
      .m_axi_awburst,
      .m_axi_awcache,
      .m_axi_awprot,
      .m_axi_awvalid,
      .m_axi_awready,
      .m_axi_wdata,
      .m_axi_wstrb,
      .m_axi_wlast,
      .m_axi_wvalid,
      .m_axi_wready,
      .m_axi_bid,
      .m_axi_bresp,
      .m_axi_bvalid,
      .m_axi_bready
  );
  // The ring counts a status that could not be written as done.
  wire status_acked = ack_valid && ack_status && !stop_reg;
  assign ring_done  = status_acked;
  assign ring_error = status_acked && ack_error;

  logic next_valid, next_pop, next_error, status_valid, status_ready;
  logic [31:0] next_length;
  logic [63:0] next_source, next_destination;
  logic [9:0] status;
  dma_ring #(
      .LANES(LANES)
  ) ring (
      .clk,
      .rst(stop_reg),
      .core_rst,
      .write(ring_write),
      .write_addr(ring_write_addr),
      .write_data(ring_write_data),
      .read(ring_read),
      .read_addr(ring_read_addr),
      .read_done(ring_read_done),
      .read_data(ring_read_data),
      .enable,
      .tail,
      .ring_size,
      .fetched(taken),
      .head,
      .req_valid(fetch_valid),
      .req_ready(fetch_ready),
      .req_addr(fetch_addr),
      .beat_valid(got_valid && got_desc),
      .beat_data(got_data),
      .beat_error(got_error),
      .desc_valid(next_valid),
      .desc_pop(next_pop),
      .desc_error(next_error),
      .desc_number,
      .desc_stride,
      .desc_unit_len,
      .desc_unit_count,
      .desc_slot,
      .desc_decrypt,
      .desc_mode,
      .desc_length(next_length),
      .desc_source(next_source),
      .desc_destination(next_destination),
      .status_valid,
      .status_ready,
      .status,
      .out_valid(word_valid),
      .out_ready(word_ready),
      .out_addr(word_addr),
      .out_word(word),
      .ack_valid(status_acked)
  );

  logic job_push;
  logic [63-LOG:0] job_source, job_destination;
  logic [31-LOG:0] job_beats;
  logic read_valid, read_pop, read_error, write_valid, write_pop, write_error;
  dma_dispatch #(
      .LANES(LANES)
  ) dispatch (
      .clk,
      .rst(stop_reg),
      .desc_valid(next_valid),
      .desc_pop(next_pop),
      .desc_error(next_error),
      .desc_unit_len,
      .desc_unit_count,
      .desc_length(next_length),
      .desc_source(next_source),
      .desc_destination(next_destination),
      .job_push,
      .job_source,
      .job_destination,
      .job_beats,
      .core_valid(desc_valid),
      .core_ready(desc_ready),
      .done_valid,
      .done_status,
      .read_valid,
      .read_pop,
      .read_error,
      .write_valid,
      .write_pop,
      .write_error,
      .status_valid,
      .status_ready,
      .status,
      .ack(status_acked)
  );

  dma_reader #(
      .LANES(LANES),
      .BURST_LOG2(BURST_LOG2),
      .BUFFER_LOG2(BUFFER_LOG2)
  ) reader (
      .clk,
      .rst(stop_reg),
      .job_push,
      .job_addr(job_source),
      .job_beats,
      .req_valid(source_valid),
      .req_ready(source_ready),
      .req_addr(source_addr),
      .req_len(source_len),
      .beat_valid(got_valid && !got_desc),
      .beat_data(got_data),
      .beat_last(got_last),
      .beat_error(got_error),
      .out_valid(s_axis_tvalid),
      .out_ready(s_axis_tready),
      .out_data(s_axis_tdata),
      .out_last(s_axis_tlast),
      .end_valid(read_valid),
      .end_pop(read_pop),
      .end_error(read_error)
  );

  dma_writer #(
      .LANES(LANES),
      .BURST_LOG2(BURST_LOG2),
      .BUFFER_LOG2(BUFFER_LOG2)
  ) writer (
      .clk,
      .rst(stop_reg),
      .job_push,
      .job_addr(job_destination),
      .in_valid(m_axis_tvalid),
      .in_ready(m_axis_tready),
      .in_data(m_axis_tdata),
      .in_keep(m_axis_tkeep),
      .in_last(m_axis_tlast),
      .req_valid(drain_valid),
      .req_ready(drain_ready),
      .req_addr(drain_addr),
      .req_len(drain_len),
      .beat_valid(put_valid),
      .beat_pop(put_pop),
      .beat_data(put_data),
      .beat_strobes(put_strobes),
      .ack_valid(ack_valid && !ack_status),
      .ack_error,
      .end_valid(write_valid),
      .end_pop(write_pop),
      .end_error(write_error)
  );
endmodule

`default_nettype wire
