// SPDX-License-Identifier: MIT OR Apache-2.0
// MixColumns of one column (FIPS-197, 5.1.3): y_r = 2·(x_r + x_{r+1}) + x_{r+1} + x_{r+2} + x_{r+3}.
`default_nettype none

module aes_mix_column (
    input  wire  [31:0] x,
    output logic [31:0] y
);
  // Doubling shifts bit 7 out of its byte; it is fed back as the polynomial 1b. In bits 1, 3 and 4,
  // where the feedback adds a term, the other rows are computed as the sum of all four rows, which
  // all rows share, plus x_r.
  localparam logic [31:0] MORE = 32'h1a1a1a1a;
  wire [31:0] two  = x ^ {x[7:0], x[31:8]};
  wire [31:0] over = (two >> 7) & 32'h01010101;
  wire [31:0] doubled = ((two << 1) & 32'hfefefefe)
                      ^ over ^ (over << 1) ^ (over << 3) ^ (over << 4);
  wire [31:0] others  = {x[7:0], x[31:8]} ^ {x[15:0], x[31:16]} ^ {x[23:0], x[31:24]};
  wire [7:0]  sum     = x[7:0] ^ x[15:8] ^ x[23:16] ^ x[31:24];
  assign y = doubled ^ (others & ~MORE) ^ ((x ^ {4{sum}}) & MORE);
endmodule

`default_nettype wire
