// SPDX-License-Identifier: MIT OR Apache-2.0
// A register slice for a stream with valid and ready. Every output comes from a register, so no
// combinational path goes through it in either direction. It takes one word per cycle and has a
// latency of one cycle. A second register takes the word that arrives when out_ready has just
// become 0.
`default_nettype none

module skid #(
    parameter int WIDTH = 1
) (
    input  wire             clk,
    input  wire             rst,
    input  wire             in_valid,
    output wire             in_ready,
    input  wire [WIDTH-1:0] in_data,
    output wire             out_valid,
    input  wire             out_ready,
    output wire [WIDTH-1:0] out_data
);
  logic             ready_reg;
  logic             valid_reg;
  logic [WIDTH-1:0] data_reg;
  logic             second_full_reg;
  logic [WIDTH-1:0] second_reg;

  assign in_ready  = ready_reg;
  assign out_valid = valid_reg;
  assign out_data  = data_reg;

  wire takes = in_valid && ready_reg;
  wire moves = out_ready || !valid_reg;
  wire second_full_new = !moves && (second_full_reg || takes);

  always_ff @(posedge clk) begin
    if (moves) begin
      valid_reg <= second_full_reg || takes;
      data_reg  <= second_full_reg ? second_reg : in_data;
    end
    if (ready_reg) second_reg <= in_data;
    second_full_reg <= second_full_new;
    ready_reg <= !second_full_new;
    if (rst) begin
      ready_reg <= 1'b0;
      valid_reg <= 1'b0;
      second_full_reg <= 1'b0;
    end
  end
endmodule

`default_nettype wire
