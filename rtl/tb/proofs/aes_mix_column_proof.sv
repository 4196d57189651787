// SPDX-License-Identifier: MIT OR Apache-2.0
// What aes_mix_column.ys proves: aes_mix_column and aes_inv_mix_column are linear; for each of the
// 32 columns with one bit they give what FIPS-197, 5.1.3 and 5.3.3, says; and one after the other
// they give back the same column. Because they are linear, this holds for every column.
`default_nettype none

module aes_mix_column_proof (
    input wire [31:0] a,
    input wire [31:0] b
);
  wire [31:0] mix_a, mix_b, mix_sum;
  aes_mix_column of_a (.x(a), .y(mix_a));
  aes_mix_column of_b (.x(b), .y(mix_b));
  aes_mix_column of_sum (.x(a ^ b), .y(mix_sum));
  always_comb assert (mix_sum == (mix_a ^ mix_b));

  wire [31:0] inv_a, inv_b, inv_sum;
  aes_inv_mix_column inv_of_a (.x(a), .y(inv_a));
  aes_inv_mix_column inv_of_b (.x(b), .y(inv_b));
  aes_inv_mix_column inv_of_sum (.x(a ^ b), .y(inv_sum));
  always_comb assert (inv_sum == (inv_a ^ inv_b));

  // Times 2 in the field of AES (FIPS-197, 4.2.1), and times the factors in a row of the matrices.
  function automatic [7:0] doubled(input [7:0] x);
    doubled = {x[6:0], 1'b0} ^ (x[7] ? 8'h1b : 8'h00);
  endfunction
  function automatic [7:0] times(input [3:0] factor, input [7:0] x);
    times = (factor[0] ? x : 8'd0) ^ (factor[1] ? doubled(x) : 8'd0)
          ^ (factor[2] ? doubled(doubled(x)) : 8'd0)
          ^ (factor[3] ? doubled(doubled(doubled(x))) : 8'd0);
  endfunction

  for (genvar i = 0; i < 32; i = i + 1) begin : gen_bit
    wire [31:0] x = 32'd1 << i;
    wire [31:0] mixed, unmixed, there_and_back, back_and_there;
    aes_mix_column mix (.x(x), .y(mixed));
    aes_inv_mix_column inv_mix (.x(x), .y(unmixed));
    aes_inv_mix_column back (.x(mixed), .y(there_and_back));
    aes_mix_column there (.x(unmixed), .y(back_and_there));
    always_comb begin
      assert (there_and_back == x);
      assert (back_and_there == x);
    end
    // The one byte that is not 0 is in row i / 8. The first rows of the matrices are 2 3 1 1 and e
    // b d 9; each other row is the row above, rotated by one place.
    for (genvar r = 0; r < 4; r = r + 1) begin : gen_row
      localparam int PLACE = (i / 8 + 4 - r) % 4;
      wire [7:0] one = 8'd1 << (i % 8);
      always_comb begin
        assert (mixed[8*r +: 8] == times(16'h1132 >> 4 * PLACE, one));
        assert (unmixed[8*r +: 8] == times(16'h9dbe >> 4 * PLACE, one));
      end
    end
  end
endmodule

`default_nettype wire
