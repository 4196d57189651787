// SPDX-License-Identifier: MIT OR Apache-2.0
// AES encryption with one round in a ring of STAGES (1 to 4) registers, which holds STAGES blocks
// at a time. The first AddRoundKey of a block takes one turn of its own, so STAGES blocks take
// (ROUNDS + 1)·STAGES cycles. ROUNDS is 14 for keys of 256 bits (req_short = 0) and 10 otherwise.
//
// A request is taken in a cycle with req_valid and req_ready. Its result comes with its tag 2 +
// ROUNDS·STAGES cycles later, for one cycle. Results come in the order of the requests: a request
// of the other key size waits until the ring is empty, so req_ready depends on req_short. req_short
// is used only if both key sizes are built.
//
// Keys: kw_valid with kind TWEAK writes kw_data to entry kw_round of slot kw_slot. The new key
// applies to requests at least two cycles later. If both key sizes are built, rounds 1 to 10 of
// short keys are in entries 5 to 14. The keys of blocks in the ring must not be written.
`default_nettype none

module aes_iter #(
    parameter int KEY128 = 1,
    parameter int KEY256 = 0,
    parameter int SBOX   = luxor_pkg::SBOX_TABLE,
    parameter int STAGES = 2,
    parameter int TAG    = 8
) (
    input  wire            clk,
    input  wire            rst,
    input  wire            req_valid,
    output logic           req_ready,
    input  wire  [127:0]   req_block,
    input  wire  [1:0]     req_slot,
    input  wire            req_short,
    input  wire  [TAG-1:0] req_tag,
    output logic           res_valid,
    output logic [127:0]   res_block,
    output logic [TAG-1:0] res_tag,
    input  wire            kw_valid,
    input  wire  [1:0]     kw_kind,
    input  wire  [3:0]     kw_round,
    input  wire  [1:0]     kw_slot,
    input  wire  [127:0]   kw_data
);
  localparam logic [3:0] LAST  = KEY256 != 0 ? 4'd14 : 4'd10;
  localparam bit         SIZES = KEY128 != 0 && KEY256 != 0;

  // The block that is at AddRoundKey. `last`: this is its last round. `first`: it is new and comes
  // from block_reg.
  logic           valid_reg, first_reg, last_reg;
  logic [3:0]     round_reg;
  logic [1:0]     slot_reg;
  logic [TAG-1:0] tag_reg;

  // A place in the ring is at AddRoundKey once in STAGES cycles. `old` is what was at AddRoundKey
  // STAGES - 1 cycles ago. It comes back in the next cycle unless it is finished.
  logic           old_valid, old_last, ring_empty;
  logic [3:0]     old_round;
  logic [1:0]     old_slot;
  logic [TAG-1:0] old_tag;
  wire [STAGES-1:0] valids;
  if (STAGES == 1) begin : gen_one
    assign valids = valid_reg;
  end else begin : gen_more
    logic [STAGES-2:0] valids_reg;
    always_ff @(posedge clk) valids_reg <= rst ? '0 : valids[STAGES-2:0];
    assign valids = {valids_reg, valid_reg};
  end
  assign old_valid  = valids[STAGES-1];
  assign ring_empty = valids == '0;
  delay_line #(.WIDTH(7 + TAG), .CYCLES(STAGES - 1)) ring_line (
      .clk(clk),
      .d({last_reg, round_reg, slot_reg, tag_reg}),
      .q({old_last, old_round, old_slot, old_tag})
  );
  wire stays = old_valid && !old_last;

  // The ring takes requests of one key size at a time.
  logic short_reg;
  if (SIZES) begin : gen_sizes
    always_ff @(posedge clk) begin
      if (req_valid && req_ready) short_reg <= req_short;
    end
    assign req_ready = !stays && (ring_empty || req_short == short_reg);
  end else begin : gen_size
    wire unused = &{1'b0, req_short, ring_empty};
    assign short_reg = 1'b0;
    assign req_ready = !stays;
  end

  wire [3:0] round_next = old_round == 4'd0 && short_reg ? 4'd5 : old_round + 4'd1;
  wire [3:0] round_new  = stays ? round_next : 4'd0;
  wire [1:0] slot_new   = stays ? old_slot : req_slot;
  always_ff @(posedge clk) begin
    valid_reg <= !rst && (stays || (req_valid && req_ready));
    first_reg <= !stays;
    last_reg  <= round_new == LAST;
    round_reg <= round_new;
    slot_reg  <= slot_new;
    tag_reg   <= stays ? old_tag : req_tag;
  end

  // Round keys. The key for AddRoundKey in the next cycle is read in this cycle.
  logic         kw_we_reg;
  logic [5:0]   kw_address_reg;
  logic [127:0] kw_data_reg;
  (* ram_style = "distributed" *)
  logic [127:0] key_ram [0:63];
  logic [127:0] key_reg;
  always_ff @(posedge clk) begin
    kw_we_reg      <= kw_valid && kw_kind == luxor_pkg::KIND_TWEAK;
    kw_address_reg <= {kw_slot, kw_round};
    kw_data_reg    <= kw_data;
    if (kw_we_reg) key_ram[kw_address_reg] <= kw_data_reg;
    key_reg <= key_ram[{slot_new, round_new}];
  end

  // The ring: state_reg, then SubBytes with STAGES - 1 registers, then back.
  logic [127:0] block_reg, state_reg;
  wire  [127:0] sub;
  wire  [127:0] turn;
  for (genvar c = 0; c < 4; c = c + 1) begin : gen_column
    aes_sub_word #(
        .SBOX(SBOX), .CIPHER(luxor_pkg::CIPHER_ENC), .REGS(STAGES - 1)
    ) sub_word (
        .clk(clk), .inverse(1'b0), .x(state_reg[32*c +: 32]), .y(sub[32*c +: 32])
    );
    // ShiftRows: row r comes from the column r places to the right.
    wire [31:0] shifted = {
      sub[32*((c+3)%4)+24 +: 8], sub[32*((c+2)%4)+16 +: 8],
      sub[32*((c+1)%4)+8 +: 8], sub[32*c +: 8]
    };
    wire [31:0] mixed;
    aes_mix_column mix_column (.x(shifted), .y(mixed));
    assign turn[32*c +: 32] = first_reg ? block_reg[32*c +: 32] : last_reg ? shifted : mixed;
  end
  always_ff @(posedge clk) begin
    block_reg <= req_block;
    state_reg <= turn ^ key_reg;
  end

  always_ff @(posedge clk) begin
    res_valid <= !rst && valid_reg && last_reg;
    res_tag   <= tag_reg;
  end
  assign res_block = state_reg;
endmodule

`default_nettype wire
