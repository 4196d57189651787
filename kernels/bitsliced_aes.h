// SPDX-License-Identifier: MIT OR Apache-2.0
// AES without tables: no address and no branch depends on a key or on data. It takes the place of
// tables.h and aes.h.
//
// A work-item processes 8 rows of blocks together. A row is one block, or LANES / 4 consecutive
// blocks in the lanes of a vector:
//
//     LANES 1         a word has one column; a row is 4 words (PARTS), as GPUs want it
//     LANES 4, 8, 16  a word is a vector of LANES columns; a row is one such word, as CPUs want it
//
// After `transpose`, word i of each part has bit i of all bytes: bit 8 r + v of a column is of row r
// of the block in row v of blocks. A round is then a sequence of logical operations:
//
//     x = S-box as a circuit of gates (without its constant 0x63, which is in the next round key)
//     x = MixColumns of the columns as they lie after that many rounds, not in the last round
//     x = x ^ round key
//
// ShiftRows moves nothing ("fixslicing": Adomnicai and Peyrin, "Fixslicing AES-like Ciphers", IACR
// TCHES 2021-1). After n rounds, the byte of row r and column c lies in column c + n r (mod 4). So
// the next row of the same column is one row and n columns further on. With LANES 1 this is only
// another variable, with vectors an exchange of lanes. 10 and 14 rounds end as 2 do, with rows 1 and
// 3 rotated by two columns, which `unshift` corrects; 12 end as 0 do.
//
// The S-box is the circuit of Boyar and Peralta, "A New Combinational Logic Minimization Technique
// with Applications to Cryptology", SEA 2010. The inverse has the same middle part. Both, and the
// rounds, are those of crates/engine/src/kernel/bitsliced.rs.
//
// Each work-group first expands the round keys to words of this form, in the local memory that the
// other kernels have for their tables, and overwrites them at the end: a GPU may show what a kernel
// left in local memory to the next one, also to that of another process (CVE-2023-4969).

#if LANES == 1
#define PARTS 4
#define BESIDE 1
#elif LANES == 4 || LANES == 8 || LANES == 16
#define PARTS 1
#define BESIDE (LANES / 4)
#else
#error "LANES is 1, 4, 8 or 16"
#endif

// Words of a work-item's state: word PARTS * i + part.
#define STATE (8 * PARTS)

// Words of local memory for the round keys of AES-256: word 32 round + 4 bit + column.
#undef TABLE_WORDS
#define TABLE_WORDS (32 * 15)

#define ENCRYPT 1
#define DECRYPT 0

#if LANES == 1
typedef u32 Word;
#elif defined(__OPENCL_VERSION__)
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
typedef JOIN(uint, LANES) Word;
#else
typedef u32 Word __attribute__((vector_size(4 * LANES)));
#endif

// TURNED_n: each column's lane gets the lane n columns further on in its block.
#if defined(__OPENCL_VERSION__)
#if LANES == 4
#define TURNED_1(x) (x).s1230
#define TURNED_2(x) (x).s2301
#define TURNED_3(x) (x).s3012
#elif LANES == 8
#define TURNED_1(x) (x).s12305674
#define TURNED_2(x) (x).s23016745
#define TURNED_3(x) (x).s30127456
#elif LANES == 16
#define TURNED_1(x) (x).s123056749ab8defc
#define TURNED_2(x) (x).s23016745ab89efcd
#define TURNED_3(x) (x).s30127456b89afcde
#endif
#elif LANES == 4
#define TURNED_1(x) __builtin_shufflevector(x, x, 1, 2, 3, 0)
#define TURNED_2(x) __builtin_shufflevector(x, x, 2, 3, 0, 1)
#define TURNED_3(x) __builtin_shufflevector(x, x, 3, 0, 1, 2)
#elif LANES == 8
#define TURNED_1(x) __builtin_shufflevector(x, x, 1, 2, 3, 0, 5, 6, 7, 4)
#define TURNED_2(x) __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5)
#define TURNED_3(x) __builtin_shufflevector(x, x, 3, 0, 1, 2, 7, 4, 5, 6)
#elif LANES == 16
#define TURNED_1(x) __builtin_shufflevector(x, x, 1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12)
#define TURNED_2(x) __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
#define TURNED_3(x) __builtin_shufflevector(x, x, 3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14)
#endif

