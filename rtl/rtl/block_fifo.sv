// SPDX-License-Identifier: MIT OR Apache-2.0
// A queue in block RAM. Its oldest entry, `head`, is in a register, and the next entry is in
// another register. The RAM behind them has DEPTH - 1 usable places.
//
// An entry becomes visible three cycles after its push. `more` says that after a pop another entry
// is visible in the next cycle. Push only in a cycle with `room`, or if the caller counts the
// entries itself. Pop only when `valid`.
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

  // `pop` comes late in the cycle, so it goes only to the enables of the RAM.
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
      // Up to three more pushes can follow before the missing room is seen, and one place always
      // stays free.
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
