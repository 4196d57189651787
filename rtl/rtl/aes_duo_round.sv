// SPDX-License-Identifier: MIT OR Apache-2.0
// A round of AES or of the equivalent inverse cipher, state by state: `inverse` is sampled with
// state_in. Registers, latency and keys are those of `aes_enc_round` and `aes_dec_round`.
//
// States and keys of the inverse cipher have their columns 1 and 3 swapped: column c is at
// place -c. A row that InvShiftRows moves on then moves back, as ShiftRows does it, so that
// both ciphers have the same wires here. The LAST round swaps the columns back before
// AddRoundKey: what it gives, and its key, are in their own order.
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

  wire [127:0] sub;
  wire [127:0] shifted;
  for (genvar c = 0; c < 4; c = c + 1) begin : gen_column
    aes_sub_word #(
        .SBOX(SBOX), .CIPHER(luxor_pkg::CIPHER_BOTH), .REGS(REGS_ROUND - 1)
    ) sub_word (
        .clk(clk), .inverse(inverse), .x(state_in[32*c +: 32]), .y(sub[32*c +: 32])
    );

    // ShiftRows: row r comes from r columns on.
    assign shifted[32*c +: 32] = {
      sub[32*((c+3)%4)+24 +: 8], sub[32*((c+2)%4)+16 +: 8],
      sub[32*((c+1)%4)+8 +: 8], sub[32*c +: 8]
    };
    wire [31:0] mixed;
    if (LAST != 0) begin : gen_last
      assign mixed = inverse_sub ? shifted[32*((4-c)%4) +: 32] : shifted[32*c +: 32];
    end else begin : gen_mix
      wire [31:0] extra;
      aes_inv_mix_extra inv_mix_extra (.x(shifted[32*c +: 32]), .y(extra));
      aes_mix_column mix_column (
          .x(shifted[32*c +: 32] ^ (extra & {32{inverse_sub}})), .y(mixed)
      );
    end

    logic [31:0] column_reg;
    always_ff @(posedge clk) column_reg <= mixed ^ key[32*c +: 32];
    assign state_out[32*c +: 32] = column_reg;
  end
endmodule

`default_nettype wire
