"""Every operator of the op table, exported and run without jitfuse, against the interpreter and NumPy's own answer."""
from __future__ import annotations

import importlib.util
import math
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amount import drawn, scale

from jitfuse.backends.interpreter.runner import ProgramRunner
from jitfuse.errors import JitfuseError
from jitfuse.exporting import export
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, Meta, OpStep, make_attrs

EACH = 2
"""Cases that are tried of each combination of operand dtypes."""
RUFF = importlib.util.find_spec("ruff")


def _cases_of() -> Any:
    path = Path(__file__).parents[1] / "backends/interpreter/conftest.py"
    spec = importlib.util.spec_from_file_location("interpreter_conftest", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.cases_of


CASES_OF = _cases_of()


def program_of(op: ops.Op, metas: list[Meta], attrs: dict[str, Any]) -> FusedProgram:
    """Return the program of one step over feeds."""
    n, made = len(metas), op.result_metas(metas, attrs)
    results = tuple(range(n, n + len(made)))
    step = OpStep(0, op.name, tuple(range(n)), make_attrs(attrs), results, op.mode_sensitive)
    outputs = {f"result[{k}]": i for k, i in enumerate(results)} if len(made) > 1 else {"result": n}
    return FusedProgram(frozenset(range(n)), (step,), outputs, dict(enumerate([*metas, *made])))


@cache
def some_cases(op: ops.Op) -> list[tuple[list[Any], dict[str, Any]]]:
    """Return some cases of each combination of dtypes and of each combination of ranks and attributes."""
    found: dict[Any, list[Any]] = {}
    for operands, attrs in CASES_OF(op):
        dtypes = tuple(np.asarray(x).dtype.name for x in operands)
        for key in (("dtypes", dtypes), ("attrs", tuple(map(np.ndim, operands)), repr(sorted(attrs.items())))):
            cases = found.setdefault(key, [])
            if len(cases) < (EACH if key[0] == "dtypes" else 1) * max(scale(), 1):
                cases.append((operands, attrs))
    cases = [c for cases in found.values() for c in cases]
    random.Random(op.name).shuffle(cases)
    return cases[: drawn(15)]


def metas_of(operands: list[Any]) -> list[Meta]:
    return [Meta(np.shape(x), np.asarray(x).dtype.name) for x in operands]


def check(op: ops.Op, operands: list[Any], attrs: dict[str, Any], metas: list[Meta], load: Any, same: Any) -> None:
    program = program_of(op, metas, attrs)
    for mode in (False, True) if op.mode_sensitive else (False,):
        function = load(export(program, mode))
        try:
            expected = tuple(ProgramRunner(program)(dict(enumerate(operands)), mode).outputs.values())
        except JitfuseError as error:
            with pytest.raises((ValueError, TypeError, ArithmeticError, IndexError)):
                function(*operands)
            assert error is not None
            continue
        before = [np.array(x) for x in operands]
        got = function(*operands)
        for one, wanted in zip(got if op.is_of_many else (got,), expected, strict=True):
            same(one, wanted, (op.name, metas, attrs))
            assert type(one) is type(wanted), (type(one), type(wanted), op.name)
            for x, y in zip(operands, before):
                same(x, y, "an operand was changed")
                assert not (isinstance(one, np.ndarray) and isinstance(x, np.ndarray) and np.shares_memory(one, x))
            if isinstance(one, np.ndarray):
                assert one.flags.writeable


WRITTEN = [op for op in ops.table() if op.kind != ops.CONTROL]


@pytest.mark.parametrize("op", WRITTEN, ids=lambda op: op.name)
def test_every_operator_runs_without_jitfuse(op: ops.Op, load: Callable[..., Any], same: Callable[..., None]) -> None:
    cases = some_cases(op)
    assert cases
    for operands, attrs in cases:
        check(op, operands, attrs, metas_of(operands), load, same)


@pytest.mark.parametrize("op", [o for o in ops.table() if o.kind == ops.ELEMENTWISE], ids=lambda op: op.name)
def test_python_numbers_stay_weak(op: ops.Op, load: Callable[..., Any], same: Callable[..., None]) -> None:
    for values in ([2, 3, 1, 1], [2.5, 0.5, 1.0, 2.0], [True, 3, 0.5, 1.0], [np.ones(3, "float32"), 2, 3.5, 1],
                   [2, np.ones(3, "int32"), 1, 0.5], [True, 2, np.ones((2, 2), "float32"), 1.0]):
        operands = values[: op.arity]
        attrs = {"dtype": "float32"} if "dtype" in op.attrs else {}
        kinds = {bool: "bool", int: "int64", float: "float64"}
        metas = [Meta((), kinds[type(v)], weak=True) if type(v) in kinds else metas_of([v])[0] for v in operands]
        try:
            op.result_meta(metas, op.check_attrs(attrs))
        except JitfuseError:
            continue
        check(op, operands, op.check_attrs(attrs), metas, load, same)


@pytest.mark.full
@pytest.mark.skipif(RUFF is None, reason="needs ruff")
def test_exports_of_all_operators_are_clean_files(tmp_path: Path) -> None:
    for op in WRITTEN:
        for number, (operands, attrs) in enumerate(some_cases(op)[:4]):
            text = export(program_of(op, metas_of(operands), attrs), name="compute")
            (tmp_path / f"{op.name}_{number}.py").write_text(text)
    rules = "E,F,W,I,UP,B,SIM,RUF,TID,C4,PIE,N,D1"
    config = Path(__file__).parents[2] / "pyproject.toml"
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", str(config), "--select", rules,
         "--ignore", "D100", str(tmp_path)], capture_output=True, text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]


