// SPDX-License-Identifier: MIT OR Apache-2.0
// q is the block d of CYCLES (2 to 17) cycles ago. The blocks are in LUT RAM; a line of registers
// would take 128·CYCLES of them.
`default_nettype none

module block_delay #(
    parameter int CYCLES = 4
) (
    input  wire          clk,
    input  wire  [127:0] d,
    output logic [127:0] q
);
  // Each word is read just before it is overwritten, CYCLES - 1 cycles after it was written. Any
  // first place works, so there is no reset.
  logic [3:0] place_reg = 4'd0;
  always_ff @(posedge clk) begin
    place_reg <= place_reg >= 4'(CYCLES - 2) ? 4'd0 : place_reg + 4'd1;
  end

  wire [127:0] oldest;
  key_ram blocks (
      .clk(clk), .we(1'b1), .write_address(place_reg), .write_data(d),
      .read_address(place_reg), .read_data(oldest)
  );
  always_ff @(posedge clk) q <= oldest;
endmodule

`default_nettype wire
