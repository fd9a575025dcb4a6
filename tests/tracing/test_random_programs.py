"""Random functions of up to 20 statements, with views, assignments and branches on shapes, against NumPy."""
from __future__ import annotations

import re

import numpy as np
from amount import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

DTYPES = ["float64", "float32", "int32", "int64", "bool"]
EXPRESSIONS = [
    "{a} + {b}", "{a} * {s}", "{s} - {a}", "np.maximum({a}, {b})", "{a} / {b}", "{a} // {s}", "{a} % {b}", "-{a}",
    "abs({a})", "np.where({a} > {b}, {a}, {b})", "np.where({a} > {s}, {s}, {b})", "{a} < {b}",
    "({a} > 0) & ({b} < 2)",
    "np.sum({a}, axis=0)", "{a}.max(axis=-1, keepdims=True)", "{a}.mean()", "np.sqrt(np.abs({a}) + 1)", "{a}.T",
    "{a}[1:]", "{a}[::-1]", "{a}[0]", "{a}[..., None]", "{a}.reshape(-1)", "{a}.astype({d})", "np.zeros_like({a})",
    "np.concatenate([{a}, {a}])", "np.stack([{a}, {a}], axis=-1)", "{a}.copy()",
    "np.broadcast_to({a}, (2,) + {a}.shape)",
    "np.clip({a}, -1, {s})", "np.isnan({a})", "np.ones({a}.shape, {d})", "({a} * 1) @ ({a} * 1).T",
    "np.full({a}.shape, {s})",
    "np.arange({a}.size).reshape({a}.shape)", "np.var({a}, axis=0)", "np.square({a})", "np.floor({a})", "{a} == {b}",
    "np.add({s}, {s}) * {a}", "n * {a}", "(n + 1) * 0.5 + {a}", "np.any({a} > 1, axis=0)", "np.sign({a})",
]
STATEMENTS = ["{a} += {s}", "{a} *= 2", "{a}[...] = {s}", "{a}[:1] = {b}", "{a}[{a} > 1] = {s}",
              "np.negative({a}, out={a})",
              "{a}[-1:] -= {s}", "{a} -= {b}"]
SCALARS = ["2", "0.5", "-1.5", "3", "n", "np.float32(1.5)", "np.int64(2)", "True"]


@st.composite
def sources(draw):
    """Draw the source of a function of arrays x, y and a number n; statements that fail are skipped alike."""
    names = ["x", "y"]
    lines = []
    for k in range(draw(st.integers(1, 20))):
        pick = st.sampled_from(names)
        fill = {"a": draw(pick), "b": draw(pick), "s": draw(st.sampled_from(SCALARS)),
                "d": repr(draw(st.sampled_from(DTYPES)))}
        if draw(st.integers(0, 3)):
            lines.append(f"v{k} = " + draw(st.sampled_from(EXPRESSIONS)).format(**fill))
            names.append(f"v{k}")
        else:
            lines.append(draw(st.sampled_from(STATEMENTS)).format(**fill))
    return lines


def runnable(lines, args):
    """Keep the statements that NumPy carries out, in dtypes that programs have and without out-of-range casts."""
    scope = {"np": np, "x": args[0].copy(), "y": args[1].copy(), "n": args[2]}
    kept = []
    for line in lines:
        trial = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in scope.items()}
        try:
            with np.errstate(all="raise", under="ignore"):
                exec(line, trial)  # a copy: a statement that fails half way must leave nothing
                values = [v for k, v in trial.items() if k[0] in "vxy"]
                if all(np.asarray(v).dtype.name in DTYPES and np.size(v) < 500 for v in values):
                    exec(line, scope)
                    kept.append(line)
        except (TypeError, ValueError, IndexError, NameError, ArithmeticError, AttributeError, RuntimeWarning):
            continue
    return kept


@settings(max_examples=drawn(150), deadline=None)
@given(data=st.data())
def test_random_functions(check, data):
    shape = tuple(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)))
    size = int(np.prod(shape))
    args = (
        (np.arange(size) - 2.0).reshape(shape).astype(data.draw(st.sampled_from(DTYPES[:4]))),
        (np.arange(size)[::-1] * 0.75 + 0.5).reshape(shape).astype(data.draw(st.sampled_from(DTYPES[:4]))),
        data.draw(st.sampled_from([2, 3, 0.25, -1.5])),
    )
    lines = runnable(data.draw(sources()), args)
    made = sorted({line.split(" = ")[0] for line in lines if re.match(r"v\d+ = ", line)})
    body = "".join(f"    {line}\n" for line in lines)
    scope = {"np": np, "__name__": "user"}
    exec(f"def fn(x, y, n):\n{body}    return {{{', '.join(f'{m!r}: {m} * 1' for m in made)}}}\n", scope)
    check(scope["fn"], *args)
