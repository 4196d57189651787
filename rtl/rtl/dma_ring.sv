// SPDX-License-Identifier: MIT OR Apache-2.0
// The ring of descriptors in memory (see luxor_xts_dma.sv): its registers, the descriptors, which
// it fetches, and their statuses, which it writes.
//
// write_*, read_*  The host's access to the window of the ring in xts_regs. Reset by core_rst only,
//                  so that the registers can be written while the bus drains.
// tail, head       As in desc_ring. `fetched` are the descriptors that were asked for.
// req_*, beat_*    A burst of 64 bytes for each descriptor, which never waits.
// desc_*           The descriptor that is offered. desc_error: it could not be read.
// status_*         A status for the next descriptor in order, without the bit `done`.
// out_*            The same for the bus. ack_*: the response.
`default_nettype none

module dma_ring #(
    parameter int LANES = 1
) (
    input  wire                 clk,
    input  wire                 rst,
    input  wire                 core_rst,
    input  wire                 write,
    input  wire [          8:0] write_addr,
    input  wire [         31:0] write_data,
    input  wire                 read,
    input  wire [          8:0] read_addr,
    output wire                 read_done,
    output wire [         31:0] read_data,
    input  wire                 enable,
    input  wire [         31:0] tail,
    output wire [         31:0] ring_size,
    output wire [         31:0] fetched,
    output wire [         31:0] head,
    output wire                 req_valid,
    input  wire                 req_ready,
    output wire [         63:0] req_addr,
    input  wire                 beat_valid,
    input  wire [128*LANES-1:0] beat_data,
    input  wire                 beat_error,
    output wire                 desc_valid,
    input  wire                 desc_pop,
    output wire                 desc_error,
    output wire [        127:0] desc_number,
    output wire [         63:0] desc_stride,
    output wire [         31:0] desc_unit_len,
    output wire [         31:0] desc_unit_count,
    output wire [          7:0] desc_slot,
    output wire                 desc_decrypt,
    output wire [          1:0] desc_mode,
    output wire [         31:0] desc_length,
    output wire [         63:0] desc_source,
    output wire [         63:0] desc_destination,
    input  wire                 status_valid,
    output wire                 status_ready,
    input  wire [          9:0] status,
    output wire                 out_valid,
    input  wire                 out_ready,
    output wire [         63:0] out_addr,
    output wire [         31:0] out_word,
    input  wire                 ack_valid
);
  localparam int DATA = 128 * LANES;
  localparam int BEATS = 4 / LANES;  // of a descriptor
  localparam int AHEAD_LOG2 = 3;  // descriptors that wait in the buffer at most
  localparam int BUFFER_LOG2 = 6;

  localparam logic [8:0] A_LOW = 9'd0;
  localparam logic [8:0] A_HIGH = 9'd1;
  localparam logic [8:0] A_LOG2 = 9'd2;

  // ---- The registers.
  logic [31:0] fetched_reg, head_reg;
  logic [57:0] base_reg;  // in units of 64 bytes
  logic [ 3:0] log2_reg;
  logic [14:0] mask_reg;
  logic [15:0] size_reg;
  logic        still_reg;
  logic        pending_reg, asking_reg;
  always_ff @(posedge clk) begin
    still_reg <= !enable && fetched_reg == head_reg && !pending_reg && !asking_reg;
    if (write && still_reg) begin
      if (write_addr == A_LOW) base_reg[25:0] <= write_data[31:6];
      if (write_addr == A_HIGH) base_reg[57:26] <= write_data;
      if (write_addr == A_LOG2 && write_data[31:4] == '0) log2_reg <= write_data[3:0];
    end
    size_reg <= 16'd1 << log2_reg;
    mask_reg <= ~(15'h7fff << log2_reg);
    if (core_rst) begin
      base_reg <= 58'd0;
      log2_reg <= 4'd0;
    end
  end
  assign ring_size = 32'(size_reg);
  assign fetched = fetched_reg;
  assign head = head_reg;

  logic answers_reg;
  logic [31:0] answer_reg;
  always_ff @(posedge clk) begin
    answers_reg <= read && !answers_reg && !core_rst;
    case (read_addr)
      A_LOW:   answer_reg <= {base_reg[25:0], 6'd0};
      A_HIGH:  answer_reg <= base_reg[57:26];
      A_LOG2:  answer_reg <= 32'(log2_reg);
      default: answer_reg <= 32'd0;
    endcase
  end
  assign read_done = answers_reg;
  assign read_data = answer_reg;

  // ---- The fetch.
  logic [57:0] place_reg;
  logic [AHEAD_LOG2:0] ahead_reg;  // descriptors asked for and not popped
  logic [1:0] old_reg;  // pending_reg and place_reg are older than the last request
  wire asks = asking_reg && req_ready;
  wire [14:0] place = fetched_reg[14:0] & mask_reg;
  assign req_valid = asking_reg;
  assign req_addr  = {place_reg, 6'd0};
  always_ff @(posedge clk) begin
    pending_reg <= enable && fetched_reg != tail && !ahead_reg[AHEAD_LOG2];
    if (!asking_reg) place_reg <= base_reg + 58'(place);
    old_reg <= {asks, old_reg[1]};
    if (asks) asking_reg <= 1'b0;
    else if (pending_reg && old_reg == 2'd0) asking_reg <= 1'b1;
    if (asks) fetched_reg <= fetched_reg + 32'd1;
    ahead_reg <= ahead_reg + (AHEAD_LOG2 + 1)'(asks) - (AHEAD_LOG2 + 1)'(desc_pop);
    if (rst) begin
      pending_reg <= 1'b0;
      asking_reg  <= 1'b0;
      old_reg     <= 2'd0;
      fetched_reg <= 32'd0;
      ahead_reg   <= '0;
    end
  end

  logic there, unused_room, unused_more, beat_failed;
  logic [DATA-1:0] next;
  logic [2:0] beats_reg;  // that have been shifted in
  wire full = beats_reg == 3'(BEATS);
  wire shifts = there && !full;
  block_fifo #(
      .WIDTH(DATA + 1),
      .DEPTH_LOG2(BUFFER_LOG2)
  ) buffer (
      .clk(clk),
      .rst(rst),
      .room(unused_room),
      .push(beat_valid),
      .push_data({beat_error, beat_data}),
      .pop(shifts),
      .valid(there),
      .more(unused_more),
      .head({beat_failed, next})
  );
  // The first beat ends up lowest. Some bits of a descriptor have no meaning.
  /* verilator lint_off UNUSEDSIGNAL */
  logic [511:0] desc_reg;
  /* verilator lint_on UNUSEDSIGNAL */
  logic error_reg;
  always_ff @(posedge clk) begin
    if (shifts) begin
      desc_reg  <= 512'({next, desc_reg} >> DATA);
      error_reg <= beat_failed || (error_reg && beats_reg != 3'd0);
      beats_reg <= beats_reg + 3'd1;
    end
    if (rst || desc_pop) beats_reg <= 3'd0;
  end
  assign desc_valid = full;
  assign desc_error = error_reg;
  assign desc_number = desc_reg[127:0];
  assign desc_stride = desc_reg[191:128];
  assign desc_unit_len = desc_reg[223:192];
  assign desc_unit_count = desc_reg[255:224];
  assign desc_slot = desc_reg[263:256];
  assign desc_decrypt = desc_reg[264];
  assign desc_mode = desc_reg[266:265];
  assign desc_length = desc_reg[319:288];
  assign desc_source = desc_reg[383:320];
  assign desc_destination = desc_reg[447:384];

  // ---- The statuses. The place is up to date two cycles after the previous one left.
  logic [14:0] written_reg;
  logic [57:0] status_place_reg;
  logic out_valid_reg;
  logic [9:0] status_reg;
  logic [1:0] status_old_reg;
  wire leaves = out_valid_reg && out_ready;
  wire [14:0] status_place = written_reg & mask_reg;
  assign status_ready = !out_valid_reg && status_old_reg == 2'd0;
  always_ff @(posedge clk) begin
    if (status_valid && status_ready) begin
      out_valid_reg <= 1'b1;
      status_reg <= status;
    end
    if (leaves) begin
      out_valid_reg <= 1'b0;
      written_reg   <= written_reg + 15'd1;
    end
    status_old_reg <= {leaves, status_old_reg[1]};
    if (!out_valid_reg) status_place_reg <= base_reg + 58'(status_place);
    if (ack_valid) head_reg <= head_reg + 32'd1;
    if (rst) begin
      out_valid_reg  <= 1'b0;
      status_old_reg <= 2'd0;
      written_reg    <= 15'd0;
      head_reg       <= 32'd0;
    end
  end
  assign out_valid = out_valid_reg;
  assign out_addr  = {status_place_reg, 6'(64 - 16 * LANES)};
  assign out_word  = {1'b1, 21'd0, status_reg};

  wire unused = &{1'b0, unused_room, unused_more};
endmodule

`default_nettype wire
