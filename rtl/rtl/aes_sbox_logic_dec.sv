// SPDX-License-Identifier: MIT OR Apache-2.0
// Written by rtl/gen/sbox_logic.py, which derives it.
// The inverse of AES's S-box, REGS registers from x to y.
`default_nettype none

module aes_sbox_logic_dec #(
    parameter int REGS = 0
) (
    input  wire        clk,
    input  wire  [7:0] x,
    output logic [7:0] y
);
  // Where registers are: after n, after d, after the products, after their sum.
  localparam bit [3:0] CUTS = REGS == 0 ? 4'b0000 : REGS == 1 ? 4'b0010
                            : REGS == 2 ? 4'b0101 : 4'b1011;

  // Four bits of n, quadratic forms of x.
  wire [11:0] quad;
  assign quad[0] = x[0] ^ (x[0] & x[3]) ^ x[1] ^ (x[1] & x[3]) ^ (x[2] & x[3]) ^ x[3];
  assign quad[1] = (x[1] & x[6]) ^ (x[1] & x[7]) ^ (x[2] & x[7]) ^ x[6] ^ x[7];
  assign quad[2] = (x[3] & x[4]) ^ (x[4] & x[5]) ^ (x[4] & x[7]) ^ (x[5] & x[7]);
  assign quad[3] = 1'b1 ^ (x[0] & x[1]) ^ (x[0] & x[3]) ^ (x[0] & x[5]) ^ (x[1] & x[3]) ^ (x[1] & x[5]) ^ (x[3] & x[5]) ^ x[5];
  assign quad[4] = (x[1] & x[6]) ^ x[2] ^ (x[2] & x[3]) ^ (x[2] & x[6]);
  assign quad[5] = (x[1] & x[4]) ^ (x[4] & x[7]) ^ (x[5] & x[7]);
  assign quad[6] = 1'b1 ^ (x[0] & x[1]) ^ (x[0] & x[3]) ^ (x[0] & x[7]) ^ x[3];
  assign quad[7] = (x[1] & x[4]) ^ (x[1] & x[6]) ^ x[4] ^ (x[4] & x[5]) ^ (x[4] & x[6]) ^ (x[5] & x[6]);
  assign quad[8] = (x[2] & x[3]) ^ (x[2] & x[4]) ^ (x[3] & x[4]) ^ (x[4] & x[7]);
  assign quad[9] = 1'b1 ^ x[0] ^ (x[0] & x[1]) ^ (x[0] & x[2]) ^ (x[0] & x[6]) ^ (x[1] & x[2]) ^ (x[1] & x[6]) ^ (x[2] & x[6]);
  assign quad[10] = (x[1] & x[3]) ^ (x[1] & x[7]) ^ (x[2] & x[3]) ^ x[3];
  assign quad[11] = (x[3] & x[4]) ^ (x[3] & x[5]) ^ (x[5] & x[6]);
  wire [3:0] n;
  assign n[0] = quad[0] ^ quad[1] ^ quad[2];
  assign n[1] = quad[3] ^ quad[4] ^ quad[5];
  assign n[2] = quad[6] ^ quad[7] ^ quad[8];
  assign n[3] = quad[9] ^ quad[10] ^ quad[11];

  // Linear functions of x.
  wire [31:0] l;
  assign l[0] = x[1] ^ 1'b1;
  assign l[1] = x[0] ^ x[1];
  assign l[2] = x[2];
  assign l[3] = x[0] ^ x[2] ^ 1'b1;
  assign l[4] = x[3];
  assign l[5] = x[0] ^ x[1] ^ x[2] ^ x[3];
  assign l[6] = x[0] ^ x[4] ^ 1'b1;
  assign l[7] = x[0] ^ x[1] ^ x[3] ^ x[4];
  assign l[8] = x[5] ^ 1'b1;
  assign l[9] = x[0] ^ x[4] ^ x[5];
  assign l[10] = x[1] ^ x[2] ^ x[4] ^ x[5];
  assign l[11] = x[1] ^ x[3] ^ x[4] ^ x[5];
  assign l[12] = x[6] ^ 1'b1;
  assign l[13] = x[0] ^ x[3] ^ x[6];
  assign l[14] = x[1] ^ x[2] ^ x[3] ^ x[6];
  assign l[15] = x[0] ^ x[4] ^ x[6];
  assign l[16] = x[1] ^ x[4] ^ x[6];
  assign l[17] = x[0] ^ x[1] ^ x[4] ^ x[6] ^ 1'b1;
  assign l[18] = x[0] ^ x[2] ^ x[5] ^ x[6] ^ 1'b1;
  assign l[19] = x[0] ^ x[3] ^ x[5] ^ x[6] ^ 1'b1;
  assign l[20] = x[2] ^ x[3] ^ x[5] ^ x[6];
  assign l[21] = x[3] ^ x[7];
  assign l[22] = x[0] ^ x[3] ^ x[7] ^ 1'b1;
  assign l[23] = x[1] ^ x[3] ^ x[7] ^ 1'b1;
  assign l[24] = x[0] ^ x[4] ^ x[7] ^ 1'b1;
  assign l[25] = x[0] ^ x[2] ^ x[4] ^ x[7] ^ 1'b1;
  assign l[26] = x[1] ^ x[5] ^ x[7];
  assign l[27] = x[2] ^ x[4] ^ x[5] ^ x[7] ^ 1'b1;
  assign l[28] = x[1] ^ x[2] ^ x[6] ^ x[7];
  assign l[29] = x[3] ^ x[6] ^ x[7] ^ 1'b1;
  assign l[30] = x[1] ^ x[3] ^ x[6] ^ x[7];
  assign l[31] = x[0] ^ x[4] ^ x[6] ^ x[7];

  wire [3:0] n_q;
  wire [31:0] l_n;
  delay_line #(.WIDTH(36), .CYCLES(CUTS[3] ? 1 : 0)) line_n (
      .clk(clk), .d({n, l}), .q({n_q, l_n})
  );

  // Bits of 1/n.
  wire [6:0] d;
  lut4 #(.TABLE(16'he19a)) lut_d0 (.x(n_q), .y(d[0]));
  lut4 #(.TABLE(16'h91ec)) lut_d1 (.x(n_q), .y(d[1]));
  lut4 #(.TABLE(16'hab62)) lut_d2 (.x(n_q), .y(d[2]));
  lut4 #(.TABLE(16'hfc28)) lut_d3 (.x(n_q), .y(d[3]));
  lut4 #(.TABLE(16'h1db2)) lut_d4 (.x(n_q), .y(d[4]));
  lut4 #(.TABLE(16'h8c5e)) lut_d5 (.x(n_q), .y(d[5]));
  lut4 #(.TABLE(16'hdb14)) lut_d6 (.x(n_q), .y(d[6]));

  wire [6:0] d_q;
  wire [31:0] l_q;
  delay_line #(.WIDTH(39), .CYCLES(CUTS[2] ? 1 : 0)) line_d (
      .clk(clk), .d({d, l_n}), .q({d_q, l_q})
  );

  // Halves of y.
  wire [7:0] a, b;
  assign a[0] = (d_q[2] & l_q[17]) ^ (d_q[5] & l_q[1]);
  assign b[0] = (d_q[6] & l_q[21]) ^ (d_q[1] & l_q[7]);
  assign a[1] = (d_q[0] & l_q[13]) ^ (d_q[4] & l_q[28]);
  assign b[1] = (d_q[6] & l_q[12]) ^ (d_q[1] & l_q[9]);
  assign a[2] = (d_q[6] & l_q[22]) ^ (d_q[0] & l_q[30]);
  assign b[2] = (d_q[3] & l_q[8]) ^ (d_q[5] & l_q[25]);
  assign a[3] = (d_q[5] & l_q[11]) ^ (d_q[2] & l_q[5]);
  assign b[3] = (d_q[0] & l_q[16]) ^ (d_q[1] & l_q[31]);
  assign a[4] = (d_q[3] & l_q[18]) ^ (d_q[2] & l_q[24]);
  assign b[4] = (d_q[6] & l_q[26]) ^ (d_q[1] & l_q[19]);
  assign a[5] = (d_q[3] & l_q[15]) ^ (d_q[0] & l_q[27]);
  assign b[5] = (d_q[6] & l_q[3]) ^ (d_q[1] & l_q[29]);
  assign a[6] = (d_q[3] & l_q[23]) ^ (d_q[0] & l_q[20]);
  assign b[6] = (d_q[6] & l_q[14]) ^ (d_q[1] & l_q[4]);
  assign a[7] = (d_q[3] & l_q[6]) ^ (d_q[6] & l_q[0]);
  assign b[7] = (d_q[0] & l_q[2]) ^ (d_q[2] & l_q[10]);
  wire [7:0] a_q, b_q;
  delay_line #(.WIDTH(16), .CYCLES(CUTS[1] ? 1 : 0)) line_ab (
      .clk(clk), .d({a, b}), .q({a_q, b_q})
  );
  delay_line #(.WIDTH(8), .CYCLES(CUTS[0] ? 1 : 0)) line_y (
      .clk(clk), .d(a_q ^ b_q), .q(y)
  );
endmodule

`default_nettype wire
