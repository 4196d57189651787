// SPDX-License-Identifier: MIT OR Apache-2.0
// q is d of CYCLES cycles ago; if CYCLES is 0, q is d. There is no reset, so that FPGAs can use
// shift-register LUTs.
`default_nettype none

module delay_line #(
    parameter int WIDTH  = 1,
    parameter int CYCLES = 1
) (
    input  wire              clk,
    input  wire  [WIDTH-1:0] d,
    output logic [WIDTH-1:0] q
);
  if (CYCLES == 0) begin : gen_wire
    wire unused = &{1'b0, clk};
    assign q = d;
  end else if (CYCLES == 1) begin : gen_one
    always_ff @(posedge clk) q <= d;
  end else begin : gen_more
    logic [WIDTH*(CYCLES-1)-1:0] line_reg;
    always_ff @(posedge clk) {q, line_reg} <= {line_reg, d};
  end
endmodule

`default_nettype wire
