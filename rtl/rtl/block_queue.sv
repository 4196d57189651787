// SPDX-License-Identifier: MIT OR Apache-2.0
// A queue in block RAM, for entries whose time of use is known in advance.
//
// `data` is the oldest entry in the third cycle after that of its `pop`, and zero at other times.
// The module that pushes must itself count the room. An entry can be popped from the cycle after
// its push on.
`default_nettype none

module block_queue #(
    parameter int WIDTH = 128,
    parameter int DEPTH_LOG2 = 5
) (
    input  wire              clk,
    input  wire              rst,
    input  wire              push,
    input  wire  [WIDTH-1:0] push_data,
    input  wire              pop,
    output wire  [WIDTH-1:0] data
);
  logic [DEPTH_LOG2-1:0] write_reg, read_reg;
  wire [WIDTH-1:0] moved;
  logic [WIDTH-1:0] data_reg;
  logic idle_reg;
  assign data = data_reg;

  block_ram #(
      .WIDTH(WIDTH),
      .DEPTH_LOG2(DEPTH_LOG2)
  ) ram (
      .clk,
      .write(push),
      .write_address(write_reg),
      .write_data(push_data),
      .read(1'b1),
      .read_address(read_reg),
      .move(1'b1),
      .data(moved)
  );
  // One copy for each half of the entry. The initial values differ, because Yosys would merge the
  // copies otherwise.
  localparam int HALF = WIDTH / 2;
  logic low_idle_reg = 1'b0;
  logic high_idle_reg = 1'b1;
  always_ff @(posedge clk) begin
    low_idle_reg  <= idle_reg;
    high_idle_reg <= idle_reg;
    data_reg[HALF-1:0] <= low_idle_reg ? '0 : moved[HALF-1:0];
    data_reg[WIDTH-1:HALF] <= high_idle_reg ? '0 : moved[WIDTH-1:HALF];
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      write_reg  <= '0;
      read_reg   <= '0;
      idle_reg   <= 1'b1;
    end else begin
      if (push) write_reg <= write_reg + 1'b1;
      if (pop) read_reg <= read_reg + 1'b1;
      idle_reg <= !pop;
    end
  end

`ifndef SYNTHESIS
  logic [DEPTH_LOG2:0] count_reg;
  always_ff @(posedge clk) begin
    if (rst) count_reg <= '0;
    else count_reg <= count_reg + (DEPTH_LOG2 + 1)'(push) - (DEPTH_LOG2 + 1)'(pop);
    if (!rst && push && count_reg[DEPTH_LOG2]) $fatal(1, "block_queue: push into a full queue");
    if (!rst && pop && count_reg == 0) $fatal(1, "block_queue: pop from an empty queue");
  end
`endif
endmodule

`default_nettype wire
