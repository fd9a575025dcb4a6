"""Functions of libraries that have no operators: called at graph breaks, in each call, with real arrays."""
from __future__ import annotations

import fractions
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.integrate
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.spatial.distance
import scipy.special
import scipy.stats
from oracle import LOOPS, ROUNDED, check, same

import jitfuse as jf
from jitfuse.errors import UnsupportedError
from jitfuse.tracing.numpy_like import library_calls

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "an array": lambda x, y: scipy.linalg.solve(x @ x.T + np.eye(len(x)), y[0] * 2) + 1,
    "memory in F order": lambda x, y: scipy.linalg.cholesky(x @ x.T + np.eye(len(x)), lower=True),
    "a tuple with a bool": lambda x, y: scipy.linalg.cho_factor(x @ x.T + np.eye(len(x))),
    "arrays in a tuple": lambda x, y: [part * 2 for part in scipy.linalg.lu(x - y)],
    "a named tuple": lambda x, y: np.linalg.eig(x @ x.T),
    "a NumPy scalar": lambda x, y: scipy.linalg.norm(x - y) * x,
    "a NumPy scalar returned": lambda x, y: scipy.linalg.norm(x - y),
    "a Python number": lambda x, y: (scipy.ndimage.label(x > y)[1] + 1, scipy.ndimage.label(x > y)[0] * 2),
    "ints": lambda x, y: np.unravel_index((x > y).astype(np.int64).ravel(), (3, 4)),
    "an argument of its own order": lambda x, y: scipy.ndimage.uniform_filter(x.T * y.T, 3),
    "the caller's arrays": lambda x, y: scipy.spatial.distance.cdist(x.T, y[::-1].T),
    "numbers computed": lambda x, y: scipy.ndimage.gaussian_filter(x, float(y[0, 0] * 0 + 1.5)),
    "keywords": lambda x, y: scipy.signal.convolve(x, y, mode="same", method="direct"),
    "lists of arrays": lambda x, y: scipy.linalg.block_diag(*[x, y * 2]),
    "a ufunc": lambda x, y: scipy.special.j0(x) + scipy.special.jv(2, y),
    "a ufunc with two results": lambda x, y: scipy.special.shichi(x + 1),
    "nothing traced": lambda x, y: scipy.signal.windows.hann(x.shape[1])[None] * x,
    "a filter that is made here": lambda x, y: scipy.signal.lfilter(*scipy.signal.butter(3, 0.2), x, axis=1),
    "one after the other": lambda x, y: scipy.fft.idct(scipy.fft.dct(x * 2) * y),
    "of a result": lambda x, y: scipy.stats.zscore(scipy.ndimage.sobel(x), axis=1),
    "twice the same": lambda x, y: (scipy.integrate.trapezoid(x, axis=0), scipy.integrate.trapezoid(x, axis=0)),
    "complex numbers": lambda x, y: scipy.fft.fftn(x + 1j * y),
    "masked elements": lambda x, y: scipy.signal.detrend(x[x > y]) * 2,
    "a shape that depends on data": lambda x, y: np.roots(np.array([1.0, -3.0, 2.0, 0.0]) + x[0, 0] * 0),
}


def matrices(seed: int, n: int = 5) -> tuple[Any, Any]:
    draw = np.random.default_rng(seed)
    return draw.normal(size=(n, n)), draw.normal(size=(n, n))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_the_librarys(name: str) -> None:
    fused = check(FUNCTIONS[name], matrices(0), matrices(1), matrices(2, 7), within=ROUNDED, times=3)
    assert fused.stats()["traces"] <= 4


@pytest.mark.parametrize("make", [
    lambda a: a.astype("float32"), np.asfortranarray, lambda a: a[::-1, ::-1], lambda a: a[:0], lambda a: a * np.nan,
    lambda a: np.repeat(a, 2, 1)[:, ::2], lambda a: (a * 9).astype("int16"),
])
def test_any_array_is_handed_over(make: Callable[[Any], Any]) -> None:
    def function(x: Any) -> Any:
        return scipy.ndimage.correlate1d(x, [1, 2, 1], axis=0) + x

    x, y = (make(a) for a in matrices(3))
    check(function, (x,), (y,), within=ROUNDED)


