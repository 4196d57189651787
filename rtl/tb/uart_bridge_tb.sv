// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests uart_bridge with uart_rx and uart_tx: a host on the serial line, whose bits are up to 3 %
// too long or too short, against registers that stall at random and a core whose streams do. What
// is not valid is X.
// This bench runs only on Icarus, because Verilator has no X.
`default_nettype none

module uart_bridge_tb;
  localparam int BIT_CYCLES = 16;
  localparam int ROOM_LOG2 = 5;

  logic clk = 1'b0;
  initial forever #5 clk = !clk;
  logic rst = 1'b1;
  logic to_fpga = 1'b1;
  wire from_fpga;

  wire rx_valid, broken, lost, tx_valid, tx_ready;
  wire [7:0] rx_data, tx_data;
  wire [11:0] awaddr, araddr;
  wire awvalid, wvalid, bready, arvalid, rready, in_valid, in_last, out_ready;
  wire [31:0] wdata;
  wire [3:0] wstrb;
  wire [127:0] in_data;
  logic awready = 1'b0, wready = 1'b0, bvalid = 1'b0, arready = 1'b0, rvalid = 1'b0;
  logic [1:0] bresp, rresp;
  logic [31:0] rdata;
  logic in_ready = 1'b0, out_valid = 1'b0, out_last, out_user, irq = 1'b0;
  logic [127:0] out_data;
  logic [15:0] out_keep;

  uart_rx #(.BIT_CYCLES(BIT_CYCLES)) receiver (
      .clk(clk), .rst(rst), .rx(to_fpga), .valid(rx_valid), .data(rx_data), .broken(broken)
  );
  uart_tx #(.BIT_CYCLES(BIT_CYCLES)) transmitter (
      .clk(clk), .rst(rst), .valid(tx_valid), .ready(tx_ready), .data(tx_data), .tx(from_fpga)
  );
  uart_bridge #(.ROOM_LOG2(ROOM_LOG2)) dut (
      .clk(clk), .rst(rst), .rx_valid(rx_valid), .rx_data(rx_data), .lost(lost),
      .tx_valid(tx_valid), .tx_ready(tx_ready), .tx_data(tx_data),
      .m_axil_awaddr(awaddr), .m_axil_awvalid(awvalid), .m_axil_awready(awready),
      .m_axil_wdata(wdata), .m_axil_wstrb(wstrb), .m_axil_wvalid(wvalid), .m_axil_wready(wready),
      .m_axil_bresp(bresp), .m_axil_bvalid(bvalid), .m_axil_bready(bready),
      .m_axil_araddr(araddr), .m_axil_arvalid(arvalid), .m_axil_arready(arready),
      .m_axil_rdata(rdata), .m_axil_rresp(rresp), .m_axil_rvalid(rvalid), .m_axil_rready(rready),
      .m_axis_tdata(in_data), .m_axis_tvalid(in_valid), .m_axis_tready(in_ready),
      .m_axis_tlast(in_last), .s_axis_tdata(out_data), .s_axis_tkeep(out_keep),
      .s_axis_tlast(out_last), .s_axis_tuser(out_user), .s_axis_tvalid(out_valid),
      .s_axis_tready(out_ready), .irq(irq)
  );

  // The registers. Addresses from 800 on are answered with an error.
  logic [31:0] registers[0:511];
  logic [11:0] written, fetched;
  logic [31:0] value;
  task automatic take_address;
    if (!awvalid) $fatal(1, "uart_bridge: the address of a write is gone before it was taken");
    awready = 1'b1;
    written = awaddr;
    @(negedge clk) awready = 1'b0;
    if (awvalid) $fatal(1, "uart_bridge: the address of a write is valid after it was taken");
  endtask
  task automatic take_data;
    if (!wvalid) $fatal(1, "uart_bridge: the data of a write are gone before they were taken");
    wready = 1'b1;
    value  = wdata;
    @(negedge clk) wready = 1'b0;
    if (wvalid) $fatal(1, "uart_bridge: the data of a write are valid after they were taken");
  endtask
  initial forever begin
    @(negedge clk);
    while (!awvalid && !wvalid) @(negedge clk);
    // In either order.
    if (32'($urandom % 2) == 0) begin
      take_address;
      take_data;
    end else begin
      take_data;
      take_address;
    end
    if (wstrb !== 4'b1111) $fatal(1, "uart_bridge: wstrb %b", wstrb);
    registers[written[10:2]] = value;
    repeat (32'($urandom % 4)) @(negedge clk);
    bvalid = 1'b1;
    bresp  = {written[11], 1'b0};
    while (!bready) @(negedge clk);
    @(negedge clk);
    bvalid = 1'b0;
    bresp  = 'x;
  end
  initial forever begin
    @(negedge clk);
    while (!arvalid) @(negedge clk);
    repeat (32'($urandom % 4)) @(negedge clk);
    arready = 1'b1;
    fetched = araddr;
    @(negedge clk);
    arready = 1'b0;
    if (arvalid) $fatal(1, "uart_bridge: a read is still valid after it was taken");
    repeat (32'($urandom % 4)) @(negedge clk);
    rvalid = 1'b1;
    rdata  = registers[fetched[10:2]];
    rresp  = {fetched[11], 1'b0};
    while (!rready) @(negedge clk);
    @(negedge clk);
    rvalid = 1'b0;
    rdata  = 'x;
    rresp  = 'x;
  end

  // The streams of the core.
  localparam int MAX = 64;
  logic stalled = 1'b0;
  logic [128:0] in_beats[0:MAX-1];  // tlast, tdata
  int in_count = 0;
  always @(posedge clk)
    if (in_valid && in_ready) begin
      in_beats[in_count] = {in_last, in_data};
      in_count = in_count + 1;
    end
  always @(negedge clk) in_ready = !stalled && 32'($urandom % 8) == 0;

  logic [143:0] out_messages[0:MAX-1];
  int out_sent = 0, out_wanted = 0, out_seen = 0;
  int kept;
  initial forever begin
    @(negedge clk);
    if (out_sent < out_wanted) begin
      kept = 32'($urandom % 17);
      out_valid = 1'b1;
      out_data  = {$urandom, $urandom, $urandom, $urandom};
      out_keep  = 16'((1 << kept) - 1);
      {out_last, out_user} = 2'($urandom);
      out_messages[out_sent] = {out_data, out_last, out_user, 1'b0, 5'(kept), 8'h84};
      while (!out_ready) @(negedge clk);
      @(negedge clk);
      out_valid = 1'b0;
      {out_data, out_keep, out_last, out_user} = 'x;
      out_sent = out_sent + 1;
    end
  end

  // The host. The bytes that come are put into a ring.
  logic [7:0] ring[0:255];
  int came = 0, taken = 0;
  logic [7:0] byte_in;
  initial begin
    forever begin
      @(negedge from_fpga);
      #(5 * BIT_CYCLES);
      if (from_fpga !== 1'b0) $fatal(1, "uart_bridge: a start bit is too short");
      for (int i = 0; i < 8; i++) begin
        #(10 * BIT_CYCLES);
        byte_in[i] = from_fpga;
      end
      #(10 * BIT_CYCLES);
      if (!rst && from_fpga !== 1'b1) $fatal(1, "uart_bridge: no stop bit");
      ring[came % 256] = byte_in;
      came = came + 1;
    end
  end
  task automatic put(input logic [7:0] data);
    int bit_time;
    bit_time = 10 * BIT_CYCLES - 5 + 32'($urandom % 11);
    to_fpga  = 1'b0;
    for (int i = 0; i < 8; i++) begin
      #(bit_time);
      to_fpga = data[i];
    end
    #(bit_time);
    to_fpga = 1'b1;
    #(bit_time);
  endtask
  task automatic get(output logic [7:0] data);
    while (came == taken) @(negedge clk);
    data  = ring[taken % 256];
    taken = taken + 1;
  endtask
  int interrupts = 0;
  // Takes messages up to an answer, whose first byte is `first`.
  task automatic answer(input logic [7:0] first);
    logic [7:0] data;
    get(data);
    while (data == 8'h84 || data == 8'h85) begin
      if (data == 8'h85) interrupts = interrupts + 1;
      else beat_out;
      get(data);
    end
    if (data !== first) $fatal(1, "uart_bridge: answer %h, expected %h", data, first);
  endtask
  task automatic beat_out;
    logic [7:0] data;
    if (out_seen >= out_wanted) $fatal(1, "uart_bridge: a beat too many");
    for (int i = 1; i < 18; i++) begin
      get(data);
      if (data !== out_messages[out_seen][8*i+:8])
        $fatal(1, "uart_bridge: byte %0d of beat %0d is %h, expected %h", i, out_seen, data,
               out_messages[out_seen][8*i+:8]);
    end
    out_seen = out_seen + 1;
  endtask
  task automatic expect_byte(input logic [7:0] expected);
    logic [7:0] data;
    get(data);
    if (data !== expected) $fatal(1, "uart_bridge: got %h, expected %h", data, expected);
  endtask
  task automatic write(input logic [11:0] address, input logic [31:0] data);
    put(8'h02);
    put(address[7:0]);
    put({4'd0, address[11:8]});
    for (int i = 0; i < 4; i++) put(data[8*i+:8]);
    answer(8'h82);
    expect_byte({6'd0, address[11], 1'b0});
  endtask
  task automatic read(input logic [11:0] address, input logic [31:0] expected);
    put(8'h01);
    put(address[7:0]);
    put({4'd0, address[11:8]});
    answer(8'h81);
    expect_byte({6'd0, address[11], 1'b0});
    for (int i = 0; i < 4; i++) expect_byte(expected[8*i+:8]);
  endtask
  // Sends a beat, with random bits in the flags that do not count.
  task automatic beat_in(input logic last, input logic [127:0] data);
    put(8'h03);
    put({last, 7'($urandom)});
    for (int i = 0; i < 16; i++) put(data[8*i+:8]);
  endtask

  logic was_broken = 1'b0, was_lost = 1'b0;
  always @(posedge clk) begin
    if (broken && !rst) was_broken <= 1'b1;
    if (lost && !rst) was_lost <= 1'b1;
  end

  logic [11:0] address;
  logic [127:0] beat;
  initial begin
    repeat (3) @(negedge clk);
    rst = 1'b0;
    answer(8'h80);
    put(8'h00);
    answer(8'h80);
    put(8'h04);
    answer(8'hFF);
    put(8'h81);
    answer(8'hFF);

    out_wanted = 12;
    for (int n = 0; n < 8; n++) begin
      address = {2'(n), 8'($urandom), 2'b00};
      beat = {$urandom, $urandom, $urandom, $urandom};
      write(address, beat[31:0]);
      if (n == 3) irq = 1'b1;
      if (n == 5) irq = 1'b0;
      if (n == 6) irq = 1'b1;
      beat_in(beat[5], beat);
      answer(8'h83);
      if (in_count != n + 1 || in_beats[n] !== {beat[5], beat})
        $fatal(1, "uart_bridge: the core got %0d beats, the last is %h", in_count, in_beats[n]);
      read(address, beat[31:0]);
    end
    while (out_seen < 12) begin
      put(8'h00);
      answer(8'h80);
    end
    if (interrupts != 2) $fatal(1, "uart_bridge: %0d interrupts, expected 2", interrupts);

    // Commands that wait behind a beat.
    stalled = 1'b1;
    beat_in(1'b1, beat);
    for (int n = 0; n < (1 << ROOM_LOG2) - 8; n++) put(8'h00);
    if (came != taken) $fatal(1, "uart_bridge: a command overtook a beat");
    stalled = 1'b0;
    answer(8'h83);
    for (int n = 0; n < (1 << ROOM_LOG2) - 8; n++) answer(8'h80);
    if (was_lost) $fatal(1, "uart_bridge: no room for %0d bytes", (1 << ROOM_LOG2) - 8);

    // A pulse that is no start bit, then a break.
    #(10 * BIT_CYCLES) to_fpga = 1'b0;
    #(3 * BIT_CYCLES) to_fpga = 1'b1;
    #(20 * BIT_CYCLES) put(8'h00);
    answer(8'h80);
    if (was_broken) $fatal(1, "uart_bridge: a break that was none");
    to_fpga = 1'b0;
    #(120 * BIT_CYCLES) if (!broken) $fatal(1, "uart_bridge: a break was not seen");
    to_fpga = 1'b1;
    #(10 * BIT_CYCLES) if (broken) $fatal(1, "uart_bridge: a break that does not end");

    // Too many commands, then a reset in the middle of a beat.
    stalled = 1'b1;
    beat_in(1'b1, beat);
    for (int n = 0; n < (1 << ROOM_LOG2) + 4; n++) put(8'h00);
    if (!was_lost) $fatal(1, "uart_bridge: a command was lost and nothing said so");
    @(negedge clk) rst = 1'b1;
    @(negedge clk) rst = 1'b0;
    @(negedge clk) if (in_valid) $fatal(1, "uart_bridge: a beat survived a reset");
    answer(8'h80);
    read(address, registers[address[10:2]]);
    $display("PASS uart_bridge");
    $finish;
  end
  initial begin
    #20_000_000;
    $fatal(1, "uart_bridge: timeout; %0d of %0d bytes taken", taken, came);
  end
endmodule

`default_nettype wire
