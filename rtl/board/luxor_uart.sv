// SPDX-License-Identifier: MIT OR Apache-2.0
// The core behind a serial line, for boards without another interface: uart_bridge.sv describes the
// messages. A break on the line resets the core and the bridge, and so does a frame without a stop
// bit or a command for which there is no room, because what follows cannot be trusted.
//
// rst      1 for at least one cycle
// resting  the core is being reset
// working  the core has an interrupt or data for the host
`default_nettype none

module luxor_uart #(
    parameter int TWEAK = luxor_pkg::TWEAK_DEDICATED,
    parameter int CIPHER = luxor_pkg::CIPHER_BOTH,
    parameter int KEY128 = 1,
    parameter int KEY256 = 1,
    parameter int SBOX = luxor_pkg::SBOX_BRAM,
    parameter int STAGES = 2,
    parameter int BIT_CYCLES = 25
) (
    input  wire clk,
    input  wire rst,
    input  wire rx,
    output wire tx,
    output wire resting,
    output wire working
);
  wire broken, lost;
  // The core wants a reset of two cycles.
  logic [1:0] rst_reg;
  always_ff @(posedge clk) rst_reg <= {rst_reg[0], rst || broken || lost};
  wire core_rst = rst_reg != 2'b00;
  assign resting = core_rst;

  wire rx_valid, tx_valid, tx_ready;
  wire [7:0] rx_data, tx_data;
  uart_rx #(.BIT_CYCLES(BIT_CYCLES)) receiver (
      .clk(clk), .rst(rst), .rx(rx), .valid(rx_valid), .data(rx_data), .broken(broken)
  );
  uart_tx #(.BIT_CYCLES(BIT_CYCLES)) transmitter (
      .clk(clk), .rst(core_rst), .valid(tx_valid), .ready(tx_ready), .data(tx_data), .tx(tx)
  );

  wire [11:0] awaddr, araddr;
  wire [31:0] wdata, rdata;
  wire [3:0] wstrb;
  wire [1:0] bresp, rresp;
  wire awvalid, awready, wvalid, wready, bvalid, bready, arvalid, arready, rvalid, rready;
  wire [127:0] in_data, out_data;
  wire [15:0] out_keep;
  wire in_valid, in_ready, in_last, out_valid, out_ready, out_last, out_user, irq;
  assign working = irq || out_valid;

  uart_bridge bridge (
      .clk(clk), .rst(core_rst), .rx_valid(rx_valid), .rx_data(rx_data), .lost(lost),
      .tx_valid(tx_valid), .tx_ready(tx_ready), .tx_data(tx_data),
      .m_axil_awaddr(awaddr), .m_axil_awvalid(awvalid), .m_axil_awready(awready),
      .m_axil_wdata(wdata), .m_axil_wstrb(wstrb), .m_axil_wvalid(wvalid), .m_axil_wready(wready),
      .m_axil_bresp(bresp), .m_axil_bvalid(bvalid), .m_axil_bready(bready),
      .m_axil_araddr(araddr), .m_axil_arvalid(arvalid), .m_axil_arready(arready),
      .m_axil_rdata(rdata), .m_axil_rresp(rresp), .m_axil_rvalid(rvalid), .m_axil_rready(rready),
      .m_axis_tdata(in_data), .m_axis_tvalid(in_valid), .m_axis_tready(in_ready),
      .m_axis_tlast(in_last), .s_axis_tdata(out_data), .s_axis_tkeep(out_keep),
      .s_axis_tlast(out_last), .s_axis_tuser(out_user), .s_axis_tvalid(out_valid),
      .s_axis_tready(out_ready), .irq(irq)
  );

  luxor_xts #(
      .TWEAK(TWEAK), .CIPHER(CIPHER), .KEY128(KEY128), .KEY256(KEY256), .SBOX(SBOX),
      .STAGES(STAGES)
  ) core (
      .clk(clk), .rst(core_rst),
      .s_axil_awaddr(awaddr), .s_axil_awvalid(awvalid), .s_axil_awready(awready),
      .s_axil_wdata(wdata), .s_axil_wstrb(wstrb), .s_axil_wvalid(wvalid), .s_axil_wready(wready),
      .s_axil_bresp(bresp), .s_axil_bvalid(bvalid), .s_axil_bready(bready),
      .s_axil_araddr(araddr), .s_axil_arvalid(arvalid), .s_axil_arready(arready),
      .s_axil_rdata(rdata), .s_axil_rresp(rresp), .s_axil_rvalid(rvalid), .s_axil_rready(rready),
      .s_axis_tdata(in_data), .s_axis_tvalid(in_valid), .s_axis_tready(in_ready),
      .s_axis_tlast(in_last), .m_axis_tdata(out_data), .m_axis_tkeep(out_keep),
      .m_axis_tlast(out_last), .m_axis_tuser(out_user), .m_axis_tvalid(out_valid),
      .m_axis_tready(out_ready), .irq(irq)
  );
endmodule

`default_nettype wire
