"""Trees as tables of the native driver: known paths run no Python, and do what the function does, bit by bit.

Loops are in test_native_loops.py, threads, forks and trees that start over in test_native_lives.py.
"""
from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest
from native_trees import misses, native
from oracle import same

import jitfuse as jf

pytestmark = pytest.mark.usefixtures("natively")


def test_integers_and_floats_choose() -> None:
    def f(x, names):
        k = int((x * 1).astype(np.int64)[0])
        return (names[k % 3], x * k) if float(x[1]) < 2 else (None, x)

    calls = [(np.array([k, v, 1]), ("a", "b", "c")) for k in (0, 1, -2) for v in (0.5, -0.0, 7.0)]
    native(f, *calls)
    native(lambda x: x * int(x[0]), (np.arange(3),), (np.arange(3, dtype=np.int32),))


def test_zeros_of_both_signs_choose() -> None:
    """Answers that are equal to Python are different ones: what is computed with them has other bits."""
    fused = native(lambda x: x * float(x[1]), *[(np.array([2.0, v]),) for v in (0.0, -0.0, np.nan, np.inf)])
    for dtype in (np.float32, np.float64):
        for zero in (0.0, -0.0) * 4:
            x = np.array([2.0, zero], dtype)
            assert fused(x).tobytes() == (x * float(x[1])).tobytes()


def test_numbers_and_arrays_of_one_element_are_asked() -> None:
    def f(x, flag, n):
        if flag:
            return x * 2
        return x - 1 if n else x + 1

    native(f, *[(np.arange(3.0), np.array([k]), np.float32(v)) for k in (True, False) for v in (0.0, 2.5, np.nan)])
    two = np.array([2], np.uint8).view(bool)
    native(lambda x, flag: x if flag else -x, (np.ones(2), two), (np.ones(2), ~two))


def test_arguments_are_written_at_the_end() -> None:
    def f(x, y):
        while x.sum() > 4:
            x *= 0.5
            y += x
        if y[0] > 1e5:
            raise ValueError("too much")
        y[1] = -1
        return x, y[1:]

    x = np.array([3.0, 5, 9])
    fused = native(f, (x, x * 0), (x * 1e3, x))
    given = x * 1e6, x.copy()
    with pytest.raises(ValueError, match="too much"):
        fused(*given)
    own = x * 1e6, x.copy()
    with pytest.raises(ValueError, match="too much"):
        f(*own)
    same(list(given), list(own))  # plain Python has raised, and written until there
    same(fused(x.copy(), x * 0), f(x.copy(), x * 0))
    both = np.ones(4)
    with pytest.warns(jf.FallbackWarning, match="shares memory"):
        found = fused(both[:3], both[1:])
    other = np.ones(4)
    same(found, f(other[:3], other[1:]))


def test_answers_that_are_new() -> None:
    def f(x):
        while x.sum() > 8:
            x = x * 0.5
        if x[0] > 1:
            x = x + 1
        if x[1] > 1:
            x = x * 3
        return (x, "odd") if int((x > 1).sum()) % 2 else x

    rng = np.random.default_rng(1)
    fused = jf.fuse(f)
    for _ in range(150):
        x = rng.integers(0, 5, 2) * 2.0 ** rng.integers(0, 9)
        same(fused(x.copy()), f(x.copy()))
    assert fused.stats()["fallbacks"] == 0


scale, shift, choice = 2.0, np.array([1.0, 2, 3]), {"power": 2}


def reading(x):
    if x[0] > 0:
        return x * scale + choice["power"]
    while x.sum() < 10:
        x = x + shift
    return x


