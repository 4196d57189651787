// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests key commands: after each command, every entry of the round key memories and the states of
// the slots. The expected round keys follow FIPS 197 (5.2, and 5.3.5 for decryption). They are
// computed here byte by byte, and checked against Appendix A.1 and A.3.
// This bench runs only on Icarus, because Verilator takes several times as long to compile it as
// Icarus to run it. The cocotb tests run these modules on Verilator.
`default_nettype none

module xts_keys_tb;
  wire [3:0] done;
  xts_keys_check #(.NAME("both")) both (.done(done[0]));
  xts_keys_check #(.NAME("short"), .KEY256(0), .CIPHER(luxor_pkg::CIPHER_ENC)) only_short (.done(done[1]));
  xts_keys_check #(.NAME("long"), .KEY128(0), .CIPHER(luxor_pkg::CIPHER_DEC)) only_long (.done(done[2]));
  xts_keys_check #(.NAME("equal"), .PERMIT_EQUAL(1)) equal (.done(done[3]));

  // The AES tables, computed from their definition before anything else happens.
  logic [7:0] sbox[0:255];
  logic [7:0] by_09[0:255], by_0b[0:255], by_0d[0:255], by_0e[0:255];
  function automatic logic [7:0] times(input logic [7:0] a, input logic [7:0] b);
    /* verilator no_inline_task */
    logic [7:0] x;
    times = 8'd0;
    x = a;
    for (int i = 0; i < 8; i++) begin
      if (b[i]) times = times ^ x;
      x = {x[6:0], 1'b0} ^ (x[7] ? 8'h1b : 8'h00);
    end
  endfunction
  logic [7:0] inverse, affine;
  initial begin
    for (int x = 0; x < 256; x++) begin
      inverse = 8'd0;
      for (int c = 1; c < 256; c++) if (times(x[7:0], c[7:0]) == 8'd1) inverse = c[7:0];
      for (int i = 0; i < 8; i++)
        affine[i] = inverse[i] ^ inverse[(i+4)%8] ^ inverse[(i+5)%8] ^ inverse[(i+6)%8]
            ^ inverse[(i+7)%8];
      sbox[x]  = affine ^ 8'h63;
      by_09[x] = times(x[7:0], 8'h09);
      by_0b[x] = times(x[7:0], 8'h0b);
      by_0d[x] = times(x[7:0], 8'h0d);
      by_0e[x] = times(x[7:0], 8'h0e);
    end
  end

  initial begin
    wait (&done);
    $display("PASS xts_keys");
    $finish;
  end
  initial begin
    #10_000_000;
    $fatal(1, "xts_keys: timeout, done %b", done);
  end
endmodule

module xts_keys_check #(
    parameter NAME = "",
    parameter int CIPHER = luxor_pkg::CIPHER_BOTH,
    parameter int KEY128 = 1,
    parameter int KEY256 = 1,
    parameter int PERMIT_EQUAL = 0
) (
    output logic done
);
  localparam bit HAS_DEC = CIPHER != luxor_pkg::CIPHER_ENC;

  logic clk = 1'b0;
  always #5 clk = ~clk;

  logic         rst = 1'b1;
  logic         cmd_valid = 1'b0;
  logic         cmd_load = 1'b0;
  logic [  7:0] cmd_slot = 8'd0;
  logic         cmd_long = 1'b0;
  logic [255:0] cmd_data_key = '0;
  logic [255:0] cmd_tweak_key = '0;
  logic [  3:0] slot_used = 4'd0;
  wire cmd_ready, res_valid, kw_valid, busy, wiping;
  wire [3:0] res_code, kw_round;
  wire [7:0] slot_state;
  wire [1:0] kw_kind, kw_slot;
  wire [127:0] kw_data;

  xts_keys #(
      .CIPHER(CIPHER), .KEY128(KEY128), .KEY256(KEY256), .PERMIT_EQUAL(PERMIT_EQUAL)
  ) dut (
      .clk(clk), .rst(rst), .cmd_valid(cmd_valid), .cmd_ready(cmd_ready), .cmd_load(cmd_load),
      .cmd_slot(cmd_slot), .cmd_long(cmd_long), .cmd_data_key(cmd_data_key),
      .cmd_tweak_key(cmd_tweak_key), .res_valid(res_valid), .res_code(res_code),
      .slot_used(slot_used), .slot_state(slot_state), .kw_valid(kw_valid), .kw_kind(kw_kind),
      .kw_round(kw_round), .kw_slot(kw_slot), .kw_data(kw_data), .busy(busy), .wiping(wiping)
  );

  // The contents of the memories, by {kind, slot, round}, and the expected contents.
  logic [127:0] memory[0:255];
  logic [127:0] wanted[0:255];
  logic [  7:0] wanted_state;
  always @(posedge clk) if (kw_valid) memory[{kw_kind, kw_slot, kw_round}] <= kw_data;

  always @(posedge clk)
    if (cmd_ready !== res_valid || (!rst && wiping && !busy))
      $fatal(1, "%s: inconsistent cmd_ready %b, res_valid %b, busy %b", NAME, cmd_ready, res_valid,
             busy);

  logic [31:0] words[0:59];
  task automatic expand(input logic is_long, input logic [255:0] key);
    int nk, nr;
    logic [31:0] t;
    logic [7:0] rcon;
    nk = is_long ? 8 : 4;
    nr = is_long ? 14 : 10;
    rcon = 8'h01;
    for (int i = 0; i < nk; i++) words[i] = key[32*i+:32];
    for (int i = nk; i < 4 * (nr + 1); i++) begin
      t = words[i-1];
      if (i % nk == 0) begin
        t = {t[7:0], t[31:8]};
        t = {xts_keys_tb.sbox[t[31:24]], xts_keys_tb.sbox[t[23:16]], xts_keys_tb.sbox[t[15:8]], xts_keys_tb.sbox[t[7:0]]} ^ {24'd0, rcon};
        rcon = {rcon[6:0], 1'b0} ^ (rcon[7] ? 8'h1b : 8'h00);
      end else if (nk > 6 && i % nk == 4)
        t = {xts_keys_tb.sbox[t[31:24]], xts_keys_tb.sbox[t[23:16]], xts_keys_tb.sbox[t[15:8]], xts_keys_tb.sbox[t[7:0]]};
      words[i] = words[i-nk] ^ t;
    end
  endtask
  function automatic logic [31:0] inv_mix(input logic [31:0] x);
    for (int r = 0; r < 4; r++)
      inv_mix[8*r+:8] = xts_keys_tb.by_0e[x[8*r+:8]] ^ xts_keys_tb.by_0b[x[8*((r+1)%4)+:8]]
          ^ xts_keys_tb.by_0d[x[8*((r+2)%4)+:8]] ^ xts_keys_tb.by_09[x[8*((r+3)%4)+:8]];
  endfunction
  function automatic logic [127:0] reversed(input logic [127:0] x);
    for (int i = 0; i < 16; i++) reversed[8*i+:8] = x[8*(15-i)+:8];
  endfunction
  function automatic int place(input logic is_long, input int round);
    return round != 0 && !is_long && KEY256 != 0 ? round + 4 : round;
  endfunction

  // The expected effect of the given command.
  task automatic want_wiped(input logic [1:0] state);
    for (int i = 0; i < 64; i++) wanted[{i[5:4], cmd_slot[1:0], i[3:0]}] = '0;
    wanted_state[2*cmd_slot[1:0]+:2] = state;
  endtask
  task automatic want_loaded;
    int nr;
    logic [127:0] rk, mixed;
    nr = cmd_long ? 14 : 10;
    want_wiped(cmd_long ? luxor_pkg::SLOT_256 : luxor_pkg::SLOT_128);
    for (int k = 0; k < 2; k++) begin
      expand(cmd_long, k == 0 ? cmd_data_key : cmd_tweak_key);
      for (int j = 0; j <= nr; j++) begin
        rk = {words[4*j+3], words[4*j+2], words[4*j+1], words[4*j]};
        wanted[{k[1:0], cmd_slot[1:0], 4'(place(cmd_long, j))}] = rk;
        for (int c = 0; c < 4; c++) mixed[32*c+:32] = inv_mix(words[4*j+c]);
        if (j == 0 || j == nr) mixed = rk;
        if (HAS_DEC && k == 0)
          wanted[{2'd2, cmd_slot[1:0], 4'(place(cmd_long, nr - j))}] = mixed;
      end
    end
  endtask
  task automatic check;
    if (slot_state !== wanted_state)
      $fatal(1, "%s: slot_state %h, expected %h", NAME, slot_state, wanted_state);
    for (int i = 0; i < 256; i++)
      if (memory[i] !== wanted[i])
        $fatal(1, "%s: kind %0d slot %0d round %0d is %h, expected %h", NAME, i / 64, i / 16 % 4,
               i % 16, memory[i], wanted[i]);
  endtask

  // Gives a command and takes its result. cmd_valid stays 1 if another command follows at once.
  // This is a process of its own so that it is compiled only once.
  logic       go = 1'b0;
  logic [3:0] code = 4'd0;
  always begin
    wait (go);
    cmd_valid = 1'b1;
    @(negedge clk);
    while (!cmd_ready) @(negedge clk);
    if (res_code !== code)
      $fatal(1, "%s: slot %0d: result %0d, expected %0d", NAME, cmd_slot, res_code, code);
    if (code == luxor_pkg::KEY_OK && cmd_load) want_loaded;
    else if (code == luxor_pkg::KEY_OK) want_wiped(luxor_pkg::SLOT_EMPTY);
    else if (code == luxor_pkg::KEY_EQUAL) want_wiped(luxor_pkg::SLOT_EQUAL);
    @(negedge clk);
    check;
    go = 1'b0;
  end
  task automatic command(input logic load, input logic [7:0] slot, input logic is_long,
                         input logic [255:0] data, input logic [255:0] tweak,
                         input logic [3:0] result);
    cmd_load = load;
    cmd_slot = slot;
    cmd_long = is_long;
    cmd_data_key = data;
    cmd_tweak_key = tweak;
    code = result;
    go = 1'b1;
    wait (!go);
  endtask
  task automatic pause(input int cycles);
    cmd_valid = 1'b0;
    repeat (cycles) @(negedge clk);
  endtask

  localparam logic [255:0] KEY_A1 = {128'd0, 128'h3c4fcf098815f7aba6d2ae2816157e2b};
  localparam logic [255:0] KEY_A3 =
      256'hf4df1409a310982dd708613b072c351f_81777d85f0ae732bbe71ca1510eb3d60;
  logic [255:0] other;

  task automatic reset;
    rst = 1'b1;
    pause(2);
    rst = 1'b0;
    for (int i = 0; i < 256; i++) wanted[i] = '0;
    wanted_state = 8'd0;
  endtask

  // Slot 3 is in use from `late` cycles after it became empty until it is loaded again.
  int late = -1;
  int since = 0;
  always @(negedge clk)
    if (late >= 0) begin
      since = slot_state[7:6] == luxor_pkg::SLOT_EMPTY ? since + 1 : 0;
      slot_used = since > late ? 4'b1000 : 4'b0000;
    end

  initial begin
    done = 1'b0;
    #1;
    expand(1'b0, KEY_A1);
    if ({words[43], words[42], words[41], words[40]} != reversed(128'hd014f9a8c9ee2589e13f0cc8b6630ca6))
      $fatal(1, "the bench's key expansion differs from FIPS 197, A.1");
    expand(1'b1, KEY_A3);
    if ({words[59], words[58], words[57], words[56]} != reversed(128'hfe4890d1e6188d0b046df344706c631e))
      $fatal(1, "the bench's key expansion differs from FIPS 197, A.3");
    for (int i = 0; i < 256; i++) memory[i] = '1;
    for (int i = 0; i < 8; i++) other[32*i+:32] = $urandom;

    // A command right after a reset waits until everything is wiped.
    reset;
    if (KEY128 != 0) begin
      command(1'b1, 8'd0, 1'b0, KEY_A1, other, luxor_pkg::KEY_OK);
      command(1'b1, 8'd1, 1'b0, other, KEY_A1, luxor_pkg::KEY_OK);
    end else command(1'b1, 8'd0, 1'b0, KEY_A1, other, luxor_pkg::KEY_SIZE);
    pause(3);
    if (KEY256 != 0) begin
      command(1'b1, 8'd2, 1'b1, KEY_A3, other, luxor_pkg::KEY_OK);
      command(1'b1, 8'd3, 1'b1, other, KEY_A3, luxor_pkg::KEY_OK);
    end else command(1'b1, 8'd3, 1'b1, KEY_A3, other, luxor_pkg::KEY_SIZE);

    // Loads a key over another one, of the other size if both are built.
    if (KEY128 != 0) command(1'b1, 8'd3, 1'b0, KEY_A1, other, luxor_pkg::KEY_OK);
    if (KEY256 != 0) command(1'b1, 8'd0, 1'b1, other, KEY_A3, luxor_pkg::KEY_OK);

    // Slots that do not exist, and slots in use.
    command(1'b1, 8'd4, KEY256 != 0, KEY_A3, other, luxor_pkg::KEY_NO_SLOT);
    command(1'b0, 8'd128, 1'b0, KEY_A3, other, luxor_pkg::KEY_NO_SLOT);
    pause(1);
    slot_used = 4'b1000;
    command(1'b0, 8'd3, 1'b0, KEY_A3, other, luxor_pkg::KEY_IN_USE);
    command(1'b1, 8'd3, KEY256 != 0, KEY_A3, other, luxor_pkg::KEY_IN_USE);
    slot_used = 4'b0000;
    // Descriptors that start to use the slot at the last moment.
    for (int i = 0; i < 4; i++) begin
      late = i;
      command(1'b0, 8'd3, 1'b0, KEY_A3, other, luxor_pkg::KEY_IN_USE);
    end
    late = -1;
    slot_used = 4'b0000;

    // Equal keys. The upper halves of short keys are ignored.
    if (PERMIT_EQUAL != 0) begin
      command(1'b1, 8'd2, KEY256 != 0, KEY_A3, KEY_A3, luxor_pkg::KEY_OK);
    end else begin
      command(1'b1, 8'd2, KEY256 != 0, KEY_A3, KEY_A3, luxor_pkg::KEY_EQUAL);
      if (KEY128 != 0)
        command(1'b1, 8'd2, 1'b0, KEY_A3, {other[127:0], KEY_A3[127:0]}, luxor_pkg::KEY_EQUAL);
      for (int i = 0; i < (KEY256 != 0 ? 256 : 128); i += 31)
        command(1'b1, 8'd2, KEY256 != 0, KEY_A3, KEY_A3 ^ (256'd1 << i), luxor_pkg::KEY_OK);
    end

    // Clears a full and an empty slot.
    for (int i = 0; i < 2; i++) command(1'b0, 8'd3, 1'b1, KEY_A3, KEY_A3, luxor_pkg::KEY_OK);

    // Resets during a command and at rest.
    for (int cycles = 1; cycles < 150; cycles += 13) begin
      cmd_load = 1'b1;
      cmd_slot = 8'd1;
      cmd_long = KEY256 != 0;
      cmd_data_key = other;
      cmd_tweak_key = KEY_A3;
      cmd_valid = 1'b1;
      repeat (cycles) @(negedge clk);
      reset;
      if (slot_state !== 8'd0) $fatal(1, "%s: slot_state %h after reset, expected 0", NAME, slot_state);
      while (busy) @(negedge clk);
      repeat (2) @(negedge clk);
      check;
    end
    done = 1'b1;
  end
endmodule

`default_nettype wire
