// SPDX-License-Identifier: MIT OR Apache-2.0
// MixColumns or, if INVERSE, InvMixColumns of a column (FIPS-197, 5.1.3 and 5.3.3), and
// AddRoundKey. It is a module of its own so that it is mapped to LUT6 separately: 39 of them, or 63
// if INVERSE.
`default_nettype none

module aes_mix_key #(
    parameter int INVERSE = 0
) (
    input  wire  [31:0] x,
    input  wire  [31:0] key,
    output logic [31:0] y
);
  wire [31:0] mixed;
  if (INVERSE != 0) begin : gen_inverse
    aes_inv_mix_column inv_mix_column (.x(x), .y(mixed));
  end else begin : gen_forward
    aes_mix_column mix_column (.x(x), .y(mixed));
  end
  assign y = mixed ^ key;
endmodule

`default_nettype wire
