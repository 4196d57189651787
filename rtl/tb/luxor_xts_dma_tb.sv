// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests the core with its bus master on a memory that checks the rules of the bus (axi_memory.sv).
// First the data rate with a memory that answers after 32 cycles: at least RATE beats in 1000 cycles
// with units of 4 KiB, from the first beat that is written to the last. Then random descriptors
// with and without stalls: both directions, both key sizes, units of any length, and each kind of
// failure that the master knows. A status is looked for in memory, as software would, and the data
// must be right as soon as it is there. A memory that holds back reads or writes makes each queue of
// the master full. Then resets at any moment.
// This bench runs only on Icarus, because Verilator has no X. A cocotb test runs this top on
// Verilator.
`default_nettype none

module luxor_xts_dma_tb;
  wire [1:0] done;
  luxor_xts_dma_check #(
      .TWEAK(luxor_pkg::TWEAK_DEDICATED), .LANES(1)
  ) one (.done(done[0]));
  luxor_xts_dma_check #(
      .TWEAK(luxor_pkg::TWEAK_SHARED), .LANES(4), .BURST_LOG2(6), .BUFFER_LOG2(8)
  ) four (.done(done[1]));

  initial begin
    wait (&done);
    $display("PASS luxor_xts_dma");
    $finish;
  end
  initial begin
    #10_000_000;
    $fatal(1, "luxor_xts_dma: timeout, done %b", done);
  end
endmodule

module luxor_xts_dma_check #(
    parameter int TWEAK = 0,
    parameter int LANES = 1,
    parameter int BURST_LOG2 = 4,
    parameter int BUFFER_LOG2 = 8
) (
    output logic done
);
  import aes_model::aes_cipher;
  import aes_model::expand;
  import aes_model::prepare;
  import aes_model::random_block;

`ifdef LUXOR_TEST_LONG
  localparam int DESCRIPTORS = 200;
  localparam int RESETS = 20;
