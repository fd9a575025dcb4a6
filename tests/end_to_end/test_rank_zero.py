"""Arrays of rank 0 and scalars: results have NumPy's types, and programs that tell them apart see NumPy's."""
from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import ROUNDED, same

import jitfuse as jf

EXPRESSIONS = [line.strip() for line in """
    np.zeros(())
    np.ones(())
    np.full((), 3.0)
    np.zeros(()) + x[0]
    np.array(3.0) * x[0]
    np.array(3.0) * z
    np.array(3.0)
    np.array(x[0])
    np.asarray(x[0])
    np.array(x.sum())
    np.asarray(3)
    np.asarray(s)
    np.array(s)
    np.array(n)
    x[0, ...]
    x[..., 0]
    x[...][0]
    z
    z[()]
    z[...]
    z.copy()
    z + 1
    z * z
    -z
    abs(z)
    z.sum()
    z.reshape(())
    z.reshape(1)
    z.T
    z.astype(np.float32)
    z.ravel()
    np.negative(z)
    np.copy(z)
    np.copy(x[0])
    np.copy(s)
    np.asarray(z)
    np.array(z)
    x.sum(keepdims=True)
    x.reshape(-1)[:1].reshape(())
    x[:1].reshape(())
    np.reshape(x[:1], ())
    np.reshape(x[0], ())
    np.squeeze(x[:1])
    x[:1].squeeze()
    x[0].squeeze()
    np.squeeze(x[0])
    x[0].reshape(())
    x[0].copy()
    x[0].astype(int)
    x[0].T
    x[0].real
    x[0].imag
    z.real
    z.imag
    np.transpose(x[0])
    np.transpose(z)
    np.where(x[0] > 0, x[0], x[1])
    np.where(z > 0, z, 1.0)
    np.where(True, x[0], 1)
    np.broadcast_to(x[0], ())
    np.broadcast_to(z, ())
    np.select([x[0] > 0.5], [x[1]], 0)
    np.clip(x[0], 0, 0.5)
    np.clip(z, 0, 0.5)
    z.clip(0, 1)
    np.round(z)
    z.round()
    np.round(x[0], 1)
    np.maximum(z, x[0])
    np.add(x[0], 1)
    np.dot(z, x[0])
    np.dot(z, z)
    np.dot(3.0, x[0])
    np.kron(x[0], x[1])
    np.kron(z, z)
    np.outer(z, z)
    np.take(x, 0)
    np.take(x, k[0])
    np.take(x, np.array(1))
    x.take(1)
    x[np.array(1)]
    x[k[0]]
    x[np.asarray(k[0])]
    x[1,]
    x[np.array(1),]
    x[k[0], ...]
    np.searchsorted(x, 0.5)
    np.searchsorted(x, x[0])
    np.searchsorted(x, z)
    np.nan_to_num(x[0])
    np.nan_to_num(z)
    np.real(x[0])
    np.real(z)
    np.imag(z)
    np.conj(z)
    np.isclose(x[0], x[1])
    np.isclose(z, z)
    np.any(x > 0)
    np.all(z)
    np.count_nonzero(x)
    np.count_nonzero(z)
    np.argmax(x)
    np.argmax(z)
    np.ptp(x)
    np.ptp(z)
    np.cumsum(z)
    np.diff(x).sum()
    np.polyval([1, 2, 3], x[0])
    np.polyval([1, 2, 3], z)
    np.polyval(x, 2.0)
    np.heaviside(x[0], 0.5)
    np.frexp(z)
    np.modf(x[0])
    np.modf(z)
    np.divmod(x[0], 0.3)
    divmod(x[0], 0.3)
    np.sign(z)
    np.unwrap(x)[0]
    np.convolve(x, x)[0]
    np.apply_along_axis(np.sum, 0, x)
    np.apply_along_axis(lambda r: r * 2, 0, x)[0]
    np.apply_over_axes(np.sum, np.outer(x, x), [0, 1])
    np.add.reduce(x)
    np.add.reduce(x, keepdims=True)
    np.minimum.reduce(x)
    np.logical_and.reduce(x > 0)
    np.atleast_1d(z)
    np.expand_dims(z, 0)
    np.stack([z, z])
    np.stack([x[0], x[1]])[0]
    np.array([z, z])
    np.array([x[0]])[0]
    np.full_like(z, 3)
    np.zeros_like(z)
    np.zeros_like(x[0])
    np.ones_like(s)
    np.full_like(x[0], 2)
    np.float64(x[0])
    np.float32(x[0])
    np.float64(z)
    np.int64(3)
    float(x[0])
    x[0].item()
    z.item()
    z.tolist()
    x[0].tolist()
    bool(z)
    x[0] if s > 1 else 3
    x.max()
    x.max(initial=2)
    x.min(axis=0)
    x.min(axis=(0,))
    np.outer(x, x).sum(axis=(0, 1))
    np.outer(x, x).sum(axis=0).sum(axis=0)
    np.outer(x, x)[0, 0]
    np.outer(x, x)[0][0]
    np.outer(x, x)[0, 0, ...]
    np.outer(x, x)[..., 0, 0]
    np.diagonal(np.outer(x, x))[0]
    np.moveaxis(z, [], [])
    np.swapaxes(np.outer(x, x), 0, 1)[0, 0]
    np.roll(z, 1)
    np.flip(z)
    np.flip(x)[0]
    np.sort(x)[0]
    np.sort(z, axis=None)
    np.ravel(z)[0]
    np.average(x)
    np.average(x, returned=True)
    np.histogram(x, 2)[1][0]
    np.bincount(k)[0]
    np.digitize(x[0], [0.1, 0.5])
    np.digitize(z, [0.1, 0.5])
    np.cross(np.array([1.0, 0, 0]), np.array([0, 1.0, 0]))[0]
    np.ldexp(z, 2)
    np.isnan(z)
    np.isreal(x[0])
    np.iscomplex(z)
    np.logical_not(z)
    ~np.asarray(k[0])
    np.invert(k[0])
    z > 1
    z == z
    np.asarray(z > 1)
    np.float32(2) * x[0]
    z.dot(x)
    z.mean()
    z.max()
    z.cumsum()
    z.flatten()
    z.fill(3)
    z.any()
    z.argmax()
    z.conj()
    z.squeeze()
    z.transpose()
    np.asarray(x)[1]
    np.asanyarray(z)
    np.ascontiguousarray(z)
    np.ascontiguousarray(x[0])
    np.asfortranarray(z)
    np.concatenate([z.reshape(1), x])[0]
    np.hstack([z, x])[0]
    np.block([z, x])[0]
    np.block(z)
    np.block(x[0])
    np.choose(1, [z, z])
    np.choose(k[0] * 0, [x, x])[0]
    np.piecewise(z, [z > 0], [1.0, 2.0])
    np.piecewise(x[0], [x[0] > 0], [1.0, 2.0])
    np.meshgrid(z, z)[0]
    np.ix_(x)[0][0]
    np.linspace(x[0], x[1], 3)[0]
    np.arange(3)[1]
    np.nansum(x)
    np.nansum(z)
    np.nanmax(z)
    np.float_power(z, 2)
    np.power(x[0], 2)
    z ** 2
    x[0] ** 2
    2 ** z
    z // 2
    z % 2
    np.trunc(z)
    np.fix(z)
    np.fix(x[0])
    np.unique(x)[0]
    np.tile(z, 1)
    np.tile(z, ())
    np.repeat(z, 1)
    np.pad(x, 1)[0]
    np.spacing(z)
    np.hypot(z, z)
    np.copysign(z, -1)
    np.nextafter(z, 3)
    np.lib.stride_tricks.sliding_window_view(x, 4)[0, 0]
    isinstance(np.zeros(()), np.ndarray)
    isinstance(x[0, ...], np.ndarray)
    isinstance(x[0, ...], np.float64)
    type(np.zeros(()))
    type(x[0, ...])
    type(x.sum())
    type(z)
    type(z + 1)
    type(np.where(x[0] > 0, 1.0, 2.0))
    (np.ndim(z), np.ndim(x[0]), np.shape(z), np.size(z))
    (z.shape, z.ndim, z.size, z.dtype, z.nbytes)
    (np.isscalar(x[0]), np.isscalar(z), np.isscalar(z + 1), np.isscalar(np.zeros(())))
    [np.zeros(()), x[0]]
    {'a': x[0, ...], 'b': np.zeros(()) + 1}
    (z, z, z + 0)
    np.array([[1.0]])[0, 0]
    sum(x)
    max(x)
    max(z, 1.0)
    min([z, x[0]])
    np.array(x[0], ndmin=1)
    np.array(x[0], dtype=np.float32)
    np.array(z, dtype=complex)
    np.where([x[0] > 0][0], z, z)
    np.tensordot(x, x, 1)
    np.dot(x, x)
    x @ x
    np.einsum('i->', x)
    np.linalg.norm(np.outer(x, x), 1)
    np.linalg.norm(np.outer(x, x), 2)
    np.i0(z)
    np.sum(x, out=np.zeros(()))
    np.add(z, 1, out=np.zeros(()))
""".strip().splitlines()]


