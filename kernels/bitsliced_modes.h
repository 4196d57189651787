// SPDX-License-Identifier: MIT OR Apache-2.0
// XTS and CTR with bitsliced_aes.h, in the place of xts.h and ctr.h, whose parameters and results
// they have.
//
// A team is the work-items that process 32 consecutive blocks at a time: 32 of them with one block
// each, or fewer with BESIDE blocks each. In a pass, a team processes 8 such rows of 32. The rows of
// all units are numbered one after another, so a pass may be a stretch of 256 blocks, or 8 units of
// 512 bytes. Members of a team need nothing from each other.

#define STRETCH 256

// Blocks of a row of a team.
#define ROW_BLOCKS 32
#define TEAM (ROW_BLOCKS / BESIDE)
// Items of a pass of a team.
#define PASS (8 * ROW_BLOCKS)

// As WARP_NUMBER and WARPS. Consecutive teams are in different groups.
#define TEAM_NUMBER (THREAD / TEAM * GROUPS + GROUP)
#define TEAMS (GROUPS * (THREADS / TEAM))
// The first block of this member in a row of the team.
#define MEMBER_BLOCK (THREAD % TEAM * BESIDE)

// The schedules in a key's words, of which the one for decryption is not needed.
#define DATA_ENCRYPTION 0
#define TWEAK_ENCRYPTION 120

INLINE void clear(Row *row)
{
    u32 zeros[4] = {0, 0, 0, 0};
    UNROLL
    for (u32 k = 0; k < BESIDE; k++) {
        row->block[k] = pack(zeros);
    }
}

// Returns how many of the BESIDE blocks from block `i` on are before `end`.
INLINE u32 count_of(u32 i, u32 end)
{
    return i >= end ? 0 : end - i < BESIDE ? end - i : BESIDE;
}

// Reads the first `count` blocks of a row. The others are zeros.
INLINE void load(Row *row, GLOBAL const Block *in, u32 count)
{
    if (count == BESIDE) {
        UNROLL
        for (u32 k = 0; k < BESIDE; k++) {
            row->block[k] = in[k];
        }
        return;
    }
    clear(row);
    UNROLL
    for (u32 k = 0; k < BESIDE; k++) {
        if (k < count) {
            row->block[k] = in[k];
        }
    }
}

INLINE void store(GLOBAL Block *out, const Row *row, u32 count)
{
    UNROLL
    for (u32 k = 0; k < BESIDE; k++) {
        if (k < count) {
            out[k] = row->block[k];
        }
    }
}

// Tweaks of a row of blocks: times α^32 each.
INLINE void row_times_alpha32(Row *t)
{
#if LANES == 1
    times_alpha32(t->word);
#else
    // The carry is the last column of each block, and is added to the first two.
    Word before = TURNED_3(t->word[0]), first, carry, above;
    for (u32 i = 0; i < LANES; i++) {
        ((u32 *)&first)[i] = i % 4 == 0 ? 0xffffffff : 0;
    }
    carry = before & first;
    above = TURNED_3(carry);
    t->word[0] = before ^ (carry << 1) ^ (carry << 2) ^ (carry << 7);
    t->word[0] ^= (above >> 31) ^ (above >> 30) ^ (above >> 25);
#endif
}

// The tweaks of this member's blocks in the row of a team whose first block has the tweak `start`.
INLINE void row_of_tweaks(Row *t, Block start)
{
    UNROLL
    for (u32 k = 0; k < BESIDE; k++) {
        u32 words[4];
        unpack(words, start);
        times_alpha(words, MEMBER_BLOCK + k);
        t->block[k] = pack(words);
    }
}

// Rows of the team in a unit with this many blocks, at least 1.
INLINE u32 rows_of(u32 blocks)
{
    return blocks == 0 ? 1 : (blocks - 1) / ROW_BLOCKS + 1;
}

// The place of a row of the team.
typedef struct {
    u32 unit, row;
} Place;

INLINE void next_row(Place *place, u32 rows)
{
    place->row++;
    if (place->row == rows) {
        place->row = 0;
        place->unit++;
    }
}

