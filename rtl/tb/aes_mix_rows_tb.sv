// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests aes_mix_rows in both directions, with every single bit and with random states.
`default_nettype none

module aes_mix_rows_tb;
  import aes_model::*;

  logic         inverse;
  logic [127:0] x;
  wire  [127:0] y;
  aes_mix_rows dut (
      .inverse(inverse), .x01(x[63:0]), .x23(x[127:64]), .y01(y[63:0]), .y23(y[127:64])
  );

  // Turns columns into rows, and rows into columns.
  function automatic [127:0] transposed(input [127:0] block);
    for (int r = 0; r < 4; r = r + 1) begin
      for (int c = 0; c < 4; c = c + 1) transposed[32*r+8*c +: 8] = block[32*c+8*r +: 8];
    end
  endfunction

  initial begin
    prepare;
    for (int i = 0; i < 2000; i = i + 1) begin
      inverse = i[0];
      x = i < 256 ? 128'd1 << (i / 2) : {$urandom, $urandom, $urandom, $urandom};
      #5;
      if (transposed(y) !== mix(transposed(x), inverse)) begin
        $display("inverse %0d of %h: wrong result %h", inverse, x, y);
        $fatal;
      end
    end
    $display("PASS aes_mix_rows");
    $finish;
  end
endmodule

`default_nettype wire
