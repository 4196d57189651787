// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests aes_enc_round, aes_dec_round and aes_duo_round with each kind of S-box, and aes_t_round, as
// a last round and as another round, with different numbers of registers. Each cycle has a random
// state, key and direction.
// This bench runs only on Icarus, because Verilator takes several times as long to compile it as
// Icarus to run it. The cocotb tests run these modules on Verilator.
`default_nettype none

module aes_round_tb;
  import aes_model::*;

  localparam int STATES = 60;
  localparam int BUILDS = 6;

  logic clk = 1'b0;
  initial forever #5 clk = !clk;

  function automatic [127:0] expected(input [127:0] state, input inverse, input last);
    expected = sub_shift(state, inverse);
    if (!last) expected = mix(expected, inverse);
  endfunction

  function automatic [127:0] swapped(input [127:0] block);
    swapped = {block[63:32], block[95:64], block[127:96], block[31:0]};
  endfunction

  // The order of aes_duo_round: rows.
  function automatic [127:0] rows(input [127:0] block);
    for (int r = 0; r < 4; r = r + 1) begin
      for (int c = 0; c < 4; c = c + 1) rows[32*r+8*c +: 8] = block[32*c+8*r +: 8];
    end
  endfunction

  logic [127:0] states [0:STATES-1];
  logic [127:0] keys [0:STATES-1];
  logic         inverses [0:STATES-1];
  logic         start = 1'b0;
  int           finished = 0;

  // A build is {SBOX, LAST, REGS_ROUND}: two, one and three bits.
  localparam logic [6*BUILDS-1:0] CONFIGS = {
    6'b00_0_001, 6'b00_1_010, 6'b00_0_011, 6'b00_1_100, 6'b01_0_011, 6'b10_0_010
  };
  for (genvar build = 0; build < BUILDS; build = build + 1) begin : gen_build
    localparam logic [5:0] CONFIG = CONFIGS[6*build +: 6];
    localparam int FORM = int'(CONFIG[5:4]);
    localparam int LAST = int'(CONFIG[3]);
    localparam int REGS = int'(CONFIG[2:0]);

    logic         inverse;
    logic [127:0] state;
    logic [127:0] turned_state;
    logic [127:0] duo_state;
    logic [127:0] key;
    logic [127:0] turned_key;
    logic [127:0] duo_key;
    wire  [127:0] enc;
    wire  [127:0] dec;
    wire  [127:0] duo;
    wire  [127:0] t;
    aes_enc_round #(.SBOX(FORM), .REGS_ROUND(REGS), .LAST(LAST)) enc_dut (
        .clk(clk), .state_in(state), .key(key), .state_out(enc)
    );
    aes_dec_round #(.SBOX(FORM), .REGS_ROUND(REGS), .LAST(LAST)) dec_dut (
        .clk(clk), .state_in(state), .key(key), .state_out(dec)
    );
    aes_duo_round #(.SBOX(FORM), .REGS_ROUND(REGS), .LAST(LAST)) duo_dut (
        .clk(clk), .inverse(inverse), .state_in(duo_state), .key(duo_key), .state_out(duo)
    );

    aes_t_round #(.REGS_ROUND(REGS), .LAST(LAST)) t_dut (
        .clk(clk), .inverse(inverse), .state_in(turned_state), .key(turned_key), .state_out(t)
    );

    logic [127:0] forward;
    logic [127:0] backward;
    logic [127:0] either;
    initial begin
      while (!start) @(negedge clk);
      for (int n = 0; n < STATES + REGS; n = n + 1) begin
        @(negedge clk);
        if (n >= REGS) begin
          forward  = expected(states[n-REGS], 1'b0, LAST != 0) ^ keys[n-REGS];
          backward = expected(states[n-REGS], 1'b1, LAST != 0) ^ keys[n-REGS];
          either   = !inverses[n-REGS] ? forward : LAST != 0 ? backward : swapped(backward);
          if (enc !== forward || dec !== backward || duo !== rows(either)
              || t !== either) begin
            $display("form %0d, registers %0d, last %0d, state %0d: wrong result among %h, %h, %h, %h", FORM,
                     REGS, LAST, n - REGS, enc, dec, duo, t);
            $fatal;
          end
        end
        inverse = n < STATES && inverses[n];
        state   = n < STATES ? states[n] : 128'hx;
        turned_state = inverse ? swapped(state) : state;
        duo_state = rows(turned_state);
        // The key is given in the cycle of the last register.
        key     = n >= REGS - 1 ? keys[n-REGS+1] : 128'hx;
        turned_key = n >= REGS - 1 && inverses[n-REGS+1] && LAST == 0 ? swapped(key) : key;
        duo_key = rows(turned_key);
      end
      finished = finished + 1;
    end
  end

  initial begin
    prepare;
    for (int n = 0; n < STATES; n = n + 1) begin
      states[n]   = random_block();
      keys[n]     = random_block();
      inverses[n] = 1'($urandom);
    end
    start = 1'b1;
    while (finished != BUILDS) @(negedge clk);
    $display("PASS aes_round");
    $finish;
  end
endmodule

`default_nettype wire
