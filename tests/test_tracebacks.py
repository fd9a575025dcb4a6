"""Errors in traces show the user's frames alone, the line that caused them last; JITFUSE_DEBUG shows all."""
from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

X = np.ones(3)
PACKAGE = str(Path(jf.__file__).parent)
FOLDERS = (PACKAGE, *(str(Path(PACKAGE, part).resolve()) for part in ("tracing", "backends", "cache")))


def helper(x: Any, w: Any) -> Any:
    return x @ w  # the line


def shapes(x: Any, w: Any) -> Any:
    y = x + 1
    return helper(y, w)


def reads(x: Any) -> Any:
    return x * len({float(x[0])})  # the line


def numpys(x: Any) -> Any:
    return np.take(x, 9)  # the line


def loop(x: Any) -> Any:
    return jf.scan(lambda c, v: (c[None], v), x, x)  # the line


def key(x: Any) -> Any:
    return sorted([x, x], key=lambda v: v.nope)[0]  # the line


CASES: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (shapes, (X, np.ones(5)), {}), (shapes, (X, np.ones(5)), {"strict": True}), (reads, (X,), {"strict": True}),
    (numpys, (X,), {"strict": True}), (loop, (X,), {}), (key, (X,), {}),
]


def chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def is_ours(file: str) -> bool:
    return file.startswith(FOLDERS)


def raised(call: Callable[..., Any], *arguments: Any) -> Exception:
    try:
        call(*arguments)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("way", ["call", "program", "explain", "warm", "export"])
@pytest.mark.parametrize(("function", "arguments", "options"), CASES, ids=range(len(CASES)))
def test_the_users_line_is_last(
    function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any], way: str
) -> None:
    fused = jf.fuse(function, **options)
    error = raised(fused if way == "call" else getattr(fused, way), *arguments)
    frames = traceback.extract_tb(error.__traceback__)
    assert str(frames[-1].line).endswith("# the line")
    for one in chain(error):
        assert all(frame.filename == __file__ for frame in traceback.extract_tb(one.__traceback__))
        assert one.__traceback__ is not None


def test_debugging_shows_all_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITFUSE_DEBUG", "1")
    error = raised(jf.fuse(shapes), X, np.ones(5))
    assert any(is_ours(frame.filename) for frame in traceback.extract_tb(error.__traceback__))


def test_errors_of_the_users_own_chain_stay() -> None:
    def f(x: Any) -> Any:
        try:
            return x.reshape(7)
        except ValueError as error:
            raise RuntimeError("other") from error

    error = raised(jf.fuse(f), X)
    assert isinstance(error, RuntimeError) and isinstance(error.__cause__, ValueError)
    given = ValueError("never raised")

    @jf.fuse
    def g(x: Any) -> Any:
        raise KeyError("k") from given

    assert raised(g, X).__cause__ is given
    try:
        raise LookupError("before")
    except LookupError as before:
        error = raised(jf.fuse(shapes), X, np.ones(5))
        assert error.__context__ is before and before.__traceback__ is not None


def test_numpys_errors_in_plain_python_keep_the_users_frames() -> None:
    def f(x: Any) -> Any:
        return np.linalg.inv(x)  # the line

    error = raised(jf.fuse(f), X)
    frames = traceback.extract_tb(error.__traceback__)
    assert isinstance(error, np.linalg.LinAlgError) and any(str(f.line).endswith("# the line") for f in frames)
    assert not any(is_ours(frame.filename) for frame in frames)


def test_an_interrupt_is_left_as_it_is() -> None:
    @jf.fuse
    def f(x: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        f(X)
    assert any(is_ours(frame.filename) for frame in traceback.extract_tb(caught.value.__traceback__))
