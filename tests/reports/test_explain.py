"""The report of `explain`: its own numbers of steps, the program before Python's numbers, no addresses and no bytes."""
from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

X = np.linspace(0.5, 2.0, 50)
MARKER = object()


def waves(x: Any, a: float) -> Any:
    y = x
    for _ in range(6):
        y = np.sin(y) * x[::-1] + y.sum() + a
    y = np.sort(y) + 1
    return y @ np.ones((len(x), 3)), y.std()


def constants(x: Any, marker: object) -> Any:
    if marker is MARKER:
        x = x[np.array([0, 2])] + np.array([1.0, 2.0])
    return x + 1


def branches(x: Any) -> Any:
    y = x * 2
    return y + 1 if np.array_equal(y, np.arange(50.0)) else y


def sections(text: str) -> dict[str, list[str]]:
    parts = [part.splitlines() for part in text.split("\n\n")]
    return {title: [line.strip() for line in lines] for title, *lines in parts}


def numbers(lines: list[str]) -> list[int]:
    return [int(line.split()[0]) for line in lines]


def test_steps_are_numbered_as_printed_and_refusals_use_these_numbers() -> None:
    found = sections(jf.fuse(waves).explain(X, 1.5))
    written = found["program (as written)"] + found.get("Python's numbers", [])
    planned = found["program (as planned)"]
    assert numbers(written) == list(range(len(written))) and numbers(planned) == list(range(len(planned)))
    refused = found["refused merges (steps as planned)"]
    assert refused
    for line in refused:
        named = re.match(r"(\w+) \(step (\d+)\): ", line)
        assert named and f" = {named[1]}(" in planned[int(named[2])], line


def test_the_program_comes_before_pythons_numbers() -> None:
    text = jf.fuse(constants).explain(X, MARKER)
    found = sections(text)
    assert [title for title in found if "program" in title or "number" in title][:2] == [
        "program (as written)", "Python's numbers"]
    assert all(" full(" not in line for line in found["program (as written)"])
    split = jf.fuse(branches)
    split(X)
    assert re.search(r"subgraph 0\n  0  %\d+: float64\[50\] = multiply", split.explain(X))


@pytest.mark.parametrize(("function", "arguments"), [
    (waves, (X, 1.5)), (constants, (X, MARKER)), (branches, (X,)),
], ids=["waves", "constants", "branches"])
def test_no_addresses_and_no_bytes_of_arrays(
    function: Callable[..., Any], arguments: tuple[Any, ...], tmp_path: Path
) -> None:
    fused = jf.fuse(function)
    fused(*arguments)
    text = fused.explain(*arguments, html=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text().partition("<details>")[0] if function is not branches else ""
    for shown in (text, page):
        assert not re.search(r"0x[0-9a-f]{4,}|h(&#x27;|')[0-9a-f]{8,}", shown)
    assert function is branches or "is <code object" in text
