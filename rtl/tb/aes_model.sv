// SPDX-License-Identifier: MIT OR Apache-2.0
// AES byte by byte, as the text of FIPS-197 describes it. The benches compare with it, so it shares
// nothing with the modules. Byte n of a block or key is in bits 8n + 7 to 8n.
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

  // FIPS-197, 5.1.1: the inverse, found by trial, and then the affine map, bit by bit.
  function automatic [7:0] sbox_of(input [7:0] x);
    reg [7:0] v;
    v = 8'd0;
    for (int i = 1; i < 256; i = i + 1) if (times(x, i[7:0]) == 8'd1) v = i[7:0];
    for (int i = 0; i < 8; i = i + 1) begin
      sbox_of[i] = v[i] ^ v[(i+4)%8] ^ v[(i+5)%8] ^ v[(i+6)%8] ^ v[(i+7)%8];
    end
    sbox_of = sbox_of ^ 8'h63;
  endfunction

  reg [7:0] sbox [0:255];
  reg [7:0] inv_sbox [0:255];
  reg [7:0] product [0:4095];  // {a, x}: a·x, a to 15

  // Must be called before the functions below.
  task prepare;
    for (int x = 0; x < 256; x = x + 1) begin
      sbox[x] = sbox_of(x[7:0]);
      inv_sbox[sbox[x]] = x[7:0];
    end
    for (int i = 0; i < 4096; i = i + 1) product[i] = times({4'd0, i[11:8]}, i[7:0]);
  endtask

  function automatic [127:0] sub_shift(input [127:0] s, input inverse);
    for (int r = 0; r < 4; r = r + 1) begin
      for (int c = 0; c < 4; c = c + 1) begin
        if (inverse) sub_shift[32*((c+r)%4)+8*r +: 8] = inv_sbox[s[32*c+8*r +: 8]];
        else sub_shift[32*c+8*r +: 8] = sbox[s[32*((c+r)%4)+8*r +: 8]];
      end
    end
  endfunction

  function automatic [127:0] mix(input [127:0] s, input inverse);
    reg [15:0] row;  // the first row of the matrix, with its first entry lowest
    row = inverse ? 16'h9dbe : 16'h1132;
    mix = 128'd0;
    for (int r = 0; r < 4; r = r + 1) begin
      for (int k = 0; k < 4; k = k + 1) begin
        for (int c = 0; c < 4; c = c + 1) begin
          mix[32*c+8*r +: 8] = mix[32*c+8*r +: 8]
                             ^ product[{row[4*k +: 4], s[32*c+8*((r+k)%4) +: 8]}];
        end
      end
    end
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
        if (j > 0) aes_cipher = mix(aes_cipher, 1'b1);
      end
    end else begin
      aes_cipher = block ^ keys[127:0];
      for (int j = 1; j <= rounds; j = j + 1) begin
        aes_cipher = sub_shift(aes_cipher, 1'b0);
        if (j < rounds) aes_cipher = mix(aes_cipher, 1'b0);
        aes_cipher = aes_cipher ^ keys[128*j +: 128];
      end
    end
  endfunction

  // FIPS-197, 5.3.5: key j of the equivalent inverse cipher.
  function automatic [127:0] inverse_key(input [1919:0] keys, input is_long, input int j);
    int rounds;
    rounds      = is_long ? 14 : 10;
    inverse_key = keys[128*(rounds-j) +: 128];
    if (j > 0 && j < rounds) inverse_key = mix(inverse_key, 1'b1);
  endfunction

  function automatic [127:0] random_block();
    random_block = {$urandom, $urandom, $urandom, $urandom};
  endfunction
endpackage

`default_nettype wire
