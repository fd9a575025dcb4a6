"""Fused functions in other processes: small pickles, by name or by value, that hit the disk cache where they arrive."""
from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from amount import PATIENCE

import jitfuse as jf

X = np.arange(6.0)
TABLE = np.arange(100_000.0)

# what a user's script is: functions in __main__, and workers
SCRIPT = """
import multiprocessing, pickle, sys
import numpy as np
import jitfuse as jf

SCALE = 3.0

def helper(x):
    return np.tanh(x) * SCALE

@jf.fuse
def wave(x, b):
    return helper(x) + np.sin(x) * b

class Model:
    def __init__(self):
        self.rate = 0.5
    @jf.fuse
    def step(self, x):
        return x * self.rate + np.cos(x)

def told(f, *args):
    import jitfuse.compile.interface
    value = f(*args)
    totals = jitfuse.compile.interface.totals()
    return value.tolist(), totals.compiles, totals.cache_hits

def main():
    x, model = np.arange(6.0), Model()
    wave.warm(x, 2.0), Model.step.warm(model, x)
    before = told(wave, x, 2.0)[1:] if sys.argv[1] == "fork" else (0, 0)
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        value, compiles, hits = pool.apply(told, (wave, x, 2.0))
        assert compiles == before[0] and (hits >= 1 or before[0]), (compiles, hits)
        assert value == wave(x, 2.0).tolist()
        value, compiles, hits = pool.apply(told, (model.step, x))
        assert compiles == before[0] and value == model.step(x).tolist(), (compiles, hits)
    print("fine")

if __name__ == "__main__":
    main()
"""

DEPARTURE = """
import sys, pathlib
import cloudpickle
import numpy as np
import jitfuse as jf

@jf.fuse
def wave(x):
    return np.cos(x) * 2 + np.tanh(x)

wave.warm(np.arange(6.0))
data = cloudpickle.dumps(wave)
assert len(data) < 4096
pathlib.Path(sys.argv[1]).write_bytes(data)
"""

ARRIVAL = """
import pathlib, pickle, sys
import numpy as np
import jitfuse.compile.interface
data = pathlib.Path(sys.argv[1]).read_bytes()
f, g = pickle.loads(data), pickle.loads(data)
x = np.arange(6.0)
assert f is not g and f(x).tolist() == g(x).tolist()
totals = jitfuse.compile.interface.totals()
assert totals.compiles == 0 and totals.cache_misses == 0, totals
(a,), (b,) = f.kernels, g.kernels
assert a.key == b.key and a._object is b._object and a.from_cache
print(jitfuse.compile.interface.totals().cache_hits)
"""


def run(code: str, folder: Path, *arguments: str) -> str:
    """Run a script in a folder of its own and return what it printed."""
    (folder / "script.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-W", "error", "script.py", *arguments], cwd=folder, capture_output=True, text=True,
        timeout=PATIENCE, check=False,
        env={**os.environ, "JITFUSE_CACHE_PATH": "", "JITFUSE_CACHE_DIR": str(folder / "kernels")},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.full
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_workers_of_multiprocessing_compile_nothing(tmp_path: Path, method: str) -> None:
    assert run(SCRIPT, tmp_path, method) == "fine\n"


@pytest.mark.full
def test_functions_of_a_script_arrive_by_value_twice_with_one_object(tmp_path: Path) -> None:
    run(DEPARTURE, tmp_path, "f.pickle")
    run(ARRIVAL, tmp_path, "f.pickle")


@jf.fuse
def here(x: Any) -> Any:
    """A function of a module, with an array of the module."""
    return x * 2 + TABLE[:6]


class Net:
    """A class with a fused method, whose state is its own."""

    def __init__(self) -> None:
        self.w = np.arange(6.0)

    @jf.fuse
    def step(self, x: Any) -> Any:
        """Read the state of the instance."""
        return x + self.w


