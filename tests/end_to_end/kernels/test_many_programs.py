"""Thousands of distinct programs in one process: memory bounded, code freed, mappings flat.

JITFUSE_TEST_SCALE=10 runs the ten thousand that the promise speaks of.
"""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from amount import PATIENCE, drawn, extended

from jitfuse.cache.sources import package_root

PROGRAM = """
import gc, json, sys
import numpy as np
import jitfuse as jf
from jitfuse.base import background
from jitfuse.compile.interface import native_runtime, totals
from jitfuse.compile.objects.objects import _objects

count, kind = int(sys.argv[1]), sys.argv[2]
operators = [
    lambda x: np.sqrt(x * x + 2.5), lambda x: x * x, lambda x: np.abs(x - 0.75), lambda x: 1.5 / (x * x + 3.5),
    lambda x: np.maximum(x, 0.5), lambda x: -x, lambda x: np.floor(x * 8.25), lambda x: x - np.trunc(x),
    lambda x: np.minimum(x, 4.5), lambda x: np.where(x > 0.5, x, 2.5),
]

def chain(number, x):
    while number:
        number, digit = divmod(number, len(operators))
        x = operators[digit](x)
    return x

def pages():
    background.wait()  # what is still to be stored is held
    gc.collect()
    with open("/proc/self/status") as file:  # of its own: of files the system holds what it likes
        resident = int(file.read().split("RssAnon:")[1].split()[0]) << 10
    with open("/proc/self/maps") as file:
        return {"resident": resident, "mappings": sum(1 for _ in file), "objects": len(_objects)}

native_runtime()
x = np.linspace(0.1, 7.0, 61)
budget = jf.Budget(subgraphs=32, seconds=1e6)  # else the function settles as plain Python
many = jf.fuse(lambda x, number: chain(100_003, x), static_argnames=("number",), budget=budget)
measured = []
for n in range(count):
    number = 10 ** 5 + n * 7919 % 900_000  # six operators, each program another
    got = many(x, number=n) if kind == "signatures" else jf.fuse(lambda x: chain(number, x))(x)
    if n % 50 == 0:
        np.testing.assert_array_equal(got, chain(100_003 if kind == "signatures" else number, x))
    if n + 1 in (count // 2, count):
        measured.append(pages())
print(json.dumps({"compiles": totals().compiles, "measured": measured}))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="reads /proc")
@pytest.mark.parametrize("kind", ["functions", "signatures"])
def test_memory_is_bounded_and_mappings_flat(tmp_path: Path, kind: str) -> None:
    # a function starts over where its signatures become many and keeps those before for a while
    count = drawn(1000) if extended() else 160
    environment = {
        **os.environ, "JITFUSE_CACHE_PATH": "", "JITFUSE_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": os.path.dirname(package_root()), "JITFUSE_NUM_THREADS": "1",
    }
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(count), kind]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    half, full = result["measured"]
    if kind == "functions":
        assert result["compiles"] > 0.9 * count, "the programs are to be distinct"
    assert max(half["objects"], full["objects"]) <= 2
    assert full["mappings"] - half["mappings"] < 40, (half, full)
    assert full["resident"] - half["resident"] < 12 << 20, (half, full)
