// SPDX-License-Identifier: MIT OR Apache-2.0
// The read channels of an AXI4 manager, for two users: data (ID 0) and descriptors (ID 1).
//
// data_*, desc_*  Requests for bursts. Descriptors come first. A user asks only for what it has room
//                 for, so the beats never wait: rready is always 1.
// beat_*          The beats, one cycle late. beat_desc: of a descriptor.
// stop            No burst begins. One that is offered already stays until it is accepted, as AXI
//                 demands. `idle`: all beats of all bursts have come.
//
// The caller makes sure that no burst crosses a boundary of 4 KiB.
`default_nettype none

module axi_read #(
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
    input  wire [          7:0] data_len,   // beats, less 1
    input  wire                 desc_valid,
    output wire                 desc_ready,
    input  wire [         63:0] desc_addr,
    output wire                 beat_valid,
    output wire                 beat_desc,
    output wire [128*LANES-1:0] beat_data,
    output wire                 beat_last,
    output wire                 beat_error,
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
    // OKAY and EXOKAY are no errors, SLVERR and DECERR are.
    /* verilator lint_off UNUSEDSIGNAL */
    input  wire [          1:0] m_axi_rresp,
    /* verilator lint_on UNUSEDSIGNAL */
    input  wire                 m_axi_rlast,
    input  wire                 m_axi_rvalid,
    output wire                 m_axi_rready
);
  localparam logic [7:0] DESC_LEN = 8'(4 / LANES - 1);

  logic arvalid_reg, arid_reg;
  logic [63:0] araddr_reg;
  logic [7:0] arlen_reg;
  wire moves = (!arvalid_reg || m_axi_arready) && !stop;
  wire begins = moves && (desc_valid || data_valid);
  assign desc_ready = moves;
  assign data_ready = moves && !desc_valid;
  always_ff @(posedge clk) begin
    if (m_axi_arready) arvalid_reg <= 1'b0;
    if (begins) arvalid_reg <= 1'b1;
    if (moves) begin
      arid_reg   <= desc_valid;
      araddr_reg <= desc_valid ? desc_addr : data_addr;
      arlen_reg  <= desc_valid ? DESC_LEN : data_len;
    end
    if (rst) arvalid_reg <= 1'b0;
  end
  assign m_axi_arid = arid_reg;
  assign m_axi_araddr = araddr_reg;
  assign m_axi_arlen = arlen_reg;
  assign m_axi_arsize = 3'(4 + $clog2(LANES));
  assign m_axi_arburst = 2'b01;  // INCR
  assign m_axi_arcache = CACHE;
  assign m_axi_arprot = PROT;
  assign m_axi_arvalid = arvalid_reg;
  assign m_axi_rready = 1'b1;

  logic rvalid_reg, rid_reg, rlast_reg, rerror_reg;
  logic [128*LANES-1:0] rdata_reg;
  logic [5:0] bursts_reg;  // begun and not finished
  always_ff @(posedge clk) begin
    rvalid_reg <= m_axi_rvalid && !rst;
    rid_reg    <= m_axi_rid;
    rdata_reg  <= m_axi_rdata;
    rlast_reg  <= m_axi_rlast;
    rerror_reg <= m_axi_rresp[1];
    bursts_reg <= bursts_reg + 6'(begins) - 6'(rvalid_reg && rlast_reg);
    if (rst) bursts_reg <= 6'd0;
  end
  assign beat_valid = rvalid_reg;
  assign beat_desc = rid_reg;
  assign beat_data = rdata_reg;
  assign beat_last = rlast_reg;
  assign beat_error = rerror_reg;
  assign idle = bursts_reg == 6'd0;
endmodule

`default_nettype wire
