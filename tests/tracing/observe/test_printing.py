"""What split functions print: all of it, once, in every call, with the values of that call."""
from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

DATA = [np.arange(4.0) + k for k in range(12)]


def printed(function: Callable[..., Any], *args: Any, file: Any = None) -> tuple[Any, str, str]:
    """Return what a call returns or raises, and what it has written to the two streams."""
    before, streams = (sys.stdout, sys.stderr), (io.StringIO(), io.StringIO())
    sys.stdout, sys.stderr = streams
    try:
        result = repr(function(*args))
    except ValueError as error:
        result = f"{type(error)} {error}"
    finally:
        sys.stdout, sys.stderr = before
    return result, streams[0].getvalue(), streams[1].getvalue()


def constant(x: Any) -> Any:
    print("start", end=" -> ")
    print(1, 2.5, None, [x.shape], sep=", ")
    return x + 1


def values(x: Any) -> Any:
    y = x * 2
    print("y is", y, "and", y[0], [y[1], {"z": (y[2], 3)}], x.sum() > 9)
    print(f"mean {y.mean():.3f}, {y[0]:>8} of {len(y)}, {y}")
    return y


def in_loops(x: Any) -> Any:
    for k in range(4):
        x = x * 0.5 + 1
        if k % 2 == 0:
            print(f"round {k}: {x.max():6.3f}",
                  f"{x[0]}")
    while x.sum() > 1:
        x = x / 2
    print("done", file=sys.stderr)
    return x


def on_branches(x: Any) -> Any:
    if x[0] > 2:
        print("large")
        if x[0] > 5:
            raise ValueError(f"too large: {x[0]}")
    print(f"{'at'} the end")
    return x


def with_text(x: Any) -> Any:
    text = f"{bool(x[0] % 2):03d}"
    print(text, len(text), f"{text!r}", "%d" % (x.sum() > 9))  # noqa: UP031
    return text


@pytest.mark.parametrize("function", [constant, values, in_loops, on_branches, with_text])
def test_the_same_text_in_every_call(function: Callable[..., Any], recwarn: pytest.WarningsRecorder) -> None:
    fused = jf.fuse(function)
    for x in (*DATA, *DATA):
        assert printed(fused, x) == printed(function, x)
    assert fused.stats()["fallbacks"] == 0 and not recwarn
    assert fused.stats()["traces"] <= 9


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_a_call_that_plain_python_takes_over_prints_once() -> None:
    def function(x: Any) -> Any:
        print("start", x[0])
        for k in range(len(x)):
            print(k, round(float(x[k]), 1))
        return x

    fused = jf.fuse(function)
    for x in (np.arange(30.0), np.arange(3.0), np.arange(40.0)):
        assert printed(fused, x) == printed(function, x)
    assert fused.stats()["fallbacks"]


def test_a_print_of_their_own_is_called() -> None:
    said: list[str] = []

    def function(x: Any) -> Any:
        def print(text: str) -> None:
            said.append(text)

        print(f"{x[0] > 1}")
        return x + 1

    with pytest.warns(jf.FallbackWarning):
        jf.fuse(function)(DATA[0])
    assert said[-1] == "False" and not any("\0" in text for text in said)


def test_texts_of_arrays_show_their_values() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        return f"{y}", str(y), repr(y), f"{y[0]!r:>9}", "%s" % y[1], "{:.2f}".format(y[1])  # noqa: UP031, UP032

    fused = jf.fuse(function)
    for x in DATA[:3]:
        assert fused(x) == function(x)
