"""Keys of jf.random: what they give, that split ones are independent, loops, gradients, threads, and errors."""
from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse import random
from jitfuse.errors import ArgumentError, AxisError, DerivativeError, DTypeError, ShapeError
from jitfuse.ir.semantics import reference

KEY = random.key(3)


def test_a_key_is_the_state_of_its_seed() -> None:
    assert random.key(3).tolist() == [3, 0] and random.key(3).dtype == np.int64
    assert random.key(2**64 - 1).tolist() == [-1, 0] and random.key(2**64 + 5).tolist() == [5, 0]
    assert random.key(np.uint64(2**63)).tolist() == [-(2**63), 0]
    assert jf.fuse(lambda seed: random.key(seed), strict=True)(np.int32(-7)).tolist() == [-7, 0]


def test_numbers_of_a_key_are_philox_of_its_own_counters() -> None:
    """The last word of the counter has its top bit set, which no RNG call of the process's state has."""
    key = np.array([5, 9])
    words = reference.philox(5, 9, 2**31, 6)
    wanted = ((words[:, 0] << np.uint64(32) | words[:, 1]) >> np.uint64(11)) * 2.0**-53
    np.testing.assert_array_equal(random.uniform(6, key=key), wanted)
    np.testing.assert_array_equal(jf.fuse(lambda key: random.uniform(6, key=key), strict=True)(key), wanted)


def test_keys_do_not_move_the_state_and_the_state_does_not_move_them() -> None:
    random.seed(1)
    first = random.normal(4, key=KEY)
    assert random.state().tolist() == [1, 0]
    random.uniform(9)
    np.testing.assert_array_equal(random.normal(4, key=KEY), first)
    fused = jf.fuse(lambda key: (random.uniform(4), random.normal(4, key=key), random.uniform(4)), strict=True)
    other = jf.fuse(lambda: (random.uniform(4), random.uniform(4)), strict=True)
    random.seed(1)
    a, drawn, b = fused(KEY)
    np.testing.assert_allclose(drawn, first, rtol=1e-13)
    random.seed(1)
    np.testing.assert_array_equal(np.stack(other()), np.stack([a, b]))


def test_split_keys_differ_and_the_first_do_not_depend_on_their_number() -> None:
    keys = random.split(KEY, 1000)
    assert keys.shape == (1000, 2) and keys.dtype == np.int64
    assert len({*map(tuple, keys), tuple(KEY)}) == 1001
    np.testing.assert_array_equal(random.split(KEY), keys[:2])
    assert random.split(KEY, 0).shape == (0, 2)
    first, second = jf.fuse(lambda key: (lambda a, b: (a, b))(*random.split(key)), strict=True)(KEY)
    assert [first.tolist(), second.tolist()] == keys[:2].tolist()
    ones = np.unpackbits(np.ascontiguousarray(keys[:, 0]).view(np.uint8)).mean()
    assert abs(ones - 0.5) < 4 * 0.5 / 64_000**0.5


def test_numbers_of_different_keys_are_uncorrelated() -> None:
    key, n = random.key(0), 20_000
    keys = [key, random.key(1), *random.split(key, 2), *random.split(random.split(key)[0]), random.fold_in(key, 0),
            random.fold_in(key, 1), random.fold_in(random.key(1), 0)]
    drawn = [random.uniform(n, key=k) for k in keys]
    random.seed(0)
    found = np.corrcoef([*drawn, random.uniform(n)])
    assert np.abs(found - np.eye(len(found))).max() < 4.5 / n**0.5


def test_numbers_folded_in_give_other_keys_by_all_of_their_bits() -> None:
    numbers = [0, 1, 2, -1, 2**32, 2**32 + 1, 2**63 - 1, -(2**63)]
    keys = [random.fold_in(KEY, n).tolist() for n in numbers]
    assert len(set(map(tuple, keys))) == len(numbers)
    assert random.fold_in(KEY, 2**64 + 1).tolist() == keys[1] and random.fold_in(KEY, np.int8(2)).tolist() == keys[2]
    fused = jf.fuse(lambda key, n: random.fold_in(key, n), strict=True)
    assert [fused(KEY, np.int64(n)).tolist() for n in numbers] == keys


def test_keys_made_in_the_function_are_known_before_what_they_draw() -> None:
    """The kernel that draws runs after the one that makes its key: also in the first call, and with another key."""
    fused = jf.fuse(lambda key: random.uniform(7, key=random.fold_in(random.split(key)[1], 4)), strict=True)
    for seed in (1, 2, 1, 3):
        key = random.key(seed)
        np.testing.assert_array_equal(
            fused(key), random.uniform(7, key=random.fold_in(random.split(key)[1], 4)))


