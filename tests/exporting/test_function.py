"""Exports of whole functions: random programs, modes, state, writes, results, names, and bad input."""
from __future__ import annotations

import ast
import collections
import copy
import dataclasses
import os
import random
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import generate
import numpy as np
import optree
import programs
import pytest
from amount import drawn
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import randoms

import jitfuse as jf
from jitfuse import random as jf_random
from jitfuse.compile.run.interpreting import interpret
from jitfuse.ir.program import RANDOM_STATE, FusedProgram
from jitfuse.reports.export import export_call, with_feeds_of_the_result
from jitfuse.tracing.trace import Trace
from jitfuse.tracing.tracer import trace


def traced(function: Any, args: Any, training: bool = False) -> Trace:
    return trace(function, tuple(args), {}, training=training, declares_training=False, static_argnames=frozenset(),
                 schedule_method="slack")


def feeds_of(t: Trace, args: Any, state: Any) -> list[Any]:
    """Return the arguments of the export: what each feed of the program is bound to."""
    return [state if t.feeds[i].kind == "state" else t.feeds[i].source.resolve(tuple(args), {})
            for i in with_feeds_of_the_result(t).ordered_feeds]


class Named:
    """Stands for a fused function where only its name and signature matter."""

    name = "compute"

    def __call__(self, *args: Any) -> None: ...


def check(function: Any, make: Callable[[], Any], load: Any, same: Any, training: bool = False) -> None:
    """Compare an export with the interpreter: results bit by bit with their containers, arguments, state."""
    t = traced(function, make(), training)
    text = export_call(Named(), t, training)
    ast.parse(text)
    exported = load(text, "compute")
    mine, theirs = make(), make()
    states = [np.array([3, 4]), np.array([3, 4])]
    bound = feeds_of(t, mine, states[0])
    try:
        expected = interpret(t, training, tuple(theirs), {}, {RANDOM_STATE: states[1]}).to(tuple(theirs), {})
    except jf.JitfuseError:
        with pytest.raises((ValueError, TypeError, ArithmeticError, IndexError)):
            exported(*bound)
        return
    got = exported(*bound)
    if t.program.state_out:
        got, state = got
        same(state["random_state"], states[1], "state")
    (a, structure), (b, other) = (optree.tree_flatten(v) for v in (got, expected))
    assert structure == other
    for x, y in zip(a, b, strict=True):
        same(x, y, text)
        assert type(x) is type(y)
    arguments = ([vars(v) if isinstance(v, Net) else v for v in values] for values in (mine, theirs))
    for x, y in zip(*map(optree.tree_leaves, arguments), strict=True):
        same(x, y, "an argument")
    shown = [x for x in a if isinstance(x, np.ndarray)]
    hidden = [x for x in b if isinstance(x, np.ndarray)]
    for i in range(len(shown)):
        assert shown[i].flags.writeable == hidden[i].flags.writeable
        for j in range(i):
            assert np.shares_memory(shown[i], shown[j]) == np.shares_memory(hidden[i], hidden[j])


def agree(program: Any, load: Any, same: Any) -> None:
    with warnings.catch_warnings(), programs.quiet():
        warnings.simplefilter("ignore")
        try:
            traced(program.function(), program.arguments())
        except Exception:  # what cannot be traced is no matter of exports
            return
        check(program.function(), program.arguments, load, same)


@pytest.mark.parametrize("block", range(3))
def test_random_programs(block: int, load: Any, same: Any) -> None:
    for number in range(drawn(40)):
        agree(generate.draw_program(random.Random(f"export/{block}/{number}")), load, same)


@settings(max_examples=drawn(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=randoms(use_true_random=False))
def test_hypothesis_programs(seed: random.Random, load: Any, same: Any) -> None:
    agree(generate.draw_program(seed, 10), load, same)


# ---------------------------------------------------------------- modes, state, writes
class Net:
    def __init__(self) -> None:
        self.w = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
        self.scale = 0.5


def train_step(net: Net, x: Any, y: Any, rate: float) -> Any:
    h = jf.nn.dropout(np.maximum(x @ net.w, 0) * net.scale, 0.4)
    error = h - y
    net.w -= rate * (x.T @ error)
    return {"loss": (error**2).mean(), "h": [h, h.T], "drawn": jf.random.uniform((3,))}


@pytest.mark.parametrize("training", [False, True])
def test_a_train_step_with_dropout_state_and_writes(training: bool, load: Any, same: Any) -> None:
    net = Net()
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(s).astype("float32") for s in ((5, 4), (5, 3)))
    check(train_step, lambda: [copy.deepcopy(net), x.copy(), y.copy(), 0.1], load, same, training)


