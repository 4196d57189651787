// SPDX-License-Identifier: MIT OR Apache-2.0
// What InvMixColumns adds to a column before MixColumns: y_r = 4·(x_r + x_{r+2}).
`default_nettype none

module aes_inv_mix_extra (
    input  wire  [31:0] x,
    output logic [31:0] y
);
  // The sums of rows 0 and 2 and of rows 1 and 3, and four times each.
  wire [15:0] sum = x[15:0] ^ x[31:16];
  wire [15:0] quad;
  for (genvar i = 0; i < 16; i = i + 8) begin : gen_quad
    wire [7:0] byte_sum = sum[i +: 8];
    assign quad[i +: 8] = {byte_sum[5:0], 2'd0} ^ (byte_sum[6] ? 8'h1b : 8'h00)
                        ^ (byte_sum[7] ? 8'h36 : 8'h00);
  end
  assign y = {quad, quad};
endmodule

`default_nettype wire