`else
  localparam int DESCRIPTORS = 8;
  localparam int RESETS = 2;
`endif
  localparam int RATE = 950;

  localparam int BYTES = 16 * LANES;
  localparam logic [63:0] BASE = 64'hfedc_ba98_7654_0000;
  localparam int RING_LOG2 = 2, LONG_RING_LOG2 = 5;
  localparam int RING = 'h0f80;  // a ring that crosses 4 KiB
  localparam int SOURCES = 'h2000;
  localparam int DESTINATIONS = 'he000;
  // The places of the ring, and the space for the data of each.
  int places, space;

  localparam int A_CONTROL = 'h00c, A_STATUS = 'h010, A_IRQ_ENABLE = 'h014, A_IRQ_STATUS = 'h018;
  localparam int A_TAIL = 'h020, A_HEAD = 'h024, A_KEY_COMMAND = 'h030, A_KEY_STATUS = 'h034;
  localparam int A_KEYS = 'h040, A_RING = 'h800;

  logic clk = 1'b0;
  // The clock stops when this build is done, so that the other build simulates faster.
  initial while (done !== 1'b1) #5 clk = ~clk;

  logic rst;
  logic [11:0] s_axil_awaddr, s_axil_araddr;
  logic s_axil_awvalid = 1'b0, s_axil_wvalid = 1'b0, s_axil_bready = 1'b0;
  logic s_axil_arvalid = 1'b0, s_axil_rready = 1'b0;
  logic [31:0] s_axil_wdata;
  logic [3:0] s_axil_wstrb;
  wire s_axil_awready, s_axil_wready, s_axil_bvalid, s_axil_arready, s_axil_rvalid, irq;
  wire [1:0] s_axil_bresp, s_axil_rresp;
  wire [31:0] s_axil_rdata;
  wire m_axi_awid, m_axi_awvalid, m_axi_awready, m_axi_wlast, m_axi_wvalid, m_axi_wready;
  wire m_axi_bid, m_axi_bvalid, m_axi_bready, m_axi_arid, m_axi_arvalid, m_axi_arready;
  wire m_axi_rid, m_axi_rlast, m_axi_rvalid, m_axi_rready;
  wire [63:0] m_axi_awaddr, m_axi_araddr;
  wire [7:0] m_axi_awlen, m_axi_arlen;
  wire [2:0] m_axi_awsize, m_axi_arsize, m_axi_awprot, m_axi_arprot;
  wire [1:0] m_axi_awburst, m_axi_arburst, m_axi_bresp, m_axi_rresp;
  wire [3:0] m_axi_awcache, m_axi_arcache;
  wire [128*LANES-1:0] m_axi_wdata, m_axi_rdata;
  wire [16*LANES-1:0] m_axi_wstrb;

  luxor_xts_dma #(
      .TWEAK(TWEAK), .CIPHER(luxor_pkg::CIPHER_BOTH), .SBOX(luxor_pkg::SBOX_T_TABLE), .STAGES(1),
      .LANES(LANES), .BURST_LOG2(BURST_LOG2), .BUFFER_LOG2(BUFFER_LOG2)
  ) dut (
      .*
  );

  int stalls = 0;
  int latency = 0;
  logic [3:0] held = 4'b0000;
  axi_memory #(
      .LANES(LANES), .SIZE_LOG2(17), .BASE(BASE)
  ) memory (
      .clk, .rst, .stalls(stalls), .latency(latency), .held(held),
      .awid(m_axi_awid), .awaddr(m_axi_awaddr),
      .awlen(m_axi_awlen), .awsize(m_axi_awsize), .awburst(m_axi_awburst),
      .awvalid(m_axi_awvalid), .awready(m_axi_awready), .wdata(m_axi_wdata), .wstrb(m_axi_wstrb),
      .wlast(m_axi_wlast), .wvalid(m_axi_wvalid), .wready(m_axi_wready), .bid(m_axi_bid),
      .bresp(m_axi_bresp), .bvalid(m_axi_bvalid), .bready(m_axi_bready), .arid(m_axi_arid),
      .araddr(m_axi_araddr), .arlen(m_axi_arlen), .arsize(m_axi_arsize),
      .arburst(m_axi_arburst), .arvalid(m_axi_arvalid), .arready(m_axi_arready),
      .rid(m_axi_rid), .rdata(m_axi_rdata), .rresp(m_axi_rresp), .rlast(m_axi_rlast),
      .rvalid(m_axi_rvalid), .rready(m_axi_rready)
  );
  always @(posedge clk)
    if (rst === 1'b0 && ^{irq, s_axil_awready, s_axil_wready, s_axil_bvalid, s_axil_arready,
        s_axil_rvalid} === 1'bx) $fatal(1, "dma: X on a control output");

  // In a drain, only the beat that was offered already has strobes.
  int late = 0, zeroed = 0;
  always @(posedge clk) begin
    late = dut.draining && rst === 1'b0 ? late + 32'(m_axi_wvalid && m_axi_wready && |m_axi_wstrb) : 0;
    if (late > 1) $fatal(1, "dma: strobes after a reset");
    if (dut.draining && rst === 1'b0 && m_axi_wvalid && m_axi_wready && m_axi_wstrb == '0)
      zeroed = zeroed + 1;
  end

  task automatic write(input int address, input logic [31:0] data);
    s_axil_awaddr  = address[11:0];
    s_axil_awvalid = 1'b1;
    while (!s_axil_awready) @(negedge clk);
    @(negedge clk);
    s_axil_awvalid = 1'b0;
    s_axil_awaddr  = 'x;
    s_axil_wdata   = data;
    s_axil_wstrb   = 4'b1111;
    s_axil_wvalid  = 1'b1;
    while (!s_axil_wready) @(negedge clk);
    @(negedge clk);
    s_axil_wvalid = 1'b0;
    s_axil_wdata  = 'x;
    while (!s_axil_bvalid) @(negedge clk);
    s_axil_bready = 1'b1;
    @(negedge clk);
    s_axil_bready = 1'b0;
  endtask
  task automatic read(input int address, output logic [31:0] data);
    s_axil_araddr  = address[11:0];
    s_axil_arvalid = 1'b1;
    while (!s_axil_arready) @(negedge clk);
    @(negedge clk);
    s_axil_arvalid = 1'b0;
    s_axil_araddr  = 'x;
    while (!s_axil_rvalid) @(negedge clk);
    data = s_axil_rdata;
    if (^data === 1'bx) $fatal(1, "dma: %h reads %h", address, data);
    s_axil_rready = 1'b1;
    @(negedge clk);
    s_axil_rready = 1'b0;
  endtask
  task automatic expect_read(input int address, input logic [31:0] expected);
    logic [31:0] data;
    read(address, data);
    if (data !== expected) $fatal(1, "dma: %h reads %h, expected %h", address, data, expected);
  endtask

  // Slot 0 has a key of AES-128 and slot 1 one of AES-256.
  logic [1919:0] data_keys[0:1], tweak_keys[0:1];
  task automatic load_keys;
    logic [255:0] data_key, tweak_key;
    logic [31:0] status;
    for (int slot = 0; slot < 2; slot++) begin
      data_key = {random_block(), random_block()};
      tweak_key = {random_block(), random_block()};
      data_keys[slot] = expand(data_key, slot == 1);
      tweak_keys[slot] = expand(tweak_key, slot == 1);
      for (int i = 0; i < 8; i++) begin
        write(A_KEYS + 4 * i, data_key[32*i+:32]);
        write(A_KEYS + 32 + 4 * i, tweak_key[32*i+:32]);
      end
      write(A_KEY_COMMAND, {15'd0, slot[0], 8'(slot), 8'd1});
      status = 32'd1;
      while (status[0]) read(A_KEY_STATUS, status);
      if (status != 0) $fatal(1, "dma: KEY_STATUS is %h", status);
    end
  endtask
  // The ring cannot be changed while ENABLE is 1 or a descriptor is under way.
  task automatic use_ring(input int log2, input int bytes);
    write(A_CONTROL, 32'd0);
    write(A_RING + 8, log2);
    places = 1 << log2;
    space  = bytes;
  endtask
  task automatic start;
    write(A_RING, BASE[31:0] + RING);
    write(A_RING + 4, BASE[63:32]);
    use_ring(RING_LOG2, 'h1f00);
    load_keys;
    write(A_CONTROL, 32'd1);
    submitted = 0;
    finished = 0;
  endtask

  // ---- What is expected of a unit of `len` bytes at `from`, in expected[to...].
  logic [7:0] expected[0:(1<<17)-1], old[0:(1<<17)-1];
  function automatic logic [127:0] block_at(input int at, input int len);
    block_at = '0;
    for (int i = 0; i < len; i++) block_at[8*i+:8] = memory.bytes[at+i];
  endfunction
  function automatic logic [127:0] alpha(input logic [127:0] x);
    alpha = (x << 1) ^ (x[127] ? 128'h87 : 128'd0);
  endfunction
  task automatic expect_block(input int to, input int len, input logic [127:0] block);
    for (int i = 0; i < len; i++) expected[to+i] = block[8*i+:8];
  endtask
  task automatic expect_unit(input int from, input int to, input int len, input int slot,
                             input logic decrypt, input logic [127:0] number);
    logic [127:0] t, u, x;
    int whole, tail;
    whole = len / 16;
    tail = len % 16;
    t = aes_cipher(tweak_keys[slot], slot == 1, 1'b0, number);
    for (int b = 0; b < whole; b++) begin
      // The tweaks of the last whole block and of the partial block are exchanged in decryption.
      u = tail != 0 && b == whole - 1 && decrypt ? alpha(t) : t;
      x = aes_cipher(data_keys[slot], slot == 1, decrypt, block_at(from + 16 * b, 16) ^ u) ^ u;
      if (tail != 0 && b == whole - 1) begin
        expect_block(to + 16 * whole, tail, x);
        u = decrypt ? t : alpha(t);
        x = x >> 8 * tail << 8 * tail | block_at(from + 16 * whole, tail);
        x = aes_cipher(data_keys[slot], slot == 1, decrypt, x ^ u) ^ u;
      end
      expect_block(to + 16 * b, 16, x);
      t = alpha(t);
    end
  endtask

  // ---- Descriptors. Each place of the ring has its own space for data.
  localparam int KINDS = 10;
  localparam int OK = 0, READ = 1, WRITE = 2, FETCH = 3, SOURCE = 4, DESTINATION = 5, LENGTH = 6;
  localparam int SLOT = 7, CUT = 8, NO_DATA = 9;
  int submitted, finished;
  int kinds[0:(1<<LONG_RING_LOG2)-1], starts[0:(1<<LONG_RING_LOG2)-1];
  int sizes[0:(1<<LONG_RING_LOG2)-1];
  task automatic submit(input int kind, input int len, input int units, input int slot,
                        input logic decrypt, input int shift);
    int k, padded, from, to, size, told;
    logic [511:0] desc;
    logic [127:0] number;
    logic [63:0] stride;
    k = submitted % places;
    padded = (len + BYTES - 1) / BYTES * BYTES;
    from = SOURCES + space * k + BYTES * shift;
    to = DESTINATIONS + space * k + BYTES * (shift < 8 ? shift * 5 % 8 : shift);
    size = padded * units;
    number = random_block();
    stride = {$urandom, $urandom};
    for (int i = -BYTES; i < size + BYTES; i++) begin
      memory.bytes[to+i] = $urandom;
      expected[to+i] = memory.bytes[to+i];
      old[to+i] = memory.bytes[to+i];
      memory.writable[to+i] = i >= 0 && i < size && i % padded < len;
    end
    for (int i = 0; i < size; i++)
      memory.bytes[from+i] = i % padded < len ? $urandom : 8'hxx;
    told = kind == CUT ? units + 1 : units;
    desc = {32'd0, $urandom, BASE + 64'(to), BASE + 64'(from), 32'(size), 22'd0, 1'b0, decrypt,
            kind == SLOT ? 8'd2 : 8'(slot), kind == NO_DATA ? 32'd0 : 32'(told), 32'(len), stride,
            number};
    if (kind == SOURCE) desc[320+:4] = 4'd3;
    if (kind == DESTINATION) desc[384+:4] = 4'd15;
    if (kind == LENGTH) desc[288+:32] = ($urandom & 1) != 0 ? 32'd0 : 32'(size + 8);
    if (kind == READ) memory.bad[from/BYTES+$urandom%(size/BYTES)] = 1'b1;
    if (kind == WRITE) memory.bad[to/BYTES+$urandom%(size/BYTES)] = 1'b1;
    if (kind == FETCH) memory.bad[(RING+64*k)/BYTES] = 1'b1;
    if (kind == OK || kind == CUT)
      for (int u = 0; u < units; u++)
        expect_unit(from + padded * u, to + padded * u, len, slot, decrypt, number + u * stride);
    for (int i = 0; i < 64; i++) begin
      memory.bytes[RING+64*k+i] = desc[8*i+:8];
      memory.writable[RING+64*k+i] = i >= 60;
    end
    kinds[k] = kind;
    starts[k] = to;
    sizes[k] = size;
    submitted++;
    write(A_TAIL, submitted);
  endtask

  function automatic logic [31:0] status_of(input int k);
    for (int i = 0; i < 4; i++) status_of[8*i+:8] = memory.bytes[RING+64*k+60+i];
  endfunction
  function automatic logic [31:0] wanted_of(input int k);
    case (kinds[k])
      READ: wanted_of = 32'h8000_0100;
      WRITE: wanted_of = 32'h8000_0200;
      FETCH: wanted_of = 32'h8000_0000 | luxor_pkg::DONE_FETCH;
      SOURCE, DESTINATION, LENGTH: wanted_of = 32'h8000_0000 | luxor_pkg::DONE_ADDRESS;
      SLOT: wanted_of = 32'h8000_0000 | luxor_pkg::DONE_EMPTY_SLOT;
      CUT: wanted_of = 32'h8000_0000 | luxor_pkg::DONE_CUT;
      NO_DATA: wanted_of = 32'h8000_0000 | luxor_pkg::DONE_NO_DATA;
      default: wanted_of = 32'h8000_0000;
    endcase
  endfunction
  // After a reset, each descriptor that was submitted may be done, half done or as it was.
  task automatic check_left;
    for (int k = 0; k < places; k++) begin
      if (status_of(k) !== 32'd0 && status_of(k) !== wanted_of(k))
        $fatal(1, "dma: status %h after a reset, expected %h", status_of(k), wanted_of(k));
      for (int i = starts[k] - BYTES; i < starts[k] + sizes[k] + BYTES; i++)
        if (memory.bytes[i] !== old[i] && memory.bytes[i] !== expected[i])
          $fatal(1, "dma: byte %h is %h after a reset, expected %h or %h", i, memory.bytes[i],
                 old[i], expected[i]);
    end
  endtask
  task automatic finish;
    int k;
    logic [31:0] wanted;
    k = finished % places;
    wanted = wanted_of(k);
    // With a bad beat, the status cannot be written if it is in the same beat.
    if (kinds[k] == FETCH && LANES == 4) begin
      while (32'(finished) == head) read(A_HEAD, head);
      wanted = 32'd0;
    end else while (status_of(k) == 32'd0) @(negedge clk);
    if (status_of(k) !== wanted)
      $fatal(1, "dma: descriptor %0d, kind %0d: status %h, expected %h", finished, kinds[k],
             status_of(k), wanted);
    if (kinds[k] != READ && kinds[k] != WRITE)
      for (int i = -BYTES; i < sizes[k] + BYTES; i++)
        if (memory.bytes[starts[k]+i] !== expected[starts[k]+i])
          $fatal(1, "dma: descriptor %0d, kind %0d: byte %0d is %h, expected %h", finished,
                 kinds[k], i, memory.bytes[starts[k]+i], expected[starts[k]+i]);
    for (int i = 0; i < space; i += BYTES) begin
      memory.bad[(SOURCES+space*k+i)/BYTES] = 1'b0;
      memory.bad[(DESTINATIONS+space*k+i)/BYTES] = 1'b0;
    end
    for (int i = 0; i < space; i++) memory.writable[DESTINATIONS+space*k+i] = 1'b0;
    memory.bad[(RING+64*k)/BYTES] = 1'b0;
    finished++;
  endtask
  logic [31:0] head;
  task automatic finish_all;
    while (finished < submitted) finish;
    head = 32'd0;
    while (head != submitted) read(A_HEAD, head);
  endtask

  task automatic submit_random(input int kind);
    int len, units;
    case ($urandom % 4)
      0: len = 16 + $urandom % (4 * BYTES);
      1: len = 512;
      2: len = 16 + $urandom % (8 * BYTES);
      default: len = 16 * (1 + $urandom % 20);
    endcase
    units = 1 + $urandom % (len < 200 ? 4 : 2);
    submit(kind, len, units, $urandom & 1, ($urandom & 1) != 0, $urandom % 8);
  endtask
  task automatic random_descriptors(input int count);
    for (int d = 0; d < count; d++) begin
      if (submitted - finished == places) finish;
      head = 32'(finished) - 32'd1;
      while (head != finished) read(A_HEAD, head);
      submit_random(d % 2 == 0 ? OK : $urandom % KINDS);
    end
    finish_all;
  endtask

  // Counts the cycles from the first to the last beat that is written, and from the beginning of the
  // fetch to the end of the status.
  int beats, cycles;
  task automatic rate(input int len, input int count);
    int begun;
    stalls = 0;
    latency = 32;
    write(A_CONTROL, 32'd0);
    write(A_IRQ_STATUS, 32'd1);
    write(A_IRQ_ENABLE, 32'd1);
    memory.written = 0;
    for (int d = 0; d < count; d++) submit(OK, len, 1, d & 1, d[1], 0);
    write(A_CONTROL, 32'd1);
    begun = memory.now;
    while (!irq) @(negedge clk);
    if (count == 1)
      $display("%0d lanes: %0d cycles for a descriptor of %0d bytes, to the interrupt", LANES,
               memory.now - begun, len);
    // At the interrupt HEAD counts a descriptor, and its status is in the memory.
    read(A_HEAD, head);
    if (head == 32'(finished)) $fatal(1, "dma: an interrupt before HEAD");
    while (32'(finished) != head) begin
      if (status_of(finished % places) == 32'd0) $fatal(1, "dma: HEAD before a status");
      finish;
    end
    finish_all;
    beats  = len / BYTES * count;
    cycles = memory.last_write - memory.first_write + 1;
    if (memory.written != beats) $fatal(1, "dma: %0d beats written", memory.written);
    $display("%0d lanes: %0d beats of %0d bytes in %0d cycles", LANES, beats, len, cycles);
  endtask

  // ---- Limits. The memory holds something back until the master is stuck, which must be at each
  // limit exactly. They do not depend on the lanes.
  task automatic stick(input logic [3:0] what);
    held = what;
    repeat (400) @(negedge clk);
  endtask
  task automatic expect_count(input string what, input int found, input int limit);
    if (found != limit) $fatal(1, "dma: %0d %s, expected %0d", found, what, limit);
  endtask
  function automatic int reads;
    reads = memory.r_in[0] - memory.r_out[0];
  endfunction
  function automatic int writes(input int id);
    writes = memory.b_in[id] - memory.b_out[id];
  endfunction
  // Long bursts. The first is a beat shorter than the others, so that the bursts that are read ahead
  // have exactly the beats for which there is room.
  task automatic fill_buffers;
    use_ring(RING_LOG2, 'h1f00);
    submit(OK, BYTES * ((1 << BURST_LOG2) - 1), 1, 0, 1'b0, 1);
    submit(OK, 4096, 1, 1, 1'b1, 0);
    submit(OK, 512, 1, 0, 1'b0, 0);
    write(A_CONTROL, 32'd1);
    stick(4'b0001);
    expect_count("reads under way", reads(), 16);
    expect_count("beats read ahead", 32'(dut.master.reader.used_reg), (1 << BUFFER_LOG2) - 1);
    stick(4'b0010);
    expect_count("beats to be written", 32'(dut.master.writer.buffer.count_reg),
                 (1 << BUFFER_LOG2) - 2);
    held = 4'b0000;
    finish_all;
  endtask
  // Short bursts, of one beat.
  task automatic fill_queues;
    int fetched, answered;
    use_ring(LONG_RING_LOG2, 'h300);
    fetched = memory.r_in[1];
    // The fifteenth packet has an end without bytes, which waits for the answers before it as a burst
    // does.
    for (int d = 0; d < places; d++)
      submit(d == 14 ? CUT : OK, BYTES, 1, d & 1, d[1], d == 14 ? (1 << BURST_LOG2) - 1 : d % 8);
    write(A_CONTROL, 32'd1);
    stick(4'b0010);
    // Four are in the queue, and one offers its beat.
    expect_count("writes without a beat", memory.a_in - memory.a_out, 4 + 1);
    stick(4'b0100);
    expect_count("descriptors under way", 32'(dut.master.dispatch.open_reg), 16);
    expect_count("descriptors fetched", memory.r_in[1] - fetched, 16 + 8);
    expect_count("writes under way", writes(0), 15);
    expect_count("writes and ends under way", 32'(dut.master.writer.open_reg), 16);
    stick(4'b1000);
    expect_count("statuses under way", writes(1), 16);
    held = 4'b0000;
    finish_all;
    // Two bursts each, so that fewer descriptors than may be under way have as many reads as may be.
    write(A_CONTROL, 32'd0);
    for (int d = 0; d < places; d++)
      submit(OK, 2 * BYTES, 1, d & 1, d[1], (1 << BURST_LOG2) - 1);
    write(A_CONTROL, 32'd1);
    stick(4'b0001);
    expect_count("reads under way", reads(), 16);
    expect_count("descriptors under way", 32'(dut.master.dispatch.open_reg), 9);
    stick(4'b0100);
    expect_count("writes under way", writes(0), 15);
    // After one answer, two bursts that wait in the core follow each other without a pause.
    answered = memory.b_out[0];
    held = 4'b0000;
    while (memory.b_out[0] == answered) @(negedge clk);
    stick(4'b0100);
    expect_count("bursts that wait for an answer", 32'(dut.master.writer.queued_reg), 16);
    held = 4'b0000;
    finish_all;
  endtask

  initial begin
    done = 1'b0;
    prepare;
    @(negedge clk);
    rst = 1'b1;
    repeat (2) @(negedge clk);
    rst = 1'b0;
    start;
    rate(4096, 4);
    if (beats * 1000 < RATE * cycles) $fatal(1, "dma: too slow");
    rate(512, 4);
    rate(4096, 1);
    latency = 0;
    random_descriptors(DESCRIPTORS / 2);
    if (LANES == 1) begin
      fill_buffers;
      fill_queues;
      use_ring(RING_LOG2, 'h1f00);
      write(A_CONTROL, 32'd1);
    end
    stalls  = 50;
    latency = 20;
    random_descriptors(DESCRIPTORS);
    stalls = 90;
    random_descriptors(DESCRIPTORS / 4);
    // A reset at any moment, by the register and by the wire. After the first the memory gets all
    // that it was promised, and then nothing more. The first is in the middle of a write burst, and
    // the memory answers so late that the reset of the core ends before the bus is quiet.
    for (int turn = 0; turn < RESETS; turn++) begin
      stalls = turn == 0 ? 90 : turn % 4 < 2 ? 70 : 20;
      latency = turn == 0 ? 200 : 20;
      zeroed = 0;
      if (turn == 0) submit(OK, 12 * BYTES, 1, 0, 1'b0, 0);
      for (int d = turn == 0 ? 1 : 0; d < 4; d++) submit_random(d == 2 ? SLOT : OK);
      if (turn == 0)
        while (memory.w_in - memory.w_out < 2 || memory.w_last[(memory.w_in-1)%4096])
          @(negedge clk);
      else repeat ($urandom % 800) @(negedge clk);
      if (turn % 2 == 0) begin
        write(A_CONTROL, 32'd2);
        head = 32'd8;
        while (head[3]) read(A_STATUS, head);
        if (!memory.empty()) $fatal(1, "dma: drained, but the bus is not quiet");
        if (turn == 0 && zeroed == 0) $fatal(1, "dma: no reset in a write burst");
      end else begin
        rst = 1'b1;
        repeat (2) @(negedge clk);
        rst = 1'b0;
      end
      expect_read(A_HEAD, 32'd0);
      expect_read(A_RING, 32'd0);
      repeat (50) begin
        @(negedge clk);
        if (!memory.empty()) $fatal(1, "dma: the bus is not quiet after a reset");
      end
      check_left;
      for (int i = 0; i < 1 << 17; i++) memory.writable[i] = 1'b0;
      start;
      random_descriptors(2);
    end
    done = 1'b1;
  end
endmodule

`default_nettype wire
