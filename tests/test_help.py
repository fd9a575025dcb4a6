"""help(): every public name says what it does, takes, returns and raises, and its example gives what it says."""
from __future__ import annotations

import doctest
import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

SPACES = {"": jf, "nn.": jf.nn, "random.": jf.random, "linalg.": jf.linalg, "fft.": jf.fft}
FUNCTIONS: dict[str, Any] = {
    f"{prefix}{name}": getattr(space, name)
    for prefix, space in SPACES.items() for name in space.__all__
    if isinstance(getattr(space, name), types.FunctionType)
}
METHODS = {f"FusedFunction.{name}": inspect.getattr_static(jf.FusedFunction, name)
           for name in dir(jf.fuse(lambda x: x)) if not name.startswith("_")}
ERRORS = {name: value for name, value in vars(jf.errors).items()
          if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == "jitfuse.errors"}
TRAINING = {**{f"optim.{name}": getattr(jf.optim, name) for name in jf.optim.__all__}, "Parameter": jf.Parameter,
            "Buffer": jf.Buffer}
_NEEDS_SCIPY = "SciPy computes it"


def text(value: object) -> str:
    return inspect.getdoc(value) or ""


def parameters(function: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_say_what_they_take_return_and_raise(name: str) -> None:
    shown = text(FUNCTIONS[name])
    first = shown.splitlines()[0]
    assert first[0].isupper() and "operator" not in first, first
    assert "Example:\n    >>> " in shown, name
    assert "Returns:" in shown, name
    arguments = parameters(FUNCTIONS[name])
    if arguments:
        assert "Args:" in shown and "Raises:" in shown, name
        described = shown.partition("Args:")[2].partition("Returns:")[0]
        assert [a for a in arguments if a not in described] == [], name
    assert "----" not in shown, "NumPy's own text"


@pytest.mark.parametrize("name", METHODS)
def test_methods_have_examples(name: str) -> None:
    shown = text(METHODS[name])
    assert "Example:" in shown and shown[0].isupper(), name


def test_errors_say_what_went_wrong() -> None:
    silent = [name for name, error in ERRORS.items() if not error.__doc__ or error.__doc__ == Exception.__doc__]
    assert silent == []
    public = {name for name in jf.__all__ if isinstance(getattr(jf, name), type) and
              issubclass(getattr(jf, name), Exception)}
    assert [name for name in public if "Example:" not in text(ERRORS[name])] == []


@pytest.mark.parametrize("name", {**FUNCTIONS, **METHODS, **ERRORS, **TRAINING})
@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_examples_give_what_they_say(name: str) -> None:
    value = {**FUNCTIONS, **METHODS, **ERRORS, **TRAINING}[name]
    if _NEEDS_SCIPY in text(value):
        pytest.importorskip("scipy")
    scope = {"jf": jf, "np": np, "__name__": "example"}
    found = doctest.DocTestParser().get_doctest(text(value), scope, name, None, None)
    printed: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    runner.run(found, out=printed.append, clear_globs=False)
    assert runner.failures == 0, "".join(printed)


def test_texts_are_of_the_public_names_alone() -> None:
    from jitfuse import derivatives, own_derivatives
    from jitfuse.array_api import descriptions
    from jitfuse.arrays import state_trees

    rows = [line.split(" | ") for line in descriptions._TABLE.strip().splitlines()]
    spaces = {"": jf, "linalg": jf.linalg, "fft": jf.fft, "nn": jf.nn}
    assert all(len(row) == 4 for row in rows)
    assert {row[0] for row in rows} == {
        name for name in FUNCTIONS if not name.startswith("random.") and hasattr(
            spaces[name.rpartition(".")[0]], name.rpartition(".")[2])
    } - {*derivatives.__all__, *own_derivatives.__all__} - {f"nn.{name}" for name in state_trees.__all__} - {
        "cond", "export", "fori_loop", "fuse", "is_training", "map", "scan", "spec", "while_loop"}
