// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs the papers' kernels (an_seo.h, sanida.h) on host threads, and compares them with the
// standards' vectors and with plain.h.
//
//     papers VECTORS      VECTORS is the folder of known answers; exits with 1 at the first
//     difference

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>

#include "../portability.h"
#include "../tables.h"
#include "../aes.h"
#include "../gf128.h"
#include "../numbers.h"
#include "../an_seo.h"
#include "../sanida.h"
#include "plain.h"
#include "vectors.h"

using plain::Bytes;
using plain::u128;
using vectors::from_hex;
using vectors::records;

namespace {

// `cargo xtask test --long` defines LUXOR_TEST_LONG.
#if defined(LUXOR_TEST_LONG)
constexpr bool EVERY_LENGTH = true;
#else
constexpr bool EVERY_LENGTH = false;
#endif
constexpr std::size_t SHORT = 16 * 33;

int checks = 0;

[[noreturn]] void fail(const std::string &what)
{
    std::fprintf(stderr, "FAILED: %s (REPLICAS %d, THREADS %d)\n", what.c_str(), REPLICAS,
                 THREADS);
    std::exit(1);
}

void check(bool holds, const std::string &what)
{
    if (!holds) {
        fail(what);
    }
    checks++;
}

void wait(void *barrier)
{
    pthread_barrier_wait(static_cast<pthread_barrier_t *>(barrier));
}

// The threads of a group. They are started only once, because starting them is slow with the
// sanitizers.
class Device {
public:
    Device()
    {
        for (auto *barrier : {&begin, &end}) {
            pthread_barrier_init(barrier, nullptr, THREADS + 1);
        }
        pthread_barrier_init(&of_group, nullptr, THREADS);
        for (u32 thread = 0; thread < THREADS; thread++) {
            threads.emplace_back([this, thread] {
                for (;;) {
                    wait(&begin);
                    if (!kernel) {
                        return;
                    }
                    for (u32 group = 0; group < groups; group++) {
                        host_thread = {thread, group, groups, wait, &of_group};
                        (*kernel)(local[group].data());
                    }
                    wait(&end);
                }
            });
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

    // Runs as many groups as the work needs, one after the other. Each has local memory of exactly
    // `local_words` words.
    void launch(u32 items, std::size_t local_words, const std::function<void(u32 *local)> &what)
    {
        groups = (items + THREADS - 1) / THREADS;
        local.assign(groups, std::vector<u32>(local_words));
        kernel = &what;
        wait(&begin);
        wait(&end);
        local.clear();
    }

private:
    const std::function<void(u32 *local)> *kernel = nullptr;
    u32 groups = 0;
    std::vector<std::vector<u32>> local;
    pthread_barrier_t begin, end, of_group;
    std::vector<std::thread> threads;
};

void launch(u32 items, std::size_t local_words, const std::function<void(u32 *local)> &kernel)
{
    static Device device;
    device.launch(items, local_words, kernel);
}

// Returns a key's 192 words for one table.
std::vector<u32> key_words(const Bytes &data_key)
{
    std::vector<u32> words(192);
    const plain::Aes aes(data_key);
    for (int round = 0; round <= aes.rounds; round++) {
        for (bool inverse : {false, true}) {
            const int from = inverse ? aes.rounds - round : round;
            Bytes key(aes.schedule.begin() + 16 * from, aes.schedule.begin() + 16 * (from + 1));
            if (inverse && round != 0 && round != aes.rounds) {
                const Bytes plain_key = key;
                plain::Aes::mix(key.data(), plain_key.data(), true, 14, 11, 13, 9);
            }
            std::memcpy(&words[(inverse ? 60 : 0) + 4 * round], key.data(), 16);
        }
    }
    return words;
}

Block block_of(const std::uint8_t *bytes)
{
    Block block;
    std::memcpy(&block, bytes, 16);
    return block;
}

std::vector<Block> blocks_of(const Bytes &bytes)
{
    std::vector<Block> blocks(bytes.size() / 16);
    std::memcpy(static_cast<void *>(blocks.data()), bytes.data(), bytes.size());
    return blocks;
}

Bytes random_bytes(std::mt19937 &random, std::size_t len)
{
    Bytes bytes(len);
    for (auto &byte : bytes) {
        byte = static_cast<u8>(random());
    }
    return bytes;
}

// ---- An and Seo

void an_seo(const Bytes &data_key, const Bytes &tweak_key, u128 number, const Bytes &pt,
            const Bytes &ct, const std::string &name)
{
    const std::vector<u32> keys = key_words(data_key);
    const std::vector<Block> in = blocks_of(pt);
    const u32 blocks = static_cast<u32>(in.size());
    for (u32 gap : {1, 8, 128}) {
        std::vector<Block> starts;
        Bytes t = plain::tweak(plain::Aes(tweak_key), number);
        for (u32 i = 0; i < blocks; i++) {
            if (i % gap == 0) {
                starts.push_back(block_of(t.data()));
            }
            plain::times_alpha(t.data());
        }
        const u32 gaps = static_cast<u32>(starts.size());
        std::vector<Block> tweaks(gaps * gap), out(blocks);
        // In two parts, as with two streams.
        const u32 part = (gaps + 1) / 2;
        for (u32 from = 0; from < gaps; from += part) {
            const u32 count = std::min(part, gaps - from);
            launch(count, 0, [&](u32 *) {
                an_seo_fill(starts.data(), tweaks.data(), from, count, gap);
            });
            const u32 first = from * gap;
            const u32 some = std::min(count * gap, blocks - first);
            launch(some, TABLE_WORDS, [&](u32 *local) {
                (data_key.size() == 16 ? an_seo_encrypt_128 : an_seo_encrypt_256)(
                    keys.data(), in.data(), out.data(), tweaks.data(), first, some, local);
            });
        }
        check(std::memcmp(out.data(), ct.data(), ct.size()) == 0,
              "an_seo, gap " + std::to_string(gap) + ", " + name);
    }
}

// ---- Sanida et al.

using Kernel = decltype(&sanida_ctr_128_1);

struct Kernels {
    std::size_t key_len;
    u32 bytes;
    Kernel ctr, xts[2];
};

#define KERNELS(SIZE, BYTES)                                                       \
    {                                                                              \
        SIZE / 8, BYTES, sanida_ctr_##SIZE##_##BYTES,                              \
        {                                                                          \
            sanida_xts_decrypt_##SIZE##_##BYTES, sanida_xts_encrypt_##SIZE##_##BYTES \
        }                                                                          \
    }

const Kernels all[] = {
    KERNELS(128, 1), KERNELS(128, 4), KERNELS(128, 8), KERNELS(128, 16),
    KERNELS(192, 1), KERNELS(192, 4), KERNELS(192, 8), KERNELS(192, 16),
    KERNELS(256, 1), KERNELS(256, 4), KERNELS(256, 8), KERNELS(256, 16),
};

Bytes run_sanida(Kernel kernel, u32 bytes, const Bytes &data_key, Block first, Bytes in)
{
    const std::vector<u32> keys = key_words(data_key);
    const u32 blocks = static_cast<u32>(in.size() / 16);
    const std::size_t local = SANIDA_BOX + SANIDA_BLOCK * THREADS * bytes / 16;
    Bytes out(in.size());
    launch(blocks * (16 / bytes), local / 4, [&](u32 *memory) {
        kernel(keys.data(), in.data(), out.data(), &first, blocks, memory);
    });
    return out;
}

void sanida_xts(const Bytes &data_key, const Bytes &tweak_key, u128 number, const Bytes &pt,
                const Bytes &ct, const std::string &name)
{
    const Block first = block_of(plain::tweak(plain::Aes(tweak_key), number).data());
    for (const Kernels &kernels : all) {
        for (bool encrypt : {true, false}) {
            if (kernels.key_len == data_key.size()) {
                check(run_sanida(kernels.xts[encrypt], kernels.bytes, data_key, first,
                                 encrypt ? pt : ct) == (encrypt ? ct : pt),
                      "sanida, " + std::to_string(kernels.bytes) + " bytes, XTS " +
                          (encrypt ? "encryption, " : "decryption, ") + name);
            }
        }
    }
}

void sanida_ctr(const Bytes &key, u128 counter, const Bytes &pt, const Bytes &ct,
                const std::string &name)
{
    Block first;
    std::memcpy(static_cast<void *>(&first), &counter, 16);
    for (const Kernels &kernels : all) {
        if (kernels.key_len == key.size()) {
            check(run_sanida(kernels.ctr, kernels.bytes, key, first, pt) == ct,
                  "sanida, " + std::to_string(kernels.bytes) + " bytes, CTR, " + name);
        }
    }
}

// ---- Known answers

void known_xts(const std::string &path)
{
    for (auto &record : records(path)) {
        const Bytes key = from_hex(record["Key"]), i = from_hex(record["i"]);
        const Bytes pt = from_hex(record["PT"]), ct = from_hex(record["CT"]);
        if (pt.size() % 16 != 0) {
            continue; // The papers have no ciphertext stealing.
        }
        u128 number = 0;
        for (int n = 15; n >= 0; n--) {
            number = number << 8 | i[n];
        }
        const Bytes data_key(key.begin(), key.begin() + key.size() / 2);
        const Bytes tweak_key(key.begin() + key.size() / 2, key.end());
        const std::string name = "vector " + record["COUNT"];
        an_seo(data_key, tweak_key, number, pt, ct, name);
        sanida_xts(data_key, tweak_key, number, pt, ct, name);
    }
}

void known_ctr(const std::string &path)
{
    for (auto &record : records(path)) {
        const Bytes iv = from_hex(record["IV"]);
        u128 counter = 0;
        for (int n = 0; n < 16; n++) {
            counter = counter << 8 | iv[n];
        }
        sanida_ctr(from_hex(record["KEY"]), counter, from_hex(record["PLAINTEXT"]),
                   from_hex(record["CIPHERTEXT"]), "vector " + record["COUNT"]);
    }
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        fail("usage: papers VECTORS");
    }
    const std::string vectors = argv[1];
    known_xts(vectors + "/xts/ieee1619-2007-annex-b.txt");
    known_ctr(vectors + "/ctr/sp800-38a-f5.txt");

    std::mt19937 random(2022);
    const u128 top = ~static_cast<u128>(0);
    for (std::size_t key_len : {16, 24, 32}) {
        const Bytes data_key = random_bytes(random, key_len);
        const Bytes tweak_key = random_bytes(random, key_len);
        // Counters carry at 2^32 and 2^64 and wrap at 2^128; the last case goes beyond α^256.
        const struct {
            std::size_t blocks;
            u128 number;
        } cases[] = {{1, 0}, {33, 0xfffffffe}, {129, top - 7}, {300, top >> 64}};
        for (const auto &c : cases) {
            const Bytes pt = random_bytes(random, 16 * c.blocks);
            Bytes ct = pt;
            const std::string name = "AES-" + std::to_string(8 * key_len) + ", " +
                                     std::to_string(c.blocks) + " blocks";
            plain::xts(true, plain::Aes(data_key), plain::Aes(tweak_key), c.number, ct.data(),
                       ct.size());
            if (key_len != 24) {
                an_seo(data_key, tweak_key, c.number, pt, ct, name);
            }
            // Sanida's kernels take a barrier a block or more. The key sizes share everything but
            // the rounds, so only one of them has all blocks.
            const std::size_t len = EVERY_LENGTH || key_len == 16 ? pt.size()
                                                                  : std::min(pt.size(), SHORT);
            const Bytes some(pt.begin(), pt.begin() + len);
            ct.resize(len);
            sanida_xts(data_key, tweak_key, c.number, some, ct, name);
            ct = some;
            plain::ctr(plain::Aes(data_key), c.number, ct.data(), ct.size());
            sanida_ctr(data_key, c.number, some, ct, name);
        }
    }
    std::printf("%d checks\nREPLICAS %d, TABLES %d, LANES %d, THREADS %d: passed\n", checks, REPLICAS,
                TABLES, LANES, THREADS);
    return 0;
}