def test_scipy_and_ml_dtypes_come_only_where_they_are_used() -> None:
    add, gamma = ops.get("add"), ops.get("gammaln")
    assert add is not None and gamma is not None
    plain = export(program_of(add, [Meta((3,), "float32")] * 2, {}))
    assert "scipy" not in plain and "ml_dtypes" not in plain
    assert "ml_dtypes" in export(program_of(add, [Meta((3,), "bfloat16")] * 2, {}))
    special = export(program_of(gamma, [Meta((3,), "float32")], {}))
    assert special.index("def fused") < special.index("from scipy import special")


@pytest.mark.parametrize("value", [
    complex(-0.0, math.inf), complex(math.nan, -0.0), struct.unpack("<d", b"\1" * 6 + b"\xf8\xff")[0],
    0.1, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308, 2**63 - 1, -(2**63), True,
])
def test_literals_keep_every_bit(value: Any, load: Callable[..., Any], same: Callable[..., None]) -> None:
    full = ops.get("full")
    assert full is not None
    dtype = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}[type(value)]
    for shape, weak in (((), True), ((), False), ((2,), False)):
        attrs = {"shape": shape, "value": value, "dtype": dtype, "weak": weak}
        got = load(export(program_of(full, [], attrs)))()
        assert (type(got) is type(value)) == weak
        assert np.asarray(got).tobytes() == np.full(shape, value, dtype).tobytes()
    got = load(export(program_of(full, [], {"shape": (), "value": 0.1, "dtype": "float32", "weak": False})))()
    assert got.tobytes() == np.float32(0.1).tobytes()


@pytest.mark.parametrize("size", [0, 1, 64, 65, 5000])
@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "bool", "bfloat16", "complex64"])
def test_literal_arrays_keep_every_bit(size: int, dtype: str, load: Callable[..., Any], as_dtype: Any) -> None:
    constant = ops.get("constant")
    assert constant is not None
    data = np.random.default_rng(size).integers(0, 256, size * as_dtype(dtype).itemsize, "uint8").tobytes()
    if dtype == "bool":
        data = bytes(b & 1 for b in data)
    got = load(export(program_of(constant, [], {"shape": (size,), "dtype": dtype, "data": data})))()
    assert got.tobytes() == data and got.dtype == as_dtype(dtype)