def _calls() -> list[tuple[Any, ...]]:
    """Return arrays of ranks 1 and 0, numbers of Python's and NumPy's, and places."""
    return [
        (np.array([0.1, 0.4, 0.7, 0.9]) * i, np.array(1.5 + i), 0.5 + i, np.float64(1 + i), np.array([1 + i % 2, 2]))
        for i in range(1, 4)
    ]


def _judge(function: Callable[..., Any], what: object) -> None:
    fused = jf.fuse(function)
    for _ in range(2):
        for call in _calls():
            mine, theirs = copy.deepcopy(call), copy.deepcopy(call)
            same(fused(*theirs), function(*mine), ROUNDED, str(what))
            same(theirs, mine, ROUNDED, str(what))


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions_have_numpys_types(text: str) -> None:
    space: dict[str, Any] = {"np": np}
    exec(f"def function(x, z, s, n, k):\n    return {text}", space)
    _judge(space["function"], text)


def added(x: Any, z: Any, s: Any, n: Any, k: Any) -> Any:
    t = np.zeros(())
    for v in x:
        t += v
    return t, t.shape, isinstance(t, np.ndarray), np.ndim(t), type(t), t[()], t + 1


def written(x: Any, z: Any, s: Any, n: Any, k: Any) -> Any:
    t = np.zeros(())
    t[...] = x[1]
    t[()] += 1
    u = t
    u *= 2
    return t, u, t is u


