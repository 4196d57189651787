// SPDX-License-Identifier: MIT OR Apache-2.0
// MixColumns (FIPS-197, 5.1.3) or its inverse (5.3.3) of a state stored as four rows of four bytes:
// rows 0 and 1 in x01, with row 0 in the lower half, and rows 2 and 3 in x23. It works on words of
// two rows, which simulate faster than columns.
`default_nettype none

module aes_mix_rows (
    input  wire         inverse,
    input  wire  [63:0] x01,
    input  wire  [63:0] x23,
    output logic [63:0] y01,
    output logic [63:0] y23
);
  localparam logic [63:0] ONES = 64'h01010101_01010101;

  logic [63:0] sum, over, quad, s01, s23, s12, s30, pair01, pair23, carry01, carry23;
  always_comb begin
    // The inverse first adds, to each row, four times the sum of that row and the one two rows
    // below it. This term is the same for rows 0 and 2, and for rows 1 and 3. The bits that are
    // shifted out of a byte (`over`) are fed back as the polynomial 1b.
    s01  = x01;
    s23  = x23;
    sum  = x01 ^ x23;
    over = ((sum >> 6) & ONES) ^ ((sum >> 6) & (ONES << 1));
    over = over ^ (over << 1);
    quad = ((sum << 2) & ~(ONES * 3)) ^ over ^ (over << 3);
    if (inverse) begin
      s01 = s01 ^ quad;
      s23 = s23 ^ quad;
    end

    // y_r = 2·(s_r + s_{r+1}) + s_{r+1} + s_{r+2} + s_{r+3}.
    s12     = {s23[31:0], s01[63:32]};
    s30     = {s01[31:0], s23[63:32]};
    pair01  = s01 ^ s12;
    pair23  = s23 ^ s30;
    carry01 = (pair01 >> 7) & ONES;
    carry23 = (pair23 >> 7) & ONES;
    carry01 = carry01 ^ (carry01 << 1);
    carry23 = carry23 ^ (carry23 << 1);
    y01 = ((pair01 << 1) & ~ONES) ^ carry01 ^ (carry01 << 3) ^ s12 ^ pair23;
    y23 = ((pair23 << 1) & ~ONES) ^ carry23 ^ (carry23 << 3) ^ s30 ^ pair01;
  end
endmodule

`default_nettype wire
