// SPDX-License-Identifier: MIT OR Apache-2.0
// The environment of `luxor_xts`: the two ends of its streams.

#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "host.h"

namespace {

constexpr std::size_t BEAT = sizeof(CORE::s_axis_tdata);

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

class Streams {
public:
    explicit Streams(uint64_t seed) : in_{seed, 1}, out_{seed, 2} {}

    void stop(CORE& core) { core.s_axis_tvalid = 0; }

    void offer(CORE& core) {
        if (!core.s_axis_tvalid && !packets.empty() && !in_.now()) {
            Packet& packet = packets.front();
            std::memcpy(&core.s_axis_tdata, packet.bytes.data() + packet.at, BEAT);
            core.s_axis_tlast = packet.at + BEAT == packet.bytes.size();
            core.s_axis_tvalid = 1;
        }
        core.m_axis_tready = !rooms.empty() && !out_.now();
    }

    void sample(CORE& core) {
        taken_ = core.s_axis_tvalid && core.s_axis_tready;
        if (core.m_axis_tvalid && core.m_axis_tready) keep(core);
    }

    void advance(CORE& core) {
        if (!taken_) return;
        core.s_axis_tvalid = 0;
        packets.front().at += BEAT;
        if (packets.front().at == packets.front().bytes.size()) packets.pop_front();
    }

    std::deque<Packet> packets, rooms, answers;

private:
    // Stores the output beat if there is room for it.
    void keep(CORE& core) {
        Packet& room = rooms.front();
        if (core.m_axis_tkeep != 0) {
            if (room.at + BEAT <= room.bytes.size()) {
                std::memcpy(room.bytes.data() + room.at, &core.m_axis_tdata, BEAT);
            }
            room.at += BEAT;
        }
        if (core.m_axis_tlast) {
            answers.push_back(std::move(room));
            rooms.pop_front();
        }
    }

    Stalls in_, out_;
    bool taken_ = false;
};

class Model : public Host<Streams> {
public:
    using Host::Host;

    void send(const uint8_t* packet, std::size_t len) {
        Bytes bytes{len};
        std::memcpy(bytes.data(), packet, len);
        side.packets.push_back({std::move(bytes)});
        side.rooms.push_back({Bytes{len}});
    }

    int32_t receive(uint8_t* answer, std::size_t room, std::size_t* len, uint64_t limit) {
        std::deque<Packet>& answers = side.answers;
        for (; answers.empty() && limit > 0; --limit) cycle();
        if (failed()) return FAILED;
        if (answers.empty()) return NOTHING;
        Packet& found = answers.front();
        *len = found.at;
        std::memcpy(answer, found.bytes.data(), std::min({room, found.at, found.bytes.size()}));
        answers.pop_front();
        return DONE;
    }

    void abort() {
        side.packets.clear();
        side.rooms.clear();
        side.answers.clear();
        stop();
    }
};

}  // namespace

extern "C" {

// Must match `ffi::Streams` in src/model.rs.
struct Functions {
    HostFunctions host;
    void (*send)(void* model, const uint8_t* packet, std::size_t len);
    int32_t (*receive)(void* model, uint8_t* answer, std::size_t room, std::size_t* len,
                       uint64_t limit);
    void (*abort)(void* model);
    std::size_t beat_len;
};

extern const Functions FUNCTIONS;
const Functions FUNCTIONS = {
    HOST_FUNCTIONS<Model>,
    [](void* model, const uint8_t* packet, std::size_t len) noexcept {
        static_cast<Model*>(model)->send(packet, len);
    },
    [](void* model, uint8_t* answer, std::size_t room, std::size_t* len,
       uint64_t limit) noexcept {
        return static_cast<Model*>(model)->receive(answer, room, len, limit);
    },
    [](void* model) noexcept { static_cast<Model*>(model)->abort(); },
    BEAT,
};
}
