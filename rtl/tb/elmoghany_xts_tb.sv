// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests elmoghany_xts, with S-boxes in block RAM and in LUTs: vectors 1 to 4 of IEEE 1619 (2007,
// annex B), then random units against aes_model. Some follow at once, some later, and some have
// gaps between their blocks. It asserts the cycles of the paper: the first block goes in 22 cycles
// after the data unit number, each block comes out 22 cycles after it went in, and a unit of n blocks
// without gaps takes 22 + n + 22 cycles. A unit that follows at once begins 22 + n cycles later.
// This bench runs only on Icarus, because compiling two pipelines for Verilator takes longer.
`default_nettype none

module elmoghany_xts_tb;
  import aes_model::*;

  localparam int LATENCY = 22;
`ifdef LUXOR_TEST_LONG
  localparam int UNITS = 200;
`else
  localparam int UNITS = 16;
`endif
  localparam int KNOWN = 4;
  localparam int MOST = 32;

  // Vectors 1 to 4: key 1, key 2, the number, and four blocks of ciphertext: the first two and the
  // last two. The plaintext of vectors 1 to 3 is one byte, and that of vector 4 counts from 00.
  localparam logic [7*128*KNOWN-1:0] VECTORS = {
    128'h00000000000000000000000000000000, 128'h00000000000000000000000000000000,
    128'h00000000000000000000000000000000,
    {2{128'h917cf69ebd68b2ec9b9fe9a3eadda692, 128'hcd43d2f59598ed858c02c2652fbf922e}},
    128'h11111111111111111111111111111111, 128'h22222222222222222222222222222222,
    128'h33333333330000000000000000000000,
    {2{128'hc454185e6a16936e39334038acef838b, 128'hfb186fff7480adc4289382ecd6d394f0}},
    128'hfffefdfcfbfaf9f8f7f6f5f4f3f2f1f0, 128'h22222222222222222222222222222222,
    128'h33333333330000000000000000000000,
    {2{128'haf85336b597afc1a900b2eb21ec949d2, 128'h92df4c047e0b21532186a5971a227a89}},
    128'h27182818284590452353602874713526, 128'h31415926535897932384626433832795,
    128'h00000000000000000000000000000000,
    128'h27a7479befa1d476489f308cd4cfa6e2, 128'ha96e4bbe3208ff25287dd3819616e89c,
    128'heb4a427d1923ce3ff262735779a418f2, 128'h0a282df920147beabe421ee5319d0568
  };
  // Item i of vector n.
  function automatic [127:0] vector(input int n, input int i);
    vector = block_of(128'(VECTORS >> (128 * (7 * KNOWN - 1 - (7 * n + i)))));
  endfunction

  logic clk = 1'b0;
  initial forever #5 clk = !clk;
  int cycle = 0;
  always @(posedge clk) cycle <= cycle + 1;

  logic         rst = 1'b1, start = 1'b0, in_valid = 1'b0;
  logic [127:0] key1, key2, in_number, in_data;
  wire  [1:0]   tweak_control, out_valid;
  wire  [255:0] out_data;
  for (genvar form = 0; form < 2; form = form + 1) begin : gen_form
    elmoghany_xts #(
        .SBOX(form == 0 ? luxor_pkg::SBOX_BRAM : luxor_pkg::SBOX_TABLE)
    ) dut (
        .clk(clk), .rst(rst), .key1(key1), .key2(key2), .start(start), .in_number(in_number),
        .tweak_control(tweak_control[form]), .in_valid(in_valid), .in_data(in_data),
        .out_valid(out_valid[form]), .out_data(out_data[128*form +: 128])
    );
  end

  // What must come out, and the cycle in which it must.
  logic [127:0] expected[0:UNITS*MOST-1];
  int due[0:UNITS*MOST-1];
  int went = 0, came = 0, last_out;
  always @(negedge clk) if (!rst) begin
    if (tweak_control[0] !== tweak_control[1] || out_valid[0] !== out_valid[1]) $fatal;
    if (out_valid[0] !== (came < went && due[came] == cycle)) begin
      $fatal(1, "cycle %0d: out_valid is %b", cycle, out_valid[0]);
    end
    if (out_valid[0]) begin
      for (int form = 0; form < 2; form = form + 1) begin
        if (out_data[128*form +: 128] !== expected[came]) begin
          $fatal(1, "form %0d: %h, expected %h", form, out_data[128*form +: 128], expected[came]);
        end
      end
      came     = came + 1;
      last_out = cycle;
    end
  end

  task automatic edge_of_cycle;
    @(posedge clk);
    #1;
  endtask

  // Begins a unit in this cycle and ends in the cycle after its last block.
  task automatic unit(input int n, input int blocks, input logic gaps);
    logic [1919:0] keys1, keys2;
    logic [127:0]  tweak;
    int            begun, gone;
    keys1 = expand({128'd0, key1}, 1'b0);
    keys2 = expand({128'd0, key2}, 1'b0);
    tweak = aes_cipher(keys2, 1'b0, 1'b0, in_number);
    begun = cycle;
    start = 1'b1;
    edge_of_cycle;
    start    = 1'b0;
    // Data that come too early must be ignored.
    in_valid = n[0];
    in_data  = 128'hx;
    while (tweak_control[0]) edge_of_cycle;
    if (cycle - begun != LATENCY) $fatal(1, "the tweak took %0d cycles", cycle - begun);
    in_number = 128'hx;
    key2      = 128'hx;
    gone      = 0;
    while (gone < blocks) begin
      in_valid = !gaps || $urandom % 3 != 0;
      if (n == KNOWN - 1) begin
        for (int i = 0; i < 16; i = i + 1) in_data[8*i +: 8] = 8'(16 * gone + i);
      end else begin
        in_data = n == 0 ? 128'd0 : n < KNOWN ? {16{8'h44}} : random_block();
      end
      if (in_valid) begin
        expected[went] = aes_cipher(keys1, 1'b0, 1'b0, in_data ^ tweak) ^ tweak;
        // The model must agree with the standard.
        if (n < KNOWN && (gone < 2 || gone >= blocks - 2)
            && expected[went] !== vector(n, 3 + gone % 4)) $fatal(1, "vector %0d", n + 1);
        due[went] = cycle + LATENCY;
        went  = went + 1;
        tweak = {tweak[126:0], 1'b0} ^ (tweak[127] ? 128'h87 : 128'h0);
        gone  = gone + 1;
      end else begin
        in_data = 128'hx;
      end
      edge_of_cycle;
    end
    in_valid = 1'b0;
    in_data  = 128'hx;
    if (!gaps && cycle - begun != LATENCY + blocks) $fatal(1, "%0d cycles", cycle - begun);
  endtask

  int begun, blocks;
  logic gaps;
  initial begin
    prepare;
    repeat (3) edge_of_cycle;
    rst = 1'b0;
    for (int n = 0; n < UNITS; n = n + 1) begin
      blocks    = n < KNOWN - 1 ? 2 : n == KNOWN - 1 ? MOST : 1 + $urandom % MOST;
      gaps      = n >= KNOWN && n % 3 == 0;
      key1      = n < KNOWN ? vector(n, 0) : random_block();
      key2      = n < KNOWN ? vector(n, 1) : random_block();
      in_number = n < KNOWN ? vector(n, 2) : random_block();
      begun = cycle;
      unit(n, blocks, gaps);
      // Every second unit follows at once.
      if (n % 2 == 1) begin
        key1 = 128'hx;
        while (came != went) edge_of_cycle;
        if (!gaps && last_out + 1 - begun != LATENCY + blocks + LATENCY) $fatal;
        repeat ($urandom % 8) edge_of_cycle;
      end
    end
    $display("PASS elmoghany_xts");
    $finish;
  end
  initial begin
    #10_000_000;
    $fatal(1, "elmoghany_xts: timeout");
  end
endmodule

`default_nettype wire
