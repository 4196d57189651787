// SPDX-License-Identifier: MIT OR Apache-2.0
// What xts_alpha.ys proves for every tweak: xts_alpha of 0 to 8 steps is the multiplication of IEEE
// 1619-2018, 5.2, done that many times.
`default_nettype none

module xts_alpha_proof (
    input wire [127:0] x
);
  // a_{k+1}[i] = 2·(a_k[i] mod 128) + a_k[i-1] / 128 for the bytes a_k[0] to a_k[15], and 135 is
  // added to byte 0 after a carry out of byte 15.
  wire [127:0] a [0:8];
  assign a[0] = x;
  for (genvar k = 0; k < 8; k = k + 1) begin : gen_power
    for (genvar i = 0; i < 16; i = i + 1) begin : gen_byte
      wire [7:0] doubled = {a[k][8*i +: 7], i == 0 ? 1'b0 : a[k][(8*i+127)%128]};
      assign a[k+1][8*i +: 8] = doubled ^ (i == 0 && a[k][127] ? 8'd135 : 8'd0);
    end
  end

  for (genvar steps = 0; steps <= 8; steps = steps + 1) begin : gen_steps
    wire [127:0] y;
    xts_alpha #(.STEPS(steps)) alpha (.x(x), .y(y));
    always_comb assert (y == a[steps]);
  end
endmodule

`default_nettype wire