def test_known_paths_are_native() -> None:
    fused = jf.fuse(FUNCTIONS["one after the other"])
    for seed in range(6):
        fused(*matrices(seed))
    assert fused.stats()["traces"] == 1 and fused.stats()["splits"] == 2
    text = str(fused.explain(*matrices(0)))
    assert "scipy.fft.dct()" in text and "scipy.fft.idct()" in text


def test_a_result_of_another_shape_takes_another_path() -> None:
    def function(x: Any) -> Any:
        return scipy.signal.find_peaks(x)[0] * 2 + 1

    fused = jf.fuse(function)
    for count in (1, 2, 3, 2, 1, 2, 3, 0, 1):
        x = np.zeros(9)
        x[1 : 2 * count : 2] = 1.0
        got = fused(x)
        assert got.tolist() == function(x).tolist() and got.dtype == np.int64
    assert fused.stats()["fallbacks"] == 0


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_errors_are_the_librarys() -> None:
    def function(x: Any) -> Any:
        return scipy.linalg.inv(x * 2) + 1

    def caught(x: Any) -> Any:
        try:
            return scipy.linalg.cholesky(x * 2)
        except np.linalg.LinAlgError:
            return x - 1

    good, bad = np.eye(3), np.zeros((3, 3))
    for order in ((good, bad, good, bad), (bad, good, good)):
        fused, catching = jf.fuse(function), jf.fuse(caught)
        for x in order:
            np.testing.assert_array_equal(catching(x), caught(x))
            if x is bad:
                with pytest.raises(np.linalg.LinAlgError):
                    fused(x)
            else:
                np.testing.assert_array_equal(fused(x), function(x))


def test_writes_before_an_error_stay() -> None:
    def function(x: Any, out: Any) -> Any:
        y = x * 2 + 1
        out[:] = y[0]
        return scipy.linalg.cho_factor(y)[0] + 1

    fused, good = jf.fuse(function), np.eye(3) + 0.1
    for _ in range(4):
        fused(good, np.zeros(3))
    assert fused.stats()["fallbacks"] == 0
    for _ in range(2):
        out, expected = np.zeros(3), np.zeros(3)
        with pytest.raises(np.linalg.LinAlgError) as plain:
            function(-5 * good, expected)
        with pytest.raises(np.linalg.LinAlgError) as caught:
            fused(-5 * good, out)
        assert str(caught.value) == str(plain.value)
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(fused(good, out), function(good, expected))


