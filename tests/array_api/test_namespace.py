"""The names of the Python array API standard 2025.12: every one is there, and dir() shows it."""
from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.tracing.tracer import trace

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
    "complex64", "complex128",
]
CONSTANTS = ["e", "inf", "nan", "newaxis", "pi"]
FUNCTIONS = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid",
    "ones", "ones_like", "tril", "triu", "zeros", "zeros_like", "astype", "broadcast_arrays", "broadcast_shapes",
    "broadcast_to", "can_cast", "finfo", "iinfo", "isdtype", "result_type", "abs", "acos", "acosh", "add", "asin",
    "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_left_shift", "bitwise_invert", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "conj", "copysign", "cos", "cosh", "divide", "equal",
    "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot", "imag", "isfinite", "isinf",
    "isnan", "less", "less_equal", "log", "log1p", "log2", "log10", "logaddexp", "logical_and", "logical_not",
    "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative", "nextafter", "not_equal", "positive",
    "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit", "sin", "sinh", "square", "sqrt",
    "subtract", "tan", "tanh", "trunc", "take", "take_along_axis", "matmul", "matrix_transpose", "tensordot",
    "vecdot", "concat", "expand_dims", "flip", "moveaxis", "permute_dims", "repeat", "reshape", "roll", "squeeze",
    "stack", "tile", "unstack", "argmax", "argmin", "count_nonzero", "nonzero", "searchsorted", "where",
    "unique_all", "unique_counts", "unique_inverse", "unique_values", "isin", "argsort", "sort", "cumulative_prod",
    "cumulative_sum", "max", "mean", "min", "prod", "std", "sum", "var", "all", "any", "diff",
    "__array_namespace_info__",
]
LINALG = [
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals",
    "tensordot", "trace", "vecdot", "vector_norm",
]
FFT = [
    "fft", "ifft", "fftn", "ifftn", "rfft", "irfft", "rfftn", "irfftn", "hfft", "ihfft", "fftfreq", "rfftfreq",
    "fftshift", "ifftshift",
]
BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"]
METHODS = [
    *(f"__{n}__" for n in BINARY), *(f"__r{n}__" for n in BINARY), *(f"__i{n}__" for n in BINARY),
    *(f"__{n}__" for n in [
        "eq", "ne", "lt", "le", "gt", "ge", "abs", "invert", "neg", "pos", "bool", "int", "float", "complex",
        "index", "getitem", "setitem"
    ]),
    "__array_namespace__", "__dlpack__", "__dlpack_device__", "to_device",
]
ATTRIBUTES = ["dtype", "device", "mT", "ndim", "shape", "size", "T"]


@pytest.mark.parametrize(("space", "names"), [
    (jf, DTYPES + CONSTANTS + FUNCTIONS + ["linalg", "fft"]), (jf.linalg, LINALG), (jf.fft, FFT),
], ids=["jitfuse", "linalg", "fft"])
def test_the_namespace_has_the_standards_names(space: object, names: list[str]) -> None:
    assert set(names) <= set(dir(space))
    for name in names:
        assert getattr(space, name) is None or getattr(space, name) is not None


def test_extensions_have_no_other_names() -> None:
    assert sorted(LINALG) == sorted(jf.linalg.__all__) and sorted(FFT) == sorted(jf.fft.__all__)


def test_arrays_have_the_standards_methods_eager_and_traced() -> None:
    eager = jf.ones((2, 2))
    assert all(hasattr(eager, name) for name in METHODS + ATTRIBUTES)
    assert eager.__array_namespace__() is jf and eager.__array_namespace__(api_version="2024.12") is jf
    assert jf.__array_api_version__ == "2025.12"
    seen = []

    def look(x: object) -> object:
        seen.extend(name for name in METHODS + ATTRIBUTES if "dlpack" not in name and not hasattr(x, name))
        assert x.__array_namespace__() is jf  # type: ignore[attr-defined]
        return x

    trace(look, (np.ones((2, 2)),), {})
    assert seen == []
    with pytest.raises(jf.ArgumentError, match=r"version '1\.0' of the array API standard"):
        eager.__array_namespace__(api_version="1.0")