// The word of the column `on` (0 to 3) columns further on than that of `part`. `words` are the parts
// of one bit.
#if LANES == 1
#define COLUMN(words, part, on) (words)[((part) + (on)) % 4]
#else
#define COLUMN(words, part, on)                                                                  \
    ((on) == 0 ? (words)[part]                                                                   \
     : (on) == 1 ? TURNED_1((words)[part])                                                       \
     : (on) == 2 ? TURNED_2((words)[part]) : TURNED_3((words)[part]))
#endif

// Each row of a column gets the row `rows` further on.
#define ROW(word, rows) ((word) >> 8 * (rows) | (word) << (32 - 8 * (rows)))

// A row of blocks.
typedef union {
    Word word[PARTS];
    Block block[BESIDE];
} Row;

// Expands the round keys `key` of FIPS 197. All threads of the work-group must call it.
INLINE void fill_round_keys(LOCAL u32 *expanded, u32 rounds, CONSTANT const u32 *key)
{
    for (u32 i = THREAD; i < 32 * (rounds + 1); i += THREADS) {
        u32 round = i / 32, bit = i / 4 % 8, column = i % 4;
        u32 word = round == 0 ? 0 : 0x63636363;
        UNROLL
        for (u32 row = 0; row < 4; row++) {
            // The column of the byte that lies here after `round` rounds.
            u32 from = (column - round * row) % 4;
            word ^= key[4 * round + from] & 0xffu << 8 * row;
        }
        expanded[i] = (word >> bit & 0x01010101) * 0xff;
    }
    BARRIER;
}

// Overwrites the round keys when no thread needs them any more. All threads of the work-group must
// call it. Without `volatile`, a compiler could leave out writes that nothing reads.
INLINE void wipe_round_keys(LOCAL u32 *expanded, u32 rounds)
{
    LOCAL volatile u32 *words = expanded;
    BARRIER;
    for (u32 i = THREAD; i < 32 * (rounds + 1); i += THREADS) {
        words[i] = 0;
    }
}

// kernels.h fills tables before it calls a mode. Here the modes expand the keys that they use.
#define fill_tables(tables, table)

INLINE void add_round_key(Word *x, LOCAL const u32 *expanded, u32 round)
{
    LOCAL const u32 *key = expanded + 32 * round;
    UNROLL
    for (u32 i = 0; i < 8; i++) {
#if LANES == 1
        UNROLL
        for (u32 part = 0; part < PARTS; part++) {
            x[PARTS * i + part] ^= key[4 * i + part];
        }
#else
        Row row;
        Block columns;
        columns.x = key[4 * i];
        columns.y = key[4 * i + 1];
        columns.z = key[4 * i + 2];
        columns.w = key[4 * i + 3];
        UNROLL
        for (u32 k = 0; k < BESIDE; k++) {
            row.block[k] = columns;
        }
        x[i] ^= row.word[0];
#endif
    }
}

// Exchanges the number of a row of blocks for the number of a bit in its byte. Its own inverse.
INLINE void transpose(Word *x)
{
    UNROLL
    for (u32 level = 0; level < 3; level++) {
        u32 shift = 4 >> level;
        u32 mask = shift == 4 ? 0x0f0f0f0f : shift == 2 ? 0x33333333 : 0x55555555;
        UNROLL
        for (u32 i = 0; i < STATE; i++) {
            if ((i / PARTS & shift) == 0) {
                Word *low = x + i, *high = x + i + PARTS * shift;
                Word differences = ((*low >> shift) ^ *high) & mask;
                *low ^= differences << shift;
                *high ^= differences;
            }
        }
    }
}

