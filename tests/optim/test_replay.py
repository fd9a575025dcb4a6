"""`jf.fuse(program)`, programs that are read and compiled: the digits example in another process, and each promise."""
from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

ROOT = Path(__file__).parent.parent.parent
ELSEWHERE = """
import pickle, sys
import numpy as np
import jitfuse as jf

with open(sys.argv[1], "rb") as file:
    saved = pickle.load(file)
program = jf.FusedProgram.from_messagepack(saved["program"])
runs = {"compiled": (jf.fuse(program), saved["feeds"]),
        "interpreted": (jf.ProgramRunner(program), {k: np.copy(v) for k, v in saved["feeds"].items()})}
at = {name: feed for feed, name in program.feed_names.items()}
for name, (run, feeds) in runs.items():
    for k, (x, y) in enumerate(saved["batches"]):
        feeds = {**feeds, at["args[0]"]: x, at["args[1]"]: y}
        ran = run(feeds, training=k % 5 != 4)
        feeds |= {**ran.state, **ran.writes}
        print(name, float(ran.outputs["result[0]"]).hex(), ran.outputs["result[1]"])
print("stats", runs["compiled"][0].stats()["traces"], runs["compiled"][0].stats()["fallbacks"])
"""


def example(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the names of examples/digits.py before it trains."""
    for module in ("sklearn", "PIL", "rich"):
        pytest.importorskip(module)
    monkeypatch.setattr(sys, "argv", ["digits.py", "4"])
    path, names = ROOT / "examples" / "digits.py", {"__name__": "digits"}
    text = path.read_text(encoding="utf-8").partition("jf.optim.audit(")[0]
    exec(compile(text, str(path), "exec"), names)
    return names


def test_the_digits_example_goes_on_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """60 calls, each fifth in evaluation, with dropout, running statistics and a schedule: the same bits."""
    names = example(monkeypatch)
    x, y, step = names["x"], names["y"], names["step"]
    orders = [np.random.default_rng(k).permutation(len(y))[:64] for k in range(60)]
    batches = [(x[order], y[order]) for order in orders]
    program, feeds = step.program(*batches[0]).to_messagepack(), step.feeds(*batches[0])
    saved = {"program": program, "feeds": feeds, "batches": batches}
    (tmp_path / "saved").write_bytes(pickle.dumps(saved))
    losses = [step(a, b, training=k % 5 != 4) for k, (a, b) in enumerate(batches)]
    done = subprocess.run([sys.executable, "-c", ELSEWHERE, str(tmp_path / "saved")], capture_output=True, text=True,
                          check=True, cwd=tmp_path)
    lines = [line.split() for line in done.stdout.splitlines()]
    compiled = [(float.fromhex(line[1]), int(line[2])) for line in lines if line[0] == "compiled"]
    assert compiled == [(float(loss), int(right)) for loss, right in losses]
    interpreted = [float.fromhex(line[1]) for line in lines if line[0] == "interpreted"]
    np.testing.assert_allclose(interpreted, [float(loss) for loss, _ in losses], rtol=1e-3)
    assert lines[-1] == ["stats", "1", "0"]


def check(function: Any, *args: Any, training: bool = False) -> Any:
    """Replay a call's program compiled and in the interpreter; return the compiled one's function, feeds and result."""
    fused = jf.fuse(function)
    program = jf.FusedProgram.from_json(fused.program(*args).to_json())
    feeds, replay = fused.feeds(*args), jf.fuse(program)
    want = jf.ProgramRunner(program)(fused.feeds(*args), training=training)
    ran = replay(feeds, training=training)
    assert list(ran.outputs) == list(want.outputs)
    for path, value in want.outputs.items():
        assert type(ran.outputs[path]) is type(value), path
        assert np.shape(ran.outputs[path]) == np.shape(value), path
        assert getattr(ran.outputs[path], "strides", 0) == getattr(value, "strides", 0), path
        np.testing.assert_allclose(ran.outputs[path], value, rtol=1e-12)
    for mine, his in ((ran.writes, want.writes), (ran.state, want.state)):
        assert list(mine) == list(his)
        for feed, value in his.items():
            assert mine[feed] is feeds[feed]
            np.testing.assert_allclose(feeds[feed], value, rtol=1e-12)
    assert replay.stats()["fallbacks"] == 0 and replay.stats()["launches"] > 0
    return replay, feeds, ran


def moved(x: Any, y: Any) -> Any:
    x[...] = x + y
    y[1:] = x[:-1]
    return x, x.sum(), y * 1


X, M = np.arange(6.0), np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(("function", "args"), [
    (lambda x, n: x[::2] * n + 2, (np.arange(6), 3)),
    (lambda x, n: (x.T + n, np.asfortranarray(x) * 2, x), (M, np.float32(3))),
    (lambda x, k: np.sum(x[:k]), (X, 2)),
    (lambda x, k: x * k, (X[::2], 2.5)),
    (lambda x, rng: x + rng.normal(size=6), (X, np.random.default_rng(0))),
    (lambda x: jf.scan(lambda c, a: (c * 0.5 + a, c), 0.0, x), (X,)),
    (lambda x: jf.cond(x[0] > 1, np.sin, np.cos, x), (X,)),
    (moved, (np.ones(4), np.arange(4.0))),
])
def test_results_are_those_of_the_interpreter(function: Any, args: Any) -> None:
    check(function, *args)


def test_the_mode_and_the_random_state() -> None:
    """The caller's own array is where the numbers go on."""
    jf.random.seed(5)
    for training in (True, False):
        _, feeds, ran = check(lambda x: jf.nn.dropout(x, 0.5) + jf.random.normal(6), X, training=training)
        (state,) = ran.state
        assert feeds[state].tolist() == [5, 1] and jf.random.state().tolist() == [5, 0]


def test_state_of_programs_written_by_hand_moves_in_training_alone() -> None:
    program = jf.FusedProgram.from_text(
        "program 1 {\n  feed %0: float64[2]\n  state %1: float64[2] 'total'\n"
        "  %2: float64[2] = add(%0, %1)  {step 0, level 0}\n  return 'sum': %2\n  update %1 <- %2\n}")
    replay, feeds = jf.fuse(program), {0: np.ones(2), 1: np.zeros(2)}
    for k, training in enumerate((True, True, False)):
        assert replay(feeds, training=training).outputs["sum"].tolist() == [k + 1, k + 1]
    assert feeds[1].tolist() == [2, 2]


def test_feeds_that_do_not_fit() -> None:
    """Compiled and interpreted replay raise one error."""
    fused = jf.fuse(lambda x, n: x * n)
    program, feeds = fused.program(X, 2.0), fused.feeds(X, 2.0)
    x, n = feeds
    for wrong in ({x: X}, {**feeds, 99: X}, {**feeds, x: X[:3]}, {**feeds, x: X.astype("f4")}, {**feeds, n: 2}):
        with pytest.raises(jf.CutWireError) as expected:
            jf.ProgramRunner(program)(wrong)
        with pytest.raises(type(expected.value)) as found:
            jf.fuse(program)(wrong)
        assert str(found.value) == str(expected.value)


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_arrays_over_one_memory_are_replayed_by_the_interpreter() -> None:
    fused = jf.fuse(moved)
    program, base = fused.program(X[:4].copy(), X[:4].copy()), X.copy()
    x, y = program.ordered_feeds
    plain = X.copy()
    want = jf.ProgramRunner(program)({x: plain[:4].copy(), y: plain[2:].copy()})
    plain[:4] = want.writes[x]
    plain[2:] = want.writes[y]
    replay = jf.fuse(program)
    replay({x: base[:4], y: base[2:]})
    assert base.tolist() == plain.tolist() and replay.stats()["fallbacks"] == 1


def test_tensors_are_feeds() -> None:
    torch = pytest.importorskip("torch")
    replay, feeds, _ = check(moved, np.ones(4), np.arange(4.0))
    tensors = {feed: torch.from_numpy(x.copy()) for feed, x in feeds.items()}
    ran, want = replay(tensors), replay(feeds)
    for path, value in want.outputs.items():
        np.testing.assert_array_equal(ran.outputs[path].numpy(), value)
    for feed, x in want.writes.items():
        assert ran.writes[feed] is tensors[feed]
        np.testing.assert_array_equal(tensors[feed].numpy(), x)


def test_programs_in_functions_and_derivatives() -> None:
    fused = jf.fuse(lambda x: (x**3).sum())
    replay = jf.fuse(fused.program(X))
    around = jf.fuse(lambda x: replay({0: x * 2}).outputs["result"])
    assert around(X) == (8 * X**3).sum() and around.stats()["fallbacks"] == 0
    np.testing.assert_allclose(jf.grad(around)(X), 24 * X**2)
    assert pickle.loads(pickle.dumps(replay))({0: X}).outputs["result"] == (X**3).sum()
    with pytest.raises(jf.ArgumentError, match="leave it out there"):
        jf.fuse(lambda x: replay({0: x}, training=True).outputs["result"], strict=True)(X)


def test_mistakes() -> None:
    program = jf.fuse(lambda x: x * 2).program(X)
    with pytest.raises(jf.ArgumentError, match="static_argnames"):
        jf.fuse(program, static_argnames="feeds")
    broken = program.replace(outputs={"result": 99})
    with pytest.raises(jf.VerifyError):
        jf.fuse(broken)


def test_feeds_are_copies() -> None:
    x, state = np.asfortranarray(M), jf.Buffer(np.ones(3))
    fused = jf.fuse(lambda x, n: x * state + n)
    feeds = fused.feeds(x, 2)
    names = {name: feeds[feed] for feed, name in fused.program(x, 2).feed_names.items()}
    assert names["args[1]"] == 2 and type(names["args[1]"]) is int
    assert names["args[0]"].flags.f_contiguous and not np.shares_memory(names["args[0]"], x)
    next(value for name, value in names.items() if name not in ("args[0]", "args[1]"))[...] = 0.0
    assert state.tolist() == [1, 1, 1]
