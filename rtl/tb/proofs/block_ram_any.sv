// SPDX-License-Identifier: MIT OR Apache-2.0
// Replaces block_ram in proofs that do not depend on its contents: each word that is read is
// arbitrary. A word that was read stays as long as in block_ram.
`default_nettype none

module block_ram #(
    parameter int WIDTH = 128,
    parameter int DEPTH_LOG2 = 4
) (
    input  wire                   clk,
    input  wire                   write,
    input  wire  [DEPTH_LOG2-1:0] write_address,
    input  wire  [     WIDTH-1:0] write_data,
    input  wire                   read,
    input  wire  [DEPTH_LOG2-1:0] read_address,
    input  wire                   move,
    output wire  [     WIDTH-1:0] data
);
  wire [WIDTH-1:0] word;  // has no driver, so the solver chooses it in each cycle
  logic [WIDTH-1:0] read_reg, data_reg;
  assign data = data_reg;
  always_ff @(posedge clk) begin
    if (read) read_reg <= word;
    if (move) data_reg <= read_reg;
  end
endmodule

`default_nettype wire
