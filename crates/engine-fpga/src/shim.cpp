// SPDX-License-Identifier: MIT OR Apache-2.0
// The environment of the Verilated core: its clock, an AXI4-Lite host, and the two ends of its
// streams. src/model.rs calls the functions at the end.
//
// build.rs compiles this file once for each design, and defines HEADER (its header), CORE (its
// class) and FUNCTIONS (the name of its functions).
//
// The streams run in every cycle, whatever the host does. With a seed other than 0, every interface
// stalls at random, and all state without a reset begins with random values.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include HEADER
#include "verilated.h"

namespace {

// The results of the functions.
enum : int32_t { DONE = 0, NOTHING = 1, DEAD = -1, BUS_ERROR = -2, FAILED = -3 };

// The most cycles that a register access may take.
constexpr int ACCESS_CYCLES = 10000;

constexpr std::size_t BEAT = sizeof(CORE::s_axis_tdata);

// Marsaglia, "Xorshift RNGs", 2003.
class Random {
public:
    explicit Random(uint64_t seed) : state_{seed} {}

    uint32_t below(uint32_t bound) {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return static_cast<uint32_t>(state_ >> 33) % bound;
    }

private:
    uint64_t state_;
};

// Decides in which cycles an interface stalls: never if the seed is 0.
class Stalls {
public:
    Stalls(uint64_t seed, uint64_t which)
        : random_{seed * 0x9e3779b97f4a7c15 + which}, active_{seed != 0} {}

    bool now() {
        if (!active_) return false;
        if (left_ == 0) {
            left_ = 1 + random_.below(200);
            constexpr uint32_t eighths[] = {0, 0, 1, 4, 7};
            eighths_ = eighths[random_.below(5)];
        }
        --left_;
        return random_.below(8) < eighths_;
    }

private:
    Random random_;
    bool active_;
    uint32_t left_ = 0;
    uint32_t eighths_ = 0;
};

// Data that are wiped when they are destroyed.
class Bytes {
public:
    explicit Bytes(std::size_t len) : bytes_(len) {}
    Bytes(Bytes&&) = default;
    Bytes& operator=(Bytes&&) = delete;
    ~Bytes() {
        // Called through a volatile pointer, so that the compiler cannot remove it.
        static void* (*const volatile wipe)(void*, int, std::size_t) = std::memset;
        if (!bytes_.empty()) wipe(bytes_.data(), 0, bytes_.size());
    }

    uint8_t* data() { return bytes_.data(); }
    std::size_t size() const { return bytes_.size(); }

private:
    std::vector<uint8_t> bytes_;
};

// A packet going in, or the room for an answer.
struct Packet {
    Bytes bytes;
    std::size_t at = 0;
};

class Model {
public:
    explicit Model(uint64_t seed)
        : core_{configured(context_, seed), "luxor_xts"},
          in_{seed, 1}, out_{seed, 2}, aw_{seed, 3}, w_{seed, 4}, b_{seed, 5}, ar_{seed, 6},
          r_{seed, 7}, irq_{seed, 8} {
        // The random initial values are for the core's inside, not for its inputs.
        core_.s_axil_awvalid = core_.s_axil_wvalid = core_.s_axil_bready = 0;
        core_.s_axil_arvalid = core_.s_axil_rready = 0;
        core_.s_axis_tvalid = 0;
        core_.rst = 1;
        for (int i = 0; i < 8; ++i) cycle();
        core_.rst = 0;
        cycle();
    }

    ~Model() { core_.final(); }

    int32_t read(uint32_t address, uint32_t* value) {
        bool asked = false;
        core_.s_axil_araddr = address;
        for (int i = 0; i < ACCESS_CYCLES; ++i) {
            // A valid signal stays high until it is accepted.
            core_.s_axil_arvalid = !asked && (core_.s_axil_arvalid || !ar_.now());
            core_.s_axil_rready = !r_.now();
            settle();
            asked |= core_.s_axil_arvalid && core_.s_axil_arready;
            const bool answered = core_.s_axil_rready && core_.s_axil_rvalid;
            const uint32_t data = core_.s_axil_rdata;
            const uint32_t response = core_.s_axil_rresp;
            edge();
            if (context_.gotError()) return FAILED;
            if (answered) {
                core_.s_axil_arvalid = 0;
                core_.s_axil_rready = 0;
                *value = data;
                return response == 0 ? DONE : BUS_ERROR;
            }
        }
        return DEAD;
    }

    int32_t write(uint32_t address, uint32_t value) {
        bool addressed = false, written = false;
        core_.s_axil_awaddr = address;
        core_.s_axil_wdata = value;
        core_.s_axil_wstrb = 0xf;
        for (int i = 0; i < ACCESS_CYCLES; ++i) {
            core_.s_axil_awvalid = !addressed && (core_.s_axil_awvalid || !aw_.now());
            core_.s_axil_wvalid = !written && (core_.s_axil_wvalid || !w_.now());
            core_.s_axil_bready = !b_.now();
            settle();
            addressed |= core_.s_axil_awvalid && core_.s_axil_awready;
            written |= core_.s_axil_wvalid && core_.s_axil_wready;
            const bool answered = core_.s_axil_bready && core_.s_axil_bvalid;
            const uint32_t response = core_.s_axil_bresp;
            edge();
            if (context_.gotError()) return FAILED;
            if (answered) {
                core_.s_axil_awvalid = 0;
                core_.s_axil_wvalid = 0;
                core_.s_axil_bready = 0;
                return response == 0 ? DONE : BUS_ERROR;
            }
        }
        return DEAD;
    }