def test_inspection() -> None:
    info = jf.__array_namespace_info__()
    assert sorted(info.dtypes()) == sorted(DTYPES) and info.default_device() in info.devices()
    assert info.dtypes(kind=("bool", "real floating")) == {n: getattr(jf, n) for n in ("bool", "float32", "float64")}
    assert info.default_dtypes()["integral"] == jf.int64 and info.capabilities()["boolean indexing"]


def test_dtypes_are_numpys_for_everyone() -> None:
    assert jf.float32 == np.float32 == jf.ones(1, dtype=jf.float32).dtype and jf.float32 != jf.float64
    assert jf.float64 != None and not isinstance(jf.float64, str)  # noqa: E711 -- np.dtype("float64") is equal to None
    assert np.zeros(2, jf.int8).dtype == np.int8 and isinstance(jf.int8, np.dtype) and jf.int8.itemsize == 1
    assert {jf.float32: 1}[jf.ones(1, dtype="float32").dtype] == 1 and repr(jf.bool) == "jitfuse.bool"
    assert jf.fuse(lambda x: x.astype(jf.float32))(np.ones(2)).dtype == jf.float32
    cast = jf.fuse(lambda x, dtype: jf.astype(x, dtype))
    for dtype in (jf.float32, jf.int8, jf.float32):
        assert cast(np.ones(2), dtype).dtype == dtype
    assert cast.stats()["traces"] == 2 and not hasattr(jf.int8, "__len__")
    assert jf.finfo(jf.complex64).dtype == jf.float32 and jf.iinfo("uint8").max == 255
    assert jf.result_type(jf.int8, jf.ones(2, dtype="int16"), 3) == jf.int16
    assert jf.isdtype(jf.int8, "integral") and not jf.isdtype(jf.int8, ("bool", jf.int16))
    assert jf.can_cast(jf.int8, jf.float32) and not jf.can_cast(jf.ones(1), jf.float32)


PUBLIC = ["cond", "fori_loop", "fuse", "map", "scan", "while_loop", "errors", "gpu", "nn", "random", "spec", "export"]
NN = ["batch_norm", "cross_entropy", "dropout", "gelu", "layer_norm", "linear", "mse_loss", "relu", "softmax"]


@pytest.mark.parametrize(("space", "names"), [
    (jf, [*PUBLIC, "sin", "JitfuseError"]), (jf.nn, NN), (jf.random, ["seed", "state", "uniform"]),
    (jf.linalg, LINALG), (jf.fft, FFT), (jf.gpu, ["asarray"]),
], ids=["jitfuse", "nn", "random", "linalg", "fft", "gpu"])
def test_dir_shows_the_public_names_alone(space: ModuleType, names: list[str]) -> None:
    shown = dir(space)
    assert shown == sorted(space.__all__) and set(names) <= set(shown)
    assert {n for n in shown if n.startswith("_")} <= {
        "__array_api_version__", "__array_namespace_info__", "__version__"}
    for name in shown:
        value = getattr(space, name)
        origin = getattr(value, "__module__", None) or getattr(value, "__name__", "jitfuse")
        assert isinstance(origin, str) and origin.partition(".")[0] in ("jitfuse", "builtins"), name


def test_internal_names_are_not_shown() -> None:
    internal = {"require", "python_number", "operate", "np", "Any", "annotations", "tracing", "ops", "functools"}
    assert not internal & {name for space in (jf, jf.nn, jf.random, jf.linalg, jf.fft) for name in dir(space)}


def test_dir_of_a_fused_function_shows_its_methods_and_what_every_object_has() -> None:
    f = jf.fuse(lambda x: x + 1)
    methods = {"explain", "explain_miss", "export", "feeds", "kernels", "name", "program", "stats", "warm", "why"}
    assert {name for name in dir(f) if not name.startswith("_")} == methods
    pythons = {*dir(lambda: None), "__wrapped__", "__weakref__"}
    assert {name for name in dir(f) if name.startswith("_")} <= pythons
    assert {"__call__", "__doc__", "__name__", "__wrapped__"} <= set(dir(f))
