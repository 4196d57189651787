// SPDX-License-Identifier: MIT OR Apache-2.0
// What ctr_step.ys proves: in a unit of up to 2^20 blocks, for every first counter, ctr_step of 0 to 4
// steps adds that many to the counter of each block, modulo 2^128. `ones` belongs to the first
// counter, as in xts_issue.
`default_nettype none

module ctr_step_proof (
    input wire [127:0] first,
    input wire [20:0] block
);
  wire [127:0] x = first + 128'(block);
  wire [1:0] ones = {&first[95:32], &first[63:32]};
  always_comb assume (block < 21'd1 << 20);
  for (genvar steps = 0; steps <= 4; steps = steps + 1) begin : gen_steps
    wire [127:0] y;
    ctr_step #(.STEPS(steps)) step (.x(x), .ones(ones), .y(y));
    always_comb assert (y == x + 128'(steps));
  end
endmodule

`default_nettype wire
