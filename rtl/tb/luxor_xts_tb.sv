// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests the whole core with X wherever nothing is specified: on data inputs that are not valid, in
// the padding of units, and in every register before the reset. After the reset no control output
// may ever be X, and no data output while it is valid. The results are compared with known answers
// of IEEE 1619, Annex B, of NIST's XTSGenAES256, and of SP 800-38A, F.5.
// Unless LUXOR_TEST_LONG is defined, the cores have T-tables or block RAMs, with which Icarus
// simulates several times as fast as with S-boxes in LUTs.
// This bench runs only on Icarus, because Verilator has no X. The cocotb tests run the whole core
// on Verilator.
`default_nettype none

module luxor_xts_tb;
`ifdef LUXOR_TEST_LONG
  localparam int SBOX = luxor_pkg::SBOX_TABLE;
`else
  localparam int SBOX = luxor_pkg::SBOX_T_TABLE;
`endif
  wire [2:0] done;
  luxor_xts_check #(
      .TWEAK(luxor_pkg::TWEAK_DEDICATED), .CIPHER(luxor_pkg::CIPHER_BOTH), .SBOX(SBOX), .LANES(2), .CTR(1)
  ) dedicated (.done(done[0]));
  luxor_xts_check #(
      .TWEAK(luxor_pkg::TWEAK_SHARED), .CIPHER(luxor_pkg::CIPHER_ENC), .SBOX(luxor_pkg::SBOX_BRAM),
      .STAGES(2), .CTR(1)
  ) shared (.done(done[1]));
  luxor_xts_check #(
      .TWEAK(luxor_pkg::TWEAK_PAPER), .CIPHER(luxor_pkg::CIPHER_ENC), .KEY256(0), .SBOX(SBOX),
      .STAGES(2)
  ) paper (.done(done[2]));

  initial begin
    wait (&done);
    $display("PASS luxor_xts");
    $finish;
  end
  initial begin
    #1_000_000;
    $fatal(1, "luxor_xts: timeout, done %b", done);
  end
endmodule

