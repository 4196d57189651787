// SPDX-License-Identifier: MIT OR Apache-2.0
// What dma_reader.ys proves, for all sources and all users, and for every memory that returns no
// more beats than it was asked for, after any delay:
//
// - The bursts of a source begin where it begins, follow each other without a gap and end where it
//   ends.
// - No burst crosses a multiple of 2^BURST_LOG2 beats, and so of 4 KiB.
// - A beat that comes always has room in the buffer, and at most 16 bursts are under way.
//
// The statements about the registers are needed for the induction.
`default_nettype none

module dma_reader_proof #(
    parameter int BURST_LOG2 = 4,
    parameter int BUFFER_LOG2 = 8
) (
    input wire        clk,
    input wire        rst,
    input wire        job_push,
    input wire [59:0] job_addr,
    input wire [27:0] job_beats,
    input wire        req_ready,
    input wire        beat_valid,
    input wire        beat_last,
    input wire        beat_error,
    input wire        out_ready,
    input wire        end_pop
);
  localparam int B = BURST_LOG2;

  wire req_valid, out_valid, out_last, end_valid, end_error;
  wire [63:0] req_addr;
  wire [7:0] req_len;
  wire [127:0] out_data;
  dma_reader #(.BURST_LOG2(BURST_LOG2), .BUFFER_LOG2(BUFFER_LOG2)) dut (
      .clk, .rst, .job_push, .job_addr, .job_beats, .req_valid, .req_ready, .req_addr, .req_len,
      .beat_valid, .beat_data(128'd0), .beat_last, .beat_error, .out_valid, .out_ready, .out_data,
      .out_last, .end_valid, .end_pop, .end_error
  );

  // `hierconn`: `flatten` connects these wires to the wires of that name in the instances.
  (* hierconn *) wire [1:0] \dut.state_reg ;
  (* hierconn *) wire [59:0] \dut.addr_reg ;
  (* hierconn *) wire [27:0] \dut.left_m1_reg ;
  (* hierconn *) wire [B-1:0] \dut.len_m1_reg ;
  (* hierconn *) wire \dut.final_reg ;
  (* hierconn *) wire \dut.room_reg ;
  (* hierconn *) wire \dut.job_pop ;
  (* hierconn *) wire [59:0] \dut.next_addr ;
  (* hierconn *) wire [27:0] \dut.next_beats ;
  (* hierconn *) wire [BUFFER_LOG2:0] \dut.used_reg ;
  (* hierconn *) wire [4:0] \dut.bursts_reg ;
  (* hierconn *) wire [4:0] \dut.finals.count_reg ;
  (* hierconn *) wire [4:0] \dut.jobs.count_reg ;
  (* hierconn *) wire [BUFFER_LOG2-1:0] \dut.buffer.write_reg ;
  (* hierconn *) wire [BUFFER_LOG2-1:0] \dut.buffer.read_reg ;
  (* hierconn *) wire \dut.buffer.read_valid_reg ;
  (* hierconn *) wire \dut.buffer.valid_reg ;

  // What is left of the source, and the beats that were asked for and have not come.
  logic started_reg = 1'b0;
  logic [59:0] place_reg;
  logic [27:0] left_reg;
  logic [BUFFER_LOG2:0] coming_reg;
  wire asks = req_valid && req_ready;
  wire [8:0] beats = 9'(req_len) + 9'd1;
  always_ff @(posedge clk) begin
    started_reg <= 1'b1;
    if (\dut.job_pop ) begin
      place_reg <= \dut.next_addr ;
      left_reg  <= \dut.next_beats ;
    end
    if (asks) begin
      place_reg <= place_reg + 60'(beats);
      left_reg  <= left_reg - 28'(beats);
    end
    coming_reg <= coming_reg + (asks ? (BUFFER_LOG2 + 1)'(beats) : '0)
        - (BUFFER_LOG2 + 1)'(beat_valid);
    if (rst) begin
      left_reg   <= '0;
      coming_reg <= '0;
    end
  end

  wire [BUFFER_LOG2-1:0] in_ram = \dut.buffer.write_reg - \dut.buffer.read_reg ;
  wire [B-1:0] to_boundary = ~place_reg[B-1:0];
  localparam int MOST = (1 << BUFFER_LOG2) - 1;
  always_comb begin
    if (!started_reg) assume (rst);
    if (\dut.jobs.count_reg == 5'd16) assume (!job_push);
    if (\dut.next_beats == 0) assume (!\dut.job_pop );
    if (coming_reg == 0) assume (!beat_valid);
    if (\dut.bursts_reg == 0) assume (!(beat_valid && beat_last));
    if (started_reg) begin
      if (req_valid) begin
        assert (req_addr == {place_reg, 4'd0});
        assert (28'(beats) <= left_reg);
        assert (req_len <= 8'(to_boundary));
        assert (\dut.final_reg == (28'(beats) == left_reg));
      end
      if (\dut.state_reg == 2'd0) assert (left_reg == 0);
      if (beat_valid) assert (in_ram != MOST);
      assert (\dut.finals.count_reg <= 5'd16);

      assert (\dut.state_reg != 2'd3);
      if (\dut.state_reg != 2'd0)
        assert (\dut.addr_reg == place_reg && \dut.left_m1_reg == left_reg - 28'd1 && left_reg != 0);
      if (\dut.state_reg == 2'd2) begin
        assert (\dut.final_reg == (\dut.left_m1_reg <= 28'(to_boundary)));
        assert (\dut.len_m1_reg == (\dut.final_reg ? \dut.left_m1_reg [B-1:0] : to_boundary));
        if (\dut.room_reg )
          assert (\dut.used_reg <= MOST - (1 << B) && !\dut.bursts_reg [4]);
      end
      assert (\dut.finals.count_reg == \dut.bursts_reg );
      assert (\dut.used_reg <= MOST);
      assert (32'(\dut.used_reg ) == 32'(coming_reg) + 32'(in_ram)
          + 32'(\dut.buffer.read_valid_reg ) + 32'(\dut.buffer.valid_reg ));
    end
  end
endmodule

`default_nettype wire