// For each row of blocks of a work-item, and for each block of a row. Where speed matters less, the
// code of a row exists once: compilers otherwise take seconds for 32 copies of it.
#define EACH_ROW(v) UNROLL for (u32 v = 0; v < 8; v++)
#define EACH_ROW_IN_A_LOOP(v) NO_UNROLL for (u32 v = 0; v < 8; v++)
#define EACH_BLOCK_IN_A_LOOP(k) NO_UNROLL for (u32 k = 0; k < BESIDE; k++)

INLINE void put(Word *x, u32 v, const Row *row)
{
    UNROLL
    for (u32 part = 0; part < PARTS; part++) {
        x[PARTS * v + part] = row->word[part];
    }
}

INLINE void get(Row *row, u32 v, const Word *x)
{
    UNROLL
    for (u32 part = 0; part < PARTS; part++) {
        row->word[part] = x[PARTS * v + part];
    }
}

INLINE void xor_rows(Word *x, const Word *other)
{
    UNROLL
    for (u32 i = 0; i < STATE; i++) {
        x[i] ^= other[i];
    }
}

// Writes tweaks[unit * spu + stretch].
INLINE void xts_tweaks(u32 rounds, CONSTANT const u32 *keys, GLOBAL const Piece *pieces,
                       u32 piece_count, u32 units, u32 spu, GLOBAL Block *tweaks,
                       LOCAL u32 *expanded)
{
    fill_round_keys(expanded, rounds, keys + TWEAK_ENCRYPTION);
    u32 all = units * spu;
    for (u32 from = PASS * TEAM_NUMBER; from < all; from += PASS * TEAMS) {
        Word x[STATE];
        EACH_ROW_IN_A_LOOP(v) {
            Row row;
            clear(&row);
            EACH_BLOCK_IN_A_LOOP(k) {
                u32 i = from + ROW_BLOCKS * v + MEMBER_BLOCK + k;
                u32 t[4];
                if (i < all) {
                    number_of(t, pieces, piece_count, i / spu);
                    row.block[k] = pack(t);
                }
            }
            put(x, v, &row);
        }
        aes(ENCRYPT, rounds, expanded, x);
        EACH_ROW_IN_A_LOOP(v) {
            Row row;
            get(&row, v, x);
            EACH_BLOCK_IN_A_LOOP(k) {
                u32 i = from + ROW_BLOCKS * v + MEMBER_BLOCK + k;
                u32 t[4];
                if (i < all) {
                    unpack(t, row.block[k]);
                    times_alpha256(t, i % spu);
                    tweaks[i] = pack(t);
                }
            }
        }
    }
    wipe_round_keys(expanded, rounds);
}

INLINE void xts_blocks(int direction, u32 rounds, CONSTANT const u32 *keys,
                       GLOBAL const Block *in, GLOBAL Block *out, GLOBAL const Block *tweaks,
                       u32 units, u32 blocks, u32 pitch, u32 spu, LOCAL u32 *expanded)
{
    fill_round_keys(expanded, rounds, keys + DATA_ENCRYPTION);
    u32 rows = rows_of(blocks);
    Place first = {8 * TEAM_NUMBER / rows, 8 * TEAM_NUMBER % rows};
    u32 unit_step = 8 * TEAMS / rows, row_step = 8 * TEAMS % rows;
    while (first.unit < units) {
        Word x[STATE], masks[STATE];
        Row t, row;
        Place place = first;
        EACH_ROW(v) {
            u32 i = ROW_BLOCKS * place.row + MEMBER_BLOCK;
            u32 count = place.unit < units ? count_of(i, blocks) : 0;
            if (v > 0 && place.row % (STRETCH / ROW_BLOCKS) != 0) {
                row_times_alpha32(&t);
            } else if (place.unit < units) {
                u32 stretch = place.row / (STRETCH / ROW_BLOCKS);
                row_of_tweaks(&t, tweaks[(u64)place.unit * spu + stretch]);
                NO_UNROLL
                for (u32 j = 0; j < place.row % (STRETCH / ROW_BLOCKS); j++) {
                    row_times_alpha32(&t);
                }
            }
            load(&row, in + (u64)place.unit * pitch + i, count);
            put(masks, v, &t);
            put(x, v, &row);
            next_row(&place, rows);
        }
        xor_rows(x, masks);
        aes(direction, rounds, expanded, x);
        xor_rows(x, masks);
        place = first;
        EACH_ROW(v) {
            u32 i = ROW_BLOCKS * place.row + MEMBER_BLOCK;
            u32 count = place.unit < units ? count_of(i, blocks) : 0;
            get(&row, v, x);
            store(out + (u64)place.unit * pitch + i, &row, count);
            next_row(&place, rows);
        }
        first.unit += unit_step;
        first.row += row_step;
        if (first.row >= rows) {
            first.row -= rows;
            first.unit++;
        }
    }
    wipe_round_keys(expanded, rounds);
}

