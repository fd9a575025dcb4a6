"""What type checkers see of the namespace: a signature for each function that `namespace` makes from tables.

Imported by type checkers alone. Functions with equal parameters share one. `tests/typing` compares names and parameters
with the functions themselves.
"""
from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from jitfuse.array_api.creation import arange as arange
from jitfuse.array_api.creation import asarray as asarray
from jitfuse.array_api.creation import empty as empty
from jitfuse.array_api.creation import eye as eye
from jitfuse.array_api.creation import from_dlpack as from_dlpack
from jitfuse.array_api.creation import full as full
from jitfuse.array_api.creation import linspace as linspace
from jitfuse.array_api.creation import ones as ones
from jitfuse.array_api.creation import zeros as zeros
from jitfuse.array_api.data_types import can_cast as can_cast
from jitfuse.array_api.data_types import finfo as finfo
from jitfuse.array_api.data_types import iinfo as iinfo
from jitfuse.array_api.data_types import isdtype as isdtype
from jitfuse.array_api.data_types import result_type as result_type
from jitfuse.array_api.functions import broadcast_shapes as broadcast_shapes
from jitfuse.array_api.functions import nonzero as nonzero
from jitfuse.array_api.functions import unique_all as unique_all
from jitfuse.array_api.functions import unique_counts as unique_counts
from jitfuse.array_api.functions import unique_inverse as unique_inverse
from jitfuse.array_api.functions import unstack as unstack


class _Array(Protocol):
    """An array of NumPy, torch or jitfuse: what has a shape and a dtype."""

    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...


ArrayLike: TypeAlias = _Array | complex | list[Any] | tuple[Any, ...]
Axes: TypeAlias = int | Sequence[int]
Device: TypeAlias = str | None
Bool: TypeAlias = builtins.bool  # the namespace has a dtype of this name


# ---------------------------------------------------------------- elements
def _one(x: ArrayLike, /) -> Any: ...
def _two(x1: ArrayLike, x2: ArrayLike, /) -> Any: ...


abs = acos = acosh = angle = asin = asinh = atan = atanh = bitwise_count = bitwise_invert = cbrt = ceil = conj = _one
copy = cos = cosh = deg2rad = digamma = erf = erfc = erfcinv = erfinv = exp = exp2 = expm1 = fabs = floor = _one
frexp_exponent = frexp_mantissa = gamma = gammaln = gelu = gelu_tanh = i0 = i0e = i1 = i1e = imag = isfinite = _one
isinf = isnan = isneginf = isposinf = log = log10 = log1p = log2 = log_ndtr = log_sigmoid = logical_not = logit = _one
modf_fraction = modf_whole = ndtr = ndtri = negative = positive = rad2deg = real = reciprocal = relu = rgamma = _one
riemann_zeta = rint = sigmoid = sign = signbit = silu = sin = sinc = sinh = softplus = spacing = sqrt = square = _one
tan = tanh = trunc = matrix_transpose = unique_values = _one
add = atan2 = beta = betaln = bitwise_and = bitwise_left_shift = bitwise_or = bitwise_right_shift = bitwise_xor = _two
copysign = divide = elu = equal = float_power = floor_divide = fmax = fmin = fmod = gammainc = gammaincc = _two
gammaincinv = gcd = greater = greater_equal = heaviside = hypot = lcm = ldexp = leaky_relu = less = less_equal = _two
logaddexp = logaddexp2 = logical_and = logical_or = logical_xor = make_complex = matmul = maximum = minimum = _two
multiply = nextafter = not_equal = pow = remainder = subtract = xlogy = zeta = _two


