// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests the core behind a serial line, as a host uses it: a known answer of IEEE 1619, and a break.
// The core is the smallest one, because the simulation takes many cycles.
// This bench runs only on Icarus, because it tests wires, and compiling the core takes longer.
`default_nettype none

module luxor_uart_tb;
  localparam int BIT_CYCLES = 4;

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

  task automatic put(input logic [7:0] data);
    to_fpga = 1'b0;
    for (int i = 0; i < 8; i++) #(10 * BIT_CYCLES) to_fpga = data[i];
    #(10 * BIT_CYCLES) to_fpga = 1'b1;
    #(10 * BIT_CYCLES);
  endtask

  // The bytes that come, and how many of them were checked.
  logic [7:0] bytes[0:1023];
  int came = 0, checked = 0;
  logic [7:0] byte_in;
  initial forever begin
    @(negedge from_fpga) #(5 * BIT_CYCLES);
    for (int i = 0; i < 8; i++) #(10 * BIT_CYCLES) byte_in[i] = from_fpga;
    #(10 * BIT_CYCLES) bytes[came] = byte_in;
    came = came + 1;
  end
  task automatic expect_bytes(input int count, input logic [143:0] expected);
    for (int i = 0; i < count; i++) begin
      while (came == checked) @(negedge clk);
      if (bytes[checked] !== expected[8*i+:8])
        $fatal(1, "luxor_uart: byte %0d is %h, expected byte %0d of %h", checked, bytes[checked],
               i, expected);
      checked = checked + 1;
    end
  endtask
  task automatic write(input logic [15:0] address, input logic [31:0] data);
    put(8'h02);
    for (int i = 0; i < 2; i++) put(address[8*i+:8]);
    for (int i = 0; i < 4; i++) put(data[8*i+:8]);
    expect_bytes(2, 16'h0082);
  endtask
  task automatic read(input logic [15:0] address, input logic [31:0] expected);
    put(8'h01);
    for (int i = 0; i < 2; i++) put(address[8*i+:8]);
    expect_bytes(6, {expected, 16'h0081});
  endtask
  task automatic beat_in(input logic last, input logic [127:0] data);
    put(8'h03);
    put({last, 7'd0});
    for (int i = 0; i < 16; i++) put(data[8*i+:8]);
    expect_bytes(1, 8'h83);
  endtask
  // The bytes of a printed block, with the first byte in bits 7:0.
  function automatic logic [127:0] block(input logic [127:0] printed);
    for (int i = 0; i < 16; i++) block[8*i+:8] = printed[8*(15-i)+:8];
  endfunction

  initial begin
    repeat (3) @(negedge clk);
    rst = 1'b0;
    expect_bytes(1, 8'h80);
    read(16'h000, 32'h4C58_5453);
    // IEEE 1619, vector 2.
    for (int i = 0; i < 4; i++) write(16'(16'h040 + 4 * i), 32'h1111_1111);
    for (int i = 0; i < 4; i++) write(16'(16'h060 + 4 * i), 32'h2222_2222);
    write(16'h030, 32'h0000_0001);
    write(16'h014, 32'd1);
    write(16'h00C, 32'd1);
    write(16'h800, 32'h3333_3333);
    write(16'h804, 32'h0000_0033);
    for (int i = 2; i < 6; i++) write(16'(16'h800 + 4 * i), 32'd0);
    write(16'h818, 32'd32);
    write(16'h81C, 32'd1);
    write(16'h820, 32'd0);
    read(16'h034, 32'd0);
    read(16'h038, 32'd1);
    beat_in(1'b0, {16{8'h44}});
    beat_in(1'b1, {16{8'h44}});
    write(16'h020, 32'd1);
    expect_bytes(18, {block(128'hc454185e6a16936e39334038acef838b), 16'h1084});
    expect_bytes(18, {block(128'hfb186fff7480adc4289382ecd6d394f0), 16'h9084});
    expect_bytes(1, 8'h85);
    read(16'h024, 32'd1);
    read(16'h83C, 32'h8000_0000);
    // A break empties the slots.
    to_fpga = 1'b0;
    #(120 * BIT_CYCLES) if (!resting) $fatal(1, "luxor_uart: a break is no reset");
    to_fpga = 1'b1;
    expect_bytes(1, 8'h80);
    if (working) $fatal(1, "luxor_uart: the core works after a reset");
    read(16'h038, 32'd0);
    if (came != checked) $fatal(1, "luxor_uart: %0d bytes too many", came - checked);
    $display("PASS luxor_uart");
    $finish;
  end
  initial begin
    #2_000_000;
    $fatal(1, "luxor_uart: timeout; %0d of %0d bytes checked", checked, came);
  end
endmodule

`default_nettype wire
