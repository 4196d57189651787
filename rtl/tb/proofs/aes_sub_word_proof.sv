// SPDX-License-Identifier: MIT OR Apache-2.0
// What aes_sub_word.ys proves: with one register, aes_sub_word is four S-boxes, one for each byte,
// for each choice of ciphers. Built of gates, it is four aes_sbox.
`default_nettype none

module aes_sub_word_proof (
    input wire        clk,
    input wire        inverse,
    input wire [31:0] x
);
  for (genvar cipher = 0; cipher < 3; cipher = cipher + 1) begin : gen_cipher
    wire [31:0] y, y_bram, wanted;
    aes_sub_word #(.SBOX(luxor_pkg::SBOX_TABLE), .CIPHER(cipher), .REGS(1)) in_luts (
        .clk(clk), .inverse(inverse), .x(x), .y(y)
    );
    aes_sub_word #(.SBOX(luxor_pkg::SBOX_BRAM), .CIPHER(cipher), .REGS(1)) in_ram (
        .clk(clk), .inverse(inverse), .x(x), .y(y_bram)
    );
    for (genvar i = 0; i < 32; i = i + 8) begin : gen_byte
      aes_sbox #(.SBOX(luxor_pkg::SBOX_TABLE), .CIPHER(cipher), .REGS(1)) sbox (
          .clk(clk), .inverse(inverse), .x(x[i +: 8]), .y(wanted[i +: 8])
      );
    end
    always_comb begin
      assert (y == wanted);
      assert (y_bram == wanted);
    end
  end
endmodule

`default_nettype wire
