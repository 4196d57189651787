// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests one build of xts_core. First random descriptors, with and without stalls on every side; on
// Icarus without LUXOR_TEST_LONG they are few and short, but each kind of failure occurs.
// Then units of every length up to a few beats, in each direction, with packets that are whole, cut
// after each of their beats, or too long. Then it counts cycles: for RATE_BYTES of units of 512
// bytes per lane without stalls, in descriptors of 1 to RATE_UNITS units with the keys of three
// slots in turn, and for one request of eight units of 512 bytes.
`default_nettype none

module xts_core_bench #(
    parameter int TWEAK = luxor_pkg::TWEAK_SHARED,
    parameter int CIPHER = luxor_pkg::CIPHER_ENC,
    parameter int KEY128 = 1,
    parameter int KEY256 = 0,
    parameter int SBOX = luxor_pkg::SBOX_TABLE,
    parameter int STAGES = 2,
    parameter int LANES = 1,
    parameter int CTR = 0,
    parameter int SEED = 1
) (
    output logic finished
);
  import aes_model::aes_cipher;
  import aes_model::expand;
  import aes_model::prepare;
  import aes_model::random_block;

  // Icarus is about a hundred times slower than Verilator. CHOSEN: the kinds of descriptors are
  // chosen, 10 for each of the first two patterns of stalls, and their units are few and short.
`ifdef __ICARUS__
`ifdef LUXOR_TEST_LONG
  localparam int CHOSEN = 0;
  localparam int DESCRIPTORS = 6;
  localparam int RATE_BYTES = 1 << 13;
  localparam int RATE_UNITS = 16;
`else
  localparam int CHOSEN = 1;
  localparam int DESCRIPTORS = 10;
  localparam int RATE_BYTES = LANES == 1 ? 1 << 12 : 1 << 13;
  localparam int RATE_UNITS = 3;
`endif
  localparam int LENGTHS = 2;
`else
  localparam int CHOSEN = 0;
  localparam int DESCRIPTORS = 60;
  localparam int RATE_BYTES = 1 << 20;
  localparam int RATE_UNITS = 16;
  localparam int LENGTHS = 48 * LANES + 1;
