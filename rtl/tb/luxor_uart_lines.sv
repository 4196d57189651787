// SPDX-License-Identifier: MIT OR Apache-2.0
// The core behind a serial line, for the host program in host_test.py. Standard input has numbers: 0
// to 255 is a byte for the core, 256 a break, and 257 the time of a byte in which nothing is sent.
// After each, it prints the bytes that the core has sent, and a dot.
`default_nettype none

module luxor_uart_lines;
  localparam int BIT_CYCLES = 4;
  localparam int STDIN = 32'h8000_0000;

  logic clk = 1'b0;
  initial forever #5 clk = !clk;
  logic rst = 1'b1, to_fpga = 1'b1;
  wire from_fpga, resting, working;

  luxor_uart #(
      .TWEAK(luxor_pkg::TWEAK_PAPER), .CIPHER(luxor_pkg::CIPHER_ENC), .KEY256(0),
      .SBOX(luxor_pkg::SBOX_T_TABLE), .STAGES(1), .BIT_CYCLES(BIT_CYCLES)
  ) dut (
      .clk(clk), .rst(rst), .rx(to_fpga), .tx(from_fpga), .resting(resting), .working(working)
  );

  logic [7:0] byte_in;
  initial forever begin
    @(negedge from_fpga) #(5 * BIT_CYCLES);
    for (int i = 0; i < 8; i++) #(10 * BIT_CYCLES) byte_in[i] = from_fpga;
    #(10 * BIT_CYCLES) $write("%0d ", byte_in);
  end

  int number;
  initial begin
    repeat (3) @(negedge clk);
    rst = 1'b0;
    while ($fscanf(STDIN, "%d", number) == 1) begin
      if (number < 256) begin
        to_fpga = 1'b0;
        for (int i = 0; i < 8; i++) #(10 * BIT_CYCLES) to_fpga = number[i];
        #(10 * BIT_CYCLES) to_fpga = 1'b1;
        #(10 * BIT_CYCLES);
      end else begin
        to_fpga = number != 256;
        #(120 * BIT_CYCLES) to_fpga = 1'b1;
      end
      $write(".\n");
      $fflush;
    end
    $finish;
  end
endmodule

`default_nettype wire
