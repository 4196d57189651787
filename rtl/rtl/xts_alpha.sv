// SPDX-License-Identifier: MIT OR Apache-2.0
// The tweak STEPS (0 to 8) blocks later: y = x·α^STEPS in GF(2^128) with the polynomial α^128 + α^7
// + α^2 + α + 1 (IEEE 1619-2018, 5.2). It is made of wires and a few XORs, without a register.
`default_nettype none

module xts_alpha #(
    parameter int STEPS = 1
) (
    input  wire  [127:0] x,
    output logic [127:0] y
);
  if (STEPS == 0) begin : gen_wire
    assign y = x;
  end else begin : gen_shift
    // The bits that are shifted out are fed back times α^7 + α^2 + α + 1: at most 15 bits.
    wire [15:0] out = {{(16 - STEPS) {1'b0}}, x[127 -: STEPS]};
    wire [15:0] back = {out[8:0], 7'd0} ^ {out[13:0], 2'd0} ^ {out[14:0], 1'b0} ^ out;
    assign y = {x[127-STEPS:0], {STEPS{1'b0}}} ^ {112'd0, back};
  end
endmodule

`default_nettype wire
