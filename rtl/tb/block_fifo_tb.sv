// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests block_fifo, full and empty, with random pushes and pops. No entry may be lost, duplicated
// or out of order. An entry must become visible three cycles after its push, `more` must be right,
// and a stream must pass without a gap.
`default_nettype none

module block_fifo_tb;
  localparam int DEPTH_LOG2 = 4;

  logic clk = 1'b0;
  initial forever #5 clk = !clk;
  logic rst = 1'b1;
  logic push = 1'b0, pop = 1'b0;
  wire room, valid, more;
  wire [127:0] head;

  function automatic [127:0] entry(input int n);
    entry = {32'(n), ~32'(n), 32'(n * 7919), 32'(n) ^ 32'h5a5a5a5a};
  endfunction

  int pushed = 0, popped = 0;
  block_fifo #(
      .WIDTH(128), .DEPTH_LOG2(DEPTH_LOG2)
  ) dut (
      .clk(clk), .rst(rst), .room(room), .push(push), .push_data(push ? entry(pushed) : 128'hx),
      .pop(pop), .valid(valid), .more(more), .head(head)
  );

  // The number of entries pushed at least one, two and three cycles ago.
  int old1 = 0, old2 = 0, old3 = 0;
  bit had_more = 1'b0;
  int streamed = 0;
  int often_push, often_pop;

  initial begin
    @(negedge clk);
    @(negedge clk);
    rst = 1'b0;
    for (int n = 0; n < 60000; n++) begin
      @(negedge clk);
      if (n % 1000 == 0) begin
        often_push = 32'($urandom % 4);
        often_pop  = 32'($urandom % 4);
      end
      // The counts as of the last edge.
      old3 = old2;
      old2 = old1;
      old1 = pushed;
      if (valid !== (old3 > popped))
        $fatal(1, "%0d: valid %b, popped %0d of %0d", n, valid, popped, old3);
      if (valid && head !== entry(popped)) $fatal(1, "%0d: %h, expected %h", n, head, entry(popped));
      if (had_more && !valid) $fatal(1, "%0d: not valid after more", n);
      if (old1 - popped > (1 << DEPTH_LOG2)) $fatal(1, "%0d: room in a full queue", n);
      if (often_push == 3 && often_pop == 3 && n % 1000 > 10 && !valid)
        $fatal(1, "%0d: gap in the stream", n);
      if (valid && often_push == 3 && often_pop == 3) streamed = streamed + 1;
      push = room && 32'($urandom % 4) <= often_push && (often_push != 0 || n % 8 == 0);
      pop  = valid && 32'($urandom % 4) <= often_pop && (often_pop != 0 || n % 8 == 0);
      if (often_push == 3) push = room;
      if (often_pop == 3) pop = valid;
      #1;
      had_more = pop && more;
      @(posedge clk);
      #1;
      if (push) pushed = pushed + 1;
      if (pop) popped = popped + 1;
    end
    if (popped < 10000 || streamed < 500)
      $fatal(1, "too few entries: %0d popped, %0d in streams", popped, streamed);
    $display("PASS block_fifo");
    $finish;
  end
endmodule

`default_nettype wire
