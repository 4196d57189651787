// SPDX-License-Identifier: MIT OR Apache-2.0
// The key expansion of AES (FIPS-197, 5.2), one word per four cycles. `start` is sampled together
// with `key_long` (1: 256-bit key, only if KEY256; 0: 128-bit key). The module requests the key
// word by word: `word` must be the word that `word_index` named in the cycle before.
//
// The round keys appear in `rk`, sixteen cycles apart: each in the cycle with rk_valid and in the
// one after it, with its number in rk_index (0 to 14, or 0 to 10). `rk[127:96]` is the newest word;
// it changes in the cycles with word_valid. `done` is 1 with the last round key, and two cycles
// later the module holds nothing of the key any more. A `start` during an expansion begins a new
// one.
`default_nettype none

module aes_key_expand #(
    parameter int SBOX   = luxor_pkg::SBOX_BRAM,
    parameter int KEY256 = 1
) (
    input  wire          clk,
    input  wire          rst,
    input  wire          start,
    input  wire          key_long,
    output logic [2:0]   word_index,
    input  wire  [31:0]  word,
    output logic         word_valid,
    output logic         rk_valid,
    output logic [3:0]   rk_index,
    output logic [127:0] rk,
    output logic         done
);
  localparam int WORDS = KEY256 != 0 ? 8 : 4;

  // A word takes four cycles: three in which the S-boxes work on the word before, and one in which
  // it is computed. Nothing waits for keys, so the S-boxes can be in block RAM and take no LUTs.
  logic                  busy_reg, second_reg, third_reg, fourth_reg, long_reg, final_reg, ending_reg;
  logic [5:0]            count_reg;   // words computed so far
  logic [7:0]            rcon_reg;
  logic [32*WORDS-1:0]   window_reg;  // the newest words, the last one in the highest bits

  wire [31:0] previous = window_reg[32*WORDS-32 +: 32];
  wire [31:0] sub;
  aes_sub_word #(.SBOX(SBOX), .CIPHER(luxor_pkg::CIPHER_ENC), .REGS(3)) sub_word (
      .clk(clk), .inverse(1'b0), .x(previous), .y(sub)
  );

  wire        loading = long_reg ? count_reg < 6'd8 : count_reg < 6'd4;
  wire [2:0]  place   = {long_reg && count_reg[2], count_reg[1:0]};
  wire        rotate  = place == 3'd0;
  wire [31:0] g       = rotate ? {sub[7:0], sub[31:16], sub[15:8] ^ rcon_reg}
                      : place == 3'd4 ? sub : previous;
  wire [31:0] back    = long_reg ? window_reg[31:0] : window_reg[32*WORDS-128 +: 32];

  assign word_index = count_reg[2:0];
  assign word_valid = busy_reg && !second_reg && !third_reg && !fourth_reg && count_reg != 6'd0;
  assign rk_valid   = word_valid && count_reg[1:0] == 2'd0;
  assign rk_index   = count_reg[5:2] - 4'd1;
  assign rk         = window_reg[32*WORDS-128 +: 128];
  assign done       = word_valid && final_reg;

  always_ff @(posedge clk) begin
    ending_reg <= done && !start && !rst;
    if (rst || (ending_reg && !start)) begin
      busy_reg   <= 1'b0;
      second_reg <= 1'b0;
      third_reg  <= 1'b0;
      fourth_reg <= 1'b0;
      long_reg   <= 1'b0;
      count_reg  <= 6'd0;
      final_reg  <= 1'b0;
      rcon_reg   <= 8'd0;
      window_reg <= '0;
    end else if (start) begin
      busy_reg   <= 1'b1;
      second_reg <= 1'b0;
      third_reg  <= 1'b0;
      fourth_reg <= 1'b0;
      long_reg   <= key_long && KEY256 != 0;
      count_reg  <= 6'd0;
      final_reg  <= 1'b0;
      rcon_reg   <= 8'd1;
    end else begin
      second_reg <= busy_reg && !second_reg && !third_reg && !fourth_reg;
      third_reg  <= second_reg;
      fourth_reg <= third_reg;
      if (fourth_reg) begin
        count_reg  <= count_reg + 6'd1;
        final_reg  <= count_reg == (long_reg ? 6'd59 : 6'd43);  // the last word
        window_reg <= {loading ? word : back ^ g, window_reg[32*WORDS-1:32]};
        if (rotate && !loading) rcon_reg <= {rcon_reg[6:0], 1'b0} ^ (rcon_reg[7] ? 8'h1b : 8'h00);
      end
    end
  end
endmodule

`default_nettype wire
