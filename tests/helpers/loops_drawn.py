"""Random programs of loops: slices that move, recurrences, writes through views, branches, helpers, lists and dicts.

Owns what is drawn. All numbers are multiples of an eighth and bounded, so that sums are exact in any order and results
are compared bit by bit. Does not own branches and `while` loops on data, which `tests/graph_breaks` draws.
"""
from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

HEADER = """
def q(v):
    return np.clip(np.floor(v * 8) / 8, -32, 32)

def helper(v, w):
    c = v - w * 0.5
    return c + 1 if np.ndim(c) else c

def touch(v, c):
    v[0] = c
    v[1:] -= 1
    return v

def program(a, b, m, k):
    n, s, total, kept = len(a), a[0] * 0.5, {"sum": 0.0}, []
    acc, out = np.zeros_like(a), np.zeros((n, n), a.dtype)
"""
FOOTER = "    return a, b * 1, m, s, acc, out, total, kept"
LOOPS = (
    "range(1, n - 1)", "range(1, n - 1)", "range(n - 2, 0, -1)", "range(1, n - 1, 2)", "range(2)", "range(0)",
    "(1, 2, 1)", "reversed(range(1, n - 1))",
)
INNER = ("range(1, {i} + 1)", "range({i}, n - 1)", "range(1, n - 1)", "range({i} - 1, 0, -1)", "range(1, 3)")
NUMBERS = (
    "a[{i}]", "a[{i} - 1]", "a[{i} + 1]", "b[n - 1 - {i}]", "m[{i}, {j}]", "m[{i} - 1, {j}]", "m[{j}, -{i}]", "s",
    "0.5", "{i} * 0.25", "a[k[{i}]]", "acc[{i}]", "out[{j}, {i}]", "b.max()", "q(a[:{i}].sum())", "len(kept)",
    "float({i})", "q((m[{i}] * b).sum())", "total['sum']",
)
TERMS = (
    "{x} + {y}", "{x} - {y}", "{x} * 0.5", "np.maximum({x}, {y})", "np.minimum({y}, 1) + {x}", "abs({x})", "-{y}",
    "helper({x}, {y})", "np.where({x} > {y}, {x}, -{y})", "{x}", "{x} * {y}", "{x} if {i} % 2 else {y}",
)
REGIONS = (
    "[:]", "[1:]", "[:-1]", "[{i}:]", "[:{i}]", "[{i} - 1:{i} + 1]", "[::2]", "[::-1]", "[1:{i} + 1]", "[{j}:{i} + 1]",
    "[{i}:{i} - 1:-1]", "[k]", "[b > 0]", "[-{i}:]", "[...]",
)
ROWS = ("a", "b", "acc", "m[{i}]", "m[:, {i}]", "out[{i}]", "m[{i} - 1]", "out[:, {j}]", "m[k[{i}]]", "np.diag(m)")
WRITTEN = ("a", "acc", "m[{i}]", "m[:, {i}]", "out[{i}]", "out[{j}]", "b")
PLACES = ("a[{i}]", "a[{i} - 1]", "m[{i}, {j}]", "acc[{i}]", "out[{j}, {i}]", "s", "acc[k[{i}]]", "b[-{i}]")
STATEMENTS = (
    "a[{i}], a[{i} - 1] = a[{i} - 1], a[{i}]", "m[[{i}, {i} - 1]] = m[[{i} - 1, {i}]]", "a, b = b, a",
    "kept.append(a[{i}])", "kept.append(m[{i}])", "kept = kept[-2:]", "total['sum'] = q(total['sum'] + a[{i}])",
    "touch(m[{i}], s)", "b = touch(b.copy(), a[{i}])", "np.add(a, b, out=acc); acc[:] = q(acc)",
    "np.add.at(acc, k, 0.5)", "row = m[{i}]; row[1:] = q(row[1:] + b[:-1])",
    "view = a[1:{i} + 1]; view *= 0.5; view[:] = q(view)",
    "out[{i}, :{i}] = m[:{i}, {i}]", "m = m.T", "b = a.copy()", "acc = q(acc + a)", "total[{i} % 3] = b[{i}]",
    "m[{i} - 1:{i} + 1, :2] = 0.25", "out += m; out[:] = q(out)", "s = q(s + a @ b)",
    "out[{i}] = np.cumsum(b) * 0 + a[::-1]",
    "a[:] = np.roll(a, 1)", "t = a; t[{j}] = 0.125", "acc[{i}:] = q(np.cumsum(a[{i}:]))",
)
CONDITIONS = ("{i} % 2 == 0", "{i} > {j}", "{i} == 1", "n > 5", "len(kept) < 2", "a[{i}] > b[{j}]", "s > 0")


@st.composite
def statements(draw: Any, depth: int, variables: tuple[str, ...], indent: str) -> list[str]:
    """Draw a block inside of the loops over some variables."""
    i, j = variables[-1], variables[0]

    def one(options: tuple[str, ...], **names: str) -> str:
        return str(draw(st.sampled_from(options))).format(i=i, j=j, **names)

    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.integers(0, 9 if depth else 6))
        if kind <= 2:
            term = one(TERMS, x=one(NUMBERS), y=one(NUMBERS))
            lines.append(f"{indent}{one(PLACES)} = q({term})")
        elif kind <= 4:
            region = one(REGIONS)
            other = draw(st.sampled_from((region, region, f"[{i}]")))
            term = one(TERMS, x=one(ROWS) + region, y=one(ROWS) + other)
            target = one(WRITTEN) + region
            lines.append(f"{indent}{target} {draw(st.sampled_from(('=', '=', '+=', '-=')))} q({term})")
            lines.append(f"{indent}{target} = q({target})")
        elif kind <= 6:
            lines += [indent + s for s in one(STATEMENTS).split("; ")]
        elif kind == 7:
            lines += [f"{indent}if {one(CONDITIONS)}:", *draw(statements(depth - 1, variables, indent + "    "))]
            end = draw(st.sampled_from(("", "", "else", "continue", "break")))
            if end == "else":
                lines += [f"{indent}else:", *draw(statements(depth - 1, variables, indent + "    "))]
            elif end:
                lines.append(f"{indent}    {end}")
        else:
            name = f"i{len(indent) // 4}"
            lines += [f"{indent}for {name} in {one(INNER)}:",
                      *draw(statements(depth - 1, (*variables, name), indent + "    "))]
    return lines


@st.composite
def loop_programs(draw: Any) -> str:
    """Draw a program of one to three loops."""
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        lines += [f"    for i in {draw(st.sampled_from(LOOPS))}:", *draw(statements(2, ("i",), "        "))]
    return HEADER + "\n".join([*lines, FOOTER])
