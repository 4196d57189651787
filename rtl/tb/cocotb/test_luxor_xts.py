# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests the whole core as a driver uses it, in the build that run.py made."""

import os
import random

import answers
import cocotb
import host
from cocotb.triggers import ClockCycles, RisingEdge
from host import Descriptor, Host
from plan import Job, KeyCommand, Planner

# `cargo xtask test --long` sets this.
LONG = "LUXOR_TEST_LONG" in os.environ

# In the build that has everything, and in each of the three others: a thousand in total in the long
# form.
RANDOM_DESCRIPTORS = (400, 200) if LONG else (120, 50)
# How often each kind of failure occurs, without stalls and then with stalls.
FAILURES = 4 if LONG else 1
# A multiple of 4, so that each kind of reset comes both while the core is busy and after that.
RESETS = 16 if LONG else 8

# Each file, and how far apart the records are that are taken from it.
known_answer_files = [
    ("ieee1619-2007-annex-b.txt", 1),
    ("tweak-128hexstr-XTSGenAES128.rsp", 40 if LONG else 100),
    ("tweak-128hexstr-XTSGenAES256.rsp", 40 if LONG else 100),
    ("tweak-dataunitseqno-XTSGenAES128.rsp", 40 if LONG else 100),
    ("tweak-dataunitseqno-XTSGenAES256.rsp", 40 if LONG else 100),
]


def rng_of(test):
    return random.Random(f"{cocotb.RANDOM_SEED} {test}")


def expected(job):
    """The output packet of a job. A failed one, except EXCESS, ends with a beat without data."""
    data, kept = job.out
    hollow = job.status not in (host.DONE_OK, host.EXCESS)
    beat = host.Parameters.built().beat
    return data + bytes(beat * hollow), kept + bytes(beat * hollow), job.status != host.DONE_OK


async def check_packets(core, jobs):
    """Checks the packets of these jobs, in order."""
    for number, job in enumerate(jobs):
        if job.out is None:
            continue
        data, kept, failed = await core.packet()
        want_data, want_kept, want_failed = expected(job)
        what = f"descriptor {number}, {job.descriptor}"
        assert failed == want_failed, what
        assert kept == want_kept, f"{what}: {sum(kept)} bytes, expected {sum(want_kept)}"
        # The lanes of the hollow beat are zero, like all bytes that are not kept.
        assert data == want_data, f"{what}: wrong data {data.hex()}"


async def run_jobs(core, steps, rng):
    """Runs key commands and jobs in order, and checks all results."""
    jobs = [step for step in steps if isinstance(step, Job)]
    core.checker = cocotb.start_soon(check_packets(core, jobs))
    last_use = {}
    for step in steps:
        if isinstance(step, KeyCommand):
            # Descriptors of other slots continue meanwhile.
            await core.finish(last_use.get(step.slot, 0))
            assert await core.command_key(step.op, step.slot, step.key) == step.result
            state = await core.read(host.SLOT_STATE)
            assert state >> 2 * step.slot & 3 == step.state
            continue
        # The packet may come before its descriptor, or after it.
        early = rng.random() < 0.5
        if step.packet and early:
            core.send(step.packet)
        await core.submit(step.descriptor)
        last_use[step.descriptor.slot] = core.submitted
        if step.packet and not early:
            core.send(step.packet)
    await core.finish()
    await core.checker
    assert core.statuses[-len(jobs) :] == [job.status for job in jobs]


@cocotb.test()
async def known_answers(dut):
    """The vectors of the standards, using the slots in turn."""
    core = Host(dut)
    await core.start()
    records = []
    for file, step in known_answer_files:
        found = answers.known_answers(file)
        assert len(found) > 18
        records += found[::step]
    checked = 0
    jobs = []
    for number, record in enumerate(records):
        slot = number % 4
        half = len(record.key) // 2
        if len(record.key) not in core.built.key_lengths:
            assert await core.command_key(host.LOAD, slot, record.key) == host.KEY_SIZE
            continue
        if record.key[:half] == record.key[half:] and not core.built.PERMIT_EQUAL:
            assert await core.command_key(host.LOAD, slot, record.key) == host.KEY_EQUAL
            continue
        await core.finish()
        assert await core.command_key(host.LOAD, slot, record.key) == host.KEY_OK
        for decrypt in core.built.directions:
            length = len(record.plaintext)
            descriptor = Descriptor(record.number, 1, length, 1, slot, decrypt)
            texts = record.plaintext, record.ciphertext
            given, wanted = reversed(texts) if decrypt else texts
            padding = bytes(-length % core.built.beat)
            core.send(given + padding)
            await core.submit(descriptor)
            jobs.append((record.name, wanted))
    await core.finish()
    for name, wanted in jobs:
        data, kept, failed = await core.packet()
        assert not failed, name
        assert data[: sum(kept)] == wanted, name
        checked += 1
    assert core.statuses == [host.DONE_OK] * checked
    assert checked > (20 if LONG else 10)


