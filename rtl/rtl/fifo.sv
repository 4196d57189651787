// SPDX-License-Identifier: MIT OR Apache-2.0
// A queue in distributed RAM that shows its oldest entry.
//
// `head` is the oldest entry if `valid`. The module that pushes must itself count the room: a push
// into a full queue and a pop from an empty one are errors in the design. An entry becomes visible
// one cycle after its push.
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
  localparam int DEPTH = 1 << DEPTH_LOG2;
  logic [DEPTH-1:0] more_reg;  // bit k: there are more than k entries

  assign valid = more_reg[0];
  assign head  = ram[read_reg];

  always_ff @(posedge clk) begin
    if (push) ram[write_reg] <= push_data;
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      write_reg <= '0;
      read_reg  <= '0;
      more_reg  <= '0;
    end else begin
      if (push) write_reg <= write_reg + 1'b1;
      if (pop) read_reg <= read_reg + 1'b1;
      if (push && !pop) more_reg <= {more_reg[DEPTH-2:0], 1'b1};
      else if (pop && !push) more_reg <= {1'b0, more_reg[DEPTH-1:1]};
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk) begin
    if (!rst && push && !pop && more_reg[DEPTH-1]) $fatal(1, "fifo: push into a full queue");
    if (!rst && pop && !valid) $fatal(1, "fifo: pop from an empty queue");
  end
`endif
endmodule

`default_nettype wire
