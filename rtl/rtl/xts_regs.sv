// SPDX-License-Identifier: MIT OR Apache-2.0
// The registers of the core as software sees them, over AXI4-Lite: 32 bits wide, with byte
// addresses. Only whole words can be accessed. Unmapped addresses read as 0, and writes to them
// change nothing.
//
// 000 ID           0x4C585453
// 004 VERSION      0x00010000
// 008 CONFIG       {latency[31:24], ctr[21], master[20], ring_log2[19:16], stages[14:12],
//                  tweak[9:8], dec[7], enc[6], key256[5], key128[4], lanes[3:0]}
// 00C CONTROL      bit 0 ENABLE: takes descriptors from the ring. bit 1 RESET, reads
//                  as 0: the core and all registers are reset as by rst
// 010 STATUS       bit 0 BUSY: descriptors are not done; bit 1 KEY_BUSY: a key command runs;
//                  bit 2 ZEROISING: keys are being wiped after a reset; bit 3 DRAINING: see
//                  luxor_xts_dma.sv
// 014 IRQ_ENABLE   one bit for each bit of IRQ_STATUS
// 018 IRQ_STATUS   bit 0: a descriptor is done; bit 1: a key command is done; bit 2: see
//                  luxor_xts_dma.sv; write 1 to clear
// 020 TAIL         descriptors submitted since reset, modulo 2^32; the doorbell. A value less
//                  than the present one, or more than HEAD and the places of the ring, changes
//                  nothing
// 024 HEAD         descriptors done since reset
// 030 KEY_COMMAND  write only: {long[16], slot[15:8], op[1:0]}, op 1 loads, op 2 clears;
//                  cannot be written during a command, nor can the keys
// 034 KEY_STATUS   {result[7:4], busy[0]}
// 038 SLOT_STATE   2 bits per slot
// 040 KEY_DATA     write only: 8 words, byte 0 of the key in bits 7:0 of the first
// 060 KEY_TWEAK    likewise; both are set to zero after a command
// 080 CYCLES       64 bits, since reset; reading the low word latches the high one
// 088 BEATS_OUT    64 bits, likewise: beats that left the core
// 800 RING         32 descriptors of 64 bytes; descriptor k since reset is at place k mod 32.
//                  Words 0 to 3 number, 4 and 5 stride, 6 unit_len (bytes), 7 unit_count,
//                  8 {mode[10:9], decrypt[8], slot[7:0]}, mode as in luxor_pkg;
//                  15 {done[31], code[3:0]}, read only, cleared when the core takes the
//                  descriptor
//
// The ring is another module (`ring_*`): desc_ring, or dma_ring with RING_LOG2 = 0, whose ring is in
// memory and which has registers of its own at 800. It counts the descriptors that were taken and
// those that are done.
//
// core_rst follows rst, which must be 1 for at least 2 cycles, and RESET. It stays 1 for 64 more
// cycles, which is longer than the pipeline, and accesses wait for that time. Key commands go out
// as xts_keys requires: stable until key_done.
`default_nettype none

module xts_regs #(
    parameter int TWEAK = luxor_pkg::TWEAK_SHARED,
    parameter int CIPHER = luxor_pkg::CIPHER_BOTH,
    parameter int KEY128 = 1,
    parameter int KEY256 = 1,
    parameter int STAGES = 2,
    parameter int LANES = 1,
    parameter int CTR = 0,
    parameter int LATENCY = 0,
    parameter int RING_LOG2 = 5
) (
    input  wire         clk,
    input  wire         rst,
    input  wire [ 11:0] s_axil_awaddr,
    input  wire         s_axil_awvalid,
    output wire         s_axil_awready,
    input  wire [ 31:0] s_axil_wdata,
    input  wire [  3:0] s_axil_wstrb,
    input  wire         s_axil_wvalid,
    output wire         s_axil_wready,
    output wire [  1:0] s_axil_bresp,
    output wire         s_axil_bvalid,
    input  wire         s_axil_bready,
    input  wire [ 11:0] s_axil_araddr,
    input  wire         s_axil_arvalid,
    output wire         s_axil_arready,
    output wire [ 31:0] s_axil_rdata,
    output wire [  1:0] s_axil_rresp,
    output wire         s_axil_rvalid,
    input  wire         s_axil_rready,
    output wire         irq,

    output wire         core_rst,
    output wire         ring_write,
    output wire [  8:0] ring_write_addr,
    output wire [ 31:0] ring_write_data,
    output wire         ring_read,
    output wire [  8:0] ring_read_addr,
    input  wire         ring_read_done,
    input  wire [ 31:0] ring_read_data,
    output wire         enable,
    output wire [ 31:0] tail,
    input  wire [ 31:0] ring_size,  // places
    input  wire [ 31:0] taken,
    input  wire [ 31:0] head,
    input  wire         ring_done,  // a descriptor is done
    input  wire         ring_error,
    input  wire         draining,
    output wire         key_valid,
    input  wire         key_ready,
    output wire         key_load,
    output wire [  7:0] key_slot,
    output wire         key_long,
    output wire [255:0] key_data,
    output wire [255:0] key_tweak,
    input  wire         key_done,
    input  wire [  3:0] key_result,
    input  wire [  7:0] slot_state,
    input  wire         busy,     // the core has work to do
    input  wire         wiping,   // keys are being wiped after a reset
    input  wire         beat_out  // a beat left the core
);
  localparam logic [31:0] ID = 32'h4C58_5453;
  localparam logic [31:0] VERSION = 32'h0001_0000;
  localparam bit HAS_ENC = CIPHER != luxor_pkg::CIPHER_DEC;
  localparam bit HAS_DEC = CIPHER != luxor_pkg::CIPHER_ENC;
  localparam logic [31:0] CONFIG = {
    8'(LATENCY), 2'd0, CTR != 0, RING_LOG2 == 0, 4'(RING_LOG2), 1'b0, 3'(STAGES), 2'd0, 2'(TWEAK),
    HAS_DEC, HAS_ENC, 1'(KEY256), 1'(KEY128), 4'(LANES)
  };

  // Word addresses.
  localparam logic [9:0] A_ID = 10'h000;
  localparam logic [9:0] A_VERSION = 10'h001;
  localparam logic [9:0] A_CONFIG = 10'h002;
  localparam logic [9:0] A_CONTROL = 10'h003;
  localparam logic [9:0] A_STATUS = 10'h004;
  localparam logic [9:0] A_IRQ_ENABLE = 10'h005;
  localparam logic [9:0] A_IRQ_STATUS = 10'h006;
  localparam logic [9:0] A_TAIL = 10'h008;
  localparam logic [9:0] A_HEAD = 10'h009;
  localparam logic [9:0] A_KEY_COMMAND = 10'h00C;
  localparam logic [9:0] A_KEY_STATUS = 10'h00D;
  localparam logic [9:0] A_SLOT_STATE = 10'h00E;
  localparam logic [9:0] A_KEYS = 10'h010;  // 16 words
  localparam logic [9:0] A_CYCLES = 10'h020;
  localparam logic [9:0] A_CYCLES_HIGH = 10'h021;
  localparam logic [9:0] A_BEATS = 10'h022;
  localparam logic [9:0] A_BEATS_HIGH = 10'h023;

  localparam logic [1:0] OP_LOAD = 2'd1;
  localparam logic [1:0] OP_CLEAR = 2'd2;

  logic        write;
  logic [ 9:0] write_addr;
  logic [31:0] write_data;
  logic        read;
  logic [ 9:0] read_addr;
  logic        read_done;
  logic [31:0] read_data;
  logic        core_rst_reg;
  axi_lite #(.ADDR_WIDTH(12)) axi_lite (
      .clk(clk),
      .rst(rst),
      .s_axil_awaddr(s_axil_awaddr),
      .s_axil_araddr(s_axil_araddr),
      .s_axil_awvalid(s_axil_awvalid),
      .s_axil_awready(s_axil_awready),
      .s_axil_wdata(s_axil_wdata),
      .s_axil_wstrb(s_axil_wstrb),
      .s_axil_wvalid(s_axil_wvalid),
      .s_axil_wready(s_axil_wready),
      .s_axil_bresp(s_axil_bresp),
      .s_axil_bvalid(s_axil_bvalid),
      .s_axil_bready(s_axil_bready),
      .s_axil_arvalid(s_axil_arvalid),
      .s_axil_arready(s_axil_arready),
      .s_axil_rdata(s_axil_rdata),
      .s_axil_rresp(s_axil_rresp),
      .s_axil_rvalid(s_axil_rvalid),
      .s_axil_rready(s_axil_rready),
      .hold(core_rst_reg),
      .write(write),
      .write_addr(write_addr),
      .write_data(write_data),
      .read(read),
      .read_addr(read_addr),
      .read_done(read_done),
      .read_data(read_data)
  );
  assign ring_write = write && write_addr[9];
  assign ring_write_addr = write_addr[8:0];
  assign ring_write_data = write_data;
  assign ring_read = read && read_addr[9];
  assign ring_read_addr = read_addr[8:0];

  // RESET resets everything but the bus. core_rst_reg starts as 1, so that nothing sees the first
  // clock edge without a reset.
  initial core_rst_reg = 1'b1;
  logic [6:0] reset_left_reg;
  always_ff @(posedge clk) begin
    core_rst_reg <= reset_left_reg[6];
    if (reset_left_reg[6]) reset_left_reg <= reset_left_reg + 7'd1;
    if (write && write_addr == A_CONTROL && write_data[1]) begin
      reset_left_reg <= 7'd64;
      core_rst_reg   <= 1'b1;
    end
    if (rst) begin
      reset_left_reg <= 7'd64;
      core_rst_reg   <= 1'b1;
    end
  end
  assign core_rst = core_rst_reg;

  logic enable_reg;
  always_ff @(posedge clk) begin
    if (write && write_addr == A_CONTROL) enable_reg <= write_data[0];
    if (core_rst_reg) enable_reg <= 1'b0;
  end
  assign enable = enable_reg;

  // A new tail is checked in the cycle after its write.
  logic [31:0] tail_reg;
  logic [31:0] tail_new_reg;
  logic [31:0] tail_step_reg;
  logic [31:0] tail_ahead_reg;
  logic        tail_we_reg;
  always_ff @(posedge clk) begin
    tail_we_reg    <= write && write_addr == A_TAIL;
    tail_new_reg   <= write_data;
    tail_step_reg  <= write_data - tail_reg;
    tail_ahead_reg <= write_data - head;
    if (tail_we_reg && tail_step_reg <= ring_size && tail_ahead_reg <= ring_size)
      tail_reg <= tail_new_reg;
    if (core_rst_reg) begin
      tail_we_reg <= 1'b0;
      tail_reg    <= 32'd0;
    end
  end
  assign tail = tail_reg;

  logic busy_reg;
  always_ff @(posedge clk) busy_reg <= (busy || taken != head) && !core_rst_reg;

  logic [511:0] keys_reg;
  logic         key_busy_reg;
  logic         key_valid_reg;
  logic         key_load_reg;
  logic         key_long_reg;
  logic [  7:0] key_slot_reg;
  logic [  3:0] key_result_reg;
  wire commands = write && write_addr == A_KEY_COMMAND && !key_busy_reg
      && (write_data[1:0] == OP_LOAD || write_data[1:0] == OP_CLEAR);
  always_ff @(posedge clk) begin
    if (write && write_addr[9:4] == A_KEYS[9:4] && !key_busy_reg)
      keys_reg[{write_addr[3:0], 5'd0}+:32] <= write_data;
    if (commands) begin
      key_busy_reg  <= 1'b1;
      key_valid_reg <= 1'b1;
      key_load_reg  <= write_data[1:0] == OP_LOAD;
      key_slot_reg  <= write_data[15:8];
      key_long_reg  <= write_data[16];
    end
    if (key_ready) key_valid_reg <= 1'b0;
    if (key_done) begin
      key_busy_reg   <= 1'b0;
      key_result_reg <= key_result;
    end
    if (core_rst_reg) begin
      key_busy_reg   <= 1'b0;
      key_valid_reg  <= 1'b0;
      key_result_reg <= luxor_pkg::KEY_OK;
    end
    if (key_done || core_rst_reg) keys_reg <= 512'd0;
  end
  assign key_valid = key_valid_reg;
  assign key_load = key_load_reg;
  assign key_slot = key_slot_reg;
  assign key_long = key_long_reg;
  assign key_data = keys_reg[255:0];
  assign key_tweak = keys_reg[511:256];

  logic [2:0] irq_enable_reg;
  logic [2:0] irq_status_reg;
  logic       irq_reg;
  always_ff @(posedge clk) begin
    if (write && write_addr == A_IRQ_ENABLE) irq_enable_reg <= write_data[2:0];
    if (write && write_addr == A_IRQ_STATUS) irq_status_reg <= irq_status_reg & ~write_data[2:0];
    if (ring_done) irq_status_reg[0] <= 1'b1;
    if (key_done) irq_status_reg[1] <= 1'b1;
    if (ring_error) irq_status_reg[2] <= 1'b1;
    irq_reg <= (irq_status_reg & irq_enable_reg) != 3'd0;
    if (core_rst_reg) begin
      irq_enable_reg <= 3'd0;
      irq_status_reg <= 3'd0;
      irq_reg        <= 1'b0;
    end
  end
  assign irq = irq_reg;

  logic [63:0] cycles_reg;
  logic [63:0] beats_reg;
  logic [31:0] cycles_high_reg;
  logic [31:0] beats_high_reg;
  always_ff @(posedge clk) begin
    cycles_reg <= cycles_reg + 64'd1;
    if (beat_out) beats_reg <= beats_reg + 64'd1;
    if (core_rst_reg) begin
      cycles_reg <= 64'd0;
      beats_reg  <= 64'd0;
    end
  end

  // A register is read in the cycle after the request.
  logic        answers_reg;
  logic [31:0] answer_reg;
  always_ff @(posedge clk) begin
    answers_reg <= read && !read_addr[9] && !answers_reg && !rst;
    case (read_addr)
      A_ID: answer_reg <= ID;
      A_VERSION: answer_reg <= VERSION;
      A_CONFIG: answer_reg <= CONFIG;
      A_CONTROL: answer_reg <= {31'd0, enable_reg};
      A_STATUS: answer_reg <= {28'd0, draining, wiping, key_busy_reg, busy_reg};
      A_IRQ_ENABLE: answer_reg <= {29'd0, irq_enable_reg};
      A_IRQ_STATUS: answer_reg <= {29'd0, irq_status_reg};
      A_TAIL: answer_reg <= tail_reg;
      A_HEAD: answer_reg <= head;
      A_KEY_STATUS: answer_reg <= {24'd0, key_result_reg, 3'd0, key_busy_reg};
      A_SLOT_STATE: answer_reg <= {24'd0, slot_state};
      A_CYCLES: answer_reg <= cycles_reg[31:0];
      A_CYCLES_HIGH: answer_reg <= cycles_high_reg;
      A_BEATS: answer_reg <= beats_reg[31:0];
      A_BEATS_HIGH: answer_reg <= beats_high_reg;
      default: answer_reg <= 32'd0;
    endcase
    if (read && read_addr == A_CYCLES && !answers_reg) cycles_high_reg <= cycles_reg[63:32];
    if (read && read_addr == A_BEATS && !answers_reg) beats_high_reg <= beats_reg[63:32];
    if (core_rst_reg) begin
      cycles_high_reg <= 32'd0;
      beats_high_reg  <= 32'd0;
    end
  end
  assign read_done = read_addr[9] ? ring_read_done : answers_reg;
  assign read_data = read_addr[9] ? ring_read_data : answer_reg;
endmodule

`default_nettype wire