@cocotb.test()
async def known_answers_of_ctr(dut):
    """SP 800-38A, F.5, in both directions: as one unit, without its last byte, and as four units."""
    core = Host(dut)
    await core.start()
    records = answers.counter_answers()
    assert [len(record.key) for record in records] == [32, 64]
    checked = 0
    for slot, record in enumerate(records):
        if not core.built.CTR or len(record.key) not in core.built.key_lengths:
            continue
        assert await core.command_key(host.LOAD, slot, record.key) == host.KEY_OK
        texts = [record.plaintext, record.ciphertext]
        for length, units in ((64, 1), (63, 1), (16, 4)):
            for decrypt, (given, wanted) in enumerate((texts, texts[::-1])):
                descriptor = Descriptor(
                    record.number, 1, length, units, slot, bool(decrypt), host.CTR
                )
                padding = bytes(-length % core.built.beat)
                parts = [given[at : at + length] + padding for at in range(0, units * length, length)]
                core.send(b"".join(parts))
                await core.submit(descriptor)
                data, kept, failed = await core.packet()
                made = bytes(byte for byte, keep in zip(data, kept) if keep)
                assert not failed and made == wanted[: length * units], record.name
                checked += 1
    await core.finish()
    assert checked == 6 * core.built.CTR * len(core.built.key_lengths)


@cocotb.test()
async def random_descriptors(dut):
    """Random descriptors, keys and failures, with stalls on every interface."""
    rng = rng_of("random_descriptors")
    core = Host(dut)
    await core.start(stalls=rng)
    planner = Planner(core.built, rng)
    steps = [planner.load(slot) for slot in range(3)]
    has_all = core.built.CIPHER == 2 and core.built.TWEAK == 2
    for _ in range(RANDOM_DESCRIPTORS[not has_all]):
        if rng.random() < 0.05:
            steps.append(change_key(planner, rng))
        steps.append(planner.bad() if rng.random() < 0.1 else planner.good())
    planner.fill(steps)
    await run_jobs(core, steps, rng)
    await core.assert_quiet()


def latency(built):
    """Cycles from the registers before the pipeline to the one before the output buffer."""
    return (3 if built.STAGES > 2 else 2) + (14 if built.KEY256 else 10) * built.STAGES


