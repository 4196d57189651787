// SPDX-License-Identifier: MIT OR Apache-2.0
// Sends bytes on an asynchronous serial line: 8 data bits, no parity, a stop bit.
`default_nettype none

module uart_tx #(
    parameter int BIT_CYCLES = 25  // cycles of clk in a bit, at least 4
) (
    input  wire        clk,
    input  wire        rst,
    input  wire        valid,
    output wire        ready,
    input  wire  [7:0] data,
    output wire        tx
);
  localparam int COUNT_BITS = $clog2(BIT_CYCLES);

  logic [8:0] frame_reg;  // what is on the line, in bit 0, and the bits after it
  logic [3:0] left_reg;   // bits that are on the line or wait
  logic [COUNT_BITS-1:0] count_reg;
  assign ready = left_reg == 4'd0;
  assign tx = frame_reg[0];
  always_ff @(posedge clk) begin
    if (ready) begin
      count_reg <= COUNT_BITS'(BIT_CYCLES - 1);
      if (valid) begin
        frame_reg <= {data, 1'b0};
        left_reg  <= 4'd10;
      end
    end else if (count_reg != '0) begin
      count_reg <= count_reg - 1'b1;
    end else begin
      count_reg <= COUNT_BITS'(BIT_CYCLES - 1);
      frame_reg <= {1'b1, frame_reg[8:1]};
      left_reg  <= left_reg - 4'd1;
    end
    if (rst) begin
      frame_reg <= '1;
      left_reg  <= 4'd0;
    end
  end
endmodule

`default_nettype wire
