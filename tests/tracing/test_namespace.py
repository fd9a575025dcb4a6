"""The functions of `jf`: recorded on traced arrays, NumPy's on NumPy arrays, traced creation inside a trace."""
from __future__ import annotations

import numpy as np
import pytest

from jitfuse.array_api import namespace as jf
from jitfuse.ir.operators import ops
from jitfuse.tracing.record.mode import EagerMode
from jitfuse.tracing.record.recorder import active
from jitfuse.tracing.tracer import trace

X = np.array([0.5, 1.5, 2.5])


def test_every_elementwise_operator_has_a_name(op_names):
    for op in ops.table():
        if op.kind != ops.ELEMENTWISE or op.name in ("astype", "python_number", "require", "stop_gradient"):
            continue
        name = "pow" if op.name == "power" else op.name
        x = np.array([3, 5, 2]) if "bitwise" in name or name in ("gcd", "lcm") else X
        second = np.array([3, 5, 2]) if name == "ldexp" else x + x
        args = {1: [x], 2: [x, second], 3: [x > x[0] if name == "where" else x, x, x + x],
                4: [x, x, 0.5, 2.0]}[op.arity]
        if name in ("nan_to_num", "conj"):
            continue  # NumPy's has `copy` second; a real array is its own conjugate
        function = getattr(jf, name)
        t = trace(lambda *a, f=function: f(*a), tuple(args), {})
        assert op.name in op_names(t), op.name
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(getattr(jf, name)(*args), op.numpy(*args))


def test_numpy_in_numpy_out():
    assert type(jf.sin(X)) is np.ndarray and type(jf.sort(X)) is np.ndarray and type(jf.sum(X)) is np.float64
    assert jf.astype(X, np.float32).dtype == np.float32 and jf.arange(3).tolist() == [0, 1, 2]
    np.testing.assert_allclose(jf.softmax(X).sum(), 1.0)
    assert active() is None


def test_creation_inside_a_trace_takes_traced_values(check):
    def fn(x):
        with EagerMode(False):
            out = jf.zeros(x.shape)
            out[1] = jf.pow(x[0], 2)
            return out, jf.concat([out, x]), jf.astype(x, "float32"), jf.add(1.0, 2.0), jf.matmul(x, x)

    check(fn, X)


def test_unknown_names_raise():
    with pytest.raises(AttributeError, match="ffft"):
        _ = jf.ffft
    assert {"sin", "pow", "zeros", "softmax", "concat"} <= set(dir(jf))
