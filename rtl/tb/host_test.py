# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests rtl/board/host.py against a simulation of the core behind a serial line.

    host_test.py SIMULATION

SIMULATION is rtl/tb/luxor_uart_lines.sv, compiled by Icarus. The port of the real program is
tested with a pseudo-terminal, which has no break.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "board"))
sys.dont_write_bytecode = True
import host  # noqa: E402

BREAK, NOTHING = 256, 257


class Simulated:
    """A port as `host.Serial`, with the simulation at its other end."""

    def __init__(self, simulation):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            ["vvp", "-n", simulation], stdin=pipe, stdout=pipe, text=True, bufsize=1
        )
        self.came = b""

    def step(self, number):
        self.process.stdin.write(f"{number}\n")
        words = self.process.stdout.readline().split()
        if not words or words.pop() != ".":
            raise ValueError(f"the simulation ended: {words}")
        self.came += bytes(map(int, words))

    def send_break(self):
        self.step(BREAK)
        self.came = b""

    def write(self, data):
        for byte in data:
            self.step(byte)

    def read(self, count):
        for _ in range(1000):
            if len(self.came) >= count:
                break
            self.step(NOTHING)
        else:
            raise TimeoutError("the core does not answer")
        data, self.came = self.came[:count], self.came[count:]
        return data


def raises(error, text, call, *arguments):
    try:
        call(*arguments)
    except error as found:
        assert text in str(found), found
    else:
        raise AssertionError(f"no {error.__name__}: {text}")


def simulation(path):
    port = Simulated(path)
    core = host.Core(port)
    assert (core.directions, core.key_bits) == (["encrypt"], [128])
    # Vectors 2, 3, and 15 to 18, which have ciphertext stealing. Vector 1 has equal keys.
    assert host.test(core, host.VECTORS, 32) == 6
    # A second reset empties the slot.
    core = host.Core(port)
    raises(ValueError, "status 0x8000000", core.crypt, "encrypt", bytes(16), bytes(16))
    # A test of nothing is no success.
    raises(ValueError, "has no vector for this core", host.test, core, host.VECTORS, 1)
    raises(ValueError, "has no vector for this core", host.test, core, Path(os.devnull), 512)
    # A core that stays busy.
    core.read = lambda address: 1
    raises(TimeoutError, "loading a key", core.load_key, bytes(16), bytes(range(16)))
    port.process.stdin.close()
    assert port.process.wait() == 0


def terminal():
    """All bytes pass a port unchanged, in both directions."""
    far, near = os.openpty()
    port = host.Serial(os.ttyname(near))
    everything = bytes(range(256))
    port.write(everything)
    assert os.read(far, 1000) == everything
    os.write(far, everything)
    assert port.read(256) == everything

    def wait(seconds):
        assert seconds > 0.016, "an adapter of FTDI may still have bytes"
        os.write(far, b"before the reset")

    with mock.patch("fcntl.ioctl"), mock.patch("time.sleep", wait):
        port.send_break()
    os.write(far, b"after")
    assert port.read(5) == b"after"
    # The board is unplugged. The alarm ends a program that reads for ever.
    os.close(far)
    signal.alarm(60)
    raises(OSError, "hung up", port.read, 1)
    signal.alarm(0)


def no_port():
    program = [sys.executable, host.__file__, os.devnull]
    ended = subprocess.run(program, capture_output=True, text=True)
    assert ended.returncode == 1, ended
    assert ended.stderr.startswith("host.py: /dev/null is no serial port"), ended.stderr


terminal()
no_port()
simulation(sys.argv[1])
print("PASS host.py")