def test_warnings_are_handled_as_the_function_says() -> None:
    def quiet(x: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return scipy.linalg.solve(x * 1.0, x[0]) * 2

    def loud(x: Any) -> Any:
        with np.errstate(invalid="ignore"):
            return scipy.linalg.solve(x * 1.0, x[0]) * 2

    for function, count in ((quiet, 0), (loud, 1)):
        fused = jf.fuse(function)
        for _ in range(4):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                fused(np.array([[1.0, 1.0], [1.0, 1.0 + 4e-16]]))
            assert len([w for w in caught if "ill-conditioned" in str(w.message)]) == count
        assert fused.stats()["fallbacks"] == 0


def test_what_a_function_returns_may_change() -> None:
    """A result that could not go on traced, after many that could: this call is plain Python's."""
    answers = {
        0: lambda x: x + 1, 1: lambda x: x, 2: lambda x: fractions.Fraction(1, 2), 3: lambda x: x[1:],
        4: lambda x: x[::2], 5: lambda x: np.array(x.sum()), 6: lambda x: (x * 2)[::-1], 7: lambda x: np.float32(3),
    }

    def moody(x: Any) -> Any:
        return answers[int(x[0])](x)

    def function(x: Any) -> Any:
        return library_calls.call(moody, "library.moody", (x * 1,), {}) * 2

    fused = jf.fuse(function)
    for kind in (0, 0, 0, 1, 0, 2, 3, 0, 4, 0, 5, 5, 6, 7, 6, 5, 0):
        x = np.array([kind, 2.0, 3.0])
        with warnings.catch_warnings(action="ignore"):
            same(fused(x), moody(x) * 2)


def test_results_that_depend_on_nothing_traced_are_constants() -> None:
    def function(x: Any) -> Any:
        count, beta = scipy.signal.kaiserord(40.0, 0.3)
        return scipy.signal.firwin(count, 0.3, window=("kaiser", beta)) * x, count, beta

    fused = check(function, (np.float64(2.0),), (np.float64(3.0),), within=ROUNDED)
    assert fused.stats()["splits"] == 0


SECTIONS = scipy.signal.butter(4, 0.2, output="sos")


@pytest.mark.parametrize("function", [
    lambda x: scipy.signal.sosfilt(SECTIONS, x) * 2,  # compiled code of SciPy's that wants writable arrays
    lambda x: scipy.signal.sosfilt(scipy.signal.butter(4, 0.2, output="sos"), x) * 2,
    lambda x: any(x[0] > 2), lambda x: sorted([x, x * 2, x * 0.5], key=lambda v: v.sum())[0],
    lambda x: sorted([x, x * 2, x * 0.5], key=scipy.linalg.norm)[0], lambda x: [x[0, 0], x[0, 0] * 2, 3.3].count(3.3),
], ids=["writable", "text", "any", "sorted", "key", "count"])
def test_under_c_code_and_with_compiled_libraries(function: Callable[[Any], Any]) -> None:
    check(function, *[(np.eye(3) * k,) for k in range(1, 5)], within=ROUNDED, compiled=False)


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_options_that_write_leave_it_to_python() -> None:
    def distances(x: Any) -> Any:
        made = np.zeros(x.shape)
        scipy.ndimage.distance_transform_edt(x > 0, distances=made)
        return made + 1

    check(distances, *[(matrices(k)[0],) for k in range(4)], compiled=False)


def test_clocks_measure_what_lies_between() -> None:
    def function(x: Any) -> Any:
        begin = time.perf_counter()
        y = np.sort(x * x - x)
        return y, time.perf_counter() - begin, time.time_ns()

    fused = jf.fuse(function)
    for seed in range(5):
        x = np.random.default_rng(seed).random(200_000)
        before = time.perf_counter(), time.time_ns()
        y, seconds, now = fused(x)
        np.testing.assert_array_equal(y, np.sort(x * x - x))
        assert 1e-5 < seconds < time.perf_counter() - before[0] and before[1] <= now <= time.time_ns()
        assert type(seconds) is float and type(now) is int
    assert fused.stats()["traces"] == 1 and fused.stats()["fallbacks"] == 0


def test_files_and_the_environment_are_read_in_each_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Any, path: str) -> Any:
        if not os.path.exists(path):
            return x * 0
        return x * np.load(path) + float(os.getenv("JITFUSE_TEST_SHIFT", "0"))

    fused, x, path = jf.fuse(function), np.arange(4.0), str(tmp_path / "gain.npy")
    for gain, shift in ((None, "0"), (2.0, "1"), (3.0, "1"), (3.0, "5"), (4.0, "0")):
        if gain is not None:
            np.save(path, np.full(4, gain))
        monkeypatch.setenv("JITFUSE_TEST_SHIFT", shift)
        np.testing.assert_array_equal(fused(x, path), function(x, path))
    assert fused.stats()["fallbacks"] == 0