// Rotates rows 1 and 3 by two columns. Its own inverse.
INLINE void unshift(Word *x)
{
    UNROLL
    for (u32 i = 0; i < 8; i++) {
#if LANES == 1
        UNROLL
        for (u32 part = 0; part < 2; part++) {
            u32 differences = (x[4 * i + part] ^ x[4 * i + part + 2]) & 0xff00ff00;
            x[4 * i + part] ^= differences;
            x[4 * i + part + 2] ^= differences;
        }
#else
        Word differences = (x[i] ^ TURNED_2(x[i])) & 0xff00ff00;
        x[i] ^= differences;
#endif
    }
}

// MixColumns after `n` rounds (mod 4). With t = (byte) ^ (next row's byte), the result is
// (byte) ^ t ^ 2 t ^ (t two rows further on).
INLINE void mix_columns(Word *x, u32 n)
{
    Word top[PARTS], sum[PARTS], below[PARTS];
    UNROLL
    for (u32 i = 8; i-- > 0;) {
        // `sum` is t of bit i, and `below` that of bit i - 1.
        UNROLL
        for (u32 part = 0; part < PARTS; part++) {
            if (i == 7) {
                Word next = COLUMN(x + PARTS * 7, part, n);
                top[part] = x[PARTS * 7 + part] ^ ROW(next, 1);
                sum[part] = top[part];
            } else {
                sum[part] = below[part];
            }
            if (i > 0) {
                Word next = COLUMN(x + PARTS * (i - 1), part, n);
                below[part] = x[PARTS * (i - 1) + part] ^ ROW(next, 1);
            }
        }
        UNROLL
        for (u32 part = 0; part < PARTS; part++) {
            Word other = COLUMN(sum, part, 2 * n % 4);
            Word more = sum[part] ^ ROW(other, 2);
            if (i > 0) {
                more ^= below[part];
            }
            if (i == 0 || i == 1 || i == 3 || i == 4) {
                more ^= top[part];
            }
            x[PARTS * i + part] ^= more;
        }
    }
}

// The inverse: MixColumns of (byte) ^ 4 s, with s = (byte) ^ (byte two rows further on).
INLINE void inv_mix_columns(Word *x, u32 n)
{
    Word s7[PARTS], s6[PARTS];
    UNROLL
    for (u32 part = 0; part < PARTS; part++) {
        Word other = COLUMN(x + PARTS * 7, part, 2 * n % 4);
        s7[part] = x[PARTS * 7 + part] ^ ROW(other, 2);
        other = COLUMN(x + PARTS * 6, part, 2 * n % 4);
        s6[part] = x[PARTS * 6 + part] ^ ROW(other, 2);
    }
    UNROLL
    for (u32 i = 8; i-- > 0;) {
        Word more[PARTS];
        UNROLL
        for (u32 part = 0; part < PARTS; part++) {
            if (i >= 2) {
                Word other = COLUMN(x + PARTS * (i - 2), part, 2 * n % 4);
                more[part] = x[PARTS * (i - 2) + part] ^ ROW(other, 2);
            } else {
                more[part] = s6[part];
            }
            if (i == 3 || i == 4) {
                more[part] ^= s6[part];
            }
            if (i == 1 || i == 2 || i == 4 || i == 5) {
                more[part] ^= s7[part];
            }
        }
        UNROLL
        for (u32 part = 0; part < PARTS; part++) {
            x[PARTS * i + part] ^= more[part];
        }
    }
    mix_columns(x, n);
}

