// SPDX-License-Identifier: MIT OR Apache-2.0
// The XTS-AES core with a bus master: registers over AXI4-Lite, and over AXI4 a ring of descriptors
// in memory, the data that they name, and their statuses. Software writes descriptors and a
// doorbell. It moves no data.
//
// BEAT below is 16·LANES, the bytes of a beat of the AXI4 bus. All numbers are little-endian.
//
// Registers
//   000 to 7FF are those at the top of xts_regs.sv, with these differences:
//     CONFIG      bit 20 is 1: the core has the master. ring_log2 is 0
//     STATUS      bit 0 BUSY: descriptors that were fetched are not done, or the core still discards
//                 the rest of one that is done with EXCESS. bit 3 DRAINING: transfers that began
//                 before a reset by CONTROL are not finished. The master begins nothing new until
//                 they are. The registers can be used meanwhile
//     IRQ_STATUS  bit 0: a descriptor is done. bit 2: the status of a descriptor could not be
//                 written to memory; HEAD counts the descriptor as done
//     TAIL        descriptors submitted since reset. At most 2^RING_LOG2 more than HEAD
//     HEAD        descriptors done since reset: the memory has acknowledged their data and their
//                 statuses. IRQ_STATUS follows HEAD
//   800 RING_LOW   address of the ring in memory, a multiple of 64: bits 5:0 read as 0
//   804 RING_HIGH  its upper half
//   808 RING_LOG2  0 to 15: the ring has 2^RING_LOG2 places, 1 to 32,768. Writing a larger value
//                  changes nothing, so a driver that reads the register back sees that it was refused
//   The registers of the ring are 0 after a reset. They cannot be changed while ENABLE is 1 or
//   descriptors that were fetched are not done. RING_LOG2 must not be made smaller while TAIL - HEAD
//   is more than the new size. The rest of 800 to FFF is unmapped: it has no on-chip ring.
//
// A descriptor: 64 bytes. Descriptor k since reset is at RING + 64·(k mod 2^RING_LOG2).
//   byte  0  number       128 bits: the number of the first data unit
//        16  stride       64 bits: from number to number
//        24  unit_len     32 bits: bytes in a data unit
//        28  unit_count   32 bits
//        32  control      32 bits: {mode[10:9], decrypt[8], slot[7:0]}, the other bits 0
//        36  length       32 bits: bytes of the source, and of the destination
//        40  source       64 bits: address
//        48  destination  64 bits: address. It may be equal to the source, but they must not overlap
//                         otherwise
//        56  unused       32 bits. The core does not read them
//        60  status       32 bits: {done[31], write_error[9], read_error[8], code[3:0]}, the other
//                         bits 0. Software writes 0, the core writes the rest
//   Bytes 0 to 59 are only read. The status is one write of four bytes.
//
// Data. A data unit begins on a beat: unit i is at address + i·P, where P is unit_len rounded up to
// a multiple of BEAT, so the units of the usual sectors follow each other without a gap. `length`
// is unit_count·P. The source, the destination and `length` must be multiples of BEAT. The master
// reads the bytes between units, and does not change them in the destination. It never reads or
// writes outside the two buffers, whatever the other fields are. All addresses are modulo 2^64: a
// buffer or a ring that reaches 2^64 goes on at 0.
//
// Status. 80000000 means that all is well. Codes 0 to 10 are those of luxor_pkg.sv:
//    1 NO_DATA   no data are read or written, and the addresses and `length` are not looked at
//    2 to 8      the descriptor was refused: its source is read, nothing is written
//    9 CUT       `length` is too short: the beats that it has room for are written. The last one is
//                not if its last block waits for a partial block in the next beat
//   10 EXCESS    `length` is too long: the units are right, the rest is not written
//   11 ADDRESS   the source, the destination or `length` is not a multiple of BEAT, or `length` is
//                0: nothing is read or written
//   12 FETCH     the memory answered the read of the descriptor with an error: likewise
//   read_error   the memory answered a read of the source with an error
//   write_error  the memory answered a write of the destination with an error
//   After a read or write error, the contents of the destination are undefined. The master goes on
//   with the rest of the descriptor and with the next one.
//
// Order. Descriptors are done in the order of the ring. Up to 16 are under way at a time, so the
// source of one may be read before the destination of the one before it is written: a descriptor
// that needs the result of another must be submitted after the other is done. The status of a
// descriptor is written after the memory has acknowledged all its data.
//
// A driver
//   Start: wait until STATUS is 0, write RING_LOW, RING_HIGH and RING_LOG2, load keys, write ENABLE.
//   Submit: if TAIL - HEAD is less than the size of the ring, write a descriptor with status 0 to
//   its place, make it visible to the device, and write TAIL.
//   Complete: on an interrupt write 1 to its bit in IRQ_STATUS, then read HEAD, then the statuses of
//   the places up to HEAD.
//   Stop: clear ENABLE, so that no more descriptors are fetched, and wait until BUSY is 0. Or reset
//   by CONTROL, and wait until DRAINING is 0 before the memory is used for something else. A reset
//   zeroises the keys and can leave destinations half written. The rest of a write burst that has
//   begun has no strobes.
//
// rst must be 1 for at least 2 cycles, and resets the other end of the bus too.
//
// TWEAK to PERMIT_EQUAL  see luxor_xts.sv
// BURST_LOG2             the longest burst of data has 2^BURST_LOG2 beats: 2 to 256, and at most
//                        4 KiB. Bursts end at multiples of their longest size
// BUFFER_LOG2            each of the two buffers for data has 2^BUFFER_LOG2 beats, at least two
//                        bursts. That many beats, less a burst, are read ahead, in up to 16 bursts. Up
//                        to 15 bursts are written and not acknowledged
// CACHE, PROT            ARCACHE and AWCACHE, ARPROT and AWPROT
//
// AXI4: m_axi has ID 0 for data and ID 1 for descriptors and statuses, so reads of the two may be
// interleaved. All bursts are INCR, of whole beats and aligned. RREADY and BREADY are always 1. A
// write burst is offered when all its beats are there. The ports that are not here have the values
// that AXI4 gives as defaults.
`default_nettype none

module luxor_xts_dma #(
    parameter int TWEAK = luxor_pkg::TWEAK_SHARED,
    parameter int CIPHER = luxor_pkg::CIPHER_BOTH,
    parameter int KEY128 = 1,
    parameter int KEY256 = 1,
    parameter int SBOX = luxor_pkg::SBOX_TABLE,
    parameter int STAGES = 2,
    parameter int LANES = 1,
    parameter int CTR = 0,
    parameter int PERMIT_EQUAL = 0,
    parameter int BURST_LOG2 = 4,
    parameter int BUFFER_LOG2 = 8,
    parameter logic [3:0] CACHE = 4'b0011,
    parameter logic [2:0] PROT = 3'b000
) (
    input  wire                 clk,
    input  wire                 rst,
    input  wire [         11:0] s_axil_awaddr,
    input  wire                 s_axil_awvalid,
    output wire                 s_axil_awready,
    input  wire [         31:0] s_axil_wdata,
    input  wire [          3:0] s_axil_wstrb,
    input  wire                 s_axil_wvalid,
    output wire                 s_axil_wready,
    output wire [          1:0] s_axil_bresp,
    output wire                 s_axil_bvalid,
    input  wire                 s_axil_bready,
    input  wire [         11:0] s_axil_araddr,
    input  wire                 s_axil_arvalid,
    output wire                 s_axil_arready,
    output wire [         31:0] s_axil_rdata,
    output wire [          1:0] s_axil_rresp,
    output wire                 s_axil_rvalid,
    input  wire                 s_axil_rready,
    output wire                 m_axi_awid,
    output wire [         63:0] m_axi_awaddr,
    output wire [          7:0] m_axi_awlen,
    output wire [          2:0] m_axi_awsize,
    output wire [          1:0] m_axi_awburst,
    output wire [          3:0] m_axi_awcache,
    output wire [          2:0] m_axi_awprot,
    output wire                 m_axi_awvalid,
    input  wire                 m_axi_awready,
    output wire [128*LANES-1:0] m_axi_wdata,
    output wire [ 16*LANES-1:0] m_axi_wstrb,
    output wire                 m_axi_wlast,
    output wire                 m_axi_wvalid,
    input  wire                 m_axi_wready,
    input  wire                 m_axi_bid,
    input  wire [          1:0] m_axi_bresp,
    input  wire                 m_axi_bvalid,
    output wire                 m_axi_bready,
    output wire                 m_axi_arid,
    output wire [         63:0] m_axi_araddr,
    output wire [          7:0] m_axi_arlen,
    output wire [          2:0] m_axi_arsize,
    output wire [          1:0] m_axi_arburst,
    output wire [          3:0] m_axi_arcache,
    output wire [          2:0] m_axi_arprot,
    output wire                 m_axi_arvalid,
    input  wire                 m_axi_arready,
    input  wire                 m_axi_rid,
    input  wire [128*LANES-1:0] m_axi_rdata,
    input  wire [          1:0] m_axi_rresp,
    input  wire                 m_axi_rlast,
    input  wire                 m_axi_rvalid,
    output wire                 m_axi_rready,
    output wire                 irq
);
  // The latency of a block in cycles, from the input register of xts_core to the result.
  localparam int LATENCY = (STAGES > 2 ? 3 : 2) + (KEY256 != 0 ? 14 : 10) * STAGES;

  logic core_rst;
  logic ring_write, ring_read, ring_read_done, ring_done, ring_error, enable, draining;
  logic [8:0] ring_write_addr, ring_read_addr;
  logic [31:0] ring_write_data, ring_read_data, ring_size, tail, taken, head;
  logic desc_valid, desc_ready, desc_decrypt;
  logic [1:0] desc_mode;
  logic [127:0] desc_number;
  logic [63:0] desc_stride;
  logic [31:0] desc_unit_len, desc_unit_count;
  logic [7:0] desc_slot;
  logic done_valid;
  logic [3:0] done_status;
  logic key_valid, key_ready, key_load, key_long, key_done;
  logic [7:0] key_slot;
  logic [255:0] key_data, key_tweak;
  logic [3:0] key_result;
  logic [7:0] slot_state;
  logic busy, wiping, beat_out;
  logic [128*LANES-1:0] s_axis_tdata, m_axis_tdata;
  logic [16*LANES-1:0] m_axis_tkeep;
  logic s_axis_tvalid, s_axis_tready, s_axis_tlast;
  logic m_axis_tvalid, m_axis_tready, m_axis_tlast;
  wire unused_tuser;  // whether the descriptor failed: the status says so too

  xts_regs #(
      .TWEAK(TWEAK),
      .CIPHER(CIPHER),
      .KEY128(KEY128),
      .KEY256(KEY256),
      .STAGES(STAGES),
      .LANES(LANES),
      .CTR(CTR),
      .LATENCY(LATENCY),
      .RING_LOG2(0)
  ) regs (
      .*
  );

  dma_master #(
      .LANES(LANES),
      .BURST_LOG2(BURST_LOG2),
      .BUFFER_LOG2(BUFFER_LOG2),
      .CACHE(CACHE),
      .PROT(PROT)
  ) master (
      .*
  );

  xts_axis #(
      .TWEAK(TWEAK),
      .CIPHER(CIPHER),
      .KEY128(KEY128),
      .KEY256(KEY256),
      .SBOX(SBOX),
      .STAGES(STAGES),
      .LANES(LANES),
      .CTR(CTR),
      .PERMIT_EQUAL(PERMIT_EQUAL)
  ) axis (
      .rst(core_rst),
      .m_axis_tuser(unused_tuser),
      .*
  );
  wire unused = &{1'b0, unused_tuser};
endmodule

`default_nettype wire
