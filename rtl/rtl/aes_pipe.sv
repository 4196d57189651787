// SPDX-License-Identifier: MIT OR Apache-2.0
// AES, its inverse, or either of them selected per block (CIPHER), fully pipelined: one block in
// and one block out per cycle. out_block is the result for the in_block of FIRST + ROUNDS·STAGES
// cycles ago. ROUNDS is 14 if keys of 256 bits are built, else 10; STAGES (1 to 4) is the number of
// registers in a round; FIRST is the number of registers before the first round: 2 if STAGES is 3
// or 4, else 1. The pipeline never stalls, and does not record which of its blocks are valid.
//
// Each block comes with the address of its round keys, in_key = {kind, slot}; with in_inverse,
// which is used only for CIPHER_BOTH; and with in_short, which is used only if both key sizes are
// built. A block with in_short has a 128-bit key: it waits in a delay line while other blocks are
// in rounds 1 to 4, and then takes rounds 5 to 14.
//
// Each round has a key memory of its own. kw_valid writes kw_data to entry {kw_kind, kw_slot} in
// the memory of round kw_round (0 to ROUNDS; other numbers are ignored). The new key applies to
// blocks at least two cycles later. The keys of blocks in the pipeline must not be written. out_add
// is added to the block that comes out in the next cycle.
`default_nettype none

module aes_pipe #(
    parameter int CIPHER = luxor_pkg::CIPHER_ENC,
    parameter int KEY128 = 1,
    parameter int KEY256 = 0,
    parameter int SBOX   = luxor_pkg::SBOX_TABLE,
    parameter int STAGES = 2
) (
    input  wire          clk,
    input  wire  [127:0] in_block,
    input  wire  [3:0]   in_key,
    input  wire          in_inverse,
    input  wire          in_short,
    input  wire  [127:0] out_add,
    output logic [127:0] out_block,
    input  wire          kw_valid,
    input  wire  [1:0]   kw_kind,
    input  wire  [3:0]   kw_round,
    input  wire  [1:0]   kw_slot,
    input  wire  [127:0] kw_data
);
  localparam int ROUNDS  = KEY256 != 0 ? 14 : 10;
  localparam int FIRST   = STAGES > 2 ? 2 : 1;
  localparam int SKIPPED = KEY128 != 0 && KEY256 != 0 ? 4 : 0;

  // in_inverse if it is used, otherwise the direction that CIPHER fixes.
  wire inverse_in = CIPHER == luxor_pkg::CIPHER_BOTH ? in_inverse : CIPHER == luxor_pkg::CIPHER_DEC;

  // `aes_t_round` and `aes_duo_round` expect states and keys of the inverse cipher with columns 1
  // and 3 swapped, up to the last round, which swaps them back before its AddRoundKey.
  // `aes_duo_round` also expects all states and keys as rows.
  wire [127:0] entering;
  wire [127:0] kw_ordered;
  wire [127:0] leaving;  // what is added after the last round
  if (SBOX == luxor_pkg::SBOX_T_TABLE) begin : gen_swapped
    wire swap_key = kw_kind == luxor_pkg::KIND_DEC && kw_round != 4'(ROUNDS);
    for (genvar c = 0; c < 4; c = c + 1) begin : gen_column
      localparam int SWAPPED = 32 * ((4 - c) % 4);
      assign entering[32*c +: 32] = inverse_in ? in_block[SWAPPED +: 32] : in_block[32*c +: 32];
      assign kw_ordered[32*c +: 32] = swap_key ? kw_data[SWAPPED +: 32] : kw_data[32*c +: 32];
    end
    assign leaving    = out_add;
    assign out_block  = gen_round[ROUNDS].state;
  end else if (CIPHER == luxor_pkg::CIPHER_BOTH) begin : gen_rows
    wire swap_key = kw_kind == luxor_pkg::KIND_DEC && kw_round != 4'(ROUNDS);
    for (genvar r = 0; r < 4; r = r + 1) begin : gen_row
      for (genvar c = 0; c < 4; c = c + 1) begin : gen_column
        localparam int FROM = 32 * c + 8 * r;
        localparam int SWAPPED = 32 * ((4 - c) % 4) + 8 * r;
        assign entering[32*r+8*c +: 8] = inverse_in ? in_block[SWAPPED +: 8] : in_block[FROM +: 8];
        assign kw_ordered[32*r+8*c +: 8] = swap_key ? kw_data[SWAPPED +: 8] : kw_data[FROM +: 8];
        assign leaving[32*r+8*c +: 8] = out_add[FROM +: 8];
        assign out_block[FROM +: 8] = gen_round[ROUNDS].state[32*r+8*c +: 8];
      end
    end
  end else begin : gen_columns
    assign leaving    = out_add;
    assign entering   = in_block;
    assign kw_ordered = kw_data;
    assign out_block  = gen_round[ROUNDS].state;
  end

  // What is written passes from round to round and through a register every four rounds, so that no
  // wire crosses the whole pipeline. A block takes at least as long for these rounds.
  localparam int KW_ROUNDS = 4;

  for (genvar r = 0; r <= ROUNDS; r = r + 1) begin : gen_round
    wire [127:0] state;    // after this round's AddRoundKey
    wire         inverse;  // the direction of `state`
    wire [3:0]   address;  // round 0: of this cycle's key; others: of the next cycle's key
    wire [127:0] key_read;
    wire [136:0] kw;
    if (r % KW_ROUNDS != 0) begin : gen_kw
      assign kw = gen_round[r-1].kw;
    end else begin : gen_kw_reg
      wire [136:0] kw_before;
      if (r == 0) begin : gen_port
        assign kw_before = {kw_valid, kw_round, kw_kind, kw_slot, kw_ordered};
      end else begin : gen_line
        assign kw_before = gen_round[r-1].kw;
      end
      delay_line #(.WIDTH(137), .CYCLES(1)) kw_line (.clk(clk), .d(kw_before), .q(kw));
    end
    key_ram keys (
        .clk(clk), .we(kw[136] && kw[135:132] == 4'(r)), .write_address(kw[131:128]),
        .write_data(kw[127:0]), .read_address(address), .read_data(key_read)
    );
    if (r == 0) begin : gen_first
      assign address = in_key;
      delay_line #(.WIDTH(1), .CYCLES(FIRST)) inverse_line (
          .clk(clk), .d(inverse_in), .q(inverse)
      );
      wire [127:0] block, key;
      delay_line #(.WIDTH(256), .CYCLES(FIRST - 1)) block_line (
          .clk(clk), .d({entering, key_read}), .q({block, key})
      );
      delay_line #(.WIDTH(128), .CYCLES(1)) state_line (.clk(clk), .d(block ^ key), .q(state));
    end else begin : gen_other
      delay_line #(.WIDTH(4), .CYCLES(r == 1 ? FIRST - 2 + STAGES : STAGES)) address_line (
          .clk(clk), .d(gen_round[r-1].address), .q(address)
      );
      delay_line #(.WIDTH(1), .CYCLES(STAGES)) inverse_line (
          .clk(clk), .d(gen_round[r-1].inverse), .q(inverse)
      );
      logic [127:0] key_reg;
      always_ff @(posedge clk) key_reg <= key_read;
      wire [127:0] added = r == ROUNDS ? key_reg ^ leaving : key_reg;

      wire [127:0] state_in;
      if (r == SKIPPED + 1 && SKIPPED != 0) begin : gen_join
        wire         waited;
        wire [127:0] block;
        delay_line #(.WIDTH(1), .CYCLES(FIRST + SKIPPED * STAGES)) short_line (
            .clk(clk), .d(in_short), .q(waited)
        );
        block_delay #(.CYCLES(SKIPPED * STAGES)) delay (
            .clk(clk), .d(gen_round[0].state), .q(block)
        );
        assign state_in = waited ? block : gen_round[r-1].state;
      end else begin : gen_straight
        assign state_in = gen_round[r-1].state;
      end

      if (SBOX == luxor_pkg::SBOX_T_TABLE) begin : gen_tables
        aes_t_round #(.REGS_ROUND(STAGES), .LAST(r == ROUNDS ? 1 : 0)) aes_round (
            .clk(clk), .inverse(gen_round[r-1].inverse), .state_in(state_in), .key(added),
            .state_out(state)
        );
      end else if (CIPHER == luxor_pkg::CIPHER_ENC) begin : gen_enc
        aes_enc_round #(
            .SBOX(SBOX), .REGS_ROUND(STAGES), .LAST(r == ROUNDS ? 1 : 0)
        ) aes_round (
            .clk(clk), .state_in(state_in), .key(added), .state_out(state)
        );
      end else if (CIPHER == luxor_pkg::CIPHER_DEC) begin : gen_dec
        aes_dec_round #(
            .SBOX(SBOX), .REGS_ROUND(STAGES), .LAST(r == ROUNDS ? 1 : 0)
        ) aes_round (
            .clk(clk), .state_in(state_in), .key(added), .state_out(state)
        );
      end else begin : gen_both
        aes_duo_round #(
            .SBOX(SBOX), .REGS_ROUND(STAGES), .LAST(r == ROUNDS ? 1 : 0)
        ) aes_round (
            .clk(clk), .inverse(gen_round[r-1].inverse), .state_in(state_in), .key(added),
            .state_out(state)
        );
      end
    end
  end

  if (SKIPPED == 0) begin : gen_one_size
    wire unused = &{1'b0, in_short};
  end
  wire unused = &{1'b0, gen_round[ROUNDS].inverse};
endmodule

`default_nettype wire
