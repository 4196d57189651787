// SPDX-License-Identifier: MIT OR Apache-2.0
// What aes_t_column.ys proves, in each direction: for a column with any byte in one row and 0 in
// the other three rows, aes_t_column is aes_mix_column or aes_inv_mix_column of the S-boxes of its
// bytes. Both are sums of one function of each byte, so this holds for every column.
`default_nettype none

module aes_t_column_proof (
    input wire       inverse,
    input wire [7:0] x
);
  for (genvar r = 0; r < 4; r = r + 1) begin : gen_row
    wire [31:0] column = {24'd0, x} << (8 * r);
    wire [31:0] y, sub, mixed, unmixed;
    aes_t_column dut (
        .inverse(inverse), .x0(column[7:0]), .x1(column[15:8]), .x2(column[23:16]),
        .x3(column[31:24]), .y(y)
    );
    for (genvar i = 0; i < 32; i = i + 8) begin : gen_byte
      aes_sbox_table #(.CIPHER(luxor_pkg::CIPHER_BOTH)) sbox (
          .inverse(inverse), .x(column[i +: 8]), .y(sub[i +: 8])
      );
    end
    aes_mix_column mix (.x(sub), .y(mixed));
    aes_inv_mix_column inv_mix (.x(sub), .y(unmixed));
    always_comb assert (y == (inverse ? unmixed : mixed));
  end
endmodule

`default_nettype wire