// The middle part of the S-box and of its inverse.
INLINE void invert(Word *z, const Word *y)
{
    Word t2 = y[12] & y[15];
    Word t3 = y[3] & y[6];
    Word t4 = t3 ^ t2;
    Word t5 = y[4] & y[0];
    Word t6 = t5 ^ t2;
    Word t7 = y[13] & y[16];
    Word t8 = y[5] & y[1];
    Word t9 = t8 ^ t7;
    Word t10 = y[2] & y[7];
    Word t11 = t10 ^ t7;
    Word t12 = y[9] & y[11];
    Word t13 = y[14] & y[17];
    Word t14 = t13 ^ t12;
    Word t15 = y[8] & y[10];
    Word t16 = t15 ^ t12;
    Word t17 = t4 ^ t14;
    Word t18 = t6 ^ t16;
    Word t19 = t9 ^ t14;
    Word t20 = t11 ^ t16;
    Word t21 = t17 ^ y[20];
    Word t22 = t18 ^ y[19];
    Word t23 = t19 ^ y[21];
    Word t24 = t20 ^ y[18];
    Word t25 = t21 ^ t22;
    Word t26 = t21 & t23;
    Word t27 = t24 ^ t26;
    Word t28 = t25 & t27;
    Word t29 = t28 ^ t22;
    Word t30 = t23 ^ t24;
    Word t31 = t22 ^ t26;
    Word t32 = t31 & t30;
    Word t33 = t32 ^ t24;
    Word t34 = t23 ^ t33;
    Word t35 = t27 ^ t33;
    Word t36 = t24 & t35;
    Word t37 = t36 ^ t34;
    Word t38 = t27 ^ t36;
    Word t39 = t29 & t38;
    Word t40 = t25 ^ t39;
    Word t41 = t40 ^ t37;
    Word t42 = t29 ^ t33;
    Word t43 = t29 ^ t40;
    Word t44 = t33 ^ t37;
    Word t45 = t42 ^ t41;
    z[0] = t44 & y[15];
    z[1] = t37 & y[6];
    z[2] = t33 & y[0];
    z[3] = t43 & y[16];
    z[4] = t40 & y[1];
    z[5] = t29 & y[7];
    z[6] = t42 & y[11];
    z[7] = t45 & y[17];
    z[8] = t41 & y[10];
    z[9] = t44 & y[12];
    z[10] = t37 & y[3];
    z[11] = t33 & y[4];
    z[12] = t43 & y[13];
    z[13] = t40 & y[5];
    z[14] = t29 & y[2];
    z[15] = t42 & y[9];
    z[16] = t45 & y[14];
    z[17] = t41 & y[8];
}

