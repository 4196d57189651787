// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests aes_iter with different key sizes, numbers of registers and kinds of S-box. Sends requests
// without and with pauses, for all slots and both key sizes. Checks the results, their order, tags
// and latency, the rate, that there is no X after the reset, and a reset in the middle.
// This bench runs only on Icarus, because Verilator takes several times as long to compile it as
// Icarus to run it. The cocotb tests run these modules on Verilator.
`default_nettype none

module aes_iter_tb;
  import aes_model::*;

  localparam int REQUESTS = 40;
  localparam int BUILDS = 5;

  logic clk = 1'b0;
  initial forever #5 clk = !clk;

  logic [127:0]  blocks [0:REQUESTS-1];
  logic [1:0]    slots [0:REQUESTS-1];
  logic [1919:0] longs [0:3];
  logic [1919:0] shorts [0:3];
  logic          start = 1'b0;
  int            finished = 0;

  // A build is {KEY256, KEY128, SBOX, STAGES}: one, one, two and three bits.
  localparam logic [7*BUILDS-1:0] CONFIGS = {
    7'b11_00_001, 7'b01_01_010, 7'b10_10_010, 7'b11_00_011, 7'b11_00_100
  };
  for (genvar build = 0; build < BUILDS; build = build + 1) begin : gen_build
    localparam logic [6:0] CONFIG = CONFIGS[7*build +: 7];
    localparam int KEY256 = int'(CONFIG[6]);
    localparam int KEY128 = int'(CONFIG[5]);
    localparam int SBOX   = int'(CONFIG[4:3]);
    localparam int STAGES = int'(CONFIG[2:0]);
    localparam int ROUNDS = KEY256 != 0 ? 14 : 10;

    logic         rst = 1'b0;
    logic         req_valid = 1'b0;
    wire          req_ready;
    logic [127:0] req_block;
    logic [1:0]   req_slot;
    logic         req_short;
    logic [9:0]   req_tag;
    wire          res_valid;
    wire  [127:0] res_block;
    wire  [9:0]   res_tag;
    logic         kw_valid = 1'b0;
    logic [1:0]   kw_kind;
    logic [3:0]   kw_round;
    logic [1:0]   kw_slot;
    logic [127:0] kw_data;
    aes_iter #(
        .KEY128(KEY128), .KEY256(KEY256), .SBOX(SBOX), .STAGES(STAGES), .TAG(10)
    ) dut (
        .clk(clk), .rst(rst), .req_valid(req_valid), .req_ready(req_ready),
        .req_block(req_block), .req_slot(req_slot), .req_short(req_short), .req_tag(req_tag),
        .res_valid(res_valid), .res_block(res_block), .res_tag(res_tag), .kw_valid(kw_valid),
        .kw_kind(kw_kind), .kw_round(kw_round), .kw_slot(kw_slot), .kw_data(kw_data)
    );

    function automatic is_long(input [1:0] slot);
      is_long = KEY256 != 0 && (KEY128 == 0 || slot == 2'd0 || slot == 2'd2);
    endfunction

    task write(input [1:0] kind, input [1:0] slot, input [3:0] place, input [127:0] data);
      @(negedge clk);
      kw_valid = 1'b1;
      kw_kind  = kind;
      kw_slot  = slot;
      kw_round = place;
      kw_data  = data;
    endtask

    // The requests and the results so far.
    int            cycle = 0;
    int            sent = 0;
    int            received = 0;
    int            first_cycle;
    logic          pauses;
    int            taken_at [0:REQUESTS-1];
    logic [127:0]  expected [0:REQUESTS-1];
    task check_result;
      if ((req_valid && req_ready === 1'bx) || res_valid === 1'bx) begin
        $display("X in build %b", CONFIG);
        $fatal;
      end
      if (res_valid) begin
        if (received >= sent || res_tag !== 10'(received * 7) || res_block !== expected[received]
            || cycle - taken_at[received] != 2 + STAGES * (is_long(slots[received]) ? 14 : 10)) begin
          $display("build %b, result %0d, tag %h, after %0d cycles: %h, expected %h", CONFIG, received,
                   res_tag, cycle - taken_at[received], res_block, expected[received]);
          $fatal;
        end
        received = received + 1;
      end
    endtask

    int limit;
    initial begin
      while (!start) @(negedge clk);
      for (int s = 0; s < 4; s = s + 1) begin
        for (int j = 0; j < 15; j = j + 1) begin
          write(luxor_pkg::KIND_TWEAK, s[1:0], 4'(j), 128'd0);
        end
        write(luxor_pkg::KIND_TWEAK, s[1:0], 4'd0, shorts[s][127:0]);
        for (int j = 1; j <= (is_long(s[1:0]) ? 14 : 10); j = j + 1) begin
          write(luxor_pkg::KIND_TWEAK, s[1:0], 4'(is_long(s[1:0]) ? j : j + ROUNDS - 10),
                is_long(s[1:0]) ? longs[s][128*j +: 128] : shorts[s][128*j +: 128]);
          // aes_iter must ignore the keys of the data key.
          write(luxor_pkg::KIND_ENC, s[1:0], 4'(j), random_block());
        end
      end
      @(negedge clk);
      kw_valid = 1'b0;

      // First without pauses, in runs of one slot; then with pauses; then after a reset.
      for (int p = 0; p < 3; p = p + 1) begin
        rst = 1'b1;
        @(posedge clk);
        #1 cycle = cycle + 1;
        @(negedge clk);
        rst         = 1'b0;
        sent        = 0;
        received    = 0;
        pauses      = p > 0;
        first_cycle = cycle;
        while (received < (p == 1 ? REQUESTS / 2 : REQUESTS)) begin
          check_result;
          if (!(req_valid && !req_ready)) begin
            req_valid = sent < REQUESTS && (!pauses || 2'($urandom) == 2'd0);
          end
          if (req_valid) begin
            req_block      = blocks[sent];
            req_slot       = slots[sent];
            req_short      = !is_long(slots[sent]);
            req_tag        = 10'(sent * 7);
            expected[sent] = aes_cipher(req_short ? shorts[slots[sent]] : longs[slots[sent]],
                                        !req_short, 1'b0, blocks[sent]);
          end else begin
            req_block = 128'hx;
            req_slot  = 2'hx;
            req_short = 1'bx;
            req_tag   = 10'hx;
          end
          #1;
          if (req_valid && req_ready) begin
            taken_at[sent] = cycle;
            sent           = sent + 1;
          end
          @(posedge clk);
          #1 cycle = cycle + 1;
          @(negedge clk);
          if (req_valid && taken_at[sent-1] == cycle - 1) req_valid = 1'b0;
        end
        // A block takes ROUNDS + 1 turns. A change of the key size empties the ring, three times.
        limit = REQUESTS * (ROUNDS + 1) + 4 * STAGES * (ROUNDS + 2);
        if (p == 0 && cycle - first_cycle > limit) begin
          $display("build %b: %0d cycles, expected %0d", CONFIG, cycle - first_cycle, limit);
          $fatal;
        end
        req_valid = 1'b0;
      end
      finished = finished + 1;
    end
  end

  logic [255:0] key;
  initial begin
    prepare;
    for (int s = 0; s < 4; s = s + 1) begin
      key       = {random_block(), random_block()};
      longs[s]  = expand(key, 1'b1);
      shorts[s] = expand(key, 1'b0);
    end
    for (int n = 0; n < REQUESTS; n = n + 1) begin
      blocks[n] = random_block();
      slots[n]  = 2'(n / (REQUESTS / 4));
    end
    start = 1'b1;
    while (finished != BUILDS) @(negedge clk);
    $display("PASS aes_iter");
    $finish;
  end
endmodule

`default_nettype wire