`endif
  localparam int MAX_BEATS = 1 << 17;
  localparam int MAX_DESCRIPTORS = 1 << 11;
  localparam int L = (STAGES > 2 ? 3 : 2) + (KEY256 != 0 ? 14 : 10) * STAGES;
  localparam int W = 128 * LANES;
  localparam int BYTES = 16 * LANES;

  logic clk = 1'b0;
  logic rst = 1'b1;
  // The clock stops when this build is done, so that the other builds simulate faster.
  initial while (finished !== 1'b1) #1 clk = !clk;

  logic desc_valid = 1'b0;
  wire desc_ready;
  logic [127:0] desc_number;
  logic [63:0] desc_stride;
  logic [31:0] desc_unit_len, desc_unit_count;
  logic [7:0] desc_slot;
  logic desc_decrypt;
  logic [1:0] desc_mode;
  logic in_valid = 1'b0;
  wire in_ready;
  logic [W-1:0] in_data;
  logic in_last;
  wire out_valid;
  logic out_ready = 1'b0;
  wire [W-1:0] out_data;
  wire [BYTES-1:0] out_keep;
  wire out_last, out_error;
  wire done_valid;
  wire [3:0] done_status;
  logic key_valid = 1'b0;
  wire key_ready;
  logic key_load;
  logic [7:0] key_slot;
  logic key_long;
  logic [255:0] key_data, key_tweak;
  wire key_done;
  wire [3:0] key_result;
  wire [7:0] slot_state;
  wire wiping, busy;

  xts_core #(
      .TWEAK (TWEAK),
      .CIPHER(CIPHER),
      .KEY128(KEY128),
      .KEY256(KEY256),
      .SBOX  (SBOX),
      .STAGES(STAGES),
      .LANES (LANES),
      .CTR   (CTR)
  ) dut (
      .*
  );

  // ---- The inputs, and the outputs that are expected.
  logic [W-1:0] in_beats[0:MAX_BEATS-1];
  logic in_lasts[0:MAX_BEATS-1];
  logic [W-1:0] out_beats[0:MAX_BEATS-1];
  logic [BYTES-1:0] out_keeps[0:MAX_BEATS-1];
  logic out_lasts[0:MAX_BEATS-1];
  logic out_errors[0:MAX_BEATS-1];
  int ins, outs;
  logic [127:0] d_number[0:MAX_DESCRIPTORS-1];
  logic [63:0] d_stride[0:MAX_DESCRIPTORS-1];
  int d_unit_len[0:MAX_DESCRIPTORS-1];
  int d_units[0:MAX_DESCRIPTORS-1];
  int d_slot[0:MAX_DESCRIPTORS-1];
  logic d_decrypt[0:MAX_DESCRIPTORS-1];
  logic [1:0] d_mode[0:MAX_DESCRIPTORS-1];
  logic [3:0] d_status[0:MAX_DESCRIPTORS-1];
  int stalls;  // percent, on each side

  // Marsaglia, "Xorshift RNGs", 2003. $urandom(seed) is not used: in Verilator it gives the same
  // number each time, as the standard requires.
  logic [31:0] random = 32'h9e37_79b9 ^ SEED;
  function automatic int pick(input int n);
    random = random ^ (random << 13);
    random = random ^ (random >> 17);
    random = random ^ (random << 5);
    pick = int'(random[31:1]) % n;
  endfunction
  // The key schedules: the data key of slot s at 2s, and its tweak key at 2s + 1.
  logic [1919:0] keys[0:7];
  logic longs[0:3];
  function automatic logic [127:0] model_aes(input int k, input logic decrypt,
                                             input logic [127:0] block);
    model_aes = aes_cipher(keys[k], longs[k/2], decrypt, block);
  endfunction

  // IEEE 1619-2018, 5.2, byte by byte.
  function automatic logic [127:0] model_alpha(input logic [127:0] x);
    logic [7:0] carry;
    carry = 8'd0;
    for (int i = 0; i < 16; i++) begin
      model_alpha[8*i+:8] = (x[8*i+:8] << 1) | carry;
      carry = x[8*i+:8] >> 7;
    end
    if (carry[0]) model_alpha[7:0] = model_alpha[7:0] ^ 8'h87;
  endfunction

  // SP 800-38A, 6.5: the data plus the encrypted counter.
  function automatic logic [127:0] model_ctr(input int k, input logic [127:0] counter,
                                             input logic [127:0] block);
    logic [127:0] big_endian;
    for (int i = 0; i < 16; i++) big_endian[8*i+:8] = counter[8*(15-i)+:8];
    model_ctr = block ^ model_aes(k, 1'b0, big_endian);
  endfunction

  // The units that descriptor d must give after `sent` beats of input (all of them if it is valid).
  task automatic expect_units(input int d, input int sent, input logic whole);
    logic [127:0] t, number, cc, pp, t_first, t_second;
    logic [127:0] p[0:511];
    logic [127:0] c[0:511];
    int m, tail, blocks, beats, k, last;
    logic ctr;
    k = 2 * d_slot[d];
    ctr = d_mode[d] == luxor_pkg::MODE_CTR;
    number = d_number[d];
    m = d_unit_len[d] / 16;
    tail = d_unit_len[d] % 16;
    blocks = m + (tail != 0 ? 1 : 0);
    beats = (blocks + LANES - 1) / LANES;
    for (int u = 0; u < d_units[d] && sent > 0; u++) begin
      // A unit may be cut short: only the beats of it that were sent are used.
      for (int b = 0; b < blocks; b++) begin
        if (b / LANES < sent) p[b] = in_beats[ins-sent+b/LANES][128*(b%LANES)+:128];
        else p[b] = '0;
      end
      if (ctr) begin
        for (int b = 0; b < blocks; b++) c[b] = model_ctr(k, number + 128'(b), p[b]);
        for (int i = tail; i < 16 && tail != 0; i++) c[m][8*i+:8] = '0;
      end
      t = d_mode[d] == luxor_pkg::MODE_ECB ? 128'd0 : model_aes(k + 1, 1'b0, number);
      for (int b = 0; b < m && !ctr; b++) begin
        if (tail != 0 && b == m - 1) begin
          t_first  = d_decrypt[d] ? model_alpha(t) : t;
          t_second = d_decrypt[d] ? t : model_alpha(t);
          cc = model_aes(k, d_decrypt[d], p[b] ^ t_first) ^ t_first;
          pp = cc;
          c[m] = '0;
          for (int i = 0; i < tail; i++) begin
            c[m][8*i+:8] = cc[8*i+:8];
            pp[8*i+:8] = p[m][8*i+:8];
          end
          c[b] = model_aes(k, d_decrypt[d], pp ^ t_second) ^ t_second;
        end else begin
          c[b] = model_aes(k, d_decrypt[d], p[b] ^ t) ^ t;
        end
        t = model_alpha(t);
      end
      // The last whole block waits for its partial block. If that should be in the next beat, and
      // that beat was not sent, the beat of the whole block is lost.
      last = sent < beats ? sent : beats;
      if (last < beats && !ctr && tail != 0 && m % LANES == 0 && last == beats - 1) last = last - 1;
      for (int b = 0; b < last; b++) begin
        out_beats[outs] = '0;
        for (int l = 0; l < LANES; l++)
          if (b * LANES + l < blocks) out_beats[outs][128*l+:128] = c[b*LANES+l];
        out_keeps[outs] = '1;
        if (b == beats - 1)
          for (int i = 0; i < BYTES; i++) out_keeps[outs][i] = b * BYTES + i < d_unit_len[d];
        out_lasts[outs] = u == d_units[d] - 1 && b == beats - 1;
        out_errors[outs] = out_lasts[outs] && !whole;
        outs++;
      end
      sent = sent - beats;
      number = number + {64'd0, d_stride[d]};
    end
  endtask

  task automatic add_beats(input int n);
    for (int i = 0; i < n; i++) begin
      for (int l = 0; l < LANES; l++) in_beats[ins][128*l+:128] = random_block();
      in_lasts[ins] = i == n - 1;
      ins++;
    end
  endtask

  task automatic make(input int d, input int what);
    int beats, total, sent;
    d_number[d] = random_block();
    // Numbers whose low 32, 64, 96 or 128 bits are all ones, or nearly.
    if (pick(2) == 0) d_number[d] = d_number[d] | ({128{1'b1}} >> (32 * pick(4)));
    d_number[d] = d_number[d] - 128'(pick(5) * pick(5));
    d_stride[d] = pick(3) == 0 ? {$urandom, $urandom} : 64'(pick(9));
    d_slot[d] = pick(3);
    d_mode[d] = pick(5) == 0 ? luxor_pkg::MODE_ECB : luxor_pkg::MODE_XTS;
    if (CTR != 0 && pick(2) == 0) d_mode[d] = luxor_pkg::MODE_CTR;
    d_decrypt[d] = CIPHER == luxor_pkg::CIPHER_BOTH ? pick(2) == 1 : CIPHER == luxor_pkg::CIPHER_DEC;
    case (pick(4))
      0: d_unit_len[d] = 16 + pick(64);
      1: d_unit_len[d] = 16 * (1 + pick(8));
      2: d_unit_len[d] = 16 + pick(CHOSEN != 0 ? 300 : 600);
      default: d_unit_len[d] = CHOSEN == 0 && pick(3) == 0 ? 4096 : 512;
    endcase
    if (d_mode[d] == luxor_pkg::MODE_ECB) d_unit_len[d] = d_unit_len[d] / 16 * 16;
    // Counter mode has any length, and no direction.
    if (d_mode[d] == luxor_pkg::MODE_CTR) begin
      if (pick(3) == 0) d_unit_len[d] = 1 + pick(40);
      d_decrypt[d] = pick(2) == 1;
    end
    if (CHOSEN != 0) d_units[d] = 1 + pick(d_unit_len[d] < 100 ? 8 : 2);
    else d_units[d] = 1 + pick(d_unit_len[d] < 100 ? 40 : 4);
    beats = (d_unit_len[d] + BYTES - 1) / BYTES;
    total = beats * d_units[d];
    d_status[d] = luxor_pkg::DONE_OK;
    sent = total;
    case (what)
      1: begin
        if (pick(2) == 0) d_units[d] = 0;
        else d_unit_len[d] = 0;
        d_status[d] = luxor_pkg::DONE_NO_DATA;
      end
      2: begin
        d_unit_len[d] = 1 + pick(15);
        d_mode[d] = 2'(pick(2));
        d_status[d] = luxor_pkg::DONE_TOO_SHORT;
      end
      3: begin
        d_unit_len[d] = (1 << 24) + 1 + pick(1000);
        d_status[d] = luxor_pkg::DONE_TOO_LONG;
      end
      4: begin
        d_slot[d]   = 4 + pick(252);
        d_status[d] = luxor_pkg::DONE_NO_SLOT;
      end
      5: begin
        d_slot[d]   = 3;
        d_status[d] = luxor_pkg::DONE_EQUAL_KEYS;
      end
      6: begin
        d_mode[d] = luxor_pkg::MODE_ECB;
        if (CIPHER != luxor_pkg::CIPHER_BOTH) d_decrypt[d] = CIPHER == luxor_pkg::CIPHER_DEC;
        d_unit_len[d] = 17 + 16 * pick(9);
        d_status[d] = luxor_pkg::DONE_ECB_TAIL;
      end
      7: begin
        if (total == 1) begin
          d_units[d] = 2;
          total = 2;
        end
        sent = 1 + pick(total - 1);
        d_status[d] = luxor_pkg::DONE_CUT;
      end
      8: begin
        sent = total + 1 + pick(3);
        d_status[d] = luxor_pkg::DONE_EXCESS;
      end
      9: begin
        // A direction or a mode that does not exist.
        if (CIPHER != luxor_pkg::CIPHER_BOTH && pick(2) == 0) begin
          d_mode[d] = luxor_pkg::MODE_XTS;
          d_decrypt[d] = CIPHER == luxor_pkg::CIPHER_ENC;
        end else d_mode[d] = CTR == 0 ? 2'(2 + pick(2)) : 2'd3;
        d_unit_len[d] = d_unit_len[d] + 16;
        d_status[d] = luxor_pkg::DONE_NO_CIPHER;
      end
      default: ;
    endcase
    add_packet(d, total, sent);
  endtask

  // `total` is the number of beats of the complete packet, and `sent` of those that are sent.
  task automatic add_packet(input int d, input int total, input int sent);
    case (d_status[d])
      luxor_pkg::DONE_OK: begin
        add_beats(sent);
        expect_units(d, sent, 1'b1);
      end
      luxor_pkg::DONE_EXCESS: begin
        add_beats(total);
        expect_units(d, total, 1'b0);
        in_lasts[ins-1] = 1'b0;
        add_beats(sent - total);
      end
      luxor_pkg::DONE_CUT: begin
        add_beats(sent);
        expect_units(d, sent, 1'b0);
      end
      luxor_pkg::DONE_NO_DATA: ;
      default: add_beats(1 + pick(5));
    endcase
    if (d_status[d] != luxor_pkg::DONE_OK && d_status[d] != luxor_pkg::DONE_EXCESS
        && d_status[d] != luxor_pkg::DONE_NO_DATA) begin
      out_beats[outs] = '0;
      out_keeps[outs] = '0;
      out_lasts[outs] = 1'b1;
      out_errors[outs] = 1'b1;
      outs++;
    end
  endtask

  task automatic load_key(input int slot, input logic equal);
    int words;
    words = KEY256 != 0 && (KEY128 == 0 || pick(2) == 0) ? 8 : 4;
    key_load = 1'b1;
    key_slot = slot[7:0];
    key_long = words == 8;
    key_data = {random_block(), random_block()};
    key_tweak = equal ? key_data : {random_block(), random_block()};
    longs[slot] = words == 8;
    keys[2*slot] = expand(key_data, words == 8);
    keys[2*slot+1] = expand(key_tweak, words == 8);
    key_valid = 1'b1;
    @(posedge clk);
    while (!key_done) @(posedge clk);
    if (key_result != (equal ? luxor_pkg::KEY_EQUAL : luxor_pkg::KEY_OK))
      $fatal(1, "xts_core: loading slot %0d gave result %0d", slot, key_result);
    #0.5 key_valid = 1'b0;
    @(posedge clk);
  endtask

  int cycle = 0;
  int first_out, last_out, started;
  int next_desc, next_in, next_out, next_done, many;
  logic desc_hold, in_hold;

  // Every input changes half a clock cycle before it is sampled.
  always @(negedge clk) begin
    if (!rst && next_desc < many && (desc_hold || pick(100) >= stalls)) begin
      desc_valid <= 1'b1;
      desc_number <= d_number[next_desc];
      desc_stride <= d_stride[next_desc];
      desc_unit_len <= d_unit_len[next_desc];
      desc_unit_count <= d_units[next_desc];
      desc_slot <= d_slot[next_desc][7:0];
      desc_decrypt <= d_decrypt[next_desc];
      desc_mode <= d_mode[next_desc];
    end else desc_valid <= 1'b0;
    if (!rst && next_in < ins && (in_hold || pick(100) >= stalls)) begin
      in_valid <= 1'b1;
      in_data  <= in_beats[next_in];
      in_last  <= in_lasts[next_in];
    end else in_valid <= 1'b0;
    out_ready <= pick(100) >= stalls;
  end
  always @(posedge clk) begin
    cycle++;
    desc_hold = desc_valid && !desc_ready;
    in_hold   = in_valid && !in_ready;
    if (!rst && desc_valid && desc_ready) begin
      if (next_desc == 0) started = cycle;
      next_desc++;
    end
    if (!rst && in_valid && in_ready) next_in++;
    if (!rst && out_valid && out_ready) begin
      if (next_out == 0) first_out = cycle;
      last_out = cycle;
      if (next_out >= outs) $fatal(1, "xts_core: more beats than expected");
      if (out_data !== out_beats[next_out] || out_keep !== out_keeps[next_out]
          || out_last !== out_lasts[next_out] || out_error !== out_errors[next_out])
        $fatal(1, "xts_core: TWEAK %0d CIPHER %0d LANES %0d: beat %0d: %h %h %b %b, expected %h %h %b %b",
               TWEAK, CIPHER, LANES, next_out, out_data, out_keep, out_last, out_error,
               out_beats[next_out], out_keeps[next_out], out_lasts[next_out],
               out_errors[next_out]);
      next_out++;
    end
    if (!rst && done_valid) begin
      if (done_status !== d_status[next_done])
        $fatal(1, "xts_core: descriptor %0d has status %0d, expected %0d", next_done, done_status,
               d_status[next_done]);
      next_done++;
    end
  end

  // A beat that is offered must not change until it is taken.
  logic out_held = 1'b0;
  logic [W+BYTES+1:0] out_was;
  always @(posedge clk) begin
    if (out_held && (!out_valid || {out_data, out_keep, out_last, out_error} !== out_was))
      $fatal(1, "xts_core: beat %0d changed or vanished before it was taken", next_out);
    out_held <= !rst && out_valid && !out_ready;
    out_was  <= {out_data, out_keep, out_last, out_error};
  end

  task automatic restart;
    many = 0;
    ins = 0;
    outs = 0;
    next_desc = 0;
    next_in = 0;
    next_out = 0;
    next_done = 0;
  endtask
  task automatic finish;
    int patience;
    patience = 0;
    while (next_done < many || next_in < ins || next_out < outs) begin
      @(posedge clk);
      patience++;
      if (patience > 200000)
        $fatal(1, "xts_core: timeout at descriptor %0d of %0d (status %0d), beat %0d of %0d in, %0d of %0d out",
               next_done, many, d_status[next_done], next_in, ins, next_out, outs);
    end
    repeat (5) @(posedge clk);
    if (busy) $fatal(1, "xts_core: busy after all descriptors are done");
  endtask

  // A descriptor of `units` units of `unit_len` bytes. It is valid, but its packet has `more` beats
  // too many, or too few if `more` is negative.
  task automatic plain(input int units, input int unit_len, input logic decrypt, input logic [1:0] mode,
                       input int more);
    int total;
    total = units * ((unit_len + BYTES - 1) / BYTES);
    d_number[many] = random_block();
    d_stride[many] = 64'd1;
    d_slot[many] = many % 3;
    d_mode[many] = mode;
    d_decrypt[many] = decrypt;
    d_unit_len[many] = unit_len;
    d_units[many] = units;
    d_status[many] = more > 0 ? luxor_pkg::DONE_EXCESS : more < 0 ? luxor_pkg::DONE_CUT
        : luxor_pkg::DONE_OK;
    add_packet(many, total, total + more);
    many++;
  endtask

  // Cycles from the first to the last output beat.
  function automatic int cycles_out();
    cycles_out = last_out - first_out + 1;
  endfunction

  task automatic lengths(input logic decrypt, input logic [1:0] mode);
    int shortest;
    shortest = mode == luxor_pkg::MODE_CTR ? 15 : 16;
    for (int len = shortest; len < shortest + LENGTHS; len++) begin
      restart();
      stalls = 25 * pick(4);
      plain(1 + pick(3), len, decrypt, mode, 0);
      // Two units, cut after each beat.
      for (int less = 1; less < 2 * ((len + BYTES - 1) / BYTES); less++) plain(2, len, decrypt, mode, -less);
      plain(1, len, decrypt, mode, 1);
      plain(2, len, decrypt, mode, 0);
      finish();
    end
  endtask

  task automatic rates(input logic [1:0] mode);
    int n, cycles;
    logic decrypt, tweaks;
    decrypt = CIPHER == luxor_pkg::CIPHER_DEC;
    tweaks = mode == luxor_pkg::MODE_XTS && TWEAK != luxor_pkg::TWEAK_DEDICATED;
    restart();
    stalls = 0;
    while (ins * BYTES < RATE_BYTES) plain(1 + pick(RATE_UNITS), 512 * LANES, decrypt, mode, 0);
    finish();
    n = ins;
    cycles = cycles_out();
    $display("xts_core TWEAK=%0d KEY256=%0d STAGES=%0d LANES=%0d, mode %0d: %0d beats of units of %0d bytes in %0d cycles: %0d.%03d a cycle",
             TWEAK, KEY256, STAGES, LANES, mode, n, 512 * LANES, cycles, n / cycles,
             (n * 1000 / cycles) % 1000);
    if (!tweaks && cycles != n)
      $fatal(1, "xts_core: not one beat per cycle");
    // A beat in 32 of 33 cycles. Tweaks that enter before the first beat comes out do not count.
    if (TWEAK == luxor_pkg::TWEAK_SHARED && n * 1000 < cycles * 969)
      $fatal(1, "xts_core: fewer than 0.969 beats per cycle");
    // A beat in 32 of 32 + 2 L cycles. After the last unit there is no wait.
    if (TWEAK == luxor_pkg::TWEAK_PAPER && n * (32 + 2 * L) < cycles * 32)
      $fatal(1, "xts_core: slower than the paper's design");
    restart();
    plain(8, 512, decrypt, mode, 0);
    finish();
    cycles = last_out - started;
    $display("xts_core TWEAK=%0d KEY256=%0d STAGES=%0d LANES=%0d, mode %0d: 4 KiB in eight units: %0d cycles, L = %0d",
             TWEAK, KEY256, STAGES, LANES, mode, cycles, L);
    if (mode == luxor_pkg::MODE_CTR && cycles > 256 / LANES + L + 12)
      $fatal(1, "xts_core: more than 256 / LANES + L + 12 cycles");
    // With more lanes, the separate tweak unit is slower than the data of such units.
    if ((TWEAK == luxor_pkg::TWEAK_SHARED || TWEAK == luxor_pkg::TWEAK_DEDICATED && LANES == 1)
        && cycles > 256 / LANES + 8 + 2 * L + (LANES == 1 ? 4 : 6))
      $fatal(1, "xts_core: more than 264 + 2 L + 4 cycles");
    if (TWEAK == luxor_pkg::TWEAK_PAPER && cycles > 8 * (32 / LANES + 2 * L) + 12)
      $fatal(1, "xts_core: more than 8 (32 + 2 L) + 12 cycles");
  endtask

  initial begin
    finished = 1'b0;
    prepare();
    restart();
    stalls = 0;
    repeat (4) @(posedge clk);
    #0.5 rst = 1'b0;
    load_key(0, 1'b0);
    load_key(1, 1'b0);
    load_key(2, 1'b0);
    load_key(3, 1'b1);
    for (int turn = 0; turn < (CHOSEN != 0 ? 2 : 4); turn++) begin
      restart();
      stalls = turn == 0 ? 0 : turn == 1 ? 50 : turn == 2 ? 10 : 80;
      // Chosen kinds: each of the 9 failures once, between valid descriptors.
      for (int d = 0; d < DESCRIPTORS; d++)
        if (CHOSEN != 0) make(d, d % 2 == 0 ? 0 : 5 * turn + (d + 1) / 2);
        else make(d, pick(3) == 0 ? 1 + pick(9) : 0);
      many = DESCRIPTORS;
      finish();
      load_key(turn % 3, 1'b0);
    end
    if (CIPHER != luxor_pkg::CIPHER_DEC) lengths(1'b0, luxor_pkg::MODE_XTS);
    if (CIPHER != luxor_pkg::CIPHER_ENC) lengths(1'b1, luxor_pkg::MODE_XTS);
    if (CTR != 0) lengths(1'b0, luxor_pkg::MODE_CTR);
    rates(luxor_pkg::MODE_XTS);
    if (CTR != 0) rates(luxor_pkg::MODE_CTR);
    finished = 1'b1;
  end
endmodule

`default_nettype wire