def test_a_key_is_carried_through_scan() -> None:
    def walk(key: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            x, key = carry
            key, own = random.split(key)
            x = x + random.normal(3, key=own)
            return (x, key), x

        return jf.scan(step, (np.zeros(3), key), None, 6)[1]

    plain = walk(KEY)
    key, rows = KEY, []
    for _ in range(6):
        key, own = random.split(key)
        rows.append(random.normal(3, key=own))
    np.testing.assert_array_equal(plain, np.cumsum(rows, axis=0))
    np.testing.assert_allclose(jf.fuse(walk, strict=True)(KEY), plain, rtol=1e-12)


def test_loops_fold_their_number_in_and_map_goes_over_keys() -> None:
    def total(key: Any) -> Any:
        return jf.fori_loop(0, 5, lambda i, c: c + random.gamma(3, 0.5, key=random.fold_in(key, i)), np.zeros(3))

    written = sum(random.gamma(3, 0.5, key=random.fold_in(KEY, i)) for i in range(5))
    np.testing.assert_allclose(total(KEY), written, rtol=1e-13)
    np.testing.assert_allclose(jf.fuse(total, strict=True)(KEY), written, rtol=1e-13)
    mapped = jf.fuse(lambda key: jf.map(lambda k: random.uniform(2, key=k), random.split(key, 4)), strict=True)(KEY)
    np.testing.assert_array_equal(mapped, [random.uniform(2, key=k) for k in random.split(KEY, 4)])


# ---------------------------------------------------------------- gradients
def test_gradients_by_loc_and_scale_are_those_of_the_formula() -> None:
    z = random.normal(5, key=KEY)
    by = jf.grad(lambda loc, scale: np.sum(random.normal(5, loc, scale, key=KEY) ** 2), argnums=(0, 1))
    loc, scale = np.linspace(-1, 1, 5), 2.0
    found = by(loc, scale)
    np.testing.assert_allclose(found[0], 2 * (loc + scale * z), rtol=1e-12)
    np.testing.assert_allclose(found[1], np.sum(2 * (loc + scale * z) * z), rtol=1e-12)
    for draw in (random.exponential, lambda n, s, key: random.gamma(n, 2.0, s, key=key)):
        slope = jf.grad(lambda s, draw=draw: np.sum(draw(5, s, key=KEY)))(1.5)
        np.testing.assert_allclose(slope, draw(5, 1.0, key=KEY).sum(), rtol=1e-12)
    slopes = jf.grad(lambda low, high: np.sum(random.uniform(5, low, high, key=KEY)), argnums=(0, 1))(1.0, 3.0)
    np.testing.assert_allclose(slopes[1], random.uniform(5, key=KEY).sum(), rtol=1e-12)
    np.testing.assert_allclose(sum(slopes), 5.0, rtol=1e-12)


@pytest.mark.parametrize("bounds", [(-1.0, 2.0), (3.0, np.inf)])
def test_gradients_of_truncated_normals_are_those_of_differences(bounds: tuple[float, float]) -> None:
    def f(loc: Any, scale: Any) -> Any:
        return np.sum(random.truncated_normal(40, *bounds, loc, scale, key=KEY) ** 2)

    found, h = jf.grad(f, argnums=(0, 1))(0.3, 1.2), 1e-5
    np.testing.assert_allclose(found[0], (f(0.3 + h, 1.2) - f(0.3 - h, 1.2)) / (2 * h), rtol=1e-6)
    np.testing.assert_allclose(found[1], (f(0.3, 1.2 + h) - f(0.3, 1.2 - h)) / (2 * h), rtol=1e-6)


def test_gamma_has_no_derivative_by_alpha_but_by_scale_beside_it() -> None:
    def f(alpha: Any, scale: Any) -> Any:
        return np.sum(random.gamma(4, alpha, scale, key=KEY))

    with pytest.raises(DerivativeError):
        jf.grad(f)(0.5, 1.0)
    with pytest.raises(DerivativeError):
        jf.jvp(lambda alpha: f(alpha, 1.0), (2.0,), (1.0,))
    np.testing.assert_allclose(jf.grad(f, argnums=1)(0.5, 2.0), f(0.5, 1.0), rtol=1e-12)


# ---------------------------------------------------------------- threads
_PROGRAM = """
import hashlib
import jitfuse as jf
def f(key):
    a, b, c = jf.random.split(key, 3)
    return (jf.random.normal((300, 1001), key=a), jf.random.gamma(100_003, 0.7, key=b),
            jf.random.categorical(50_001, [0.0, 1.0, 2.0], key=c), jf.random.fold_in(key, 3))
made = jf.fuse(f, strict=True)(jf.random.key(8))
print(hashlib.sha256(b"".join(x.tobytes() for x in made)).hexdigest())
"""


def test_numbers_do_not_depend_on_the_number_of_threads() -> None:
    digests = [
        subprocess.run([sys.executable, "-c", _PROGRAM], env={**os.environ, "JITFUSE_NUM_THREADS": threads},
                       capture_output=True, text=True, check=True).stdout
        for threads in ("1", "2")]
    assert len(digests[0]) == 65 and digests[0] == digests[1]


# ---------------------------------------------------------------- errors
WRONG: list[tuple[Any, type[Exception], str]] = [
    (lambda: random.uniform(3, key=np.zeros(3, "int64")), ShapeError, r"uniform: a key is int64\[2\], not .*\(3,\)"),
    (lambda: random.normal(3, key=np.zeros(2)), DTypeError, r"normal: a key is int64\[2\], not of float64; jf.ran"),
    (lambda: random.normal(3, key=random.split(KEY)), ShapeError, r"shape \(2, 2\).*pass one, or use jf.map"),
    (lambda: random.split(7), ShapeError, r"split: a key .*jf.random.key\(seed\) makes a key"),
    (lambda: random.split(KEY, -1), ArgumentError, "count of keys is not negative, as -1"),
    (lambda: random.key(1.5), DTypeError, "takes an integer, not float64"),
    (lambda: random.fold_in(KEY, [1, 2]), ShapeError, "one integer, not an array of shape"),
    (lambda: random.normal(3, dtype="float16"), DTypeError, r"not float16: .*astype\('float16'\)"),
    (lambda: random.normal(3, 0.0, -1.0), ArgumentError, "normal: scale is not negative, not -1.0"),
    (lambda: random.normal(3, 0.0, np.nan), ArgumentError, "not nan"),
    (lambda: random.exponential(3, -2), ArgumentError, "scale is not negative"),
    (lambda: random.normal(3, 1j), DTypeError, "loc is real, not of complex128"),
    (lambda: random.normal(3, None), DTypeError, "loc: dtype object"),  # type: ignore[arg-type]
    (lambda: random.normal(-3), ShapeError, r"\(-3,\) has a negative extent"),
    (lambda: random.normal(3, np.zeros(4)), ShapeError, r"\(4,\), \(\) do not broadcast to the shape \(3,\); shape=N"),
    (lambda: random.normal(None, np.zeros(4), np.ones(3)), ShapeError, "do not broadcast to each other"),
    (lambda: random.uniform(3, 1.0, 1.0), ArgumentError, "low is below high, not 1.0 and 1.0"),
    (lambda: random.truncated_normal(3, 2, 1), ArgumentError, "low is below high, not 2.0 and 1.0"),
    (lambda: random.truncated_normal(3, scale=0), ArgumentError, "scale is positive, not 0.0"),
    (lambda: random.gamma(3, 0.0), ArgumentError, "alpha is positive and finite, not 0.0"),
    (lambda: random.integers(3, 5, 5), ArgumentError, "low is below high, not 5 and 5"),
    (lambda: random.integers(3, 0.0, 1.0), DTypeError, "low is an int64, not of float64"),
    (lambda: random.integers(3, 0, 9, "float64"), DTypeError, "use jf.random.uniform"),
    (lambda: random.integers(3, 0, 129, "int8"), ArgumentError, "int8 holds all"),
    (lambda: random.integers(3, -(2**62), 2**62), ArgumentError, r"at most 2\^53 integers"),
    (lambda: random.integers(3, 0, 2**63), ArgumentError, "high is an int64"),
    (lambda: random.bernoulli(3, 1.5), ArgumentError, r"p is in \[0, 1\], not 1.5"),
    (lambda: random.categorical(3, np.zeros((2, 0))), ShapeError, "no category on axis -1"),
    (lambda: random.categorical(3, 1.0), AxisError, "out of bounds"),
    (lambda: random.permutation(-1), ShapeError, "negative extent"),
    (lambda: random.permutation(np.ones(3), axis=1), AxisError, "out of bounds"),
]


@pytest.mark.parametrize(("call", "error", "text"), WRONG, ids=range(len(WRONG)))
def test_errors_say_what_is_wrong_and_the_way_out(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
    with pytest.raises(error, match=text):
        jf.fuse(lambda: call(), strict=True)()


def test_arrays_that_break_a_rule_are_described_by_their_range() -> None:
    with pytest.raises(ArgumentError, match=r"not an array from -2.0 to 3.0"):
        random.exponential(3, np.array([1.0, -2.0, 3.0]))
