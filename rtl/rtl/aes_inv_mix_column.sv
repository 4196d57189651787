// SPDX-License-Identifier: MIT OR Apache-2.0
// InvMixColumns of one column (FIPS-197, 5.3.3): y_r = 2·(x_r + x_{r+1}) + x_r + 4·(x_r + x_{r+2})
// + 9·(x_0 + x_1 + x_2 + x_3).
`default_nettype none

module aes_inv_mix_column (
    input  wire  [31:0] x,
    output logic [31:0] y
);
  // Doubling shifts bit 7 out of its byte; it is fed back as the polynomial 1b.
  wire [31:0] two  = x ^ {x[7:0], x[31:8]};
  wire [31:0] over = (two >> 7) & 32'h01010101;
  wire [31:0] doubled = ((two << 1) & 32'hfefefefe)
                      ^ over ^ (over << 1) ^ (over << 3) ^ (over << 4);

  // The last two terms are the same for rows 0 and 2, and for rows 1 and 3. The order of the
  // additions gives two levels of LUT6, with few LUTs for a single bit. For that, bits 4 and 1 use
  // `theirs`, which is `mine` plus `sum`, in place of adding sum[7:6] and sum[1] to `mine`, and
  // sum[5] is added to bit 5 only in y.
  wire [15:0] mine   = x[15:0] ^ x[31:16];
  wire [15:0] theirs = {mine[7:0], mine[15:8]};
  wire [7:0]  sum    = x[7:0] ^ x[15:8] ^ x[23:16] ^ x[31:24];
  wire [7:0]  sum_over = {4'd0, sum[7:5], sum[5]};
  wire [7:0]  of_sum = (sum & 8'hdd) ^ ((sum << 3) & 8'he8) ^ sum_over ^ (sum_over << 3);
  wire [15:0] over0 = (mine >> 6) & 16'h0101;
  wire [15:0] over1 = (((theirs >> 1) ^ (theirs >> 6)) ^ ((mine >> 1) ^ (mine >> 7))) & 16'h0101;
  wire [15:0] over2 = (theirs >> 7) & 16'h0101;
  wire [15:0] pair_over = over0 | (over1 << 1) | (over2 << 2);
  wire [15:0] of_pair = ((mine << 2) & 16'hfcfc) ^ (pair_over << 3) ^ pair_over;
  wire [15:0] rest = of_pair ^ {2{of_sum}};
  assign y = doubled ^ x ^ {2{rest}} ^ {4{sum & 8'h20}};
endmodule

`default_nettype wire
