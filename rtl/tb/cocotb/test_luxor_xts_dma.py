# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests the core with its bus master as a driver uses it: descriptors, data and statuses are in a
memory behind an AXI4 bus. The memory is the model of cocotbext-axi, which also checks that no burst
crosses 4 KiB and that `wlast` is right. The results are those that plan.py expects of the core."""

import bisect
from dataclasses import dataclass, field

import cocotb
import host
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiSlave
from host import Host
from plan import Job, KeyCommand, Planner
from test_luxor_xts import LONG, change_key, rng_of

RING_LOW, RING_HIGH, RING_LOG2 = 0x800, 0x804, 0x808
DRAINING = 8
ADDRESS, FETCH = 11, 12
READ_ERROR, WRITE_ERROR = 1 << 8, 1 << 9
DONE = 1 << 31
BUS_ERROR = 4  # in IRQ_STATUS

DESCRIPTORS = 500 if LONG else 90
RESETS = 24 if LONG else 6


class Ports(host.Ports):
    NAMES = """clk rst irq
        s_axil_awaddr s_axil_awvalid s_axil_awready s_axil_wdata s_axil_wstrb s_axil_wvalid
        s_axil_wready s_axil_bresp s_axil_bvalid s_axil_bready s_axil_araddr s_axil_arvalid
        s_axil_arready s_axil_rdata s_axil_rresp s_axil_rvalid s_axil_rready
        m_axi_awid m_axi_awaddr m_axi_awlen m_axi_awsize m_axi_awburst m_axi_awcache m_axi_awprot
        m_axi_awvalid m_axi_awready m_axi_wdata m_axi_wstrb m_axi_wlast m_axi_wvalid m_axi_wready
        m_axi_bid m_axi_bresp m_axi_bvalid m_axi_bready
        m_axi_arid m_axi_araddr m_axi_arlen m_axi_arsize m_axi_arburst m_axi_arcache m_axi_arprot
        m_axi_arvalid m_axi_arready m_axi_rid m_axi_rdata m_axi_rresp m_axi_rlast m_axi_rvalid
        m_axi_rready"""


@dataclass(order=True)
class Buffer:
    """A range of the memory. The bus may access no others."""

    start: int
    data: bytearray = field(compare=False)
    readable: bool = field(compare=False)
    writable: bool = field(compare=False)
    # A ring, in which only statuses are written.
    statuses: bool = field(compare=False, default=False)
    # Offsets at which the memory answers with an error.
    poison: set = field(compare=False, default_factory=set)


class Memory:
    """Buffers anywhere in 2^64 bytes, as a target of AxiSlave, which turns exceptions into SLVERR.
    `faults` are the accesses that must not happen."""

    def __init__(self, rng):
        self.rng = rng
        self.buffers = []
        self.faults = []
        self.accesses = 0

    def put(self, data, beat, readable=False, writable=False):
        """A new buffer, often one that crosses a boundary of 4 KiB, with a gap before and after."""
        while True:
            start = self.rng.randrange(2**64 - len(data) - 8192) & -4096
            start += self.rng.choice([0, -beat, beat, 4096 - len(data) // 2, 2048]) & -beat
            start %= 2**64
            at = bisect.bisect(self.buffers, Buffer(start, b"", False, False))
            near = self.buffers[max(at - 1, 0) : at + 1]
            if all(
                start + len(data) + 4096 < other.start or other.start + len(other.data) < start - 4096
                for other in near
            ) and start + len(data) < 2**64:
                buffer = Buffer(start, bytearray(data), readable, writable)
                self.buffers.insert(at, buffer)
                return buffer

    def find(self, address, length):
        self.accesses += 1
        at = bisect.bisect(self.buffers, Buffer(address, b"", False, False)) - 1
        if at >= 0:
            buffer = self.buffers[at]
            offset = address - buffer.start
            if offset + length <= len(buffer.data):
                return buffer, offset
        return None, 0

    async def read(self, address, length):
        buffer, offset = self.find(address, length)
        if buffer is None or not buffer.readable:
            self.faults.append(f"read of {length} bytes at {address:#x}")
            raise ValueError
        if any(offset <= bad < offset + length for bad in buffer.poison):
            raise ValueError
        return bytes(buffer.data[offset : offset + length])

    async def write(self, address, data):
        buffer, offset = self.find(address, len(data))
        writable = buffer is not None and buffer.writable
        if writable and buffer.statuses:
            writable = (offset % 64, len(data)) == (60, 4)
        if not writable:
            self.faults.append(f"write of {len(data)} bytes at {address:#x}")
            raise ValueError
        if any(offset <= bad < offset + len(data) for bad in buffer.poison):
            raise ValueError
        buffer.data[offset : offset + len(data)] = data


class Dma(Host):
    """Drives the top module with the master."""

    def __init__(self, dut, rng):
        self.dut = dut = Ports(dut)
        dut._log.setLevel("ERROR")
        self.built = host.Parameters.built()
        self.rng = rng
        self.memory = Memory(rng)
        dut.rst.value = 1
        self.bus = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        self.slave = AxiSlave(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, self.memory)
        for channels in (self.slave.write_if, self.slave.read_if):
            channels.log.setLevel("ERROR")
        self.stalls = []
        self.forget()

    def forget(self):
        self.submitted = self.done = 0
        self.pending = []

    async def start(self, stalls=None, ring_log2=3):
        self.ring_log2 = ring_log2
        await super().start(stalls)

    async def enable(self):
        """A new ring, and ENABLE."""
        size = 64 << self.ring_log2
        self.ring = self.memory.put(self.rng.randbytes(size), 64, readable=True, writable=True)
        self.ring.statuses = True
        await self.write(RING_LOW, self.ring.start % 2**32, self.ring.start >> 32, self.ring_log2)
        await super().enable()

    async def reset_by_register(self, held=False):
        await self.write(host.CONTROL, host.RESET)
        self.forget()
        if held:
            await ClockCycles(self.dut.clk, 200)
            assert await self.read(host.STATUS) & DRAINING
            self.slave.write_if.w_channel.pause = False
        while await self.read(host.STATUS) & DRAINING:
            pass
        self.assert_drained()

    def channels(self):
        writes, reads = self.bus.write_if, self.bus.read_if
        channels = [writes.aw_channel, writes.w_channel, writes.b_channel]
        channels += [reads.ar_channel, reads.r_channel]
        writes, reads = self.slave.write_if, self.slave.read_if
        channels += [writes.aw_channel, writes.w_channel, writes.b_channel]
        return channels + [reads.ar_channel, reads.r_channel]

    async def submit(self, job):
        """Submits a job as soon as there is room."""
        while self.submitted - self.done == 1 << self.ring_log2:
            await self.look()
        place = 64 * (self.submitted % (1 << self.ring_log2))
        work = Work(self, job, place)
        self.ring.data[place : place + 64] = work.descriptor
        if job.fetch_error:
            self.ring.poison.add(place + self.rng.randrange(60))
        self.pending.append(work)
        self.submitted += 1
        await self.write(host.TAIL, self.submitted)

    async def look(self):
        head = await self.read(host.HEAD)
        assert self.done <= head <= self.submitted
        while self.done < head:
            work = self.pending.pop(0)
            work.check()
            self.done += 1

    def assert_drained(self):
        """Each burst that has begun has ended, and was answered."""
        ports = self.dut
        for valid in (ports.m_axi_awvalid, ports.m_axi_wvalid, ports.m_axi_arvalid):
            assert not valid.value
        writes, reads = self.slave.write_if, self.slave.read_if
        for channel in (writes.aw_channel, writes.w_channel, reads.ar_channel):
            assert channel.empty()
        for channel in (writes.b_channel, reads.r_channel):
            assert channel.idle()

    async def assert_quiet(self, cycles=200):
        self.stall_no_more()
        assert not self.pending
        while await self.read(host.STATUS) & ~host.ZEROISING:
            pass
        accesses = self.memory.accesses
        await ClockCycles(self.dut.clk, cycles)
        assert self.memory.accesses == accesses
        assert not self.memory.faults, self.memory.faults
        assert not self.dut.m_axi_awvalid.value and not self.dut.m_axi_wvalid.value


@dataclass
class DmaJob(Job):
    """A job with what can go wrong on the bus."""

    fetch_error: bool = False
    read_error: bool = False
    write_error: bool = False
    misaligned: str = ""


class Work:
    """A job in memory."""

    def __init__(self, core, job, place):
        rng, beat, memory = core.rng, core.built.beat, core.memory
        self.job, self.place, self.ring, self.memory = job, place, core.ring, memory
        packet = job.packet
        self.source = self.destination = None
        length, source, destination = [rng.getrandbits(bits) for bits in (32, 64, 64)]
        if packet is not None:
            in_place = rng.random() < 0.2 and not job.read_error and not job.write_error
            self.source = memory.put(packet, beat, readable=True, writable=in_place)
            self.destination = self.source
            if not in_place:
                self.destination = memory.put(rng.randbytes(len(packet)), beat, writable=True)
            if job.read_error:
                self.source.poison.add(rng.randrange(len(packet)))
            if job.write_error:
                kept = [at for at, keep in enumerate(job.out[1]) if keep]
                self.destination.poison.add(rng.choice(kept))
            length = len(packet)
            source, destination = self.source.start, self.destination.start
        odd = rng.randrange(1, beat)
        if job.misaligned == "source":
            source += odd
        elif job.misaligned == "destination":
            destination += odd
        elif job.misaligned == "length":
            length = rng.choice([0, odd, length + odd])
        self.beat = beat
        self.before = bytes(self.destination.data) if self.destination else b""
        self.descriptor = (
            job.descriptor.words()
            + length.to_bytes(4, "little")
            + source.to_bytes(8, "little")
            + destination.to_bytes(8, "little")
            + rng.randbytes(4)
            + bytes(4)
        )

    def status(self):
        """The status in memory, which is 0 at first."""
        return int.from_bytes(self.ring.data[self.place + 60 : self.place + 64], "little")

    def wanted(self, data):
        """What is in the destination at the end, if `data` come out."""
        kept = self.job.out[1]
        return bytes(data[at] if any(kept[at : at + 1]) else old for at, old in enumerate(self.before))

    def is_long(self):
        return len(self.before) > 4096 and self.status() == 0

    def check_left(self):
        """Checks what a reset left of a job that has no status: each beat of its destination is as
        it was or as it would have become. Returns whether beats of both kinds are left."""
        assert self.status() == 0
        if self.destination is None:
            return False
        now = bytes(self.destination.data)
        # After a read error the data are undefined, but not which bytes are written.
        wanted = self.wanted(now if self.job.read_error else self.job.out[0])
        parts = [slice(at, at + self.beat) for at in range(0, len(now), self.beat)]
        for part in parts:
            assert now[part] in (self.before[part], wanted[part]), f"{self.job.descriptor}, {part}"
        written = [now[part] != self.before[part] for part in parts]
        return any(written) and not all(written)

    def check(self):
        job = self.job
        status = self.status()
        want = DONE | job.status | READ_ERROR * job.read_error | WRITE_ERROR * job.write_error
        what = f"{job}, status {status:#x}"
        assert status == want, f"{what}, expected {want:#x}"
        self.ring.poison -= set(range(self.place, self.place + 64))
        if self.destination is None:
            return
        for buffer in (self.source, self.destination):
            if buffer in self.memory.buffers:
                self.memory.buffers.remove(buffer)
        if job.read_error or job.write_error:
            return
        assert self.destination.data == self.wanted(job.out[0]), what


def on_the_bus(job, rng, errors):
    """The job with something that goes wrong on the bus, in some cases. `fill` must have set its
    output."""
    made = DmaJob(**vars(job))
    if rng.random() >= errors:
        return made
    kind = rng.choice(["fetch", "read", "write", "source", "destination", "length"])
    if kind == "fetch":
        made.fetch_error, made.status, made.out = True, FETCH, (b"", b"")
    elif made.packet is None:
        pass
    elif kind == "read":
        made.read_error = True
    elif kind == "write":
        made.write_error = any(made.out[1])
    else:
        made.misaligned, made.status, made.out = kind, ADDRESS, (b"", b"")
    return made


async def run_jobs(core, steps):
    last_use = {}
    for step in steps:
        if isinstance(step, KeyCommand):
            while core.done < last_use.get(step.slot, 0):
                await core.look()
            assert await core.command_key(step.op, step.slot, step.key) == step.result
            continue
        await core.submit(step)
        last_use[step.descriptor.slot] = core.submitted
    await core.finish()


def plan(core, rng, count, bad=0.15, errors=0.25):
    planner = Planner(core.built, rng)
    steps = [planner.load(slot) for slot in range(3)]
    for _ in range(count):
        if rng.random() < 0.05:
            steps.append(change_key(planner, rng))
        steps.append(planner.bad() if rng.random() < bad else planner.good())
    # Units of several bursts, which are not whole blocks, and some that are.
    for unit_len in (4096, 4104, 1000, 520):
        steps.append(planner.good(unit_len=unit_len, unit_count=2, mode=host.XTS))
    planner.fill(steps)
    return [on_the_bus(step, rng, errors) if isinstance(step, Job) else step for step in steps]


@cocotb.test()
async def descriptors(dut):
    """Random descriptors and failures in both directions without stalls, in rings of several sizes."""
    rng = rng_of("descriptors")
    core = Dma(dut, rng)
    await core.start(ring_log2=5)
    for ring_log2 in (5, 0, 1):
        core.ring_log2 = ring_log2
        await core.reset()
        await core.enable()
        await run_jobs(core, plan(core, rng, DESCRIPTORS // 3))
        await core.assert_quiet()


@cocotb.test()
async def stalls(dut):
    """The same with stalls on every channel."""
    rng = rng_of("stalls")
    core = Dma(dut, rng)
    await core.start(stalls=rng, ring_log2=4)
    await run_jobs(core, plan(core, rng, DESCRIPTORS))
    await core.assert_quiet()


@cocotb.test()
async def resets(dut):
    """Resets by the wire and by the register at any moment. After a reset by the register the bus
    finishes what it has begun, and then the memory is not accessed any more. What was done is
    complete, and the rest is partly written at most."""
    rng = rng_of("resets")
    core = Dma(dut, rng)
    await core.start(stalls=rng, ring_log2=4)
    torn = 0
    for turn in range(RESETS):
        core.stall(rng)
        busy = cocotb.start_soon(run_jobs(core, plan(core, rng, 12)))
        await ClockCycles(dut.clk, rng.randrange(700, 3000))
        # Every fourth reset is in the middle of a long descriptor's writes, of which the memory takes
        # no more until long after the reset.
        held = turn % 4 == 0
        if held:
            while not any(work.is_long() and work.check_left() for work in core.pending):
                await ClockCycles(dut.clk, 5)
                assert not busy.done()
            core.stall_no_more()
            core.slave.write_if.w_channel.pause = True
            await ClockCycles(dut.clk, 200)
        busy.kill()
        left = core.pending
        if turn % 2:
            await core.reset()
        else:
            await core.reset_by_register(held)
        accesses = core.memory.accesses
        for register in (host.HEAD, host.TAIL, host.SLOT_STATE, host.CONTROL, RING_LOW, RING_LOG2):
            assert await core.read(register) == 0, hex(register)
        await ClockCycles(dut.clk, 300)
        assert core.memory.accesses == accesses
        while left and left[0].status():
            left.pop(0).check()
        torn += any([work.check_left() for work in left])
        assert not core.memory.faults, core.memory.faults
        core.memory.buffers.clear()
        await core.enable()
        await run_jobs(core, plan(core, rng, 1))
        assert await core.read(host.IRQ_STATUS) & BUS_ERROR == 0
    assert torn >= RESETS // 4, "no reset in the middle of a descriptor's writes"
    await core.assert_quiet()


@cocotb.test()
async def registers(dut):
    """The registers of the ring, the interrupt, and a status that cannot be written."""
    rng = rng_of("registers")
    core = Dma(dut, rng)
    await core.start()
    config = await core.read(host.CONFIG)
    assert config >> 16 & 0x1F == 0x10 and config & 0xF == core.built.LANES
    # With ENABLE, the ring stays where it is.
    await core.write(RING_LOW, 0x1234_5678, 0x9ABC_DEF0, 15)
    low, high = core.ring.start % 2**32, core.ring.start >> 32
    assert [await core.read(r) for r in (RING_LOW, RING_HIGH, RING_LOG2)] == [low, high, 3]
    await core.write(host.CONTROL, 0)
    await core.write(RING_LOW, 0x1234_567F, 0x9ABC_DEF0, 15)
    read = [await core.read(r) for r in (RING_LOW, RING_HIGH, RING_LOG2, 0x80C, 0xFFC)]
    assert read == [0x1234_5640, 0x9ABC_DEF0, 15, 0, 0]
    # A ring of more than 32,768 places is refused: the register stays as it is.
    await core.write(RING_LOG2, 3)
    for log2 in (16, 19, 0x8000_0004, 0xFFFF_FFFF):
        await core.write(RING_LOG2, log2)
        assert await core.read(RING_LOG2) == 3, hex(log2)
    await core.enable()
    # No more than the ring has room for.
    await core.write(host.TAIL, 9)
    assert await core.read(host.TAIL) == 0
    planner = Planner(core.built, rng)
    step = planner.load(1)
    assert await core.command_key(step.op, step.slot, step.key) == host.KEY_OK
    await core.write(host.IRQ_STATUS, 7)
    await core.write(host.IRQ_ENABLE, 5)
    job = planner.good(slot=1, unit_len=512, unit_count=3)
    planner.fill([job])
    await core.submit(on_the_bus(job, rng, 0))
    while not dut.irq.value:
        # The interrupt comes after the status.
        assert await core.read(host.IRQ_STATUS) == 0 or dut.irq.value
    await core.finish()
    assert await core.read(host.IRQ_STATUS) == 1
    await core.write(host.IRQ_STATUS, 1)
    await ClockCycles(dut.clk, 3)
    assert not dut.irq.value
    core.ring.poison.add(64 * 1 + 61)
    await core.submit(on_the_bus(planner.refused(host.NO_DATA, unit_count=0), rng, 0))
    while await core.read(host.HEAD) != 2:
        pass
    assert await core.read(host.IRQ_STATUS) == 1 + BUS_ERROR
    assert dut.irq.value
    # Only the statuses are written, so the place is as it was.
    assert core.ring.data[124:128] == bytes(4)
    core.pending.clear()
    core.done = 2
    core.ring.poison.clear()
    # The next one is not affected.
    await core.submit(on_the_bus(planner.refused(host.NO_DATA, unit_len=0), rng, 0))
    await core.finish()
    await core.assert_quiet()
