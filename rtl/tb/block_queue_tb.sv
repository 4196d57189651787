// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests block_queue, full and empty, with random pushes and pops: each entry comes in the third
// cycle after that of its pop, and `data` is zero in all other cycles.
`default_nettype none

module block_queue_tb;
  localparam int DEPTH_LOG2 = 5;

  logic clk = 1'b0;
  initial forever #5 clk = !clk;
  logic rst = 1'b1;
  logic push = 1'b0, pop = 1'b0;
  wire [127:0] data;

  function automatic [127:0] entry(input int n);
    entry = {32'(n + 1), ~32'(n), 32'(n * 7919), 32'(n) ^ 32'h5a5a5a5a};
  endfunction

  int pushed = 0, popped = 0, full = 0;
  block_queue #(
      .WIDTH(128), .DEPTH_LOG2(DEPTH_LOG2)
  ) dut (
      .clk(clk), .rst(rst), .push(push), .push_data(push ? entry(pushed) : 128'hx), .pop(pop),
      .data(data)
  );

  logic [127:0] due1 = 128'd0, due2 = 128'd0, due3 = 128'd0;
  int often_push = 0, often_pop = 0, there;

  initial begin
    @(negedge clk);
    @(negedge clk);
    rst = 1'b0;
    @(negedge clk);
    @(negedge clk);
    for (int n = 0; n < 40000; n++) begin
      if (n % 500 == 0) begin
        often_push = 32'($urandom % 5);
        often_pop  = 32'($urandom % 5);
      end
      if (data !== due3) $fatal(1, "%0d: %h, expected %h", n, data, due3);
      there = pushed;
      push = pushed - popped < (1 << DEPTH_LOG2) && 32'($urandom % 4) < often_push;
      pop = popped < there && 32'($urandom % 4) < often_pop;
      if (pushed - popped == (1 << DEPTH_LOG2)) full = full + 1;
      @(posedge clk);
      #1;
      due3 = due2;
      due2 = due1;
      due1 = pop ? entry(popped) : 128'd0;
      if (push) pushed = pushed + 1;
      if (pop) popped = popped + 1;
      @(negedge clk);
    end
    if (popped < 5000 || full < 100)
      $fatal(1, "too few entries: %0d popped, full %0d times", popped, full);
    $display("PASS block_queue");
    $finish;
  end
endmodule

`default_nettype wire
