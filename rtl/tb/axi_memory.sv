// SPDX-License-Identifier: MIT OR Apache-2.0
// A memory behind an AXI4 bus, for benches, which checks the rules of the bus:
//
// - What is offered stays as it is until it is accepted. No control signal is X, and no data of a
//   byte that is written.
// - Bursts are INCR, of whole beats, aligned, within a page of 4 KiB, and within the memory. wlast
//   is where it belongs. Only bytes that are `writable` have strobes.
//
// Each ID has its order, and the two IDs are independent: beats of reads are interleaved at random,
// and answers overtake each other. Write data may come before their address. A burst is written
// when its answer is given, so that what was not acknowledged cannot be read. `stalls` is the
// percentage of cycles in which a channel waits. Each answer takes at least `latency` cycles. `held`
// holds something back while a bit is 1: bit 0 the beats of reads of data (ID 0), bit 1 the beats of all
// writes, bits 2 and 3 the answers to writes of ID 0 and 1. `bad` beats answer with an error, and are
// not written.
`default_nettype none

module axi_memory #(
    parameter int LANES = 1,
    parameter int SIZE_LOG2 = 16,
    parameter logic [63:0] BASE = 64'd0
) (
    input  wire                 clk,
    input  wire                 rst,
    input  wire [         31:0] stalls,
    input  wire [         31:0] latency,
    input  wire [          3:0] held,
    input  wire                 awid,
    input  wire [         63:0] awaddr,
    input  wire [          7:0] awlen,
    input  wire [          2:0] awsize,
    input  wire [          1:0] awburst,
    input  wire                 awvalid,
    output logic                awready,
    input  wire [128*LANES-1:0] wdata,
    input  wire [ 16*LANES-1:0] wstrb,
    input  wire                 wlast,
    input  wire                 wvalid,
    output logic                wready,
    output logic                bid,
    output logic [         1:0] bresp,
    output logic                bvalid,
    input  wire                 bready,
    input  wire                 arid,
    input  wire [         63:0] araddr,
    input  wire [          7:0] arlen,
    input  wire [          2:0] arsize,
    input  wire [          1:0] arburst,
    input  wire                 arvalid,
    output logic                arready,
    output logic                rid,
    output logic [128*LANES-1:0] rdata,
    output logic [         1:0] rresp,
    output logic                rlast,
    output logic                rvalid,
    input  wire                 rready
);
  localparam int BYTES = 16 * LANES;
  localparam int SIZE = 1 << SIZE_LOG2;
  localparam int BURSTS = 64;
  localparam int BEATS = 4096;

  logic [7:0] bytes[0:SIZE-1];
  logic writable[0:SIZE-1];
  logic bad[0:SIZE/BYTES-1];
  initial
    for (int i = 0; i < SIZE; i++) begin
      bytes[i] = 8'hxx;
      writable[i] = 1'b0;
      bad[i/BYTES] = 1'b0;
    end

  function automatic logic waits;
    waits = ($urandom & 1023) * 100 < stalls * 1024;
  endfunction
  // Whether an answer comes with SLVERR or DECERR.
  function automatic logic [1:0] response(input logic failed);
    response = {failed, failed && ($urandom & 1) != 0};
  endfunction
  function automatic int offset(input logic [63:0] addr);
    offset = int'(addr[SIZE_LOG2-1:0]);
  endfunction
  task automatic check_burst(input logic [63:0] addr, input logic [7:0] len, input logic [2:0] size,
                             input logic [1:0] burst);
    if (^{addr, len, size, burst} === 1'bx) $fatal(1, "axi: X in an address");
    if (size != 3'($clog2(BYTES)) || burst != 2'b01) $fatal(1, "axi: not INCR, or a narrow burst");
    if (addr % BYTES != 0) $fatal(1, "axi: %h is not aligned", addr);
    if (addr[11:0] + (32'(len) + 1) * BYTES > 4096) $fatal(1, "axi: %h crosses 4 KiB", addr);
    if (addr[63:SIZE_LOG2] != BASE[63:SIZE_LOG2]) $fatal(1, "axi: %h is not in the memory", addr);
  endtask

  // What was offered in the last cycle and not accepted.
  logic aw_held = 1'b0, w_held = 1'b0, ar_held = 1'b0;
  logic [73:0] aw_was, ar_was;
  logic [144*LANES:0] w_was;
  int now = 0;
  always @(posedge clk) begin
    now <= now + 1;
    aw_held <= !rst && awvalid && !awready;
    w_held <= !rst && wvalid && !wready;
    ar_held <= !rst && arvalid && !arready;
    aw_was <= {awvalid, awid, awaddr, awlen};
    w_was <= {wlast, wstrb, wdata};
    ar_was <= {arvalid, arid, araddr, arlen};
    if (!rst) begin
      if (^{awvalid, wvalid, arvalid, bready, rready} === 1'bx) $fatal(1, "axi: X on a control signal");
      if (aw_held && {awvalid, awid, awaddr, awlen} !== aw_was) $fatal(1, "axi: AW changed");
      if (w_held && (!wvalid || {wlast, wstrb, wdata} !== w_was)) $fatal(1, "axi: W changed");
      if (ar_held && {arvalid, arid, araddr, arlen} !== ar_was) $fatal(1, "axi: AR changed");
      if (wvalid && ^{wlast, wstrb} === 1'bx) $fatal(1, "axi: X in wlast or wstrb");
    end
  end

  // ---- Reads: bursts by ID, and how many beats of the oldest have been sent.
  logic [63:0] r_addr[0:2*BURSTS-1];
  int r_len[0:2*BURSTS-1], r_time[0:2*BURSTS-1];
  int r_in[0:1], r_out[0:1], r_sent[0:1];
  function automatic logic r_ready(input int id);
    r_ready = r_out[id] < r_in[id] && !(held[0] && id == 0)
        && now - r_time[id*BURSTS+r_out[id]%BURSTS] >= latency;
  endfunction
  int r, r_at;
  always @(posedge clk) begin
    arready <= !waits();
    if (arvalid && arready && !rst) begin
      check_burst(araddr, arlen, arsize, arburst);
      r = int'(arid);
      if (r_in[r] - r_out[r] == BURSTS) $fatal(1, "axi: too many reads");
      r_addr[r*BURSTS+r_in[r]%BURSTS] = araddr;
      r_len[r*BURSTS+r_in[r]%BURSTS] = int'(arlen);
      r_time[r*BURSTS+r_in[r]%BURSTS] = now;
      r_in[r] = r_in[r] + 1;
    end
    if (!rvalid || rready) begin
      rvalid <= 1'b0;
      rid <= 1'bx;
      rdata <= 'x;
      rresp <= 2'bxx;
      rlast <= 1'bx;
      r = $urandom & 1;
      if (!r_ready(r)) r = 1 - r;
      if (r_ready(r) && !waits()) begin
        r_at = offset(r_addr[r*BURSTS+r_out[r]%BURSTS]) + BYTES * r_sent[r];
        rvalid <= 1'b1;
        rid <= r[0];
        for (int i = 0; i < BYTES; i++) rdata[8*i+:8] <= bytes[r_at+i];
        rresp <= response(bad[r_at/BYTES]);
        rlast <= r_sent[r] == r_len[r*BURSTS+r_out[r]%BURSTS];
        if (r_sent[r] == r_len[r*BURSTS+r_out[r]%BURSTS]) begin
          r_out[r]  = r_out[r] + 1;
          r_sent[r] = 0;
        end else r_sent[r] = r_sent[r] + 1;
      end
    end
    if (rst) begin
      arready <= 1'b0;
      rvalid <= 1'b0;
      for (int id = 0; id < 2; id++) begin
        r_in[id] = 0;
        r_out[id] = 0;
        r_sent[id] = 0;
      end
    end
  end

  // ---- Writes: addresses and beats, in order, which the counter w_bursts puts together. A burst
  // that is complete waits in the queue of its ID.
  logic [63:0] a_addr[0:BURSTS-1];
  logic a_id[0:BURSTS-1];
  int a_len[0:BURSTS-1];
  int a_in = 0, a_out = 0;
  logic [128*LANES-1:0] w_data[0:BEATS-1];
  logic [BYTES-1:0] w_strb[0:BEATS-1];
  logic w_last[0:BEATS-1];
  int w_time[0:BEATS-1];
  int w_in = 0, w_out = 0;
  logic [63:0] b_addr[0:2*BURSTS-1];
  int b_len[0:2*BURSTS-1], b_first[0:2*BURSTS-1], b_time[0:2*BURSTS-1];
  int b_in[0:1], b_out[0:1];
  // When the first and the last beat of data came since `written` was set to 0.
  int written = 0, first_write, last_write;
  function automatic logic b_ready(input int id);
    b_ready = b_out[id] < b_in[id] && !held[2+id]
        && now - b_time[id*BURSTS+b_out[id]%BURSTS] >= latency;
  endfunction
  int b, q, w_at;
  logic failed;
  always @(posedge clk) begin
    awready <= !waits() && a_in - a_out < BURSTS / 2;
    wready  <= !waits() && !held[1] && w_in - w_out < BEATS / 4;
    if (awvalid && awready && !rst) begin
      check_burst(awaddr, awlen, awsize, awburst);
      a_addr[a_in%BURSTS] = awaddr;
      a_id[a_in%BURSTS] = awid;
      a_len[a_in%BURSTS] = int'(awlen);
      a_in = a_in + 1;
    end
    if (wvalid && wready && !rst) begin
      w_time[w_in%BEATS] = now;
      w_data[w_in%BEATS] = wdata;
      w_strb[w_in%BEATS] = wstrb;
      w_last[w_in%BEATS] = wlast;
      w_in = w_in + 1;
    end
    // At most one burst becomes complete in a cycle.
    if (a_out < a_in && w_in - w_out > a_len[a_out%BURSTS]) begin
      b = int'(a_id[a_out%BURSTS]);
      q = b * BURSTS + b_in[b] % BURSTS;
      if (b_in[b] - b_out[b] == BURSTS) $fatal(1, "axi: too many writes");
      b_addr[q] = a_addr[a_out%BURSTS];
      b_len[q] = a_len[a_out%BURSTS];
      b_first[q] = w_out;
      b_time[q] = now;
      for (int n = 0; n <= b_len[q]; n++)
        if (w_last[(w_out+n)%BEATS] !== (n == b_len[q])) $fatal(1, "axi: wrong wlast");
      if (b == 0) begin
        if (written == 0) first_write = w_time[w_out%BEATS];
        last_write = w_time[(w_out+b_len[q])%BEATS];
        written = written + b_len[q] + 1;
      end
      w_out = w_out + b_len[q] + 1;
      b_in[b] = b_in[b] + 1;
      a_out = a_out + 1;
    end
    if (!bvalid || bready) begin
      bvalid <= 1'b0;
      bid <= 1'bx;
      bresp <= 2'bxx;
      b = $urandom & 1;
      if (!b_ready(b)) b = 1 - b;
      if (b_ready(b) && !waits()) begin
        q = b * BURSTS + b_out[b] % BURSTS;
        failed = 1'b0;
        for (int n = 0; n <= b_len[q]; n++) begin
          w_at = offset(b_addr[q]) + BYTES * n;
          for (int i = 0; i < BYTES; i++)
            if (w_strb[(b_first[q]+n)%BEATS][i]) begin
              if (!writable[w_at+i]) $fatal(1, "axi: write of %h", b_addr[q] + BYTES * n + i);
              if (^w_data[(b_first[q]+n)%BEATS][8*i+:8] === 1'bx)
                $fatal(1, "axi: X in what is written to %h", b_addr[q] + BYTES * n + i);
              if (bad[w_at/BYTES]) failed = 1'b1;
              else bytes[w_at+i] = w_data[(b_first[q]+n)%BEATS][8*i+:8];
            end
        end
        bvalid <= 1'b1;
        bid <= b[0];
        bresp <= response(failed);
        b_out[b] = b_out[b] + 1;
      end
    end
    if (rst) begin
      awready <= 1'b0;
      wready <= 1'b0;
      bvalid <= 1'b0;
      a_in = 0;
      a_out = 0;
      w_in = 0;
      w_out = 0;
      for (int id = 0; id < 2; id++) begin
        b_in[id]  = 0;
        b_out[id] = 0;
      end
    end
  end

  // Nothing is under way.
  wire quiet = !arvalid && !rvalid && !awvalid && !wvalid && !bvalid;
  function automatic logic empty;
    empty = quiet && r_in[0] == r_out[0] && r_in[1] == r_out[1] && a_in == a_out && w_in == w_out
        && b_in[0] == b_out[0] && b_in[1] == b_out[1];
  endfunction
endmodule

`default_nettype wire
