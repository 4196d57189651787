// SPDX-License-Identifier: MIT OR Apache-2.0
// luxor_xts_dma, the complete core with its bus master, with three pins, for place and route.
`default_nettype none

module luxor_xts_dma_pins #(
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
  wire [11:0] s_axil_awaddr, s_axil_araddr;
  wire [31:0] s_axil_wdata;
  wire [3:0] s_axil_wstrb;
  wire m_axi_awready, m_axi_wready, m_axi_bid, m_axi_bvalid;
  wire m_axi_arready, m_axi_rid, m_axi_rlast, m_axi_rvalid;
  wire [1:0] m_axi_bresp, m_axi_rresp;
  wire [128*LANES-1:0] m_axi_rdata;

  wire s_axil_awready, s_axil_wready, s_axil_bvalid, s_axil_arready, s_axil_rvalid, irq;
  wire [1:0] s_axil_bresp, s_axil_rresp;
  wire [31:0] s_axil_rdata;
  wire m_axi_awid, m_axi_awvalid, m_axi_wlast, m_axi_wvalid, m_axi_bready;
  wire m_axi_arid, m_axi_arvalid, m_axi_rready;
  wire [63:0] m_axi_awaddr, m_axi_araddr;
  wire [7:0] m_axi_awlen, m_axi_arlen;
  wire [128*LANES-1:0] m_axi_wdata;
  wire [16*LANES-1:0] m_axi_wstrb;
  // These are constants.
  wire [2:0] unused_awsize, unused_arsize, unused_awprot, unused_arprot;
  wire [1:0] unused_awburst, unused_arburst;
  wire [3:0] unused_awcache, unused_arcache;
  wire unused = &{1'b0, unused_awsize, unused_arsize, unused_awprot, unused_arprot, unused_awburst,
                  unused_arburst, unused_awcache, unused_arcache};

  three_pins #(
      .INPUTS(78 + 128 * LANES), .OUTPUTS(194 + 144 * LANES)
  ) pins (
      .clk(clk), .pin_in(pin_in), .take(take), .pin_out(pin_out),
      .inputs({rst, s_axil_awaddr, s_axil_awvalid, s_axil_wdata, s_axil_wstrb, s_axil_wvalid,
               s_axil_bready, s_axil_araddr, s_axil_arvalid, s_axil_rready, m_axi_awready,
               m_axi_wready, m_axi_bid, m_axi_bresp, m_axi_bvalid, m_axi_arready, m_axi_rid,
               m_axi_rdata, m_axi_rresp, m_axi_rlast, m_axi_rvalid}),
      .outputs({s_axil_awready, s_axil_wready, s_axil_bresp, s_axil_bvalid, s_axil_arready,
                s_axil_rdata, s_axil_rresp, s_axil_rvalid, m_axi_awid, m_axi_awaddr, m_axi_awlen,
                m_axi_awvalid, m_axi_wdata, m_axi_wstrb, m_axi_wlast, m_axi_wvalid, m_axi_bready,
                m_axi_arid, m_axi_araddr, m_axi_arlen, m_axi_arvalid, m_axi_rready, irq})
  );

  luxor_xts_dma #(
      .TWEAK(TWEAK), .CIPHER(CIPHER), .KEY128(KEY128), .KEY256(KEY256), .SBOX(SBOX),
      .STAGES(STAGES), .LANES(LANES)
  ) top (
      .m_axi_awsize(unused_awsize), .m_axi_awburst(unused_awburst),
      .m_axi_awcache(unused_awcache), .m_axi_awprot(unused_awprot),
      .m_axi_arsize(unused_arsize), .m_axi_arburst(unused_arburst),
      .m_axi_arcache(unused_arcache), .m_axi_arprot(unused_arprot),
      .*
  );
endmodule

`default_nettype wire
