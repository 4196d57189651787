// SPDX-License-Identifier: MIT OR Apache-2.0
// One round of the equivalent inverse cipher (FIPS-197, 5.3.5): InvSubBytes, InvShiftRows,
// InvMixColumns (not in the LAST round) and AddRoundKey. It has the same registers and latency as
// `aes_enc_round`. The round keys between the first and the last one must already have gone through
// InvMixColumns.
`default_nettype none

module aes_dec_round #(
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
        .SBOX(SBOX), .CIPHER(luxor_pkg::CIPHER_DEC), .REGS(REGS_ROUND - 1)
    ) sub_word (
        .clk(clk), .inverse(1'b1), .x(state_in[32*c +: 32]), .y(sub[32*c +: 32])
    );

    // InvShiftRows: row r comes from the column r places to the left.
    wire [31:0] shifted = {
      sub[32*((c+1)%4)+24 +: 8], sub[32*((c+2)%4)+16 +: 8],
      sub[32*((c+3)%4)+8 +: 8], sub[32*c +: 8]
    };
    wire [31:0] added;
    if (LAST != 0) begin : gen_last
      assign added = shifted ^ key[32*c +: 32];
    end else begin : gen_mix
      aes_mix_key #(.INVERSE(1)) mix_key (.x(shifted), .key(key[32*c +: 32]), .y(added));
    end

    logic [31:0] column_reg;
    always_ff @(posedge clk) column_reg <= added;
    assign state_out[32*c +: 32] = column_reg;
  end
endmodule

`default_nettype wire
