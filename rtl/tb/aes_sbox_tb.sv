// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests the S-box of every kind, cipher and number of registers for every input and direction.
`default_nettype none

module aes_sbox_tb;
  import aes_model::*;

  logic       clk = 1'b0;
  logic       inverse = 1'b0;
  logic [7:0] x = 8'd0;
  initial forever #5 clk = !clk;

  // The inputs so far, the newest first.
  logic [8:0] inputs [0:3];

  function automatic [7:0] expected(input [8:0] from, input int cipher);
    if (cipher == luxor_pkg::CIPHER_ENC) expected = sbox[from[7:0]];
    else if (cipher == luxor_pkg::CIPHER_DEC) expected = inv_sbox[from[7:0]];
    else expected = from[8] ? inv_sbox[from[7:0]] : sbox[from[7:0]];
  endfunction

  logic checking = 1'b0;
  for (genvar form = 0; form < 3; form = form + 1) begin : gen_form
    for (genvar cipher = 0; cipher < 3; cipher = cipher + 1) begin : gen_cipher
      for (genvar regs = form == 2 ? 1 : 0; regs < 4; regs = regs + 1) begin : gen_regs
        wire [7:0] y;
        aes_sbox #(.SBOX(form), .CIPHER(cipher), .REGS(regs)) dut (
            .clk(clk), .inverse(inverse), .x(x), .y(y)
        );
        always @(posedge clk) begin
          if (checking && y !== expected(inputs[regs], cipher)) begin
            $display("form %0d, cipher %0d, registers %0d, input %h: %h, expected %h", form, cipher,
                     regs, inputs[regs], y, expected(inputs[regs], cipher));
            $fatal;
          end
        end
      end
    end
  end

  // The S-boxes of a column, which use both ports of a block RAM.
  for (genvar form = 0; form < 3; form = form + 1) begin : gen_word
    wire [31:0] y;
    aes_sub_word #(.SBOX(form), .CIPHER(luxor_pkg::CIPHER_BOTH), .REGS(1)) dut (
        .clk(clk), .inverse(inverse), .x({~x, x ^ 8'h5a, x + 8'd77, x}), .y(y)
    );
    always @(posedge clk) begin
      if (checking) begin
        for (int n = 0; n < 4; n = n + 1) begin
          if (y[8*n +: 8] !== expected({inputs[1][8],
              n == 0 ? inputs[1][7:0] : n == 1 ? inputs[1][7:0] + 8'd77
              : n == 2 ? inputs[1][7:0] ^ 8'h5a : ~inputs[1][7:0]}, 2)) begin
            $display("aes_sub_word, form %0d: wrong byte %0d", form, n);
            $fatal;
          end
        end
      end
    end
  end

  initial begin
    prepare;
    if (sbox[8'h53] !== 8'hed) $fatal;  // FIPS-197, 5.1.1
    for (int i = 0; i < 516 + 1024; i = i + 1) begin
      @(negedge clk);
      {inverse, x} = i < 512 ? i[8:0] : 9'($urandom);
      inputs[3] = inputs[2];
      inputs[2] = inputs[1];
      inputs[1] = inputs[0];
      inputs[0] = {inverse, x};
      checking  = i >= 4;
    end
    $display("PASS aes_sbox");
    $finish;
  end
endmodule

`default_nettype wire
