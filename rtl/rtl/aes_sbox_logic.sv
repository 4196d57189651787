// SPDX-License-Identifier: MIT OR Apache-2.0
// The S-box of AES or its inverse as logic, with REGS (0 to 3) registers from x to y. The registers
// are placed so that about the same number of LUT levels is before each of them, and few are after
// the last one. With CIPHER_BOTH both directions share the inversion, and `inverse` is sampled with
// x.
`default_nettype none

module aes_sbox_logic #(
    parameter int CIPHER = luxor_pkg::CIPHER_ENC,
    parameter int REGS   = 0
) (
    input  wire        clk,
    input  wire        inverse,
    input  wire  [7:0] x,
    output logic [7:0] y
);
  if (CIPHER == luxor_pkg::CIPHER_ENC) begin : gen_enc
    wire unused = &{1'b0, inverse};
    aes_sbox_logic_enc #(.REGS(REGS)) sbox (.clk(clk), .x(x), .y(y));
  end else if (CIPHER == luxor_pkg::CIPHER_DEC) begin : gen_dec
    wire unused = &{1'b0, inverse};
    aes_sbox_logic_dec #(.REGS(REGS)) sbox (.clk(clk), .x(x), .y(y));
  end else begin : gen_both
    // The affine map of FIPS-197, 5.1.1, follows the inversion; its inverse precedes it.
    wire        inverse_out;
    wire  [7:0] inverted;
    delay_line #(.WIDTH(1), .CYCLES(REGS)) line (.clk(clk), .d(inverse), .q(inverse_out));
    aes_sbox_logic_inv #(.REGS(REGS)) inversion (
        .clk(clk),
        .x(inverse ? {x[6:0], x[7]} ^ {x[4:0], x[7:5]} ^ {x[1:0], x[7:2]} ^ 8'h05 : x),
        .y(inverted)
    );
    wire  [7:0] four = {inverted[6:0], inverted[7]} ^ {inverted[5:0], inverted[7:6]}
                     ^ {inverted[4:0], inverted[7:5]} ^ {inverted[3:0], inverted[7:4]} ^ 8'h63;
    assign y = inverted ^ (inverse_out ? 8'd0 : four);
  end
endmodule

`default_nettype wire
