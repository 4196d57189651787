// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs the kernels on host threads, and compares them with the standards' vectors and with plain.h.
// A work-group is THREADS threads with a barrier, and two groups always run at once. The memory of
// the kernels has exactly the needed size, and bytes that they must not read are poisoned, so the
// address sanitizer finds wrong accesses. The thread sanitizer finds races between lanes.
//
//     test VECTORS      VECTORS is the folder of known answers; exits with 1 at the first
//     difference

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include <pthread.h>

// With LANES 0, the kernels with tables.
#if LANES == 0
#include "../luxor.cl"
#else
#include "../bitsliced.cl"
#endif
#include "plain.h"
#include "vectors.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, len)
#define ASAN_UNPOISON_MEMORY_REGION(at, len)
#endif

using plain::Bytes;
using plain::u128;
using vectors::from_hex;
using vectors::records;

namespace {

constexpr u32 HOST_GROUPS = 2;

// Whether AES-192 and AES-256, whose kernels differ from AES-128's only in the rounds, run with few
// shapes. With the thread sanitizer all shapes take ten times as long.
#if defined(__SANITIZE_THREAD__) && !defined(LUXOR_TEST_LONG)
constexpr bool FEW_SHAPES = true;
#else
constexpr bool FEW_SHAPES = false;
#endif

int checks = 0;

[[noreturn]] void fail(const std::string &what)
{
    std::fprintf(stderr, "FAILED: %s (REPLICAS %d, TABLES %d, LANES %d, THREADS %d)\n",
                 what.c_str(), REPLICAS, TABLES, LANES, THREADS);
    std::exit(1);
}

void check(bool holds, const std::string &what)
{
    if (!holds) {
        fail(what);
    }
    checks++;
}

// ---- Launches

void wait(void *barrier)
{
    pthread_barrier_wait(static_cast<pthread_barrier_t *>(barrier));
}

// The threads of all groups. They are started only once, because starting them is slow with the
// sanitizers.
class Device {
public:
    Device()
    {
        pthread_barrier_init(&begin, nullptr, HOST_GROUPS * THREADS + 1);
        pthread_barrier_init(&end, nullptr, HOST_GROUPS * THREADS + 1);
        for (u32 group = 0; group < HOST_GROUPS; group++) {
            pthread_barrier_init(&barriers[group], nullptr, THREADS);
            for (u32 thread = 0; thread < THREADS; thread++) {
                threads.emplace_back([this, group, thread] {
                    host_thread = {thread, group, HOST_GROUPS, wait, &barriers[group]};
                    for (;;) {
                        wait(&begin);
                        if (!kernel) {
                            return;
                        }
                        kernel(tables[group].data());
                        wait(&end);
                    }
                });
            }
        }
    }

    ~Device()
    {
        kernel = nullptr;
        wait(&begin);
        for (auto &thread : threads) {
            thread.join();
        }
    }

