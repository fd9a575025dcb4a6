"""NumPy's functions of complex arrays that are no ufuncs: parts, angles, and tests of the dtype."""
from __future__ import annotations

import math
from typing import Any

from jitfuse.dtypes import kind
from jitfuse.tracing.tensor.function_table import implements, strong

Tensor = Any


def is_complex(x: Tensor) -> bool:
    """Return whether the dtype is complex."""
    return kind(str(x.dtype)) == "complex"


@implements("real")
def real(val: Tensor) -> Tensor:
    """Return the real part, or a real array itself."""
    return val.real


@implements("imag")
def imag(val: Tensor) -> Tensor:
    """Return the imaginary part."""
    return val.imag


@implements("angle")
def angle(z: Tensor, deg: bool = False) -> Tensor:
    """Return the angle in radians or degrees."""
    result = strong(z).call("angle")
    return result * (180 / math.pi) if deg else result


@implements("iscomplexobj")
def iscomplexobj(x: Tensor) -> bool:
    """Return whether the dtype is complex."""
    return is_complex(x)


@implements("isrealobj")
def isrealobj(x: Tensor) -> bool:
    """Return whether the dtype is not complex."""
    return not is_complex(x)


@implements("iscomplex")
def iscomplex(x: Tensor) -> Tensor:
    """Return where the imaginary part is not zero."""
    number = strong(x)
    found: Any = number.imag != 0
    return found if kind(str(number.dtype)) == "complex" else found.ordered("iscomplex", "C")


@implements("isreal")
def isreal(x: Tensor) -> Tensor:
    """Return where the imaginary part is zero."""
    return strong(x).imag == 0
