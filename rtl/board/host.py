#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests the core on a board through its serial port, with the known answers of IEEE 1619.

    host.py PORT [--longest BYTES] [--vectors FILE]

PORT is the serial port, for example /dev/ttyUSB0. It resets the core, prints how it was built, and
runs every vector of FILE that the core supports, in each direction that it has. uart_bridge.sv
describes the messages, and xts_regs.sv the registers. It needs Linux and nothing else.
"""

import argparse
import fcntl
import os
import select
import sys
import termios
import time
from pathlib import Path

VECTORS = Path(__file__).resolve().parents[2] / "vectors/xts/ieee1619-2007-annex-b.txt"

# Commands. The first byte of an answer is that of its command plus 0x80.
READ, WRITE, BEAT_IN = 1, 2, 3
RESET, BEAT_OUT, INTERRUPT = 0x80, 0x84, 0x85
# Bytes of each message after the first.
REST = {0x80: 0, 0x81: 5, 0x82: 1, 0x83: 0, BEAT_OUT: 17, INTERRUPT: 0, 0xFF: 0}
LAST, FAILED = 0x80, 0x40

ID, VERSION, CONFIG, CONTROL, STATUS = 0x000, 0x004, 0x008, 0x00C, 0x010
TAIL, KEY_COMMAND, KEY_STATUS, KEY_DATA, KEY_TWEAK, RING = 0x020, 0x030, 0x034, 0x040, 0x060, 0x800
# Linux: begin and end a break. Python 3.11 has no names for them.
TIOCSBRK, TIOCCBRK = 0x5427, 0x5428
EQUAL_KEYS = "refused: the data key equals the tweak key"


class Serial:
    """A serial port with 1,000,000 baud, 8 data bits, no parity and 1 stop bit."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR | os.O_NOCTTY)
        try:
            settings = termios.tcgetattr(self.fd)
            mode = termios.CS8 | termios.CREAD | termios.CLOCAL
            settings[:6] = [0, 0, mode, 0, termios.B1000000, termios.B1000000]
            settings[6][termios.VMIN], settings[6][termios.VTIME] = 1, 0
            termios.tcsetattr(self.fd, termios.TCSANOW, settings)
        except termios.error as error:
            why = error.args[1]
            raise ValueError(f"{path} is no serial port of 1,000,000 baud: {why}") from error

    def send_break(self):
        fcntl.ioctl(self.fd, TIOCSBRK)
        # An adapter may keep bytes back for some time, those of FTDI for 16 ms.
        time.sleep(0.05)
        # What the core sent before it was reset.
        termios.tcflush(self.fd, termios.TCIOFLUSH)
        fcntl.ioctl(self.fd, TIOCCBRK)

    def write(self, data):
        while data:
            data = data[os.write(self.fd, data) :]

    def read(self, count):
        data = b""
        while len(data) < count:
            if not select.select([self.fd], [], [], 2)[0]:
                raise TimeoutError("the core does not answer")
            came = os.read(self.fd, count - len(data))
            if not came:
                raise OSError("the serial port hung up")
            data += came
        return data


