// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes block_ram's place in proofs for which its contents are of no account: each word that is
// read is any whatever. What was read stays for as long as block_ram holds it.
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
  wire [WIDTH-1:0] word;  // driven by nothing, so that the solver chooses it in each cycle
  logic [WIDTH-1:0] read_reg, data_reg;
  assign data = data_reg;
  always_ff @(posedge clk) begin
    if (read) read_reg <= word;
    if (move) data_reg <= read_reg;
  end
endmodule

`default_nettype wire