    // Runs a kernel to its end, with fresh tables. Round keys must not be there afterwards.
    void launch(std::function<void(u32 *tables)> what)
    {
        for (auto &words : tables) {
            words = std::vector<u32>(TABLE_WORDS);
        }
        kernel = std::move(what);
        wait(&begin);
        wait(&end);
        for (const auto &words : tables) {
            check(LANES == 0 || words == std::vector<u32>(TABLE_WORDS), "local memory was not wiped");
        }
    }

private:
    std::function<void(u32 *tables)> kernel;
    std::vector<u32> tables[HOST_GROUPS];
    pthread_barrier_t begin, end, barriers[HOST_GROUPS];
    std::vector<std::thread> threads;
};

void launch(std::function<void(u32 *tables)> kernel)
{
    static Device device;
    device.launch(std::move(kernel));
}

// ---- Keys

// Returns a key's 192 words.
std::vector<u32> key_words(const Bytes &data_key, const Bytes &tweak_key)
{
    std::vector<u32> words(192);
    auto put = [&](std::size_t at, const plain::Aes &aes, bool inverse) {
        for (int round = 0; round <= aes.rounds; round++) {
            Bytes key(aes.schedule.begin() + 16 * (inverse ? aes.rounds - round : round),
                      aes.schedule.begin() + 16 * ((inverse ? aes.rounds - round : round) + 1));
            const bool inner = round != 0 && round != aes.rounds;
            if (inverse && inner) {
                const Bytes from = key;
                plain::Aes::mix(key.data(), from.data(), true, 14, 11, 13, 9);
            }
            for (std::size_t i = 0; i < 4; i++) {
                u32 word;
                std::memcpy(&word, &key[4 * i], 4);
                if (TABLES == 2 && !inverse && inner) {
                    word = word >> 8 | word << 24;
                }
                words[at + 4 * round + i] = word;
            }
        }
    };
    put(0, plain::Aes(data_key), false);
    put(60, plain::Aes(data_key), true);
    if (!tweak_key.empty()) {
        put(120, plain::Aes(tweak_key), false);
    }
    return words;
}

struct Kernels {
    decltype(&xts_tweaks_128) tweaks;
    decltype(&xts_encrypt_128) crypt[2];
    decltype(&xts_tails_encrypt_128) tails[2];
    decltype(&ctr_128) ctr;
};

const Kernels &kernels_for(std::size_t key_len)
{
    static const Kernels all[3] = {
        {xts_tweaks_128, {xts_decrypt_128, xts_encrypt_128},
         {xts_tails_decrypt_128, xts_tails_encrypt_128}, ctr_128},
        {xts_tweaks_192, {xts_decrypt_192, xts_encrypt_192},
         {xts_tails_decrypt_192, xts_tails_encrypt_192}, ctr_192},
        {xts_tweaks_256, {xts_decrypt_256, xts_encrypt_256},
         {xts_tails_decrypt_256, xts_tails_encrypt_256}, ctr_256},
    };
    return all[key_len / 8 - 2];
}

// ---- Device memory

u128 number(const std::vector<Piece> &pieces, u32 unit)
{
    const Piece *piece = &pieces[0];
    for (const Piece &p : pieces) {
        piece = p.start <= unit ? &p : piece;
    }
    u128 first = 0;
    for (int i = 3; i >= 0; i--) {
        first = first << 32 | piece->first[i];
    }
    return first + static_cast<u128>(unit - piece->start) * piece->stride;
}

Piece piece(u128 first, u64 stride, u32 start)
{
    Piece p = {{}, stride, start, 0};
    for (int i = 0; i < 4; i++) {
        p.first[i] = static_cast<u32>(first >> 32 * i);
    }
    return p;
}

// Units of `len` bytes, `pitch` blocks apart, as on a device. The bytes between them are a pattern,
// which must not change.
class Units {
public:
    Units(u32 count, std::size_t len, u32 pitch)
        : count(count), len(len), pitch(pitch), blocks((count - 1) * pitch + (len + 15) / 16)
    {
        std::memset(static_cast<void *>(blocks.data()), 0xa5, 16 * blocks.size());
    }

    u8 *unit(u32 i) { return reinterpret_cast<u8 *>(blocks.data()) + std::size_t{16} * i * pitch; }

    // Makes the bytes between the units unreadable, or readable again.
    void seal(bool on)
    {
        for (u32 i = 0; i < count; i++) {
            u8 *end = unit(i) + len;
            const std::size_t gap = i + 1 < count ? 16 * pitch - len : (16 - len % 16) % 16;
            if (on) {
                ASAN_POISON_MEMORY_REGION(end, gap);
            } else {
                ASAN_UNPOISON_MEMORY_REGION(end, gap);
            }
            (void)end, (void)gap;
        }
    }

