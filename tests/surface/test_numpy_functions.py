"""Every function in the list of NumPy's that people use gives what NumPy gives, in each form, dtype and layout."""
from __future__ import annotations

import copy
import operator
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest
from amount import extended
from oracle import outcome
from surface import numpy_page
from surface.arguments import KINDS, arguments
from surface.examples import function_of
from surface.numpy_examples import BY_VALUES, REFUSED, functions

import jitfuse as jf
from jitfuse.tracing.numpy_like.all_functions import FUNCTIONS
from jitfuse.tracing.tracer import trace

PAGE = Path(__file__).parents[2] / "docs" / "numpy.md"
ALL = {name: examples for section in functions().values() for name, examples in section.items()}
LATER = frozenset({"np.piecewise(v, v > 0.5, [1, 0])"})
"""Examples that NumPy refuses without elements, where there is nothing to refuse."""


def _numpy_function(name: str) -> Any:
    return operator.attrgetter(name)(np)


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == numpy_page.page(), "run: python tests/surface/make_pages.py"


def test_the_list_is_complete() -> None:
    assert len(ALL) >= 200 and ALL.keys() >= REFUSED | BY_VALUES
    listed = {_numpy_function(n) for n in ALL if not n.startswith("ufunc.")}
    others = {f.__name__ for f in FUNCTIONS if f not in listed}
    assert others <= {"amin", "amax", "around"}, "the list lacks functions"  # other names of min, max and round


def _judge(got: Any, want: Any, kind: str, text: str) -> None:
    if isinstance(want, Exception):
        assert isinstance(got, Exception) or text in LATER, f"{text}: NumPy raises {want!r}"
        return
    assert not isinstance(got, Exception), (text, got)
    got_leaves, want_leaves = (optree.tree_leaves(v, none_is_leaf=True) for v in (got, want))
    assert len(got_leaves) == len(want_leaves), text
    for g, w in zip(got_leaves, want_leaves, strict=True):
        if not isinstance(w, np.ndarray | np.generic | int | float | complex):
            assert g == w, text
            continue
        a, b = np.asarray(g), np.asarray(w)
        assert a.dtype == b.dtype and a.shape == b.shape, (text, a.dtype, b.dtype, a.shape, b.shape)
        single = kind == "float32" or a.dtype in (np.float32, np.complex64)
        tolerance = 2e-5 if single else 1e-9  # of decompositions; the kernels' own bits have tests of their own
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * 0.1, err_msg=text)


@pytest.mark.parametrize("name", ALL)
def test_traces_agree_with_numpy(name: str, replay: Any) -> None:
    turn = list(ALL).index(name) % 2
    for k, text in enumerate(ALL[name]):
        for kind in KINDS if extended() else KINDS[(turn + k) % 2 :: 2]:
            made, again = arguments(kind), arguments(kind)
            function, used = function_of(text, {"np": np}, list(made))
            plain, traced = [made[k] for k in used], [again[k] for k in used]
            want = outcome(function, *plain)

            def run(*values: Any, function: Any = function) -> Any:
                return replay(trace(function, values, {}), values)

            got = outcome(run, *traced)
            if isinstance(got, jf.JitfuseError) and name in REFUSED | BY_VALUES:
                continue
            if "np.empty" in text and not isinstance(want, np.ndarray):
                assert got == want
                continue
            _judge((got, traced) if not isinstance(got, Exception) else got,
                   (want, plain) if not isinstance(want, Exception) else want, kind, text)


@pytest.mark.parametrize("name", list(ALL)[:: 1 if extended() else 8])
def test_compiled_functions_agree_with_numpy(name: str) -> None:
    for text in ALL[name]:
        made, again = arguments(), arguments()
        function, used = function_of(text, {"np": np}, list(made))
        plain, fused = [made[k] for k in used], [copy.copy(again[k]) for k in used]
        want, got = outcome(function, *plain), outcome(jf.fuse(function), *fused)
        if not (isinstance(got, jf.JitfuseError) and name in REFUSED | BY_VALUES):
            _judge((got, fused) if not isinstance(got, Exception) else got, (want, plain), "float64", text)
