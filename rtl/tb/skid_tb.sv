// SPDX-License-Identifier: MIT OR Apache-2.0
// Sends numbered words through the slice while both sides, one side or neither side stalls at
// random. Without stalls, one word must pass per cycle. A reset must discard what is inside.
`default_nettype none

module skid_tb;
  logic clk = 1'b0;
  always #5 clk = ~clk;

  logic rst = 1'b1;
  logic in_valid = 1'b0;
  logic out_ready = 1'b0;
  logic [31:0] in_data = '0;
  wire in_ready, out_valid;
  wire [31:0] out_data;
  skid #(.WIDTH(32)) dut (
      .clk(clk), .rst(rst), .in_valid(in_valid), .in_ready(in_ready), .in_data(in_data),
      .out_valid(out_valid), .out_ready(out_ready), .out_data(out_data)
  );

  // Words that the slice has taken, and words that it has sent.
  int sent = 0;
  int received = 0;
  logic held = 1'b0;
  logic [31:0] held_data = '0;
  always @(posedge clk) begin
    if (rst) begin
      sent <= 0;
      received <= 0;
      held <= 1'b0;
    end else begin
      if (in_valid && in_ready) sent <= sent + 1;
      if (out_valid && out_ready) begin
        received <= received + 1;
        if (out_data !== received) $fatal(1, "skid: expected word %0d, got %0d", received, out_data);
      end
      if (held && (out_valid !== 1'b1 || out_data !== held_data))
        $fatal(1, "skid: word %0d changed or vanished before it was taken", received);
      held <= out_valid && !out_ready;
      held_data <= out_data;
    end
    if (^{in_ready, out_valid} === 1'bx && !rst) $fatal(1, "skid: X on in_ready or out_valid");
  end

  // Runs with valid and ready in the given number of 16 cycles.
  task automatic run(input int valid_of_16, input int ready_of_16, input int cycles);
    for (int i = 0; i < cycles; i++) begin
      @(negedge clk);
      // A word that is offered stays until it is taken.
      if (!in_valid || in_data != sent) begin
        in_valid = int'($urandom & 15) < valid_of_16;
        in_data  = in_valid ? sent : 32'hdead;
      end
      out_ready = int'($urandom & 15) < ready_of_16;
    end
  endtask

  int earlier;
  initial begin
    repeat (2) @(negedge clk);
    rst = 1'b0;
    run(8, 8, 2000);
    run(16, 4, 2000);
    run(4, 16, 2000);
    run(16, 16, 10);
    earlier = received;
    run(16, 16, 1000);
    if (received - earlier != 1000)
      $fatal(1, "skid: %0d words in 1000 cycles, expected 1000", received - earlier);
    run(16, 0, 10);
    if (sent - received != 2) $fatal(1, "skid: holds %0d words, expected 2", sent - received);
    rst = 1'b1;
    in_valid = 1'b0;
    repeat (2) @(negedge clk);
    rst = 1'b0;
    @(negedge clk);
    if (out_valid !== 1'b0) $fatal(1, "skid: a word remains after the reset");
    run(16, 0, 4);
    if (out_valid !== 1'b1) $fatal(1, "skid: out_valid waits for out_ready");
    run(12, 12, 2000);
    run(0, 16, 4);
    if (sent != received || sent < 1000)
      $fatal(1, "skid: %0d words in, %0d words out", sent, received);
    $display("PASS skid");
    $finish;
  end
endmodule

`default_nettype wire
