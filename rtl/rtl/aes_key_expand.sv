// SPDX-License-Identifier: MIT OR Apache-2.0
// AES's key expansion (FIPS-197, 5.2). After `start`, which is sampled together with `key_long`
// (256-bit key, else 128) and `key` (byte 0 in bits 7:0; the upper half counts for long keys
// only), the round keys come in `rk`, one each two cycles, the first in the next cycle: in the
// cycles with rk_valid, with their number in rk_index, 0 to 14 or 10. `done` is high with the
// last one; after it nothing of the key is left here. `start` while round keys come begins anew.
`default_nettype none

module aes_key_expand #(
    parameter int SBOX = luxor_pkg::SBOX_TABLE
) (
    input  wire          clk,
    input  wire          rst,
    input  wire          start,
    input  wire          key_long,
    input  wire  [255:0] key,
    output logic         rk_valid,
    output logic [3:0]   rk_index,
    output logic [127:0] rk,
    output logic         done
);
  // Each round key is shown in a first cycle, while the S-boxes read its last word, and
  // the next one is made in a second.
  logic         busy_reg, second_reg, long_reg;
  logic [3:0]   index_reg;
  logic [7:0]   rcon_reg;
  logic [127:0] rk_reg;     // the newest round key
  logic [127:0] other_reg;  // long keys: the one before it, at first the one after it

  wire [31:0] sub;
  aes_sub_word #(.SBOX(SBOX), .CIPHER(luxor_pkg::CIPHER_ENC), .REGS(1)) sub_word (
      .clk(clk), .inverse(1'b0), .x(rk_reg[127:96]), .y(sub)
  );

  // With long keys only each second round key has RotWord and Rcon.
  wire         rotate = !long_reg || index_reg[0];
  wire [31:0]  g      = rotate ? {sub[7:0], sub[31:16], sub[15:8] ^ rcon_reg} : sub;
  wire [127:0] base   = long_reg ? other_reg : rk_reg;
  wire [31:0]  w0     = base[31:0] ^ g;
  wire [31:0]  w1     = base[63:32] ^ w0;
  wire [31:0]  w2     = base[95:64] ^ w1;
  wire [31:0]  w3     = base[127:96] ^ w2;
  wire [127:0] rk_new = long_reg && index_reg == 4'd0 ? other_reg : {w3, w2, w1, w0};

  assign rk_valid = busy_reg && !second_reg;
  assign rk_index = index_reg;
  assign rk       = rk_reg;
  assign done     = rk_valid && index_reg == (long_reg ? 4'd14 : 4'd10);

  always_ff @(posedge clk) begin
    if (rst || (done && !start)) begin
      busy_reg   <= 1'b0;
      second_reg <= 1'b0;
      long_reg   <= 1'b0;
      index_reg  <= 4'd0;
      rcon_reg   <= 8'd0;
      rk_reg     <= 128'd0;
      other_reg  <= 128'd0;
    end else if (start) begin
      busy_reg   <= 1'b1;
      second_reg <= 1'b0;
      long_reg   <= key_long;
      index_reg  <= 4'd0;
      rcon_reg   <= 8'd1;
      rk_reg     <= key[127:0];
      other_reg  <= key[255:128];
    end else begin
      second_reg <= rk_valid;
      if (second_reg) begin
        index_reg <= index_reg + 4'd1;
        rk_reg    <= rk_new;
        other_reg <= rk_reg;
        if (rotate) rcon_reg <= {rcon_reg[6:0], 1'b0} ^ (rcon_reg[7] ? 8'h1b : 8'h00);
      end
    end
  end
endmodule

`default_nettype wire
