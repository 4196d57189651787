// SPDX-License-Identifier: MIT OR Apache-2.0
// A 32-bit AXI4-Lite subordinate for registers. It turns transfers into writes that last one cycle
// and reads that wait for an answer, one of each at a time.
//
// write     Write write_data to the word address write_addr, in this cycle.
// read      Read the word address read_addr. Stays 1 until read_done; read_data is taken then.
// hold      No write and no read begins while this is 1.
//
// Only whole words can be written: a write with any other strobes changes nothing and is answered
// with SLVERR.
`default_nettype none

module axi_lite #(
    parameter int ADDR_WIDTH = 12
) (
    input  wire                  clk,
    input  wire                  rst,
    // The two lowest address bits are ignored: all accesses are to words.
    /* verilator lint_off UNUSEDSIGNAL */
    input  wire [ADDR_WIDTH-1:0] s_axil_awaddr,
    input  wire [ADDR_WIDTH-1:0] s_axil_araddr,
    /* verilator lint_on UNUSEDSIGNAL */
    input  wire                  s_axil_awvalid,
    output wire                  s_axil_awready,
    input  wire [          31:0] s_axil_wdata,
    input  wire [           3:0] s_axil_wstrb,
    input  wire                  s_axil_wvalid,
    output wire                  s_axil_wready,
    output wire [           1:0] s_axil_bresp,
    output wire                  s_axil_bvalid,
    input  wire                  s_axil_bready,
    input  wire                  s_axil_arvalid,
    output wire                  s_axil_arready,
    output wire [          31:0] s_axil_rdata,
    output wire [           1:0] s_axil_rresp,
    output wire                  s_axil_rvalid,
    input  wire                  s_axil_rready,

    input  wire                  hold,
    output wire                  write,
    output wire [ADDR_WIDTH-3:0] write_addr,
    output wire [          31:0] write_data,
    output wire                  read,
    output wire [ADDR_WIDTH-3:0] read_addr,
    input  wire                  read_done,
    input  wire [          31:0] read_data
);
  // The address and the data of a write wait for each other, and both wait until the previous
  // response was taken.
  logic                  awready_reg;
  logic                  wready_reg;
  logic [ADDR_WIDTH-3:0] awaddr_reg;
  logic [          31:0] wdata_reg;
  logic                  whole_reg;
  logic                  write_reg;
  logic                  bvalid_reg;
  logic                  berror_reg;

  wire begins_write = !awready_reg && !wready_reg && !write_reg && !bvalid_reg && !hold;

  always_ff @(posedge clk) begin
    if (awready_reg && s_axil_awvalid) begin
      awready_reg <= 1'b0;
      awaddr_reg  <= s_axil_awaddr[ADDR_WIDTH-1:2];
    end
    if (wready_reg && s_axil_wvalid) begin
      wready_reg <= 1'b0;
      wdata_reg  <= s_axil_wdata;
      whole_reg  <= &s_axil_wstrb;
    end
    write_reg <= begins_write;
    if (write_reg) begin
      awready_reg <= 1'b1;
      wready_reg  <= 1'b1;
      bvalid_reg  <= 1'b1;
      berror_reg  <= !whole_reg;
    end
    if (bvalid_reg && s_axil_bready) bvalid_reg <= 1'b0;
    if (rst) begin
      awready_reg <= 1'b1;
      wready_reg  <= 1'b1;
      write_reg   <= 1'b0;
      bvalid_reg  <= 1'b0;
      berror_reg  <= 1'b0;
    end
  end
  assign s_axil_awready = awready_reg;
  assign s_axil_wready = wready_reg;
  assign s_axil_bvalid = bvalid_reg;
  assign s_axil_bresp = {berror_reg, 1'b0};
  assign write = write_reg && whole_reg;
  assign write_addr = awaddr_reg;
  assign write_data = wdata_reg;

  logic                  arready_reg;
  logic                  read_reg;
  logic [ADDR_WIDTH-3:0] araddr_reg;
  logic                  rvalid_reg;
  logic [          31:0] rdata_reg;

  always_ff @(posedge clk) begin
    if (arready_reg && s_axil_arvalid) begin
      arready_reg <= 1'b0;
      araddr_reg  <= s_axil_araddr[ADDR_WIDTH-1:2];
    end
    if (!arready_reg && !rvalid_reg && !hold) read_reg <= 1'b1;
    if (read_reg && read_done) begin
      read_reg   <= 1'b0;
      rvalid_reg <= 1'b1;
      rdata_reg  <= read_data;
    end
    if (rvalid_reg && s_axil_rready) begin
      rvalid_reg  <= 1'b0;
      arready_reg <= 1'b1;
    end
    if (rst) begin
      arready_reg <= 1'b1;
      read_reg    <= 1'b0;
      rvalid_reg  <= 1'b0;
    end
  end
  assign s_axil_arready = arready_reg;
  assign s_axil_rvalid = rvalid_reg;
  assign s_axil_rdata = rdata_reg;
  assign s_axil_rresp = 2'b00;
  assign read = read_reg;
  assign read_addr = araddr_reg;
endmodule

`default_nettype wire
