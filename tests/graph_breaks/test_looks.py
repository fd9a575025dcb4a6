"""Each kind of look at traced data, with answers that change from call to call."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from split_results import check

import jitfuse as jf
from jitfuse.tracing.record import known_values

UP, DOWN = np.arange(1.0, 6.0), -np.arange(1.0, 6.0)
MIXED = np.array([3.0, -1.0, 2.0, -5.0, 0.0])
COUNTS = np.array([2, 0, 3])


def branches(x: Any) -> Any:
    if x.sum() > 0:
        return np.sin(x) + 1
    elif x[0] < -2:
        return x * 2
    return x - 1


def early(x: Any) -> Any:
    for k in range(3):
        if x[k] < 0:
            return k, x * k
    return -1, x


def ternary(x: Any) -> Any:
    return (x * 2 if x.max() > 2 else x / 2) + (1 if x.min() < 0 else 0)


def logic(x: Any) -> Any:
    big, small = x.max() > 2, x.min() < -2
    if big and small:
        return x * 1
    if big or small:
        return x * 2
    return x * 3 if not big else x


def chained(x: Any) -> Any:
    return x + 1 if 0 < x[0] < 2 else x - 1


def extremes(x: Any) -> Any:
    return min(x[0], x[1], key=abs) * x + max(x[2], x[3], x[0], key=lambda v: v * 2)


def any_of(x: Any) -> Any:
    return x * any(v > 2 for v in x) + all(v > -1 for v in x)


def contains(x: Any) -> Any:
    return x + (3.0 in x)


def filtered(x: Any) -> Any:
    return [v * 2 for v in x if v > 0]


def asserts(x: Any) -> Any:
    assert x.sum() > 0, "not positive"
    return x + 1


def raises(x: Any) -> Any:
    y = np.sqrt(np.abs(x))
    if x.min() < 0:
        raise ValueError(f"negative: {x.min()} of {x.size}")
    return y


def catches(x: Any) -> Any:
    try:
        if x.sum() < 0:
            raise KeyError("no")
        y = x + 1
    except KeyError:
        y = x - 1
    finally:
        z = x * 2
    return y + z


def helper(x: Any) -> Any:
    return bool((x > 2).any())


def helpers(x: Any) -> Any:
    return x + 1 if helper(x) and not helper(-x) else x * 2


def integers(x: Any) -> Any:
    n = int(np.sum(x > 0))
    return x[:n].sum() + n, np.ones(n), list(range(n))


def slices(x: Any) -> Any:
    n = (x > 0).sum()
    return x[:n] * 2, x[n:], x[n // 2 : n + 1].sum()


def indices(x: Any) -> Any:
    table = [10.0, 20.0, 30.0, 40.0, 50.0]
    return x * table[x.argmax()], table[np.argmin(x)]


def numbers(x: Any) -> Any:
    return x * float(x[0]) + int(x[1]), round(float(x[2]), 1), x[0].item(), x.item(3), complex(x[4]).real


def lists(x: Any) -> Any:
    return x.tolist(), x[:2].tolist()


def texts(x: Any) -> Any:
    return x, f"{x.max():.2f}", str(x[0])


def rank_zero(x: Any) -> Any:
    total = np.array(x.sum())
    if total:
        total[()] = 5.0
    return total * 1, x


def nothing_left(x: Any) -> Any:
    return "yes" if x.any() else "no"


def views(x: Any) -> Any:
    return x[1:] if x[0] > 0 else x


def dicts(x: Any) -> Any:
    out = {"a": x + 1}
    if x[0] > 0:
        out["b"] = x[::2] * 2
    return out


def nested(x: Any) -> Any:
    def inner(y: Any) -> Any:
        if y[0] > 0:
            return y + 1
        return y - 1 if y[1] > 0 else y * 3

    return inner(x) + inner(-x)


def generator(x: Any) -> Any:
    def positive() -> Any:
        for v in x:
            if v > 0:
                yield v * 2

    return sum(positive()), list(positive())


def hashed(x: Any) -> Any:
    return {1.0: x + 1, -1.0: x - 1}[np.sign(x[0])]


FUNCTIONS = (
    branches, early, ternary, logic, chained, extremes, any_of, contains, filtered, asserts, raises, catches, helpers,
    integers, slices, indices, numbers, lists, texts, rank_zero, nothing_left, views, dicts, nested, generator, hashed,
)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_reads(function: Any) -> None:
    fused = check(function, UP, DOWN, MIXED)
    assert fused.stats()["splits"] > 0 and fused.stats()["fallbacks"] == 0


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_known_paths_run_no_python(function: Any) -> None:
    if function in (raises, asserts):
        return
    runs = []

    def counted(x: Any) -> Any:
        note(1)
        return function(x)

    def note(k: int) -> None:
        runs.append(k)

    for x in (UP, DOWN, MIXED):
        del runs[:]
        fused = jf.fuse(function)
        fused(x)
        before = fused.stats()
        fused(x.copy())
        after = fused.stats()
        assert after["traces"] == before["traces"] and after["compiles"] == before["compiles"]


def test_a_new_value_of_the_same_kind_compiles_nothing() -> None:
    fused = check(integers, UP, MIXED)
    before = fused.stats()["compiles"]
    check(integers, DOWN, UP, MIXED)
    fused(DOWN)
    fused(np.array([1.0, -1, -1, -1, -1]))
    assert fused.stats()["compiles"] <= before + 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "uint64", "bool", "complex128", "float16"])
def test_dtypes(dtype: str) -> None:
    def function(x: Any) -> Any:
        if x[0] == x[1]:
            return x + x, x.sum()
        return x[::-1], bool(x[2])

    check(function, np.array([1, 1, 0]).astype(dtype), np.array([1, 0, 1]).astype(dtype))


@pytest.mark.parametrize("size", [0, 1, 2, 1000, 100_000])
def test_sizes(size: int) -> None:
    def function(x: Any) -> Any:
        y = x * 2 + 1
        if y.sum() > 3 * size:
            return y - x
        return y

    check(function, np.zeros(size), np.arange(float(size)), np.arange(2.0 * size)[::2])


def test_strides() -> None:
    def function(x: Any) -> Any:
        y = x.T * 2
        return y.copy() if y[0, 0] > 0 else (x[::-1], y)

    a = np.arange(12.0).reshape(3, 4) - 3
    check(function, a, a.T, a[::-1], a[:, ::2], -a, np.broadcast_to(a[0], (3, 4)), writes=False)


def test_nan_and_signed_zero() -> None:
    def function(x: Any) -> Any:
        y = float(x[0])
        return (y, x + y) if x[0] == x[0] else x * 0

    check(function, *(np.array([v, 1.0]) for v in (0.0, -0.0, np.nan, np.inf)))


def test_numpy_and_python_scalars() -> None:
    def function(a: Any, b: Any) -> Any:
        return a + b if a > b else a - b

    check(function, (np.float64(1), np.float64(2)), (np.float64(2), np.float64(1)), (np.int32(3), 2), (1, 2),
          (2.5, np.float32(1)))


def test_modes() -> None:
    def function(x: Any, training: bool = False) -> Any:
        y = jf.nn.relu(x) if training else x * 2
        return y + 1 if x.sum() > 0 else y - 1

    fused = jf.fuse(function)
    for _ in range(3):
        for x in (UP, DOWN):
            for training in (False, True):
                expected = np.maximum(x, 0) if training else x * 2
                expected = expected + 1 if x.sum() > 0 else expected - 1
                np.testing.assert_array_equal(fused(x, training=training), expected)


def test_a_mode_that_alone_reads() -> None:
    def function(x: Any, training: bool) -> Any:
        if training:
            return x * 2
        return x + 1 if x.sum() > 0 else x - 1

    fused = jf.fuse(function)
    for _ in range(3):
        for x in (UP, DOWN):
            np.testing.assert_array_equal(fused(x, training=True), x * 2)
            np.testing.assert_array_equal(fused(x, training=False), x + 1 if x.sum() > 0 else x - 1)


def test_methods_globals_and_guards() -> None:
    class Model:
        def __init__(self) -> None:
            self.limit, self.scale = 1.0, 2.0

        @jf.fuse
        def __call__(self, x: Any) -> Any:
            if x.sum() > self.limit:
                return x * self.scale
            return x - self.scale

    model = Model()
    for limit, scale in ((1.0, 2.0), (100.0, 2.0), (100.0, 3.0), (-100.0, "2"), (-100.0, 4)):
        model.limit, model.scale = limit, scale  # type: ignore[assignment]
        for x in (UP, DOWN):
            if isinstance(scale, str):
                with pytest.raises(TypeError):
                    model(x)
            else:
                np.testing.assert_array_equal(model(x), x * scale if x.sum() > limit else x - scale)


def test_a_branch_that_reads_what_the_other_does_not() -> None:
    table = {"a": np.ones(5), "b": 2.0, "who": "a"}

    def function(x: Any) -> Any:
        if x.sum() > 0:
            return x + table[table["who"]]
        return x * 3

    fused = jf.fuse(function)
    for who in ("a", "b", "a"):
        table["who"] = who
        table["a"] = table["a"] + 1  # type: ignore[operator]
        for x in (UP, DOWN):
            np.testing.assert_array_equal(fused(x), function(x))


def test_nested_fused_functions_are_inlined() -> None:
    @jf.fuse
    def inner(x: Any) -> Any:
        return x + 1 if x.sum() > 0 else x - 1

    @jf.fuse
    def outer(x: Any) -> Any:
        return inner(x) * 2 if x[0] > 0 else inner(-x)

    for x in (UP, DOWN, MIXED):
        a = x if x[0] > 0 else -x
        expected = (a + 1 if a.sum() > 0 else a - 1) * (2 if x[0] > 0 else 1)
        np.testing.assert_array_equal(outer(x), expected)
        np.testing.assert_array_equal(inner(x), x + 1 if x.sum() > 0 else x - 1)


def test_what_python_knows_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at what depends on earlier looks computes what is new, not all from the beginning."""
    computed: list[int] = []
    evaluate = known_values._evaluate

    def counting(session: Any, node: Any, inputs: list[Any]) -> Any:
        computed.append(node.id)
        return evaluate(session, node, inputs)

    def chain(n: int) -> Any:
        x, met = np.arange(4.0), 0
        for _ in range(n):
            x = x * 1.5 - 1
            if x[1] < x[3] - 9:
                met += 1
                x[1] = -met
        return x, met

    monkeypatch.setattr(known_values, "_evaluate", counting)
    got, met = jf.fuse(chain)(30)
    assert len(computed) == len(set(computed)) > 60
    monkeypatch.undo()
    want, expected = chain(30)
    assert met == expected
    np.testing.assert_array_equal(got, want)
