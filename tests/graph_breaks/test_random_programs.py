"""Random programs with branches and loops on data, fused against plain Python, over several inputs each.

Sums have an order of their own in fused code, and the sign of what rounding leaves of `x - x.mean()` would decide a
branch. So what is assigned is rounded to multiples of 1/1024, of which sums are exact in any order: a program has one
answer, to the bit.
"""
from __future__ import annotations

from typing import Any

import numpy as np
from amount import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import EQUAL, check

VALUES = ("x", "y", "z")
EXPRESSIONS = (
    "{a} + {b}", "{a} * 0.5 - {b}", "np.maximum({a}, {b})", "{a} - {a}.mean()", "np.where({a} > {b}, {a}, -{b})",
    "-{a}", "np.abs({b})", "{a}[::-1] + {b}", "{a} * {k}", "np.cumsum({a}) * 0.25", "{a}.copy()", "{b}",
    "helper({a}, {b})", "{a} + n", "np.clip({a}, -3, 3)", "p[0] + {a}", "np.sort({a})",
)
CONDITIONS = (
    "{a}.sum() > {b}.sum()", "{a}[0] > 0", "({a} > {b}).any()", "not ({a} < 1).all()", "{a}.mean() != 0",
    "{a}.max() > 1 and {b}.min() < 0", "{a}[1] > 0 or n > 1",
    "0 < {a}.mean() < 1", "min({a}[0], {b}[1]) > -1", "{a}[2] == {a}[2]", "bool({a}.any())",
    "check({a})", "any(v > 2 for v in {a})", "{a}[{a} > 0].size > 2", "int(np.sum({a} > 0)) % 2", "len(seen) > 1",
)
HEADER = """
def helper(a, b):
    if a[0] > b[0]:
        return a - b * 0.25
    return b * 0.5

def check(a):
    return a[-1] > a[0]

def program(x, y):
    z, n, p, seen, w, v = x * 0.5, 0, [y, x], [], x.copy(), y[1:4]
"""


@st.composite
def statements(draw: Any, depth: int, inside: bool, indent: str) -> list[str]:
    """Draw a block; `inside` says that it stands in a loop."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        a, b = draw(st.sampled_from(VALUES)), draw(st.sampled_from(VALUES))
        k = draw(st.sampled_from((2, 0.5, -1)))
        condition = draw(st.sampled_from(CONDITIONS)).format(a=a, b=b)
        kind = draw(st.integers(0, 16 if depth else 6))
        if kind <= 2:
            value = draw(st.sampled_from(EXPRESSIONS)).format(a=a, b=b, k=k)
            lines.append(f"{indent}{a} = np.clip(np.rint(({value}) * 1024) / 1024, -9, 9)")
        elif kind == 3:
            lines.append(indent + draw(st.sampled_from((
                "n += 1", "p[0] = {a}", "p = [{a}, p[0]]", "seen.append({a}[0])", "seen = seen[-1:]", "n = n % 2",
                "x, y = y, x", "z = x", "n = n * 0", "y = z", "x, y, z = y, z, x", "p.reverse()", "p = [p[-1], {b}]",
                "v = {a}[1:4]", "v = {a}[::-1]", "{a} = p[0]",
            ))).format(a=a, b=b))
        elif kind == 4:
            lines.append(indent + draw(st.sampled_from((
                "{a}[1:3] = {b}[:2] * 0.5", "{a}[0] += 1", "w += {b} * 0.125", "{a} *= 0.5", "{a}[{a} > 1] -= 1",
                "w[::2] = {a}[::2]", "{a}[{b} < 0] = 0.25", "v *= 0.5", "v[:3] = {b}[2:]", "{a}[:] = {b}", "v[0] += 1",
                "{a}[1:] = {a}[:-1]", "p[0][::2] -= 1",
            ))).format(a=a, b=b))
        elif kind == 5 and inside:
            lines += [f"{indent}if {condition}:", f"{indent}    {draw(st.sampled_from(('break', 'continue')))}"]
        elif kind == 6:
            lines += [f"{indent}if {condition}:", f"{indent}    return {a}, {b} * 2, n"]
        elif 7 <= kind <= 9:
            lines += [f"{indent}if {condition}:", *draw(statements(depth - 1, inside, indent + "    "))]
            if draw(st.booleans()):
                lines += [f"{indent}else:", *draw(statements(depth - 1, inside, indent + "    "))]
        elif kind <= 11:
            turn = f"t{len(indent)}"
            least = draw(st.sampled_from((1, 3)))
            lines += [f"{indent}{turn} = np.minimum(np.abs({a}).max(), 40) + 1", f"{indent}while {turn} > {least}:",
                      f"{indent}    {turn} = {turn} * 0.5", *draw(statements(depth - 1, True, indent + "    "))]
        elif kind == 12:
            lines += [f"{indent}for i in range(3):", *draw(statements(depth - 1, True, indent + "    "))]
        elif kind == 14:
            count, step = f"c{len(indent)}", draw(st.sampled_from(("+= 1", "+= 2", "-= 1")))
            extra = draw(st.sampled_from(("", f" and {count} != 3", f" or {count} % 3")))
            lines += [f"{indent}{count} = {draw(st.sampled_from((0, 1, -1)))}",
                      f"{indent}while abs({a}).max() > 0.5 and -6 < {count} and {count} < 7{extra}:"
                      if draw(st.booleans()) else f"{indent}while ({condition}) and 5 > {count} and {count} >= -4:",
                      f"{indent}    {count} {step}", *draw(statements(depth - 1, True, indent + "    ")),
                      f"{indent}    if {count} % 2 == 0:", f"{indent}        {b} = {b} * 0.5",
                      f"{indent}if {count} > 3:", f"{indent}    return {b}, {count}"]
        elif kind >= 15:
            index = f"k{len(indent)}"
            bounds = draw(st.sampled_from(("9", "2, 8, 3", "5, -4, -2", "n + 4", "0", "1")))
            lines += [f"{indent}{index} = 100", f"{indent}for {index} in range({bounds}):",
                      *draw(statements(depth - 1, True, indent + "    ")),
                      f"{indent}    if {condition} and {index} > {draw(st.integers(-1, 3))}:",
                      f"{indent}        {draw(st.sampled_from(('break', 'continue', f'return {a}, {index}')))}"]
            if draw(st.booleans()):
                lines += [f"{indent}else:", *draw(statements(depth - 1, inside, indent + "    "))]
            lines += [f"{indent}if {index} < 2:", f"{indent}    {a} = {a} + 1"]
        elif kind == 13:
            lines += [f"{indent}try:", f"{indent}    if {condition}:", f"{indent}        raise ValueError('found')",
                      *draw(statements(depth - 1, inside, indent + "    ")), f"{indent}except ValueError:",
                      f"{indent}    {a} = {b} + 1"]
    return lines or [f"{indent}pass"]


@st.composite
def programs(draw: Any) -> str:
    body = draw(statements(2, False, "    "))
    return HEADER + "\n".join([*body, "    return x, y + z, n, p[0] * 1, seen, w, v + 0"])


@settings(max_examples=drawn(24), deadline=None)
@given(source=programs(), seed=st.integers(0, 2**16))
def test_programs(source: str, seed: int) -> None:
    space: dict[str, Any] = {"np": np, "__name__": "drawn"}
    exec(compile(source, "<drawn>", "exec"), space)
    function = space["program"]
    rng = np.random.default_rng(seed)
    calls = [tuple(np.rint(rng.standard_normal((2, 5)) * s * 64) / 64) for s in (1, 3, 0.3, 2)]
    check(function, *calls, within=EQUAL, errors=ValueError, compiled=False)


