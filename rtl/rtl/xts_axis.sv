// SPDX-License-Identifier: MIT OR Apache-2.0
// The core with AXI4-Stream signal names for its data, and a register slice at its output.
//
// s_axis_*  Each data unit begins on a new beat, and its last beat is padded. The lengths come
//           from the descriptors, so there is no tkeep. tlast ends the packet of a descriptor.
// m_axis_*  The same layout. tkeep marks the bytes that belong to a unit; the others are 0.
//           tuser on the last beat of a packet: the descriptor failed.
// beat_out  A beat was taken from m_axis in the cycle before.
// done_*    The descriptor is done, and its last beat was taken from m_axis.
// The other ports are those of xts_core. At most 32 descriptors are taken and not done.
`default_nettype none

module xts_axis #(
    parameter int TWEAK = luxor_pkg::TWEAK_SHARED,
    parameter int CIPHER = luxor_pkg::CIPHER_BOTH,
    parameter int KEY128 = 1,
    parameter int KEY256 = 1,
    parameter int SBOX = luxor_pkg::SBOX_TABLE,
    parameter int STAGES = 2,
    parameter int LANES = 1,
    parameter int CTR = 0,
    parameter int PERMIT_EQUAL = 0
) (
    input  wire                 clk,
    input  wire                 rst,
    input  wire [128*LANES-1:0] s_axis_tdata,
    input  wire                 s_axis_tvalid,
    output wire                 s_axis_tready,
    input  wire                 s_axis_tlast,
    output wire [128*LANES-1:0] m_axis_tdata,
    output wire [ 16*LANES-1:0] m_axis_tkeep,
    output wire                 m_axis_tlast,
    output wire                 m_axis_tuser,
    output wire                 m_axis_tvalid,
    input  wire                 m_axis_tready,
    output wire                 beat_out,
    input  wire                 desc_valid,
    output wire                 desc_ready,
    input  wire [        127:0] desc_number,
    input  wire [         63:0] desc_stride,
    input  wire [         31:0] desc_unit_len,
    input  wire [         31:0] desc_unit_count,
    input  wire [          7:0] desc_slot,
    input  wire                 desc_decrypt,
    input  wire [          1:0] desc_mode,
    output wire                 done_valid,
    output wire [          3:0] done_status,
    input  wire                 key_valid,
    output wire                 key_ready,
    input  wire                 key_load,
    input  wire [          7:0] key_slot,
    input  wire                 key_long,
    input  wire [        255:0] key_data,
    input  wire [        255:0] key_tweak,
    output wire                 key_done,
    output wire [          3:0] key_result,
    output wire [          7:0] slot_state,
    output wire                 busy,
    output wire                 wiping
);
  localparam int DATA = 128 * LANES;
  localparam int KEEP = 16 * LANES;
  localparam int FLIGHT_LOG2 = 5;

  // A beat that comes during a reset would be lost, so none is taken then.
  wire in_ready;
  assign s_axis_tready = in_ready && !rst;

  // The core has input registers. The output gets a register slice.
  logic out_valid, out_ready, out_last, out_error;
  logic [DATA-1:0] out_data;
  logic [KEEP-1:0] out_keep;
  skid #(
      .WIDTH(DATA + KEEP + 2)
  ) slice (
      .clk(clk),
      .rst(rst),
      .in_valid(out_valid),
      .in_ready(out_ready),
      .in_data({out_error, out_last, out_keep, out_data}),
      .out_valid(m_axis_tvalid),
      .out_ready(m_axis_tready),
      .out_data({m_axis_tuser, m_axis_tlast, m_axis_tkeep, m_axis_tdata})
  );
  wire beat_leaves = m_axis_tvalid && m_axis_tready;
  logic beat_out_reg, packet_in_reg, packet_out_reg;
  always_ff @(posedge clk) begin
    beat_out_reg <= beat_leaves && !rst;
    packet_in_reg <= out_valid && out_ready && out_last;
    packet_out_reg <= beat_leaves && m_axis_tlast && !rst;
  end
  assign beat_out = beat_out_reg;

  // A descriptor is done when its last beat has also left the slice. The core reports a descriptor
  // in the cycle after its last beat went into the slice. A descriptor without a packet has no such
  // beat.
  logic core_done_valid;
  logic [3:0] core_done_status;
  logic waiting_valid, waiting_packet;
  logic [3:0] waiting_status;
  logic [FLIGHT_LOG2:0] packets_reg;  // packets of waiting descriptors that have left the slice
  wire done_now = waiting_valid && (!waiting_packet || packets_reg != '0);
  fifo #(
      .WIDTH(5),
      .DEPTH_LOG2(FLIGHT_LOG2)
  ) waiting (
      .clk(clk),
      .rst(rst),
      .push(core_done_valid),
      .push_data({packet_in_reg, core_done_status}),
      .pop(done_now),
      .valid(waiting_valid),
      .head({waiting_packet, waiting_status})
  );
  logic done_valid_reg;
  logic [3:0] done_status_reg;
  always_ff @(posedge clk) begin
    done_valid_reg <= done_now && !rst;
    done_status_reg <= waiting_status;
    packets_reg <= packets_reg + (FLIGHT_LOG2 + 1)'(packet_out_reg)
        - (FLIGHT_LOG2 + 1)'(done_now && waiting_packet);
    if (rst) packets_reg <= '0;
  end
  assign done_valid  = done_valid_reg;
  assign done_status = done_status_reg;

  // Limits the descriptors that are taken and not done, so that the queue has room for all of them.
  logic [FLIGHT_LOG2:0] flight_reg;
  logic core_desc_valid, core_desc_ready;
  wire may_take = !flight_reg[FLIGHT_LOG2];
  assign core_desc_valid = desc_valid && may_take;
  assign desc_ready = core_desc_ready && may_take;
  always_ff @(posedge clk) begin
    flight_reg <= flight_reg + (FLIGHT_LOG2 + 1)'(desc_valid && desc_ready)
        - (FLIGHT_LOG2 + 1)'(done_now);
    if (rst) flight_reg <= '0;
  end

  xts_core #(
      .TWEAK(TWEAK),
      .CIPHER(CIPHER),
      .KEY128(KEY128),
      .KEY256(KEY256),
      .SBOX(SBOX),
      .STAGES(STAGES),
      .LANES(LANES),
      .CTR(CTR),
      .PERMIT_EQUAL(PERMIT_EQUAL)
  ) core (
      .clk(clk),
      .rst(rst),
      .desc_valid(core_desc_valid),
      .desc_ready(core_desc_ready),
      .desc_number(desc_number),
      .desc_stride(desc_stride),
      .desc_unit_len(desc_unit_len),
      .desc_unit_count(desc_unit_count),
      .desc_slot(desc_slot),
      .desc_decrypt(desc_decrypt),
      .desc_mode(desc_mode),
      .in_valid(s_axis_tvalid),
      .in_ready(in_ready),
      .in_data(s_axis_tdata),
      .in_last(s_axis_tlast),
      .out_valid(out_valid),
      .out_ready(out_ready),
      .out_data(out_data),
      .out_keep(out_keep),
      .out_last(out_last),
      .out_error(out_error),
      .done_valid(core_done_valid),
      .done_status(core_done_status),
      .key_valid(key_valid),
      .key_ready(key_ready),
      .key_load(key_load),
      .key_slot(key_slot),
      .key_long(key_long),
      .key_data(key_data),
      .key_tweak(key_tweak),
      .key_done(key_done),
      .key_result(key_result),
      .slot_state(slot_state),
      .busy(busy),
      .wiping(wiping)
  );
endmodule

`default_nettype wire
