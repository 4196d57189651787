// SPDX-License-Identifier: MIT OR Apache-2.0
// XTS-AES (IEEE 1619-2007, clause 5) on many data units.
//
// A stretch is up to 256 consecutive blocks of a data unit. A unit has `spu` stretches, and units
// lie `pitch` blocks apart. First, xts_tweaks encrypts the units' numbers, and multiplies each by
// α^256, α^512 and so on for the later stretches. Then a warp processes each stretch:
//
//     lane l takes the blocks l, l + 32, l + 64 ... of it
//     its first tweak is the stretch's times α^l: a shift by less than a word
//     each next tweak is α^32 times the previous one: a shift by a word
//
// So a warp reads and writes 512 bytes at once, no tweak crosses lanes, and the host provides no
// table of tweaks. units * spu is less than 2^31.
//
// A launch with fewer stretches than half its warps divides each stretch into 2, 4 or 8 parts, one
// for each warp. A part that does not begin at the stretch's first block multiplies its tweak by
// α^32 once for every 32 blocks before it.

#define STRETCH 256

// The schedules in a key's words (192 words in all; the rest are 0).
#define DATA_ENCRYPTION 0
#define DATA_DECRYPTION 60
#define TWEAK_ENCRYPTION 120

// What a warp processes: the blocks from `begin` to `end` of each stretch whose number in the
// launch is `index` plus a multiple of `step`.
typedef struct {
    u32 index, step;
    u32 begin, end;
} Share;

// Finds the share of this warp. With parts, `step` is at least the number of stretches, so each
// warp has at most one stretch.
INLINE void share_of(Share *share, u32 units, u32 blocks, u32 spu)
{
    u32 length = STRETCH, parts = 1;
    // The only stretch of a short unit has fewer blocks to divide.
    while (length > WARP && length / 2 >= blocks) {
        length /= 2;
    }
    while (length > WARP && units * spu * parts * 2 <= WARPS) {
        length /= 2;
        parts *= 2;
    }
    share->index = WARP_NUMBER / parts;
    share->step = WARPS / parts;
    share->begin = WARP_NUMBER % parts * length;
    share->end = share->begin + length;
}

// Writes tweaks[unit * spu + stretch], one thread per tweak.
INLINE void xts_tweaks(u32 rounds, CONSTANT const u32 *keys, GLOBAL const Piece *pieces,
                       u32 piece_count, u32 units, u32 spu, GLOBAL Block *tweaks,
                       LOCAL const u32 *tables)
{
    for (u32 i = THREAD_NUMBER; i < units * spu; i += ALL_THREADS) {
        u32 t[4];
        number_of(t, pieces, piece_count, i / spu);
        aes(ENCRYPT, rounds, tables, REPLICA, keys + TWEAK_ENCRYPTION, t);
        times_alpha256(t, i % spu);
        tweaks[i] = pack(t);
    }
}

// Processes the first `blocks` blocks of each unit: all blocks, or all but the last whole one if a
// partial block follows it.
INLINE void xts_blocks(int direction, u32 rounds, CONSTANT const u32 *keys,
                       GLOBAL const Block *in, GLOBAL Block *out, GLOBAL const Block *tweaks,
                       u32 units, u32 blocks, u32 pitch, u32 spu, LOCAL const u32 *tables)
{
    CONSTANT const u32 *key = keys + (direction == ENCRYPT ? DATA_ENCRYPTION : DATA_DECRYPTION);
    u32 lane = THREAD % WARP;
    u32 replica = REPLICA;
    Share share;
    share_of(&share, units, blocks, spu);
    // Stepped, because a division in each iteration would cost as much as two rounds.
    u32 unit = share.index / spu, stretch = share.index % spu;
    u32 unit_step = share.step / spu, stretch_step = share.step % spu;
    while (unit < units) {
        u32 t[4];
        unpack(t, tweaks[(u64)unit * spu + stretch]);
        times_alpha(t, lane);
        NO_UNROLL
        for (u32 j = 0; j < share.begin; j += WARP) {
            times_alpha32(t);
        }
        u32 end = stretch * STRETCH + share.end;
        end = end < blocks ? end : blocks;
        u32 i = stretch * STRETCH + share.begin + lane;
        u64 at = (u64)unit * pitch + i;
        NO_UNROLL
        for (; i < end; i += WARP) {
            u32 w[4];
            unpack(w, in[at]);
            UNROLL
            for (u32 j = 0; j < 4; j++) {
                w[j] ^= t[j];
            }
            aes(direction, rounds, tables, replica, key, w);
            UNROLL
            for (u32 j = 0; j < 4; j++) {
                w[j] ^= t[j];
            }
            out[at] = pack(w);
            times_alpha32(t);
            at += WARP;
        }
        unit += unit_step;
        stretch += stretch_step;
        if (stretch >= spu) {
            stretch -= spu;
            unit++;
        }
    }
}

// Ciphertext stealing (5.3.2, 5.4.2): the last whole block of each unit, at index `blocks`, and the
// `tail` bytes after it, 1 to 15. One thread per unit. Bytes after the tail are neither read nor
// written.
INLINE void xts_tails(int direction, u32 rounds, CONSTANT const u32 *keys,
                      GLOBAL const Block *in, GLOBAL Block *out, GLOBAL const Block *tweaks,
                      u32 units, u32 blocks, u32 pitch, u32 spu, u32 tail,
                      LOCAL const u32 *tables)
{
    CONSTANT const u32 *key = keys + (direction == ENCRYPT ? DATA_ENCRYPTION : DATA_DECRYPTION);
    for (u32 unit = THREAD_NUMBER; unit < units; unit += ALL_THREADS) {
        u64 at = (u64)unit * pitch + blocks;
        GLOBAL const u8 *tail_in = (GLOBAL const u8 *)(in + at + 1);
        GLOBAL u8 *tail_out = (GLOBAL u8 *)(out + at + 1);
        // The tweaks of the whole block and of the partial one.
        u32 whole[4], part[4];
        unpack(whole, tweaks[(u64)unit * spu + blocks / STRETCH]);
        NO_UNROLL
        for (u32 i = WARP; i <= blocks % STRETCH; i += WARP) {
            times_alpha32(whole);
        }
        times_alpha(whole, blocks % WARP);
        UNROLL
        for (u32 j = 0; j < 4; j++) {
            part[j] = whole[j];
        }
        times_alpha(part, 1);

        u32 w[4];
        unpack(w, in[at]);
        // The first pass produces the tail; the second replaces those bytes by the tail's input. A
        // loop, so that there is only one copy of AES.
        NO_UNROLL
        for (int pass = 0; pass < 2; pass++) {
            u32 t[4];
            UNROLL
            for (u32 j = 0; j < 4; j++) {
                t[j] = (pass == 0) == (direction == ENCRYPT) ? whole[j] : part[j];
                w[j] ^= t[j];
            }
            aes(direction, rounds, tables, REPLICA, key, w);
            UNROLL
            for (u32 j = 0; j < 4; j++) {
                w[j] ^= t[j];
            }
            if (pass == 0) {
                UNROLL
                for (u32 j = 0; j < 16; j++) {
                    if (j < tail) {
                        u32 shift = 8 * (j % 4);
                        u32 old = tail_in[j];
                        tail_out[j] = (u8)(w[j / 4] >> shift);
                        w[j / 4] = (w[j / 4] & ~(0xffu << shift)) | old << shift;
                    }
                }
            }
        }
        out[at] = pack(w);
    }
}
