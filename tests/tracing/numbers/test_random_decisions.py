"""Random programs that decide by numbers, index by them, and change them in an object, over ever new numbers."""
from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from amount import drawn

import jitfuse as jf
from tests.oracle import ROUNDED, same

PLACES = ("n", "m", "n + 1", "n - 2", "2 * m", "n + m", "-n", "n // 2", "n * 3", "m - n")


class Written:
    """A random function as text."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        lines = ["def f(x, y, n, m, t, p):", "    k = 1", "    s = 0.0"]
        for _ in range(self.draw.randint(2, 6)):
            lines += self.statement(2, 1)
        self.name = f"<decisions {seed}>"
        self.text = "\n".join([*lines, "    return x, s, k", ""])
        linecache.cache[self.name] = len(self.text), None, self.text.splitlines(keepends=True), self.name

    def function(self) -> Callable[..., Any]:
        """Return the function, anew."""
        names: dict[str, Any] = {"G": [1, 2]}
        exec(compile(self.text, self.name, "exec"), names)
        found: Callable[..., Any] = names["f"]
        return found

    def number(self, depth: int) -> str:
        if not depth or self.draw.random() < 0.3:
            return self.draw.choice(["n", "m", "n", "m", "k", "t", "p.a", "G[0]", str(self.draw.randint(-3, 5)), "2.5"])
        one, other = self.number(depth - 1), self.number(depth - 1)
        plain = self.draw.choice(["+", "-", "*", "//", "%", "+", "-"])
        return self.draw.choice([f"abs({one})", f"-({one})", *[f"({one} {plain} {other})"] * 8])

    def condition(self, depth: int) -> str:
        if not depth or self.draw.random() < 0.5:
            relation = self.draw.choice(["<", "<=", ">", ">=", "==", "!="])
            return self.draw.choice([self.number(1), *[f"{self.number(2)} {relation} {self.number(1)}"] * 6])
        one, other = self.condition(depth - 1), self.condition(depth - 1)
        return self.draw.choice([f"not ({one})", f"({one} and {other})", f"({one} or {other})"])

    def statement(self, depth: int, indent: int) -> list[str]:
        space, place, width = "    " * indent, self.draw.choice(PLACES), self.draw.randint(1, 4)
        simple = [
            f"x = x * {self.number(1)} + 1", f"x = x + x[{place}]", f"s = s + x[{place} : {place} + {width}].sum()",
            f"x = x.copy(); x[{place} : {place} + {width}] = {self.number(1)}", f"x = x.copy(); x[{place}] += 1",
            f"k = {self.number(2)}", "p.a = p.a + 1", f"y[{place}] = s", "s = s + x[3]",
        ]
        if not depth or self.draw.random() < 0.6:
            return [space + self.draw.choice(simple)]
        lines = [f"{space}if {self.condition(2)}:", *self.statement(depth - 1, indent + 1)]
        if self.draw.random() < 0.6:
            lines += [f"{space}else:", *self.statement(depth - 1, indent + 1)]
        return lines


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except (ArithmeticError, IndexError, TypeError, ValueError) as error:
        return error


@pytest.mark.filterwarnings("ignore")  # np.errstate would keep native code away
@pytest.mark.parametrize("seed", range(drawn(36, least=8)))
def test_random_decisions(seed: int) -> None:
    written, draw = Written(seed), random.Random(seed)
    plain, fused = written.function(), jf.fuse(written.function())
    states = SimpleNamespace(a=0), SimpleNamespace(a=0)
    for call in range(40):
        n, m = draw.choice([call % 11, draw.randint(-4, 12)]), draw.randint(-2, 9)
        t = draw.choice([0.25, draw.random()])
        if seed % 3 == 0 and draw.random() < 0.3:
            n = draw.choice([True, False, 1.5, np.int64(n), 2**40, float(n)])
        if seed % 3 == 1 and draw.random() < 0.2:
            m = draw.choice([0.0, -0.0, float("nan"), float("inf"), True])
        given = [(np.arange(12.0) + call, np.zeros(12), n, m, t, state) for state in states]
        expected, found = outcome(plain, *given[0]), outcome(fused, *given[1])
        if isinstance(expected, Exception):  # checks of what nobody needs raise nothing (docs/differences.md)
            states[1].a = states[0].a
            continue
        assert not isinstance(found, Exception), (written.text, found)
        same(expected, found, ROUNDED)
        same(given[0][:2], given[1][:2], ROUNDED)
        assert states[0] == states[1], written.text