// The tweak of block `block` of a unit.
INLINE void tweak_of(u32 *t, GLOBAL const Block *tweaks, u32 unit, u32 spu, u32 block)
{
    unpack(t, tweaks[(u64)unit * spu + block / STRETCH]);
    NO_UNROLL
    for (u32 i = 32; i <= block % STRETCH; i += 32) {
        times_alpha32(t);
    }
    times_alpha(t, block % 32);
}

// The tweaks of a pass over the tails of the units from `from` on: those of the last whole blocks,
// or those of the partial ones.
INLINE void tail_masks(Word *masks, GLOBAL const Block *tweaks, u32 from, u32 units, u32 spu,
                       u32 blocks, u32 partial)
{
    EACH_ROW_IN_A_LOOP(v) {
        Row row;
        clear(&row);
        EACH_BLOCK_IN_A_LOOP(k) {
            u32 unit = from + ROW_BLOCKS * v + MEMBER_BLOCK + k;
            u32 t[4];
            if (unit < units) {
                tweak_of(t, tweaks, unit, spu, blocks);
                times_alpha(t, partial);
                row.block[k] = pack(t);
            }
        }
        put(masks, v, &row);
    }
}

// As in xts.h. The first pass produces the tail; the second replaces those bytes by the tail's
// input.
INLINE void xts_tails(int direction, u32 rounds, CONSTANT const u32 *keys,
                      GLOBAL const Block *in, GLOBAL Block *out, GLOBAL const Block *tweaks,
                      u32 units, u32 blocks, u32 pitch, u32 spu, u32 tail, LOCAL u32 *expanded)
{
    fill_round_keys(expanded, rounds, keys + DATA_ENCRYPTION);
    for (u32 from = PASS * TEAM_NUMBER; from < units; from += PASS * TEAMS) {
        Word x[STATE], masks[STATE];
        EACH_ROW_IN_A_LOOP(v) {
            Row row;
            clear(&row);
            EACH_BLOCK_IN_A_LOOP(k) {
                u32 unit = from + ROW_BLOCKS * v + MEMBER_BLOCK + k;
                if (unit < units) {
                    row.block[k] = in[(u64)unit * pitch + blocks];
                }
            }
            put(x, v, &row);
        }
        NO_UNROLL
        for (int pass = 0; pass < 2; pass++) {
            tail_masks(masks, tweaks, from, units, spu, blocks,
                       (pass == 0) == (direction == ENCRYPT) ? 0 : 1);
            xor_rows(x, masks);
            aes(direction, rounds, expanded, x);
            xor_rows(x, masks);
            EACH_ROW_IN_A_LOOP(v) {
                Row row;
                get(&row, v, x);
                EACH_BLOCK_IN_A_LOOP(k) {
                    u32 unit = from + ROW_BLOCKS * v + MEMBER_BLOCK + k;
                    u64 at = (u64)unit * pitch + blocks;
                    u32 w[4];
                    if (unit >= units) {
                        continue;
                    }
                    if (pass == 1) {
                        out[at] = row.block[k];
                        continue;
                    }
                    GLOBAL const u8 *tail_in = (GLOBAL const u8 *)(in + at + 1);
                    GLOBAL u8 *tail_out = (GLOBAL u8 *)(out + at + 1);
                    unpack(w, row.block[k]);
                    NO_UNROLL
                    for (u32 j = 0; j < 16; j++) {
                        if (j < tail) {
                            u32 shift = 8 * (j % 4);
                            u32 old = tail_in[j];
                            tail_out[j] = (u8)(w[j / 4] >> shift);
                            w[j / 4] = (w[j / 4] & ~(0xffu << shift)) | old << shift;
                        }
                    }
                    row.block[k] = pack(w);
                }
                put(x, v, &row);
            }
        }
    }
    wipe_round_keys(expanded, rounds);
}

