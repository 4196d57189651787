// SPDX-License-Identifier: MIT OR Apache-2.0
// Counter mode (SP 800-38A, 6.5; the counter is all 128 bits, big-endian, appendix B.1) on many
// messages, called units as in XTS. Units have `len` bytes each and lie `pitch` blocks apart. The
// pieces' numbers are their first counters. One warp processes a stretch. Stretches are not divided
// as in XTS, because NVIDIA's assembler then adds an instruction to every look-up.

INLINE void ctr(u32 rounds, CONSTANT const u32 *keys, GLOBAL const Block *in, GLOBAL Block *out,
                GLOBAL const Piece *pieces, u32 piece_count, u32 units, u32 len, u32 pitch,
                u32 spu, LOCAL const u32 *tables)
{
    CONSTANT const u32 *key = keys + DATA_ENCRYPTION;
    u32 lane = THREAD % WARP;
    u32 replica = REPLICA;
    u32 whole = len / 16, tail = len % 16;
    u32 blocks = whole + (tail != 0);
    u32 unit = WARP_NUMBER / spu, stretch = WARP_NUMBER % spu;
    u32 unit_step = WARPS / spu, stretch_step = WARPS % spu;
    while (unit < units) {
        u32 counter[4];
        u32 end = (stretch + 1) * STRETCH;
        end = end < blocks ? end : blocks;
        number_of(counter, pieces, piece_count, unit);
        u32 i = stretch * STRETCH + lane;
        u64 at = (u64)unit * pitch + i;
        add(counter, i, 0);
        NO_UNROLL
        for (; i < end; i += WARP) {
            u32 w[4];
            UNROLL
            for (u32 j = 0; j < 4; j++) {
                w[j] = bytes_of(counter[3 - j], 0, 0x0123);
            }
            aes(ENCRYPT, rounds, tables, replica, key, w);
            if (i < whole) {
                u32 data[4];
                unpack(data, in[at]);
                UNROLL
                for (u32 j = 0; j < 4; j++) {
                    w[j] ^= data[j];
                }
                out[at] = pack(w);
            } else {
                GLOBAL const u8 *tail_in = (GLOBAL const u8 *)(in + at);
                GLOBAL u8 *tail_out = (GLOBAL u8 *)(out + at);
                // Lowest byte first.
                NO_UNROLL
                for (u32 j = 0; j < tail; j++) {
                    tail_out[j] = tail_in[j] ^ (u8)w[0];
                    w[0] = w[0] >> 8 | w[1] << 24;
                    w[1] = w[1] >> 8 | w[2] << 24;
                    w[2] = w[2] >> 8 | w[3] << 24;
                    w[3] >>= 8;
                }
            }
            add(counter, WARP, 0);
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