def test_state_that_branches_read(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[__name__]
    calls = [(np.arange(3.0) - k,) for k in (-1, 1, 2)]
    fused = native(reading, *calls)
    for name, value in (("scale", 3.5), ("shift", np.array([4.0, 1, 1])), ("choice", {"power": 3}), ("shift", 2)):
        monkeypatch.setattr(module, name, value)
        for _ in range(3):
            for call in calls:
                same(fused(*call), reading(*call))


def test_numbers_that_branches_read() -> None:
    def f(x, n):
        if x[0] > 0:
            for _ in range(n):
                x = x * 2
        return x

    fused = native(f, *[(np.array([s, 1.0]), n) for s in (-1, 1) for n in (2, 3)], known=8)
    for n in (4, 2, 5, 3, 4):
        same(fused(np.ones(2), n), f(np.ones(2), n))


def test_results_of_every_kind() -> None:
    def f(x, y):
        a = x * 2
        if a.sum() > 3:
            return {"a": a, "b": (a.T, x, y[1:], a), "c": 3, "d": a.sum(), "e": None, "f": len(x) * 2.5}
        return [a[0], x.T, "text", a.sum() > 1, y]

    x = np.arange(6.0).reshape(2, 3)
    fused = native(f, (x, x[0]), (x - 9, x[0]))
    y = np.ones(3)
    found = fused(x, y)
    assert found["b"][0].base is not None or found["b"][0].flags.owndata
    assert found["b"][1] is x and found["b"][2].base is y and found["b"][3] is found["a"]


def test_random_numbers() -> None:
    def f(x):
        if x.sum() > 2:
            x = x + jf.random.uniform(x.shape)
        if x[0] > 1:
            return x * jf.random.uniform(x.shape)
        while x.max() > 0.5:
            x = x * 0.5
        return x, jf.random.uniform((2,))

    fused, other = jf.fuse(f), jf.fuse(f)
    rng = np.random.default_rng(2)
    for k in range(40):
        x = rng.random(3) * 2
        jf.random.seed(k)
        found = [fused(x), fused(x)]
        jf.random.seed(k)
        other.parts.plain.breaks.native_tree = None
        other.parts.plain.forget()
        same([other(x), other(x)], found)
    assert misses(fused) < 40


def test_a_path_that_draws_from_the_global_rng_when_native_code_has_the_others() -> None:
    def f(x):
        while np.abs(x).max() > 1:
            x = x * 0.5
        return [x + np.random.rand(2)] if x[0] < 0 else x

    fused = native(f, (np.array([3.0, 1.0]),), (np.array([9.0, 1.0]),))
    for k in range(6):
        found, wanted = [], []
        for function, numbers in ((f, wanted), (fused, found)):
            np.random.seed(k)
            numbers += [function(np.array([-3.0 - k, 1.0])), np.random.rand()]
        same(found, wanted)
    assert fused.stats()["fallbacks"] == 0 and fused.stats()["traces"] > 2


def test_paths_that_all_end_with_a_print(capsys: pytest.CaptureFixture[str]) -> None:
    """Native code takes them up to the print, and Python from there."""
    def f(x, y):
        y[1:] = x[0]
        for k in range(40):
            x = x * 0.5 + 0.25
            if x.max() < 1:
                y[:1] += k
                print(f"after {k}: {x.max():.3f}", x.argmax())
                break
        return x, y[0] * 2

    calls = [(np.array([v, 3.0, -v]), np.zeros(3)) for v in (9.0, 64.0, -500.0)]
    fused = jf.fuse(f)
    for _ in range(8):
        for args in calls:
            given, plain = ([a.copy() for a in args] for _ in range(2))
            found, said = fused(*given), capsys.readouterr().out
            same(found, f(*plain))
            same(given, plain)
            assert said == capsys.readouterr().out
    before = misses(fused)
    assert before >= 0, "nothing is native"
    for args in calls:
        same(fused(*map(np.copy, args)), f(*map(np.copy, args)))
    assert misses(fused) == before


def test_statuses() -> None:
    def f(x, i):
        y = x[i]
        while y.sum() > 1:
            y = y * 0.5
        return y

    fused = native(f, (np.arange(4.0), np.array([1, 2])), (np.arange(4.0), np.array([0, 3])))
    with pytest.raises(IndexError, match="out of bounds"):
        fused(np.arange(4.0), np.array([0, 4]))


def test_masks_are_native() -> None:
    def f(x):
        while x.sum() > 9:
            x = x * 0.5
        picked = np.sort(x[x > 1])
        return picked * 2 if picked.sum() > 3 else x

    rng = np.random.default_rng(3)
    native(f, *[(rng.integers(0, 9, 4) * 1.0,) for _ in range(12)])
    native(lambda x: (np.cumsum(x[x > 1]), np.nonzero(x > 2), len(x[x < 3])), *[(rng.random(9) * 4,) for _ in range(5)])


def test_sets_and_repetitions_are_native() -> None:
    rng = np.random.default_rng(4)
    calls = [(rng.integers(0, 5, 9), rng.integers(0, 9, 4)) for _ in range(6)]
    native(lambda a, b: np.unique(a, return_inverse=True, return_counts=True), *calls)
    native(lambda a, b: (np.intersect1d(a, b), np.union1d(a, b), np.setdiff1d(a, b), np.setxor1d(a, b)), *calls)
    native(lambda a, b: (np.repeat(b, b % 3), np.bincount(a), np.trim_zeros(a)), *calls)


def test_reads_of_texts_and_whole_arrays_are_native() -> None:
    """The bytes that Python has seen tell the ways apart: of arrays, texts, rounded numbers, other dtypes."""
    calls = [(np.array(v),) for v in ([1.0, 2.0], [-0.0, 2.0], [0.0, 2.0], [1.04, np.nan], [np.inf, 7.0])]
    native(lambda x: [v * 2 for v in (x * 1).tolist()], *calls)
    native(lambda x: x * 2 if f"{x[0] + 1:.1f}" == "2.0" else x * 3, *calls)
    native(lambda x: x * len(str(x[1] + 1)), *calls)
    native(lambda x: x * round(float(x[1]) if x[1] < 9 else 3.0, 1), *calls)
    native(lambda x: x * np.asarray(x + 1).astype("int8").tolist()[0], *[(np.array([k, 2], "int8"),) for k in range(5)])
    native(lambda x: x.tolist(), *[(np.arange(6.0)[s],) for s in (slice(None, None, 2), slice(None, None, -2))])


def test_calls_are_let_go() -> None:
    """What ends a run of the function at a closed loop has passed frames that hold the call."""
    def f(x):
        while x.sum() > 4:
            x = x * 0.5
        return x if x[0] > 1 else -x

    gc.collect()
    gc.disable()
    try:
        fused, x = jf.fuse(f), np.array([9.0, 1])
        for _ in range(6):
            fused(x)
            fused(-x)
        assert sys.getrefcount(x) == 2
        function = weakref.ref(fused)
        del fused
        assert function() is None
    finally:
        gc.enable()


def test_paths_that_read_tensors() -> None:
    """Results are tensors on the paths that have read one; the others stay native, as where eager arrays are read."""
    torch = pytest.importorskip("torch")
    weights, held = torch.tensor([1.0, 2.0], dtype=torch.float64), jf.asarray([1.0, 2.0])

    def f(x):
        return x * 2 if x.sum() > 0 else (weights * float(x[0]), torch.as_tensor(x)[1:])

    fused, x = jf.fuse(f), np.array([1.0, 2.0])
    for k in range(12):
        found, expected = (g(x if k % 2 else -x) for g in (fused, f))
        assert type(found) is type(expected)
        if k % 2:
            same(found, expected)
        else:
            assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    eager = jf.fuse(lambda x: x * 2 if x.sum() > 0 else held * x)
    for k in range(12):
        assert type(eager(x if k % 2 else -x)) is (np.ndarray if k % 2 else type(held))
    for function in (fused, eager):
        before = misses(function)
        same(function(x), x * 2)
        assert misses(function) == before >= 0


def test_both_modes() -> None:
    @jf.fuse
    def f(x, training):
        while x.sum() > 4:
            x = x * (0.5 if training else 0.25)
        return x

    x = np.array([5.0, 8, 1])
    for _ in range(5):
        same(f(x, training=True), x * 0.5**2)
        same(f(x), x * 0.25)
    before = misses(f)
    same((f(x * 4, training=True), f(x * 16)), (x * 0.25, x * 0.25))
    assert misses(f) <= before + 2


def test_keyword_arguments() -> None:
    def f(x, *, tol, step=0.5):
        while x.max() > tol:
            x = x * step
        return x

    fused = jf.fuse(f)
    x = np.array([3.0, 4])
    for tol in (1.0, 2.0, 1.5, 0.25, 9.0):
        same(fused(x, tol=tol), f(x, tol=tol))
        same(fused(x, tol=tol, step=0.125), f(x, tol=tol, step=0.125))
    before = misses(fused)
    same(fused(x, tol=0.5), f(x, tol=0.5))
    assert misses(fused) == before


def test_branch_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths through ifs in a row: places of branches that exclude each other are the same memory."""
    def f(x):
        y = x * 2
        for k in range(5):
            if y[k] > x.mean():
                y = y + x
            else:
                x, y = y, x * 0.5
        return x, y

    rng = np.random.default_rng(0)
    fused = jf.fuse(f)
    for _ in range(400):
        x = np.round(rng.standard_normal(5), 1)
        same(fused(x), f(x))
    assert misses(fused) < 200
