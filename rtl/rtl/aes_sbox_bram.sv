// SPDX-License-Identifier: MIT OR Apache-2.0
// Two S-boxes in one block RAM with two ports: y0 is the S-box of the x0 of one cycle ago, and y1
// that of x1. With CIPHER_BOTH the memory holds both tables, and `inverse`, sampled with x0 and x1,
// is the highest address bit.
`default_nettype none

module aes_sbox_bram #(
    parameter int CIPHER = luxor_pkg::CIPHER_ENC
) (
    input  wire        clk,
    input  wire        inverse,
    input  wire  [7:0] x0,
    input  wire  [7:0] x1,
    output logic [7:0] y0,
    output logic [7:0] y1
);
  if (CIPHER == luxor_pkg::CIPHER_BOTH) begin : gen_both
    (* rom_style = "block", ram_style = "block" *)
    logic [7:0] rom [0:511];
    initial begin
      for (int i = 0; i < 256; i = i + 1) begin
        rom[i]       = aes_pkg::SBOX[8*(255-i) +: 8];
        rom[i + 256] = aes_pkg::INVERSE_SBOX[8*(255-i) +: 8];
      end
    end
    always_ff @(posedge clk) y0 <= rom[{inverse, x0}];
    always_ff @(posedge clk) y1 <= rom[{inverse, x1}];
  end else begin : gen_one
    wire unused = &{1'b0, inverse};
    (* rom_style = "block", ram_style = "block" *)
    logic [7:0] rom [0:255];
    initial begin
      for (int i = 0; i < 256; i = i + 1) begin
        rom[i] = CIPHER == luxor_pkg::CIPHER_ENC ? aes_pkg::SBOX[8*(255-i) +: 8]
                                                 : aes_pkg::INVERSE_SBOX[8*(255-i) +: 8];
      end
    end
    always_ff @(posedge clk) y0 <= rom[x0];
    always_ff @(posedge clk) y1 <= rom[x1];
  end
endmodule

`default_nettype wire
