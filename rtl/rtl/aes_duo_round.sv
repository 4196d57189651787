// SPDX-License-Identifier: MIT OR Apache-2.0
// One round of AES or of the equivalent inverse cipher, selected per state: `inverse` is sampled
// with state_in. Registers, latency and keys are as in `aes_enc_round` and `aes_dec_round`.
//
// States and keys are not in the order of AES here, but are four rows of four bytes, with row 0 in
// bits 31:0, so that MixColumns can add whole rows. The byte of column c is at place c of its row.
// In states and keys of the inverse cipher it is at place -c (modulo 4), which swaps columns 1 and
// 3. InvShiftRows then rotates each row in the same direction as ShiftRows, so both ciphers use the
// same wires. The LAST round puts column c back to place c before AddRoundKey, so its output and
// its key are the rows of the state in the order of AES.
`default_nettype none

module aes_duo_round #(
    parameter int SBOX       = luxor_pkg::SBOX_TABLE,
    parameter int REGS_ROUND = 2,
    parameter int LAST       = 0
) (
    input  wire          clk,
    input  wire          inverse,
    input  wire  [127:0] state_in,
    input  wire  [127:0] key,
    output logic [127:0] state_out
);
  wire inverse_sub;
  delay_line #(.WIDTH(1), .CYCLES(REGS_ROUND - 1)) line (
      .clk(clk), .d(inverse), .q(inverse_sub)
  );

  // ShiftRows rotates row r by r places. It can be done before SubBytes as well as after it.
  wire [127:0] shifted, sub;
  for (genvar r = 0; r < 4; r = r + 1) begin : gen_row
    for (genvar c = 0; c < 4; c = c + 1) begin : gen_byte
      assign shifted[32*r+8*c +: 8] = state_in[32*r+8*((c+r)%4) +: 8];
    end
    aes_sub_word #(
        .SBOX(SBOX), .CIPHER(luxor_pkg::CIPHER_BOTH), .REGS(REGS_ROUND - 1)
    ) sub_word (
        .clk(clk), .inverse(inverse), .x(shifted[32*r +: 32]), .y(sub[32*r +: 32])
    );
  end

  wire [63:0] mixed01, mixed23;
  if (LAST != 0) begin : gen_last
    wire [127:0] ordered;
    for (genvar r = 0; r < 128; r = r + 32) begin : gen_row
      assign ordered[r +: 32] = inverse_sub
          ? {sub[r+8 +: 8], sub[r+16 +: 8], sub[r+24 +: 8], sub[r +: 8]} : sub[r +: 32];
    end
    assign {mixed23, mixed01} = ordered;
  end else begin : gen_mix
    aes_mix_rows mix_rows (
        .inverse(inverse_sub), .x01(sub[63:0]), .x23(sub[127:64]), .y01(mixed01), .y23(mixed23)
    );
  end

  logic [63:0] rows01_reg, rows23_reg;
  always_ff @(posedge clk) begin
    rows01_reg <= mixed01 ^ key[63:0];
    rows23_reg <= mixed23 ^ key[127:64];
  end
  assign state_out = {rows23_reg, rows01_reg};
endmodule

`default_nettype wire