def test_writes_and_loops_around_calls() -> None:
    def written(x: Any, y: Any) -> Any:
        x[0] += 1
        z = scipy.ndimage.gaussian_filter(x, 1.0)
        x[1:] = z[1:]
        z[0] = 5
        return z, x.sum()

    def relaxed(x: Any, y: Any) -> Any:
        steps = 0
        while scipy.linalg.norm(x) > 1.0:
            x = x * 0.5
            steps += 1
        return x, steps

    def chosen(x: Any, y: Any) -> Any:
        return scipy.signal.detrend(x) if x[0, 0] > 0 else scipy.signal.hilbert(y)

    for function in (written, relaxed, chosen):
        check(function, *map(matrices, range(6)), within=ROUNDED)


def _diffused(u: Any) -> Any:
    change, count = np.inf, 0
    while change > 1e-2:
        v = scipy.ndimage.uniform_filter(u, 3)
        v[0] = 1.0
        change, u, count = np.abs(v - u).max(), v, count + 1
    return u, count


def _solved(a: Any, b: Any) -> Any:
    x, r, p, count = np.zeros_like(b), b, b.copy(), 0
    while scipy.linalg.norm(r) > 1e-9:
        q = a @ p
        step = (r @ r) / (p @ q)
        x, new = x + step * p, r - step * q
        p, r, count = new + (new @ new) / (r @ r) * p, new, count + 1
    return x, count


def _two_calls(u: Any) -> Any:
    count = 0
    while True:
        u = scipy.ndimage.median_filter(scipy.ndimage.uniform_filter(u, 3), 3) * 0.9
        count += 1
        if scipy.linalg.norm(u) < 1.0 or count > 40:
            return u, count


def _other_filter_each_time(u: Any) -> Any:
    width = 3
    while scipy.linalg.norm(u) > 3.0:
        u = scipy.ndimage.uniform_filter(u, width) * 0.7
        width = 8 - width
    return u, width


@pytest.mark.parametrize("function", [_diffused, _two_calls, _other_filter_each_time])
def test_calls_in_loops_are_native(function: Callable[[Any], Any]) -> None:
    draw = np.random.default_rng(5)
    fused = check(function, *[(draw.random((12, 12)) * scale,) for scale in (1.0, 3.0, 0.1, 5.0, 2.0)], within=LOOPS)
    assert fused.stats()["traces"] <= 6


def test_a_solver_that_looks_at_its_residual() -> None:
    m = np.random.default_rng(2).random((20, 20))
    a = m @ m.T + 20 * np.eye(20)
    fused = jf.fuse(_solved)
    for seed in range(5):
        b = np.random.default_rng(seed).random(20)
        x, count = fused(a, b)
        np.testing.assert_allclose(a @ x, b, atol=1e-8)
        assert abs(count - _solved(a, b)[1]) <= 1
    assert fused.stats()["traces"] <= 3


def test_what_would_write_or_draw_runs_as_plain_python() -> None:
    def overwriting(x: Any, y: Any) -> Any:
        return scipy.linalg.inv(x @ x.T + np.eye(5), overwrite_a=True), y

    def into(x: Any, y: Any) -> Any:
        scipy.ndimage.gaussian_filter(x, 1.0, output=y)
        return y + 1

    def of_an_object(x: Any, y: Any) -> Any:
        return scipy.ndimage.generic_filter(x, np.max, size=3) + y

    for function in (overwriting, into, of_an_object):
        with pytest.warns(jf.FallbackWarning, match="Python runs|can do without Python"):
            jf.fuse(function)(*matrices(1))
        check(function, matrices(1), matrices(2), compiled=False, within=ROUNDED)


def test_no_break_is_possible_in_bodies_and_under_strict() -> None:
    x, _ = matrices(1)
    with pytest.raises(UnsupportedError, match=r"scipy\.special\.j1 is called at"):
        jf.fuse(lambda x: jf.cond(x[0, 0] > 9, lambda: scipy.special.j1(x), lambda: x), strict=True)(x)
    with pytest.raises(jf.JitfuseError, match=r"scipy\.linalg\.expm is called at .* under strict"):
        jf.fuse(lambda x: scipy.linalg.expm(x * 2), strict=True)(x)
