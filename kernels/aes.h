// SPDX-License-Identifier: MIT OR Apache-2.0
// AES with tables in local memory (FIPS 197; the tables are from Daemen and Rijmen, "AES Proposal:
// Rijndael", 5.2.1).
//
// A column is a word, with row r in bits 8 r to 8 r + 7. T0[x] is MixColumns of a column with S(x)
// in row 0 and zeros below; T_k is T0 with each word rotated left by 8 k. A round computes each
// column as
//
//     T0[row 0 of a] ^ T1[row 1 of b] ^ T2[row 2 of c] ^ T3[row 3 of d] ^ round key
//
// where a to d are the columns from which ShiftRows takes the rows. With four tables this is done
// literally. With one table, three words are rotated. With two tables, T0 and T2, one rotation
// serves two words:
//
//     T0[a] ^ T2[c] ^ rotate_left(T0[b] ^ T2[d] ^ key, 8)
//
// where `key` is the round key rotated right by 8; the host rotates the encryption keys.
// Decryption, by the equivalent inverse cipher (5.3.5) with Td0 and Td2, rotates the other half, to
// the right:
//
//     rotate_left(Td0[a] ^ Td2[c] ^ key, 24) ^ Td0[b] ^ Td2[d]
//
// This gives the column rotated right by 8, with the keys unchanged; the next round takes its rows
// one byte lower. Both ways take 16 loads, 16 addresses and 12 operations per round.
//
// The last round has no MixColumns. S(x) is in bytes 1 and 2 of T0[x]. The bytes of Td0[x] are 0e,
// 09, 0d and 0b times InvS(x), and these factors add up to 01. So the sum of the bytes is InvS(x),
// and no table of the inverse S-box has to take the place of Td2.
//
// In memory, entry x of every table comes before entry x + 1 of any table, and each word is stored
// REPLICAS times. With 32 replicas, the words of one lane lie in one bank.

#define ENTRY_WORDS (TABLES * REPLICAS)

#define ENCRYPT 1
#define DECRYPT 0

// Fills the tables from T0 or TD0. All threads of the work-group must call it.
INLINE void fill_tables(LOCAL u32 *tables, CONSTANT const u32 *table)
{
    for (u32 i = THREAD; i < TABLE_WORDS; i += THREADS) {
        u32 k = i / REPLICAS % TABLES;
        tables[i] = rotate_left(table[i / ENTRY_WORDS], (TABLES == 2 ? 16 : 8) * k);
    }
    BARRIER;
}

// The lane's copy within an entry. Only look_up interprets it.
#define REPLICA (THREAD % REPLICAS)

// Returns word `table` of the entry that byte `byte` of `column` selects.
INLINE u32 look_up(LOCAL const u32 *tables, u32 replica, u32 table, u32 column, u32 byte)
{
#if defined(__CUDACC__) && TABLES * REPLICAS == 64
    // An entry has 256 bytes, and the lane's offset in it is less than that, so one byte-permute
    // combines both.
    u32 at = __byte_perm(column, 4 * replica, 0x7604 | byte << 4);
    return *(const u32 *)((const u8 *)tables + at + table * REPLICAS * 4);
#else
    u32 entry = column >> 8 * byte & 0xff;
    return tables[entry * ENTRY_WORDS + table * REPLICAS + replica];
#endif
}

// An inner round, without the first key and the last round. `turned`: the columns are rotated
// right.
INLINE void aes_round(int direction, LOCAL const u32 *tables, u32 replica, int turned,
                      CONSTANT const u32 *key, u32 *w)
{
    u32 next[4];
    u32 r0 = turned ? 3 : 0, r1 = turned ? 0 : 1, r2 = turned ? 1 : 2, r3 = turned ? 2 : 3;
    UNROLL
    for (u32 i = 0; i < 4; i++) {
        u32 a = w[i], c = w[(i + 2) % 4];
        u32 b = w[(i + (direction == ENCRYPT ? 1 : 3)) % 4];
        u32 d = w[(i + (direction == ENCRYPT ? 3 : 1)) % 4];
#if TABLES == 1
        next[i] = look_up(tables, replica, 0, a, r0) ^ key[i]
            ^ rotate_left(look_up(tables, replica, 0, b, r1), 8)
            ^ rotate_left(look_up(tables, replica, 0, c, r2), 16)
            ^ rotate_left(look_up(tables, replica, 0, d, r3), 24);
#elif TABLES == 2
        u32 even = look_up(tables, replica, 0, a, r0) ^ look_up(tables, replica, 1, c, r2);
        u32 odd = look_up(tables, replica, 0, b, r1) ^ look_up(tables, replica, 1, d, r3);
        next[i] = direction == ENCRYPT ? even ^ rotate_left(odd ^ key[i], 8)
                                       : rotate_left(even ^ key[i], 24) ^ odd;
#else
        next[i] = look_up(tables, replica, 0, a, r0) ^ look_up(tables, replica, 1, b, r1)
            ^ look_up(tables, replica, 2, c, r2) ^ look_up(tables, replica, 3, d, r3) ^ key[i];
#endif
    }
    UNROLL
    for (u32 i = 0; i < 4; i++) {
        w[i] = next[i];
    }
}

INLINE void aes_last_round(int direction, LOCAL const u32 *tables, u32 replica, int turned,
                           CONSTANT const u32 *key, u32 *w)
{
    u32 next[4];
    u32 r0 = turned ? 3 : 0, r1 = turned ? 0 : 1, r2 = turned ? 1 : 2, r3 = turned ? 2 : 3;
    UNROLL
    for (u32 i = 0; i < 4; i++) {
        u32 a = look_up(tables, replica, 0, w[i], r0);
        u32 b = look_up(tables, replica, 0, w[(i + (direction == ENCRYPT ? 1 : 3)) % 4], r1);
        u32 c = look_up(tables, replica, 0, w[(i + 2) % 4], r2);
        u32 d = look_up(tables, replica, 0, w[(i + (direction == ENCRYPT ? 3 : 1)) % 4], r3);
        if (direction == ENCRYPT) {
            next[i] = bytes_of(bytes_of(a, b, 0x0051), bytes_of(c, d, 0x0051), 0x5410) ^ key[i];
        } else {
            // Sums of two bytes of each column, then of four.
            u32 ab = bytes_of(a, b, 0x5410) ^ bytes_of(a, b, 0x7632);
            u32 cd = bytes_of(c, d, 0x5410) ^ bytes_of(c, d, 0x7632);
            next[i] = bytes_of(ab, cd, 0x6420) ^ bytes_of(ab, cd, 0x7531) ^ key[i];
        }
    }
    UNROLL
    for (u32 i = 0; i < 4; i++) {
        w[i] = next[i];
    }
}

// Processes a block with the schedule `key`, 4 (rounds + 1) words in the order of use.
INLINE void aes(int direction, u32 rounds, LOCAL const u32 *tables, u32 replica,
                CONSTANT const u32 *key, u32 *w)
{
    int turns = TABLES == 2 && direction == DECRYPT;
    UNROLL
    for (u32 i = 0; i < 4; i++) {
        w[i] ^= key[i];
    }
    UNROLL
    for (u32 round = 1; round < rounds; round++) {
        aes_round(direction, tables, replica, turns && round > 1, key + 4 * round, w);
    }
    aes_last_round(direction, tables, replica, turns, key + 4 * rounds, w);
}
