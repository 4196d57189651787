// SPDX-License-Identifier: MIT OR Apache-2.0
// An arbitrary function of four bits: y is bit x of TABLE.
`default_nettype none

module lut4 #(
    parameter logic [15:0] TABLE = 16'd0
) (
    input  wire  [3:0] x,
    output logic       y
);
  assign y = TABLE[x];
endmodule

`default_nettype wire
