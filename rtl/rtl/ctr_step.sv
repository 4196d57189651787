// SPDX-License-Identifier: MIT OR Apache-2.0
// The counter STEPS (0 to 4) blocks later: y = x + STEPS modulo 2^128 (SP 800-38A, appendix B.1).
//
// There is no carry chain over more than 32 bits. A carry out of the low 32 bits goes at once to the
// parts above that take it: the second part, the third if `ones[0]`, the fourth if `ones[1]`. `ones`
// comes from registers and says that bits 63:32 and bits 95:32 are all ones, in the counter of the
// first block of a unit. It need not follow the counter, since a unit has at most 2^20 blocks: after
// a carry out of the low 32 bits no other comes in the same unit.
`default_nettype none

module ctr_step #(
    parameter int STEPS = 1
) (
    input  wire [127:0] x,
    input  wire [  1:0] ones,
    output wire [127:0] y
);
  if (STEPS == 0) begin : g_wire
    wire unused = &{1'b0, ones};
    assign y = x;
  end else begin : g_add
    wire carry;
    assign {carry, y[31:0]} = {1'b0, x[31:0]} + 33'(STEPS);
    wire [2:0] carries = {ones, 1'b1} & {3{carry}};
    for (genvar p = 0; p < 3; p++) begin : g_part
      wire [31:0] more = x[32*p+32+:32] + 32'd1;
      assign y[32*p+32+:32] = carries[p] ? more : x[32*p+32+:32];
    end
  end
endmodule

`default_nettype wire