def change_key(planner, rng):
    slot = rng.randrange(4)
    if len(planner.good_slots()) > 1 and rng.random() < 0.3:
        if rng.random() < 0.5:
            return planner.clear(slot)
        half = planner.key()
        half = half[: len(half) // 2]
        return planner.load(slot, half + half)
    return planner.load(slot)


@cocotb.test()
async def every_failure(dut):
    """Each kind of invalid descriptor, between valid ones, with and without stalls."""
    rng = rng_of("every_failure")
    core = Host(dut)
    await core.start()
    planner = Planner(core.built, rng)
    length = rng.choice(core.built.key_lengths)
    equal = rng.randbytes(length // 2) * 2
    steps = [planner.load(0), planner.load(1, equal), planner.load(3)]
    for kind, _ in enumerate(planner.kinds()):
        for _ in range(FAILURES):
            steps.append(planner.good(slot=0))
            steps += [planner.kinds()[kind]() for _ in range(rng.choice([1, 1, 2, 5]))]
            steps.append(planner.good(slot=3))
    # The greatest possible lengths, cut.
    for beats in (1, 2, 40):
        for huge in (dict(unit_count=2**32 - 1, unit_len=32), dict(unit_len=2**24, unit_count=1)):
            steps.append(planner.cut(beats=beats, mode=host.XTS, **huge))
    planner.fill(steps)
    await run_jobs(core, steps, rng)
    await core.assert_quiet()
    core.stall(rng)
    await run_jobs(core, [step for step in steps if isinstance(step, Job)], rng)
    await core.assert_quiet()


@cocotb.test()
async def keys_in_use(dut):
    """A slot keeps its key while descriptors use it; other slots can be changed."""
    rng = rng_of("keys_in_use")
    core = Host(dut)
    await core.start()
    planner = Planner(core.built, rng)
    steps = [planner.load(0), planner.load(1)]
    jobs = [planner.good(slot=slot, unit_len=512, unit_count=8, mode=host.XTS) for slot in (0, 1, 0)]
    planner.fill(jobs)
    for step in steps:
        assert await core.command_key(step.op, step.slot, step.key) == host.KEY_OK
    core.sink.pause = True
    for job in jobs:
        await core.submit(job.descriptor)
        core.send(job.packet)
    while not (await core.read(host.STATUS)) & host.BUSY:
        pass
    await ClockCycles(dut.clk, 500)
    other = planner.key()
    for op in (host.LOAD, host.CLEAR):
        assert await core.command_key(op, 0, other) == host.KEY_IN_USE
    assert await core.command_key(host.LOAD, 2, other) == host.KEY_OK
    assert await core.command_key(host.LOAD, 4, other) == host.KEY_NO_SLOT
    assert await core.command_key(host.CLEAR, 255, other) == host.KEY_NO_SLOT
    assert await core.read(host.HEAD) == 0
    core.sink.pause = False
    await check_packets(core, jobs)
    await core.finish()
    assert await core.command_key(host.CLEAR, 0) == host.KEY_OK
    await core.assert_quiet()


@cocotb.test()
async def resets(dut):
    """Resets by the wire and by the register at any moment: no earlier state remains."""
    rng = rng_of("resets")
    core = Host(dut)
    await core.start(stalls=rng)
    for turn in range(RESETS):
        planner = Planner(core.built, rng)
        steps = [planner.load(slot) for slot in range(2)]
        steps += [planner.good() for _ in range(6)] + [planner.bad(), planner.good()]
        planner.fill(steps)
        busy = cocotb.start_soon(run_jobs(core, steps, rng))
        if turn % 4 == 3:
            await busy
        else:
            await ClockCycles(dut.clk, rng.randrange(1, 3500))
            busy.kill()
            core.checker.kill()
        if turn % 2:
            await core.reset()
        else:
            await core.reset_by_register()
        for register in (host.HEAD, host.TAIL, host.SLOT_STATE, host.CONTROL):
            assert await core.read(register) == 0, hex(register)
        while await core.read(host.STATUS):
            pass
        await core.enable()
    # No key and no beat may remain.
    job = Planner(core.built, rng)
    job.keys = [bytes(core.built.key_lengths[0])] * 4
    steps = [job.refused(host.EMPTY_SLOT, slot=slot) for slot in range(4)]
    await run_jobs(core, steps, rng)
    await core.assert_quiet()


@cocotb.test()
async def registers(dut):
    """The values of the registers, and the interrupt."""
    rng = rng_of("registers")
    core = Host(dut)
    await core.start()
    built = core.built
    assert await core.read(host.ID) == 0x4C585453
    assert await core.read(host.VERSION) == 0x00010000
    config = latency(built) << 24 | 5 << 16 | built.STAGES << 12 | built.TWEAK << 8
    config |= (True in built.directions) << 7 | (False in built.directions) << 6
    config |= built.CTR << 21 | built.KEY256 << 5 | built.KEY128 << 4 | built.LANES
    assert await core.read(host.CONFIG) == config
    while await core.read(host.STATUS) & host.ZEROISING:
        pass
    planner = Planner(built, rng)
    step = planner.load(2)
    await core.write(host.IRQ_ENABLE, 3)
    assert not dut.irq.value
    waiting = cocotb.start_soon(wait_for_irq(dut))
    assert await core.command_key(step.op, step.slot, step.key) == host.KEY_OK
    await waiting
    assert await core.read(host.IRQ_STATUS) == 2
    await core.write(host.IRQ_STATUS, 2)
    await ClockCycles(dut.clk, 3)
    assert not dut.irq.value
    job = planner.good(slot=2, unit_len=64, unit_count=5)
    planner.fill([job])
    waiting = cocotb.start_soon(wait_for_irq(dut))
    cycles = await core.read(host.CYCLES)
    await run_jobs(core, [job], rng)
    await waiting
    assert await core.read(host.IRQ_STATUS) == 1
    assert await core.read(host.BEATS_OUT) == len(job.packet) // built.beat
    assert await core.read(host.CYCLES) > cycles + len(job.packet) // built.beat
    await core.write(host.IRQ_STATUS, 1)
    await core.assert_quiet()
    assert not dut.irq.value


async def wait_for_irq(dut):
    while not dut.irq.value:
        await RisingEdge(dut.clk)


@cocotb.test()
async def full_speed(dut):
    """One beat per cycle from the first to the last, across units and descriptors."""
    rng = rng_of("full_speed")
    core = Host(dut)
    await core.start()
    planner = Planner(core.built, rng)
    for slot in (0, 1):
        step = planner.load(slot)
        await core.command_key(step.op, step.slot, step.key)
    unit = 512 * core.built.LANES
    jobs = [
        planner.good(slot=slot % 2, unit_len=unit, unit_count=4, mode=host.XTS) for slot in range(6)
    ]
    planner.fill(jobs)
    await core.write(host.CONTROL, 0)
    for job in jobs:
        await core.submit(job.descriptor)
        core.send(job.packet)
    await core.enable()
    frames = [await core.frame() for _ in jobs]
    assert [bytes(frame.tdata) for frame in frames] == [job.out[0] for job in jobs]
    first, last = frames[0].sim_time_start, frames[-1].sim_time_end
    await core.finish()
    beats = 24 * 32
    cycles = 1 + round((last - first) / (1000 * host.CYCLE_NS))
    cocotb.log.info("%d beats in %d cycles", beats, cycles)
    if core.built.TWEAK == 2:
        assert cycles == beats
    elif core.built.TWEAK == 1:
        # The number of each unit takes one place in the pipeline.
        assert cycles <= beats + 24
    else:
        assert cycles <= beats + 24 * (2 * latency(core.built) + 8)
