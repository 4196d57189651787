// SPDX-License-Identifier: MIT OR Apache-2.0
// 16 words of 128 bits, written on the clock edge and read without a register: the shape of LUT RAM
// in FPGAs.
`default_nettype none

module key_ram (
    input  wire          clk,
    input  wire          we,
    input  wire  [3:0]   write_address,
    input  wire  [127:0] write_data,
    input  wire  [3:0]   read_address,
    output logic [127:0] read_data
);
  (* ram_style = "distributed" *)
  logic [127:0] ram [0:15];

  always_ff @(posedge clk) begin
    if (we) ram[write_address] <= write_data;
  end
  assign read_data = ram[read_address];
endmodule

`default_nettype wire
