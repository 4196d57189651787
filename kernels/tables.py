#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes tables.h, computed from FIPS 197 alone. With --check, only compares."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


def times(a, b):
    """Returns the product in GF(2^8) (FIPS 197, 4.2)."""
    product = 0
    while b:
        product ^= a * (b & 1)
        a = a << 1 ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


def sbox():
    """Returns SubBytes (5.1.1): the inverse, then the affine transformation."""
    box = []
    for x in range(256):
        inverse = next((y for y in range(256) if times(x, y) == 1), 0)
        turned = [inverse << n | inverse >> 8 - n for n in range(5)]
        box.append((turned[0] ^ turned[1] ^ turned[2] ^ turned[3] ^ turned[4] ^ 0x63) & 0xFF)
    return box


def table(name, box, column):
    words = [
        sum(times(box[x], factor) << 8 * row for row, factor in enumerate(column))
        for x in range(256)
    ]
    text = f"CONSTANT_TABLE const u32 {name}[256] = {{\n"
    for at in range(0, 256, 8):
        text += "    " + " ".join(f"0x{word:08x}," for word in words[at : at + 8]) + "\n"
    return text + "};\n"


def main():
    box = sbox()
    inverse = [box.index(x) for x in range(256)]
    text = (
        "// SPDX-License-Identifier: MIT OR Apache-2.0\n"
        "// Written by tables.py. MixColumns of S(x), and InvMixColumns of InvS(x), in row 0\n"
        "// (FIPS 197, 5.1.3 and 5.3.3).\n\n"
        + table("T0", box, (2, 1, 1, 3))
        + "\n"
        + table("TD0", inverse, (14, 9, 13, 11))
    )
    file = HERE / "tables.h"
    if sys.argv[1:] == ["--check"]:
        if file.read_text() != text:
            sys.exit("tables.h is not what tables.py writes")
    else:
        file.write_text(text)


main()
