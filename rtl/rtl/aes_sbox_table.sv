// SPDX-License-Identifier: MIT OR Apache-2.0
// AES's S-box (FIPS-197, 5.1.1 and 5.3.2) as a table in LUTs: y of x at once. `inverse`
// counts for CIPHER_BOTH only.
`default_nettype none

module aes_sbox_table #(
    parameter int CIPHER = luxor_pkg::CIPHER_ENC
) (
    input  wire        inverse,
    input  wire  [7:0] x,
    output logic [7:0] y
);
  if (CIPHER == luxor_pkg::CIPHER_ENC) begin : gen_enc
    wire unused = &{1'b0, inverse};
    assign y = aes_pkg::SBOX[{~x, 3'd0} +: 8];
  end else if (CIPHER == luxor_pkg::CIPHER_DEC) begin : gen_dec
    wire unused = &{1'b0, inverse};
    assign y = aes_pkg::INVERSE_SBOX[{~x, 3'd0} +: 8];
  end else begin : gen_both
    assign y = inverse ? aes_pkg::INVERSE_SBOX[{~x, 3'd0} +: 8] : aes_pkg::SBOX[{~x, 3'd0} +: 8];
  end
endmodule

`default_nettype wire