INLINE void ctr(u32 rounds, CONSTANT const u32 *keys, GLOBAL const Block *in, GLOBAL Block *out,
                GLOBAL const Piece *pieces, u32 piece_count, u32 units, u32 len, u32 pitch,
                u32 spu, LOCAL u32 *expanded)
{
    fill_round_keys(expanded, rounds, keys + DATA_ENCRYPTION);
    u32 whole = len / 16, tail = len % 16;
    u32 blocks = whole + (tail != 0);
    u32 rows = rows_of(blocks);
    Place first = {8 * TEAM_NUMBER / rows, 8 * TEAM_NUMBER % rows};
    u32 unit_step = 8 * TEAMS / rows, row_step = 8 * TEAMS % rows;
    (void)spu;
    while (first.unit < units) {
        Word x[STATE];
        Row row;
        Place place = first;
        EACH_ROW_IN_A_LOOP(v) {
            clear(&row);
            EACH_BLOCK_IN_A_LOOP(k) {
                u32 counter[4], w[4];
                if (place.unit < units) {
                    number_of(counter, pieces, piece_count, place.unit);
                    add(counter, ROW_BLOCKS * (u64)place.row + MEMBER_BLOCK + k, 0);
                    UNROLL
                    for (u32 j = 0; j < 4; j++) {
                        w[j] = bytes_of(counter[3 - j], 0, 0x0123);
                    }
                    row.block[k] = pack(w);
                }
            }
            put(x, v, &row);
            next_row(&place, rows);
        }
        aes(ENCRYPT, rounds, expanded, x);
        place = first;
        EACH_ROW_IN_A_LOOP(v) {
            u32 i = ROW_BLOCKS * place.row + MEMBER_BLOCK;
            u64 at = (u64)place.unit * pitch + i;
            u32 is_unit = place.unit < units;
            Row data;
            load(&data, in + at, is_unit ? count_of(i, whole) : 0);
            get(&row, v, x);
            UNROLL
            for (u32 part = 0; part < PARTS; part++) {
                data.word[part] ^= row.word[part];
            }
            store(out + at, &data, is_unit ? count_of(i, whole) : 0);
            // The partial block is one of this member's. Lowest byte first.
            if (is_unit && tail != 0 && whole - i < BESIDE) {
                u32 w[4] = {0, 0, 0, 0};
                GLOBAL const u8 *tail_in = (GLOBAL const u8 *)(in + at + (whole - i));
                GLOBAL u8 *tail_out = (GLOBAL u8 *)(out + at + (whole - i));
                EACH_BLOCK_IN_A_LOOP(k) {
                    if (k == whole - i) {
                        unpack(w, row.block[k]);
                    }
                }
                NO_UNROLL
                for (u32 j = 0; j < tail; j++) {
                    tail_out[j] = tail_in[j] ^ (u8)w[0];
                    w[0] = w[0] >> 8 | w[1] << 24;
                    w[1] = w[1] >> 8 | w[2] << 24;
                    w[2] = w[2] >> 8 | w[3] << 24;
                    w[3] >>= 8;
                }
            }
            next_row(&place, rows);
        }
        first.unit += unit_step;
        first.row += row_step;
        if (first.row >= rows) {
            first.row -= rows;
            first.unit++;
        }
    }
    wipe_round_keys(expanded, rounds);
}
