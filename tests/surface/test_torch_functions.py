"""Every function in the list of torch's that people use gives what torch gives, in each form, dtype and layout."""
from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Final

import amount
import numpy as np
import optree
import pytest
from surface.examples import function_of
from surface.torch_examples import REFUSED, SPLITTING, functions

import jitfuse as jf
from jitfuse.function.adapters import Adapted
from jitfuse.tracing.record.foreign import array_as_tensor
from jitfuse.tracing.tracer import trace

torch = pytest.importorskip("torch", reason="torch is not installed")
from surface import torch_page  # noqa: E402
from surface.torch_arguments import KINDS, torch_arguments  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "torch.md"
ALL = {name: examples for section in functions().values() for name, examples in section.items()}
TOLERANCE: Final = {torch.float32: 2e-5, torch.float64: 1e-9, torch.bfloat16: 4e-2, torch.float16: 6e-3,
                    torch.complex64: 2e-5, torch.complex128: 1e-9}
NOT_THERE: Final = ("not implemented for", "view size", "must be either float or double", "Unsupported dtype",
                    "can't be cast to the desired output type")
"""What torch says where it has no kernel, or no view, and jitfuse computes."""


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == torch_page.page(), "run: python tests/surface/make_pages.py"


def test_what_is_listed_is_torchs() -> None:
    assert len(ALL) >= 370 and ALL.keys() >= REFUSED | SPLITTING


def _call(function: Any, values: list[Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*values)
        except Exception as error:
            return error


def _judge(got: Any, want: Any, text: str) -> None:
    got_leaves, want_leaves = (optree.tree_leaves(v, none_is_leaf=True) for v in (got, want))
    assert len(got_leaves) == len(want_leaves), text
    for g, w in zip(got_leaves, want_leaves, strict=True):
        if not isinstance(w, torch.Tensor):
            assert type(g) is type(w) and g == w, text
            continue
        assert isinstance(g, torch.Tensor) and g.dtype == w.dtype and g.shape == w.shape, (text, g, w)
        rtol = TOLERANCE.get(w.dtype, 0.0)
        torch.testing.assert_close(g, w, rtol=rtol, atol=rtol * 0.2, equal_nan=True, msg=text)


def _compare(text: str, kind: str, name: str, run: Any) -> None:
    made, again = torch_arguments(kind), torch_arguments(kind)
    function, used = function_of(text, torch_page.space(), list(made))
    plain, given = [made[k] for k in used], [again[k] for k in used]
    want, got = _call(function, plain), _call(lambda *values: run(function, values), given)
    if isinstance(want, Exception):
        assert isinstance(got, Exception) or any(words in str(want) for words in NOT_THERE), (text, kind, want)
    elif isinstance(got, jf.errors.UnsupportedError) and name not in REFUSED:
        function, used = function_of(text, torch_page.space(), list(made))  # torch itself, at a graph break
        got = _call(jf.fuse(function), [again[k] for k in used])
        assert not isinstance(got, Exception), (text, kind, got)
        _judge((got, given), (want, plain), f"{text}, {kind}")
    elif isinstance(got, Exception):
        assert isinstance(got, jf.JitfuseError) and name in REFUSED, (text, kind, got)
    else:
        _judge((got, given), (want, plain), f"{text}, {kind}")


def _as_tensor(leaf: Any) -> Any:
    return array_as_tensor(leaf) if isinstance(leaf, np.ndarray | np.generic) else leaf


@pytest.mark.parametrize("name", [n for n in ALL if n not in SPLITTING])
def test_traces_agree_with_torch(name: str, replay: Any) -> None:
    def run(function: Any, values: Any) -> Any:
        call = Adapted(tuple(values), {})
        traced = trace(function, call.args, {}, foreign=call.tensor_ids)
        result = call.delivered(replay(traced, call.args))
        return optree.tree_map(_as_tensor, result) if traced.torch and not call.tensors else result

    turn = list(ALL).index(name) % 2
    for k, text in enumerate(ALL[name]):
        for kind in KINDS if amount.extended() else KINDS[(turn + k) % 2 :: 2]:
            _compare(text, kind, name, run)


@pytest.mark.parametrize("name", sorted(SPLITTING))
def test_functions_with_sections_agree_with_torch(name: str) -> None:
    for text in ALL[name]:
        for kind in ("float32", "int64", "strided"):
            _compare(text, kind, name, lambda function, values: jf.fuse(function)(*values))


@pytest.mark.parametrize("name", [n for n in ALL if n not in REFUSED][:: 1 if amount.extended() else 8])
def test_compiled_functions_agree_with_torch(name: str) -> None:
    for text in ALL[name]:
        _compare(text, "float32", name, lambda function, values: jf.fuse(function)(*values))
