// SPDX-License-Identifier: MIT OR Apache-2.0
// Gives a host on a serial line the buses of luxor_xts with one lane: registers over AXI4-Lite, and
// data over AXI4-Stream. Numbers of several bytes have their lowest byte first.
//
// The host sends commands, and each has one answer, in the order of the commands:
//
//   00                            nothing       80
//   01 address[2]                 read          81 response data[4]
//   02 address[2] data[4]         write         82 response
//   03 flags data[16]             beat in       83, when the core has taken the beat
//   any other byte                              FF
//
// At any time between two messages the host may also receive:
//
//   80                            there was a reset, and commands may begin
//   84 flags data[16]             a beat from the core
//   85                            the interrupt has risen
//
// `response` is 0, or the error of AXI. In the flags bit 7 is tlast, bit 6 tuser, and bits 4 to 0
// are the number of bytes with data (tkeep), which come first. For a beat in, only tlast counts.
//
// 2^ROOM_LOG2 - 8 bytes of commands may be without an answer. A beat in waits while the core has no
// room for it, and the commands behind it wait too, so the room may be used up until the host has
// taken the beats that come from the core.
//
// lost  A command came when there was no room. The bridge and the core must be reset.
`default_nettype none

module uart_bridge #(
    parameter int ROOM_LOG2 = 9
) (
    input  wire         clk,
    input  wire         rst,
    input  wire         rx_valid,
    input  wire [  7:0] rx_data,
    output wire         lost,
    output wire         tx_valid,
    input  wire         tx_ready,
    output wire [  7:0] tx_data,

    output wire [ 11:0] m_axil_awaddr,
    output wire         m_axil_awvalid,
    input  wire         m_axil_awready,
    output wire [ 31:0] m_axil_wdata,
    output wire [  3:0] m_axil_wstrb,
    output wire         m_axil_wvalid,
    input  wire         m_axil_wready,
    input  wire [  1:0] m_axil_bresp,
    input  wire         m_axil_bvalid,
    output wire         m_axil_bready,
    output wire [ 11:0] m_axil_araddr,
    output wire         m_axil_arvalid,
    input  wire         m_axil_arready,
    input  wire [ 31:0] m_axil_rdata,
    input  wire [  1:0] m_axil_rresp,
    input  wire         m_axil_rvalid,
    output wire         m_axil_rready,
    output wire [127:0] m_axis_tdata,
    output wire         m_axis_tvalid,
    input  wire         m_axis_tready,
    output wire         m_axis_tlast,
    input  wire [127:0] s_axis_tdata,
    input  wire [ 15:0] s_axis_tkeep,
    input  wire         s_axis_tlast,
    input  wire         s_axis_tuser,
    input  wire         s_axis_tvalid,
    output wire         s_axis_tready,
    input  wire         irq
);
  localparam logic [7:0] NOTHING = 8'h00;
  localparam logic [7:0] READ = 8'h01;
  localparam logic [7:0] WRITE = 8'h02;
  localparam logic [7:0] BEAT_IN = 8'h03;
  localparam logic [7:0] BEAT_OUT = 8'h84;
  localparam logic [7:0] INTERRUPT = 8'h85;
  localparam logic [7:0] UNKNOWN = 8'hFF;
  localparam logic [7:0] ANSWER = 8'h80;  // added to the byte of a command

  wire room, valid, pop, more;
  wire [7:0] head;
  block_fifo #(
      .WIDTH(8),
      .DEPTH_LOG2(ROOM_LOG2)
  ) commands (
      .clk(clk),
      .rst(rst),
      .room(room),
      .push(rx_valid && room),
      .push_data(rx_data),
      .pop(pop),
      .valid(valid),
      .more(more),
      .head(head)
  );
  assign lost = rx_valid && !room;
  wire unused = &{1'b0, more};

  // A command: its first byte, then the bytes after it, then what it asks for, then the answer.
  localparam logic [1:0] FIRST = 2'd0;
  localparam logic [1:0] REST = 2'd1;
  localparam logic [1:0] ACT = 2'd2;
  localparam logic [1:0] REPLY = 2'd3;
  logic [  1:0] state_reg;
  logic [  7:0] command_reg;
  logic [  4:0] left_reg;     // bytes that have not come
  logic [135:7] bytes_reg;    // the last one that came is the highest
  logic [ 39:0] answer_reg;   // after its first byte
  logic awvalid_reg, wvalid_reg, bready_reg, arvalid_reg, rready_reg, tvalid_reg;
  wire reply_taken;
  wire starts_act = state_reg == REST && left_reg == 5'd0;
  assign pop = valid && (state_reg == FIRST || (state_reg == REST && left_reg != 5'd0));

  assign m_axil_araddr = bytes_reg[131:120];
  assign m_axil_awaddr = bytes_reg[99:88];
  assign m_axil_wdata = bytes_reg[135:104];
  assign m_axil_wstrb = 4'b1111;
  assign m_axil_arvalid = arvalid_reg;
  assign m_axil_rready = rready_reg;
  assign m_axil_awvalid = awvalid_reg;
  assign m_axil_wvalid = wvalid_reg;
  assign m_axil_bready = bready_reg;
  assign m_axis_tdata = bytes_reg[135:8];
  assign m_axis_tlast = bytes_reg[7];
  assign m_axis_tvalid = tvalid_reg;

  always_ff @(posedge clk) begin
    if (pop) bytes_reg <= {head, bytes_reg[135:15]};
    case (state_reg)
      FIRST:
      if (valid) begin
        command_reg <= head;
        case (head)
          READ: left_reg <= 5'd2;
          WRITE: left_reg <= 5'd6;
          BEAT_IN: left_reg <= 5'd17;
          default: left_reg <= 5'd0;
        endcase
        state_reg <= REST;
      end
      REST: begin
        if (pop) left_reg <= left_reg - 5'd1;
        if (left_reg == 5'd0) state_reg <= ACT;
      end
      ACT: begin
        if (m_axil_awready) awvalid_reg <= 1'b0;
        if (m_axil_wready) wvalid_reg <= 1'b0;
        if (m_axil_arready) arvalid_reg <= 1'b0;
        case (command_reg)
          READ:
          if (m_axil_rvalid) begin
            answer_reg <= {m_axil_rdata, 6'd0, m_axil_rresp};
            state_reg  <= REPLY;
          end
          WRITE:
          if (m_axil_bvalid) begin
            answer_reg <= {32'd0, 6'd0, m_axil_bresp};
            state_reg  <= REPLY;
          end
          BEAT_IN: if (m_axis_tready) state_reg <= REPLY;
          default: state_reg <= REPLY;
        endcase
      end
      default: if (reply_taken) state_reg <= FIRST;
    endcase
    if (starts_act) begin
      awvalid_reg <= command_reg == WRITE;
      wvalid_reg  <= command_reg == WRITE;
      bready_reg  <= command_reg == WRITE;
      arvalid_reg <= command_reg == READ;
      rready_reg  <= command_reg == READ;
      tvalid_reg  <= command_reg == BEAT_IN;
    end
    if (m_axil_bvalid) bready_reg <= 1'b0;
    if (m_axil_rvalid) rready_reg <= 1'b0;
    if (m_axis_tready) tvalid_reg <= starts_act && command_reg == BEAT_IN;
    if (rst) begin
      // The first answer is to no command: it reports the reset.
      state_reg   <= REPLY;
      command_reg <= NOTHING;
      awvalid_reg <= 1'b0;
      wvalid_reg  <= 1'b0;
      bready_reg  <= 1'b0;
      arvalid_reg <= 1'b0;
      rready_reg  <= 1'b0;
      tvalid_reg  <= 1'b0;
    end
  end

  logic irq_reg, rose_reg;
  wire interrupt_taken;
  always_ff @(posedge clk) begin
    irq_reg <= irq && !rst;
    if (irq && !irq_reg) rose_reg <= 1'b1;
    else if (interrupt_taken || rst) rose_reg <= 1'b0;
  end

  // The message that is being sent, lowest byte first.
  logic [143:0] message_reg;
  logic [  4:0] to_send_reg;
  wire idle = to_send_reg == 5'd0;
  assign reply_taken = idle && state_reg == REPLY;
  assign interrupt_taken = idle && state_reg != REPLY && rose_reg;
  assign s_axis_tready = idle && state_reg != REPLY && !rose_reg;
  assign tx_valid = !idle;
  assign tx_data = message_reg[7:0];

  logic [4:0] kept;
  always_comb begin
    kept = 5'd0;
    for (int i = 0; i < 16; i = i + 1) kept = kept + {4'd0, s_axis_tkeep[i]};
  end
  always_ff @(posedge clk) begin
    if (!idle && tx_ready) begin
      message_reg <= {8'd0, message_reg[143:8]};
      to_send_reg <= to_send_reg - 5'd1;
    end
    if (reply_taken) begin
      message_reg <= {96'd0, answer_reg, command_reg > BEAT_IN ? UNKNOWN : command_reg + ANSWER};
      case (command_reg)
        READ: to_send_reg <= 5'd6;
        WRITE: to_send_reg <= 5'd2;
        default: to_send_reg <= 5'd1;
      endcase
    end else if (interrupt_taken) begin
      message_reg <= {136'd0, INTERRUPT};
      to_send_reg <= 5'd1;
    end else if (s_axis_tvalid && s_axis_tready) begin
      message_reg <= {s_axis_tdata, s_axis_tlast, s_axis_tuser, 1'b0, kept, BEAT_OUT};
      to_send_reg <= 5'd18;
    end
    if (rst) to_send_reg <= 5'd0;
  end
endmodule

`default_nettype wire
