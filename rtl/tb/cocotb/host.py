# SPDX-License-Identifier: MIT OR Apache-2.0
"""The core as a driver sees it: the registers, the ring and the two streams."""

import os
import random
from dataclasses import dataclass

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, Timer
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiStreamBus, AxiStreamFrame
from cocotbext.axi import AxiStreamSink, AxiStreamSource

ID, VERSION, CONFIG, CONTROL, STATUS = 0x000, 0x004, 0x008, 0x00C, 0x010
IRQ_ENABLE, IRQ_STATUS, TAIL, HEAD = 0x014, 0x018, 0x020, 0x024
KEY_COMMAND, KEY_STATUS, SLOT_STATE, KEY_DATA, KEY_TWEAK = 0x030, 0x034, 0x038, 0x040, 0x060
CYCLES, BEATS_OUT, RING = 0x080, 0x088, 0x800

ENABLE, RESET = 1, 2
BUSY, KEY_BUSY, ZEROISING = 1, 2, 4
XTS, ECB, CTR = range(3)
LOAD, CLEAR = 1, 2
PLACES = 32

CYCLE_NS = 10

DONE_OK, NO_DATA, TOO_SHORT, TOO_LONG, NO_SLOT, EMPTY_SLOT, EQUAL_KEYS, NO_CIPHER = range(8)
ECB_TAIL, CUT, EXCESS = 8, 9, 10
KEY_OK, KEY_EQUAL, KEY_NO_SLOT, KEY_IN_USE, KEY_SIZE = range(5)
SLOT_EMPTY, SLOT_128, SLOT_256, SLOT_EQUAL = range(4)


@dataclass
class Parameters:
    """The parameters that the model was built with, from the environment."""

    TWEAK: int = 1
    CIPHER: int = 2
    KEY128: int = 1
    KEY256: int = 1
    STAGES: int = 2
    LANES: int = 1
    PERMIT_EQUAL: int = 0
    SBOX: int = 0
    CTR: int = 0

    @classmethod
    def built(cls):
        pairs = (pair.split("=") for pair in os.environ["LUXOR_PARAMETERS"].split())
        return cls(**{name: int(value) for name, value in pairs})

    @property
    def beat(self):
        """The number of bytes in a beat."""
        return 16 * self.LANES

    @property
    def directions(self):
        """The directions that are built: False is encryption, True is decryption."""
        return {0: [False], 1: [True], 2: [False, True]}[self.CIPHER]

    @property
    def key_lengths(self):
        """The possible numbers of bytes of data key and tweak key together."""
        return [32] * bool(self.KEY128) + [64] * bool(self.KEY256)


@dataclass
class Descriptor:
    number: int
    stride: int
    unit_len: int
    unit_count: int
    slot: int
    decrypt: bool = False
    mode: int = XTS

    def words(self):
        """The bytes of the descriptor in the ring."""
        return (
            self.number.to_bytes(16, "little")
            + self.stride.to_bytes(8, "little")
            + self.unit_len.to_bytes(4, "little")
            + self.unit_count.to_bytes(4, "little")
            + (self.slot | self.decrypt << 8 | self.mode << 9).to_bytes(4, "little")
        )


class Ports:
    """The ports of the model, each found by its name. Verilator 5.006 has every port twice;
    the buses of cocotbext-axi list the objects of the model and would find the unused ones."""

    NAMES = """clk rst irq
        s_axil_awaddr s_axil_awvalid s_axil_awready s_axil_wdata s_axil_wstrb s_axil_wvalid
        s_axil_wready s_axil_bresp s_axil_bvalid s_axil_bready s_axil_araddr s_axil_arvalid
        s_axil_arready s_axil_rdata s_axil_rresp s_axil_rvalid s_axil_rready
        s_axis_tdata s_axis_tvalid s_axis_tready s_axis_tlast
        m_axis_tdata m_axis_tkeep m_axis_tlast m_axis_tuser m_axis_tvalid m_axis_tready"""

    def __init__(self, dut):
        self._log = dut._log
        self._name = dut._name
        for name in self.NAMES.split():
            setattr(self, name, getattr(dut, name))


