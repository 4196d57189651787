// SPDX-License-Identifier: MIT OR Apache-2.0
// XTS as in S. An and S. C. Seo, "Designing a New XTS-AES Parallel Optimization Implementation
// Technique for Fast File Encryption", IEEE Access 10, 2022. For measurements only.
// `luxor bench an-seo-2022` is the host's part.
//
// The host multiplies by α: all tweaks one after the other (the paper's "naive GPU"), every 8th by
// its Algorithm 2, or every 128th by Algorithm 3. The device fills the gaps in memory with one
// thread per gap ("the first is the process of generating tweak values for all blocks"). Then each
// thread encrypts one block with its tweak ("the second is the process of encrypting"). AES uses a
// T-box in local memory, which each work-group first copies there 32 times (REPLICAS); round keys
// are in constant memory. The paper does not say whether its T-box is one table or four. Four
// tables with 32 copies do not fit the shared memory of its GPU, so TABLES is 1.

#if TABLES != 1
#error "the paper's kernels have one table"
#endif

// tweaks[gap i + k] = starts[i] α^k for `count` gaps from number `from` on.
KERNEL an_seo_fill(GLOBAL const Block *starts, GLOBAL Block *tweaks, u32 from, u32 count, u32 gap)
{
    u32 i = GROUP * THREADS + THREAD;
    if (i < count) {
        u32 t[4];
        GLOBAL Block *to = tweaks + (u64)(from + i) * gap;
        unpack(t, starts[from + i]);
        NO_UNROLL
        for (u32 k = 0; k < gap; k++) {
            to[k] = pack(t);
            times_alpha(t, 1);
        }
    }
}

// Encrypts `count` blocks from block `from` on, one thread per block.
INLINE void an_seo_blocks(u32 rounds, CONSTANT const u32 *keys, GLOBAL const Block *in,
                          GLOBAL Block *out, GLOBAL const Block *tweaks, u32 from, u32 count,
                          LOCAL const u32 *tables)
{
    u32 i = GROUP * THREADS + THREAD;
    if (i < count) {
        u32 t[4], w[4];
        unpack(t, tweaks[from + i]);
        unpack(w, in[from + i]);
        UNROLL
        for (u32 j = 0; j < 4; j++) {
            w[j] ^= t[j];
        }
        aes(ENCRYPT, rounds, tables, REPLICA, keys, w);
        UNROLL
        for (u32 j = 0; j < 4; j++) {
            w[j] ^= t[j];
        }
        out[from + i] = pack(w);
    }
}

#define AN_SEO(SIZE, ROUNDS)                                                                     \
    KERNEL an_seo_encrypt_##SIZE(KEYS_PARAM, GLOBAL const Block *in, GLOBAL Block *out,          \
                                 GLOBAL const Block *tweaks, u32 from, u32 count TABLES_PARAM)   \
    {                                                                                            \
        KERNEL_BEGIN                                                                             \
        fill_tables(tables, T0);                                                                 \
        an_seo_blocks(ROUNDS, keys, in, out, tweaks, from, count, tables);                       \
    }

AN_SEO(128, 10)
AN_SEO(256, 14)
