// SPDX-License-Identifier: MIT OR Apache-2.0
// Four S-boxes for the four bytes of a column, with the parameters and the latency of `aes_sbox`.
// In block RAM they take two memories with two ports each.
`default_nettype none

module aes_sub_word #(
    parameter int SBOX   = luxor_pkg::SBOX_TABLE,
    parameter int CIPHER = luxor_pkg::CIPHER_ENC,
    parameter int REGS   = 0
) (
    input  wire         clk,
    input  wire         inverse,
    input  wire  [31:0] x,
    output logic [31:0] y
);
  if (SBOX == luxor_pkg::SBOX_BRAM) begin : gen_bram
    wire [31:0] read;
    for (genvar i = 0; i < 32; i = i + 16) begin : gen_pair
      aes_sbox_bram #(.CIPHER(CIPHER)) sbox (
          .clk(clk), .inverse(inverse), .x0(x[i +: 8]), .x1(x[i+8 +: 8]),
          .y0(read[i +: 8]), .y1(read[i+8 +: 8])
      );
    end
    delay_line #(.WIDTH(32), .CYCLES(REGS - 1)) line (.clk(clk), .d(read), .q(y));
  end else if (SBOX == luxor_pkg::SBOX_TABLE && CIPHER == luxor_pkg::CIPHER_BOTH) begin : gen_both
    // One memory with both tables and four ports simulates fastest. In LUTs it becomes four tables.
    logic [7:0] rom [0:511];
    initial begin
      for (int i = 0; i < 256; i = i + 1) begin
        rom[i]       = aes_pkg::SBOX[8*(255-i) +: 8];
        rom[i + 256] = aes_pkg::INVERSE_SBOX[8*(255-i) +: 8];
      end
    end
    wire [31:0] looked_up;
    for (genvar i = 0; i < 32; i = i + 8) begin : gen_byte
      assign looked_up[i +: 8] = rom[{inverse, x[i +: 8]}];
    end
    delay_line #(.WIDTH(32), .CYCLES(REGS)) line (.clk(clk), .d(looked_up), .q(y));
  end else begin : gen_luts
    for (genvar i = 0; i < 32; i = i + 8) begin : gen_byte
      aes_sbox #(.SBOX(SBOX), .CIPHER(CIPHER), .REGS(REGS)) sbox (
          .clk(clk), .inverse(inverse), .x(x[i +: 8]), .y(y[i +: 8])
      );
    end
  end
endmodule

`default_nettype wire
