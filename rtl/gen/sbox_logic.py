#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes rtl/rtl/aes_sbox_logic_{enc,dec,inv}.sv: the S-box of AES, its inverse, and the inversion
alone, in few levels of 4-input LUTs.

K is GF(2^8) as in FIPS-197, and F is the GF(2^4) in it: the elements z of K with z^16 = z. tr is
the trace of K and trf the trace of F, both onto GF(2). tr(z) = tr(z^16), and for f in F,
tr(f·z) = trf(f·(z + z^16)). Every linear function of z with values in GF(2) is tr(w·z) for
exactly one w in K.

An S-box is y = B(z^-1) + b with z = P(x) + p, where B and P are linear, and b and p are constant.
It is computed in three steps:

1. n = z^17 = z·z^16 is in F. Both factors are linear in z, so trf(c·n) is a quadratic form of
   the bits of x for any c in F. Some of the 15 forms have so few terms that each is the sum of
   three or four functions of four bits of x. Four such forms with independent c determine n.
2. d = 1/n is a function of these four bits, so trf(e·d) is one LUT for every e in F.
3. z^-1 = z^16/n = z^16·d. Bit i of B(z^-1) is tr(u·z^16·d) for some u in K. With a basis f_j of
   F and the dual basis e_j, d is the sum of trf(e_j·d)·f_j. So the bit is the sum of the four
   products trf(e_j·d) · tr(u·f_j·z^16) = trf(e_j·d) · tr(u^16·f_j·z), in which the second factor
   is linear in x. Each bit may have its own basis. The bases are chosen so that no linear
   function has more than four bits of x, and few different ones are needed.

