// SPDX-License-Identifier: MIT OR Apache-2.0
// AES-128 encryption as in Elmoghany et al. (2011), sections IV.A to IV.D: one block per cycle, and
// its round keys computed on the fly. `out_block` is the `in_block` of 22 cycles ago, encrypted with
// the `in_key` of that cycle: one cycle for the registers of the inputs, one for the first
// AddRoundKey, and two for each round.
//
//            cycle 1 of round r     cycle 2 of round r
//   state    SubBytes (S-box)       ShiftRows, MixColumns, AddRoundKey with round key r
//   key      XORs: round key r      S-boxes of round key r + 1
//
// A round key also takes two cycles, one for its S-boxes and one for its XORs, and it must be in a
// register before the second cycle of its round. So it is always one cycle ahead of the state.
`default_nettype none

module elmoghany_aes #(
    parameter int SBOX = luxor_pkg::SBOX_BRAM
) (
    input  wire          clk,
    input  wire  [127:0] in_block,
    input  wire  [127:0] in_key,
    output logic [127:0] out_block
);
  localparam int ROUNDS = 10;
  // Rcon (FIPS-197, 5.2) of round r is in bits 8r + 7 to 8r.
  localparam logic [87:0] RCON = 88'h36_1b_80_40_20_10_08_04_02_01_00;

  logic [127:0] block_reg;
  always_ff @(posedge clk) block_reg <= in_block;

  for (genvar r = 0; r <= ROUNDS; r = r + 1) begin : gen_round
    wire  [127:0] state;  // after this round's AddRoundKey
    logic [127:0] key_reg;  // this round's key, in the cycle before `state`
    if (r == 0) begin : gen_first
      logic [127:0] state_reg;
      always_ff @(posedge clk) begin
        key_reg   <= in_key;
        state_reg <= block_reg ^ key_reg;
      end
      assign state = state_reg;
    end else begin : gen_other
      wire  [31:0]  sub;
      logic [127:0] back_reg;  // the round key before this one
      aes_sub_word #(.SBOX(SBOX), .CIPHER(luxor_pkg::CIPHER_ENC), .REGS(1)) sub_word (
          .clk(clk), .inverse(1'b0), .x(gen_round[r-1].key_reg[127:96]), .y(sub)
      );
      wire [31:0] w0 = back_reg[31:0] ^ {sub[7:0], sub[31:8]} ^ {24'd0, RCON[8*r +: 8]};
      wire [31:0] w1 = back_reg[63:32] ^ w0;
      wire [31:0] w2 = back_reg[95:64] ^ w1;
      wire [31:0] w3 = back_reg[127:96] ^ w2;
      always_ff @(posedge clk) begin
        back_reg <= gen_round[r-1].key_reg;
        key_reg  <= {w3, w2, w1, w0};
      end

      aes_enc_round #(.SBOX(SBOX), .REGS_ROUND(2), .LAST(r == ROUNDS ? 1 : 0)) aes_round (
          .clk(clk), .state_in(gen_round[r-1].state), .key(key_reg), .state_out(state)
      );
    end
  end
  assign out_block = gen_round[ROUNDS].state;
endmodule

`default_nettype wire