def where(condition: ArrayLike, x1: ArrayLike, x2: ArrayLike, /) -> Any: ...
def clip(x: ArrayLike, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Any: ...
def round(x: ArrayLike, /, decimals: int = 0) -> Any: ...
def isclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: Bool = False
) -> Any: ...
def nan_to_num(
    x: ArrayLike, copy: Bool = True, nan: ArrayLike = 0.0, posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Any: ...
def astype(x: ArrayLike, dtype: Any, /, *, copy: Bool = True, device: Device = None) -> Any: ...
def isin(x1: ArrayLike, x2: ArrayLike, /, *, invert: Bool = False) -> Any: ...


# ---------------------------------------------------------------- reductions and scans
def _sum(
    a: ArrayLike, axis: Axes | None = None, dtype: Any = None, out: Any = None, keepdims: Bool = False,
    initial: Any = ..., where: ArrayLike = True,
) -> Any: ...
def _mean(
    a: ArrayLike, axis: Axes | None = None, dtype: Any = None, out: Any = None, keepdims: Bool = False, *,
    where: ArrayLike = True,
) -> Any: ...
def _var(
    a: ArrayLike, axis: Axes | None = None, dtype: Any = None, out: Any = None, ddof: float = 0,
    keepdims: Bool = False, *, where: ArrayLike = True, mean: ArrayLike = ..., correction: float = ...,
) -> Any: ...
def _min(
    a: ArrayLike, axis: Axes | None = None, out: Any = None, keepdims: Bool = False, initial: Any = ...,
    where: ArrayLike = True,
) -> Any: ...
def _any(
    a: ArrayLike, axis: Axes | None = None, out: Any = None, keepdims: Bool = False, *, where: ArrayLike = True
) -> Any: ...
def _argmin(a: ArrayLike, axis: int | None = None, out: Any = None, *, keepdims: Bool = False) -> Any: ...
def _cumsum(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any: ...
def _cumulative(
    x: ArrayLike, /, *, axis: int | None = None, dtype: Any = None, out: Any = None, include_initial: Bool = False
) -> Any: ...
def _cummax(x: ArrayLike, /, *, axis: int) -> Any: ...
def _softmax(x: ArrayLike, /, *, axis: int | tuple[int, ...] = -1) -> Any: ...


sum = prod = nansum = nanprod = _sum
mean = nanmean = _mean
var = std = nanvar = nanstd = _var
min = max = nanmin = nanmax = _min
any = all = _any
argmin = argmax = nanargmin = nanargmax = _argmin
cumsum = cumprod = _cumsum
cumulative_sum = cumulative_prod = _cumulative
cummax = cummin = _cummax
softmax = log_softmax = _softmax


def count_nonzero(a: ArrayLike, axis: Axes | None = None, *, keepdims: Bool = False) -> Any: ...
def ptp(a: ArrayLike, axis: Axes | None = None, out: Any = None, keepdims: Bool = False) -> Any: ...
def average(
    a: ArrayLike, axis: Axes | None = None, weights: ArrayLike | None = None, returned: Bool = False, *,
    keepdims: Bool = False,
) -> Any: ...
def median(
    a: ArrayLike, axis: Axes | None = None, out: Any = None, overwrite_input: Bool = False, keepdims: Bool = False
) -> Any: ...
def quantile(
    a: ArrayLike, q: ArrayLike, axis: Axes | None = None, out: Any = None, overwrite_input: Bool = False,
    method: str = "linear", keepdims: Bool = False, *, weights: ArrayLike | None = None,
) -> Any: ...
def logsumexp(x: ArrayLike, /, *, axis: int | tuple[int, ...] | None = None, keepdims: Bool = False) -> Any: ...


# ---------------------------------------------------------------- shapes
def _like(x: ArrayLike, /, dtype: Any = None, *, device: Device = None) -> Any: ...
def _joined(
    arrays: Sequence[ArrayLike] | ArrayLike, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None,
    casting: str = "same_kind",
) -> Any: ...
def _triangle(m: ArrayLike, k: int = 0) -> Any: ...


zeros_like = ones_like = empty_like = _like
concat = _joined
tril = triu = _triangle


def full_like(x: ArrayLike, /, fill_value: ArrayLike, dtype: Any = None, *, device: Device = None) -> Any: ...
def stack(
    arrays: Sequence[ArrayLike] | ArrayLike, axis: int = 0, out: Any = None, *, dtype: Any = None,
    casting: str = "same_kind",
) -> Any: ...
def permute_dims(a: ArrayLike, axes: Sequence[int] | None = None) -> Any: ...
def expand_dims(a: ArrayLike, axis: Axes) -> Any: ...
def squeeze(a: ArrayLike, axis: Axes | None = None) -> Any: ...
def moveaxis(a: ArrayLike, source: Axes, destination: Axes) -> Any: ...
def flip(m: ArrayLike, axis: Axes | None = None) -> Any: ...
def broadcast_to(array: ArrayLike, shape: Axes, subok: Bool = False) -> Any: ...
def broadcast_arrays(*args: ArrayLike, subok: Bool = False) -> Any: ...
def reshape(x: ArrayLike, /, shape: Axes, *, copy: Bool | None = None) -> Any: ...
def tile(x: ArrayLike, repetitions: Axes, /) -> Any: ...
def repeat(x: ArrayLike, repeats: ArrayLike, /, *, axis: int | None = None) -> Any: ...
def roll(a: ArrayLike, shift: Axes, axis: Axes | None = None) -> Any: ...
def pad(array: ArrayLike, pad_width: Any, mode: str = "constant", **kwargs: Any) -> Any: ...
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any: ...
def meshgrid(
    *xi: ArrayLike, copy: Bool = True, sparse: Bool = False, indexing: Literal["xy", "ij"] = "xy"
) -> Any: ...


# ---------------------------------------------------------------- order, places, products
def _sort(x: ArrayLike, /, *, axis: int = -1, descending: Bool = False, stable: Bool = True) -> Any: ...
def _product(a: ArrayLike, b: ArrayLike, out: Any = None) -> Any: ...


sort = argsort = _sort
outer = dot = _product


def searchsorted(
    x1: ArrayLike, x2: ArrayLike, /, *, side: Literal["left", "right"] = "left", sorter: ArrayLike | None = None
) -> Any: ...
def take(
    x: ArrayLike, indices: ArrayLike, /, *, axis: int | None = None, mode: Literal["raise", "wrap", "clip"] = "raise"
) -> Any: ...
def take_along_axis(x: ArrayLike, indices: ArrayLike, /, *, axis: int = -1) -> Any: ...
def diff(
    x: ArrayLike, /, *, axis: int = -1, n: int = 1, prepend: ArrayLike | None = None, append: ArrayLike | None = None
) -> Any: ...
def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Any: ...
def tensordot(a: ArrayLike, b: ArrayLike, axes: Any = 2) -> Any: ...
def einsum(*operands: Any, out: Any = None, optimize: Any = False, **kwargs: Any) -> Any: ...


# ---------------------------------------------------------------- constants
e: float
pi: float
inf: float
nan: float
newaxis: None
bool: np.dtype[np.bool]
int8: np.dtype[np.int8]
int16: np.dtype[np.int16]
int32: np.dtype[np.int32]
int64: np.dtype[np.int64]
uint8: np.dtype[np.uint8]
uint16: np.dtype[np.uint16]
uint32: np.dtype[np.uint32]
uint64: np.dtype[np.uint64]
float16: np.dtype[np.float16]
bfloat16: np.dtype[Any]
float32: np.dtype[np.float32]
float64: np.dtype[np.float64]
complex64: np.dtype[np.complex64]
complex128: np.dtype[np.complex128]
