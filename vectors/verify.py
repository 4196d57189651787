#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks every file here against the Python package `cryptography` (OpenSSL).

Run it in this folder after changing a vector: it prints a line per file, and
fails on the first difference. The Rust tests read the same files.
"""

import hashlib
import pathlib
import sys

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

HERE = pathlib.Path(__file__).parent


def records(path):
    """The records of a response file: (section, {name: value})."""
    section, record = None, {}
    for line in [*path.read_text().splitlines(), ""]:
        line = line.strip()
        if line.startswith("#"):
            continue
        if line.startswith("["):
            section = line.strip("[]")
        elif line:
            name, value = line.split("=")
            record[name.strip().lower()] = value.strip()
        elif record:
            yield section, record
            record = {}


def aes(key, mode):
    return Cipher(algorithms.AES(key), mode)


def encrypt(key, mode, data):
    encryptor = aes(key, mode).encryptor()
    return encryptor.update(data) + encryptor.finalize()


def xts_by_blocks(key, number, data):
    """XTS out of single AES blocks, for the key that OpenSSL refuses: vector 1."""
    assert len(data) % 16 == 0
    half = len(key) // 2
    tweak = int.from_bytes(encrypt(key[half:], modes.ECB(), number), "little")
    result = b""
    for at in range(0, len(data), 16):
        block = int.from_bytes(data[at : at + 16], "little") ^ tweak
        block = encrypt(key[:half], modes.ECB(), block.to_bytes(16, "little"))
        result += (int.from_bytes(block, "little") ^ tweak).to_bytes(16, "little")
        tweak = (tweak << 1) ^ (tweak >> 127) * ((1 << 128) | 0x87)
    return result


def schedule(key):
    """The key schedule of FIPS 197, 5.2, which the library does not show."""

    def times(a, b):
        product = 0
        while b:
            product ^= a * (b & 1)
            a = a << 1 ^ (a >> 7) * 0x11B
            b >>= 1
        return product

    box = []
    for byte in range(256):
        inverse = next((c for c in range(256) if times(byte, c) == 1), 0)
        spread = 0x63
        for turn in range(5):
            spread ^= inverse << turn & 255 | inverse >> (8 - turn)
        box.append(spread)
    words = [key[i : i + 4] for i in range(0, len(key), 4)]
    nk, rcon = len(words), 1
    for i in range(nk, 4 * (nk + 7)):
        temp = words[-1]
        if i % nk == 0:
            temp = bytes(box[b] for b in temp[1:] + temp[:1])
            temp = bytes([temp[0] ^ rcon]) + temp[1:]
            rcon = times(rcon, 2)
        elif nk > 6 and i % nk == 4:
            temp = bytes(box[b] for b in temp)
        words.append(bytes(a ^ b for a, b in zip(words[i - nk], temp)))
    return b"".join(words)


def parallel_ofb(section, record):
    """The ciphertext of Damjanovic and Simic, Listings 3 and 4, out of AES blocks."""
    value = lambda name: bytes.fromhex(record[name])
    key, plaintext = value("key"), value("plaintext")
    integer = lambda block: int.from_bytes(block, "little")

    def times_alpha(a):
        """Equation (6) of the paper, on bytes."""
        first = 2 * (a[0] % 128) ^ 135 * (a[15] // 128)
        return bytes([first, *(2 * (a[k] % 128) ^ a[k - 1] // 128 for k in range(1, 16))])

    def times(a, b):
        """Carry-less, then modulo x^128 + x^7 + x^2 + x + 1."""
        product = 0
        for bit in range(128):
            product ^= integer(a) >> bit & 1 and integer(b) << bit
        for bit in range(254, 127, -1):
            product ^= product >> bit & 1 and ((1 << 128) + 0x87) << bit - 128
        return product.to_bytes(16, "little")

    def thread(primary, secondary):
        feedback = tweak = encrypt(secondary, modes.ECB(), value("iv"))
        power = times_alpha(bytes([1] + 15 * [0]))
        for _ in range(0, len(plaintext), 16):
            if record["tweaks"] == "printed":
                tweak = times(power, tweak)
                power = times_alpha(power)
            else:
                tweak = times_alpha(tweak)
            feedback = bytes(t ^ f for t, f in zip(tweak, feedback))
            feedback = encrypt(primary, modes.ECB(), feedback)
            if section == "OFB-XEX":
                feedback = bytes(t ^ o for t, o in zip(tweak, feedback))
            yield feedback

    assert section in ("OFB-XEX", "OFB-XE") and record["tweaks"] in ("alpha", "printed")
    k1, k2 = key[: len(key) // 2], key[len(key) // 2 :]
    threads = [thread(k1, k2), thread(k2, k1)][: int(record["chains"])]
    result = plaintext
    for blocks in threads:
        result = bytes(p ^ k for p, k in zip(result, b"".join(blocks)))
    return result


def check(folder, section, record):
    """Whether a record holds; None when it is skipped."""
    value = lambda name: bytes.fromhex(record[name])
    key = value("key")
    if "schedule" in record:
        return schedule(key) == value("schedule")
    if folder == "xts":
        bits = int(record["dataunitlen"])
        if bits % 8:
            return None
        if "i" in record:
            number = value("i")
        else:
            number = int(record["dataunitseqnumber"]).to_bytes(16, "little")
        plaintext, ciphertext = value("pt"), value("ct")
        if len(plaintext) * 8 != bits or len(ciphertext) * 8 != bits:
            return False
        half = len(key) // 2
        if key[:half] == key[half:]:
            return xts_by_blocks(key, number, plaintext) == ciphertext
        return encrypt(key, modes.XTS(number), plaintext) == ciphertext
    plaintext, ciphertext = value("plaintext"), value("ciphertext")
    if folder == "parallel-ofb":
        return parallel_ofb(section, record) == ciphertext
    if folder == "ctr":
        mode = modes.CTR(value("iv"))
    elif folder == "ofb":
        mode = modes.OFB(value("iv"))
    elif folder == "cbc" and "salt" in record:
        if hashlib.sha256(key).digest() != value("salt"):
            return False
        mode = modes.CBC(encrypt(value("salt"), modes.ECB(), value("i")))
    elif folder == "cbc":
        mode = modes.CBC(value("iv"))
    else:
        mode = modes.ECB()
    return encrypt(key, mode, plaintext) == ciphertext


def main():
    for path in sorted(HERE.glob("*/*")):
        if path.parent.name == "gf128":
            continue
        ran = skipped = 0
        for section, record in records(path):
            outcome = check(path.parent.name, section, record)
            if outcome is False:
                sys.exit(f"{path.relative_to(HERE)}: [{section}] COUNT {record['count']} is wrong")
            ran += outcome is True
            skipped += outcome is None
        print(f"{path.relative_to(HERE)}: {ran} hold, {skipped} skipped")


if __name__ == "__main__":
    main()