module luxor_xts_check #(
    parameter int TWEAK = 0,
    parameter int CIPHER = 0,
    parameter int KEY256 = 1,
    parameter int SBOX = 0,
    parameter int STAGES = 1,
    parameter int LANES = 1,
    parameter int CTR = 0
) (
    output logic done
);
  localparam int BYTES = 16 * LANES;
  localparam int W = 8 * BYTES;

  logic clk = 1'b0;
  // The clock stops when this build is done, so that the other builds simulate faster.
  initial while (done !== 1'b1) #5 clk = ~clk;

  logic rst;
  logic [11:0] awaddr, araddr;
  logic awvalid = 1'b0, wvalid = 1'b0, bready = 1'b0, arvalid = 1'b0, rready = 1'b0;
  logic [31:0] wdata;
  logic [3:0] wstrb;
  wire awready, wready, bvalid, arready, rvalid, irq;
  wire [1:0] bresp, rresp;
  wire [31:0] rdata;
  logic [W-1:0] in_data;
  logic in_valid = 1'b0, in_last;
  wire in_ready;
  wire [W-1:0] out_data;
  wire [BYTES-1:0] out_keep;
  wire out_last, out_user, out_valid;
  logic out_ready = 1'b0;

  luxor_xts #(
      .TWEAK(TWEAK), .CIPHER(CIPHER), .KEY128(1), .KEY256(KEY256), .SBOX(SBOX), .STAGES(STAGES),
      .LANES(LANES), .CTR(CTR)
  ) dut (
      .clk(clk), .rst(rst), .s_axil_awaddr(awaddr), .s_axil_awvalid(awvalid),
      .s_axil_awready(awready), .s_axil_wdata(wdata), .s_axil_wstrb(wstrb),
      .s_axil_wvalid(wvalid), .s_axil_wready(wready), .s_axil_bresp(bresp),
      .s_axil_bvalid(bvalid), .s_axil_bready(bready), .s_axil_araddr(araddr),
      .s_axil_arvalid(arvalid), .s_axil_arready(arready), .s_axil_rdata(rdata),
      .s_axil_rresp(rresp), .s_axil_rvalid(rvalid), .s_axil_rready(rready),
      .s_axis_tdata(in_data), .s_axis_tvalid(in_valid), .s_axis_tready(in_ready),
      .s_axis_tlast(in_last), .m_axis_tdata(out_data), .m_axis_tkeep(out_keep),
      .m_axis_tlast(out_last), .m_axis_tuser(out_user), .m_axis_tvalid(out_valid),
      .m_axis_tready(out_ready), .irq(irq)
  );

  logic was_reset = 1'b0;
  always @(posedge clk) begin
    if (rst === 1'b1) was_reset <= 1'b1;
    if (was_reset && rst === 1'b0) begin
      if (^{awready, wready, bvalid, arready, rvalid, irq, in_ready, out_valid} === 1'bx)
        $fatal(1, "luxor_xts: X on a control output: %b",
               {awready, wready, bvalid, arready, rvalid, irq, in_ready, out_valid});
      if (bvalid && ^bresp === 1'bx) $fatal(1, "luxor_xts: X on bresp");
      if (rvalid && ^{rresp, rdata} === 1'bx) $fatal(1, "luxor_xts: X on rresp or rdata: %h", rdata);
      if (out_valid && ^{out_data, out_keep, out_last, out_user} === 1'bx)
        $fatal(1, "luxor_xts: X on m_axis: %h %b %b %b", out_data, out_keep, out_last, out_user);
    end
  end

  // The streams: the beats to send, with X where a unit has no bytes, and the beats received.
  localparam int MAX = 64;
  logic [W-1:0] in_beats[0:MAX-1];
  logic in_lasts[0:MAX-1];
  int in_count = 0;
  int in_next = 0;
  logic [W-1:0] out_beats[0:MAX-1];
  logic [BYTES+1:0] out_marks[0:MAX-1];  // tuser, tlast, tkeep
  int out_count = 0;
  always @(posedge clk)
    if (!rst && out_valid && out_ready) begin
      out_beats[out_count] = out_data;
      out_marks[out_count] = {out_user, out_last, out_keep};
      out_count = out_count + 1;
    end
  logic in_fired = 1'b0;
  always @(posedge clk) in_fired <= in_valid && in_ready;
  always @(negedge clk) begin
    if (in_valid && in_fired) in_next = in_next + 1;
    if (!in_valid || in_fired) begin
      in_valid = in_next < in_count && ($urandom & 1) != 0;
      in_data  = in_valid ? in_beats[in_next] : 'x;
      in_last  = in_valid ? in_lasts[in_next] : 1'bx;
    end
    out_ready = ($urandom & 3) != 0;
  end

  task automatic write(input logic [11:0] address, input logic [31:0] data);
    awaddr  = address;
    awvalid = 1'b1;
    while (!awready) @(negedge clk);
    @(negedge clk);
    awvalid = 1'b0;
    awaddr  = 'x;
    wdata   = data;
    wstrb   = 4'b1111;
    wvalid  = 1'b1;
    while (!wready) @(negedge clk);
    @(negedge clk);
    wvalid = 1'b0;
    wdata  = 'x;
    wstrb  = 'x;
    while (!bvalid) @(negedge clk);
    bready = 1'b1;
    @(negedge clk);
    bready = 1'b0;
  endtask
  task automatic read(input logic [11:0] address, output logic [31:0] data);
    araddr  = address;
    arvalid = 1'b1;
    while (!arready) @(negedge clk);
    @(negedge clk);
    arvalid = 1'b0;
    araddr  = 'x;
    while (!rvalid) @(negedge clk);
    data   = rdata;
    rready = 1'b1;
    @(negedge clk);
    rready = 1'b0;
  endtask
  task automatic expect_read(input logic [11:0] address, input logic [31:0] expected);
    logic [31:0] data;
    read(address, data);
    if (data !== expected) $fatal(1, "luxor_xts: %h reads %h, expected %h", address, data, expected);
  endtask
  task automatic load_key(input logic is_long, input logic [255:0] data, input logic [255:0] tweak);
    logic [31:0] status;
    for (int i = 0; i < (is_long ? 8 : 4); i++) begin
      write(12'(12'h040 + 4 * i), data[32*i+:32]);
      write(12'(12'h060 + 4 * i), tweak[32*i+:32]);
    end
    write(12'h030, {15'd0, is_long, 16'h0001});
    status = 32'd1;
    while (status[0]) read(12'h034, status);
    if (status !== 32'd0) $fatal(1, "luxor_xts: KEY_STATUS is %h, expected 0", status);
    expect_read(12'h038, is_long ? 32'd2 : 32'd1);
  endtask

  int submitted = 0;
  task automatic submit(input logic [127:0] number, input int len, input int units,
                        input logic [31:0] flags);
    logic [11:0] place;
    place = 12'(12'h800 + 64 * (submitted % 32));
    for (int i = 0; i < 4; i++) write(12'(place + 4 * i), number[32*i+:32]);
    write(12'(place + 16), 32'd1);
    write(12'(place + 20), 32'd0);
    write(12'(place + 24), len);
    write(12'(place + 28), units);
    write(12'(place + 32), flags);
    submitted = submitted + 1;
    write(12'h020, submitted);
  endtask
  task automatic expect_status(input logic [3:0] code);
    logic [31:0] head;
    head = 32'd0;
    while (head != submitted) read(12'h024, head);
    expect_read(12'(12'h800 + 64 * ((submitted - 1) % 32) + 60), {1'b1, 27'd0, code});
  endtask
  // Sends one unit of a packet.
  task automatic send(input int len, input logic [511:0] text, input logic last);
    for (int b = 0; b * BYTES < len; b++) begin
      for (int i = 0; i < BYTES; i++)
        in_beats[in_count][8*i+:8] = b * BYTES + i < len ? text[8*(b*BYTES+i)+:8] : 8'hxx;
      in_lasts[in_count] = last && (b + 1) * BYTES >= len;
      in_count = in_count + 1;
    end
  endtask
  int checked = 0;
  task automatic expect_unit(input int len, input logic [511:0] text, input logic last);
    for (int b = 0; b * BYTES < len; b++) begin
      if (checked >= out_count) $fatal(1, "luxor_xts: a beat is missing");
      for (int i = 0; i < BYTES; i++) begin
        if (out_marks[checked][i] !== (b * BYTES + i < len))
          $fatal(1, "luxor_xts: wrong tkeep in beat %0d", checked);
        if (out_beats[checked][8*i+:8] !== (b * BYTES + i < len ? text[8*(b*BYTES+i)+:8] : 8'h00))
          $fatal(1, "luxor_xts: beat %0d is %h, expected its part of %h", checked,
                 out_beats[checked], text);
      end
      if (out_marks[checked][BYTES+:2] !== {1'b0, last && (b + 1) * BYTES >= len})
        $fatal(1, "luxor_xts: wrong {tuser, tlast} %b", out_marks[checked][BYTES+:2]);
      checked = checked + 1;
    end
  endtask
  task automatic expect_hollow;
    if (checked >= out_count) $fatal(1, "luxor_xts: a hollow beat is missing");
    if (out_marks[checked] !== {2'b11, {BYTES{1'b0}}})
      $fatal(1, "luxor_xts: expected a hollow beat, got {tuser, tlast, tkeep} %b",
             out_marks[checked]);
    checked = checked + 1;
  endtask

  // Checks a unit in both directions.
  task automatic known_answer(input logic [127:0] number, input int len,
                              input logic [511:0] plain, input logic [511:0] cipher);
    if (CIPHER != luxor_pkg::CIPHER_DEC) begin
      send(len, plain, 1'b1);
      submit(number, len, 1, 32'h000);
      expect_status(luxor_pkg::DONE_OK);
      expect_unit(len, cipher, 1'b1);
    end
    if (CIPHER != luxor_pkg::CIPHER_ENC) begin
      send(len, cipher, 1'b1);
      submit(number, len, 1, 32'h100);
      expect_status(luxor_pkg::DONE_OK);
      expect_unit(len, plain, 1'b1);
    end
  endtask

  // The bytes of a printed number, with the first byte in bits 7:0.
  function automatic logic [511:0] bytes(input int len, input logic [511:0] printed);
    bytes = 512'd0;
    for (int i = 0; i < len; i++) bytes[8*i+:8] = printed[8*(len-1-i)+:8];
  endfunction
  localparam logic [383:0] PLAIN_256 =
      384'hca7d65ef8d3dfad345b61ccddca1ad81de830b9e86c7b426d76cb7db766852d981c6b21409399d78f42cc0b33a7bbb06;
  localparam logic [383:0] CIPHER_256 =
      384'hc73256870cc2f4dd57acc74b5456dbd776912a128bc1f77d72cdebbf270044b7a43ceed29025e1e8be211fa3c3ed002d;

  localparam logic [511:0] PLAIN_CTR =
      512'h6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710;
  localparam logic [511:0] CIPHER_CTR_128 =
      512'h874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee;
  localparam logic [511:0] CIPHER_CTR_256 =
      512'h601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c52b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6;
  // Counter mode: four blocks, and the same with a partial last block. Without it, both are refused.
  task automatic known_counters(input logic [511:0] cipher);
    for (int len = 64; len > 54; len -= 9) begin
      send(len, bytes(64, PLAIN_CTR), 1'b1);
      submit(128'hf0f1f2f3f4f5f6f7f8f9fafbfcfdfeff, len, 1, 32'h400);
      expect_status(CTR != 0 ? luxor_pkg::DONE_OK : luxor_pkg::DONE_NO_CIPHER);
      if (CTR != 0) expect_unit(len, bytes(64, cipher), 1'b1);
      else expect_hollow;
    end
  endtask

  task automatic all_there_is;
    // No slot has a key yet. The packet has been waiting since the reset.
    submit(128'd7, 512, 1, 32'h000);
    expect_status(CIPHER == luxor_pkg::CIPHER_DEC ? luxor_pkg::DONE_NO_CIPHER : luxor_pkg::DONE_EMPTY_SLOT);
    expect_hollow;
    // IEEE 1619, vectors 2 and 15.
    load_key(1'b0, {128'd0, {16{8'h11}}}, {128'd0, {16{8'h22}}});
    known_answer(bytes(16, 128'h33333333330000000000000000000000), 32, {32{8'h44}},
        bytes(32, 256'hc454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0));
    load_key(1'b0, bytes(16, 128'hfffefdfcfbfaf9f8f7f6f5f4f3f2f1f0),
             bytes(16, 128'hbfbebdbcbbbab9b8b7b6b5b4b3b2b1b0));
    known_answer(128'h123456789a, 17, bytes(17, 136'h000102030405060708090a0b0c0d0e0f10),
                 bytes(17, 136'h6c1625db4671522d3d7599601de7ca09ed));
    // A packet that ends before its second unit, one that is too long, and one without data.
    send(17, bytes(17, 136'h000102030405060708090a0b0c0d0e0f10), 1'b1);
    submit(128'h123456789a, 17, 2, 32'h000);
    expect_status(luxor_pkg::DONE_CUT);
    expect_unit(17, bytes(17, 136'h6c1625db4671522d3d7599601de7ca09ed), 1'b0);
    expect_hollow;
    send(17, bytes(17, 136'h000102030405060708090a0b0c0d0e0f10), 1'b0);
    send(48, 512'd5, 1'b1);
    submit(128'h123456789a, 17, 1, 32'h000);
    expect_status(luxor_pkg::DONE_EXCESS);
    checked = checked + (LANES == 1 ? 2 : 1);
    submit(128'h123456789a, 0, 1, 32'h000);
    expect_status(luxor_pkg::DONE_NO_DATA);
    // SP 800-38A, F.5.1.
    load_key(1'b0, bytes(16, 128'h2b7e151628aed2a6abf7158809cf4f3c), 256'd1);
    known_counters(CIPHER_CTR_128);
    // NIST, tweak-128hexstr-XTSGenAES256.rsp, COUNT = 101.
    if (KEY256 != 0) begin
      load_key(1'b1,
          bytes(32, 256'h266c336b3b01489f3267f52835fd92f674374b88b4e1ebd2d36a5f457581d9d0),
          bytes(32, 256'h42c3eef7b0b7e5137b086496b4d9e6ac658d7196a23f23f036172fdb8faee527));
      known_answer(bytes(16, 128'h06b209a7a22f486ecbfadb0f3137ba42), 48, bytes(48, PLAIN_256),
                   bytes(48, CIPHER_256));
      // SP 800-38A, F.5.5.
      load_key(1'b1, bytes(32, 256'h603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4),
               256'd1);
      known_counters(CIPHER_CTR_256);
    end
    if (checked != out_count)
      $fatal(1, "luxor_xts: got %0d beats, expected %0d", out_count, checked);
  endtask

  initial begin
    done = 1'b0;
    @(negedge clk);
    rst = 1'b1;
    repeat (2) @(negedge clk);
    rst = 1'b0;
    send(48, 512'd5, 1'b1);
    // The second turn comes after a reset in the middle of a unit.
    for (int turn = 0; turn < 2; turn++) begin
      write(12'h00c, 32'd1);
      expect_read(12'h020, 32'd0);
      expect_read(12'hfc0, 32'd0);
      expect_read(12'hffc, 32'd0);
      all_there_is;
      send(48, bytes(48, PLAIN_256), 1'b0);
      submit(128'd0, 64, 4, 32'h000);
      repeat (20) @(negedge clk);
      in_count = 0;
      in_next = 0;
      submitted = 0;
      write(12'h00c, 32'd2);
      out_count = 0;
      checked = 0;
      send(48, 512'd5, 1'b1);
      expect_read(12'h024, 32'd0);
      expect_read(12'h038, 32'd0);
    end
    done = 1'b1;
  end
endmodule

`default_nettype wire
