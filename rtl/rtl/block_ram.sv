// SPDX-License-Identifier: MIT OR Apache-2.0
// A block RAM with one port to write and one to read, and the two registers that such a RAM has
// on its way out: `data` is what `read_address` had in the last cycle but one. The first is
// loaded with `read`, the second with `move`. What is read of an entry in the cycle in which it is
// written is not defined.
//
// The second lies in the RAM where the device has it there: rtl/syn has this module for those
// whose tools do not see it.
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
  (* ram_style = "block", no_rw_check *)
  logic [WIDTH-1:0] words[0:(1<<DEPTH_LOG2)-1];
  logic [WIDTH-1:0] read_reg, data_reg;
  assign data = data_reg;

  always_ff @(posedge clk) begin
    if (write) words[write_address] <= write_data;
    if (read) read_reg <= words[read_address];
    if (move) data_reg <= read_reg;
  end
endmodule

`default_nettype wire
