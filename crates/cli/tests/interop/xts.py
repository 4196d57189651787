# SPDX-License-Identifier: MIT OR Apache-2.0
"""An independent XTS-AES over sectors, for the interoperation tests.

Each line of standard input is a job of seven fields, separated by tabs:

    encrypt|decrypt  SECTOR_SIZE  KEY_FILE  INPUT  OFFSET  LENGTH  OUTPUT

LENGTH bytes of INPUT from OFFSET on become the file OUTPUT. A sector's IV is its
own offset from OFFSET in units of 512 bytes, as 128 bits, little-endian. Every
finished job is answered by a line `done`.
"""

import sys

from cryptography.hazmat.backends import default_backend
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import XTS


def crypt(direction, sector_size, key, data):
    assert direction in ("encrypt", "decrypt"), direction
    assert len(data) % sector_size == 0, "no whole sectors"
    result = bytearray()
    for start in range(0, len(data), sector_size):
        iv = (start // 512).to_bytes(16, "little")
        cipher = Cipher(AES(key), XTS(iv), default_backend())
        context = cipher.encryptor() if direction == "encrypt" else cipher.decryptor()
        result += context.update(data[start : start + sector_size]) + context.finalize()
    return result


for line in sys.stdin:
    direction, sector_size, key_file, source, offset, length, target = line.rstrip("\n").split("\t")
    with open(key_file, "rb") as file:
        key = file.read()
    with open(source, "rb") as file:
        file.seek(int(offset))
        data = file.read(int(length))
    assert len(data) == int(length), "the input is too short"
    with open(target, "wb") as file:
        file.write(crypt(direction, int(sector_size), key, data))
    print("done", flush=True)