    void send(const uint8_t* packet, std::size_t len) {
        Bytes bytes{len};
        std::memcpy(bytes.data(), packet, len);
        packets_.push_back({std::move(bytes)});
        rooms_.push_back({Bytes{len}});
    }

    int32_t receive(uint8_t* answer, std::size_t room, std::size_t* len, uint64_t limit) {
        for (; answers_.empty() && limit > 0; --limit) cycle();
        if (context_.gotError()) return FAILED;
        if (answers_.empty()) return NOTHING;
        Packet& found = answers_.front();
        *len = found.at;
        std::memcpy(answer, found.bytes.data(), std::min({room, found.at, found.bytes.size()}));
        answers_.pop_front();
        return DONE;
    }

    int32_t wait(uint64_t limit) {
        for (; !interrupts() && limit > 0; --limit) cycle();
        if (context_.gotError()) return FAILED;
        return core_.irq ? DONE : NOTHING;
    }

    void abort() {
        packets_.clear();
        rooms_.clear();
        answers_.clear();
        core_.s_axis_tvalid = 0;
    }

private:
    static VerilatedContext* configured(VerilatedContext& context, uint64_t seed) {
        // Return errors instead of ending the process.
        context.fatalOnError(false);
        if (seed != 0) {
            context.randReset(2);
            context.randSeed(static_cast<int>(seed & 0x7fffffff) | 1);
        }
        return &context;
    }

    // Whether the host sees the interrupt in this cycle. With stalls it sees it late.
    bool interrupts() { return core_.irq && !irq_.now(); }

    void cycle() {
        settle();
        edge();
    }

    // The first half of a cycle: applies the inputs and evaluates the outputs that depend on them.
    void settle() {
        if (!core_.s_axis_tvalid && !packets_.empty() && !in_.now()) {
            Packet& packet = packets_.front();
            std::memcpy(&core_.s_axis_tdata, packet.bytes.data() + packet.at, BEAT);
            core_.s_axis_tlast = packet.at + BEAT == packet.bytes.size();
            core_.s_axis_tvalid = 1;
        }
        core_.m_axis_tready = !rooms_.empty() && !out_.now();
        core_.clk = 0;
        core_.eval();
    }

    // The second half: beats that both sides agreed on have moved.
    void edge() {
        const bool taken = core_.s_axis_tvalid && core_.s_axis_tready;
        if (core_.m_axis_tvalid && core_.m_axis_tready) keep();
        core_.clk = 1;
        core_.eval();
        if (taken) {
            core_.s_axis_tvalid = 0;
            packets_.front().at += BEAT;
            if (packets_.front().at == packets_.front().bytes.size()) packets_.pop_front();
        }
    }

    // Stores the output beat if there is room for it.
    void keep() {
        Packet& room = rooms_.front();
        if (core_.m_axis_tkeep != 0) {
            if (room.at + BEAT <= room.bytes.size()) {
                std::memcpy(room.bytes.data() + room.at, &core_.m_axis_tdata, BEAT);
            }
            room.at += BEAT;
        }
        if (core_.m_axis_tlast) {
            answers_.push_back(std::move(room));
            rooms_.pop_front();
        }
    }

    VerilatedContext context_;
    CORE core_;
    Stalls in_, out_, aw_, w_, b_, ar_, r_, irq_;
    std::deque<Packet> packets_, rooms_, answers_;
};

}  // namespace

extern "C" {

// Must match `ffi::Functions` in src/model.rs.
struct Functions {
    void* (*create)(uint64_t seed);
    void (*destroy)(void* model);
    int32_t (*read)(void* model, uint32_t address, uint32_t* value);
    int32_t (*write)(void* model, uint32_t address, uint32_t value);
    void (*send)(void* model, const uint8_t* packet, std::size_t len);
    int32_t (*receive)(void* model, uint8_t* answer, std::size_t room, std::size_t* len,
                       uint64_t limit);
    int32_t (*wait)(void* model, uint64_t limit);
    void (*abort)(void* model);
    std::size_t beat_len;
};

extern const Functions FUNCTIONS;
const Functions FUNCTIONS = {
    [](uint64_t seed) noexcept -> void* { return new Model{seed}; },
    [](void* model) noexcept { delete static_cast<Model*>(model); },
    [](void* model, uint32_t address, uint32_t* value) noexcept {
        return static_cast<Model*>(model)->read(address, value);
    },
    [](void* model, uint32_t address, uint32_t value) noexcept {
        return static_cast<Model*>(model)->write(address, value);
    },
    [](void* model, const uint8_t* packet, std::size_t len) noexcept {
        static_cast<Model*>(model)->send(packet, len);
    },
    [](void* model, uint8_t* answer, std::size_t room, std::size_t* len,
       uint64_t limit) noexcept {
        return static_cast<Model*>(model)->receive(answer, room, len, limit);
    },
    [](void* model, uint64_t limit) noexcept { return static_cast<Model*>(model)->wait(limit); },
    [](void* model) noexcept { static_cast<Model*>(model)->abort(); },
    BEAT,
};
}
