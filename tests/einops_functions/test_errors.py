"""What is refused, and the text: the cause, the pattern with a caret under the place, sizes so far, the way out."""
from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitfuse import einops
from jitfuse.errors import AxesError

X = np.zeros((4, 6))


def lines(call: Callable[[], Any]) -> list[str]:
    """Return the lines of the error of a call, without the place in this file."""
    with pytest.raises(einops.EinopsError) as caught:
        call()
    first, *rest = str(caught.value).split("\n")
    return [first.partition(", at ")[0], *rest]


def test_the_error_is_of_both_families() -> None:
    assert issubclass(einops.EinopsError, AxesError) and issubclass(einops.EinopsError, RuntimeError)


@pytest.mark.parametrize(("call", "reason", "written", "marked"), [
    (lambda: einops.rearrange(X, "a (b c) -> a b c"), "Nothing tells the sizes of b and c",
     "rearrange(..., 'a (b c) -> a b c')", "(b c)"),
    (lambda: einops.rearrange(X, "a (b c) -> a b c", b=4), "axis 2 of array 1 has size 6, but b = 4 was given",
     "rearrange(..., 'a (b c) -> a b c', b=4)", "(b c)"),
    (lambda: einops.rearrange(X, "a b -> b a", c=4), "c is no axis of the pattern", "rearrange(..., 'a b -> b a', c=4)",
     "c=4"),
    (lambda: einops.reduce(X, "a b -> a", "median"), "Unknown reduction 'median'", "reduce(..., 'a b -> a', 'median')",
     "'median'"),
    (lambda: einops.reduce(X, "a b -> a c", "max"), "c is on the right alone", "reduce(..., 'a b -> a c', 'max')", "c"),
    (lambda: einops.repeat(X, "a b -> a b copies"), "Nothing tells the size of copies",
     "repeat(..., 'a b -> a b copies')", "copies"),
    (lambda: einops.einsum(X, X, "a b, a c -> b d"), "Unknown axis d on the right",
     "einsum(..., 'a b, a c -> b d')", "d"),
    (lambda: einops.pack([X, X[0]], "rows cols *"), "array 2 has 1 axes, of sizes (6,), and 2 are written",
     "pack(..., 'rows cols *')", "rows cols *"),
    (lambda: einops.parse_shape(X, "a 5"), "The axis has size 6, not 5", "parse_shape(..., 'a 5')", "5"),
])
def test_places(call: Callable[[], Any], reason: str, written: str, marked: str) -> None:
    found = lines(call)
    text, carets = (line.removeprefix("    ") for line in found[1:3])
    start = carets.index("^")
    assert (found[0], text, text[start : start + carets.count("^")]) == (reason, written, marked)


def test_what_stands_there_when_it_is_called_again() -> None:
    for _ in range(2):
        with pytest.raises(einops.EinopsError, match="has 1 axes"):
            einops.rearrange(X[0], "a b -> b a")
    assert einops.rearrange(X, "a b -> b a").shape == (6, 4)


def test_means_of_integers_are_refused_also_when_the_pattern_is_known() -> None:
    assert einops.reduce(X, "a b -> a", "mean").shape == (4,)
    with pytest.raises(NotImplementedError, match="mean of int64"):
        einops.reduce(X.astype("int64"), "a b -> a", "mean")


def test_sizes_that_change_are_no_keys() -> None:
    size = np.array(2)
    assert einops.rearrange(X, "a (b c) -> a b c", b=size).shape == (4, 2, 3)
    size += 1
    assert einops.rearrange(X, "a (b c) -> a b c", b=size).shape == (4, 3, 2)


@pytest.mark.parametrize(("shapes", "reason"), [
    ([(2,), (-1,), (4,), (9,)], "but"), ([(2,), (-1,), (-1,)], "more than one -1"), ([(0, -1), (6,)], "-1 beside a 0"),
    ([(8, -2)], "negative"), ([], "no shapes"),
])
def test_shapes_that_do_not_fit(shapes: list[tuple[int, ...]], reason: str) -> None:
    with pytest.raises(einops.EinopsError, match=reason):
        einops.unpack(X, shapes, "row *")


def test_it_is_imported_when_it_is_used_and_brings_no_torch() -> None:
    code = ("import sys, jitfuse; before = any('einops' in name for name in sys.modules)\n"
            "from jitfuse import einops; print(before, 'torch' in sys.modules, 'einops' in sys.modules)")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False", "False"]


@pytest.mark.parametrize("first", [False, True])
def test_sizes_that_equal_integers_are_refused_whatever_came_before(first: bool) -> None:
    wide, pattern = np.zeros((4, 7)), f"a (b {'c' if first else 'd'}) -> a b {'c' if first else 'd'}"
    name = pattern[5]
    for size in (1.0, True, 1 + 0j, np.float32(1)) if first else (7.0, 7 + 0j):
        if first:
            assert einops.rearrange(wide, pattern, **{name: 1}).shape == (4, 7, 1)
        assert lines(lambda size=size: einops.rearrange(wide, pattern, **{name: size}))[0] == f"{size!r} is no size"  # type: ignore[misc]
    for size in (7, np.int64(7)):
        assert einops.rearrange(wide, pattern, **{name: size}).shape == (4, 1, 7)


def test_shapes_that_equal_integers_are_refused_whatever_came_before() -> None:
    for shapes in ([(2,), (4,)], [(2.0,), (4,)], [(np.int64(2),), (4,)], [(2.0,), (4,)]):
        if isinstance(shapes[0][0], float):
            assert lines(lambda s=shapes: einops.unpack(X, s, "a *"))[0] == f"{shapes} are no shapes"  # type: ignore[misc]
        else:
            assert [part.shape for part in einops.unpack(X, shapes, "a *")] == [(4, 2), (4, 4)]


def test_errors_of_reductions_show_the_function_of_the_call() -> None:
    def least(x: Any, axes: tuple[int, ...]) -> Any:
        return x.min(axes)

    for function, name in ((np.max, "amax"), (np.min, "amin"), (least, least.__qualname__), (np.max, "amax")):
        found = lines(lambda function=function: einops.reduce(X[0], "a b -> a", function))  # type: ignore[misc]
        assert name.removeprefix("a") in found[1] and found[1].startswith("    reduce(..., 'a b -> a', ")
