// SPDX-License-Identifier: MIT OR Apache-2.0
// What InvMixColumns adds to a column before MixColumns: y_r = 4·(x_r + x_{r+2}).
`default_nettype none

module aes_inv_mix_extra (
    input  wire  [31:0] x,
    output logic [31:0] y
);
  // The sums of rows 0 and 2 and of rows 1 and 3, both twice, and four times each byte.
  wire [31:0] sum  = x ^ {x[15:0], x[31:16]};
  wire [31:0] bit6 = (sum >> 6) & 32'h01010101;
  wire [31:0] bit7 = (sum >> 7) & 32'h01010101;
  wire [31:0] high = bit6 ^ (bit7 << 1);
  assign y = ((sum << 2) & 32'hfcfcfcfc) ^ high ^ (high << 1) ^ (high << 3) ^ (high << 4);
endmodule

`default_nettype wire
