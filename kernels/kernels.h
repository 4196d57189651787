// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernels' names and parameters. If SIZE is defined, only those of one key size.
//
// `in` and `out` may be the same memory. Each kernel fills its tables and then loops over its work,
// so it runs correctly with any number of groups.

// A host cannot add to the address of an OpenCL buffer. So in OpenCL each buffer is followed by an
// offset, counted in its elements.
#if defined(__OPENCL_VERSION__)
#define AT(TYPE, NAME) GLOBAL TYPE *NAME, u32 NAME##_at
#define HERE(NAME) NAME + NAME##_at
#else
#define AT(TYPE, NAME) GLOBAL TYPE *NAME
#define HERE(NAME) NAME
#endif

#define XTS_DIRECTION(SIZE, ROUNDS, WORD, DIRECTION, TABLE)                                      \
    KERNEL xts_##WORD##_##SIZE(KEYS_PARAM, AT(const Block, in), AT(Block, out),                  \
                               AT(const Block, tweaks), u32 units, u32 blocks, u32 pitch,        \
                               u32 spu TABLES_PARAM)                                             \
    {                                                                                            \
        KERNEL_BEGIN                                                                             \
        fill_tables(tables, TABLE);                                                              \
        xts_blocks(DIRECTION, ROUNDS, keys, HERE(in), HERE(out), HERE(tweaks), units, blocks,    \
                   pitch, spu, tables);                                                          \
    }                                                                                            \
    KERNEL xts_tails_##WORD##_##SIZE(KEYS_PARAM, AT(const Block, in), AT(Block, out),            \
                                     AT(const Block, tweaks), u32 units, u32 blocks,             \
                                     u32 pitch, u32 spu, u32 tail TABLES_PARAM)                  \
    {                                                                                            \
        KERNEL_BEGIN                                                                             \
        fill_tables(tables, TABLE);                                                              \
        xts_tails(DIRECTION, ROUNDS, keys, HERE(in), HERE(out), HERE(tweaks), units, blocks,     \
                  pitch, spu, tail, tables);                                                     \
    }

#define KERNELS_OF(SIZE, ROUNDS)                                                                 \
    KERNEL xts_tweaks_##SIZE(KEYS_PARAM, AT(const Piece, pieces), u32 piece_count, u32 units,    \
                             u32 spu, AT(Block, tweaks) TABLES_PARAM)                            \
    {                                                                                            \
        KERNEL_BEGIN                                                                             \
        fill_tables(tables, T0);                                                                 \
        xts_tweaks(ROUNDS, keys, HERE(pieces), piece_count, units, spu, HERE(tweaks),            \
                   tables);                                                                      \
    }                                                                                            \
    XTS_DIRECTION(SIZE, ROUNDS, encrypt, ENCRYPT, T0)                                            \
    XTS_DIRECTION(SIZE, ROUNDS, decrypt, DECRYPT, TD0)                                           \
    KERNEL ctr_##SIZE(KEYS_PARAM, AT(const Block, in), AT(Block, out),                           \
                      AT(const Piece, pieces), u32 piece_count, u32 units, u32 len,              \
                      u32 pitch, u32 spu TABLES_PARAM)                                           \
    {                                                                                            \
        KERNEL_BEGIN                                                                             \
        fill_tables(tables, T0);                                                                 \
        ctr(ROUNDS, keys, HERE(in), HERE(out), HERE(pieces), piece_count, units, len, pitch,     \
            spu, tables);                                                                        \
    }

#if !defined(SIZE) || SIZE == 128
KERNELS_OF(128, 10)
#endif
#if !defined(SIZE) || SIZE == 192
KERNELS_OF(192, 12)
#endif
#if !defined(SIZE) || SIZE == 256
KERNELS_OF(256, 14)
#endif