def argument_added_to(x: Any, z: Any, s: Any, n: Any, k: Any) -> Any:
    z += x[0]
    return z


def argument_written(x: Any, z: Any, s: Any, n: Any, k: Any) -> Any:
    z[...] = x[2]
    z[()] = z * s


def element_written(x: Any, z: Any, s: Any, n: Any, k: Any) -> Any:
    e = x[1, ...]
    e += 5
    e[...] = e * 7
    return e, x


def picked_element_written(x: Any, z: Any, s: Any, n: Any, k: Any) -> Any:
    e = x[k[0], ...]
    e += 5
    y = np.zeros(4)
    y[k[0]] = z
    return x, y


def split(x: Any, z: Any, s: Any, n: Any, k: Any) -> Any:
    t = np.zeros(())
    while t < 3:
        t += x.sum()
    if x.sum() > 3:
        t += x[0]
    return t if x[0] > 0.15 else z


def other_types_by_path(x: Any, z: Any, s: Any, n: Any, k: Any) -> Any:
    t = np.zeros(()) + 0
    t = np.array(t) if s > 2 else t
    return t, z if x[0] > 0.15 else x[0]


def in_containers(x: Any, z: Any, s: Any, n: Any, k: Any) -> Any:
    return [np.zeros(()) + x[0], np.full((), s), {"q": x[0, ...].copy()}, np.array(x[0])]


def of_other_dtypes(x: Any, z: Any, s: Any, n: Any, k: Any) -> Any:
    a, b = np.zeros((), int), np.zeros((), np.float32)
    a += k[0]
    b += x[0]
    return a, b, b * 2, b + x[0]


def scalars_stay(x: Any, z: Any, s: Any, n: Any, k: Any) -> Any:
    t = x[0]
    t += 1
    w = np.where(x[0] > 0.2, x[1], x[2])
    w += 1
    return t, w, x


def shown(x: Any, z: Any, s: Any, n: Any, k: Any) -> Any:
    return f"{z}", repr(z), repr(x[0]), repr(x[0, ...]), z.item(), float(z), z.tolist()


def filled(x: Any, z: Any, s: Any, n: Any, k: Any) -> Any:
    t, out = np.zeros(()), np.empty(())
    t.fill(s)
    np.add(x[0], x[1], out=out)
    np.copyto(z, 3.0)
    return t, out, np.sum(x, out=out) is out


class _Keeper:
    first: Any = None
    second: Any = None


_keeper = _Keeper()


def kept(x: Any, z: Any, s: Any, n: Any, k: Any) -> Any:
    _keeper.first, _keeper.second = np.array(x[0]), np.zeros(()) + x[1]


@pytest.mark.parametrize("program", [
    added, written, argument_added_to, argument_written, element_written, picked_element_written, split,
    other_types_by_path, in_containers, of_other_dtypes, scalars_stay, shown, filled,
])
def test_programs_tell_arrays_of_rank_0_from_scalars(program: Callable[..., Any]) -> None:
    _judge(program, program)


def test_what_is_put_into_state_has_numpys_types() -> None:
    fused = jf.fuse(kept)
    for call in _calls():
        fused(*call)
        assert type(_keeper.first) is np.ndarray and _keeper.first == call[0][0]
        assert type(_keeper.second) is np.float64 and _keeper.second == call[0][1]


@pytest.mark.parametrize("expression", ["x[0, ...]", "z[...]", "z", "z.reshape(())", "x[:1].reshape(())", "z.T"])
def test_views_share_memory_with_arguments(expression: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def function(x, z):\n    return {expression}", space)
    fused = jf.fuse(space["function"])
    for _ in range(3):
        x, z = np.ones(3), np.array(2.0)
        got = fused(x, z)
        got[...] = 7
        assert (x[0] == 7) != (z == 7)


def test_what_arrays_of_rank_0_refuse() -> None:
    def function(x: Any, z: Any) -> Any:
        found = []
        for work in (lambda: hash(z), lambda: round(z), lambda: len(z), lambda: x[0][0]):
            try:
                work()
            except (TypeError, IndexError) as error:
                found.append(str(error))
        return found

    with pytest.warns(jf.FallbackWarning):
        assert jf.fuse(function)(np.ones(3), np.array(2.0)) == function(np.ones(3), np.array(2.0))