// The S-box without its constant.
INLINE void sub_bytes(Word *x)
{
    UNROLL
    for (u32 part = 0; part < PARTS; part++) {
        Word x7 = x[PARTS * 0 + part];
        Word x6 = x[PARTS * 1 + part];
        Word x5 = x[PARTS * 2 + part];
        Word x4 = x[PARTS * 3 + part];
        Word x3 = x[PARTS * 4 + part];
        Word x2 = x[PARTS * 5 + part];
        Word x1 = x[PARTS * 6 + part];
        Word x0 = x[PARTS * 7 + part];
        Word y14 = x3 ^ x5;
        Word y13 = x0 ^ x6;
        Word y9 = x0 ^ x3;
        Word y8 = x0 ^ x5;
        Word t0 = x1 ^ x2;
        Word y1 = t0 ^ x7;
        Word y4 = y1 ^ x3;
        Word y12 = y13 ^ y14;
        Word y2 = y1 ^ x0;
        Word y5 = y1 ^ x6;
        Word y3 = y5 ^ y8;
        Word t1 = x4 ^ y12;
        Word y15 = t1 ^ x5;
        Word y20 = t1 ^ x1;
        Word y6 = y15 ^ x7;
        Word y10 = y15 ^ t0;
        Word y11 = y20 ^ y9;
        Word y7 = x7 ^ y11;
        Word y17 = y10 ^ y11;
        Word y19 = y10 ^ y8;
        Word y16 = t0 ^ y11;
        Word y21 = y13 ^ y16;
        Word y18 = x0 ^ y16;
        Word y[22] = {
            x7, y1, y2, y3, y4, y5, y6, y7, y8, y9, y10, y11, y12, y13, y14, y15, y16, y17,
            y18, y19, y20, y21,
        };
        Word z[18];
        invert(z, y);
        Word t46 = z[15] ^ z[16];
        Word t47 = z[10] ^ z[11];
        Word t48 = z[5] ^ z[13];
        Word t49 = z[9] ^ z[10];
        Word t50 = z[2] ^ z[12];
        Word t51 = z[2] ^ z[5];
        Word t52 = z[7] ^ z[8];
        Word t53 = z[0] ^ z[3];
        Word t54 = z[6] ^ z[7];
        Word t55 = z[16] ^ z[17];
        Word t56 = z[12] ^ t48;
        Word t57 = t50 ^ t53;
        Word t58 = z[4] ^ t46;
        Word t59 = z[3] ^ t54;
        Word t60 = t46 ^ t57;
        Word t61 = z[14] ^ t57;
        Word t62 = t52 ^ t58;
        Word t63 = t49 ^ t58;
        Word t64 = z[4] ^ t59;
        Word t65 = t61 ^ t62;
        Word t66 = z[1] ^ t63;
        Word t67 = t64 ^ t65;
        Word s3 = t53 ^ t66;
        x[PARTS * 0 + part] = t48 ^ t60;
        x[PARTS * 1 + part] = t56 ^ t62;
        x[PARTS * 2 + part] = t47 ^ t65;
        x[PARTS * 3 + part] = t51 ^ t66;
        x[PARTS * 4 + part] = s3;
        x[PARTS * 5 + part] = t55 ^ t67;
        x[PARTS * 6 + part] = t64 ^ s3;
        x[PARTS * 7 + part] = t59 ^ t63;
    }
}

// The inverse of sub_bytes. The constant of the S-box has been added to the bytes twice: by the
// S-box, and again with the round key.
INLINE void inv_sub_bytes(Word *x)
{
    UNROLL
    for (u32 part = 0; part < PARTS; part++) {
        Word u7 = x[PARTS * 0 + part];
        Word u6 = x[PARTS * 1 + part];
        Word u5 = x[PARTS * 2 + part];
        Word u4 = x[PARTS * 3 + part];
        Word u3 = x[PARTS * 4 + part];
        Word u2 = x[PARTS * 5 + part];
        Word u1 = x[PARTS * 6 + part];
        Word u0 = x[PARTS * 7 + part];
        Word y3 = u0 ^ u3;
        Word y5 = u1 ^ u3;
        Word y6 = u0 ^ y5;
        Word y8 = u0 ^ u1;
        Word y9 = u3 ^ u4;
        Word y1 = u7 ^ y9;
        Word y10 = y6 ^ y1;
        Word y13 = u6 ^ y1;
        Word y2 = y5 ^ y13;
        Word y4 = y9 ^ y2;
        Word y7 = u2 ^ y4;
        Word y12 = y3 ^ y4;
        Word y14 = u4 ^ y6;
        Word y16 = y1 ^ y7;
        Word y18 = u2 ^ y9;
        Word y19 = u3 ^ y1;
        Word y21 = u6 ^ y7;
        Word t0 = u0 ^ u5;
        Word y0 = u2 ^ t0;
        Word y11 = y4 ^ t0;
        Word y15 = y6 ^ y0;
        Word y17 = y10 ^ y11;
        Word y20 = y9 ^ y11;
        Word y[22] = {
            y0, y1, y2, y3, y4, y5, y6, y7, y8, y9, y10, y11, y12, y13, y14, y15, y16, y17,
            y18, y19, y20, y21,
        };
        Word z[18];
        invert(z, y);
        Word p0 = z[6] ^ z[15];
        Word p1 = z[12] ^ p0;
        Word p2 = z[13] ^ p1;
        Word p3 = z[16] ^ p2;
        Word p4 = z[8] ^ p3;
        Word p5 = z[3] ^ p4;
        Word s0 = z[5] ^ p5;
        Word p6 = z[4] ^ p5;
        Word p7 = z[1] ^ p6;
        Word p8 = z[2] ^ z[10];
        Word p9 = z[0] ^ p4;
        Word s3 = z[2] ^ p9;
        Word p10 = z[7] ^ p6;
        Word s6 = z[8] ^ p10;
        Word p11 = s0 ^ p9;
        Word s5 = p7 ^ p11;
        Word p12 = z[11] ^ z[17];
        Word p13 = p7 ^ p8;
        Word p14 = z[14] ^ p13;
        Word p15 = z[11] ^ z[13];
        Word s2 = p14 ^ p15;
        Word p16 = z[9] ^ p12;
        Word s7 = z[15] ^ p16;
        Word p17 = z[6] ^ s7;
        Word p18 = p3 ^ p17;
        Word s1 = s2 ^ p18;
        Word p19 = p12 ^ p13;
        Word p20 = s5 ^ p19;
        Word p21 = z[16] ^ p20;
        Word s4 = s6 ^ p21;
        x[PARTS * 0 + part] = s7;
        x[PARTS * 1 + part] = s6;
        x[PARTS * 2 + part] = s5;
        x[PARTS * 3 + part] = s4;
        x[PARTS * 4 + part] = s3;
        x[PARTS * 5 + part] = s2;
        x[PARTS * 6 + part] = s1;
        x[PARTS * 7 + part] = s0;
    }
}

