"""Functions with loops that end early, drawn at random, as source: every loop ends after a few rounds."""
from __future__ import annotations

import random

_VALUES = ("x[{j}]", "s", "0.5", "x[{j}] * 0.5", "s + x[{j}]", "abs(s - x[{j}])", "x[p[i]]", "min(s, 1.5)", "v")
_STATEMENTS = (
    "s += {e}", "s = {e}", "v = {e}", "c += 1", "y[i] += {e}", "x[{j}] = {e}", "y[{j}] = s", "c = c + {j}",
    "s = s * 0.5", "x[{j}] -= 0.25", "c += p[i]", "v = max(v, {e})", "s, v = v, s", "q = {j}", "y[i] = float(c)",
    "c = {j} // 2", "z = {e}",
)
_COUNTING = (
    ("i", "-= 1", "{j} > 0"), ("0", "+= 1", "{j} < n"), ("n - 1", "-= 1", "{j} >= 0"), ("i", "+= 1", "{j} < n"),
    ("p[i]", "+= 2", "{j} < n"), ("p[i]", "-= 1", "{j} > 0 and {j} < n"),
)
_RANGES = (
    "range(n)", "range(p[i], n)", "range(i)", "range(p[i])", "range(n - 1, -1, -1)", "range(i, n, 2)", "range(4)",
)


def source_of(seed: int) -> str:
    """Return the source of `function(x, p)`: of floats, and as many places among them."""
    return _Draw(random.Random(seed)).program()


class _Draw:
    def __init__(self, chance: random.Random) -> None:
        self.chance, self.lines, self.loops = chance, list[str](), 0

    def program(self) -> str:
        start, other = self.chance.choice(("0.0", "x[0]", "0.5")), self.chance.choice(("1.0", "x[-1]"))
        self.lines += ["import numpy as np", "def function(x, p):"]
        self.put(1, "n = len(x)", "y = np.zeros(n)", f"s = {start}", "c = 0", f"v = {other}")
        if self.chance.random() < 0.75:
            self.put(1, "for i in range(n):")
            (self.during if self.chance.random() < 0.6 else self.over)(("i",), 2, 2)
            self.block(("i",), 1, 2, "for")
        else:
            self.put(1, "i = 1")
            self.during(("i",), 2, 1)
        self.put(1, "return y, s, c, v")
        return "\n".join(self.lines) + "\n"

    def put(self, indent: int, *lines: str) -> None:
        self.lines += ["    " * indent + line for line in lines]

    def value(self, names: tuple[str, ...]) -> str:
        return self.chance.choice(_VALUES).format(j=self.chance.choice(names))

    def test(self, names: tuple[str, ...]) -> str:
        other = self.chance.choice(("0.4", "0.7", "s", "v", "x[i]", "1.1"))
        made = f"{self.value(names)} {self.chance.choice(('<', '>', '>=', '!='))} {other}"
        k = self.chance.random()
        if k < 0.2:
            made += f" and {self.chance.choice(names)} {self.chance.choice('<>')} {self.chance.choice('i30')}"
        elif k < 0.3:
            made = f"not ({made})"
        elif k < 0.4:
            made += f" or c % 3 == {self.chance.randrange(3)}"
        return f"({made})"

    def block(self, names: tuple[str, ...], depth: int, indent: int, loop: str) -> None:
        """Draw statements; `loop`: the kind of loop that they are the body of, if any."""
        for _ in range(self.chance.randint(1, 3)):
            k = self.chance.random()
            if k < 0.5 or depth <= 0:
                drawn = self.chance.choice(_STATEMENTS)
                self.put(indent, drawn.format(e=self.value(names), j=self.chance.choice(names)))
            elif k < 0.72:
                self.branch(names, depth - 1, indent, loop)
            else:
                (self.during if k < 0.88 else self.over)(names, depth - 1, indent)

    def branch(self, names: tuple[str, ...], depth: int, indent: int, loop: str) -> None:
        self.put(indent, f"if {self.test(names)}:")
        self.block(names, depth, indent + 1, "")
        k = self.chance.random()
        if loop and k < 0.5:
            self.put(indent + 1, "break")
        elif loop == "for" and k < 0.65:
            self.put(indent + 1, "continue")
        elif k < 0.8:
            self.put(indent, "else:")
            self.block(names, depth, indent + 1, "")
            if loop and self.chance.random() < 0.3:
                self.put(indent + 1, "break")

    def during(self, names: tuple[str, ...], depth: int, indent: int) -> None:
        self.loops += 1
        j, t = f"j{self.loops}", f"t{self.loops}"
        start, step, test = self.chance.choice(_COUNTING)
        tests = [f"{t} < {self.chance.choice((3, 7, 12))}", test.format(j=j)]
        if self.chance.random() < 0.7:
            tests.append(self.test((j,)))
        self.put(indent, f"{j} = {start}", f"{t} = 0", f"while {' and '.join(tests)}:")
        self.put(indent + 1, f"{t} += 1")
        self.block((j, j, *names), depth, indent + 1, "while")
        self.put(indent + 1, f"{j} {step}")

    def over(self, names: tuple[str, ...], depth: int, indent: int) -> None:
        self.loops += 1
        k = f"k{self.loops}"
        self.put(indent, f"for {k} in {self.chance.choice(_RANGES)}:")
        self.block((k, k, *names), depth, indent + 1, "for")
        if self.chance.random() < 0.25:
            self.put(indent + 1, f"if {self.test((k,))}:", "    break")
        if self.chance.random() < 0.2:
            self.put(indent, f"y[i] += {k}")
