// SPDX-License-Identifier: MIT OR Apache-2.0
// AES, XTS and CTR, one byte at a time, from FIPS 197, IEEE 1619-2007 and SP 800-38A. The reference
// for the kernels, with which it shares no code.

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace plain {

using Bytes = std::vector<std::uint8_t>;
using u128 = unsigned __int128;

// The product in GF(2^8) (FIPS 197, 4.2).
inline std::uint8_t times(std::uint8_t a, std::uint8_t b)
{
    std::uint8_t product = 0;
    for (; b != 0; b >>= 1) {
        if (b & 1) {
            product ^= a;
        }
        a = static_cast<std::uint8_t>(a << 1 ^ (a & 0x80 ? 0x1b : 0));
    }
    return product;
}

struct Box {
    std::uint8_t forward[256], inverse[256];

    Box()
    {
        for (int x = 0; x < 256; x++) {
            int inverse_of_x = 0;
            for (int y = 1; y < 256; y++) {
                if (times(static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y)) == 1) {
                    inverse_of_x = y;
                }
            }
            int s = 0x63;
            for (int n = 0; n < 5; n++) {
                s ^= (inverse_of_x << n | inverse_of_x >> (8 - n)) & 0xff;
            }
            forward[x] = static_cast<std::uint8_t>(s);
            inverse[s] = static_cast<std::uint8_t>(x);
        }
    }
};

inline const Box box;

class Aes {
public:
    // Keys have 16, 24 or 32 bytes. The schedule is that of FIPS 197, 5.2.
    explicit Aes(const Bytes &key) : rounds(static_cast<int>(key.size()) / 4 + 6), schedule(key)
    {
        const int words = static_cast<int>(key.size()) / 4;
        std::uint8_t rcon = 1;
        for (int i = words; i < 4 * (rounds + 1); i++) {
            std::uint8_t t[4];
            for (int j = 0; j < 4; j++) {
                t[j] = schedule[4 * (i - 1) + j];
            }
            if (i % words == 0) {
                const std::uint8_t first = t[0];
                t[0] = box.forward[t[1]] ^ rcon;
                t[1] = box.forward[t[2]];
                t[2] = box.forward[t[3]];
                t[3] = box.forward[first];
                rcon = times(rcon, 2);
            } else if (words > 6 && i % words == 4) {
                for (auto &byte : t) {
                    byte = box.forward[byte];
                }
            }
            for (int j = 0; j < 4; j++) {
                schedule.push_back(schedule[4 * (i - words) + j] ^ t[j]);
            }
        }
    }

    void encrypt(std::uint8_t *s) const
    {
        add_key(s, 0);
        for (int round = 1; round <= rounds; round++) {
            std::uint8_t t[16];
            for (int i = 0; i < 16; i++) {
                t[i] = box.forward[s[(i + 4 * (i % 4)) % 16]];
            }
            mix(s, t, round < rounds, 2, 3, 1, 1);
            add_key(s, round);
        }
    }

    void decrypt(std::uint8_t *s) const
    {
        for (int round = rounds; round >= 1; round--) {
            add_key(s, round);
            std::uint8_t t[16];
            for (int i = 0; i < 16; i++) {
                t[i] = s[i];
            }
            mix(s, t, round < rounds, 14, 11, 13, 9);
            for (int i = 0; i < 16; i++) {
                t[(i + 4 * (i % 4)) % 16] = box.inverse[s[i]];
            }
            for (int i = 0; i < 16; i++) {
                s[i] = t[i];
            }
        }
        add_key(s, 0);
    }

    // MixColumns, or InvMixColumns with 14, 11, 13, 9; a plain copy without `really`.
    static void mix(std::uint8_t *to, const std::uint8_t *from, bool really, int f0, int f1,
                    int f2, int f3)
    {
        const int factors[4] = {f0, f1, f2, f3};
        for (int i = 0; i < 16; i++) {
            // In a register, because the sanitizers check each access to memory.
            std::uint8_t sum = really ? 0 : from[i];
            for (int j = 0; really && j < 4; j++) {
                sum ^= times(from[i / 4 * 4 + (i + j) % 4],
                             static_cast<std::uint8_t>(factors[j]));
            }
            to[i] = sum;
        }
    }

    const int rounds;
    Bytes schedule;

private:
    void add_key(std::uint8_t *s, int round) const
    {
        for (int i = 0; i < 16; i++) {
            s[i] ^= schedule[16 * round + i];
        }
    }
};

// Multiplies a tweak by α (IEEE 1619-2007, 5.2).
inline void times_alpha(std::uint8_t *t)
{
    int carry = 0;
    for (int i = 0; i < 16; i++) {
        const int byte = t[i] << 1 | carry;
        t[i] = static_cast<std::uint8_t>(byte);
        carry = byte >> 8;
    }
    t[0] ^= carry ? 0x87 : 0;
}

// Returns the tweak of a data unit's first block.
inline Bytes tweak(const Aes &tweak_key, u128 number)
{
    Bytes t(16);
    for (int i = 0; i < 16; i++) {
        t[i] = static_cast<std::uint8_t>(number >> 8 * i);
    }
    tweak_key.encrypt(t.data());
    return t;
}

// Processes one data unit of at least 16 bytes in place (5.3.2 and 5.4.2).
inline void xts(bool encrypt, const Aes &data_key, const Aes &tweak_key, u128 number,
                std::uint8_t *unit, std::size_t len)
{
    Bytes t = tweak(tweak_key, number);
    auto block = [&](std::uint8_t *b, const Bytes &with) {
        for (int i = 0; i < 16; i++) {
            b[i] ^= with[i];
        }
        encrypt ? data_key.encrypt(b) : data_key.decrypt(b);
        for (int i = 0; i < 16; i++) {
            b[i] ^= with[i];
        }
    };
    const std::size_t whole = len / 16, tail = len % 16;
    for (std::size_t i = 0; i + (tail != 0) < whole; i++) {
        block(unit + 16 * i, t);
        times_alpha(t.data());
    }
    if (tail != 0) {
        std::uint8_t *last = unit + 16 * (whole - 1);
        Bytes next = t;
        times_alpha(next.data());
        block(last, encrypt ? t : next);
        for (std::size_t i = 0; i < tail; i++) {
            std::swap(last[i], last[16 + i]);
        }
        block(last, encrypt ? next : t);
    }
}

// Processes a message of any length in place (SP 800-38A, 6.5).
inline void ctr(const Aes &key, u128 counter, std::uint8_t *message, std::size_t len)
{
    for (std::size_t at = 0; at < len; at += 16, counter++) {
        std::uint8_t b[16];
        for (int i = 0; i < 16; i++) {
            b[i] = static_cast<std::uint8_t>(counter >> (120 - 8 * i));
        }
        key.encrypt(b);
        for (std::size_t i = 0; i < 16 && at + i < len; i++) {
            message[at + i] ^= b[i];
        }
    }
}

} // namespace plain
