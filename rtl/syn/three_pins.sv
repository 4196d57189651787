// SPDX-License-Identifier: MIT OR Apache-2.0
// Connects a design to three pins, for place and route: the inputs of the design come from a shift
// register and its outputs go into one, so no path of the design ends at a pin.
`default_nettype none

module three_pins #(
    parameter int INPUTS  = 1,
    parameter int OUTPUTS = 1
) (
    input  wire               clk,
    input  wire               pin_in,
    input  wire               take,
    output wire               pin_out,
    output wire [ INPUTS-1:0] inputs,
    input  wire [OUTPUTS-1:0] outputs
);
  logic [INPUTS-1:0] shift_reg, in_reg;
  always_ff @(posedge clk) begin
    shift_reg <= {shift_reg[INPUTS-2:0], pin_in};
    in_reg <= shift_reg;
  end
  assign inputs = in_reg;

  logic [OUTPUTS-1:0] taken_reg, out_reg;
  logic take_reg;
  always_ff @(posedge clk) begin
    take_reg <= take;
    taken_reg <= outputs;
    out_reg <= take_reg ? taken_reg : {out_reg[OUTPUTS-2:0], 1'b0};
  end
  assign pin_out = out_reg[OUTPUTS-1];
endmodule

`default_nettype wire
