// SPDX-License-Identifier: MIT OR Apache-2.0
// xts_core with three pins, for place and route.
`default_nettype none

module xts_core_pins #(
    parameter int TWEAK  = luxor_pkg::TWEAK_SHARED,
    parameter int CIPHER = luxor_pkg::CIPHER_ENC,
    parameter int KEY128 = 1,
    parameter int KEY256 = 0,
    parameter int SBOX   = luxor_pkg::SBOX_LOGIC,
    parameter int STAGES = 3,
    parameter int LANES  = 1,
    parameter int CTR    = 0
) (
    input  wire clk,
    input  wire pin_in,
    input  wire take,
    output wire pin_out
);
  wire rst, desc_valid, desc_decrypt, in_valid, in_last, out_ready;
  wire key_valid, key_load, key_long;
  wire [127:0] desc_number;
  wire [63:0] desc_stride;
  wire [31:0] desc_unit_len, desc_unit_count;
  wire [7:0] desc_slot, key_slot;
  wire [128*LANES-1:0] in_data;
  wire [255:0] key_data, key_tweak;
  // Without CTR nothing sets the upper bit of the mode.
  localparam int MODE_BITS = CTR != 0 ? 2 : 1;
  wire [MODE_BITS-1:0] mode;
  wire [1:0] desc_mode = 2'(mode);

  wire desc_ready, in_ready, out_valid, out_last, out_error, done_valid, key_ready, key_done;
  wire wiping, busy;
  wire [128*LANES-1:0] out_data;
  wire [16*LANES-1:0] out_keep;
  wire [3:0] done_status, key_result;
  wire [7:0] slot_state;

  three_pins #(
      .INPUTS(793 + MODE_BITS + 128 * LANES), .OUTPUTS(26 + 144 * LANES)
  ) pins (
      .clk(clk), .pin_in(pin_in), .take(take), .pin_out(pin_out),
      .inputs({rst, desc_valid, desc_number, desc_stride, desc_unit_len, desc_unit_count,
               desc_slot, desc_decrypt, mode, in_valid, in_data, in_last, out_ready, key_valid,
               key_load, key_slot, key_long, key_data, key_tweak}),
      .outputs({desc_ready, in_ready, out_valid, out_data, out_keep, out_last, out_error,
                done_valid, done_status, key_ready, key_done, key_result, slot_state, wiping, busy})
  );

  xts_core #(
      .TWEAK(TWEAK), .CIPHER(CIPHER), .KEY128(KEY128), .KEY256(KEY256), .SBOX(SBOX),
      .STAGES(STAGES), .LANES(LANES), .CTR(CTR)
  ) core (.*);
endmodule

`default_nettype wire
