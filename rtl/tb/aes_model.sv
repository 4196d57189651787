// SPDX-License-Identifier: MIT OR Apache-2.0
// AES as the text of FIPS-197 describes it, with tables that `prepare` computes from the
// definitions. The benches compare with it, so it shares nothing with the modules. Byte n of a
// block or key is in bits 8n + 7 to 8n.
`default_nettype none

package aes_model;
  // The bytes of a hexadecimal number as a standard prints it, with byte 0 first.
  function automatic [127:0] block_of(input [127:0] printed);
    for (int n = 0; n < 16; n = n + 1) block_of[8*n +: 8] = printed[8*(15-n) +: 8];
  endfunction

  function automatic [7:0] times(input [7:0] a, input [7:0] b);
    reg [7:0] power;
    power = a;
    times = 8'd0;
    for (int i = 0; i < 8; i = i + 1) begin
      if (b[i]) times = times ^ power;
      power = {power[6:0], 1'b0} ^ (power[7] ? 8'h1b : 8'h00);
    end
  endfunction

  // FIPS-197, 5.1.1: the affine map of an inverse, bit by bit.
  function automatic [7:0] affine(input [7:0] v);
    for (int i = 0; i < 8; i = i + 1) begin
      affine[i] = v[i] ^ v[(i+4)%8] ^ v[(i+5)%8] ^ v[(i+6)%8] ^ v[(i+7)%8];
    end
    affine = affine ^ 8'h63;
  endfunction

  reg [7:0] sbox [0:255];
  reg [7:0] inv_sbox [0:255];
  // Column r of MixColumns' matrix (5.1.3) times S(x), and column r of InvMixColumns' matrix
  // (5.3.3) times x. With these, Icarus computes AES twelve times as fast as with single products.
  reg [31:0] mix0 [0:255], mix1 [0:255], mix2 [0:255], mix3 [0:255];
  reg [31:0] unmix0 [0:255], unmix1 [0:255], unmix2 [0:255], unmix3 [0:255];

  // Must be called before the functions below.
  task prepare;
    reg [7:0]  power [0:255];
    reg [31:0] m, u;
    // Every element but 0 is a power of 3, and the inverse of 3^i is 3^(255 - i).
    power[0] = 8'd1;
    for (int i = 1; i < 256; i = i + 1) power[i] = times(power[i-1], 8'd3);
    sbox[0] = affine(8'd0);
    for (int i = 0; i < 255; i = i + 1) sbox[power[i]] = affine(power[255-i]);
    for (int x = 0; x < 256; x = x + 1) begin
      inv_sbox[sbox[x]] = x[7:0];
      m = {times(sbox[x], 8'd3), sbox[x], sbox[x], times(sbox[x], 8'd2)};
      u = {times(x[7:0], 8'hb), times(x[7:0], 8'hd), times(x[7:0], 8'h9), times(x[7:0], 8'he)};
      mix0[x] = m;
      mix1[x] = {m[23:0], m[31:24]};
      mix2[x] = {m[15:0], m[31:16]};
      mix3[x] = {m[7:0], m[31:8]};
      unmix0[x] = u;
      unmix1[x] = {u[23:0], u[31:24]};
      unmix2[x] = {u[15:0], u[31:16]};
      unmix3[x] = {u[7:0], u[31:8]};
    end
  endtask

  // 5.1.2 and 5.3.1: row r moves r columns to the left, or to the right.
  function automatic [127:0] shift_rows(input [127:0] s, input inverse);
    reg [127:0] left, right;
    left  = {s[31:0], s[127:32]};
    right = {s[95:0], s[127:96]};
    shift_rows = (s & {4{32'h000000ff}}) | ((inverse ? right : left) & {4{32'h0000ff00}})
               | ({s[63:0], s[127:64]} & {4{32'h00ff0000}})
               | ((inverse ? left : right) & {4{32'hff000000}});
  endfunction

  function automatic [127:0] sub_bytes(input [127:0] s);
    sub_bytes = {
      sbox[s[127:120]], sbox[s[119:112]], sbox[s[111:104]], sbox[s[103:96]],
      sbox[s[95:88]], sbox[s[87:80]], sbox[s[79:72]], sbox[s[71:64]],
      sbox[s[63:56]], sbox[s[55:48]], sbox[s[47:40]], sbox[s[39:32]],
      sbox[s[31:24]], sbox[s[23:16]], sbox[s[15:8]], sbox[s[7:0]]
    };
  endfunction
  function automatic [127:0] inv_sub_bytes(input [127:0] s);
    inv_sub_bytes = {
      inv_sbox[s[127:120]], inv_sbox[s[119:112]], inv_sbox[s[111:104]], inv_sbox[s[103:96]],
      inv_sbox[s[95:88]], inv_sbox[s[87:80]], inv_sbox[s[79:72]], inv_sbox[s[71:64]],
      inv_sbox[s[63:56]], inv_sbox[s[55:48]], inv_sbox[s[47:40]], inv_sbox[s[39:32]],
      inv_sbox[s[31:24]], inv_sbox[s[23:16]], inv_sbox[s[15:8]], inv_sbox[s[7:0]]
    };
  endfunction

  function automatic [127:0] sub_shift(input [127:0] s, input inverse);
    sub_shift = shift_rows(s, inverse);
    sub_shift = inverse ? inv_sub_bytes(sub_shift) : sub_bytes(sub_shift);
  endfunction

  // MixColumns(SubBytes(s)), and InvMixColumns(s).
  function automatic [127:0] mix_sub(input [127:0] s);
    mix_sub = {
      mix0[s[103:96]] ^ mix1[s[111:104]] ^ mix2[s[119:112]] ^ mix3[s[127:120]],
      mix0[s[71:64]] ^ mix1[s[79:72]] ^ mix2[s[87:80]] ^ mix3[s[95:88]],
      mix0[s[39:32]] ^ mix1[s[47:40]] ^ mix2[s[55:48]] ^ mix3[s[63:56]],
      mix0[s[7:0]] ^ mix1[s[15:8]] ^ mix2[s[23:16]] ^ mix3[s[31:24]]
    };
  endfunction
  function automatic [127:0] unmix(input [127:0] s);
    unmix = {
      unmix0[s[103:96]] ^ unmix1[s[111:104]] ^ unmix2[s[119:112]] ^ unmix3[s[127:120]],
      unmix0[s[71:64]] ^ unmix1[s[79:72]] ^ unmix2[s[87:80]] ^ unmix3[s[95:88]],
      unmix0[s[39:32]] ^ unmix1[s[47:40]] ^ unmix2[s[55:48]] ^ unmix3[s[63:56]],
      unmix0[s[7:0]] ^ unmix1[s[15:8]] ^ unmix2[s[23:16]] ^ unmix3[s[31:24]]
    };
  endfunction

  function automatic [127:0] mix(input [127:0] s, input inverse);
    mix = inverse ? unmix(s) : mix_sub(inv_sub_bytes(s));
  endfunction

  // FIPS-197, 5.2: round key j, 0 to 14 or 0 to 10, is in bits 128j + 127 to 128j.
  function automatic [1919:0] expand(input [255:0] key, input is_long);
    reg [31:0] word;
    reg [7:0]  rcon;
    int        nk;
    nk     = is_long ? 8 : 4;
    rcon   = 8'd1;
    expand = {1664'd0, key};
    for (int i = nk; i < (is_long ? 60 : 44); i = i + 1) begin
      word = expand[32*(i-1) +: 32];
      if (i % nk == 0) word = {word[7:0], word[31:8]};
      if (i % 4 == 0 && (i % nk == 0 || nk == 8)) begin
        for (int n = 0; n < 4; n = n + 1) word[8*n +: 8] = sbox[word[8*n +: 8]];
      end
      if (i % nk == 0) begin
        word = word ^ {24'd0, rcon};
        rcon = times(rcon, 8'd2);
      end
      expand[32*i +: 32] = expand[32*(i-nk) +: 32] ^ word;
    end
    if (!is_long) expand = {512'd0, expand[1407:0]};
  endfunction

  // FIPS-197, 5.1 and 5.3 (the inverse cipher, not the equivalent inverse cipher).
  function automatic [127:0] aes_cipher(
      input [1919:0] keys, input is_long, input inverse, input [127:0] block
  );
    int rounds;
    rounds = is_long ? 14 : 10;
    if (inverse) begin
      aes_cipher = block ^ keys[128*rounds +: 128];
      for (int j = rounds - 1; j >= 0; j = j - 1) begin
        aes_cipher = sub_shift(aes_cipher, 1'b1) ^ keys[128*j +: 128];
        if (j > 0) aes_cipher = unmix(aes_cipher);
      end
    end else begin
      aes_cipher = block ^ keys[127:0];
      for (int j = 1; j <= rounds; j = j + 1) begin
        if (j < rounds) aes_cipher = mix_sub(shift_rows(aes_cipher, 1'b0));
        else aes_cipher = sub_shift(aes_cipher, 1'b0);
        aes_cipher = aes_cipher ^ keys[128*j +: 128];
      end
    end
  endfunction

  // FIPS-197, 5.3.5: key j of the equivalent inverse cipher.
  function automatic [127:0] inverse_key(input [1919:0] keys, input is_long, input int j);
    int rounds;
    rounds      = is_long ? 14 : 10;
    inverse_key = keys[128*(rounds-j) +: 128];
    if (j > 0 && j < rounds) inverse_key = unmix(inverse_key);
  endfunction

  function automatic [127:0] random_block();
    random_block = {$urandom, $urandom, $urandom, $urandom};
  endfunction
endpackage

`default_nettype wire