class Core:
    """The core behind `port`, which has the functions of `Serial`."""

    def __init__(self, port):
        self.port = port
        self.beats = []
        self.submitted = 0
        port.send_break()
        if self.message()[0] != RESET:
            raise ValueError("the core did not report its reset")
        found = self.read(ID), self.read(VERSION) >> 16
        if found != (0x4C585453, 1):
            raise ValueError(f"no core of version 1 answers: {found[0]:#x}, {found[1]}")
        config = self.read(CONFIG)
        ways, sizes = {6: "encrypt", 7: "decrypt"}, {4: 128, 5: 256}
        self.directions = [ways[bit] for bit in ways if config >> bit & 1]
        self.key_bits = [sizes[bit] for bit in sizes if config >> bit & 1]
        self.write(CONTROL, 1)

    def message(self):
        first = self.port.read(1)[0]
        if first not in REST:
            raise ValueError(f"{first:#x} begins no message")
        return first, self.port.read(REST[first])

    def command(self, first, rest):
        """Sends a command and returns its answer. Keeps the beats that come before it."""
        self.port.write(bytes([first]) + rest)
        while True:
            code, answer = self.message()
            if code == BEAT_OUT:
                self.beats.append(answer)
            elif code == first + 0x80:
                return answer
            elif code != INTERRUPT:
                raise ValueError(f"{code:#x} answers no command {first:#x}")

    def read(self, address):
        answer = self.command(READ, address.to_bytes(2, "little"))
        if answer[0]:
            raise ValueError(f"reading {address:#x} failed with {answer[0]}")
        return int.from_bytes(answer[1:], "little")

    def write(self, address, value):
        answer = self.command(WRITE, address.to_bytes(2, "little") + value.to_bytes(4, "little"))
        if answer[0]:
            raise ValueError(f"writing {address:#x} failed with {answer[0]}")

    def write_words(self, address, data):
        for at in range(0, len(data), 4):
            self.write(address + at, int.from_bytes(data[at : at + 4], "little"))

    def load_key(self, data_key, tweak_key):
        """Loads slot 0, and returns the result of the command: 0 if the key is there."""
        self.write_words(KEY_DATA, data_key)
        self.write_words(KEY_TWEAK, tweak_key)
        self.write(KEY_COMMAND, int(len(data_key) == 32) << 16 | 1)
        for _ in range(1000):
            if not (status := self.read(KEY_STATUS)) & 1:
                return status >> 4
        raise TimeoutError("the core does not finish loading a key")

    def crypt(self, direction, number, data):
        """Encrypts or decrypts a data unit with the key in slot 0. `number` is little-endian."""
        place = RING + 64 * (self.submitted % 32)
        self.submitted += 1
        self.write_words(place, number + bytes(8))
        self.write(place + 24, len(data))
        self.write(place + 28, 1)
        self.write(place + 32, int(direction == "decrypt") << 8)
        self.write(TAIL, self.submitted)
        self.beats = []
        for at in range(0, len(data), 16):
            flags = LAST if at + 16 >= len(data) else 0
            self.command(BEAT_IN, bytes([flags]) + data[at : at + 16].ljust(16, b"\0"))
        while not (self.beats and self.beats[-1][0] & LAST):
            code, beat = self.message()
            if code == BEAT_OUT:
                self.beats.append(beat)
        if self.beats[-1][0] & FAILED:
            raise ValueError(f"the data unit failed: status {self.read(place + 60):#x}")
        return b"".join(beat[1 : 1 + (beat[0] & 0x1F)] for beat in self.beats)


def vectors(path):
    """The vectors of a file, as dictionaries."""
    for block in path.read_text().split("\n\n"):
        lines = [line.split(" = ") for line in block.splitlines() if " = " in line]
        if fields := dict(lines):
            hexadecimal = {name: bytes.fromhex(fields[name]) for name in ("Key", "i", "PT", "CT")}
            yield {"COUNT": fields["COUNT"]} | hexadecimal


def test(core, path, longest):
    """Runs the vectors, and returns how many answers were right: at least one."""
    right = 0
    for vector in vectors(path):
        half = len(vector["Key"]) // 2
        name = f"vector {vector['COUNT']}: "
        if 8 * half not in core.key_bits or len(vector["PT"]) > longest:
            continue
        data_key, tweak_key = vector["Key"][:half], vector["Key"][half:]
        refused = core.load_key(data_key, tweak_key) != 0
        if refused != (data_key == tweak_key):
            raise ValueError(name + ("the key was refused" if refused else "no " + EQUAL_KEYS))
        if refused:
            print(name + EQUAL_KEYS)
            continue
        for direction in core.directions:
            data = [vector["PT"], vector["CT"]]
            given, expected = data if direction == "encrypt" else reversed(data)
            found = core.crypt(direction, vector["i"], given)
            if found != expected:
                raise ValueError(f"{name}{direction}: {found.hex()}, expected {expected.hex()}")
            print(f"{name}{direction} {len(given)} bytes: right")
            right += 1
    if right == 0:
        raise ValueError(f"{path} has no vector for this core of at most {longest} bytes")
    return right


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port")
    parser.add_argument("--vectors", type=Path, default=VECTORS)
    parser.add_argument("--longest", type=int, default=512, help="bytes of a data unit")
    options = parser.parse_args()
    try:
        core = Core(Serial(options.port))
        keys = " and ".join(f"AES-{bits}" for bits in core.key_bits)
        print(f"the core can {' and '.join(core.directions)} with {keys}")
        right = test(core, options.vectors, options.longest)
    except (OSError, ValueError, termios.error) as error:
        sys.exit(f"host.py: {error}")
    print(f"{right} answers are right")


if __name__ == "__main__":
    main()
