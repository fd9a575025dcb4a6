"""Call plans on the disk: what comes back is what was planned, and what is told of it is of today's program."""
from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.cache import default_store
from jitfuse.compile import pipeline
from jitfuse.compile.call_plans.call_plan import CallPlan, NotPlainError, decode, encode, exact_bytes
from jitfuse.compile.objects.stored_plans import plan_name
from jitfuse.compile.planning import call_plan, forms_of, runtime_plan
from jitfuse.errors import BoundsError
from jitfuse.tracing.tracer import trace

X = np.linspace(-2.0, 2.0, 24).reshape(4, 6)
PROGRAMS = [
    lambda x: np.sin(x) * x + 1.0,
    lambda x: (x - x.mean(axis=1, keepdims=True), {"top": x.max(), "turned": x.T * 2.0}),
    lambda x: np.sort(x @ x.T, axis=0)[::-1],
    lambda x: x[:, np.array([0, -1, 3])] + np.array([1.5, np.nan, -0.0]),
    lambda x: (np.exp(x).sum(axis=0), x.reshape(6, 4), np.cumsum(x)),
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.delenv("JITFUSE_CACHE_PATH", raising=False)
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(folder))
    return folder


def planned(function: Any, *args: Any) -> tuple[CallPlan, tuple[str, ...]]:
    """Return the call plan of a function and the lines of its program."""
    traced = trace(function, args, {})
    runtime = runtime_plan(traced, False, "slack")
    name = plan_name(traced, False, "slack")
    assert name is not None
    return call_plan(runtime, forms_of(runtime)), name.lines


@pytest.mark.parametrize("function", PROGRAMS)
def test_what_is_written_comes_back(function: Any) -> None:
    plan, lines = planned(function, X)
    found = decode(encode(plan, lines), lines)
    assert exact_bytes(found) == exact_bytes(plan)
    assert found.steps == plan.steps and found.launches == plan.launches


@pytest.mark.parametrize("function", PROGRAMS)
def test_a_second_function_binds_the_stored_plan(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = jf.fuse(function)(X)
    monkeypatch.setattr("jitfuse.compile.planning.runtime_plan", None)
    again = jf.fuse(function)
    np.testing.assert_equal(again(X), expected)
    assert again.stats()["compiles"] == 0 and again.stats()["cache_hits"] <= 1


def test_the_report_of_a_stored_plan_is_that_of_a_new_one() -> None:
    function = PROGRAMS[1]
    first, second = jf.fuse(function, name="f"), jf.fuse(function, name="f")
    first(X), second(X)
    reports = [f.explain(X).split("\n", 1)[1] for f in (first, second)]
    assert reports[0] == reports[1] and [str(k.form) for k in first.kernels] == [str(k.form) for k in second.kernels]


@pytest.mark.parametrize("second", [
    (X[:2],), (X.astype("f4"),), (np.asfortranarray(X),), (X[:, ::2],),
])
def test_other_arguments_are_other_plans(second: tuple[Any, ...]) -> None:
    function = PROGRAMS[0]
    names = [plan_name(trace(function, args, {}), False, "slack") for args in ((X,), second)]
    assert names[0] is not None and names[1] is not None and names[0].key != names[1].key
    np.testing.assert_allclose(jf.fuse(function)(*second), function(*second), rtol=1e-6)


def test_literals_differ_bit_by_bit() -> None:
    functions: list[dict[str, Any]] = []
    for literal in ("0.0", "-0.0", "1.0", "1", "float('nan')", "-float('nan')"):
        functions.append({"np": np})
        exec(compile(f"def f(x): return np.copysign(x, {literal})", "literal.py", "exec"), functions[-1])
    names = [plan_name(trace(f["f"], (X,), {}), False, "slack") for f in functions]
    assert len({name.key for name in names if name is not None}) == len(names)


def test_options_are_part_of_the_name() -> None:
    traced = trace(PROGRAMS[0], (X,), {})
    names = [plan_name(traced, training, method) for training in (False, True) for method in ("slack", "asap")]
    assert len({name.key for name in names if name is not None}) == 4


GATHER = """
import numpy as np
{lines}
def f(x, i):
    y = x * 2.0
    return y[i]
"""


def gather(folder: Path, lines: int) -> Any:
    """Return a function that checks indices, defined so many lines further down."""
    path = folder / f"moved{lines}.py"
    path.write_text(GATHER.format(lines="\n" * lines))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def test_errors_name_the_line_of_today(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = np.array([0, 99])
    for lines in (0, 7):
        if lines:
            monkeypatch.setattr("jitfuse.compile.planning.runtime_plan", None)
        with pytest.raises(BoundsError, match=rf"moved{lines}\.py:{lines + 6}"):
            jf.fuse(gather(tmp_path, lines))(X, index)


def test_which_steps_share_a_line_is_part_of_the_name() -> None:
    namespaces: list[dict[str, Any]] = []
    for text in ("def f(x): return x * 2.0 + 1.0", "def f(x):\n  y = x * 2.0\n  return y + 1.0"):
        namespaces.append({})
        exec(compile(text, "shared.py", "exec"), namespaces[-1])
    names = [plan_name(trace(n["f"], (X,), {}), False, "slack") for n in namespaces]
    assert names[0] is not None and names[1] is not None and names[0].key != names[1].key


def test_what_is_not_plain_is_refused() -> None:
    for value in (np.float64(1.0), np.int64(1), [1], object()):
        with pytest.raises(NotPlainError):
            exact_bytes((1, value))
    assert exact_bytes((1, True)) != exact_bytes((1, 1)) and exact_bytes(0.0) != exact_bytes(-0.0)


@pytest.mark.full
def test_a_plan_without_its_object_is_planned_again(own_cache: Path) -> None:
    function = PROGRAMS[0]
    expected = jf.fuse(function)(X)
    store = default_store()
    for path in own_cache.glob("*.jfc"):
        if b'"kind"' not in path.read_bytes():
            path.unlink()
    code = "import numpy as np, jitfuse as jf, json\n" \
        "f = jf.fuse(lambda x: np.sin(x) * x + 1.0)\n" \
        "y = f(np.linspace(-2.0, 2.0, 24).reshape(4, 6)); print(json.dumps([y.tolist(), f.stats()['cache_misses']]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    values, misses = json.loads(done.stdout)
    assert values == expected.tolist() and misses == 1 and store is default_store()


def test_only_the_first_signatures_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bool] = []
    plan_entry = pipeline.plan_entry
    monkeypatch.setattr(pipeline, "plan_entry", lambda *args: kept.append(True) or plan_entry(*args))
    f = jf.fuse(lambda x: x * 3.0)
    for n in range(1, 21):
        f(np.zeros(n))
    assert len(kept) == 16


def test_a_function_without_a_cache_neither_reads_nor_writes_plans(own_cache: Path) -> None:
    jf.fuse(lambda x: x * 5.0, cache=False)(X)
    assert not any(b'"kind":"plan"' in path.read_bytes() for path in own_cache.glob("*.jfc"))