    bool gaps_are_whole()
    {
        std::vector<Block> copy = blocks;
        u8 *bytes = reinterpret_cast<u8 *>(copy.data());
        for (u32 i = 0; i < count; i++) {
            std::memset(bytes + std::size_t{16} * i * pitch, 0xa5, len);
        }
        for (std::size_t i = 0; i < 16 * copy.size(); i++) {
            if (bytes[i] != 0xa5) {
                return false;
            }
        }
        return true;
    }

    const u32 count;
    const std::size_t len;
    const u32 pitch;
    std::vector<Block> blocks;
};

// ---- Cases

struct Case {
    Bytes data_key, tweak_key;
    std::vector<Piece> pieces;
    u32 units;
    std::size_t len;
    u32 pitch;
    bool in_place;

    std::string name(const char *what) const
    {
        return std::string(what) + ", AES-" + std::to_string(8 * data_key.size()) + ", " +
               std::to_string(units) + " units of " + std::to_string(len) + " bytes, pitch " +
               std::to_string(pitch) + (in_place ? ", in place" : "");
    }
};

u32 stretches(std::size_t len) { return static_cast<u32>((len + 4095) / 4096); }

std::vector<Block> tweaks_of(const Case &c, const std::vector<u32> &keys, u32 spu)
{
    std::vector<Block> tweaks(std::size_t{c.units} * spu);
    launch([&](u32 *tables) {
        kernels_for(c.data_key.size())
            .tweaks(keys.data(), c.pieces.data(), static_cast<u32>(c.pieces.size()), c.units, spu,
                    tweaks.data(), tables);
    });
    return tweaks;
}

void run_xts(const Case &c, bool encrypt, Units &in, Units &out)
{
    const std::vector<u32> keys = key_words(c.data_key, c.tweak_key);
    const Kernels &kernels = kernels_for(c.data_key.size());
    const u32 spu = stretches(c.len), tail = c.len % 16;
    const u32 blocks = static_cast<u32>(c.len / 16) - (tail != 0);
    const std::vector<Block> tweaks = tweaks_of(c, keys, spu);
    in.seal(true);
    launch([&](u32 *tables) {
        kernels.crypt[encrypt](keys.data(), in.blocks.data(), out.blocks.data(), tweaks.data(),
                               c.units, blocks, c.pitch, spu, tables);
    });
    if (tail != 0) {
        launch([&](u32 *tables) {
            kernels.tails[encrypt](keys.data(), in.blocks.data(), out.blocks.data(),
                                   tweaks.data(), c.units, blocks, c.pitch, spu, tail, tables);
        });
    }
    in.seal(false);
}

void check_units(const Case &c, Units &out, const std::vector<Bytes> &expected, const char *what)
{
    for (u32 i = 0; i < c.units; i++) {
        check(std::memcmp(out.unit(i), expected[i].data(), c.len) == 0,
              c.name(what) + ", unit " + std::to_string(i));
    }
    check(out.gaps_are_whole(), c.name(what) + ", between the units");
}

Bytes random_bytes(std::mt19937 &random, std::size_t len)
{
    Bytes bytes(len);
    for (auto &byte : bytes) {
        byte = static_cast<u8>(random());
    }
    return bytes;
}

void xts_case(std::mt19937 &random, const Case &c)
{
    const plain::Aes data_key(c.data_key), tweak_key(c.tweak_key);
    for (bool encrypt : {true, false}) {
        Units in(c.units, c.len, c.pitch), other(c.units, c.len, c.pitch);
        std::vector<Bytes> expected;
        for (u32 i = 0; i < c.units; i++) {
            Bytes unit = random_bytes(random, c.len);
            std::memcpy(in.unit(i), unit.data(), c.len);
            plain::xts(encrypt, data_key, tweak_key, number(c.pieces, i), unit.data(), c.len);
            expected.push_back(unit);
        }
        Units &out = c.in_place ? in : other;
        run_xts(c, encrypt, in, out);
        check_units(c, out, expected, encrypt ? "XTS encryption" : "XTS decryption");
    }
}

void ctr_case(std::mt19937 &random, const Case &c)
{
    const plain::Aes key(c.data_key);
    const std::vector<u32> keys = key_words(c.data_key, {});
    Units in(c.units, c.len, c.pitch), other(c.units, c.len, c.pitch);
    std::vector<Bytes> expected;
    for (u32 i = 0; i < c.units; i++) {
        Bytes unit = random_bytes(random, c.len);
        std::memcpy(in.unit(i), unit.data(), c.len);
        plain::ctr(key, number(c.pieces, i), unit.data(), c.len);
        expected.push_back(unit);
    }
    Units &out = c.in_place ? in : other;
    in.seal(true);
    launch([&](u32 *tables) {
        kernels_for(c.data_key.size())
            .ctr(keys.data(), in.blocks.data(), out.blocks.data(), c.pieces.data(),
                 static_cast<u32>(c.pieces.size()), c.units, static_cast<u32>(c.len), c.pitch,
                 stretches(c.len), tables);
    });
    in.seal(false);
    check_units(c, out, expected, "CTR");
}

// Numbers that wrap at 2^128 and carry at 2^32 and 2^64, in pieces of several lengths.
std::vector<Piece> pieces_for(u32 units)
{
    const u128 top = ~static_cast<u128>(0);
    std::vector<Piece> pieces = {piece(top - 1, 1, 0)};
    if (units > 2) {
        pieces.push_back(piece(0xfffffffe, 1, 1));
    }
    if (units > 8) {
        pieces.push_back(piece(0xfffffffffffffff0, 8, 5));
        pieces.push_back(piece(top - 5, 0xffffffffffffffff, 6));
        pieces.push_back(piece(static_cast<u128>(0x0123456789abcdef) << 64, 0x300000005, 8));
    }
    return pieces;
}

// ---- Known answers

void known_xts(const std::string &path)
{
    for (auto &record : records(path)) {
        const Bytes key = from_hex(record["Key"]), i = from_hex(record["i"]);
        const Bytes pt = from_hex(record["PT"]), ct = from_hex(record["CT"]);
        u128 first = 0;
        for (int n = 15; n >= 0; n--) {
            first = first << 8 | i[n];
        }
        Case c = {Bytes(key.begin(), key.begin() + key.size() / 2),
                  Bytes(key.begin() + key.size() / 2, key.end()),
                  {piece(first, 1, 0)}, 1, pt.size(), stretches(pt.size()) * 256, false};
        for (bool encrypt : {true, false}) {
            Units in(1, c.len, c.pitch), out(1, c.len, c.pitch);
            std::memcpy(in.unit(0), (encrypt ? pt : ct).data(), c.len);
            run_xts(c, encrypt, in, out);
            check_units(c, out, {encrypt ? ct : pt}, ("vector " + record["COUNT"]).c_str());
        }
    }
}

// Checks plain.h, so that it may serve as the reference, and the kernel.
void known_ctr(const std::string &path)
{
    for (auto &record : records(path)) {
        const Bytes key = from_hex(record["KEY"]), iv = from_hex(record["IV"]);
        Bytes text = from_hex(record["PLAINTEXT"]);
        const Bytes expected = from_hex(record["CIPHERTEXT"]);
        u128 first = 0;
        for (int n = 0; n < 16; n++) {
            first = first << 8 | iv[n];
        }
        Case c = {key, {}, {piece(first, 1, 0)}, 1, text.size(), 256, false};
        const std::vector<u32> keys = key_words(key, {});
        Units in(1, c.len, c.pitch), out(1, c.len, c.pitch);
        std::memcpy(in.unit(0), text.data(), c.len);
        in.seal(true);
        launch([&](u32 *tables) {
            kernels_for(key.size())
                .ctr(keys.data(), in.blocks.data(), out.blocks.data(), c.pieces.data(), 1, 1,
                     static_cast<u32>(c.len), c.pitch, 1, tables);
        });
        in.seal(false);
        check_units(c, out, {expected}, ("CTR vector " + record["COUNT"]).c_str());
        plain::ctr(plain::Aes(key), first, text.data(), text.size());
        check(text == expected, c.name("plain CTR"));
    }
}

void known_blocks(const std::string &path)
{
    for (auto &record : records(path)) {
        const plain::Aes aes(from_hex(record["KEY"]));
        const Bytes pt = from_hex(record["PLAINTEXT"]), ct = from_hex(record["CIPHERTEXT"]);
        Bytes block = pt;
        aes.encrypt(block.data());
        check(block == ct, "plain AES, encryption " + record["COUNT"]);
        aes.decrypt(block.data());
        check(block == pt, "plain AES, decryption " + record["COUNT"]);
    }
}

// Checks the tweaks of all stretches of the longest unit, 16 MiB.
void long_unit(std::mt19937 &random)
{
    Case c = {random_bytes(random, 16), random_bytes(random, 16), {piece(7, 1, 0)}, 2, 1 << 24,
              1 << 20, false};
    const u32 spu = stretches(c.len);
    const std::vector<Block> tweaks = tweaks_of(c, key_words(c.data_key, c.tweak_key), spu);
    for (u32 unit = 0; unit < 2; unit++) {
        Bytes t = plain::tweak(plain::Aes(c.tweak_key), 7 + unit);
        for (u32 s = 0; s < spu; s++) {
            check(std::memcmp(&tweaks[unit * spu + s], t.data(), 16) == 0,
                  "tweak of unit " + std::to_string(unit) + ", stretch " + std::to_string(s));
            for (int i = 0; i < 256; i++) {
                plain::times_alpha(t.data());
            }
        }
    }
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        fail("usage: test VECTORS");
    }
    const std::string vectors = argv[1];
    known_blocks(vectors + "/aes/fips197.txt");
    known_xts(vectors + "/xts/ieee1619-2007-annex-b.txt");
    known_ctr(vectors + "/ctr/sp800-38a-f5.txt");

