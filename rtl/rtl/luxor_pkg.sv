// SPDX-License-Identifier: MIT OR Apache-2.0
// Numbers that several modules agree on.
//
// A block of 128 bits has its byte 0, the first in memory, in bits 7:0. A column of AES's
// state is 32 bits with its row 0 in bits 7:0; column 0 is bits 31:0 of the block. So a
// tweak is the little-endian integer of IEEE 1619-2018, 5.2, and multiplication by α is a
// shift to the left.
`default_nettype none

// No module uses all of them.
/* verilator lint_off UNUSEDPARAM */
package luxor_pkg;
  // How an S-box is made: SBOX.
  localparam int SBOX_TABLE = 0;  // a table of 256 bytes in LUTs
  localparam int SBOX_LOGIC = 1;  // inversion in a tower of fields
  localparam int SBOX_BRAM  = 2;  // a table in block RAM, read with the clock
  localparam int SBOX_T_TABLE = 3;  // as 0, but aes_pipe has MixColumns in it, too: to simulate

  // Which ciphers a build has: CIPHER.
  localparam int CIPHER_ENC  = 0;  // AES only
  localparam int CIPHER_DEC  = 1;  // its inverse only
  localparam int CIPHER_BOTH = 2;  // either, block by block

  // Where tweaks are encrypted: TWEAK.
  localparam int TWEAK_PAPER     = 0;  // first the tweak, then the data, units one by one
  localparam int TWEAK_SHARED    = 1;  // in the data's pipeline, units ahead
  localparam int TWEAK_DEDICATED = 2;  // in a unit of their own

  // The three round keys of a slot at one round.
  localparam logic [1:0] KIND_ENC   = 2'd0;  // of the data key, to encrypt
  localparam logic [1:0] KIND_TWEAK = 2'd1;  // of the tweak key
  localparam logic [1:0] KIND_DEC   = 2'd2;  // of the data key, for the equivalent inverse cipher

  // What became of a descriptor.
  localparam logic [3:0] DONE_OK         = 4'd0;
  localparam logic [3:0] DONE_NO_DATA    = 4'd1;  // no units, or units of 0 bytes
  localparam logic [3:0] DONE_TOO_SHORT  = 4'd2;  // units of less than one block
  localparam logic [3:0] DONE_TOO_LONG   = 4'd3;  // units of more than 2^20 blocks
  localparam logic [3:0] DONE_NO_SLOT    = 4'd4;  // there is no such key slot
  localparam logic [3:0] DONE_EMPTY_SLOT = 4'd5;  // the slot has no key
  localparam logic [3:0] DONE_EQUAL_KEYS = 4'd6;  // the slot's key was refused
  localparam logic [3:0] DONE_NO_CIPHER  = 4'd7;  // this build has no such direction
  localparam logic [3:0] DONE_ECB_TAIL   = 4'd8;  // ECB has whole blocks only
  localparam logic [3:0] DONE_CUT        = 4'd9;  // the packet ended too early
  localparam logic [3:0] DONE_EXCESS     = 4'd10; // the packet was too long

  // What became of a key command.
  localparam logic [3:0] KEY_OK     = 4'd0;
  localparam logic [3:0] KEY_EQUAL  = 4'd1;  // data key = tweak key; the slot is as if cleared
  localparam logic [3:0] KEY_NO_SLOT = 4'd2;
  localparam logic [3:0] KEY_IN_USE = 4'd3;  // descriptors of this slot are under way
  localparam logic [3:0] KEY_SIZE   = 4'd4;  // this build has no keys of this size

  // A key slot's state.
  localparam logic [1:0] SLOT_EMPTY = 2'd0;
  localparam logic [1:0] SLOT_128   = 2'd1;
  localparam logic [1:0] SLOT_256   = 2'd2;
  localparam logic [1:0] SLOT_EQUAL = 2'd3;  // equal keys were refused here

  // The widths of the structures in luxor_types.svh.
  localparam int RECORD_BITS = 89;
  localparam int STEP_BITS = 16;
  localparam int PLACE_BITS = 17;
  localparam int TAIL_BITS = 130;
endpackage
/* verilator lint_on UNUSEDPARAM */

`default_nettype wire
