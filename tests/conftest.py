"""How much a test session runs; its kernel cache, where it lies, and what the session compiled; threads for tests.

`amount.py` says what a sample is. The end of a session says what was left out of it.

Without JITFUSE_CACHE_DIR or JITFUSE_CACHE_PATH a session gets an empty folder of its own. With
JITFUSE_TEST_EXPECT_WARM=1 it fails where it compiled a kernel that was in the folder when it began. Tests that
use folders of their own do not count.
"""
from __future__ import annotations

import contextlib
import gc
import os
import random
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

import jitfuse as jf
from jitfuse.backends.llvm.runtime import native
from jitfuse.base import background
from jitfuse.cache import default_store
from jitfuse.cache.inspect import list_entries
from jitfuse.cache.sources import sources_digest
from jitfuse.compile import interface as compiler
from jitfuse.errors import CompileError, FallbackWarning

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "helpers"))
import amount

_CREATED = pytest.StashKey[dict[str, float]]()
_TEMPORARY = pytest.StashKey[str]()
_AGAIN = pytest.StashKey[list[str]]()
_NEW = pytest.StashKey[int]()
_LEFT_OUT = pytest.StashKey[int]()
_SECONDS = pytest.StashKey[float]()
_SLOW = pytest.StashKey[list[str]]()


def _created() -> dict[str, float]:
    return {info.key: info.created for info in list_entries(default_store()) if info.damaged is None}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run everything, not a sample of it")
    parser.addoption("--rest", action="store_true", help="run everything but what a sample has run in the same way")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # in a worker of xdist the controlling process has done it
        _prepare(config)
    # a busy machine is no failure: neither a slow example, nor slow drawing; tests that ask for a deadline set one
    # CI and samples draw the same examples for the same code; people draw new ones
    hypothesis.settings.register_profile(
        "jitfuse", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow],
        max_examples=amount.drawn(100),
        derandomize=bool(os.environ.get("CI")) or not amount.scale(),
    )
    hypothesis.settings.load_profile("jitfuse")


def _prepare(config: pytest.Config) -> None:
    chosen = config.args_source is config.ArgsSource.ARGS or config.option.keyword or config.option.markexpr
    if config.option.full or config.option.rest or chosen:
        os.environ.setdefault("JITFUSE_TEST_SCALE", "1")
    if not any(os.environ.get(name) for name in ("JITFUSE_CACHE_DIR", "JITFUSE_CACHE_PATH")):
        config.stash[_TEMPORARY] = os.environ["JITFUSE_CACHE_DIR"] = tempfile.mkdtemp(prefix="jitfuse-tests-")
    config.stash[_CREATED] = _created()


def pytest_sessionstart() -> None:
    sources_digest()  # once it is known, what is compiled is stored at once, as tests that look for it expect
    with contextlib.suppress(CompileError):
        compiler.native_runtime()  # else a thread builds it beside the first tests, whose calls are not native


def pytest_unconfigure(config: pytest.Config) -> None:
    if _TEMPORARY in config.stash:
        shutil.rmtree(config.stash[_TEMPORARY], ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not in the sample, or what is; have what takes longest go first."""
    items.sort(key=lambda item: item.path.name not in amount.FIRST)
    if amount.scale() and not config.option.rest:
        return
    sampled = amount.sampled({item.nodeid: item.get_closest_marker("full") is not None for item in items})
    kept = sampled
    if config.option.rest:
        kept = {i.nodeid for i in items if i.nodeid not in sampled or amount.is_mentioned_in(i.path)}
    left_out = [item for item in items if item.nodeid not in kept]
    items[:] = [item for item in items if item.nodeid in kept]
    config.stash[_LEFT_OUT] = 0 if config.option.rest else len(left_out)
    config.hook.pytest_deselected(items=left_out)


def pytest_collection_finish() -> None:
    """Have collections of garbage pass over the tests themselves, which are many objects."""
    gc.collect()
    gc.freeze()


def _processor_seconds() -> float:
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note what takes long in a sample."""
    before = _processor_seconds()
    done = yield
    if not amount.scale() and _processor_seconds() - before > amount.SLOW and not item.get_closest_marker("full"):
        item.config.stash.setdefault(_SLOW, []).append(item.nodeid)
    return done


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Have each test draw the same numbers, whatever ran before."""
    random.seed(0)
    np.random.seed(0)
    jf.random.seed(0)
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.manual_seed(0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Have what a test left to be done end with it, in its folders: no other runs beside."""
    background.wait()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker of xdist says at its end."""
    said = getattr(node, "workeroutput", {})
    if "left_out" in said:
        node.config.stash[_LEFT_OUT] = said["left_out"]  # all workers leave out the same
    node.config.stash.setdefault(_SLOW, []).extend(said.get("slow", []))
    node.config.stash[_SECONDS] = node.config.stash.get(_SECONDS, 0.0) + said.get("seconds", 0.0)


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have loops go in order that otherwise would be computed side by side."""
    monkeypatch.setattr("jitfuse.tracing.rewrite.branches._may_be_independent", lambda code: False)
    monkeypatch.setattr("jitfuse.tracing.rewrite.branches._made", {})


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    stash = session.config.stash
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput.update(
            left_out=stash.get(_LEFT_OUT, 0), seconds=_processor_seconds(), slow=stash.get(_SLOW, []))
    if _CREATED not in stash:
        return
    before, after = stash[_CREATED], _created()
    stash[_AGAIN] = [f"{key[:16]}" for key in before if after.get(key, before[key]) != before[key]]
    stash[_NEW] = len(after.keys() - before.keys())
    if stash[_AGAIN] and os.environ.get("JITFUSE_TEST_EXPECT_WARM") == "1":
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    stash = terminalreporter.config.stash
    if _NEW not in stash:
        return
    again = stash[_AGAIN]
    terminalreporter.write_line(
        f"kernel cache: {len(stash[_CREATED])} objects before, {len(again)} of them compiled again, "
        f"{stash[_NEW]} new"
    )
    for key in again[:20]:
        terminalreporter.write_line(f"  compiled again: {key}")
    workers = stash.get(_SECONDS, 0.0)  # they are children too, and have told of their own
    minutes = (workers + sum(os.times()[:2]) if workers else _processor_seconds()) / 60
    if stash.get(_LEFT_OUT, 0):
        terminalreporter.write_line(
            f"this was a sample: {stash[_LEFT_OUT]} cases were left out. It took {minutes:.1f} minutes of processor "
            "time. Everything: python -m pytest -n auto --full"
        )
        for name in sorted(stash.get(_SLOW, [])):
            terminalreporter.write_line(f"  slow, to be marked `full`: {name}")
    else:
        terminalreporter.write_line(f"{minutes:.1f} minutes of processor time")


@pytest.fixture
def runtime() -> Iterator[Any]:
    """Return the runtime; it has as many threads as before when the test is over."""
    found = native.runtime()
    before = found.threads
    yield found
    found.set_threads(before)


@pytest.fixture
def still() -> Iterator[None]:
    """Let nothing but the test take or free memory and references: no garbage of tests before is found meanwhile."""
    background.wait()
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def natively() -> Iterator[None]:
    """Have the runtime, and no calls of plain Python."""
    compiler.native_runtime()
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        yield


@pytest.fixture(scope="session")
def in_threads() -> Callable[[int, Callable[[int], object]], None]:
    """Run ``work(k)`` for every k below a count, each in a thread of its own; the first error is raised here."""
    def run(count: int, work: Callable[[int], object]) -> None:
        failures: list[BaseException] = []

        def guarded(k: int) -> None:
            try:
                work(k)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    return run
