// SPDX-License-Identifier: MIT OR Apache-2.0
// CTR and XTS as in T. Sanida, A. Sideris and M. Dasygenis, "Accelerating the AES Algorithm using
// OpenCL", 2020. For measurements only. `luxor bench sanida-2020` is the host's part.
//
// AES processes one byte at a time: SubBytes, ShiftRows, MixColumns and AddRoundKey, one after the
// other. The S-box and the state are in local memory, the round keys in constant memory. A
// work-item processes BYTES bytes of a block: 1, 4, 8 or 16. If several share a block, they meet at
// a barrier after each step whose bytes the others use.
//
// The paper does not say how it handles α in XTS. Here a file is one data unit: the host encrypts
// its number, and the first work-item of a block multiplies that by the power of α.

// Bytes of local memory: the S-box; and for each block its state, its state after ShiftRows, and
// its tweak.
#define SANIDA_BOX 256
#define SANIDA_BLOCK 48

#define SANIDA_CTR 0
#define SANIDA_XTS 1

INLINE u32 sanida_times_2(u32 x)
{
    return (x << 1 ^ (x >> 7) * 0x1b) & 0xff;
}

// A barrier for the work-items of a block, if there are several.
#define SANIDA_MEET           \
    if (bytes < 16) {         \
        BARRIER;              \
    }

// Processes the block in `state`, to which this work-item has written its bytes from `at` on. The
// key is a schedule in the order of use. Decryption is the equivalent inverse cipher (FIPS 197,
// 5.3.5), which has the steps in the same order.
INLINE void sanida_aes(int direction, u32 rounds, u32 bytes, LOCAL const u8 *box, LOCAL u8 *state,
                       u32 at, CONSTANT const u32 *key)
{
    LOCAL u8 *moved = state + 16;
    for (u32 i = at; i < at + bytes; i++) {
        state[i] ^= (u8)(key[i / 4] >> 8 * (i % 4));
    }
    SANIDA_MEET
    NO_UNROLL
    for (u32 round = 1; round <= rounds; round++) {
        for (u32 i = at; i < at + bytes; i++) {
            u32 shift = direction == ENCRYPT ? 4 * (i % 4) : 12 * (i % 4);
            moved[i] = box[state[(i + shift) % 16]];
        }
        SANIDA_MEET
        for (u32 i = at; i < at + bytes; i++) {
            LOCAL const u8 *column = moved + i / 4 * 4;
            u32 a = column[i % 4];
            if (round < rounds) {
                u32 b = column[(i + 1) % 4], c = column[(i + 2) % 4], d = column[(i + 3) % 4];
                u32 by_2 = sanida_times_2(a ^ b);
                if (direction == DECRYPT) {
                    // InvMixColumns adds 8 (a + b + c + d) + 4 (a + c).
                    by_2 ^= sanida_times_2(sanida_times_2(
                        sanida_times_2(a ^ b ^ c ^ d) ^ a ^ c));
                }
                a = by_2 ^ b ^ c ^ d;
            }
            state[i] = (u8)(a ^ key[4 * round + i / 4] >> 8 * (i % 4));
        }
        SANIDA_MEET
    }
}

// Processes `blocks` blocks. `first` is the first counter, a number of four words with the lowest
// first, or the encrypted number of the data unit.
INLINE void sanida(int mode, int direction, u32 rounds, u32 bytes, CONSTANT const u32 *keys,
                   GLOBAL const u8 *in, GLOBAL u8 *out, GLOBAL const Block *first, u32 blocks,
                   LOCAL u8 *local_memory)
{
    int inverse = mode == SANIDA_XTS && direction == DECRYPT;
    for (u32 i = THREAD; i < SANIDA_BOX; i += THREADS) {
        u32 word = inverse ? TD0[i] : T0[i];
        // As in aes.h: a byte of T0, or the sum of the bytes of TD0.
        u32 sum = word ^ word >> 16;
        local_memory[i] = (u8)(inverse ? sum ^ sum >> 8 : word >> 8);
    }
    BARRIER;

    u32 sharing = 16 / bytes;
    u32 place = THREAD / sharing, at = THREAD % sharing * bytes;
    u32 block = GROUP * (THREADS / sharing) + place;
    int live = block < blocks;
    LOCAL u8 *state = local_memory + SANIDA_BOX + SANIDA_BLOCK * place;
    LOCAL u8 *tweak = state + 32;
    u32 t[4];
    unpack(t, first[0]);
    if (mode == SANIDA_CTR) {
        add(t, block, 0);
        for (u32 i = at; i < at + bytes; i++) {
            state[i] = (u8)(t[3 - i / 4] >> 8 * (3 - i % 4));
        }
    } else {
        if (at == 0) {
            times_alpha256(t, block / 256);
            for (u32 i = 0; i < block % 256 / 32; i++) {
                times_alpha32(t);
            }
            times_alpha(t, block % 32);
            for (u32 i = 0; i < 16; i++) {
                tweak[i] = (u8)(t[i / 4] >> 8 * (i % 4));
            }
        }
        SANIDA_MEET
        for (u32 i = at; i < at + bytes; i++) {
            state[i] = (u8)(live ? in[(u64)block * 16 + i] ^ tweak[i] : 0);
        }
    }
    sanida_aes(mode == SANIDA_XTS ? direction : ENCRYPT, rounds, bytes, local_memory, state, at,
               keys + (inverse ? 60 : 0));
    for (u32 i = at; live && i < at + bytes; i++) {
        u32 with = mode == SANIDA_XTS ? tweak[i] : in[(u64)block * 16 + i];
        out[(u64)block * 16 + i] = (u8)(state[i] ^ with);
    }
}

#define SANIDA_KERNEL(NAME, MODE, DIRECTION, SIZE, ROUNDS, BYTES)                                \
    KERNEL sanida_##NAME##_##SIZE##_##BYTES(KEYS_PARAM, GLOBAL const u8 *in, GLOBAL u8 *out,     \
                                            GLOBAL const Block *first, u32 blocks TABLES_PARAM)  \
    {                                                                                            \
        KERNEL_BEGIN                                                                             \
        sanida(MODE, DIRECTION, ROUNDS, BYTES, keys, in, out, first, blocks,                     \
               (LOCAL u8 *)tables);                                                              \
    }

// In CTR, the same kernel encrypts and decrypts.
#define SANIDA_BYTES(SIZE, ROUNDS, BYTES)                                                        \
    SANIDA_KERNEL(ctr, SANIDA_CTR, ENCRYPT, SIZE, ROUNDS, BYTES)                                 \
    SANIDA_KERNEL(xts_encrypt, SANIDA_XTS, ENCRYPT, SIZE, ROUNDS, BYTES)                         \
    SANIDA_KERNEL(xts_decrypt, SANIDA_XTS, DECRYPT, SIZE, ROUNDS, BYTES)

#define SANIDA_SIZE(SIZE, ROUNDS)                                                                \
    SANIDA_BYTES(SIZE, ROUNDS, 1)                                                                \
    SANIDA_BYTES(SIZE, ROUNDS, 4)                                                                \
    SANIDA_BYTES(SIZE, ROUNDS, 8)                                                                \
    SANIDA_BYTES(SIZE, ROUNDS, 16)

SANIDA_SIZE(128, 10)
SANIDA_SIZE(192, 12)
SANIDA_SIZE(256, 14)
