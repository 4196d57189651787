// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests aes_pipe with different ciphers, key sizes, numbers of registers and kinds of S-box. Blocks
// of random slots, kinds and directions enter in every cycle, the examples of FIPS-197 first. Then
// all are repeated with another key in slot 3.
// This bench runs only on Icarus, because Verilator takes minutes to compile nine pipelines. The
// cocotb tests run whole cores, each with a pipeline, on Verilator.
`default_nettype none

module aes_pipe_tb;
  import aes_model::*;

`ifdef LUXOR_TEST_LONG
  localparam int BLOCKS = 80;
`else
  localparam int BLOCKS = 24;
`endif
  localparam int BUILDS = 9;

  // FIPS-197, appendix C.
  localparam logic [255:0] C_KEY = {
    128'h1f1e1d1c_1b1a1918_17161514_13121110, 128'h0f0e0d0c_0b0a0908_07060504_03020100
  };
  localparam logic [127:0] C_PLAIN = 128'h00112233_44556677_8899aabb_ccddeeff;
  localparam logic [127:0] C_128 = 128'h69c4e0d8_6a7b0430_d8cdb780_70b4c55a;
  localparam logic [127:0] C_256 = 128'h8ea2b7ca_516745bf_eafc4990_4b496089;

  logic clk = 1'b0;
  initial forever #5 clk = !clk;

  // The blocks that go in, and the key schedules of {kind, slot}. If both sizes are built, slots 0
  // and 2 have long keys.
  logic [127:0]  blocks [0:BLOCKS-1];
  logic [1:0]    slots [0:BLOCKS-1];
  logic          tweaks [0:BLOCKS-1];
  logic          inverses [0:BLOCKS-1];
  logic [1919:0] longs [0:7];
  logic [1919:0] shorts [0:7];
  int            pass = 0;
  int            finished = 0;

  // A build is {cipher, KEY256, KEY128, SBOX, STAGES}: two, one, one, two and three bits.
  localparam logic [9*BUILDS-1:0] CONFIGS = {
    9'b00_01_01_010, 9'b00_10_00_001, 9'b00_11_10_010, 9'b01_11_00_011, 9'b10_01_00_100,
    9'b10_11_00_001, 9'b00_01_11_010, 9'b01_10_11_011, 9'b10_11_11_001
  };
  for (genvar build = 0; build < BUILDS; build = build + 1) begin : gen_build
    localparam logic [8:0] CONFIG = CONFIGS[9*build +: 9];
    localparam int CIPHER  = int'(CONFIG[8:7]);
    localparam int KEY256  = int'(CONFIG[6]);
    localparam int KEY128  = int'(CONFIG[5]);
    localparam int SBOX    = int'(CONFIG[4:3]);
    localparam int STAGES  = int'(CONFIG[2:0]);
    localparam int ROUNDS  = KEY256 != 0 ? 14 : 10;
    localparam int LATENCY = (STAGES > 2 ? 2 : 1) + ROUNDS * STAGES;

    logic [127:0] in_block;
    logic [3:0]   in_key;
    logic         in_inverse;
    logic         in_short;
    logic         kw_valid = 1'b0;
    logic [1:0]   kw_kind;
    logic [3:0]   kw_round;
    logic [1:0]   kw_slot;
    logic [127:0] kw_data;
    logic [127:0] out_add;
    wire  [127:0] out_block;
    aes_pipe #(
        .CIPHER(CIPHER), .KEY128(KEY128), .KEY256(KEY256), .SBOX(SBOX), .STAGES(STAGES)
    ) dut (
        .clk(clk), .in_block(in_block), .in_key(in_key), .in_inverse(in_inverse),
        .in_short(in_short), .out_add(out_add), .out_block(out_block), .kw_valid(kw_valid), .kw_kind(kw_kind),
        .kw_round(kw_round), .kw_slot(kw_slot), .kw_data(kw_data)
    );

    function automatic is_long(input [1:0] slot);
      is_long = KEY256 != 0 && (KEY128 == 0 || slot == 2'd0 || slot == 2'd2);
    endfunction

    task write_keys(input [1:0] slot, input tweak);
      logic [1919:0] keys;
      int            rounds;
      keys   = is_long(slot) ? longs[{tweak, slot}] : shorts[{tweak, slot}];
      rounds = is_long(slot) ? 14 : 10;
      for (int j = 0; j <= rounds; j = j + 1) begin
        for (int dec = 0; dec < (tweak ? 1 : 2); dec = dec + 1) begin
          @(negedge clk);
          kw_valid = 1'b1;
          kw_kind  = tweak ? luxor_pkg::KIND_TWEAK
                   : dec != 0 ? luxor_pkg::KIND_DEC : luxor_pkg::KIND_ENC;
          kw_slot  = slot;
          kw_round = 4'(j == 0 ? 0 : j + ROUNDS - rounds);
          kw_data  = dec != 0 ? inverse_key(keys, is_long(slot), j) : keys[128*j +: 128];
        end
      end
    endtask

    logic [127:0] expected [0:BLOCKS-1];
    logic [1919:0] keys;
    initial begin
      for (int p = 1; p <= 2; p = p + 1) begin
        while (pass != p) @(negedge clk);
        for (int slot = p == 1 ? 0 : 3; slot < 4; slot = slot + 1) begin
          write_keys(slot[1:0], 1'b1);
          write_keys(slot[1:0], 1'b0);
        end
        @(negedge clk);
        kw_valid = 1'b0;
        for (int n = 0; n < BLOCKS + LATENCY; n = n + 1) begin
          @(negedge clk);
          if (n >= LATENCY && out_block !== (expected[n-LATENCY] ^ out_add)) begin
            $display("cipher %0d, sizes %0d%0d, form %0d, stages %0d, block %0d: %h, expected %h", CIPHER,
                     KEY256, KEY128, SBOX, STAGES, n - LATENCY, out_block, expected[n-LATENCY] ^ out_add);
            $fatal;
          end
          out_add = random_block();
          if (n < BLOCKS) begin
            in_block   = blocks[n];
            in_inverse = CIPHER == luxor_pkg::CIPHER_DEC
                       || (CIPHER == luxor_pkg::CIPHER_BOTH && inverses[n]);
            in_key     = {
              in_inverse ? luxor_pkg::KIND_DEC
              : tweaks[n] ? luxor_pkg::KIND_TWEAK : luxor_pkg::KIND_ENC, slots[n]
            };
            in_short   = !is_long(slots[n]);
            keys       = in_short ? shorts[{tweaks[n] && !in_inverse, slots[n]}]
                                  : longs[{tweaks[n] && !in_inverse, slots[n]}];
            expected[n] = aes_cipher(keys, !in_short, in_inverse, blocks[n]);
          end else begin
            in_block = 128'hx;
            in_key   = 4'hx;
          end
        end
        finished = finished + 1;
      end
    end
  end

  logic [255:0] key;
  initial begin
    prepare;
    for (int i = 0; i < 8; i = i + 1) begin
      key       = i < 2 ? C_KEY : {random_block(), random_block()};
      longs[i]  = expand(key, 1'b1);
      shorts[i] = expand(key, 1'b0);
    end
    if (aes_cipher(longs[0], 1'b1, 1'b0, block_of(C_PLAIN)) !== block_of(C_256)) $fatal;
    if (aes_cipher(shorts[0], 1'b0, 1'b0, block_of(C_PLAIN)) !== block_of(C_128)) $fatal;
    if (aes_cipher(longs[0], 1'b1, 1'b1, block_of(C_256)) !== block_of(C_PLAIN)) $fatal;
    if (aes_cipher(shorts[0], 1'b0, 1'b1, block_of(C_128)) !== block_of(C_PLAIN)) $fatal;
    for (int n = 0; n < BLOCKS; n = n + 1) begin
      blocks[n]   = n < 2 ? block_of(C_PLAIN) : n == 2 ? block_of(C_256)
                  : n == 3 ? block_of(C_128) : random_block();
      slots[n]    = n < 4 ? {1'b0, n[0]} : 2'($urandom);
      tweaks[n]   = n < 4 ? 1'b0 : 1'($urandom);
      inverses[n] = n < 4 ? n[1] : 1'($urandom);
    end
    pass = 1;
    while (finished != BUILDS) @(negedge clk);
    for (int i = 3; i < 8; i = i + 4) begin
      key       = {random_block(), random_block()};
      longs[i]  = expand(key, 1'b1);
      shorts[i] = expand(key, 1'b0);
    end
    pass = 2;
    while (finished != 2 * BUILDS) @(negedge clk);
    $display("PASS aes_pipe");
    $finish;
  end
endmodule

`default_nettype wire
