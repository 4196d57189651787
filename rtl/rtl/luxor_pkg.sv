// SPDX-License-Identifier: MIT OR Apache-2.0
// Constants that several modules share.
//
// A block of 128 bits has byte 0, the first byte in memory, in bits 7:0. A column of the AES state
// is 32 bits with row 0 in bits 7:0, and column 0 is bits 31:0 of the block. So a tweak is the
// little-endian integer of IEEE 1619-2018, 5.2, and a multiplication by α is a shift to the left.
`default_nettype none

// No module uses all of these constants.
/* verilator lint_off UNUSEDPARAM */
package luxor_pkg;
  // SBOX: how the S-boxes are built.
  localparam int SBOX_TABLE = 0;  // a table of 256 bytes in LUTs
  localparam int SBOX_LOGIC = 1;  // logic, with the inversion in a tower of fields
  localparam int SBOX_BRAM  = 2;  // a table in block RAM, read on the clock edge
  localparam int SBOX_T_TABLE = 3;  // as 0, but in aes_pipe with MixColumns: for simulation

  // CIPHER: which ciphers a build has.
  localparam int CIPHER_ENC  = 0;  // only AES
  localparam int CIPHER_DEC  = 1;  // only its inverse
  localparam int CIPHER_BOTH = 2;  // either, selected per block

  // TWEAK: where the tweaks are encrypted.
  localparam int TWEAK_PAPER     = 0;  // one unit after the other, first its tweak, then its data
  localparam int TWEAK_SHARED    = 1;  // in the pipeline of the data, several units ahead
  localparam int TWEAK_DEDICATED = 2;  // in an AES unit of their own

  // MODE: the mode of operation of a descriptor. A build with the parameter CTR = 0 lacks CTR.
  localparam logic [1:0] MODE_XTS = 2'd0;
  localparam logic [1:0] MODE_ECB = 2'd1;
  localparam logic [1:0] MODE_CTR = 2'd2;

  // KIND: each slot has three round keys for each round.
  localparam logic [1:0] KIND_ENC   = 2'd0;  // of the data key, for encryption
  localparam logic [1:0] KIND_TWEAK = 2'd1;  // of the tweak key
  localparam logic [1:0] KIND_DEC   = 2'd2;  // of the data key, for the equivalent inverse cipher

  // DONE: the result of a descriptor.
  localparam logic [3:0] DONE_OK         = 4'd0;
  localparam logic [3:0] DONE_NO_DATA    = 4'd1;  // no data units, or units of 0 bytes
  localparam logic [3:0] DONE_TOO_SHORT  = 4'd2;  // units of less than one block, but in CTR
  localparam logic [3:0] DONE_TOO_LONG   = 4'd3;  // units of more than 2^20 blocks
  localparam logic [3:0] DONE_NO_SLOT    = 4'd4;  // no such key slot exists
  localparam logic [3:0] DONE_EMPTY_SLOT = 4'd5;  // the slot has no key
  localparam logic [3:0] DONE_EQUAL_KEYS = 4'd6;  // the slot's key was refused
  localparam logic [3:0] DONE_NO_CIPHER  = 4'd7;  // this build lacks this direction or mode
  localparam logic [3:0] DONE_ECB_TAIL   = 4'd8;  // ECB takes only whole blocks
  localparam logic [3:0] DONE_CUT        = 4'd9;  // the packet ended too early
  localparam logic [3:0] DONE_EXCESS     = 4'd10; // the packet was too long
  // Only luxor_xts_dma has these.
  localparam logic [3:0] DONE_ADDRESS    = 4'd11; // an address or the length is not allowed
  localparam logic [3:0] DONE_FETCH      = 4'd12; // the descriptor could not be read

  // KEY: the result of a key command.
  localparam logic [3:0] KEY_OK     = 4'd0;
  localparam logic [3:0] KEY_EQUAL  = 4'd1;  // data key = tweak key; no key is loaded
  localparam logic [3:0] KEY_NO_SLOT = 4'd2;
  localparam logic [3:0] KEY_IN_USE = 4'd3;  // descriptors that use this slot are not done
  localparam logic [3:0] KEY_SIZE   = 4'd4;  // this build does not support keys of this size

  // SLOT: the state of a key slot.
  localparam logic [1:0] SLOT_EMPTY = 2'd0;
  localparam logic [1:0] SLOT_128   = 2'd1;
  localparam logic [1:0] SLOT_256   = 2'd2;
  localparam logic [1:0] SLOT_EQUAL = 2'd3;  // equal keys were refused for this slot

  // The widths of the structures in luxor_types.svh, in bits.
  localparam int RECORD_BITS = 90;
  localparam int STEP_BITS = 17;
  localparam int PLACE_BITS = 17;
  localparam int TAIL_BITS = 130;
endpackage
/* verilator lint_on UNUSEDPARAM */

`default_nettype wire
