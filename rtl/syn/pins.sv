// SPDX-License-Identifier: MIT OR Apache-2.0
// The core with three pins, for place and route. The inputs come from a shift register and the
// outputs go into one, so no path of the core ends at a pin.
`default_nettype none

module pins #(
    parameter int TWEAK  = luxor_pkg::TWEAK_SHARED,
    parameter int CIPHER = luxor_pkg::CIPHER_ENC,
    parameter int KEY128 = 1,
    parameter int KEY256 = 0,
    parameter int SBOX   = luxor_pkg::SBOX_LOGIC,
    parameter int STAGES = 3,
    parameter int LANES  = 1
) (
    input  wire clk,
    input  wire pin_in,
    input  wire take,
    output wire pin_out
);
  localparam int IN = 1 + 1 + 128 + 64 + 32 + 32 + 8 + 2 + 1 + 128 * LANES + 1 + 1 + 2 + 8 + 1 + 512;
  localparam int OUT = 1 + 1 + 1 + 128 * LANES + 16 * LANES + 2 + 1 + 4 + 1 + 1 + 4 + 8 + 2;

  logic [IN-1:0] shift_reg, in_reg;
  always_ff @(posedge clk) begin
    shift_reg <= {shift_reg[IN-2:0], pin_in};
    in_reg <= shift_reg;
  end

  wire [OUT-1:0] out;
  logic [OUT-1:0] taken_reg, out_reg;
  logic take_reg;
  always_ff @(posedge clk) begin
    take_reg <= take;
    taken_reg <= out;
    out_reg <= take_reg ? taken_reg : {out_reg[OUT-2:0], 1'b0};
  end
  assign pin_out = out_reg[OUT-1];

  wire rst, desc_valid, desc_decrypt, desc_ecb, in_valid, in_last, out_ready;
  wire key_valid, key_load, key_long;
  wire [127:0] desc_number;
  wire [63:0] desc_stride;
  wire [31:0] desc_unit_len, desc_unit_count;
  wire [7:0] desc_slot, key_slot;
  wire [128*LANES-1:0] in_data;
  wire [255:0] key_data, key_tweak;
  assign {rst, desc_valid, desc_number, desc_stride, desc_unit_len, desc_unit_count, desc_slot,
          desc_decrypt, desc_ecb, in_valid, in_data, in_last, out_ready, key_valid, key_load,
          key_slot, key_long, key_data, key_tweak} = in_reg;

  wire desc_ready, in_ready, out_valid, out_last, out_error, done_valid, key_ready, key_done;
  wire wiping, busy;
  wire [128*LANES-1:0] out_data;
  wire [16*LANES-1:0] out_keep;
  wire [3:0] done_status, key_result;
  wire [7:0] slot_state;
  assign out = {desc_ready, in_ready, out_valid, out_data, out_keep, out_last, out_error,
                done_valid, done_status, key_ready, key_done, key_result, slot_state, wiping, busy};

  xts_core #(
      .TWEAK(TWEAK), .CIPHER(CIPHER), .KEY128(KEY128), .KEY256(KEY256), .SBOX(SBOX),
      .STAGES(STAGES), .LANES(LANES)
  ) core (.*);
endmodule

`default_nettype wire
