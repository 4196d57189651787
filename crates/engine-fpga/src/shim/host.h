// SPDX-License-Identifier: MIT OR Apache-2.0
// What the environments of all Verilated cores share: the clock, an AXI4-Lite host and the interrupt.
// `Side` is what the core's other ports are connected to.
//
// build.rs compiles streams.cpp or memory.cpp once for each design, and defines HEADER (its header),
// CORE (its class) and FUNCTIONS (the name of its functions). src/model.rs calls these functions.
//
// The side runs in every cycle, whatever the host does. With a seed other than 0, every interface
// stalls at random, and all state without a reset begins with random values.

#pragma once

#include <cstddef>
#include <cstdint>

#include HEADER
#include "verilated.h"

namespace {

// The results of the functions.
enum : int32_t { DONE = 0, NOTHING = 1, DEAD = -1, BUS_ERROR = -2, FAILED = -3 };

// The most cycles that a register access may take.
constexpr int ACCESS_CYCLES = 10000;

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

// `side` has these functions, each of which is called once in a cycle, in this order:
// - offer sets the core's inputs;
// - sample sees the values of all ports at the rising edge;
// - advance, after the edge, takes back what the core has accepted.
template <class Side>
class Host {
public:
    explicit Host(uint64_t seed)
        : core_{configured(context_, seed), "core"}, side{seed},
          aw_{seed, 3}, w_{seed, 4}, b_{seed, 5}, ar_{seed, 6}, r_{seed, 7}, irq_{seed, 8} {
        // The random initial values are for the core's inside, not for its inputs.
        core_.s_axil_awvalid = core_.s_axil_wvalid = core_.s_axil_bready = 0;
        core_.s_axil_arvalid = core_.s_axil_rready = 0;
        side.stop(core_);
        core_.rst = 1;
        for (int i = 0; i < 8; ++i) cycle();
        core_.rst = 0;
        cycle();
    }

    ~Host() { core_.final(); }

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

    int32_t wait(uint64_t limit) {
        for (; !interrupts() && limit > 0; --limit) cycle();
        if (context_.gotError()) return FAILED;
        return core_.irq ? DONE : NOTHING;
    }

    void cycle() {
        settle();
        edge();
    }

    bool interrupted() const { return core_.irq; }
    bool failed() const { return context_.gotError(); }
    void stop() { side.stop(core_); }

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

    // The first half of a cycle: applies the inputs and evaluates the outputs that depend on them.
    void settle() {
        side.offer(core_);
        core_.clk = 0;
        core_.eval();
    }

    // The second half: beats that both sides agreed on have moved.
    void edge() {
        side.sample(core_);
        core_.clk = 1;
        core_.eval();
        side.advance(core_);
    }

    VerilatedContext context_;
    CORE core_;

public:
    Side side;

private:
    Stalls aw_, w_, b_, ar_, r_, irq_;
};

// The functions that all designs have. Must match `ffi::Host` in src/model.rs.
struct HostFunctions {
    void* (*create)(uint64_t seed);
    void (*destroy)(void* model);
    int32_t (*read)(void* model, uint32_t address, uint32_t* value);
    int32_t (*write)(void* model, uint32_t address, uint32_t value);
    int32_t (*wait)(void* model, uint64_t limit);
};

template <class Model>
constexpr HostFunctions HOST_FUNCTIONS = {
    [](uint64_t seed) noexcept -> void* { return new Model{seed}; },
    [](void* model) noexcept { delete static_cast<Model*>(model); },
    [](void* model, uint32_t address, uint32_t* value) noexcept {
        return static_cast<Model*>(model)->read(address, value);
    },
    [](void* model, uint32_t address, uint32_t value) noexcept {
        return static_cast<Model*>(model)->write(address, value);
    },
    [](void* model, uint64_t limit) noexcept { return static_cast<Model*>(model)->wait(limit); },
};

}  // namespace
