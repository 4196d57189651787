// SPDX-License-Identifier: MIT OR Apache-2.0
// Structures that go from module to module, included where they are used: as ports they are
// vectors, since of Icarus 11 and Yosys 0.23 each lacks one of the ways to share a type.

// A descriptor as xts_issue wants it. Widths are those of four lanes.
typedef struct packed {
  logic        sound;       // its data are to be encrypted or decrypted
  logic        owns;        // it owns a packet
  logic [3:0]  status;
  logic [1:0]  slot;
  logic        short_key;   // of 128 bits
  logic        decrypt;
  logic        ecb;
  logic [2:0]  id;          // which of the sound descriptors in XTS mode
  logic [31:0] units;
  logic        one_unit;
  logic [19:0] beats_m1;    // beats of a unit that enter the pipeline, less 1
  logic        one_beat;
  logic        one_whole;   // one beat, and no part of a block has another
  logic        one_split;   // one beat, and a part of a block has another
  logic        two_beats;
  logic        steal;       // units end in a part of a block
  logic        split;       // which lies in a beat of its own
  logic [3:0]  tail;        // its bytes
  logic [1:0]  lane;        // of the whole block before it
  logic [5:0]  keep_m1;     // bytes in a unit's last beat, less 1
  logic [3:0]  last_lanes;  // lanes with data in the last beat that enters the pipeline
} record_t;

// What goes through the pipeline beside a beat.
typedef struct packed {
  logic       entry;    // it has a place in the output's buffer
  logic       again;    // the second pass of a block whose ciphertext was stolen from
  logic       tweak;    // a data unit number, in lane 0
  logic       first;    // of its unit
  logic       steal;    // a part of a block waits for the block in `lane`
  logic       split;    // and has a place of its own in the buffer
  logic       decrypt;
  logic [1:0] lane;
  logic [3:0] lanes;    // with data
  logic [2:0] id;       // of the tweak
} step_t;

// What is known of a place in the output's buffer before its data are there.
typedef struct packed {
  logic       last;     // of its descriptor
  logic       hollow;   // no data: keep 0
  logic       silent;   // not even a beat
  logic       swap;     // lane 0's data are in the last lane
  logic       counted;  // its descriptor counts as a user of `slot`
  logic [1:0] slot;
  logic [3:0] status;
  logic [5:0] keep_m1;  // bytes, less 1
} place_t;

// The part of a block at a unit's end, waiting for the whole one before it.
typedef struct packed {
  logic [3:0]   key;        // for the second pass
  logic         inverse;
  logic         short_key;
  logic [3:0]   len;        // bytes, 1 to 15
  logic [119:0] bytes;
} tail_t;
