// SPDX-License-Identifier: MIT OR Apache-2.0
// elmoghany_xts with three pins, for place and route.
`default_nettype none

module elmoghany_xts_pins #(
    parameter int SBOX = luxor_pkg::SBOX_BRAM
) (
    input  wire clk,
    input  wire pin_in,
    input  wire take,
    output wire pin_out
);
  wire rst, start, in_valid, tweak_control, out_valid;
  wire [127:0] key1, key2, in_number, in_data, out_data;

  three_pins #(
      .INPUTS(515), .OUTPUTS(130)
  ) pins (
      .clk(clk), .pin_in(pin_in), .take(take), .pin_out(pin_out),
      .inputs({rst, key1, key2, start, in_number, in_valid, in_data}),
      .outputs({tweak_control, out_valid, out_data})
  );

  elmoghany_xts #(.SBOX(SBOX)) core (.*);
endmodule

`default_nettype wire
