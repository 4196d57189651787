// SPDX-License-Identifier: MIT OR Apache-2.0
// Receives bytes from an asynchronous serial line: 8 data bits, no parity, a stop bit.
//
// valid   A byte has arrived, `data`, for one cycle.
// broken  A frame had no stop bit: a break, or the two ends have lost each other. Stays 1 until the
//         line is idle again.
`default_nettype none

module uart_rx #(
    parameter int BIT_CYCLES = 25  // cycles of clk in a bit, at least 4
) (
    input  wire        clk,
    input  wire        rst,
    input  wire        rx,
    output wire        valid,
    output wire  [7:0] data,
    output wire        broken
);
  localparam int COUNT_BITS = $clog2(BIT_CYCLES);
  localparam logic [COUNT_BITS-1:0] WHOLE = COUNT_BITS'(BIT_CYCLES - 1);
  // The line is seen two cycles late, in the middle of a bit.
  localparam logic [COUNT_BITS-1:0] HALF = COUNT_BITS'(BIT_CYCLES / 2 - 1);

  logic [1:0] line_reg;
  always_ff @(posedge clk) line_reg <= rst ? 2'b11 : {line_reg[0], rx};
  wire line = line_reg[1];

  logic busy_reg, valid_reg, broken_reg;
  logic [COUNT_BITS-1:0] count_reg;  // cycles until the next bit is sampled
  logic [3:0] bit_reg;               // 0: the start bit; 1 to 8: data; 9: the stop bit
  logic [7:0] data_reg;
  always_ff @(posedge clk) begin
    valid_reg <= 1'b0;
    if (line) broken_reg <= 1'b0;
    if (!busy_reg) begin
      busy_reg  <= !line && !broken_reg;
      count_reg <= HALF;
      bit_reg   <= 4'd0;
    end else if (count_reg != '0) begin
      count_reg <= count_reg - 1'b1;
    end else begin
      count_reg <= WHOLE;
      bit_reg   <= bit_reg + 4'd1;
      case (bit_reg)
        // A start bit that is over too soon was a disturbance.
        4'd0: busy_reg <= !line;
        4'd9: begin
          busy_reg   <= 1'b0;
          valid_reg  <= line;
          broken_reg <= !line;
        end
        default: data_reg <= {line, data_reg[7:1]};
      endcase
    end
    if (rst) begin
      busy_reg   <= 1'b0;
      valid_reg  <= 1'b0;
      broken_reg <= 1'b0;
    end
  end
  assign valid  = valid_reg;
  assign data   = data_reg;
  assign broken = broken_reg;
endmodule

`default_nettype wire
