"""Recording: operators, literals, Python and NumPy scalars, looks at values."""
from __future__ import annotations

import operator
import warnings

import numpy as np
import pytest

from jitfuse.errors import DTypeError, LeakedTracerError, OutOfRangeError, TracedValueError
from jitfuse.ir.operators import ops
from jitfuse.tracing.abstract import BINARY, COMPARISONS, UNARY
from jitfuse.tracing.hooks import TracingHooks
from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.record.recorder import Recorder, activate
from jitfuse.tracing.record.session import Session
from jitfuse.tracing.tracer import trace

ARRAYS = {
    "float64": np.array([[1.5, -2.0, 0.25], [4.0, 5.0, -0.5]]),
    "float32": np.array([[1.5, -2.0, 0.25], [4.0, 5.0, -0.5]], "float32"),
    "int32": np.array([[3, -7, 2], [5, 9, 1]], "int32"),
    "int64": np.array([[3, -7, 2], [5, 9, 1]]),
    "bool": np.array([[True, False, True], [False, False, True]]),
}
OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.lt,
    operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
]


def _plain_or_type_error(fn, *args):
    """Return NumPy's result, or None where NumPy refuses it or answers in a dtype that programs do not have."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = np.asarray(fn(*args))
    except (TypeError, OverflowError):
        return None
    return result if result.dtype.name in ARRAYS else None


@pytest.mark.parametrize("other", [
    2, 2.5, True, np.float32(1.5), np.int32(3), np.int64(4), np.float64(0.5), np.bool_(1)])
@pytest.mark.parametrize("name", ARRAYS)
def test_operators_with_scalars(check, name, other):
    for op in OPERATORS:
        for fn in (lambda x, s, op=op: op(x, s), lambda x, s, op=op: op(s, x)):
            if _plain_or_type_error(fn, ARRAYS[name], other) is not None:
                check(fn, ARRAYS[name], other)
                check(lambda x, fn=fn: fn(x, other), ARRAYS[name])


@pytest.mark.parametrize("left", ARRAYS)
@pytest.mark.parametrize("right", ARRAYS)
def test_operators_between_arrays(check, left, right):
    for op in OPERATORS:
        if _plain_or_type_error(op, ARRAYS[left], ARRAYS[right]) is not None:
            check(lambda a, b, op=op: op(a, b), ARRAYS[left], ARRAYS[right][:1])


def test_literals_are_creation_steps_shared_by_value_and_type(check):
    t = check(lambda x: x * 0.0 + x * -0.0 + x * 0 + x * 0.0 + x * False, np.ones(3))
    literals = [s.attr("value") for s in t.program.steps if s.op_name == "full"]
    assert sorted(map(repr, literals)) == ["-0.0", "0", "0.0", "False"]
    assert len(t.program.feeds) == 1


def test_python_scalars_are_weak_feeds(check):
    t = check(lambda x, a: x * a, np.ones(3, "float32"), 2.5)
    (feed,) = [i for i in t.program.feeds if t.program.meta[i].weak]
    assert t.program.feed_names[feed] == "args[1]"
    assert not t.guarded_values


def test_operators_among_python_scalars_stay_weak(check):
    t = check(lambda x, a, b: x * (a * b + 1) ** 2 / a, np.ones(3, "float32"), 2.5, 3.0)
    assert not t.guarded_values
    check(lambda a, b: (a + b, a * 2, -a, a / b, a < b, abs(a), a // b, a % b), 2.5, -3.0)
    check(lambda a, b: (a + b, a * 2, -a, a / b, a < b, abs(a), a // b, a % b, a & b), 7, 3)


def test_numpy_functions_of_python_scalars_are_strong(check):
    check(lambda x, a: x + np.add(a, 1.0), np.ones(3, "float32"), 2.0)
    check(lambda x, a: x + np.sin(a), np.ones(3, "float32"), 2.0)
    check(lambda x, a: np.where(x > 0, a, 1), np.ones(3, "float32"), 2.0)
    check(lambda x, a: x * np.square(a), np.ones(3, "float32"), 2)


@pytest.mark.parametrize("look", [
    lambda x, n: sum([x] * n), lambda x, n: x[n], lambda x, n: x + [5, 6, 7][n],
    lambda x, n: x * {2: 4.0}[n], lambda x, n: x * int(n), lambda x, n: x * float(n), lambda x, n: x * (n << n),
    lambda x, n: x * len(f"{n:05d}"), lambda x, n: x * round(n), lambda x, n: x[:n], lambda x, n: x * 2 ** -n,
    lambda x, n: x * np.ones(n + 1), lambda x, n: x.sum(axis=n - 2),
    lambda x, n: x * n.bit_length(),
])
def test_a_read_of_a_python_scalar_guards_its_value(check, look):
    t = check(look, np.arange(3.0), 2)
    assert list(t.guarded_values.values()) == [2]


@pytest.mark.parametrize("decide", [
    lambda x, n: x * 2 if n else x, lambda x, n: x * (2 if n + 1 > 2 else 3), lambda x, n: x if not n // 2 else -x,
    lambda x, n: x[::-1] if -n in (-2, -3) else x, lambda x, n: x * max(n, 1),
])
def test_a_decision_by_a_python_scalar_guards_its_outcome(check, decide):
    t = check(decide, np.arange(3.0), 2)
    assert not t.guarded_values and any(guard.chain.kind == "computed" for guard in t.guards)


def test_isinstance_sees_python_types(check):
    def fn(x, n, a):
        kinds = isinstance(n, int), isinstance(a, float), isinstance(x, np.ndarray), isinstance(x, float)
        return x * 2 if kinds == (True, True, True, False) else x

    t = check(fn, np.ones(2), 1, 1.0)
    assert not t.guarded_values


def test_math_functions_guard(check):
    import math

    t = check(lambda x, a: x * math.sqrt(a) + math.pi, np.ones(2), 2.0)
    assert list(t.guarded_values.values()) == [2.0]


def test_python_ints_must_fit_int32(check):
    x = np.arange(3, dtype="int32")
    t = check(lambda x, n: x + n, x, 5)
    assert list(t.int_ranges.values()) == [(-(2**31), 2**31 - 1)]
    for fn in (lambda x: x + 2**40, lambda x: x.fill(2**40), lambda x: np.maximum(x, -(2**40))):
        with pytest.raises(OverflowError, match="out of bounds for int32"):
            trace(fn, (x,), {})
    with pytest.raises(OutOfRangeError, match="out of bounds for int32"):
        trace(lambda x, n: x + n, (x, 2**40), {})
    check(lambda x: (x < 2**40, x == -(2**35)), x)


def test_dtype_reads_as_numpys(check):
    def fn(x):
        assert x.dtype == np.float32 and x.dtype == "float32" and x.dtype != np.float64
        assert x.dtype in (np.float16, np.float32) and np.issubdtype(x.dtype, np.floating) and x.dtype.kind == "f"
        return np.zeros(3, x.dtype), x.astype(np.int32), x.astype(x.dtype), np.finfo(x.dtype).eps * x, x.dtype.itemsize

    check(fn, np.ones(3, "float32"))


def test_shape_ndim_and_size_are_plain_ints(check):
    check(lambda x: (x * x.shape[0], x.ndim, x.size, len(x), np.shape(x), np.ndim(x), np.size(x, 1)), np.ones((2, 3)))


def test_rows_unroll(check):
    check(lambda x: sum(row * k for k, row in enumerate(x)), np.arange(6.0).reshape(3, 2))
    check(lambda x: (lambda a, b: (b, a))(*x), np.arange(6.0).reshape(2, 3))
    check(lambda x, y: [a * b for a, b in zip(x, y)], np.arange(3.0), np.arange(3.0) + 1)


@pytest.mark.parametrize(("look", "word"), [
    (lambda x: x if np.sum(x) > 0 else -x, "bool()"),
    (lambda x: int(x[0]), "int()"), (lambda x: float(x.sum()), "float()"), (lambda x: x.sum().item(), "item()"),
    (lambda x: x.tolist(), "tolist()"), (lambda x: len(x.sum()), "len()"), (lambda x: list(x.sum()), "iter()"),
    (lambda x: np.ones(3)[int(x[0])], "int()"),
    (lambda x: range(x.astype(int)[0]), "int()"), (lambda x: x[: x.astype(int)[0]], "int()"),
    (lambda x: complex(x[0]), "complex()"), (lambda x: 3.0 in x, "bool()"), (lambda x: x[0] and x[1], "bool()"),
])
def test_reads_of_traced_data_raise(look, word):
    with pytest.raises(TracedValueError) as caught:
        trace(look, (np.arange(3.0),), {})
    text = str(caught.value)
    assert text.startswith(word) and text.count("test_traced.py:") == 2 - ("args[0]" in text)


@pytest.mark.parametrize("look", [
    lambda x: x if x else 0, lambda x: range(x[0]), lambda x: x[: x[0]], lambda x: int(x), lambda x: x.item(),
    lambda x: x.item(7),
])
def test_reads_that_numpy_refuses_raise_what_numpy_raises(look):
    with pytest.raises(Exception) as plain:
        look(np.arange(3.0))
    with pytest.raises(plain.type):
        trace(look, (np.arange(3.0),), {})


def test_values_made_of_constants_can_be_looked_at(check):
    def fn(x):
        total = 0
        for k in np.arange(3):
            total = total + x[k] * int(np.array([5, 6, 7])[k])
        return total if np.ones(2).sum() == 2 else x

    check(fn, np.arange(3.0))


def test_leaked_tracers_name_the_line_that_made_them():
    kept = []

    def fn(x):
        kept.append(x * 2)
        return x

    run = Recorder(Session())
    before = activate(run)
    x = TracingHooks(run).array(Chain.arg(0), np.ones(3))
    fn(x)
    activate(before)
    run.end()
    for use in (lambda: kept[0] + 1, lambda: np.sin(kept[0]), lambda: bool(kept[0]), lambda: kept[0][0]):
        with pytest.raises(LeakedTracerError, match=r"result of multiply .*test_traced\.py:\d+"):
            use()


def test_unsupported_dtypes_are_named():
    for bad in (np.ones(3, np.longdouble), np.array(["a"]), np.ones(3, ">f8")):
        with pytest.raises(DTypeError, match=r"args\[0\]"):
            trace(lambda x: x + x, (bad,), {})
    with pytest.raises(DTypeError, match="astype"):
        trace(lambda x: x.astype(np.longdouble), (np.ones(3),), {})


def test_source_lines_are_the_users():
    t = trace(lambda x: np.sum(x) + 1, (np.ones(3),), {})
    assert all("test_traced.py:" in line for line in t.program.sources.values())


def _halved(x):
    return x / 2


def _lines(x):
    for _ in range(2):
        x = x + 1
        x = _halved(x) * _halved(x)
    return [v - 1 for v in x] + [np.sum(x)]


def test_source_lines_tell_the_places_of_functions_apart():
    t = trace(_lines, (np.ones(3),), {})
    first, helper = (f.__code__.co_firstlineno for f in (_lines, _halved))
    lines = {"add": first + 2, "multiply": first + 3, "divide": helper + 1, "subtract": first + 4, "sum": first + 4}
    steps = [s for s in t.program.steps if s.op_name in lines]
    assert {s.op_name for s in steps} == set(lines)
    for step in steps:
        assert t.program.sources[step.step_id] == f"{__file__}:{lines[step.op_name]}", step


def test_operators_of_python_have_no_attributes():
    for name in (*BINARY.values(), *COMPARISONS.values(), *UNARY.values()):
        assert not ops.get(name).attrs, name


def test_numbers_that_are_equal_are_not_one_literal(check):
    def fn(x):
        return x / 0.0, x / -0.0, x * np.nan, x * np.nan, x + 1, x + 1.0, x + True, x * (1 + 0j), x * complex(1, -0.0)

    t = check(fn, np.array([1.0, -2.0, 0.0]))
    assert len({repr(s.attr("value")) for s in t.program.steps if s.op_name == "full"}) == 8
    assert sum(s.op_name == "full" for s in t.program.steps) == 8
