// SPDX-License-Identifier: MIT OR Apache-2.0
// One round of AES (FIPS-197, 5.1): SubBytes, ShiftRows, MixColumns (not in the LAST round) and
// AddRoundKey. It takes one state per cycle. There are REGS_ROUND (1 to 4) registers from state_in
// to state_out, all but the last of them in SubBytes. `key` must belong to the state that comes out
// in the next cycle.
`default_nettype none

module aes_enc_round #(
    parameter int SBOX       = luxor_pkg::SBOX_TABLE,
    parameter int REGS_ROUND = 2,
    parameter int LAST       = 0
) (
    input  wire          clk,
    input  wire  [127:0] state_in,
    input  wire  [127:0] key,
    output logic [127:0] state_out
);
  wire [127:0] sub;
  for (genvar c = 0; c < 4; c = c + 1) begin : gen_column
    aes_sub_word #(
        .SBOX(SBOX), .CIPHER(luxor_pkg::CIPHER_ENC), .REGS(REGS_ROUND - 1)
    ) sub_word (
        .clk(clk), .inverse(1'b0), .x(state_in[32*c +: 32]), .y(sub[32*c +: 32])
    );

    // ShiftRows: row r comes from the column r places to the right.
    wire [31:0] shifted = {
      sub[32*((c+3)%4)+24 +: 8], sub[32*((c+2)%4)+16 +: 8],
      sub[32*((c+1)%4)+8 +: 8], sub[32*c +: 8]
    };
    wire [31:0] added;
    if (LAST != 0) begin : gen_last
      assign added = shifted ^ key[32*c +: 32];
    end else begin : gen_mix
      aes_mix_key mix_key (.x(shifted), .key(key[32*c +: 32]), .y(added));
    end

    logic [31:0] column_reg;
    always_ff @(posedge clk) column_reg <= added;
    assign state_out[32*c +: 32] = column_reg;
  end
endmodule

`default_nettype wire
