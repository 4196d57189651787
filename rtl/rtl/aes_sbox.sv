// SPDX-License-Identifier: MIT OR Apache-2.0
// The S-box of AES or its inverse. y belongs to the x of REGS cycles ago; REGS is 0 to 3
// (SBOX_BRAM: 1 to 3). `inverse` is used only for CIPHER_BOTH, and is sampled with x. In the
// variants made of LUTs the registers have no reset.
`default_nettype none

module aes_sbox #(
    parameter int SBOX   = luxor_pkg::SBOX_TABLE,
    parameter int CIPHER = luxor_pkg::CIPHER_ENC,
    parameter int REGS   = 0
) (
    input  wire        clk,
    input  wire        inverse,
    input  wire  [7:0] x,
    output logic [7:0] y
);
  if (SBOX == luxor_pkg::SBOX_LOGIC) begin : gen_logic
    aes_sbox_logic #(.CIPHER(CIPHER), .REGS(REGS)) sbox (
        .clk(clk), .inverse(inverse), .x(x), .y(y)
    );
  end else if (SBOX == luxor_pkg::SBOX_BRAM) begin : gen_bram
    wire [7:0] read;
    wire [7:0] unused;
    aes_sbox_bram #(.CIPHER(CIPHER)) sbox (
        .clk(clk), .inverse(inverse), .x0(x), .x1(8'd0), .y0(read), .y1(unused)
    );
    delay_line #(.WIDTH(8), .CYCLES(REGS - 1)) line (.clk(clk), .d(read), .q(y));
  end else begin : gen_table
    wire [7:0] looked_up;
    aes_sbox_table #(.CIPHER(CIPHER)) sbox (.inverse(inverse), .x(x), .y(looked_up));
    delay_line #(.WIDTH(8), .CYCLES(REGS)) line (.clk(clk), .d(looked_up), .q(y));
  end
endmodule

`default_nettype wire
