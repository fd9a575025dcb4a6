"""Every function and operator of the array API standard as an expression, for `benchmarks/eager.py`.

`xp` is the namespace; x, y are 16 floats, i, j 16 integers, b 16 bools, m and p matrices of 4 by 4, w, v and u what is
written into. Where NumPy or torch spells an expression in another way, `NUMPY` and `TORCH` have theirs.
"""
from __future__ import annotations

from typing import Final

UNARY: Final = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "conj", "cos", "cosh", "exp", "expm1", "floor",
    "imag", "isfinite", "isinf", "isnan", "log", "log1p", "log2", "log10", "negative", "positive", "real",
    "reciprocal", "round", "sign", "signbit", "sin", "sinh", "square", "sqrt", "tan", "tanh", "trunc",
]
BINARY: Final = [
    "add", "atan2", "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal", "hypot", "less",
    "less_equal", "logaddexp", "maximum", "minimum", "multiply", "nextafter", "not_equal", "pow", "remainder",
    "subtract",
]
INTEGERS: Final = ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"]
TRUTHS: Final = ["logical_and", "logical_or", "logical_xor"]
REDUCTIONS: Final = [
    "sum", "mean", "std", "var", "prod", "min", "max", "any", "all", "argmin", "argmax", "count_nonzero",
]
ARITHMETIC: Final = ["+", "-", "*", "/", "//", "%", "**"]
COMPARISONS: Final = ["<", "<=", ">", ">=", "==", "!="]
BITS: Final = ["&", "|", "^", "<<", ">>"]
INPLACE: Final = ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"]
INPLACE_BITS: Final = ["iand", "ior", "ixor", "ilshift", "irshift"]

