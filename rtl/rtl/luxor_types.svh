// SPDX-License-Identifier: MIT OR Apache-2.0
// Structures that pass from module to module. Each module that uses them includes this file. As
// ports they are vectors, because Icarus 11 and Yosys 0.23 each lack one of the ways to share a
// type.

// A descriptor as xts_issue needs it. The widths are those for four lanes.
typedef struct packed {
  logic        sound;       // it is valid: its data are encrypted or decrypted
  logic        owns;        // it has a packet
  logic [3:0]  status;
  logic [1:0]  slot;
  logic        short_key;   // the key has 128 bits
  logic        decrypt;
  logic        ecb;
  logic        ctr;         // then `decrypt` and `steal` are 0
  logic [2:0]  id;          // number among the valid descriptors in XTS and CTR mode
  logic [31:0] units;
  logic        one_unit;
  logic [19:0] beats_m1;    // beats of a unit that enter the pipeline, less 1
  logic        one_beat;
  logic        one_whole;   // one beat, and no beat for a partial block
  logic        one_split;   // one beat, and a beat for a partial block
  logic        two_beats;
  logic        steal;       // units end in a partial block
  logic        split;       // which is in a beat of its own
  logic [3:0]  tail;        // the bytes of the partial block; 0: there is none
  logic [1:0]  lane;        // of the whole block before it
  logic [5:0]  keep_m1;     // bytes in a unit's last beat, less 1
  logic [3:0]  last_lanes;  // lanes with data in the last beat that enters the pipeline
} record_t;

// The information that goes through the pipeline beside a beat.
typedef struct packed {
  logic       entry;    // it has a place in the output buffer
  logic       again;    // the second pass of a block (ciphertext stealing)
  logic       tweak;    // a data unit number, in lane 0
  logic       ctr;      // its data wait in the queue for the exit
  logic       first;    // the first beat of its unit
  logic       steal;    // a partial block waits for the block in `lane`
  logic       split;    // and the partial block has its own place in the buffer
  logic       decrypt;
  logic [1:0] lane;
  logic [3:0] lanes;    // the lanes with data
  logic [2:0] id;       // of the tweak
} step_t;

// What is known of a place in the output buffer before its data arrive.
typedef struct packed {
  logic       last;     // the last place of its descriptor
  logic       hollow;   // no data: keep 0
  logic       silent;   // no beat is sent
  logic       swap;     // the data of lane 0 are in the last lane
  logic       counted;  // its descriptor counts as a user of `slot`
  logic [1:0] slot;
  logic [3:0] status;
  logic [5:0] keep_m1;  // bytes, less 1
} place_t;

// The partial block at the end of a unit, which waits for the whole block before it.
typedef struct packed {
  logic [3:0]   key;        // for the second pass
  logic         inverse;
  logic         short_key;
  logic [3:0]   len;        // bytes, 1 to 15
  logic [119:0] bytes;
} tail_t;
