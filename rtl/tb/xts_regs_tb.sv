// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests the registers and the ring. The bench plays the core: it takes descriptors at random
// moments, records them, and reports statuses that are computed from their numbers. Every channel
// of AXI4-Lite stalls at random, and addresses and data come in either order.
`default_nettype none

module xts_regs_tb;
  logic clk = 1'b0;
  always #5 clk = ~clk;

  logic rst = 1'b1;
  logic [11:0] awaddr = '0;
  logic awvalid = 1'b0;
  logic [31:0] wdata = '0;
  logic [3:0] wstrb = '1;
  logic wvalid = 1'b0;
  logic bready = 1'b0;
  logic [11:0] araddr = '0;
  logic arvalid = 1'b0;
  logic rready = 1'b0;
  wire awready, wready, bvalid, arready, rvalid, irq;
  wire [1:0] bresp, rresp;
  wire [31:0] rdata;

  wire core_rst, desc_valid, desc_decrypt, key_valid, key_load, key_long;
  wire [1:0] desc_mode;
  wire [127:0] desc_number;
  wire [63:0] desc_stride;
  wire [31:0] desc_unit_len, desc_unit_count;
  wire [7:0] desc_slot, key_slot;
  wire [255:0] key_data, key_tweak;
  logic desc_ready = 1'b0;
  logic done_valid = 1'b0;
  logic [3:0] done_status = '0;
  logic key_ready = 1'b0;
  logic key_done = 1'b0;
  logic [3:0] key_result = '0;
  logic [7:0] slot_state = 8'h9c;
  logic busy = 1'b0;
  logic wiping = 1'b0;
  logic beat_out = 1'b0;
  logic ring_error = 1'b0;
  logic draining = 1'b0;
  wire ring_write, ring_read, ring_read_done, enable;
  wire [8:0] ring_write_addr, ring_read_addr;
  wire [31:0] ring_write_data, ring_read_data, tail, taken_count, head;

  xts_regs #(
      .TWEAK(luxor_pkg::TWEAK_DEDICATED), .CIPHER(luxor_pkg::CIPHER_ENC), .KEY128(1), .KEY256(0),
      .STAGES(3), .LANES(4), .LATENCY(31)
  ) dut (
      .clk(clk), .rst(rst), .s_axil_awaddr(awaddr), .s_axil_awvalid(awvalid),
      .s_axil_awready(awready), .s_axil_wdata(wdata), .s_axil_wstrb(wstrb),
      .s_axil_wvalid(wvalid), .s_axil_wready(wready), .s_axil_bresp(bresp),
      .s_axil_bvalid(bvalid), .s_axil_bready(bready), .s_axil_araddr(araddr),
      .s_axil_arvalid(arvalid), .s_axil_arready(arready), .s_axil_rdata(rdata),
      .s_axil_rresp(rresp), .s_axil_rvalid(rvalid), .s_axil_rready(rready), .irq(irq),
      .core_rst(core_rst), .ring_write(ring_write), .ring_write_addr(ring_write_addr),
      .ring_write_data(ring_write_data), .ring_read(ring_read), .ring_read_addr(ring_read_addr),
      .ring_read_done(ring_read_done), .ring_read_data(ring_read_data), .enable(enable),
      .tail(tail), .ring_size(32'd32), .taken(taken_count), .head(head),
      .ring_done(done_valid), .ring_error(ring_error), .draining(draining), .key_valid(key_valid), .key_ready(key_ready), .key_load(key_load), .key_slot(key_slot),
      .key_long(key_long), .key_data(key_data), .key_tweak(key_tweak), .key_done(key_done),
      .key_result(key_result), .slot_state(slot_state), .busy(busy), .wiping(wiping),
      .beat_out(beat_out)
  );
  desc_ring ring (
      .clk(clk), .rst(core_rst), .write(ring_write), .write_addr(ring_write_addr),
      .write_data(ring_write_data), .read(ring_read), .read_addr(ring_read_addr),
      .read_done(ring_read_done), .read_data(ring_read_data), .enable(enable), .tail(tail),
      .taken(taken_count), .head(head), .desc_valid(desc_valid), .desc_ready(desc_ready),
      .desc_number(desc_number), .desc_stride(desc_stride), .desc_unit_len(desc_unit_len),
      .desc_unit_count(desc_unit_count), .desc_slot(desc_slot), .desc_decrypt(desc_decrypt),
      .desc_mode(desc_mode), .done_valid(done_valid), .done_status(done_status)
  );

  // A transfer that is offered on a channel must not change until it is taken, and no output may be
  // X after a reset.
  logic held = 1'b0;
  logic [266:0] held_desc = '0;
  logic was_valid = 1'b0;
  logic [34:0] was = '0;
  wire [266:0] desc = {desc_mode, desc_decrypt, desc_slot, desc_unit_count, desc_unit_len,
                       desc_stride, desc_number};
  always @(posedge clk) begin
    held <= !core_rst && desc_valid && !desc_ready;
    held_desc <= desc;
    if (held && !core_rst && (!desc_valid || desc !== held_desc))
      $fatal(1, "regs: desc changed or vanished before it was taken");
    was_valid <= !rst && rvalid && !rready;
    was <= {rvalid, rresp, rdata};
    if (was_valid && !rst && {rvalid, rresp, rdata} !== was)
      $fatal(1, "regs: R changed or vanished before it was taken");
    if (!rst && ^{awready, wready, bvalid, arready, rvalid, irq, core_rst} === 1'bx)
      $fatal(1, "regs: X on a control output");
    if (!rst && !core_rst && ^{desc_valid, key_valid, key_data, key_tweak} === 1'bx)
      $fatal(1, "regs: X on an output to the core");
    if (!rst && ((bvalid && ^bresp === 1'bx) || (rvalid && ^{rresp, rdata} === 1'bx)
        || (desc_valid && !core_rst && ^desc === 1'bx)))
      $fatal(1, "regs: X on a valid response or descriptor");
  end

  task automatic stall;
    repeat ($urandom & 3) @(negedge clk);
  endtask
  task automatic write_strobed(input logic [11:0] address, input logic [31:0] data,
                               input logic [3:0] strobes, input logic [1:0] response);
    fork
      begin
        stall;
        awaddr  = address;
        awvalid = 1'b1;
        while (!awready) @(negedge clk);
        @(negedge clk) awvalid = 1'b0;
      end
      begin
        stall;
        wdata  = data;
        wstrb  = strobes;
        wvalid = 1'b1;
        while (!wready) @(negedge clk);
        @(negedge clk) wvalid = 1'b0;
      end
    join
    stall;
    bready = 1'b1;
    while (!bvalid) @(negedge clk);
    if (bresp !== response) $fatal(1, "regs: write of %h: response %b", address, bresp);
    @(negedge clk) bready = 1'b0;
  endtask
  task automatic write(input logic [11:0] address, input logic [31:0] data);
    write_strobed(address, data, 4'b1111, 2'b00);
  endtask
  task automatic read(input logic [11:0] address, output logic [31:0] data);
    stall;
    araddr  = address;
    arvalid = 1'b1;
    while (!arready) @(negedge clk);
    @(negedge clk) arvalid = 1'b0;
    stall;
    rready = 1'b1;
    while (!rvalid) @(negedge clk);
    data = rdata;
    if (rresp !== 2'b00) $fatal(1, "regs: read of %h: response %b", address, rresp);
    @(negedge clk) rready = 1'b0;
  endtask
  task automatic expect_read(input logic [11:0] address, input logic [31:0] expected);
    logic [31:0] data;
    read(address, data);
    if (data !== expected) $fatal(1, "regs: %h reads %h, expected %h", address, data, expected);
  endtask

  // Plays the core.
  localparam int MAX = 200;
  logic [265:0] seen[0:MAX-1];
  int taken = 0;
  int done = 0;
  logic plays = 1'b1;
  logic takes_one = 1'b0;
  function automatic logic [3:0] status_of(input int k);
    status_of = 4'((k * 7 + 3) % 11);
  endfunction
  always @(posedge clk) begin
    if (core_rst) begin
      taken <= 0;
      done <= 0;
    end else begin
      if (desc_valid && desc_ready) begin
        seen[taken] <= desc;
        taken <= taken + 1;
      end
      if (done_valid) done <= done + 1;
    end
  end
  always @(negedge clk) begin
    desc_ready = takes_one || (plays && !core_rst && ($urandom & 7) == 0);
    done_valid = plays && !core_rst && taken > done && ($urandom & 31) == 0;
    done_status = done_valid ? status_of(done) : 4'hf;
  end

  logic [287:0] wanted[0:MAX-1];
  function automatic logic [31:0] word_of(input int k, input int word);
    word_of = wanted[k][32*word+:32];
  endfunction
  function automatic logic [11:0] ring_at(input int k, input int word);
    ring_at = 12'h800 + 12'(64 * (k % 32) + 4 * word);
  endfunction
  task automatic submit(input int k);
    for (int i = 0; i < 9; i++) wanted[k][32*i+:32] = $urandom;
    for (int i = 0; i < 9; i++) write(ring_at(k, i), word_of(k, i));
  endtask

  logic [31:0] data, low, high;
  int submitted;
  initial begin
    repeat (3) @(negedge clk);
    rst = 1'b0;
    // The values after a reset.
    expect_read(12'h000, 32'h4C58_5453);
    expect_read(12'h004, 32'h0001_0000);
    expect_read(12'h008, {8'd31, 4'd0, 4'd5, 1'b0, 3'd3, 2'b0, 2'd2, 4'b0101, 4'd4});
    expect_read(12'h00c, 32'd0);
    expect_read(12'h010, 32'd0);
    expect_read(12'h020, 32'd0);
    expect_read(12'h038, 32'h9c);
    expect_read(12'h7fc, 32'd0);
    write(12'h7fc, 32'hffff_ffff);
    write(12'h000, 32'hffff_ffff);
    expect_read(12'h7fc, 32'd0);
    expect_read(12'h000, 32'h4C58_5453);
    expect_read(12'hbc8, 32'd0);
    wiping = 1'b1;
    expect_read(12'h010, 32'd4);
    wiping = 1'b0;
    busy = 1'b1;
    expect_read(12'h010, 32'd1);
    busy = 1'b0;
    draining = 1'b1;
    expect_read(12'h010, 32'd8);
    draining = 1'b0;
    // Writes of less than a word change nothing.
    write(12'h014, 32'd3);
    write_strobed(12'h014, 32'd0, 4'b0111, 2'b10);
    write_strobed(12'h014, 32'd0, 4'b0000, 2'b10);
    expect_read(12'h014, 32'd3);

    // A write waits until the response to the previous one was taken.
    awvalid = 1'b1;
    wvalid  = 1'b1;
    awaddr  = 12'h014;
    wstrb   = 4'b1111;
    for (int i = 0; i < 2; i++) begin
      wdata = 32'(i + 1);
      while (!awready) @(negedge clk);
      @(negedge clk);
    end
    awvalid = 1'b0;
    wvalid  = 1'b0;
    repeat (20) @(negedge clk);
    if (dut.irq_enable_reg !== 2'd1) $fatal(1, "regs: second write before the first response");
    for (int i = 0; i < 2; i++) begin
      bready = 1'b1;
      while (!bvalid) @(negedge clk);
      @(negedge clk) bready = 1'b0;
    end
    expect_read(12'h014, 32'd2);
    write(12'h014, 32'd3);

    // No descriptor is taken without ENABLE.
    submit(0);
    write(12'h020, 32'd1);
    write(12'h020, 32'd33);
    expect_read(12'h020, 32'd1);
    repeat (100) @(negedge clk);
    if (taken != 0 || desc_valid) $fatal(1, "regs: descriptor offered before ENABLE");
    expect_read(12'h010, 32'd0);
    write(12'h00c, 32'd1);
    expect_read(12'h00c, 32'd1);

    // Several times the size of the ring.
    submitted = 1;
    while (submitted < MAX) begin
      read(12'h024, data);
      if (data > 32'(submitted) || 32'(submitted) - data > 32'd32)
        $fatal(1, "regs: impossible HEAD %0d", data);
      for (int n = $urandom & 15; n > 0 && submitted < MAX && 32'(submitted) - data < 32'd32; n--) begin
        submit(submitted);
        submitted++;
      end
      write(12'h020, 32'(submitted));
      // Invalid tails.
      write(12'h020, 32'(submitted) - 32'd1);
      write(12'h020, 32'(submitted) + 32'd33);
      expect_read(12'h020, 32'(submitted));
      // The host can read its words while descriptors are fetched.
      for (int i = 0; i < 9; i++) expect_read(ring_at(submitted - 1, i), word_of(submitted - 1, i));
      // The host cannot write a status.
      write(ring_at(submitted, 15), 32'h8000_0005);
      // The status of a descriptor that is done and has not been replaced.
      read(12'h024, data);
      if (data != 0) expect_read(ring_at(int'(data) - 1, 15), {1'b1, 27'd0, status_of(int'(data) - 1)});
    end
    while (done != MAX) @(negedge clk);
    expect_read(12'h024, 32'(MAX));
    expect_read(12'h010, 32'd0);
    for (int k = 0; k < MAX; k++)
      if (seen[k] !== wanted[k][265:0])
        $fatal(1, "regs: descriptor %0d is %h, expected %h", k, seen[k], wanted[k]);
    for (int k = MAX - 32; k < MAX; k++) begin
      expect_read(ring_at(k, 15), {1'b1, 27'd0, status_of(k)});
      for (int i = 0; i < 9; i++) expect_read(ring_at(k, i), word_of(k, i));
    end
    // A status is cleared when the descriptor is taken.
    plays = 1'b0;
    expect_read(ring_at(MAX, 15), {1'b1, 27'd0, status_of(MAX - 32)});
    write(12'h020, 32'(MAX + 1));
    while (!desc_valid) @(negedge clk);
    @(posedge clk) takes_one = 1'b1;
    @(posedge clk) takes_one = 1'b0;
    repeat (2) @(negedge clk);
    expect_read(ring_at(MAX, 15), 32'd0);
    expect_read(12'h010, 32'd1);

    // Interrupts.
    expect_read(12'h018, 32'd1);
    if (!irq) $fatal(1, "regs: no interrupt for a descriptor");
    write(12'h014, 32'd2);
    @(negedge clk);
    if (irq) $fatal(1, "regs: interrupt although disabled");
    write(12'h014, 32'd3);
    write(12'h018, 32'd2);
    expect_read(12'h018, 32'd1);
    write(12'h018, 32'd1);
    expect_read(12'h018, 32'd0);
    @(negedge clk);
    if (irq) $fatal(1, "regs: interrupt after it was cleared");
    ring_error = 1'b1;
    @(negedge clk) ring_error = 1'b0;
    expect_read(12'h018, 32'd4);
    if (irq) $fatal(1, "regs: interrupt of the ring although disabled");
    write(12'h014, 32'd7);
    @(negedge clk);
    if (!irq) $fatal(1, "regs: no interrupt for an error of the ring");
    write(12'h018, 32'd4);
    expect_read(12'h018, 32'd0);

    // Keys.
    for (int i = 0; i < 16; i++) write(12'(12'h040 + 4 * i), 32'h1000_0000 * i + 32'd5);
    for (int i = 0; i < 16; i++) expect_read(12'(12'h040 + 4 * i), 32'd0);
    write(12'h030, 32'h0001_0300);
    write(12'h030, 32'h0001_0303);
    if (key_valid) $fatal(1, "regs: invalid key command was given");
    write(12'h030, 32'h0001_0301);
    write(12'h040, 32'd0);
    write(12'h030, 32'h0000_0502);
    expect_read(12'h034, 32'd1);
    expect_read(12'h010, 32'd3);
    if ({key_valid, key_load, key_long, key_slot} !== {3'b111, 8'd3})
      $fatal(1, "regs: wrong load command");
    for (int i = 0; i < 16; i++) begin
      low = i < 8 ? key_data[32*i+:32] : key_tweak[32*(i-8)+:32];
      if (low !== 32'h1000_0000 * i + 32'd5) $fatal(1, "regs: wrong key word %0d: %h", i, low);
    end
    key_ready = 1'b1;
    @(negedge clk) key_ready = 1'b0;
    if (key_valid) $fatal(1, "regs: key command given twice");
    expect_read(12'h034, 32'd1);
    if ({key_data, key_tweak} == 512'd0) $fatal(1, "regs: keys cleared before the command was done");
    key_result = 4'd3;
    key_done = 1'b1;
    @(negedge clk) key_done = 1'b0;
    if ({key_data, key_tweak} !== 512'd0) $fatal(1, "regs: keys remain after the command");
    expect_read(12'h034, 32'h30);
    expect_read(12'h018, 32'd2);
    if (!irq) $fatal(1, "regs: no interrupt for a key command");
    write(12'h030, 32'h0000_0502);
    if ({key_valid, key_load, key_long, key_slot} !== {3'b100, 8'd5})
      $fatal(1, "regs: wrong clear command");

    // Counters.
    expect_read(12'h088, 32'd0);
    for (int i = 0; i < 50; i++) begin
      beat_out = $urandom;
      low = 32'(i == 0 ? 0 : low) + 32'(beat_out);
      @(negedge clk);
    end
    beat_out = 1'b0;
    expect_read(12'h088, low);
    expect_read(12'h08c, 32'd0);
    dut.beats_reg = 64'h0123_4567_ffff_ffff;
    expect_read(12'h088, 32'hffff_ffff);
    beat_out = 1'b1;
    @(negedge clk) beat_out = 1'b0;
    expect_read(12'h08c, 32'h0123_4567);
    expect_read(12'h088, 32'd0);
    expect_read(12'h08c, 32'h0123_4568);
    read(12'h080, low);
    repeat (1000) @(negedge clk);
    read(12'h080, high);
    if (high - low < 32'd1000 || high - low > 32'd1020)
      $fatal(1, "regs: CYCLES grew by %0d, expected 1000 to 1020", high - low);
    expect_read(12'h084, 32'd0);
    dut.cycles_reg = 64'h0123_4567_ffff_fff0;
    read(12'h080, low);
    repeat (100) @(negedge clk);
    expect_read(12'h084, low >= 32'hffff_fff0 ? 32'h0123_4567 : 32'h0123_4568);

    // A reset by software, with a descriptor taken and a key command running.
    for (int i = 0; i < 16; i++) write(12'(12'h040 + 4 * i), 32'hffff_ffff);
    write(12'h00c, 32'd3);
    repeat (40) @(negedge clk);
    if (!core_rst) $fatal(1, "regs: reset too short");
    expect_read(12'h00c, 32'd0);
    if (core_rst) $fatal(1, "regs: read answered during a reset");
    for (int a = 12'h010; a < 12'h080; a += 4)
      expect_read(a[11:0], a == 12'h038 ? 32'h9c : 32'd0);
    expect_read(12'h08c, 32'd0);
    read(12'h080, low);
    if (low > 32'd600) $fatal(1, "regs: CYCLES is %0d after a reset", low);
    expect_read(ring_at(5, 15), 32'd0);
    if ({key_data, key_tweak} !== 512'd0 || key_valid || irq)
      $fatal(1, "regs: keys, command or interrupt remain after a reset");
    plays = 1'b1;
    submit(0);
    write(12'h020, 32'd1);
    write(12'h00c, 32'd1);
    while (done != 1) @(negedge clk);
    if (seen[0] !== wanted[0][265:0]) $fatal(1, "regs: wrong descriptor after a reset");
    expect_read(12'h024, 32'd1);

    $display("PASS xts_regs");
    $finish;
  end
  initial begin
    #20_000_000;
    $fatal(1, "regs: timeout");
  end
endmodule

`default_nettype wire
