// SPDX-License-Identifier: MIT OR Apache-2.0
// What fifo.ys proves: fifo is equal to the queue of fifo_model, for every user that pushes into a
// full queue only together with a pop, and never pops from an empty queue. It then never holds more
// than its depth. The statements about the registers are needed for the induction.
`default_nettype none

module fifo_proof #(
    parameter int DEPTH_LOG2 = 5
) (
    input wire       clk,
    input wire       rst,
    input wire       push,
    input wire [1:0] push_data,
    input wire       pop
);
  localparam int DEPTH = 1 << DEPTH_LOG2;

  wire valid, model_valid;
  wire [1:0] head, model_head;
  fifo #(.WIDTH(2), .DEPTH_LOG2(DEPTH_LOG2)) dut (
      .clk, .rst, .push, .push_data, .pop, .valid, .head
  );
  fifo_model #(.WIDTH(2), .DEPTH_LOG2(DEPTH_LOG2)) model (
      .clk, .rst, .push, .push_data, .pop, .valid(model_valid), .head(model_head)
  );

  // `hierconn`: `flatten` connects these wires to the wires of that name in the instances.
  (* hierconn *) wire [DEPTH-1:0] \dut.more_reg ;
  (* hierconn *) wire [DEPTH_LOG2-1:0] \dut.write_reg ;
  (* hierconn *) wire [DEPTH_LOG2-1:0] \dut.read_reg ;
  (* hierconn *) wire [DEPTH_LOG2:0] \model.count_reg ;
  (* hierconn *) wire [2*DEPTH-1:0] \model.queue_reg ;
  wire [63:0] ram;
`define WORD(INDEX, NAME) (* hierconn *) wire [1:0] NAME ; assign ram[2*INDEX+:2] = NAME ;
  `WORD(0, \dut.ram[0] ) `WORD(1, \dut.ram[1] ) `WORD(2, \dut.ram[2] ) `WORD(3, \dut.ram[3] )
  `WORD(4, \dut.ram[4] ) `WORD(5, \dut.ram[5] ) `WORD(6, \dut.ram[6] ) `WORD(7, \dut.ram[7] )
  `WORD(8, \dut.ram[8] ) `WORD(9, \dut.ram[9] ) `WORD(10, \dut.ram[10] )
  `WORD(11, \dut.ram[11] ) `WORD(12, \dut.ram[12] ) `WORD(13, \dut.ram[13] )
  `WORD(14, \dut.ram[14] ) `WORD(15, \dut.ram[15] ) `WORD(16, \dut.ram[16] )
  `WORD(17, \dut.ram[17] ) `WORD(18, \dut.ram[18] ) `WORD(19, \dut.ram[19] )
  `WORD(20, \dut.ram[20] ) `WORD(21, \dut.ram[21] ) `WORD(22, \dut.ram[22] )
  `WORD(23, \dut.ram[23] ) `WORD(24, \dut.ram[24] ) `WORD(25, \dut.ram[25] )
  `WORD(26, \dut.ram[26] ) `WORD(27, \dut.ram[27] ) `WORD(28, \dut.ram[28] )
  `WORD(29, \dut.ram[29] ) `WORD(30, \dut.ram[30] ) `WORD(31, \dut.ram[31] )

  logic started_reg = 1'b0;
  always_ff @(posedge clk) started_reg <= 1'b1;
  always_comb begin
    if (!started_reg) assume (rst);
    if (!model_valid) assume (!pop);
    if (\model.count_reg == DEPTH && !pop) assume (!push);
    if (started_reg) begin
      assert (valid == model_valid);
      assert (!valid || head == model_head);
      assert (\model.count_reg <= DEPTH);

      assert (\dut.more_reg == ~({DEPTH{1'b1}} << \model.count_reg ));
      assert (DEPTH_LOG2'(\dut.write_reg - \dut.read_reg ) == DEPTH_LOG2'(\model.count_reg ));
    end
  end
  for (genvar k = 0; k < DEPTH; k++) begin : g_entry
    wire [DEPTH_LOG2-1:0] address = \dut.read_reg + k;
    always_comb begin
      if (started_reg && \model.count_reg > k)
        assert (ram[2*address+:2] == \model.queue_reg [2*k+:2]);
    end
  end
endmodule

`default_nettype wire
