// SPDX-License-Identifier: MIT OR Apache-2.0
// What skid.ys proves: skid is a queue of two words (fifo_model) for every user. No word is lost,
// duplicated or reordered, and a word that waits does not change. It is ready whenever it has room,
// except in the cycle after a reset. The statements about the registers are needed for the
// induction.
`default_nettype none

module skid_proof (
    input wire       clk,
    input wire       rst,
    input wire       in_valid,
    input wire [1:0] in_data,
    input wire       out_ready
);
  wire in_ready, out_valid, model_valid;
  wire [1:0] out_data, model_head;
  skid #(.WIDTH(2)) dut (
      .clk, .rst, .in_valid, .in_ready, .in_data, .out_valid, .out_ready, .out_data
  );
  wire push = in_valid && in_ready;
  wire pop = out_valid && out_ready;
  fifo_model #(.WIDTH(2), .DEPTH_LOG2(1)) model (
      .clk, .rst, .push, .push_data(in_data), .pop, .valid(model_valid), .head(model_head)
  );

  // `hierconn`: `flatten` connects these wires to the wires of that name in the instances.
  (* hierconn *) wire \dut.second_full_reg ;
  (* hierconn *) wire [1:0] \dut.second_reg ;
  (* hierconn *) wire [1:0] \model.count_reg ;
  (* hierconn *) wire [3:0] \model.queue_reg ;

  logic started_reg = 1'b0;
  logic reset_reg;
  always_ff @(posedge clk) begin
    started_reg <= 1'b1;
    reset_reg   <= rst;
  end
  always_comb begin
    if (!started_reg) assume (rst);
    if (started_reg) begin
      assert (out_valid == model_valid);
      assert (!out_valid || out_data == model_head);
      assert (\model.count_reg <= 2'd2);
      assert (!push || \model.count_reg != 2'd2);
      assert (in_ready == (\model.count_reg != 2'd2 && !reset_reg));

      assert (\dut.second_full_reg == \model.count_reg [1]);
      assert (!\dut.second_full_reg || \dut.second_reg == \model.queue_reg [3:2]);
    end
  end
endmodule

`default_nettype wire
