// SPDX-License-Identifier: MIT OR Apache-2.0
// The XTS-AES core as a peripheral: registers and a ring of descriptors over AXI4-Lite (their map
// is at the top of xts_regs.sv), data over AXI4-Stream (xts_axis.sv), and an interrupt. Descriptors
// are processed in the order of the ring. Each descriptor that has data takes one packet from
// s_axis and sends one to m_axis.
//
// rst must be 1 for at least 2 cycles.
//
// TWEAK, CIPHER, SBOX  see luxor_pkg
// KEY128, KEY256       1: keys of this size are supported
// STAGES               registers per round, 1 to 4; with S-boxes in block RAM 2 to 4
// LANES                blocks per beat: 1, 2 or 4
// CTR                  1: also has counter mode
// PERMIT_EQUAL         1: accepts equal data and tweak keys; only for tests with known answers
`default_nettype none

module luxor_xts #(
    parameter int TWEAK = luxor_pkg::TWEAK_SHARED,
    parameter int CIPHER = luxor_pkg::CIPHER_BOTH,
    parameter int KEY128 = 1,
    parameter int KEY256 = 1,
    parameter int SBOX = luxor_pkg::SBOX_TABLE,
    parameter int STAGES = 2,
    parameter int LANES = 1,
    parameter int CTR = 0,
    parameter int PERMIT_EQUAL = 0
) (
    input  wire                 clk,
    input  wire                 rst,
    input  wire [         11:0] s_axil_awaddr,
    input  wire                 s_axil_awvalid,
    output wire                 s_axil_awready,
    input  wire [         31:0] s_axil_wdata,
    input  wire [          3:0] s_axil_wstrb,
    input  wire                 s_axil_wvalid,
    output wire                 s_axil_wready,
    output wire [          1:0] s_axil_bresp,
    output wire                 s_axil_bvalid,
    input  wire                 s_axil_bready,
    input  wire [         11:0] s_axil_araddr,
    input  wire                 s_axil_arvalid,
    output wire                 s_axil_arready,
    output wire [         31:0] s_axil_rdata,
    output wire [          1:0] s_axil_rresp,
    output wire                 s_axil_rvalid,
    input  wire                 s_axil_rready,
    input  wire [128*LANES-1:0] s_axis_tdata,
    input  wire                 s_axis_tvalid,
    output wire                 s_axis_tready,
    input  wire                 s_axis_tlast,
    output wire [128*LANES-1:0] m_axis_tdata,
    output wire [ 16*LANES-1:0] m_axis_tkeep,
    output wire                 m_axis_tlast,
    output wire                 m_axis_tuser,
    output wire                 m_axis_tvalid,
    input  wire                 m_axis_tready,
    output wire                 irq
);
  // The latency of a block in cycles, from the input register of xts_core to the result.
  localparam int LATENCY = (STAGES > 2 ? 3 : 2) + (KEY256 != 0 ? 14 : 10) * STAGES;

  logic         core_rst;
  logic         ring_write, ring_read, ring_read_done, enable;
  logic [  8:0] ring_write_addr, ring_read_addr;
  logic [ 31:0] ring_write_data, ring_read_data, tail, taken, head;
  logic         desc_valid, desc_ready, desc_decrypt;
  logic [  1:0] desc_mode;
  logic [127:0] desc_number;
  logic [ 63:0] desc_stride;
  logic [ 31:0] desc_unit_len, desc_unit_count;
  logic [  7:0] desc_slot;
  logic         done_valid;
  logic [  3:0] done_status;
  logic         key_valid, key_ready, key_load, key_long, key_done;
  logic [  7:0] key_slot;
  logic [255:0] key_data, key_tweak;
  logic [  3:0] key_result;
  logic [  7:0] slot_state;
  logic         busy, wiping;
  logic         beat_out;

  xts_regs #(
      .TWEAK(TWEAK),
      .CIPHER(CIPHER),
      .KEY128(KEY128),
      .KEY256(KEY256),
      .STAGES(STAGES),
      .LANES(LANES),
      .CTR(CTR),
      .LATENCY(LATENCY),
      .RING_LOG2(5)
  ) regs (
      .clk(clk),
      .rst(rst),
      .s_axil_awaddr(s_axil_awaddr),
      .s_axil_awvalid(s_axil_awvalid),
      .s_axil_awready(s_axil_awready),
      .s_axil_wdata(s_axil_wdata),
      .s_axil_wstrb(s_axil_wstrb),
      .s_axil_wvalid(s_axil_wvalid),
      .s_axil_wready(s_axil_wready),
      .s_axil_bresp(s_axil_bresp),
      .s_axil_bvalid(s_axil_bvalid),
      .s_axil_bready(s_axil_bready),
      .s_axil_araddr(s_axil_araddr),
      .s_axil_arvalid(s_axil_arvalid),
      .s_axil_arready(s_axil_arready),
      .s_axil_rdata(s_axil_rdata),
      .s_axil_rresp(s_axil_rresp),
      .s_axil_rvalid(s_axil_rvalid),
      .s_axil_rready(s_axil_rready),
      .irq(irq),
      .core_rst(core_rst),
      .ring_write(ring_write),
      .ring_write_addr(ring_write_addr),
      .ring_write_data(ring_write_data),
      .ring_read(ring_read),
      .ring_read_addr(ring_read_addr),
      .ring_read_done(ring_read_done),
      .ring_read_data(ring_read_data),
      .enable(enable),
      .tail(tail),
      .ring_size(32'd32),
      .taken(taken),
      .head(head),
      .ring_done(done_valid),
      .ring_error(1'b0),
      .draining(1'b0),
      .key_valid(key_valid),
      .key_ready(key_ready),
      .key_load(key_load),
      .key_slot(key_slot),
      .key_long(key_long),
      .key_data(key_data),
      .key_tweak(key_tweak),
      .key_done(key_done),
      .key_result(key_result),
      .slot_state(slot_state),
      .busy(busy),
      .wiping(wiping),
      .beat_out(beat_out)
  );

  desc_ring ring (
      .clk(clk),
      .rst(core_rst),
      .write(ring_write),
      .write_addr(ring_write_addr),
      .write_data(ring_write_data),
      .read(ring_read),
      .read_addr(ring_read_addr),
      .read_done(ring_read_done),
      .read_data(ring_read_data),
      .enable(enable),
      .tail(tail),
      .taken(taken),
      .head(head),
      .desc_valid(desc_valid),
      .desc_ready(desc_ready),
      .desc_number(desc_number),
      .desc_stride(desc_stride),
      .desc_unit_len(desc_unit_len),
      .desc_unit_count(desc_unit_count),
      .desc_slot(desc_slot),
      .desc_decrypt(desc_decrypt),
      .desc_mode(desc_mode),
      .done_valid(done_valid),
      .done_status(done_status)
  );

  xts_axis #(
      .TWEAK(TWEAK),
      .CIPHER(CIPHER),
      .KEY128(KEY128),
      .KEY256(KEY256),
      .SBOX(SBOX),
      .STAGES(STAGES),
      .LANES(LANES),
      .CTR(CTR),
      .PERMIT_EQUAL(PERMIT_EQUAL)
  ) axis (
      .clk(clk),
      .rst(core_rst),
      .s_axis_tdata(s_axis_tdata),
      .s_axis_tvalid(s_axis_tvalid),
      .s_axis_tready(s_axis_tready),
      .s_axis_tlast(s_axis_tlast),
      .m_axis_tdata(m_axis_tdata),
      .m_axis_tkeep(m_axis_tkeep),
      .m_axis_tlast(m_axis_tlast),
      .m_axis_tuser(m_axis_tuser),
      .m_axis_tvalid(m_axis_tvalid),
      .m_axis_tready(m_axis_tready),
      .beat_out(beat_out),
      .desc_valid(desc_valid),
      .desc_ready(desc_ready),
      .desc_number(desc_number),
      .desc_stride(desc_stride),
      .desc_unit_len(desc_unit_len),
      .desc_unit_count(desc_unit_count),
      .desc_slot(desc_slot),
      .desc_decrypt(desc_decrypt),
      .desc_mode(desc_mode),
      .done_valid(done_valid),
      .done_status(done_status),
      .key_valid(key_valid),
      .key_ready(key_ready),
      .key_load(key_load),
      .key_slot(key_slot),
      .key_long(key_long),
      .key_data(key_data),
      .key_tweak(key_tweak),
      .key_done(key_done),
      .key_result(key_result),
      .slot_state(slot_state),
      .busy(busy),
      .wiping(wiping)
  );
endmodule

`default_nettype wire