def test_state_goes_in_and_out_as_in_calls(load: Any, same: Any) -> None:
    fused = jf.fuse(lambda x: jf.nn.dropout(x, 0.5) * 2, name="drop")
    x = np.ones((3, 5))
    exported = load(fused.export(x), "drop")
    jf_random.seed(5)
    state = jf_random.state().copy()
    for mode in (True, True, False, True):
        got, new = exported(x, state, training=mode)
        same(got, fused(x, training=mode))
        state = new["random_state"]
        same(state, jf_random.state())


MOVING = FusedProgram.from_text("""\
program 1 {
  feed %0: float32[3] 'x'
  state %1: float32[3] 'mean'
  %2: float32[3] = add(%0, %1)  {step 0, level 0}
  %3: float32[3] = subtract(%0, %1)  {step 1, level 0}
  %4: float32[3] = mode_select(%0, %3)  {step 2, level 1, mode}
  return 'y': %4
  update %1 <- %2
}""")


def test_other_state_moves_in_training_alone(load: Any, same: Any) -> None:
    text = jf.export(MOVING)
    assert "if training:" in text and "if not training:" in text
    function = load(text)
    x, mean = np.ones(3, "float32"), np.arange(3, dtype="float32")
    y, state = function(x, mean)
    same(y, x - mean)
    assert state["mean"] is mean
    y, state = function(x, mean, training=True)
    same(y, x)
    same(state["mean"], x + mean)
    assert "training=True" in jf.export(MOVING, training=True)


def test_writes_may_swap_and_overlap(load: Any, same: Any) -> None:
    def swap(x: Any, y: Any) -> None:
        old = x[::-1].copy()
        x[...] = y[::-1]
        y[...] = old

    def shift(x: Any) -> Any:
        x[1:] = x[:-1]
        return x, x[2:4], np.broadcast_to(x[0], (3,))

    check(swap, lambda: [np.arange(5.0), np.arange(5.0) + 9], load, same)
    check(shift, lambda: [np.arange(9.0)], load, same)


def test_nothing_is_written_where_a_step_raises(load: Any) -> None:
    def f(x: Any, n: Any) -> Any:
        x[...] = 7
        return n ** (n - 5)

    fused = jf.fuse(f)
    x = np.zeros(2)
    exported = load(fused.export(x, np.arange(3)), "f")
    with pytest.raises(ValueError, match="negative integer powers"):
        exported(x, np.arange(3))
    assert not x.any()


# ---------------------------------------------------------------- results
Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Report:
    loss: Any
    parts: Any


def test_results_keep_their_containers(load: Any, same: Any) -> None:
    fused = jf.fuse(lambda x: (Pair(x + 1, 3), Report(x.sum(), [x * 2, None, "name"]), {1: x, "k": (x[1:],)}), name="f")
    x = np.arange(4.0)
    pair, report, rest = load(fused.export(x), "f")(x)
    assert type(pair).__name__ == "Pair" and pair._fields == ("first", "second") and pair.second == 3
    same(pair.first, x + 1)
    assert report.parts[1:] == [None, "name"] and isinstance(report.loss, np.float64)
    assert rest[1] is x and rest["k"][0].base is not None and np.shares_memory(rest["k"][0], x)
    with pytest.raises(ValueError, match="strides"):
        load(fused.export(x), "f")(np.arange(8.0)[::2])


@pytest.mark.parametrize(("paths", "tree"), [
    (["y"], 0), (["result"], 0), (["result[0]", "result[1]"], (0, 1)), (["result['a']", "result['b'][0]"], {"a": 0,
                                                                                                    "b": (1,)}),
    (["result[1]", "result[4]"], {1: 0, 4: 1}), (["loss", "grad"], {"loss": 0, "grad": 1}),
    (["result.a", "result.b"], {"a": 0, "b": 1}), (["a b", "f()"], {"a b": 0, "f()": 1}),
    (["x[0", "\n'\"\\"], {"x[0": 0, "\n'\"\\": 1}), (["r", "r[0]"], {"r": 0, "r[0]": 1}),
])
def test_paths_become_a_tree(paths: list[str], tree: Any, load: Any) -> None:
    program = dataclasses.replace(
        FusedProgram.from_text("""\
program 1 {
  feed %0: float64[2] 'x'
  %1: float64[2] = add(%0, %0)  {step 0, level 0}
  %2: float64[2] = multiply(%0, %0)  {step 1, level 0}
  return 'y': %1
}"""), outputs=dict(zip(paths, (1, 2), strict=False)))
    got = load(jf.export(program))(np.array([3.0, 3.0]))
    assert optree.tree_map(lambda v: {6.0: 0, 9.0: 1}[float(v[0])], got) == tree


# ---------------------------------------------------------------- text
def test_names_and_lines_are_the_users(tmp_path: Path) -> None:
    @jf.fuse
    def blend(image: Any, layers: Any, amount: float) -> Any:
        mixed = image * amount
        return mixed + layers["top"]

    file = tmp_path / "blend.py"
    text = blend.export(np.ones((2, 3), "float32"), {"top": np.ones(3, "float32")}, 0.5, path=file)
    assert file.read_text() == text
    line = blend.__wrapped__.__code__.co_firstlineno + 2
    for part in ("def blend(image, layers_top, amount):", f"{Path(__file__).name}:{line}", "image * amount",
                 "float32[2, 3]"):
        assert part in text, text


