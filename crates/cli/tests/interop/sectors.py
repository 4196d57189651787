# SPDX-License-Identifier: MIT OR Apache-2.0
"""An independent encryption of sectors, for the interoperation tests.

Each line of standard input is a job of ten fields, separated by tabs:

    encrypt|decrypt  ENCRYPTION  SECTOR_SIZE  FIRST  UNIT  KEY_FILE  INPUT  OFFSET  LENGTH  OUTPUT

LENGTH bytes of INPUT from OFFSET on become the file OUTPUT. ENCRYPTION is dm-crypt's
name, such as aes-xts-plain64. A sector's number is its own offset from OFFSET, and FIRST
units of 512 bytes more, in units of UNIT bytes; 128 bits of it, little-endian, are its IV
or what ESSIV encrypts. Every finished job is answered by a line `done`.
"""

import hashlib
import sys

from cryptography.hazmat.backends import default_backend
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC, ECB, XTS


def essiv(key, number):
    context = Cipher(AES(hashlib.sha256(key).digest()), ECB(), default_backend()).encryptor()
    return context.update(number) + context.finalize()


MODES = {
    "aes-xts-plain64": lambda key, number: XTS(number),
    "aes-xts-plain": lambda key, number: XTS(number[:4] + bytes(12)),
    "aes-cbc-plain64": lambda key, number: CBC(number),
    "aes-cbc-plain": lambda key, number: CBC(number[:4] + bytes(12)),
    "aes-cbc-essiv:sha256": lambda key, number: CBC(essiv(key, number)),
}


def crypt(direction, encryption, sector_size, first, unit, key, data):
    assert direction in ("encrypt", "decrypt"), direction
    assert len(data) % sector_size == 0, "no whole sectors"
    mode = MODES[encryption]
    result = bytearray()
    for start in range(0, len(data), sector_size):
        number = ((first * 512 + start) // unit % 2**64).to_bytes(16, "little")
        cipher = Cipher(AES(key), mode(key, number), default_backend())
        context = cipher.encryptor() if direction == "encrypt" else cipher.decryptor()
        result += context.update(data[start : start + sector_size]) + context.finalize()
    return result


for line in sys.stdin:
    fields = line.rstrip("\n").split("\t")
    direction, encryption, size, first, unit, key_file, source, offset, length, target = fields
    with open(key_file, "rb") as file:
        key = file.read()
    with open(source, "rb") as file:
        file.seek(int(offset))
        data = file.read(int(length))
    assert len(data) == int(length), "the input is too short"
    with open(target, "wb") as file:
        file.write(crypt(direction, encryption, int(size), int(first), int(unit), key, data))
    print("done", flush=True)
