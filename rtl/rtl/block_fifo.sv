// SPDX-License-Identifier: MIT OR Apache-2.0
// A queue in block RAM whose oldest entry, `head`, lies in a register. One of DEPTH - 1 places
// behind it.
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
  // An entry is never read in the cycle in which it is written.
  (* ram_style = "block", no_rw_check *)
  logic [WIDTH-1:0] ram[0:(1<<DEPTH_LOG2)-1];
  // What comes out of block RAM comes late: hence the second register.
  logic [WIDTH-1:0] read_data_reg, head_reg;
  logic [DEPTH_LOG2-1:0] write_reg, read_reg;  // read_reg: the entry behind the head
  logic [DEPTH_LOG2:0] count_reg;  // but for the head
  logic read_valid_reg, valid_reg, room_reg, pushed_reg, advanced_reg;

  assign room  = room_reg;
  assign valid = valid_reg;
  assign more  = read_valid_reg;
  assign head  = head_reg;

  // The RAM is read in each cycle, so that a pop, which is known late, goes to the address only.
  wire moving = !valid_reg || pop;
  wire advance = moving && read_valid_reg;
  wire [DEPTH_LOG2-1:0] read_next = read_reg + 1'b1;
  wire [DEPTH_LOG2-1:0] address = advance ? read_next : read_reg;

  always_ff @(posedge clk) begin
    if (push) ram[write_reg] <= push_data;
    read_data_reg <= ram[address];
    if (moving) head_reg <= read_data_reg;
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
      read_reg <= address;
      read_valid_reg <= advance ? read_next != write_reg : read_reg != write_reg;
      valid_reg <= moving ? read_valid_reg : 1'b1;
      pushed_reg <= push;
      advanced_reg <= advance;
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