So there are two levels of LUTs for n, one for d, one for pairs of products, and one for the sum
of two pairs. MixColumns and AddRoundKey take two more. Registers (CUTS below) divide these seven
levels into 4 and 3, into 3, 2 and 2, or into 2, 2, 1 and 2.
"""

import argparse
import functools
import itertools
import pathlib
import random


@functools.cache
def mul(a, b):
    r = 0
    while b:
        if b & 1:
            r ^= a
        a <<= 1
        if a & 0x100:
            a ^= 0x11B
        b >>= 1
    return r


def power(a, n):
    r = 1
    for _ in range(n):
        r = mul(r, a)
    return r


@functools.cache
def trace(a, degree):
    r = 0
    for _ in range(degree):
        r ^= a
        a = mul(a, a)
    assert r < 2
    return r


def tr(a):
    return trace(a, 8)


def trf(a):
    return trace(a, 4)


def bits(a):
    return [i for i in range(8) if a >> i & 1]


POWER16 = [power(z, 16) for z in range(256)]
POWER17 = [mul(z, POWER16[z]) for z in range(256)]
INVERSE = [power(z, 254) for z in range(256)]
F = [z for z in range(1, 256) if POWER16[z] == z]


def affine(v):
    """FIPS-197, 5.1.1, equation 5.1."""
    rotated = [v << k | v >> (8 - k) for k in range(5)]
    return (rotated[0] ^ rotated[1] ^ rotated[2] ^ rotated[3] ^ rotated[4] ^ 0x63) & 0xFF


IDENTITY = list(range(256))
AFFINE = [affine(v) for v in range(256)]
UNAFFINE = [AFFINE.index(v) for v in range(256)]

# The functions before and after the inversion.
KINDS = {
    "enc": ("The S-box of AES", IDENTITY, AFFINE),
    "dec": ("The inverse of the S-box of AES", UNAFFINE, IDENTITY),
    "inv": ("Inversion in the field of AES, with 1/0 = 0", IDENTITY, IDENTITY),
}


def bases():
    """Every basis of F with its dual."""
    for basis in itertools.combinations(F, 4):
        span = {0}
        for f in basis:
            span |= {s ^ f for s in span}
        if len(span) == 16:
            dual = [
                next(e for e in F if [trf(mul(e, f)) for f in basis] == unit)
                for unit in ([int(j == k) for k in range(4)] for j in range(4))
            ]
            yield list(zip(basis, dual))


BASES = list(bases())


GROUPS = [frozenset(group) for group in itertools.combinations(range(8), 4)]


class Sbox:
    def __init__(self, kind):
        self.what, self.before, self.after = KINDS[kind]
        self.choose_forms()
        self.choose_products()
        self.check()

    # Step 1.

    def form(self, c):
        """The terms of trf(c·n), as sets of bits of x (the algebraic normal form)."""
        t = [trf(mul(c, POWER17[self.before[x]])) for x in range(256)]
        for i in range(8):
            for x in range(256):
                if x >> i & 1:
                    t[x] ^= t[x ^ 1 << i]
        terms = [frozenset(bits(x)) for x in range(256) if t[x]]
        assert all(len(term) <= 2 for term in terms)
        return terms

    def cover(self, terms):
        """The fewest groups of four bits such that every term is within one."""
        within = [sum((t <= g) << i for i, t in enumerate(terms)) for g in GROUPS]
        most = max(w.bit_count() for w in within)

        def search(begin, count, left):
            """The first `count` groups from `begin` on that have all of `left`, if there are any."""
            if count == 0:
                return None if left else []
            if left.bit_count() <= count * most:
                for k in range(begin, len(GROUPS)):
                    rest = search(k + 1, count - 1, left & ~within[k])
                    if rest is not None:
                        return [GROUPS[k], *rest]
            return None

        everything = (1 << len(terms)) - 1
        groups = next(filter(None, (search(0, count, everything) for count in range(1, 7))))
        parts = [[] for _ in groups]
        for term in terms:
            home = next(k for k, g in enumerate(groups) if term <= g)
            parts[home].append(sorted(term))
        return [sorted(part) for part in parts]

    def choose_forms(self):
        covers = {c: self.cover(self.form(c)) for c in F}
        self.forms = []  # (c, parts)
        span = {0}
        for c in sorted(F, key=lambda c: (len(covers[c]), len(self.form(c)), c)):
            if c not in span:
                span |= {s ^ c for s in span}
                self.forms.append((c, covers[c]))

    # Step 3.

    def linear(self, w):
        """The bits of x in tr(w·z), and the constant term."""
        constant = tr(mul(w, self.before[0]))
        mask = sum((tr(mul(w, self.before[1 << i])) ^ constant) << i for i in range(8))
        return mask, constant

    def choose_products(self):
        options = []
        for i in range(8):
            u = next(
                u
                for u in range(256)
                if all(
                    tr(mul(u, 1 << j)) == (self.after[1 << j] ^ self.after[0]) >> i & 1
                    for j in range(8)
                )
            )
            pairs = ([(e, self.linear(mul(POWER16[u], f))) for f, e in b] for b in BASES)
            options.append([p for p in pairs if all(len(bits(l[0])) <= 4 for _, l in p)])

        # What an option costs, as bits: its factors, and its functions of more than one bit.
        factors = {e: 1 << k for k, e in enumerate(F)}
        functions = {}
        costs = {}
        for pairs in itertools.chain(*options):
            both = [0, 0]
            for e, linear in pairs:
                both[0] |= factors[e]
                if linear[0].bit_count() > 1:
                    both[1] |= functions.setdefault(linear, 1 << len(functions))
            costs[id(pairs)] = both

        def cost(choice):
            first = second = 0
            for pairs in choice:
                both = costs[id(pairs)]
                first |= both[0]
                second |= both[1]
            return first.bit_count() + second.bit_count()

        # From random starting points, improve the basis of one bit after the other while that
        # helps.
        rng = random.Random(1)
        found = None
        for _ in range(100):
            choice = [rng.choice(option) for option in options]
            before = None
            while before != cost(choice):
                before = cost(choice)
                for i in range(8):
                    choice[i] = min(
                        options[i], key=lambda o: cost(choice[:i] + [o] + choice[i + 1 :])
                    )
            if found is None or before < cost(found):
                found = choice
        self.products = found
        self.factors = sorted({e for pairs in found for e, _ in pairs})
        self.linears = sorted({l for pairs in found for _, l in pairs})

    def d_table(self, e):
        """trf(e·d) for each value of the four bits of n, with the value for 0 lowest."""
        table = 0
        for n in [0] + F:
            index = sum(trf(mul(c, n)) << k for k, (c, _) in enumerate(self.forms))
            table |= trf(mul(e, INVERSE[n])) << index
        return table

    def check(self):
        for x in range(256):
            bit = [x >> i & 1 for i in range(8)]
            n = sum(
                (sum(all(bit[i] for i in term) for part in parts for term in part) & 1) << k
                for k, (_, parts) in enumerate(self.forms)
            )
            y = self.after[0]
            for i, pairs in enumerate(self.products):
                for e, (mask, constant) in pairs:
                    value = (mask & x).bit_count() & 1 ^ constant
                    y ^= (self.d_table(e) >> n & 1 & value) << i
            assert y == self.after[INVERSE[self.before[x]]]


def text(kind):
    s = Sbox(kind)
    name = f"aes_sbox_logic_{kind}"

    def product(term):
        return "1'b1" if not term else " & ".join(f"x[{i}]" for i in term)

    quads = []
    sums = []
    for _, parts in s.forms:
        first = len(quads)
        for part in parts:
            quads.append(
                " ^ ".join(f"({product(t)})" if len(t) > 1 else product(t) for t in part)
            )
        sums.append(" ^ ".join(f"quad[{q}]" for q in range(first, len(quads))))

    lines = [
        "// SPDX-License-Identifier: MIT OR Apache-2.0",
        "// Generated by rtl/gen/sbox_logic.py, which explains the method.",
        f"// {s.what}, with REGS registers from x to y.",
        "`default_nettype none",
        "",
        f"module {name} #(",
        "    parameter int REGS = 0",
        ") (",
        "    input  wire        clk,",
        "    input  wire  [7:0] x,",
        "    output logic [7:0] y",
        ");",
        "  // The places of registers: after n, after d, after the products, after their sum.",
        "  localparam bit [3:0] CUTS = REGS == 0 ? 4'b0000 : REGS == 1 ? 4'b0010",
        "                            : REGS == 2 ? 4'b0101 : 4'b1011;",
        "",
        "  // Four bits of n, which are quadratic forms of x.",
        f"  wire [{len(quads) - 1}:0] quad;",
    ]
    lines += [f"  assign quad[{q}] = {terms};" for q, terms in enumerate(quads)]
    lines += ["  wire [3:0] n;"]
    lines += [f"  assign n[{k}] = {terms};" for k, terms in enumerate(sums)]
    lines += ["", "  // Linear functions of x.", f"  wire [{len(s.linears) - 1}:0] l;"]
    for k, (mask, constant) in enumerate(s.linears):
        terms = [f"x[{i}]" for i in bits(mask)] + (["1'b1"] if constant else [])
        lines.append(f"  assign l[{k}] = {' ^ '.join(terms)};")
    count_d, count_l = len(s.factors), len(s.linears)
    lines += [
        "",
        "  wire [3:0] n_q;",
        f"  wire [{count_l - 1}:0] l_n;",
        f"  delay_line #(.WIDTH({4 + count_l}), .CYCLES(CUTS[3] ? 1 : 0)) line_n (",
        "      .clk(clk), .d({n, l}), .q({n_q, l_n})",
        "  );",
        "",
        "  // Bits of 1/n.",
        f"  wire [{count_d - 1}:0] d;",
    ]
    lines += [
        f"  lut4 #(.TABLE(16'h{s.d_table(e):04x})) lut_d{k} (.x(n_q), .y(d[{k}]));"
        for k, e in enumerate(s.factors)
    ]
    lines += [
        "",
        f"  wire [{count_d - 1}:0] d_q;",
        f"  wire [{count_l - 1}:0] l_q;",
        f"  delay_line #(.WIDTH({count_d + count_l}), .CYCLES(CUTS[2] ? 1 : 0)) line_d (",
        "      .clk(clk), .d({d, l_n}), .q({d_q, l_q})",
        "  );",
        "",
        "  // The two halves of the sum for each bit of y.",
        "  wire [7:0] a, b;",
    ]
    for i, pairs in enumerate(s.products):
        terms = [f"(d_q[{s.factors.index(e)}] & l_q[{s.linears.index(l)}])" for e, l in pairs]
        lines.append(f"  assign a[{i}] = {terms[0]} ^ {terms[1]};")
        lines.append(f"  assign b[{i}] = {terms[2]} ^ {terms[3]};")
    constant = f" ^ 8'h{s.after[0]:02x}" if s.after[0] else ""
    lines += [
        "  wire [7:0] a_q, b_q;",
        "  delay_line #(.WIDTH(16), .CYCLES(CUTS[1] ? 1 : 0)) line_ab (",
        "      .clk(clk), .d({a, b}), .q({a_q, b_q})",
        "  );",
        "  delay_line #(.WIDTH(8), .CYCLES(CUTS[0] ? 1 : 0)) line_y (",
        f"      .clk(clk), .d(a_q ^ b_q{constant}), .q(y)",
        "  );",
        "endmodule",
        "",
        "`default_nettype wire",
        "",
    ]
    return name, "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    check = parser.parse_args().check
    folder = pathlib.Path(__file__).resolve().parent.parent / "rtl"
    for kind in KINDS:
        name, lines = text(kind)
        path = folder / f"{name}.sv"
        if not check:
            path.write_text(lines)
        elif path.read_text() != lines:
            raise SystemExit(f"{path} differs from what {__file__} writes without --check")


if __name__ == "__main__":
    main()
