// SPDX-License-Identifier: MIT OR Apache-2.0
// MixColumns of one column (FIPS-197, 5.1.3): y_r = 2·x_r + 3·x_{r+1} + x_{r+2} + x_{r+3}.
`default_nettype none

module aes_mix_column (
    input  wire  [31:0] x,
    output logic [31:0] y
);
  // Times 2 in each of the four bytes.
  wire [31:0] high   = (x >> 7) & 32'h01010101;
  wire [31:0] double = ((x << 1) & 32'hfefefefe)
                     ^ high ^ (high << 1) ^ (high << 3) ^ (high << 4);
  wire [31:0] triple = double ^ x;
  assign y = double ^ {triple[7:0], triple[31:8]} ^ {x[15:0], x[31:16]} ^ {x[23:0], x[31:24]};
endmodule

`default_nettype wire