    std::mt19937 random(1619);
    for (std::size_t key_len : {16, 24, 32}) {
        const Bytes data_key = random_bytes(random, key_len);
        const Bytes tweak_key = random_bytes(random, key_len);
        const struct {
            u32 units;
            std::size_t len;
        } shapes[] = {{1, 16},  {300, 16}, {70, 17},  {9, 31},   {5, 32},   {9, 33},
                      {9, 512}, {9, 520},  {9, 533},  {3, 4080}, {3, 4095}, {3, 4096},
                      {3, 4097}, {2, 4111}, {2, 4112}, {2, 4113}, {2, 8192}, {3, 20500},
                      // Fewer stretches than half the warps, so they are divided.
                      {1, 1008}, {1, 4096}};
        bool in_place = false;
        u32 gap = 0;
        for (const auto &shape : shapes) {
            if (FEW_SHAPES && key_len != 16 && shape.len != 533 && shape.len != 4113) {
                continue;
            }
            const u32 pitch = static_cast<u32>((shape.len + 15) / 16) + gap;
            xts_case(random, {data_key, tweak_key, pieces_for(shape.units), shape.units,
                              shape.len, pitch, in_place});
            in_place = !in_place;
            gap = (gap + 1) % 3;
        }
        for (std::size_t len : {1, 15, 16, 100, 4096, 4100, 20500}) {
            const u32 units = len < 4000 ? 70 : 3;
            const u32 pitch = static_cast<u32>((len + 15) / 16) + gap;
            ctr_case(random,
                     {data_key, {}, pieces_for(units), units, len, pitch, in_place});
            in_place = !in_place;
            gap = (gap + 1) % 3;
        }
    }
    long_unit(random);
    std::printf("%d checks\nREPLICAS %d, TABLES %d, LANES %d, THREADS %d: passed\n", checks,
                REPLICAS, TABLES, LANES, THREADS);
    return 0;
}
