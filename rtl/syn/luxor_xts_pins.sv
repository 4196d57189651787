// SPDX-License-Identifier: MIT OR Apache-2.0
// luxor_xts, the complete core with its buses, with three pins, for place and route.
`default_nettype none

module luxor_xts_pins #(
    parameter int TWEAK  = luxor_pkg::TWEAK_DEDICATED,
    parameter int CIPHER = luxor_pkg::CIPHER_BOTH,
    parameter int KEY128 = 1,
    parameter int KEY256 = 1,
    parameter int SBOX   = luxor_pkg::SBOX_BRAM,
    parameter int STAGES = 3,
    parameter int LANES  = 1
) (
    input  wire clk,
    input  wire pin_in,
    input  wire take,
    output wire pin_out
);
  wire rst, s_axil_awvalid, s_axil_wvalid, s_axil_bready, s_axil_arvalid, s_axil_rready;
  wire s_axis_tvalid, s_axis_tlast, m_axis_tready;
  wire [11:0] s_axil_awaddr, s_axil_araddr;
  wire [31:0] s_axil_wdata;
  wire [3:0] s_axil_wstrb;
  wire [128*LANES-1:0] s_axis_tdata;

  wire s_axil_awready, s_axil_wready, s_axil_bvalid, s_axil_arready, s_axil_rvalid;
  wire s_axis_tready, m_axis_tlast, m_axis_tuser, m_axis_tvalid, irq;
  wire [1:0] s_axil_bresp, s_axil_rresp;
  wire [31:0] s_axil_rdata;
  wire [128*LANES-1:0] m_axis_tdata;
  wire [16*LANES-1:0] m_axis_tkeep;

  three_pins #(
      .INPUTS(69 + 128 * LANES), .OUTPUTS(46 + 144 * LANES)
  ) pins (
      .clk(clk), .pin_in(pin_in), .take(take), .pin_out(pin_out),
      .inputs({rst, s_axil_awaddr, s_axil_awvalid, s_axil_wdata, s_axil_wstrb, s_axil_wvalid,
               s_axil_bready, s_axil_araddr, s_axil_arvalid, s_axil_rready, s_axis_tdata,
               s_axis_tvalid, s_axis_tlast, m_axis_tready}),
      .outputs({s_axil_awready, s_axil_wready, s_axil_bresp, s_axil_bvalid, s_axil_arready,
                s_axil_rdata, s_axil_rresp, s_axil_rvalid, s_axis_tready, m_axis_tdata,
                m_axis_tkeep, m_axis_tlast, m_axis_tuser, m_axis_tvalid, irq})
  );

  luxor_xts #(
      .TWEAK(TWEAK), .CIPHER(CIPHER), .KEY128(KEY128), .KEY256(KEY256), .SBOX(SBOX),
      .STAGES(STAGES), .LANES(LANES)
  ) top (.*);
endmodule

`default_nettype wire
