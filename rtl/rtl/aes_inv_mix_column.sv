// SPDX-License-Identifier: MIT OR Apache-2.0
// InvMixColumns of one column (FIPS-197, 5.3.3). Its matrix is that of MixColumns times one
// with 5, 0, 4, 0 in its first row: each byte gets four times the sum of itself and the byte
// two rows on, then comes MixColumns.
`default_nettype none

module aes_inv_mix_column (
    input  wire  [31:0] x,
    output logic [31:0] y
);
  wire [31:0] extra;
  aes_inv_mix_extra inv_mix_extra (.x(x), .y(extra));
  aes_mix_column mix_column (.x(x ^ extra), .y(y));
endmodule

`default_nettype wire
