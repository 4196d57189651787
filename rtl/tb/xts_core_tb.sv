// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests xts_core in the builds that differ most, against aes_model.
// This bench runs only on Icarus, because Verilator takes many minutes to compile three cores. The
// cocotb tests run similar builds, with S-boxes in LUTs, on Verilator. Here the S-boxes are T-tables
// unless LUXOR_TEST_LONG is defined: with them Icarus simulates four times as fast.
`default_nettype none

module xts_core_tb;
`ifdef LUXOR_TEST_LONG
  localparam int SBOX = luxor_pkg::SBOX_TABLE;
`else
  localparam int SBOX = luxor_pkg::SBOX_T_TABLE;
`endif

  wire [2:0] finished;

  xts_core_bench #(
      .TWEAK (luxor_pkg::TWEAK_DEDICATED),
      .CIPHER(luxor_pkg::CIPHER_BOTH),
      .KEY256(1),
      .SBOX  (SBOX),
      .CTR   (1)
  ) dedicated (
      .finished(finished[0])
  );
  xts_core_bench #(
      .TWEAK (luxor_pkg::TWEAK_SHARED),
      .CIPHER(luxor_pkg::CIPHER_BOTH),
      .SBOX  (SBOX),
      .LANES (4),
      .CTR   (1),
      .STAGES(1)
  ) shared (
      .finished(finished[1])
  );
  xts_core_bench #(
      .TWEAK (luxor_pkg::TWEAK_PAPER),
      .CIPHER(luxor_pkg::CIPHER_ENC),
      .SBOX  (SBOX)
  ) paper (
      .finished(finished[2])
  );

  initial begin
    wait (finished == '1);
    $display("PASS xts_core");
    $finish;
  end
endmodule

`default_nettype wire