GROUPS: Final[dict[str, list[str]]] = {
    "elementwise": [
        *(f"xp.{n}(x)" for n in UNARY), *(f"xp.{n}(x, y)" for n in BINARY), *(f"xp.{n}(i, j)" for n in INTEGERS),
        *(f"xp.{n}(b, b)" for n in TRUTHS), "xp.bitwise_invert(i)", "xp.logical_not(b)", "xp.clip(x, 0.2, 0.8)",
        *(f"xp.{n}(x, 2.0)" for n in ("add", "multiply", "maximum", "pow", "less", "floor_divide")),
    ],
    "operators": [
        *(f"x {o} y" for o in ARITHMETIC), *(f"x {o} 2.0" for o in ARITHMETIC), *(f"2.0 {o} x" for o in ARITHMETIC),
        *(f"x {o} y" for o in COMPARISONS), *(f"x {o} 0.5" for o in COMPARISONS),
        *(f"i {o} j" for o in (*BITS, "+", "*", "//", "%")), *(f"i {o} 3" for o in (*BITS, "+", "//", "%")),
        *(f"3 {o} i" for o in (*BITS, "-")), "-x", "+x", "abs(x)", "~i", "m @ p",
        *(f"operator.{n}(w, 1.0)" for n in INPLACE), *(f"operator.{n}(w, one)" for n in INPLACE[:4]),
        *(f"operator.{n}(v, 1)" for n in INPLACE_BITS), "operator.imatmul(u, unit)",
        "float(s)", "bool(s)", "int(s)",
    ],
    "reductions": [
        *(f"xp.{n}(x)" for n in REDUCTIONS), *(f"xp.{n}(m, axis=0)" for n in REDUCTIONS),
        "xp.sum(m, axis=1, keepdims=True)", "xp.cumulative_sum(x)", "xp.cumulative_prod(x)", "xp.diff(x)",
    ],
    "shapes": [
        "xp.broadcast_arrays(x, c)", "xp.broadcast_to(x, (4, 16))", "xp.concat([x, y])",
        "xp.expand_dims(x, axis=0)", "xp.flip(x)", "xp.flip(m, axis=1)", "xp.matrix_transpose(m)",
        "xp.moveaxis(m, 0, 1)", "xp.permute_dims(m, (1, 0))", "xp.repeat(x, 2)", "xp.reshape(x, (4, 4))",
        "xp.roll(x, 3)", "xp.squeeze(r, axis=0)", "xp.stack([x, y])", "xp.tile(x, (2,))", "xp.unstack(m)",
        "xp.tril(m)", "xp.triu(m)", "xp.meshgrid(x, y)", "xp.broadcast_shapes((4, 1), (4,))", "m.T", "m.mT",
    ],
    "creation": [
        "xp.zeros((4, 4))", "xp.ones((4, 4))", "xp.empty((4, 4))", "xp.full((4, 4), 2.0)", "xp.arange(16)",
        "xp.linspace(0.0, 1.0, 16)", "xp.eye(4)", "xp.zeros_like(x)", "xp.ones_like(x)", "xp.empty_like(x)",
        "xp.full_like(x, 2.0)", "xp.asarray(x)", "xp.asarray(number)", "xp.asarray(numbers)", "xp.from_dlpack(x)",
        "xp.astype(x, float32)", "xp.astype(i, float64)", "xp.result_type(x, i)", "xp.can_cast(float32, float64)",
        "xp.finfo(float64)", "xp.iinfo(int64)", "xp.isdtype(float64, 'real floating')",
        "xp.zeros((4, 4), dtype=float32)",
    ],
    "items": [
        "x[3]", "x[2:5]", "x[::-1]", "m[1]", "m[:, 1]", "m[..., None]", "x[b]", "x[i]", "operator.setitem(w, 3, 1.0)",
        "operator.setitem(w, slice(2, 5), 1.0)", "operator.setitem(w, b, 1.0)", "xp.take(x, i)",
        "xp.take(m, k, axis=1)", "xp.take_along_axis(x, i)", "x.shape", "x.dtype", "x.ndim", "x.size", "x.device",
    ],
    "searches": [
        "xp.sort(x)", "xp.sort(x, descending=True)", "xp.argsort(x)", "xp.argsort(x, descending=True)",
        "xp.searchsorted(x, y)", "xp.nonzero(x)", "xp.where(b, x, y)", "xp.where(b, x, 0.0)", "xp.unique_all(x)",
        "xp.unique_counts(x)", "xp.unique_inverse(x)", "xp.unique_values(x)", "xp.isin(x, y)",
    ],
    "linalg": [
        "xp.matmul(m, p)", "xp.tensordot(m, p, axes=1)", "xp.vecdot(x, y)",
        *(f"xp.linalg.{n}(m)" for n in (
            "det", "diagonal", "eig", "eigvals", "inv", "matrix_norm", "matrix_rank", "matrix_transpose", "pinv", "qr",
            "slogdet", "svd", "svdvals", "trace")),
        *(f"xp.linalg.{n}(h)" for n in ("cholesky", "eigh", "eigvalsh")), "xp.linalg.matrix_power(m, 3)",
        "xp.linalg.cross(t, t)", "xp.linalg.outer(x, y)", "xp.linalg.solve(m, p)", "xp.linalg.vector_norm(x)",
        "xp.linalg.matmul(m, p)", "xp.linalg.tensordot(m, p, axes=1)", "xp.linalg.vecdot(x, y)",
    ],
    "fft": [
        *(f"xp.fft.{n}(x)" for n in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftshift", "ifftshift")),
        *(f"xp.fft.{n}(m)" for n in ("fftn", "ifftn", "rfftn", "irfftn")), "xp.fft.fftfreq(16)", "xp.fft.rfftfreq(16)",
    ],
}
"""The expressions by kind."""

NUMPY: Final[dict[str, str]] = {
    "xp.sort(x, descending=True)": "np.flip(np.sort(x))",
    "xp.argsort(x, descending=True)": "15 - np.flip(np.argsort(np.flip(x), stable=True))",
    "xp.from_dlpack(x)": "x", "xp.asarray(x)": "np.asarray(x)", "xp.broadcast_arrays(x, c)":
    "np.broadcast_arrays(x, c)", "xp.take_along_axis(x, i)": "np.take_along_axis(x, i, -1)",
    "xp.conj(x)": "x.conj()", "xp.matrix_rank(m)": "np.linalg.matrix_rank(m)",
}
TORCH: Final[dict[str, str]] = {
    "xp.pow(x, y)": "torch.pow(x, y)", "xp.astype(x, float32)": "x.to(float32)",
    "xp.astype(i, float64)": "i.to(float64)",
    "xp.bitwise_invert(i)": "torch.bitwise_not(i)", "xp.cumulative_sum(x)": "torch.cumsum(x, 0)",
    "xp.cumulative_prod(x)": "torch.cumprod(x, 0)", "xp.broadcast_arrays(x, c)":
    "torch.broadcast_tensors(x, c)", "xp.expand_dims(x, axis=0)": "torch.unsqueeze(x, 0)",
    "xp.flip(x)": "torch.flip(x, (0,))", "xp.flip(m, axis=1)": "torch.flip(m, (1,))", "x[::-1]": "torch.flip(x, (0,))",
    "xp.matrix_transpose(m)": "m.mT", "xp.linalg.matrix_transpose(m)": "m.mT", "xp.permute_dims(m, (1, 0))":
    "torch.permute(m, (1, 0))", "xp.repeat(x, 2)": "torch.repeat_interleave(x, 2)", "xp.unstack(m)": "torch.unbind(m)",
    "xp.squeeze(r, axis=0)": "torch.squeeze(r, 0)", "xp.meshgrid(x, y)": "torch.meshgrid(x, y, indexing='xy')",
    "xp.from_dlpack(x)": "x", "xp.asarray(numbers)": "torch.tensor(numbers)", "xp.asarray(number)":
    "torch.tensor(number)", "xp.isdtype(float64, 'real floating')": "float64.is_floating_point",
    "xp.take(m, k, axis=1)": "torch.index_select(m, 1, k)", "xp.take_along_axis(x, i)":
    "torch.take_along_dim(x, i, -1)",
    "xp.nonzero(x)": "torch.nonzero(x, as_tuple=True)", "xp.unique_all(x)":
    "torch.unique(x, return_inverse=True, return_counts=True)", "xp.unique_counts(x)":
    "torch.unique(x, return_counts=True)", "xp.unique_inverse(x)": "torch.unique(x, return_inverse=True)",
    "xp.unique_values(x)": "torch.unique(x)", "xp.vecdot(x, y)": "torch.linalg.vecdot(x, y)",
    "xp.sort(x)": "torch.sort(x)", "xp.linalg.trace(m)": "torch.trace(m)", "xp.linalg.outer(x, y)": "torch.outer(x, y)",
    "xp.linalg.tensordot(m, p, axes=1)": "torch.tensordot(m, p, dims=1)", "xp.tensordot(m, p, axes=1)":
    "torch.tensordot(m, p, dims=1)", "xp.linalg.cross(t, t)": "torch.linalg.cross(t, t)",
    "xp.imag(x)": "torch.zeros_like(x)",
    "xp.maximum(x, 2.0)": "torch.clamp(x, min=2.0)", "xp.finfo(float64)": "torch.finfo(float64)",
    "xp.iinfo(int64)": "torch.iinfo(int64)", "xp.linalg.svd(m)": "torch.linalg.svd(m)",
    "xp.linalg.matrix_norm(m)": "torch.linalg.matrix_norm(m)", "operator.imatmul(u, unit)": "u.copy_(u @ unit)",
}

OTHERS: Final[dict[str, str]] = {
    **{f"{call}": f"torch.where(torch.isinf({a}) | torch.isinf({b}), {a} / {b}, torch.floor_divide({a}, {b}))"
       for call, a, b in (("xp.floor_divide(x, y)", "x", "y"), ("x // y", "x", "y"))},
    "xp.linalg.cross(t, t)": "t.roll(-1) * t.roll(1) - t.roll(1) * t.roll(-1)",
    "xp.linalg.diagonal(m)": "torch.linalg.diagonal(m).clone()",
    "xp.linspace(0.0, 1.0, 16)": "np.linspace(0.0, 1.0, 16)",
    "xp.meshgrid(x, y)": "[grid.clone() for grid in torch.meshgrid(x, y, indexing='xy')]",
    "xp.unique_all(x)": "unique_with_places(x)",
}
"""Rows of which torch's own function (`TORCH`) gives something else, and what gives the same in torch.

Quotients rounded down are infinite where a float is; x times x is 0, which one rounding of a difference of products
does not give; diagonals and grids have memory of their own; numbers alone make an array of NumPy's; torch has no places
of what is unique.
"""
