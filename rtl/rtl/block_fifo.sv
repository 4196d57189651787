// SPDX-License-Identifier: MIT OR Apache-2.0
// A queue in block RAM whose oldest entry, `head`, lies in a register, and the next one in
// another. One of DEPTH - 1 places behind them.
//
// An entry is seen three cycles after its push; `more` says that another one will be seen in the
// cycle after a pop. Nothing may be pushed but in a cycle with `room`, or by one who counts, and
// nothing popped that is not `valid`.
`default_nettype none

module block_fifo #(
    parameter int WIDTH = 128,
    parameter int DEPTH_LOG2 = 4
) (
    input  wire              clk,
    input  wire              rst,
    output wire              room,
    input  wire              push,
    input  wire  [WIDTH-1:0] push_data,
    input  wire              pop,
    output wire              valid,
    output wire              more,
    output wire  [WIDTH-1:0] head
);
  logic [DEPTH_LOG2-1:0] write_reg, read_reg;
  logic [DEPTH_LOG2:0] count_reg;  // in the RAM
  logic read_valid_reg, valid_reg, room_reg, pushed_reg, advanced_reg;

  assign room  = room_reg;
  assign valid = valid_reg;
  assign more  = read_valid_reg;

  // A pop, which is known late, goes to the RAM's enables only.
  wire moving = !valid_reg || pop;
  wire reading = !read_valid_reg || moving;
  wire there = read_reg != write_reg;
  block_ram #(
      .WIDTH(WIDTH),
      .DEPTH_LOG2(DEPTH_LOG2)
  ) ram (
      .clk,
      .write(push),
      .write_address(write_reg),
      .write_data(push_data),
      .read(reading),
      .read_address(read_reg),
      .move(moving),
      .data(head)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      write_reg <= '0;
      read_reg <= '0;
      count_reg <= '0;
      pushed_reg <= 1'b0;
      advanced_reg <= 1'b0;
      read_valid_reg <= 1'b0;
      valid_reg <= 1'b0;
      room_reg <= 1'b0;
    end else begin
      if (push) write_reg <= write_reg + 1'b1;
      if (reading && there) read_reg <= read_reg + 1'b1;
      if (reading) read_valid_reg <= there;
      if (moving) valid_reg <= read_valid_reg;
      pushed_reg <= push;
      advanced_reg <= reading && there;
      count_reg <= count_reg
          + {{DEPTH_LOG2{advanced_reg && !pushed_reg}}, advanced_reg != pushed_reg};
      // Three pushes come before it is seen that there is no room, and one place stays free.
      room_reg <= count_reg < (DEPTH_LOG2 + 1)'((1 << DEPTH_LOG2) - 4);
    end
  end

`ifndef SYNTHESIS
  wire [DEPTH_LOG2-1:0] write_next = write_reg + 1'b1;
  always_ff @(posedge clk) begin
    if (!rst && push && write_next == read_reg) $fatal(1, "block_fifo: push into a full queue");
    if (!rst && pop && !valid_reg) $fatal(1, "block_fifo: pop from an empty queue");
  end
`endif
endmodule

`default_nettype wire
