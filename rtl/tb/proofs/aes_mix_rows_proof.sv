// SPDX-License-Identifier: MIT OR Apache-2.0
// What aes_mix_rows.ys proves, in each direction: aes_mix_rows consists only of sums of bits. For
// the state of no bit and for each state of one bit, it gives the same columns as aes_mix_column or
// aes_inv_mix_column. These two are linear as well, so it gives the same for every state.
`default_nettype none

// The synthesised netlist of this module may contain only sums.
module aes_mix_rows_sums (
    input wire [127:0] x,
    output wire [127:0] mixed,
    output wire [127:0] unmixed
);
  aes_mix_rows mix (
      .inverse(1'b0), .x01(x[63:0]), .x23(x[127:64]), .y01(mixed[63:0]), .y23(mixed[127:64])
  );
  aes_mix_rows inv_mix (
      .inverse(1'b1), .x01(x[63:0]), .x23(x[127:64]), .y01(unmixed[63:0]), .y23(unmixed[127:64])
  );
endmodule

module aes_mix_rows_proof;
  for (genvar i = 0; i <= 128; i = i + 1) begin : gen_bit
    wire [127:0] x = 128'd1 << i;
    wire [127:0] mixed, unmixed;
    aes_mix_rows_sums sums (.x(x), .mixed(mixed), .unmixed(unmixed));
    for (genvar c = 0; c < 32; c = c + 8) begin : gen_column
      wire [31:0] column = {x[c+96 +: 8], x[c+64 +: 8], x[c+32 +: 8], x[c +: 8]};
      wire [31:0] mixed_column, unmixed_column;
      aes_mix_column mix (.x(column), .y(mixed_column));
      aes_inv_mix_column inv_mix (.x(column), .y(unmixed_column));
      always_comb begin
        assert (mixed_column
            == {mixed[c+96 +: 8], mixed[c+64 +: 8], mixed[c+32 +: 8], mixed[c +: 8]});
        assert (unmixed_column
            == {unmixed[c+96 +: 8], unmixed[c+64 +: 8], unmixed[c+32 +: 8], unmixed[c +: 8]});
      end
    end
  end
endmodule

`default_nettype wire
