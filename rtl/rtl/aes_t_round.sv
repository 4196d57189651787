// SPDX-License-Identifier: MIT OR Apache-2.0
// One round of AES or of the equivalent inverse cipher, selected per state, with the tables of
// `aes_t_column`. `inverse` is sampled with state_in. Registers, latency and keys are as in
// `aes_enc_round` and `aes_dec_round`.
//
// States and keys are in the order of AES, except that columns 1 and 3 are swapped in those of the
// inverse cipher, so that both ciphers use the same ShiftRows (see `aes_duo_round`). The LAST round
// swaps them back before AddRoundKey, so its output and its key are in the order of AES.
`default_nettype none

module aes_t_round #(
    parameter int REGS_ROUND = 2,
    parameter int LAST       = 0
) (
    input  wire          clk,
    input  wire          inverse,
    input  wire  [127:0] state_in,
    input  wire  [127:0] key,
    output logic [127:0] state_out
);
  wire [127:0] turned;
  for (genvar c = 0; c < 4; c = c + 1) begin : gen_column
    wire [7:0] x0 = state_in[32*c +: 8];
    wire [7:0] x1 = state_in[32*((c+1)%4)+8 +: 8];
    wire [7:0] x2 = state_in[32*((c+2)%4)+16 +: 8];
    wire [7:0] x3 = state_in[32*((c+3)%4)+24 +: 8];
    wire [31:0] y;
    if (LAST != 0) begin : gen_last
      wire [31:0] sub;
      aes_sub_word #(
          .SBOX(luxor_pkg::SBOX_TABLE), .CIPHER(luxor_pkg::CIPHER_BOTH), .REGS(0)
      ) sub_word (
          .clk(clk), .inverse(inverse), .x({x3, x2, x1, x0}), .y(sub)
      );
      assign y = inverse ? gen_column[(4-c)%4].gen_last.sub : sub;
    end else begin : gen_mix
      aes_t_column column (.inverse(inverse), .x0(x0), .x1(x1), .x2(x2), .x3(x3), .y(y));
    end
    assign turned[32*c +: 32] = y;
  end

  wire [127:0] late;
  delay_line #(.WIDTH(128), .CYCLES(REGS_ROUND - 1)) line (.clk(clk), .d(turned), .q(late));
  always_ff @(posedge clk) state_out <= late ^ key;
endmodule

`default_nettype wire
