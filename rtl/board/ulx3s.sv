// SPDX-License-Identifier: MIT OR Apache-2.0
// The core on a ULX3S with an LFE5U-85F: the serial port of the board's USB connector US1 leads to
// luxor_uart, at 1,000,000 baud. The clock is the board's oscillator of 25 MHz. The pins are in
// ulx3s.lpf, and the parameters are those of luxor_xts.
`default_nettype none

module ulx3s #(
    parameter int TWEAK = luxor_pkg::TWEAK_DEDICATED,
    parameter int CIPHER = luxor_pkg::CIPHER_BOTH,
    parameter int KEY128 = 1,
    parameter int KEY256 = 1,
    parameter int SBOX = luxor_pkg::SBOX_BRAM,
    parameter int STAGES = 2
) (
    input  wire       clk_25mhz,
    input  wire       ftdi_txd,   // from the USB chip to the FPGA
    output wire       ftdi_rxd,   // from the FPGA to the USB chip
    input  wire       fire1,      // a button: resets
    output wire [1:0] led,        // 0: ready; 1: an interrupt or data for the host
    output wire       wifi_gpio0  // 1: the ESP32 leaves the FPGA alone
);
  assign wifi_gpio0 = 1'b1;

  // The registers of an ECP5 are 0 after configuration.
  logic [7:0] up_reg = 8'd0;
  logic [1:0] button_reg = 2'd0;
  logic rst_reg = 1'b1;
  always_ff @(posedge clk_25mhz) begin
    button_reg <= {button_reg[0], fire1};
    if (!(&up_reg)) up_reg <= up_reg + 8'd1;
    rst_reg <= !(&up_reg) || button_reg[1];
  end

  wire resting;
  assign led[0] = !resting;
  luxor_uart #(
      .TWEAK(TWEAK), .CIPHER(CIPHER), .KEY128(KEY128), .KEY256(KEY256), .SBOX(SBOX),
      .STAGES(STAGES), .BIT_CYCLES(25)
  ) luxor_uart (
      .clk(clk_25mhz), .rst(rst_reg), .rx(ftdi_txd), .tx(ftdi_rxd), .resting(resting),
      .working(led[1])
  );
endmodule

`default_nettype wire
