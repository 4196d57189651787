# SPDX-License-Identifier: MIT OR Apache-2.0
"""Expected bytes, from the reference implementation and from the known answers of standards."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import host

VECTORS = Path(__file__).resolve().parents[3] / "vectors"

MODES = {host.XTS: "xts", host.ECB: "ecb", host.CTR: "ctr"}


def ask(requests):
    """The bytes that the reference implementation (reference/examples/answers.rs) returns for
    each (descriptor, key, data)."""
    lines = []
    for descriptor, key, data in requests:
        mode = MODES[descriptor.mode]
        direction = "decrypt" if descriptor.decrypt else "encrypt"
        # Only XTS has a tweak key.
        key = key if descriptor.mode == host.XTS else key[: len(key) // 2]
        numbers = f"{descriptor.number} {descriptor.stride} {descriptor.unit_len}"
        lines.append(f"{mode} {direction} {key.hex()} {numbers} {data.hex()}\n")
    done = subprocess.run(
        [os.environ["LUXOR_ANSWERS"]],
        input="".join(lines),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    answers = [bytes.fromhex(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(lines)
    return answers


@dataclass
class KnownAnswer:
    name: str
    key: bytes
    number: int
    plaintext: bytes
    ciphertext: bytes


def known_answers(file):
    """The records in a file of vectors/xts whose data are whole bytes."""
    answers = []
    record = {}
    for line in (VECTORS / "xts" / file).read_text().splitlines() + [""]:
        name, equals, value = line.partition(" = ")
        if equals:
            record[name.lower()] = value.strip()
        elif "pt" in record:
            bits = int(record["dataunitlen"])
            if bits % 8 == 0:
                answers.append(known_answer(file, record, bits // 8))
            record = {}
    return answers


def known_answer(file, record, length):
    if "i" in record:
        number = int.from_bytes(bytes.fromhex(record["i"]), "little")
    else:
        number = int(record["dataunitseqnumber"])
    answer = KnownAnswer(
        f"{file}, COUNT = {record['count']}",
        bytes.fromhex(record["key"]),
        number,
        bytes.fromhex(record["pt"]),
        bytes.fromhex(record["ct"]),
    )
    assert len(answer.plaintext) == len(answer.ciphertext) == length, answer.name
    return answer


def counter_answers():
    """The examples of SP 800-38A, F.5, for the keys that the core has. The tweak key is the
    complement of the data key."""
    answers = []
    for text in (VECTORS / "ctr" / "sp800-38a-f5.txt").read_text().split("\n\n"):
        record = dict(line.split(" = ") for line in text.splitlines() if " = " in line)
        key = bytes.fromhex(record.get("KEY", ""))
        if len(key) in (16, 32):
            name = f"SP 800-38A, F.5, COUNT = {record['COUNT']}"
            key += bytes(byte ^ 0xFF for byte in key)
            texts = [bytes.fromhex(record[text]) for text in ("PLAINTEXT", "CIPHERTEXT")]
            answers.append(KnownAnswer(name, key, int(record["IV"], 16), *texts))
    return answers