class Host:
    """Drives the top module. Only one task at a time may await its coroutines, except those
    for `packets` and the streams."""

    def __init__(self, dut):
        self.dut = dut = Ports(dut)
        # The bus models log every transfer, and what a reset interrupts.
        dut._log.setLevel("ERROR")
        self.built = Parameters.built()
        dut.rst.value = 1
        self.bus = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), dut.clk, dut.rst)
        self.sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), dut.clk, dut.rst)
        self.stalls = []
        self.forget()

    async def start(self, stalls=None):
        """Starts the clock, resets, and lets every interface stall (stalls: a random.Random)."""
        cocotb.start_soon(Clock(self.dut.clk, CYCLE_NS, "ns").start())
        await self.reset()
        if stalls is not None:
            self.stall(stalls)
        await self.enable()

    async def reset(self):
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 3)
        self.dut.rst.value = 0
        self.forget()

    async def reset_by_register(self):
        await self.write(CONTROL, RESET)
        # The other ends of the streams must be reset together with the core.
        for stream in (self.source, self.sink):
            stream.assert_reset()
        self.forget()

    def forget(self):
        for stream in (self.source, self.sink):
            stream.clear()
        self.submitted = self.done = 0
        self.statuses = []
        self.owners = []  # for each descriptor, whether it has a packet
        self.packets = 0

    async def enable(self):
        await self.write(CONTROL, ENABLE)

    def stall(self, rng):
        """Lets each interface stall in bursts, at its own changing rate."""
        self.stall_no_more()
        for channel in self.channels():
            own = random.Random(rng.random())
            self.stalls.append(cocotb.start_soon(stall_in_bursts(channel, own)))

    def stall_no_more(self):
        while self.stalls:
            self.stalls.pop().kill()
        for channel in self.channels():
            channel.pause = False

    def channels(self):
        writes, reads = self.bus.write_if, self.bus.read_if
        channels = [writes.aw_channel, writes.w_channel, writes.b_channel]
        return channels + [reads.ar_channel, reads.r_channel, self.source, self.sink]

    async def write(self, address, *words):
        data = b"".join(word.to_bytes(4, "little") for word in words)
        await self.bus.write(address, data)

    async def read(self, address):
        return int.from_bytes((await self.bus.read(address, 4)).data, "little")

    async def command_key(self, op, slot, key=b"\0" * 32):
        """Gives a key command (`key` is data key and tweak key) and returns its result."""
        half = len(key) // 2
        await self.bus.write(KEY_DATA, key[:half])
        await self.bus.write(KEY_TWEAK, key[half:])
        await self.write(KEY_COMMAND, (half == 32) << 16 | slot << 8 | op)
        while (status := await self.read(KEY_STATUS)) & 1:
            pass
        return status >> 4

    async def submit(self, descriptor):
        """Puts a descriptor into the ring as soon as there is room."""
        while self.submitted - self.done == PLACES:
            await self.look()
        self.owners.append(descriptor.unit_len * descriptor.unit_count > 0)
        await self.bus.write(RING + 64 * (self.submitted % PLACES), descriptor.words())
        self.submitted += 1
        await self.write(TAIL, self.submitted)

    async def look(self):
        """Reads how many descriptors are done, and their statuses."""
        self.done = await self.read(HEAD)
        assert self.done <= self.submitted
        # A descriptor is done after its packet.
        assert self.packets + self.sink.count() >= sum(self.owners[: self.done])
        while len(self.statuses) < self.done:
            status = await self.read(RING + 64 * (len(self.statuses) % PLACES) + 60)
            assert status >> 31, f"descriptor {len(self.statuses)} is not done: {status:#x}"
            self.statuses.append(status & 0x7FFF_FFFF)

    async def finish(self, count=None):
        """Waits until `count` descriptors are done, or all that were submitted."""
        while self.done < (self.submitted if count is None else count):
            await self.look()

    def send(self, packet):
        """Queues a packet of whole beats."""
        assert packet and len(packet) % self.built.beat == 0
        self.source.send_nowait(AxiStreamFrame(packet))

    async def frame(self):
        """The next packet as the bus received it."""
        frame = await self.sink.recv(compact=False)
        self.packets += 1
        return frame

    async def packet(self):
        """The next packet: its bytes, whether each byte is kept, and whether it failed."""
        frame = await self.frame()
        errors = frame.tuser[:: self.built.beat]
        assert not any(errors[:-1]), "tuser before the last beat"
        return bytes(frame.tdata), bytes(frame.tkeep), bool(errors[-1])

    async def assert_quiet(self, cycles=200):
        """Checks that nothing comes out and that the core has no work."""
        self.stall_no_more()
        for _ in range(cycles):
            await RisingEdge(self.dut.clk)
            assert not self.dut.m_axis_tvalid.value
        assert self.sink.empty() and self.sink.idle()
        assert await self.read(STATUS) == 0


async def stall_in_bursts(channel, rng):
    """Stalls last some cycles, and so do the times between them. The lengths change."""
    while True:
        shortest = rng.choice([1, 1, 3])
        going, stalling = rng.choice([1, 4, 30]), rng.choice([1, 4, 30])
        for _ in range(rng.randrange(1, 30)):
            channel.pause = not channel.pause
            longest = stalling if channel.pause else going
            await Timer(CYCLE_NS * rng.randrange(shortest, shortest + longest), "ns")
