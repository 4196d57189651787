// SPDX-License-Identifier: MIT OR Apache-2.0
// Key slots: executes key commands, expands keys, and writes and wipes the round keys.
//
// cmd_*    A command: load a key into a slot, or clear the slot. It must not change while
//          cmd_valid is 1, up to the cycle of cmd_ready, when it is done: the keys are not
//          copied. A key of 128 bits (cmd_long = 0) is in bits 127:0.
// res_*    res_valid is cmd_ready; res_code (KEY_*) is the result of the command.
// slot_state  Two bits per slot, SLOT_*. A slot is empty from the time a command takes it
//          until its last round key is written. Descriptors check this state.
// slot_used   Whether descriptors that use a slot are not done. It may be up to 3 cycles later
//          than slot_state: a command first makes its slot empty, so that no descriptor can
//          start to use it, then waits, then checks whether any still uses it.
// kw_*     A write into the memories of round keys: kind and slot are the address, and round
//          selects the memory. Round key j goes to memory j. In a build with both sizes,
//          short keys skip rounds 1 to 4: their round key j goes to memory j + 4, but key 0
//          to memory 0. The keys of KIND_DEC are in the order of the equivalent inverse
//          cipher (FIPS 197, 5.3.5).
// busy     A command is being executed, or everything is being wiped.
// wiping   After a reset every entry of every slot is set to zero; commands wait.
// rst      1 for at least 2 cycles: the expansion is reset one cycle later.
//
// Every command that takes its slot wipes it, so nothing is left of a long key that a short one
// replaces.
`default_nettype none

module xts_keys #(
    parameter int CIPHER = luxor_pkg::CIPHER_BOTH,
    parameter int KEY128 = 1,
    parameter int KEY256 = 1,
    parameter int SBOX = luxor_pkg::SBOX_BRAM,  // for the key expansion
    parameter int PERMIT_EQUAL = 0  // 1 only for vector 1 of IEEE 1619, Annex B
) (
    input  wire         clk,
    input  wire         rst,
    input  wire         cmd_valid,
    output wire         cmd_ready,
    input  wire         cmd_load,       // 1: load, 0: clear
    input  wire [  7:0] cmd_slot,
    input  wire         cmd_long,       // 1: AES-256
    input  wire [255:0] cmd_data_key,
    input  wire [255:0] cmd_tweak_key,
    output wire         res_valid,
    output wire [  3:0] res_code,
    input  wire [  3:0] slot_used,
    output wire [  7:0] slot_state,
    output wire         kw_valid,
    output wire [  1:0] kw_kind,
    output wire [  3:0] kw_round,
    output wire [  1:0] kw_slot,
    output wire [127:0] kw_data,
    output wire         busy,
    output wire         wiping
);
  localparam bit HAS_DEC = CIPHER != luxor_pkg::CIPHER_ENC;
  localparam bit HAS_BOTH_SIZES = KEY128 != 0 && KEY256 != 0;
  // Longer than the delay of slot_used, and than the time to write a round key.
  localparam logic [5:0] PAUSE = 6'd5;

  localparam logic [3:0] WIPE_ALL = 4'd0;  // after reset: wipes entry count_reg of slot_reg
  localparam logic [3:0] IDLE = 4'd1;
  localparam logic [3:0] CHECK = 4'd2;
  localparam logic [3:0] TAKE = 4'd3;      // the slot is empty; waits
  localparam logic [3:0] WIPE = 4'd4;      // wipes entry count_reg
  localparam logic [3:0] START = 4'd5;
  localparam logic [3:0] EXPAND = 4'd6;
  localparam logic [3:0] SETTLE = 4'd7;    // waits
  localparam logic [3:0] REPORT = 4'd8;

  logic [3:0] state_reg;
  logic [5:0] count_reg;
  logic       last_entry_reg, paused_reg;  // count_reg is 63; count_reg is PAUSE
  logic [1:0] slot_reg;
  logic [3:0] code_reg;
  logic       ready_reg;
  logic [7:0] slots_reg;
  logic [1:0] state_before_reg;

  assign cmd_ready = ready_reg;
  assign res_valid = ready_reg;
  assign res_code = code_reg;
  assign slot_state = slots_reg;
  assign busy = state_reg != IDLE;
  assign wiping = state_reg == WIPE_ALL;

  wire [2:0] slot_bit = {slot_reg, 1'b0};
  wire in_use = slot_used[slot_reg];
  wire has_size = cmd_long ? KEY256 != 0 : KEY128 != 0;
  wire is_long = HAS_BOTH_SIZES ? cmd_long : KEY256 != 0;

  // The keys word by word: repeatedly while the slot is wiped, to compare them, and later as the
  // expansion requests them.
  logic        tweak_reg;  // the expansion works on the tweak key
  logic [31:0] data_word_reg, tweak_word_reg;
  logic        differs_reg, equal_reg;
  wire  [2:0]  expand_index;
  wire  [2:0]  asked = state_reg == WIPE ? count_reg[2:0] : expand_index;
  wire  [2:0]  word_index = {is_long && asked[2], asked[1:0]};
  always_ff @(posedge clk) begin
    data_word_reg  <= cmd_data_key[32*word_index+:32];
    tweak_word_reg <= cmd_tweak_key[32*word_index+:32];
    differs_reg    <= data_word_reg != tweak_word_reg;
    if (state_reg != WIPE) equal_reg <= 1'b1;
    else if (count_reg[5:1] != 5'd0 && differs_reg) equal_reg <= 1'b0;
  end

  wire         expand_done;
  wire         word_valid;
  wire         rk_valid;
  wire [  3:0] rk_index;
  wire [127:0] rk;
  logic rst_reg;  // one cycle late, for parts that start only after the wipe
  always_ff @(posedge clk) rst_reg <= rst;
  aes_key_expand #(
      .SBOX(SBOX),
      .KEY256(KEY256)
  ) key_expand (
      .clk(clk),
      .rst(rst_reg),
      .start(state_reg == START),
      .key_long(is_long),
      .word_index(expand_index),
      .word(tweak_reg ? tweak_word_reg : data_word_reg),
      .word_valid(word_valid),
      .rk_valid(rk_valid),
      .rk_index(rk_index),
      .rk(rk),
      .done(expand_done)
  );

  always_ff @(posedge clk) begin
    ready_reg <= 1'b0;
    count_reg <= count_reg + 6'd1;
    last_entry_reg <= !rst && count_reg == 6'd62;
    paused_reg <= count_reg == PAUSE - 6'd1 && state_reg != CHECK;
    case (state_reg)
      WIPE_ALL:
      if (last_entry_reg) begin
        slot_reg <= slot_reg + 2'd1;
        if (slot_reg == 2'd3) state_reg <= IDLE;
      end
      IDLE: begin
        slot_reg  <= cmd_slot[1:0];
        tweak_reg <= 1'b0;
        // While ready_reg is 1, the command is still the one that was just done.
        if (cmd_valid && !ready_reg) begin
          state_reg <= CHECK;
          if (cmd_slot[7:2] != 6'd0) code_reg <= luxor_pkg::KEY_NO_SLOT;
          else if (cmd_load && !has_size) code_reg <= luxor_pkg::KEY_SIZE;
          else code_reg <= luxor_pkg::KEY_OK;
        end
      end
      CHECK: begin
        count_reg <= 6'd0;
        state_before_reg <= slots_reg[slot_bit+:2];
        if (code_reg != luxor_pkg::KEY_OK) state_reg <= REPORT;
        else if (in_use) begin
          code_reg  <= luxor_pkg::KEY_IN_USE;
          state_reg <= REPORT;
        end else begin
          slots_reg[slot_bit+:2] <= luxor_pkg::SLOT_EMPTY;
          state_reg <= TAKE;
        end
      end
      TAKE:
      if (paused_reg) begin
        count_reg <= 6'd0;
        state_reg <= WIPE;
        // A descriptor started to use the slot just before it was made empty.
        if (in_use) begin
          slots_reg[slot_bit+:2] <= state_before_reg;
          code_reg <= luxor_pkg::KEY_IN_USE;
          state_reg <= REPORT;
        end
      end
      WIPE:
      if (last_entry_reg) begin
        state_reg <= REPORT;
        if (cmd_load) begin
          if (PERMIT_EQUAL == 0 && equal_reg) code_reg <= luxor_pkg::KEY_EQUAL;
          else state_reg <= START;
        end
      end
      START: state_reg <= EXPAND;
      EXPAND: begin
        count_reg <= 6'd0;
        if (expand_done) state_reg <= SETTLE;
      end
      SETTLE:
      if (paused_reg) begin
        tweak_reg <= 1'b1;
        state_reg <= tweak_reg ? REPORT : START;
      end
      default: begin  // REPORT
        ready_reg <= 1'b1;
        state_reg <= IDLE;
        if (cmd_load && code_reg == luxor_pkg::KEY_OK)
          slots_reg[slot_bit+:2] <= is_long ? luxor_pkg::SLOT_256 : luxor_pkg::SLOT_128;
        if (code_reg == luxor_pkg::KEY_EQUAL)
          slots_reg[slot_bit+:2] <= luxor_pkg::SLOT_EQUAL;
      end
    endcase
    if (rst) begin
      state_reg <= WIPE_ALL;
      count_reg <= 6'd0;
      slot_reg  <= 2'd0;
      ready_reg <= 1'b0;
      code_reg  <= luxor_pkg::KEY_OK;
      slots_reg <= {4{luxor_pkg::SLOT_EMPTY}};
    end
  end

  // The decryption key is written one cycle after the encryption key, while that is still
  // available. InvMixColumns was applied to each word as it came.
  logic       held_valid_reg;
  logic [3:0] held_index_reg;
  always_ff @(posedge clk) begin
    held_valid_reg <= HAS_DEC && rk_valid && !tweak_reg && !rst;
    held_index_reg <= rk_index;
  end

  wire [127:0] mixed;
  if (HAS_DEC) begin : g_mix
    wire  [ 31:0] mixed_word;
    logic [127:0] mixed_reg;
    aes_inv_mix_column inv_mix (
        .x(rk[127:96]),
        .y(mixed_word)
    );
    always_ff @(posedge clk) begin
      if (state_reg == SETTLE || rst) mixed_reg <= 128'd0;
      else if (word_valid) mixed_reg <= {mixed_word, mixed_reg[127:32]};
    end
    assign mixed = mixed_reg;
  end else begin : g_no_mix
    wire unused = &{1'b0, word_valid};
    assign mixed = 128'd0;
  end

  wire [3:0] rounds = is_long ? 4'd14 : 4'd10;
  wire held_is_outer = held_index_reg == 4'd0 || held_index_reg == rounds;
  wire [3:0] round_of = held_valid_reg ? rounds - held_index_reg : rk_index;
  wire [3:0] skipped = HAS_BOTH_SIZES && !is_long && round_of != 4'd0 ? 4'd4 : 4'd0;
  wire wipes = state_reg == WIPE_ALL || state_reg == WIPE;

  logic         kw_valid_reg;
  logic [  1:0] kw_kind_reg;
  logic [  3:0] kw_round_reg;
  logic [  1:0] kw_slot_reg;
  logic [127:0] kw_data_reg;
  always_ff @(posedge clk) begin
    kw_valid_reg <= (wipes || rk_valid || held_valid_reg) && !rst;
    kw_slot_reg  <= slot_reg;
    if (wipes) {kw_kind_reg, kw_round_reg} <= count_reg;
    else begin
      kw_round_reg <= round_of + skipped;
      kw_kind_reg  <= held_valid_reg ? luxor_pkg::KIND_DEC
          : tweak_reg ? luxor_pkg::KIND_TWEAK : luxor_pkg::KIND_ENC;
    end
    kw_data_reg <= !rk_valid && !held_valid_reg ? 128'd0
        : held_valid_reg && !held_is_outer ? mixed : rk;
  end
  assign kw_valid = kw_valid_reg;
  assign kw_kind  = kw_kind_reg;
  assign kw_round = kw_round_reg;
  assign kw_slot  = kw_slot_reg;
  assign kw_data  = kw_data_reg;

`ifndef SYNTHESIS
  always @(posedge clk)
    if (!rst) begin
      if (kw_valid_reg && slots_reg[{kw_slot_reg, 1'b0}+:2] != luxor_pkg::SLOT_EMPTY)
        $fatal(1, "xts_keys: round key written to slot %0d, which is not empty", kw_slot_reg);
      if (held_valid_reg && rk_valid) $fatal(1, "xts_keys: round keys in successive cycles");
    end
`endif
endmodule

`default_nettype wire
