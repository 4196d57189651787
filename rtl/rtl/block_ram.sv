// SPDX-License-Identifier: MIT OR Apache-2.0
// A block RAM with one write port and one read port, and the two output registers that such a RAM
// has: `data` is what `read_address` selected two cycles ago. `read` loads the first register and
// `move` the second. Reading an entry in the cycle in which it is written gives an undefined value.
//
// The second register is inside the RAM if the device has it there. For tools that do not find it
// by themselves, rtl/syn has another version of this module.
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
