// SPDX-License-Identifier: MIT OR Apache-2.0
// The ring of descriptors: a memory of 32 places of 16 words that the host writes, a reader that
// offers the descriptors one by one, and the status of each descriptor.
//
// write_*, read_*  The host's access to words {place, word}; a read waits for read_done.
//          Word 15 is the status {done, 27'd0, code}: writes do not change it.
// tail     Descriptors submitted since reset. At most 32 more than `head`, and it never
//          decreases: xts_regs makes sure of both.
// taken, head  Descriptors taken, and done, since reset. Descriptor k is at place k mod 32.
// desc_*   The descriptor that is offered; at least 11 cycles from one to the next.
// done_*   Descriptors are done in the order in which they were taken.
`default_nettype none

module desc_ring (
    input  wire         clk,
    input  wire         rst,
    input  wire         write,
    input  wire [  8:0] write_addr,
    input  wire [ 31:0] write_data,
    input  wire         read,
    input  wire [  8:0] read_addr,
    output wire         read_done,
    output wire [ 31:0] read_data,
    input  wire         enable,
    input  wire [ 31:0] tail,
    output wire [ 31:0] taken,
    output wire [ 31:0] head,
    output wire         desc_valid,
    input  wire         desc_ready,
    output wire [127:0] desc_number,
    output wire [ 63:0] desc_stride,
    output wire [ 31:0] desc_unit_len,
    output wire [ 31:0] desc_unit_count,
    output wire [  7:0] desc_slot,
    output wire         desc_decrypt,
    output wire [  1:0] desc_mode,
    input  wire         done_valid,
    input  wire [  3:0] done_status
);
  localparam logic [3:0] STATUS_WORD = 4'd15;
  localparam logic [3:0] LAST_WORD = 4'd8;

  localparam logic [1:0] WAIT = 2'd0;
  localparam logic [1:0] FETCH = 2'd1;
  localparam logic [1:0] OFFER = 2'd2;
  localparam logic [1:0] NEXT = 2'd3;  // waits until pending_reg is up to date

  logic [ 1:0] state_reg;
  logic [ 3:0] word_reg;
  logic        pending_reg;
  logic [31:0] taken_reg;
  logic [31:0] head_reg;
  assign taken = taken_reg;
  assign head  = head_reg;

  // The memory has one port for each direction. The fetch has priority over the host's reads, which
  // are served at the latest between two descriptors.
  logic [31:0] memory[0:511];
  logic [31:0] word_out_reg;
  initial for (int i = 0; i < 512; i++) memory[i] = 32'd0;

  wire fetches = state_reg == FETCH;
  wire [8:0] memory_addr = fetches ? {taken_reg[4:0], word_reg} : read_addr;
  always_ff @(posedge clk) begin
    if (write) memory[write_addr] <= write_data;
    word_out_reg <= memory[memory_addr];
  end

  // Word 0 is shifted in first and ends up lowest. Of word 8 only the low bits are used.
  logic         shift_reg;
  /* verilator lint_off UNUSEDSIGNAL */
  wire  [287:0] desc;
  /* verilator lint_on UNUSEDSIGNAL */
  logic         valid_reg;
  always_ff @(posedge clk) shift_reg <= fetches;
  for (genvar w = 0; w < 9; w++) begin : g_part
    logic [31:0] part_reg;
    if (w == 8) begin : g_last
      always_ff @(posedge clk) if (shift_reg) part_reg <= word_out_reg;
    end else begin : g_other
      always_ff @(posedge clk) if (shift_reg) part_reg <= desc[32*w+32+:32];
    end
    assign desc[32*w+:32] = part_reg;
  end
  assign desc_valid      = valid_reg;
  assign desc_number     = desc[127:0];
  assign desc_stride     = desc[191:128];
  assign desc_unit_len   = desc[223:192];
  assign desc_unit_count = desc[255:224];
  assign desc_slot       = desc[263:256];
  assign desc_decrypt    = desc[264];
  assign desc_mode       = desc[266:265];

  wire takes = valid_reg && desc_ready;
  always_ff @(posedge clk) begin
    pending_reg <= enable && taken_reg != tail;
    case (state_reg)
      WAIT: begin
        word_reg <= 4'd0;
        if (pending_reg) state_reg <= FETCH;
      end
      FETCH: begin
        word_reg <= word_reg + 4'd1;
        if (word_reg == LAST_WORD) state_reg <= OFFER;
      end
      OFFER: begin
        // The last word is shifted in during the first cycle of this state.
        valid_reg <= !takes;
        if (takes) state_reg <= NEXT;
      end
      default: state_reg <= WAIT;
    endcase
    if (takes) taken_reg <= taken_reg + 32'd1;
    if (done_valid) head_reg <= head_reg + 32'd1;
    if (rst) begin
      state_reg   <= WAIT;
      pending_reg <= 1'b0;
      valid_reg   <= 1'b0;
      taken_reg   <= 32'd0;
      head_reg    <= 32'd0;
    end
  end

  logic [31:0] done_reg;
  logic [ 3:0] codes[0:31];
  always_ff @(posedge clk) begin
    if (takes) done_reg[taken_reg[4:0]] <= 1'b0;
    if (done_valid) begin
      done_reg[head_reg[4:0]] <= 1'b1;
      codes[head_reg[4:0]] <= done_status;
    end
    if (rst) done_reg <= 32'd0;
  end

  logic        answers_reg;
  logic        is_status_reg;
  logic [31:0] status_reg;
  wire [4:0] read_place = read_addr[8:4];
  always_ff @(posedge clk) begin
    answers_reg   <= read && !fetches && !answers_reg && !rst;
    is_status_reg <= read_addr[3:0] == STATUS_WORD;
    status_reg    <= done_reg[read_place] ? {1'b1, 27'd0, codes[read_place]} : 32'd0;
  end
  assign read_done = answers_reg;
  assign read_data = is_status_reg ? status_reg : word_out_reg;

`ifndef SYNTHESIS
  always @(posedge clk)
    if (!rst) begin
      if (taken_reg - head_reg > 32'd32) $fatal(1, "desc_ring: more descriptors done than taken");
      if (tail - head_reg > 32'd32) $fatal(1, "desc_ring: tail %0d, head %0d", tail, head_reg);
    end
`endif
endmodule

`default_nettype wire
