// SPDX-License-Identifier: MIT OR Apache-2.0
// What aes_sbox.ys proves for every x: each kind of S-box, for each choice of ciphers and each
// number of registers, is the table of FIPS-197, that many cycles late; and the inverse S-box of
// the S-box of x is x.
`default_nettype none

module aes_sbox_proof (
    input wire       clk,
    input wire       inverse,
    input wire [7:0] x
);
  wire [7:0] forward = aes_pkg::SBOX[{~x, 3'd0} +: 8];
  wire [7:0] backward = aes_pkg::INVERSE_SBOX[{~x, 3'd0} +: 8];
  always_comb assert (aes_pkg::INVERSE_SBOX[{~forward, 3'd0} +: 8] == x);

  // The expected outputs for the inputs of 0 to 3 cycles ago, for CIPHER_BOTH, DEC and ENC.
  logic [71:0] line_reg;
  wire  [95:0] line = {line_reg, forward, backward, inverse ? backward : forward};
  always_ff @(posedge clk) line_reg <= line[71:0];

  for (genvar cipher = 0; cipher < 3; cipher = cipher + 1) begin : gen_cipher
    for (genvar form = 0; form < 3; form = form + 1) begin : gen_form
      for (genvar regs = form == 2 ? 1 : 0; regs < 4; regs = regs + 1) begin : gen_regs
        wire [7:0] y;
        aes_sbox #(.SBOX(form), .CIPHER(cipher), .REGS(regs)) sbox (
            .clk(clk), .inverse(inverse), .x(x), .y(y)
        );
        always_comb assert (y == line[24*regs+16-8*cipher +: 8]);
      end
    end

    // The other port of the block RAM.
    wire [7:0] y0;
    wire [7:0] y1;
    aes_sbox_bram #(.CIPHER(cipher)) bram (
        .clk(clk), .inverse(inverse), .x0(8'd0), .x1(x), .y0(y0), .y1(y1)
    );
    always_comb assert (y1 == line[40-8*cipher +: 8]);
  end
endmodule

`default_nettype wire
