// SPDX-License-Identifier: MIT OR Apache-2.0
// SubBytes and MixColumns of a column, or their inverses, with one table per row (Daemen and
// Rijmen, "AES Proposal: Rijndael", 5.2.1): y is the sum of the four table entries for x0 to x3,
// which are rows 0 to 3. This variant simulates fastest; in LUTs it would be far too large.
`default_nettype none

module aes_t_column (
    input  wire         inverse,
    input  wire  [7:0]  x0,
    input  wire  [7:0]  x1,
    input  wire  [7:0]  x2,
    input  wire  [7:0]  x3,
    output logic [31:0] y
);
  // The entry of {inverse, byte} in the table of row 0 is the S-box of the byte times the first
  // column of the MixColumns matrix. In the table of row r it is rotated by r bytes. The function
  // calls no other function, and takes the S-boxes as arguments, because otherwise Icarus 11 does
  // not accept it in a constant expression.
  function automatic logic [16383:0] entries(
      input int row, input logic [2047:0] enc, input logic [2047:0] dec
  );
    logic [7:0]  s1, s2, s4, s8;
    logic [31:0] entry;
    for (int i = 0; i < 256; i = i + 1) begin
      s1 = enc[8*(255-i) +: 8];
      s2 = {s1[6:0], 1'b0} ^ (8'h1b & {8{s1[7]}});
      entry = {s2 ^ s1, s1, s1, s2};
      entries[32*i +: 32] = (entry << (8 * row)) | (entry >> (32 - 8 * row));
      s1 = dec[8*(255-i) +: 8];
      s2 = {s1[6:0], 1'b0} ^ (8'h1b & {8{s1[7]}});
      s4 = {s2[6:0], 1'b0} ^ (8'h1b & {8{s2[7]}});
      s8 = {s4[6:0], 1'b0} ^ (8'h1b & {8{s4[7]}});
      entry = {s8 ^ s2 ^ s1, s8 ^ s4 ^ s1, s8 ^ s1, s8 ^ s4 ^ s2};
      entries[8192+32*i +: 32] = (entry << (8 * row)) | (entry >> (32 - 8 * row));
    end
  endfunction

  // Constants, because Verilator keeps one copy of a constant for all instances, but one copy of a
  // memory for each instance.
  localparam logic [16383:0] ROW0 = entries(0, aes_pkg::SBOX, aes_pkg::INVERSE_SBOX);
  localparam logic [16383:0] ROW1 = entries(1, aes_pkg::SBOX, aes_pkg::INVERSE_SBOX);
  localparam logic [16383:0] ROW2 = entries(2, aes_pkg::SBOX, aes_pkg::INVERSE_SBOX);
  localparam logic [16383:0] ROW3 = entries(3, aes_pkg::SBOX, aes_pkg::INVERSE_SBOX);
  assign y = ROW0[{inverse, x0, 5'd0} +: 32] ^ ROW1[{inverse, x1, 5'd0} +: 32]
           ^ ROW2[{inverse, x2, 5'd0} +: 32] ^ ROW3[{inverse, x3, 5'd0} +: 32];
endmodule

`default_nettype wire
