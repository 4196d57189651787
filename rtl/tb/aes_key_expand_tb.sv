// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests aes_key_expand with each kind of S-box: the last words of FIPS-197, appendices A.1 and A.3,
// and random keys, with the next start at once, later, or in the middle of another key. A round key
// must come every sixteen cycles, and nothing may be left after the last one.
`default_nettype none

module aes_key_expand_tb;
  import aes_model::*;

  // FIPS-197, appendix A: the keys, and round keys 10 and 14.
  localparam logic [127:0] A1_KEY = 128'h2b7e1516_28aed2a6_abf71588_09cf4f3c;
  localparam logic [127:0] A1_LAST = 128'hd014f9a8_c9ee2589_e13f0cc8_b6630ca6;
  localparam logic [127:0] A3_LOW = 128'h603deb10_15ca71be_2b73aef0_857d7781;
  localparam logic [127:0] A3_HIGH = 128'h1f352c07_3b6108d7_2d9810a3_0914dff4;
  localparam logic [127:0] A3_LAST = 128'hfe4890d1_e6188d0b_046df344_706c631e;

  logic         clk = 1'b0;
  logic         rst = 1'b1;
  logic         start = 1'b0;
  logic         key_long = 1'b0;
  logic [255:0] key = 256'd0;
  logic [255:0] key_words = 256'd0;  // of the key that is being expanded
  initial forever #5 clk = !clk;

  // The cycles since the start, and the round keys that must come.
  int            cycle = -1;
  logic          running_long;
  logic [1919:0] keys;
  wire  [31:0]   last = running_long ? 32'd14 : 32'd10;

  for (genvar form = 0; form < 3; form = form + 1) begin : gen_form
    wire         rk_valid;
    wire [3:0]   rk_index;
    wire [127:0] rk;
    wire         done;
    wire         word_valid;
    wire [2:0]   word_index;
    // The words of the key are requested one cycle ahead; words that do not exist are X.
    logic [31:0] word;
    always @(posedge clk) word <= 32'(key_words >> (32 * word_index));
    aes_key_expand #(.SBOX(form)) dut (
        .clk(clk), .rst(rst), .start(start), .key_long(key_long),
        .word_index(word_index), .word(word), .word_valid(word_valid), .rk_valid(rk_valid), .rk_index(rk_index), .rk(rk), .done(done)
    );
    // Checks before the next start is set.
    always @(posedge clk) if (!rst) begin
      if (cycle < 0 || cycle > 16 * last + 17) begin
        if (word_valid !== 1'b0 || rk_valid !== 1'b0 || done !== 1'b0) $fatal;
        if (dut.window_reg !== '0) $fatal;
      end else begin
        // One word every four cycles, from cycle 4 on; a round key with every fourth word.
        if (word_valid !== (cycle % 4 == 0 && cycle != 0)) $fatal;
        if (rk_valid !== (cycle % 16 == 0 && cycle != 0)) $fatal;
        if (done !== (cycle == 16 * last + 16)) $fatal;
        if (word_valid && rk[127:96] !== keys[32*(cycle/4-1) +: 32]) begin
          $display("form %0d, word %0d: %h, expected %h", form, cycle / 4 - 1, rk[127:96],
                   keys[32*(cycle/4-1) +: 32]);
          $fatal;
        end
        if (cycle >= 16 && cycle % 16 < 2) begin
          if (rk !== keys[128*(cycle/16-1) +: 128]) begin
            $display("form %0d, round key %0d of %0d: %h, expected %h", form, cycle / 16 - 1, last, rk,
                     keys[128*(cycle/16-1) +: 128]);
            $fatal;
          end
          if (rk_valid && rk_index !== 4'(cycle / 16 - 1)) $fatal;
        end
      end
    end
  end

  int wait_cycles;
  initial begin
    prepare;
    @(negedge clk);
    @(negedge clk);
    rst = 1'b0;
    for (int i = 0; i < 60; i = i + 1) begin
      start    = 1'b1;
      key      = i == 0 ? {random_block(), block_of(A1_KEY)}
               : i == 1 ? {block_of(A3_HIGH), block_of(A3_LOW)}
               : {random_block(), random_block()};
      key_long = i < 2 ? i[0] : 1'($urandom);
      @(posedge clk);
      #1;
      keys         = expand(key, key_long);
      running_long = key_long;
      key_words    = key_long ? key : {128'hx, key[127:0]};
      cycle        = 0;
      if (i == 0 && keys[1280 +: 128] !== block_of(A1_LAST)) $fatal;
      if (i == 1 && keys[1792 +: 128] !== block_of(A3_LAST)) $fatal;
      // Sometimes to the end, sometimes not, and sometimes the next start follows at once.
      wait_cycles = i < 2 ? 280 : i % 3 == 0 ? 16 * (key_long ? 15 : 11) : 32'($urandom % 320);
      @(negedge clk);
      start    = 1'b0;
      key      = 256'hx;
      key_long = 1'bx;
      for (int c = 0; c < wait_cycles; c = c + 1) begin
        @(posedge clk);
        #1 cycle = cycle + 1;
        @(negedge clk);
      end
    end
    $display("PASS aes_key_expand");
    $finish;
  end
endmodule

`default_nettype wire