INLINE void inner_round(Word *x, LOCAL const u32 *expanded, u32 round, u32 n)
{
    sub_bytes(x);
    mix_columns(x, n);
    add_round_key(x, expanded, round);
}

INLINE void inv_inner_round(Word *x, LOCAL const u32 *expanded, u32 round, u32 n)
{
    inv_sub_bytes(x);
    add_round_key(x, expanded, round);
    inv_mix_columns(x, n);
}

// Encrypts or decrypts the 8 rows of blocks in `rows`. In the code, the rounds are written out four at
// a time: then all lie as they did before.
INLINE void aes(int direction, u32 rounds, LOCAL const u32 *expanded, Word *rows)
{
    // In registers, also where a loop that is not unrolled has filled `rows`.
    Word x[STATE];
    UNROLL
    for (u32 i = 0; i < STATE; i++) {
        x[i] = rows[i];
    }
    transpose(x);
    if (direction == ENCRYPT) {
        u32 round = 1;
        add_round_key(x, expanded, 0);
        NO_UNROLL
        for (;;) {
            inner_round(x, expanded, round, 1);
            if (round + 1 == rounds) {
                break;
            }
            inner_round(x, expanded, round + 1, 2);
            inner_round(x, expanded, round + 2, 3);
            if (round + 3 == rounds) {
                break;
            }
            inner_round(x, expanded, round + 3, 0);
            round += 4;
        }
        sub_bytes(x);
        add_round_key(x, expanded, rounds);
        if (rounds % 4 == 2) {
            unshift(x);
        }
    } else {
        u32 round = rounds - 1;
        if (rounds % 4 == 2) {
            unshift(x);
        }
        add_round_key(x, expanded, rounds);
        if (round % 4 == 3) {
            inv_inner_round(x, expanded, round, 3);
            inv_inner_round(x, expanded, round - 1, 2);
            round -= 2;
        }
        NO_UNROLL
        for (;;) {
            inv_inner_round(x, expanded, round, 1);
            if (round == 1) {
                break;
            }
            inv_inner_round(x, expanded, round - 1, 0);
            inv_inner_round(x, expanded, round - 2, 3);
            inv_inner_round(x, expanded, round - 3, 2);
            round -= 4;
        }
        inv_sub_bytes(x);
        add_round_key(x, expanded, 0);
    }
    transpose(x);
    UNROLL
    for (u32 i = 0; i < STATE; i++) {
        rows[i] = x[i];
    }
}
