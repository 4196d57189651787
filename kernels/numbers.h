// SPDX-License-Identifier: MIT OR Apache-2.0
// The numbers of data units, and 128-bit addition.

// n + value modulo 2^128. n has its lowest word first.
INLINE void add(u32 *n, u64 low, u32 high)
{
    u64 n0 = (u64)n[1] << 32 | n[0];
    u64 n1 = (u64)n[3] << 32 | n[2];
    n0 += low;
    n1 += (u64)high + (n0 < low);
    n[0] = (u32)n0;
    n[1] = (u32)(n0 >> 32);
    n[2] = (u32)n1;
    n[3] = (u32)(n1 >> 32);
}

// The number of data unit `unit`. The pieces are sorted by `start`, and the first `start` is 0.
INLINE void number_of(u32 *number, GLOBAL const Piece *pieces, u32 piece_count, u32 unit)
{
    // The last piece with `start` <= unit is in [low, high).
    u32 low = 0, high = piece_count;
    while (high - low > 1) {
        u32 middle = low + (high - low) / 2;
        if (pieces[middle].start <= unit) {
            low = middle;
        } else {
            high = middle;
        }
    }
    GLOBAL const Piece *piece = pieces + low;
    UNROLL
    for (u32 i = 0; i < 4; i++) {
        number[i] = piece->first[i];
    }
    u64 count = unit - piece->start;
    u64 stride = piece->stride;
    u64 low_part = count * (stride & 0xffffffff);
    u64 high_part = count * (stride >> 32) + (low_part >> 32);
    add(number, high_part << 32 | (low_part & 0xffffffff), (u32)(high_part >> 32));
}
