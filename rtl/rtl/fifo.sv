// SPDX-License-Identifier: MIT OR Apache-2.0
// A queue in distributed RAM whose head can be seen.
//
// `head` is the oldest entry when `valid`. Who pushes counts the room himself: a push into
// a full queue and a pop from an empty one are errors of the design. An entry is seen one
// cycle after its push.
`default_nettype none

module fifo #(
    parameter int WIDTH = 8,
    parameter int DEPTH_LOG2 = 4
) (
    input  wire              clk,
    input  wire              rst,
    input  wire              push,
    input  wire  [WIDTH-1:0] push_data,
    input  wire              pop,
    output wire              valid,
    output wire  [WIDTH-1:0] head
);
  logic [WIDTH-1:0] ram[0:(1<<DEPTH_LOG2)-1];
  logic [DEPTH_LOG2-1:0] write_reg, read_reg;
  logic [DEPTH_LOG2:0] count_reg;
  logic valid_reg;

  assign valid = valid_reg;
  assign head  = ram[read_reg];

  always_ff @(posedge clk) begin
    if (push) ram[write_reg] <= push_data;
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      write_reg <= '0;
      read_reg  <= '0;
      count_reg <= '0;
      valid_reg <= 1'b0;
    end else begin
      if (push) write_reg <= write_reg + 1'b1;
      if (pop) read_reg <= read_reg + 1'b1;
      if (push && !pop) begin
        count_reg <= count_reg + 1'b1;
        valid_reg <= 1'b1;
      end else if (pop && !push) begin
        count_reg <= count_reg - 1'b1;
        valid_reg <= count_reg != 1;
      end
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk) begin
    if (!rst && push && !pop && count_reg[DEPTH_LOG2]) $fatal(1, "fifo: push into a full queue");
    if (!rst && pop && !valid_reg) $fatal(1, "fifo: pop from an empty queue");
  end
`endif
endmodule

`default_nettype wire
