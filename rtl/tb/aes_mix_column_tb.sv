// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests aes_mix_column and aes_inv_mix_column with every single bit and with random columns.
`default_nettype none

module aes_mix_column_tb;
  import aes_model::*;

  logic [31:0] x;
  wire  [31:0] y;
  wire  [31:0] inv_y;
  aes_mix_column dut (.x(x), .y(y));
  aes_inv_mix_column inv_dut (.x(x), .y(inv_y));

  initial begin
    prepare;
    // MixColumns of the first column in FIPS-197, appendix B, round 1.
    x = 32'h305dbfd4;
    #5 if (y !== 32'he5816604) $fatal;
    for (int i = 0; i < 1000; i = i + 1) begin
      x = i < 32 ? 32'd1 << i : $urandom;
      #5;
      if ({96'd0, y} !== mix({96'd0, x}, 1'b0)) begin
        $display("MixColumns of %h: wrong result %h", x, y);
        $fatal;
      end
      if ({96'd0, inv_y} !== mix({96'd0, x}, 1'b1)) begin
        $display("InvMixColumns of %h: wrong result %h", x, inv_y);
        $fatal;
      end
    end
    $display("PASS aes_mix_column");
    $finish;
  end
endmodule

`default_nettype wire
