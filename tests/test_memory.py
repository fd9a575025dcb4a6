"""Programs that come and go leave nothing behind: memory, mappings, code, and no cycle that waits for a collection.

JITFUSE_TEST_SCALE multiplies the number of programs; 33 is the full size, 10,000.
"""
from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amount import drawn, extended

import jitfuse as jf
from jitfuse.compile.objects import objects

SOAK = Path(__file__).resolve().parent.parent / "benchmarks" / "soak.py"
WEIGHTS = {"w": np.ones((4, 4)), "b": np.zeros(4)}
MEBIBYTES_PER_10_000 = 5.0


def soak(work: str, count: int, warm: int, folder: Path) -> list[dict[str, float]]:
    """Run the benchmark in a process of its own, with an empty cache, and return its samples."""
    environment = {**os.environ, "JITFUSE_CACHE_DIR": str(folder / "cache")}
    report = folder / "report.json"
    command = [sys.executable, str(SOAK), work, "--count", str(count), "--warm", str(warm), "--json", str(report)]
    subprocess.run([*command, "--samples", "3"], check=True, env=environment, capture_output=True)
    samples: list[dict[str, float]] = json.loads(report.read_text())
    return samples


@pytest.mark.full
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_programs_that_are_dropped_leave_no_memory(tmp_path: Path) -> None:
    count, warm = drawn(300), 60
    first, *_, last = soak("functions", count, warm, tmp_path)
    # what the allocator and the last compilation leave around does not grow with the number of programs
    allowed = 1.5 + MEBIBYTES_PER_10_000 * (count - warm) / 10_000
    assert (last["trimmed"] - first["trimmed"]) / 1024 <= allowed
    assert last["mappings"] - first["mappings"] <= 8
    assert last["blocks"] - first["blocks"] <= 1000 + (count - warm) // 10


@pytest.mark.full
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
@pytest.mark.parametrize("work", ["shapes", "values"] if extended() else ["shapes"])
def test_signatures_of_one_function_are_bounded(work: str, tmp_path: Path) -> None:
    # two rounds of signatures are held at most: the new one, and the last, which other threads may be in
    warm = 1100
    first, *_, last = soak(work, warm + drawn(300), warm, tmp_path)
    assert last["mappings"] - first["mappings"] <= 8
    assert (last["trimmed"] - first["trimmed"]) / 1024 <= 3.0


# ---------------------------------------------------------------------- without the collector
@dataclass
class Pair:
    first: Any
    second: Any


class Model:
    def __init__(self) -> None:
        self.weights = np.ones((4, 4))
        self.layers = [np.ones(4)]

    def forward(self, x: Any) -> Any:
        return x @ self.weights + self.layers[0]


def functions() -> dict[str, Callable[[Any], Any]]:
    """Return functions that reach state in different ways, each with an array of its own."""
    held, model, factors = np.ones((4, 4)), Model(), [1.0, 2.0]

    def closure(x: Any) -> Any:
        return x * held

    def method(x: Any) -> Any:
        return model.forward(x)

    def global_dict(x: Any) -> Any:
        return x @ WEIGHTS["w"] + WEIGHTS["b"]

    def reductions(x: Any) -> Any:
        return x.sum(0) - x.max(axis=1), {"transposed": x.T}

    def training(x: Any) -> Any:
        return jf.nn.dropout(x * held, 0.1)

    def writes(x: Any) -> Any:
        x += 1.0
        x[0] = held[0]

    def loop(x: Any) -> Any:
        for factor in factors:
            x = x * factor
        return x

    def instance(x: Any) -> Any:
        return Pair(x + held, x)

    def products(x: Any) -> Any:
        return x @ x @ held @ x

    def refused(x: Any) -> Any:
        return x + held[np.array([0, 1, 2])]

    def looks(x: Any) -> Any:
        while x.sum() > 1:
            x = x * held * 0.1 if x.max() > 1 else x - 1
        return x

    made = (closure, method, global_dict, reductions, training, writes, loop, instance, products, refused, looks)
    return {f.__name__: f for f in made}


@contextmanager
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def call(function: Callable[[Any], Any], x: np.ndarray[Any, Any], **options: Any) -> jf.FusedFunction:
    fused = jf.fuse(function, **options)
    for training in (False, True):
        with suppress(jf.JitfuseError):
            fused(x, training=training)
    return fused


@pytest.mark.parametrize("name", functions())
@pytest.mark.parametrize("cache", [True, False])
def test_everything_dies_with_its_last_user(name: str, cache: bool) -> None:
    call(functions()[name], np.ones((4, 4)))  # modules and tables that come once
    with no_collection():
        function, x = functions()[name], np.ones((4, 4))
        fused = call(function, x, cache=cache)
        watched = [weakref.ref(o) for o in (fused, function, x)]
        kernels = [weakref.ref(s.plans[False].kernels) for s in fused.parts.specs if s.plans[False].kernels]
        del x
        assert watched[2]() is None, "the argument of a call outlives it"
        del function, fused
        assert [r() for r in watched] == [None] * 3
        assert [r() for r in kernels] == [None] * len(kernels)


def test_code_is_shared_and_freed_with_its_last_user() -> None:
    x = np.ones(5)
    first, second = (jf.fuse(lambda x: np.cos(x) * 0.8125 - x) for _ in range(2))
    with no_collection():
        before = len(objects._objects)
        first(x), second(x)
        assert len(objects._objects) == before + 1
        del first
        assert len(objects._objects) == before + 1
        np.testing.assert_allclose(second(x), np.cos(x) * 0.8125 - x)
        del second
        assert len(objects._objects) == before


def use_a_class_of_its_own() -> weakref.ref[type]:
    @dataclass
    class Local:
        first: Any
        rest: Any

    def f(x: Any) -> Any:
        return {"a": Local(x + 1.0, [Local(x * 2.0, None), x.sum()])}

    x = np.arange(3.0)
    fused = jf.fuse(f)
    for _ in range(2):
        actual = fused(x)["a"]
        assert type(actual) is type(actual.rest[0]) is Local and actual.rest[0].rest is None
        np.testing.assert_array_equal(actual.rest[0].first, x * 2.0)
        assert actual.rest[1] == x.sum()
    return weakref.ref(Local)


def test_classes_of_results_die() -> None:
    watched = use_a_class_of_its_own()
    gc.collect()  # a class is a cycle of its own
    assert watched() is None
