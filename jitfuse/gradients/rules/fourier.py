"""Fourier transforms: linear, and each other's transposes up to the scale."""
from __future__ import annotations

from typing import Any

from jitfuse.gradients.rule import Call, linear
from jitfuse.gradients.values import Tensor, choose, part, positions

_UNSCALED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
"""The norm by which the inverse is the transpose."""


def _fft_transposed(ct: Tensor, x: Tensor, axis: int, norm: Any, inverse: str) -> Tensor:
    """Return the transpose of a transform along one axis that cuts or pads it first."""
    made = ct.call(inverse, n=ct.shape[axis], axis=axis, norm=_UNSCALED[norm or "backward"])
    return _resized(made, axis, x.shape[axis])


def _resized(x: Tensor, axis: int, extent: int) -> Tensor:
    at, n = axis % x.ndim, x.shape[axis]
    if n >= extent:
        return part(x, axis, 0, extent) if n > extent else x
    rest = x.create("zeros", shape=tuple(extent - n if k == at else m for k, m in enumerate(x.shape)),
                    dtype=str(x.dtype))
    return x.call("concat", rest, axis=at)


@linear("fft")
def _(call: Call, ct: Tensor) -> Tensor:
    return _fft_transposed(ct, call.x, call.attrs["axis"], call.attrs["norm"], "ifft")


@linear("ifft")
def _(call: Call, ct: Tensor) -> Tensor:
    return _fft_transposed(ct, call.x, call.attrs["axis"], call.attrs["norm"], "fft")


@linear("fftn")
def _(call: Call, ct: Tensor) -> Tensor:
    for axis in _axes(call):
        ct = _fft_transposed(ct, call.x, axis, call.attrs["norm"], "ifft")
    return ct


@linear("ifftn")
def _(call: Call, ct: Tensor) -> Tensor:
    for axis in _axes(call):
        ct = _fft_transposed(ct, call.x, axis, call.attrs["norm"], "fft")
    return ct


def _axes(call: Call) -> list[int]:
    axes = call.attrs["axes"]
    if axes is None:
        count = call.x.ndim if call.attrs["s"] is None else len(call.attrs["s"])
        axes = range(call.x.ndim - count, call.x.ndim)
    return [a % call.x.ndim for a in axes]


def _length(call: Call, axis: int, n: Any) -> int:
    return int(call.x.shape[axis] if n is None else n)


def _rfft_transposed(ct: Tensor, x: Tensor, axis: int, n: int, norm: Any) -> Tensor:
    """Return the real part of the inverse transform of the half spectrum, the other half being 0."""
    made = _resized(ct, axis, n).call("ifft", n=n, axis=axis, norm=_UNSCALED[norm or "backward"]).call("real")
    return _resized(made, axis, x.shape[axis])


def _irfft_transposed(ct: Tensor, x: Tensor, axis: int, norm: Any) -> Tensor:
    """Return the half spectrum, twice where a frequency stands for its mirror image too."""
    n = ct.shape[axis]
    half = ct.call("rfft", n=n, axis=axis, norm=_UNSCALED[norm or "backward"])
    at = positions(half, axis)
    single = at.equal(0).call("logical_or", at.multiply(2).equal(n))
    return _resized(half.multiply(choose(single, 1.0, 2.0)), axis, x.shape[axis])


@linear("rfft")
def _(call: Call, ct: Tensor) -> Tensor:
    axis = call.attrs["axis"]
    return _rfft_transposed(ct, call.x, axis, _length(call, axis, call.attrs["n"]), call.attrs["norm"])


@linear("irfft")
def _(call: Call, ct: Tensor) -> Tensor:
    return _irfft_transposed(ct, call.x, call.attrs["axis"], call.attrs["norm"])


@linear("rfftn")
def _(call: Call, ct: Tensor) -> Tensor:
    *others, last = _axes(call)
    for axis in others:
        ct = _fft_transposed(ct, call.x, axis, call.attrs["norm"], "ifft")
    s = call.attrs["s"]
    return _rfft_transposed(ct, call.x, last, _length(call, last, None if s is None else s[-1]), call.attrs["norm"])


@linear("irfftn")
def _(call: Call, ct: Tensor) -> Tensor:
    *others, last = _axes(call)
    ct = _irfft_transposed(ct, call.x, last, call.attrs["norm"])
    for axis in others:
        ct = _fft_transposed(ct, call.x, axis, call.attrs["norm"], "fft")
    return ct


_MIRRORED = {"backward": "forward", "forward": "backward", "ortho": "ortho", None: "forward"}


@linear("hfft")
def _(call: Call, ct: Tensor) -> Tensor:
    """Transpose irfft(conj(x)) of the other norm."""
    return _irfft_transposed(ct, call.x, call.attrs["axis"], _MIRRORED[call.attrs["norm"]]).call("conj")


@linear("ihfft")
def _(call: Call, ct: Tensor) -> Tensor:
    """Transpose conj(rfft(x)) of the other norm."""
    axis = call.attrs["axis"]
    return _rfft_transposed(ct.call("conj"), call.x, axis, _length(call, axis, call.attrs["n"]),
                            _MIRRORED[call.attrs["norm"]])
