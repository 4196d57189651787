// SPDX-License-Identifier: MIT OR Apache-2.0
// The environment of `luxor_xts_dma`: a memory behind its bus, of which the caller has the contents.
// Each ID has its order. Beats of reads of the two are interleaved at random, and answers overtake
// each other.

#include <cstring>
#include <deque>

#include "host.h"

namespace {

// Reads or writes a beat. Returns whether the memory can.
using Load = bool (*)(void* memory, uint64_t address, uint8_t* beat, std::size_t len);
using Store = bool (*)(void* memory, uint64_t address, const uint8_t* beat, std::size_t len,
                       uint64_t strobes);

class Memory {
public:
    explicit Memory(uint64_t seed)
        : ar_{seed, 11}, r_{seed, 12}, aw_{seed, 13}, w_{seed, 14}, b_{seed, 15}, random_{seed + 1} {}

    void attach(void* memory, Load load, Store store) {
        memory_ = memory;
        load_ = load;
        store_ = store;
    }

    void stop(CORE& core) { core.m_axi_rvalid = core.m_axi_bvalid = 0; }

    void offer(CORE& core) {
        core.m_axi_arready = !ar_.now();
        core.m_axi_awready = !aw_.now();
        core.m_axi_wready = !writes_.empty() && !w_.now();
        if (!core.m_axi_rvalid && !r_.now()) offer_beat(core);
        if (!core.m_axi_bvalid && !b_.now()) offer_answer(core);
    }

    void sample(CORE& core) {
        if (core.rst) return;
        read_ = core.m_axi_rvalid && core.m_axi_rready;
        answered_ = core.m_axi_bvalid && core.m_axi_bready;
        if (core.m_axi_arvalid && core.m_axi_arready) {
            reads_[core.m_axi_arid].push_back({core.m_axi_araddr, core.m_axi_arlen + 1u});
        }
        if (core.m_axi_wvalid && core.m_axi_wready) keep(core);
        if (core.m_axi_awvalid && core.m_axi_awready) {
            writes_.push_back({core.m_axi_awaddr, core.m_axi_awlen + 1u, core.m_axi_awid != 0});
        }
    }

    void advance(CORE& core) {
        if (read_) core.m_axi_rvalid = 0;
        if (answered_) core.m_axi_bvalid = 0;
    }

private:
    static constexpr std::size_t BEAT = sizeof(CORE::m_axi_wdata);

    struct Burst {
        uint64_t address;
        unsigned beats;
        bool id = false, failed = false;
    };

    // Returns which of two queues is next, if one has an entry.
    template <class Queue>
    unsigned next(const Queue (&queues)[2]) {
        const unsigned id = random_.below(2);
        return queues[id].empty() ? 1 - id : id;
    }

    void offer_beat(CORE& core) {
        const unsigned id = next(reads_);
        if (reads_[id].empty()) return;
        Burst& burst = reads_[id].front();
        uint8_t beat[BEAT] = {};
        core.m_axi_rresp = load_(memory_, burst.address, beat, BEAT) ? 0 : 2;
        std::memcpy(&core.m_axi_rdata, beat, BEAT);
        burst.address += BEAT;
        --burst.beats;
        core.m_axi_rid = id;
        core.m_axi_rlast = burst.beats == 0;
        core.m_axi_rvalid = 1;
        if (burst.beats == 0) reads_[id].pop_front();
    }

    void offer_answer(CORE& core) {
        const unsigned id = next(answers_);
        if (answers_[id].empty()) return;
        core.m_axi_bid = id;
        core.m_axi_bresp = answers_[id].front() ? 2 : 0;
        core.m_axi_bvalid = 1;
        answers_[id].pop_front();
    }

    void keep(CORE& core) {
        Burst& burst = writes_.front();
        uint8_t beat[BEAT];
        std::memcpy(beat, &core.m_axi_wdata, BEAT);
        const uint64_t strobes = core.m_axi_wstrb;
        if (strobes != 0) burst.failed |= !store_(memory_, burst.address, beat, BEAT, strobes);
        burst.address += BEAT;
        if (--burst.beats == 0) {
            answers_[burst.id].push_back(burst.failed);
            writes_.pop_front();
        }
    }

    void* memory_ = nullptr;
    Load load_ = nullptr;
    Store store_ = nullptr;
    std::deque<Burst> reads_[2], writes_;
    std::deque<bool> answers_[2];
    bool read_ = false, answered_ = false;
    Stalls ar_, r_, aw_, w_, b_;
    Random random_;
};

using Model = Host<Memory>;

}  // namespace

extern "C" {

// Must match `ffi::Master` in src/model.rs.
struct Functions {
    HostFunctions host;
    void (*attach)(void* model, void* memory, Load load, Store store);
    int32_t (*run)(void* model, uint64_t cycles);
};

extern const Functions FUNCTIONS;
const Functions FUNCTIONS = {
    HOST_FUNCTIONS<Model>,
    [](void* model, void* memory, Load load, Store store) noexcept {
        static_cast<Model*>(model)->side.attach(memory, load, store);
    },
    [](void* model, uint64_t cycles) noexcept -> int32_t {
        Model& core = *static_cast<Model*>(model);
        while (cycles-- > 0) core.cycle();
        if (core.failed()) return FAILED;
        return core.interrupted() ? DONE : NOTHING;
    },
};
}
