// SPDX-License-Identifier: MIT OR Apache-2.0
// The specification of fifo.sv, as simple as possible: a queue that moves up by one place with each
// pop. FIFO_MODEL is the name of the module. With the name `fifo` it replaces fifo.sv in other
// proofs.
`default_nettype none

module `FIFO_MODEL #(
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
  localparam int DEPTH = 1 << DEPTH_LOG2;

  logic [DEPTH_LOG2:0] count_reg;
  logic [WIDTH*DEPTH-1:0] queue_reg;  // the oldest entry lowest
  assign valid = count_reg != 0;
  assign head  = queue_reg[WIDTH-1:0];

  wire [DEPTH_LOG2:0] left = count_reg - (DEPTH_LOG2 + 1)'(pop);
  always_ff @(posedge clk) begin
    if (rst) count_reg <= '0;
    else count_reg <= left + (DEPTH_LOG2 + 1)'(push);
  end

  wire [WIDTH*(DEPTH+1)-1:0] longer = {{WIDTH{1'b0}}, queue_reg};
  for (genvar k = 0; k < DEPTH; k++) begin : g_place
    always_ff @(posedge clk) begin
      if (push && left == k) queue_reg[WIDTH*k+:WIDTH] <= push_data;
      else if (pop) queue_reg[WIDTH*k+:WIDTH] <= longer[WIDTH*(k+1)+:WIDTH];
    end
  end
endmodule

`default_nettype wire
