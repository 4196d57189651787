// SPDX-License-Identifier: MIT OR Apache-2.0
// Multiplication by powers of α in GF(2^128), as in IEEE 1619-2007, 5.2: bit n of a block, counted
// from the lowest bit of its first byte, is the coefficient of α^n, and α^128 = α^7 + α^2 + α + 1.

// Adds the overflow `carry`, times α^128, at the bottom.
INLINE void fold(u32 *t, u32 carry)
{
    t[0] ^= carry ^ carry << 1 ^ carry << 2 ^ carry << 7;
    t[1] ^= carry >> 31 ^ carry >> 30 ^ carry >> 25;
}

// t * α^bits, with bits < 32.
INLINE void times_alpha(u32 *t, u32 bits)
{
#if defined(__CUDACC__)
    u32 carry = __funnelshift_l(t[3], 0, bits);
    t[3] = __funnelshift_l(t[2], t[3], bits);
    t[2] = __funnelshift_l(t[1], t[2], bits);
    t[1] = __funnelshift_l(t[0], t[1], bits);
#else
    u32 carry = t[3] >> 1 >> (31 - bits);
    t[3] = t[3] << bits | t[2] >> 1 >> (31 - bits);
    t[2] = t[2] << bits | t[1] >> 1 >> (31 - bits);
    t[1] = t[1] << bits | t[0] >> 1 >> (31 - bits);
#endif
    t[0] <<= bits;
    fold(t, carry);
}

// t * α^32
INLINE void times_alpha32(u32 *t)
{
    u32 carry = t[3];
    t[3] = t[2];
    t[2] = t[1];
    t[1] = t[0];
    t[0] = 0;
    fold(t, carry);
}

// Spreads the low 16 bits of x, with a zero before each.
INLINE u32 spread(u32 x)
{
    x = (x | x << 8) & 0x00ff00ff;
    x = (x | x << 4) & 0x0f0f0f0f;
    x = (x | x << 2) & 0x33333333;
    return (x | x << 1) & 0x55555555;
}

// t * t
INLINE void square(u32 *t)
{
    u32 high[4];
    UNROLL
    for (u32 i = 0; i < 2; i++) {
        high[2 * i] = spread(t[2 + i] & 0xffff);
        high[2 * i + 1] = spread(t[2 + i] >> 16);
    }
    t[3] = spread(t[1] >> 16);
    t[2] = spread(t[1] & 0xffff);
    t[1] = spread(t[0] >> 16);
    t[0] = spread(t[0] & 0xffff);
    // Fold the highest word first, because its overflow goes into the lowest of these words.
    t[3] ^= high[3] ^ high[3] << 1 ^ high[3] << 2 ^ high[3] << 7;
    high[0] ^= high[3] >> 31 ^ high[3] >> 30 ^ high[3] >> 25;
    UNROLL
    for (u32 i = 0; i < 3; i++) {
        fold(t + i, high[i]);
    }
}

// t * α^(256 n)
INLINE void times_alpha256(u32 *t, u32 n)
{
    if (n == 0) {
        return;
    }
    // α^(256 n), bit by bit from the highest bit set in n.
    u32 power[4] = {1, 0, 0, 0};
    u32 bit = 0x80000000;
    while (!(n & bit)) {
        bit >>= 1;
    }
    NO_UNROLL
    for (; bit != 0; bit >>= 1) {
        square(power);
        if (n & bit) {
            UNROLL
            for (u32 i = 0; i < 8; i++) {
                times_alpha32(power);
            }
        }
    }
    // The product of t and the power, by Horner's rule.
    u32 product[4] = {0, 0, 0, 0};
    NO_UNROLL
    for (u32 i = 0; i < 128; i++) {
        u32 top = power[3] >> 31;
        times_alpha(product, 1);
        UNROLL
        for (u32 j = 0; j < 4; j++) {
            product[j] ^= t[j] & -top;
        }
        power[3] = power[3] << 1 | power[2] >> 31;
        power[2] = power[2] << 1 | power[1] >> 31;
        power[1] = power[1] << 1 | power[0] >> 31;
        power[0] <<= 1;
    }
    UNROLL
    for (u32 j = 0; j < 4; j++) {
        t[j] = product[j];
    }
}