def test_functions_of_modules_travel_by_name() -> None:
    for dumps in (pickle.dumps, cloudpickle.dumps, pickle._dumps):  # type: ignore[attr-defined]
        for value in (here, Net.step):
            data = dumps(value)
            assert len(data) < 200 and pickle.loads(data) is value
    assert copy.copy(here) is here and copy.deepcopy(here) is here
    net = pickle.loads(pickle.dumps(Net().step))
    np.testing.assert_array_equal(net(X), X + X)


def test_renamed_functions_travel_with_the_plain_function() -> None:
    fused = jf.fuse(run, name="other")
    again = pickle.loads(pickle.dumps(fused))
    assert again is not fused and again.__wrapped__ is run and again.name == "other"


def test_options_travel() -> None:
    fused = jf.fuse(lambda x, n: x * n, training=True, strict=True, static_argnames=("n",), cache=False, name="opt")
    again = cloudpickle.loads(cloudpickle.dumps(fused))
    for name in fused.parts.definition.options.__slots__:
        assert getattr(again.parts.definition.options, name) == getattr(fused.parts.definition.options, name)


def test_pickles_are_small_whatever_was_compiled() -> None:
    def wave(x: Any, b: Any, steps: int = 3) -> Any:
        for _ in range(steps):
            x = np.where(x > 0, np.sin(x) * b, np.exp(x) - b)
        return {"total": np.sum(x), "wave": x}

    fused = jf.fuse(wave)
    before = len(cloudpickle.dumps(fused))
    fused(X, 2.0), fused(X[:3], 2.0, 1), fused(X.astype(np.float32), 2.0)
    data = cloudpickle.dumps(fused)
    assert len(data) == before < 4096
    np.testing.assert_array_equal(cloudpickle.loads(data)(X, 2.0)["wave"], fused(X, 2.0)["wave"])


def test_closures_arrive_as_they_are_now() -> None:
    state = {"w": 1.0}
    fused = jf.fuse(lambda x: x * state["w"])
    fused(X)
    first = cloudpickle.loads(cloudpickle.dumps(fused))
    state["w"] = 5.0
    second = cloudpickle.loads(cloudpickle.dumps(fused))
    np.testing.assert_array_equal(first(X), X)
    np.testing.assert_array_equal(second(X), X * 5)


def test_functions_that_hold_themselves() -> None:
    holder: dict[str, Any] = {}
    holder["f"] = jf.fuse(lambda x: x * len(holder))
    again = cloudpickle.loads(cloudpickle.dumps(holder["f"]))
    np.testing.assert_array_equal(again(X), X)


DASK = """
import sys
import numpy as np
import jitfuse as jf
from distributed import Client, LocalCluster

SCALE = 3.0

@jf.fuse
def wave(x, b):
    return np.tanh(x) * SCALE + np.sin(x) * b

def told(x):
    import jitfuse.compile.interface
    value = wave(x, 2.0)
    return value.tolist(), jitfuse.compile.interface.totals().compiles, jitfuse.compile.interface.totals().cache_hits

if __name__ == "__main__":
    x = np.arange(6.0)
    wave.warm(x, 2.0)
    want = wave(x, 2.0).tolist()
    options = dict(n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None)
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        assert client.submit(wave, x, 2.0).result(60).tolist() == want
        for k in range(3):
            value, compiles, hits = client.submit(told, x, key=f"told-{k}").result(60)
            assert value == want and compiles == 0 and hits >= 1, (compiles, hits)
        parts = client.map(lambda k: wave(np.full(6, float(k)), 2.0).tolist(), range(8))
        for k, part in enumerate(client.gather(parts)):
            assert part == wave(np.full(6, float(k)), 2.0).tolist()
    print("fine")
"""


def test_dask_workers_compile_nothing(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: pip install dask distributed")
    (tmp_path / "script.py").write_text(DASK)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False,
        env={**os.environ, "JITFUSE_CACHE_PATH": "", "JITFUSE_CACHE_DIR": str(tmp_path / "kernels")},
    )
    assert done.returncode == 0 and done.stdout.endswith("fine\n"), done.stderr
