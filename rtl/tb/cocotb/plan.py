# SPDX-License-Identifier: MIT OR Apache-2.0
"""Descriptors with their packets, and the results that are expected."""

from dataclasses import dataclass, replace

import answers
import host
from host import Descriptor

BOUNDARIES = [16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 127, 128, 129, 143, 144, 145]
CARRIES = [2**32, 2**64, 2**127, 2**128]
LONG = 2**16


@dataclass
class Job:
    """A descriptor, its input `packet` (or None), its expected `status`, and `out`: the output
    packet as (bytes, kept) without the empty beat of a failure, or None without a packet."""

    descriptor: Descriptor
    packet: bytes
    status: int
    out: tuple
    key: bytes = b""


@dataclass
class KeyCommand:
    op: int
    slot: int
    key: bytes
    result: int
    state: int  # of the slot afterwards


class Planner:
    """Makes jobs for the keys that the slots have at that time."""

    def __init__(self, built, rng):
        self.built = built
        self.rng = rng
        self.keys = [None] * 4  # None, a key, or "equal"

    def key(self):
        length = self.rng.choice(self.built.key_lengths)
        return self.rng.randbytes(length)

    def load(self, slot, key=None):
        key = key or self.key()
        half = len(key) // 2
        if key[:half] == key[half:] and not self.built.PERMIT_EQUAL:
            self.keys[slot] = "equal"
            return KeyCommand(host.LOAD, slot, key, host.KEY_EQUAL, host.SLOT_EQUAL)
        self.keys[slot] = key
        state = host.SLOT_256 if half == 32 else host.SLOT_128
        return KeyCommand(host.LOAD, slot, key, host.KEY_OK, state)

    def clear(self, slot):
        self.keys[slot] = None
        return KeyCommand(host.CLEAR, slot, self.key(), host.KEY_OK, host.SLOT_EMPTY)

    def good_slots(self):
        return [slot for slot, key in enumerate(self.keys) if isinstance(key, bytes)]

    def descriptor(self, **fixed):
        """A valid descriptor, for a slot with a key."""
        rng = self.rng
        modes = [host.XTS, host.ECB, host.CTR]
        mode = fixed.pop("mode", rng.choices(modes, [6, 1, 4 * self.built.CTR])[0])
        lengths = [rng.choice(BOUNDARIES), rng.randrange(16, 200), rng.choice([511, 512, 513])]
        unit_len = rng.choices(lengths, [6, 3, 1])[0]
        if mode == host.ECB:
            unit_len -= unit_len % 16
        if mode == host.CTR:
            unit_len = rng.choice([unit_len, unit_len, rng.randrange(1, 16)])
        number = rng.choice([rng.getrandbits(128), rng.choice(CARRIES) - rng.randrange(1, 4)])
        fields = dict(
            number=number % 2**128,
            stride=rng.choice([0, 1, 8, 2**64 - 1, rng.getrandbits(64)]),
            unit_len=unit_len,
            unit_count=rng.choice([1, 1, 2, 3, rng.randrange(1, 9)]),
            slot=rng.choice(self.good_slots()),
            # Counter mode has no direction.
            decrypt=rng.choice([False, True] if mode == host.CTR else self.built.directions),
            mode=mode,
        )
        return Descriptor(**(fields | fixed))

    def beats(self, descriptor):
        """The number of beats in the packet of a descriptor."""
        return -(-descriptor.unit_len // self.built.beat) * descriptor.unit_count

    def good(self, **fixed):
        descriptor = self.descriptor(**fixed)
        packet = self.rng.randbytes(self.beats(descriptor) * self.built.beat)
        return self.job(descriptor, packet)

    def job(self, descriptor, packet):
        """The job of a valid descriptor. `fill` sets its `out`."""
        return Job(descriptor, packet, host.DONE_OK, None, self.keys[descriptor.slot])

    def refused(self, status, beats=None, **fixed):
        """A job that is refused, with a packet if its descriptor has bytes."""
        descriptor = self.descriptor(**fixed)
        if descriptor.unit_len * descriptor.unit_count == 0:
            return Job(descriptor, None, status, None)
        beats = beats or self.rng.choice([1, 2, 3, 20])
        packet = self.rng.randbytes(beats * self.built.beat)
        return Job(descriptor, packet, status, (b"", b""))

    def excess(self, beats=1, **fixed):
        job = self.good(**fixed)
        job.packet += self.rng.randbytes(beats * self.built.beat)
        job.status = host.EXCESS
        return job

    def cut(self, beats=None, **fixed):
        """A job whose packet ends too early: within a unit, or after one that is not the last."""
        while self.beats(descriptor := self.descriptor(**fixed)) < 2:
            pass
        beats = beats or self.rng.randrange(1, min(self.beats(descriptor), 100))
        packet = self.rng.randbytes(beats * self.built.beat)
        job = self.job(descriptor, packet)
        job.status = host.CUT
        return job

    def kinds(self):
        """Functions, each of which makes a job that fails in one way that this build and these
        keys allow."""
        rng, refused = self.rng, self.refused
        kinds = [
            lambda: refused(host.NO_DATA, unit_count=0),
            lambda: refused(host.NO_DATA, unit_len=0),
            lambda: refused(host.TOO_SHORT, unit_len=rng.randrange(1, 16), mode=host.XTS),
            lambda: refused(host.TOO_LONG, unit_len=2**24 + rng.choice([1, 16, 2**31])),
            lambda: refused(host.NO_SLOT, slot=rng.randrange(4, 256)),
            lambda: refused(host.ECB_TAIL, mode=host.ECB, unit_len=16 * rng.randrange(1, 9) + 5),
            self.cut,
            lambda: self.excess(rng.choice([1, 2, 30])),
        ]
        if None in self.keys:
            empty = self.keys.index(None)
            kinds.append(lambda: refused(host.EMPTY_SLOT, slot=empty))
        if "equal" in self.keys:
            equal = self.keys.index("equal")
            kinds.append(lambda: refused(host.EQUAL_KEYS, slot=equal))
        for other in {False, True} - set(self.built.directions):
            kinds.append(lambda: refused(host.NO_CIPHER, decrypt=other, mode=host.XTS))
        # Modes that do not exist, or not in this build.
        for mode in range(host.CTR + self.built.CTR, 4):
            kinds.append(lambda mode=mode: refused(host.NO_CIPHER, unit_len=48, mode=mode))
        return kinds

    def bad(self):
        return self.rng.choice(self.kinds())()

    def fill(self, jobs):
        """Lets the reference compute the expected outputs."""
        jobs = [job for job in jobs if isinstance(job, Job) and job.out is None and job.packet]
        requests = []
        for job in jobs:
            descriptor = job.descriptor
            if descriptor.unit_len > LONG:
                # If a unit is cut, its first blocks are those of a shorter unit.
                assert job.status == host.CUT and descriptor.unit_count == 1
                descriptor = replace(descriptor, unit_len=len(job.packet))
            units = self.units(descriptor, job.packet)
            requests.append((descriptor, job.key, units))
        for job, made in zip(jobs, answers.ask(requests)):
            job.out = self.on_beats(job.descriptor, made, len(job.packet) // self.built.beat)

    def units(self, descriptor, packet):
        """The units in a packet without padding and excess, a cut unit filled up with zeros."""
        step = -(-descriptor.unit_len // self.built.beat) * self.built.beat
        count = min(-(-len(packet) // step), descriptor.unit_count)
        units = [packet[step * i :][: descriptor.unit_len] for i in range(count)]
        return b"".join(unit.ljust(descriptor.unit_len, b"\0") for unit in units)

    def on_beats(self, descriptor, data, sent):
        """The beats that units are divided into, and which bytes count, if `sent` beats came."""
        beat, unit_len = self.built.beat, descriptor.unit_len
        padding = bytes(-unit_len % beat)
        units = [data[at : at + unit_len] for at in range(0, len(data), unit_len)]
        laid = b"".join(unit + padding for unit in units)
        kept = (b"\1" * unit_len + padding) * len(units)
        of_unit = (unit_len + len(padding)) // beat
        # A block waits for the partial block that steals from it. If that should come in the next
        # beat, and the packet has no next beat, the beat of the block is lost.
        steals = unit_len % 16 and descriptor.mode != host.CTR
        if steals and unit_len % beat < 16 and sent % of_unit == of_unit - 1:
            if sent < of_unit * descriptor.unit_count:
                sent -= 1
        return laid[: sent * beat], kept[: sent * beat]