def test_an_export_runs_in_a_process_without_jitfuse(tmp_path: Path) -> None:
    fused = jf.fuse(lambda x, b: np.tanh(x) * 2 + b, name="smooth")
    fused.export(np.ones(3), 1.5, path=tmp_path / "smooth.py")
    code = ("import sys; sys.modules['jitfuse'] = None\n"
            "import numpy as np, smooth; print(smooth.smooth(np.ones(3), 2.5))")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True,
                          env={"PATH": os.environ.get("PATH", "")})
    assert done.stdout.strip() == str(np.tanh(np.ones(3)) * 2 + 2.5), done.stderr


def test_the_page_shows_what_the_export_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs/export.md").read_text(encoding="utf-8")
    code, shown = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(code, "blend.py", "exec"), {})
    assert shown in capsys.readouterr().out


def named(*names: str) -> FusedProgram:
    lines = [f"  feed %{k}: float64[2] {n!r}" for k, n in enumerate(names)]
    return FusedProgram.from_text("\n".join([
        "program 1 {", *lines, f"  %{len(names)}: float64[2] = add(%0, %1)  {{step 0, level 0}}",
        f"  return 'y': %{len(names)}", "}",
    ]))


@pytest.mark.parametrize("names", [
    ("np", "sum"), ("add_2", "_check_array"), ("x", "x"), ("class", "training"), ('"""', "\\"), ("a\nb", "#"),
    ("é", "日本"), ("x" * 300, "x" * 299 + "y"), ("fused", "result"), ("special", "mean"),
])
def test_any_names_give_source_that_runs(names: tuple[str, str], load: Any) -> None:
    function = load(jf.export(named(*names)))
    assert function(np.ones(2), np.full(2, 3.0)).tolist() == [4.0, 4.0]


def test_lines_of_the_user_cannot_add_code(load: Any) -> None:
    program = dataclasses.replace(named("x", "y"), sources={0: "a.py:1\n    raise SystemExit\r\x0craise" + "z" * 200})
    assert load(jf.export(program))(np.ones(2), np.ones(2)).tolist() == [2.0, 2.0]


# ---------------------------------------------------------------- bad input
@pytest.mark.parametrize("name", ["", "a b", "class", "np", "1x", "__x", None, "sum"])
def test_bad_names(name: Any) -> None:
    with pytest.raises(jf.ArgumentError, match="name"):
        jf.export(named("x", "y"), name=name)


def test_bad_programs() -> None:
    with pytest.raises(jf.ArgumentError, match="FusedProgram"):
        jf.export("program")  # type: ignore[arg-type]
    with pytest.raises(jf.ArgumentError, match="training"):
        jf.export(named("x", "y"), training=1)  # type: ignore[arg-type]
    with pytest.raises(jf.VerifyError):
        jf.export(dataclasses.replace(named("x", "y"), outputs={"y": 99}))


def test_results_that_cannot_be_written() -> None:
    fused = jf.fuse(lambda x: (x + 1, collections.deque([x * 2])))
    with pytest.raises(jf.JitfuseError, match="deque"):
        fused.export(np.ones(2))
    with pytest.raises(jf.JitfuseError, match="source"):
        jf.fuse(lambda x: (x + 1, np.dtype)).export(np.ones(2))


@pytest.mark.parametrize(("args", "error"), [
    ((np.ones(3), np.ones(2)), ValueError), ((np.ones(2, "float32"), np.ones(2)), TypeError),
    (([1.0, 2.0], np.ones(2)), TypeError), ((np.ones(2), 1.0), TypeError), ((np.ones((2, 1)), np.ones(2)), ValueError),
])
def test_an_export_refuses_other_arguments(args: Any, error: type[Exception], load: Any) -> None:
    with pytest.raises(error):
        load(jf.export(named("x", "y")))(*args)


def test_numbers_are_checked(load: Any) -> None:
    def f(x: Any, n: int, a: float, s: Any) -> Any:
        return x.reshape(n, -1) * a + s

    function = load(jf.fuse(f).export(np.ones(6), 2, 0.5, np.float32(2)), "f")
    assert function(np.ones(6), 2, 3, np.float32(2))[0, 0] == 5.0
    for args in ((np.ones(6), 3, 0.5, np.float32(2)), (np.ones(6), 2, 0.5, np.ones(1, "float32"))):
        with pytest.raises(ValueError):
            function(*args)
    for args in ((np.ones(6), 2, "a", np.float32(2)), (np.ones(6), 2, 0.5, 1), (np.ones(6), 2, True, np.float32(2))):
        with pytest.raises(TypeError):
            function(*args)
