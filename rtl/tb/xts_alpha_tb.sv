// SPDX-License-Identifier: MIT OR Apache-2.0
// Compares xts_alpha for 0 to 8 steps with IEEE 1619-2018, 5.2, byte by byte, for each single bit,
// all bits, and random tweaks.
`default_nettype none

module xts_alpha_tb;
  import aes_model::*;

  // a_{k+1}[i] = 2·(a_k[i] mod 128) + a_k[i-1] / 128, and 135 is added to byte 0 after a carry out
  // of byte 15.
  function automatic [127:0] next(input [127:0] a);
    reg carry;
    carry = 1'b0;
    for (int i = 0; i < 16; i = i + 1) begin
      next[8*i +: 8] = {a[8*i +: 7], carry};
      carry          = a[8*i + 7];
    end
    if (carry) next[7:0] = next[7:0] ^ 8'd135;
  endfunction

  function automatic [127:0] after(input [127:0] a, input int steps);
    after = a;
    for (int k = 0; k < steps; k = k + 1) after = next(after);
  endfunction

  logic [127:0] x;
  logic         check = 1'b0;
  for (genvar steps = 0; steps <= 8; steps = steps + 1) begin : gen_steps
    wire [127:0] y;
    xts_alpha #(.STEPS(steps)) dut (.x(x), .y(y));
    always @(posedge check) begin
      if (y !== after(x, steps)) begin
        $display("%0d steps from %h: %h, expected %h", steps, x, y, after(x, steps));
        $fatal;
      end
    end
  end

  initial begin
    for (int i = 0; i < 1000; i = i + 1) begin
      x = i < 128 ? 128'd1 << i : i == 128 ? {128{1'b1}} : random_block();
      #5 check = 1'b1;
      #5 check = 1'b0;
    end
    $display("PASS xts_alpha");
    $finish;
  end
endmodule

`default_nettype wire
