// SPDX-License-Identifier: MIT OR Apache-2.0
// rtl/block_ram.sv for Lattice ECP5 (FPGA-TN-02204, pseudo dual-port RAM): 36 bits per DP16KD,
// written through port A and read through port B, with the output register of the RAM as the second
// register. Yosys infers the RAM without that register, and then the path from the RAM to a
// register in logic takes half a cycle.
`default_nettype none

module block_ram #(
    parameter int WIDTH = 128,
    parameter int DEPTH_LOG2 = 4
) (
    input  wire                   clk,
    input  wire                   write,
    input  wire  [DEPTH_LOG2-1:0] write_address,
    input  wire  [     WIDTH-1:0] write_data,
    input  wire                   read,
    input  wire  [DEPTH_LOG2-1:0] read_address,
    input  wire                   move,
    output wire  [     WIDTH-1:0] data
);
  localparam int RAMS = (WIDTH + 35) / 36;
  wire [36*RAMS-1:0] in = (36 * RAMS)'(write_data);
  wire [36*RAMS-1:0] out;
  assign data = out[WIDTH-1:0];
  wire [8:0] wa = 9'(write_address);
  wire [8:0] ra = 9'(read_address);

  for (genvar r = 0; r < RAMS; r++) begin : g_ram
    wire [35:0] d = in[36*r+:36];
    wire [35:0] q;
    assign out[36*r+:36] = q;
    DP16KD #(
        .DATA_WIDTH_A(36),
        .DATA_WIDTH_B(36),
        .REGMODE_A("OUTREG"),
        .REGMODE_B("OUTREG"),
        .RESETMODE("SYNC"),
        .CSDECODE_A("0b000"),
        .CSDECODE_B("0b000"),
        .GSR("AUTO")
    ) ram (
        .CLKA(clk), .CEA(write), .WEA(1'b1), .OCEA(move), .RSTA(1'b0),
        .CSA0(1'b0), .CSA1(1'b0), .CSA2(1'b0),
        .CLKB(clk), .CEB(read), .WEB(1'b0), .OCEB(move), .RSTB(1'b0),
        .CSB0(1'b0), .CSB1(1'b0), .CSB2(1'b0),
        // The low address bits of port A are the byte enables.
        .ADA0(1'b1), .ADA1(1'b1), .ADA2(1'b1), .ADA3(1'b1), .ADA4(1'b0),
        .ADA5(wa[0]), .ADA6(wa[1]), .ADA7(wa[2]), .ADA8(wa[3]), .ADA9(wa[4]),
        .ADA10(wa[5]), .ADA11(wa[6]), .ADA12(wa[7]), .ADA13(wa[8]),
        .ADB0(1'b0), .ADB1(1'b0), .ADB2(1'b0), .ADB3(1'b0), .ADB4(1'b0),
        .ADB5(ra[0]), .ADB6(ra[1]), .ADB7(ra[2]), .ADB8(ra[3]), .ADB9(ra[4]),
        .ADB10(ra[5]), .ADB11(ra[6]), .ADB12(ra[7]), .ADB13(ra[8]),
        .DIA0(d[0]), .DIA1(d[1]), .DIA2(d[2]), .DIA3(d[3]), .DIA4(d[4]), .DIA5(d[5]),
        .DIA6(d[6]), .DIA7(d[7]), .DIA8(d[8]), .DIA9(d[9]), .DIA10(d[10]), .DIA11(d[11]),
        .DIA12(d[12]), .DIA13(d[13]), .DIA14(d[14]), .DIA15(d[15]), .DIA16(d[16]), .DIA17(d[17]),
        .DIB0(d[18]), .DIB1(d[19]), .DIB2(d[20]), .DIB3(d[21]), .DIB4(d[22]), .DIB5(d[23]),
        .DIB6(d[24]), .DIB7(d[25]), .DIB8(d[26]), .DIB9(d[27]), .DIB10(d[28]), .DIB11(d[29]),
        .DIB12(d[30]), .DIB13(d[31]), .DIB14(d[32]), .DIB15(d[33]), .DIB16(d[34]), .DIB17(d[35]),
        .DOA0(q[0]), .DOA1(q[1]), .DOA2(q[2]), .DOA3(q[3]), .DOA4(q[4]), .DOA5(q[5]),
        .DOA6(q[6]), .DOA7(q[7]), .DOA8(q[8]), .DOA9(q[9]), .DOA10(q[10]), .DOA11(q[11]),
        .DOA12(q[12]), .DOA13(q[13]), .DOA14(q[14]), .DOA15(q[15]), .DOA16(q[16]), .DOA17(q[17]),
        .DOB0(q[18]), .DOB1(q[19]), .DOB2(q[20]), .DOB3(q[21]), .DOB4(q[22]), .DOB5(q[23]),
        .DOB6(q[24]), .DOB7(q[25]), .DOB8(q[26]), .DOB9(q[27]), .DOB10(q[28]), .DOB11(q[29]),
        .DOB12(q[30]), .DOB13(q[31]), .DOB14(q[32]), .DOB15(q[33]), .DOB16(q[34]), .DOB17(q[35])
    );
  end
endmodule

`default_nettype wire
