from __future__ import annotations

import ctypes
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kernels
import pytest
from amount import drawn

from jitfuse.backends.llvm import jit
from jitfuse.backends.llvm.load.elf import object_symbols
from jitfuse.backends.llvm.runtime import native
from jitfuse.backends.llvm.runtime.threads import cgroup_quota, thread_count
from jitfuse.errors import ArgumentError


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    before = native.runtime().threads
    native.runtime().set_threads(4)
    yield
    native.runtime().set_threads(before)


@pytest.mark.parametrize("units", [1, 2, 3, 4, 5, 7, 63, 64, 65, 1000, 100_003])
@pytest.mark.parametrize("threads", [0, 1, 2, 3, 4, 50])
def test_every_unit_runs_once(units: int, threads: int) -> None:
    for _ in range(drawn(5)):
        run = kernels.Count(units)
        run.run(threads)
        run.check()
        assert len(run.counts()) <= min(units, threads or 4, 4)


@pytest.mark.parametrize("units", [0, -1, -(2**40)])
def test_nothing_to_do(units: int) -> None:
    status = kernels.parallel()(kernels.kernels().address("count"), None, units, 0, None, 0)
    assert status == 0


def test_back_to_back_jobs_of_changing_size() -> None:
    generator = random.Random(1)
    for _ in range(drawn(3000)):
        run = kernels.Count(generator.choice((1, 2, 3, 8, 30, 200)))
        run.run(generator.choice((0, 2, 3, 4)))
        run.check()


def test_threads_share_the_work() -> None:
    for doubled in range(12):  # a busy machine may keep the workers away for a while
        run = kernels.Count(2000, delay=5000 << doubled)
        run.run()
        run.check()
        if len(run.counts()) > 1:
            return
    pytest.fail("one thread has done it all")


def test_largest_status_is_returned() -> None:
    for units in (1, 2, 10, 1000):
        words = (ctypes.c_int64 * units)()
        for place, status in ((0, 1), (units - 1, 2), (units // 2, 1)):
            words[place] = max(words[place], status)
        run = kernels.parallel()
        address = kernels.kernels().address("status")
        for threads in (0, 1, 3):
            assert run(address, ctypes.addressof(words), units, threads, None, 0) == max(words)
        assert run(address, ctypes.addressof((ctypes.c_int64 * units)()), units, 0, None, 0) == 0


def test_workers_wake_from_sleep() -> None:
    for _ in range(20):
        time.sleep(0.001)  # longer than workers spin
        run = kernels.Count(300, delay=300)
        run.run()
        run.check()


def test_32_python_threads_at_once(in_threads: Any) -> None:
    def work(k: int) -> None:
        for _ in range(drawn(20)):
            run = kernels.Count(500, delay=50)
            run.run()
            run.check()

    in_threads(32, work)


def test_a_launch_inside_a_kernel_runs_in_its_thread() -> None:
    inner = kernels.Count(100)
    outer = (ctypes.c_int64 * 4)(
        native.runtime().address("jf_parallel"), kernels.kernels().address("count"),
        ctypes.addressof(inner.words), inner.units,
    )
    status = kernels.parallel()(
        kernels.kernels().address("nested"), ctypes.addressof(outer), 3, 1, ctypes.addressof(inner.scratch), 0
    )
    assert status == 0
    # an outer launch of one thread leaves the pool to the inner ones, whose threads then share the scratch
    assert bytes(inner.data) == bytes([3]) * inner.units + b"\0"
    # from several workers at once: the inner runs overlap, so only that all of them end is certain
    scratch = (ctypes.c_int64 * 64)()
    assert kernels.parallel()(
        kernels.kernels().address("nested"), ctypes.addressof(outer), 50, 0, ctypes.addressof(scratch), 64
    ) == 0
    again = kernels.Count(100)
    again.run()
    again.check()


def test_thread_number_can_change_between_launches() -> None:
    for threads in (1, 2, 6, 3, 1, 8, 4):
        native.runtime().set_threads(threads)
        assert native.runtime().threads == threads
        run = kernels.Count(500, delay=100)
        run.run()
        run.check()
        assert len(run.counts()) <= threads
    native.runtime().set_threads(-5)
    assert native.runtime().threads == 1


PREPARE = """
import ctypes, os, sys, threading, warnings
import kernels
from jitfuse.backends.llvm.runtime import native
native.runtime().set_threads(4)
def use():
    for _ in range(20):
        run = kernels.Count(500, delay=200)
        run.run()
        run.check()
use()
"""


def assert_clean(code: str, returncode: int = 0, **environment: str) -> str:
    done = kernels.run_python(PREPARE + code, **environment)
    assert done.returncode == returncode, done.stderr
    assert done.stderr == ""
    return str(done.stdout)


several_processors = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor only")


@several_processors
@pytest.mark.parametrize("pinned_before", [False, True])
def test_workers_wake_off_their_callers_processor(pinned_before: bool) -> None:
    done = kernels.run_python(PLACES, PIN="1" * pinned_before)
    assert done.stdout == "kept off\n", done.stdout + done.stderr


PLACES = """
import os, time, kernels, numpy as np, jitfuse as jf
worker = kernels.only_worker()
f = jf.fuse(lambda x: np.sin(x) * 2)
x = np.ones(1 << 18)
def processor(thread):
    with open(f"/proc/self/task/{thread}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[36])
mine, all_of_them, deadline = os.getpid(), os.sched_getaffinity(0), time.monotonic() + 40
if os.environ["PIN"]:  # a caller with one processor, and then with all again, confines nobody
    os.sched_setaffinity(0, {min(all_of_them)})
    time.sleep(0.01)
    f(x)
    os.sched_setaffinity(0, all_of_them)
while time.monotonic() < deadline:  # on a busy machine the caller moves, or the worker does not get to sleep
    time.sleep(0.01)
    f(x)
    if os.sched_getaffinity(worker) == all_of_them - {processor(mine)}:
        print("kept off")
        break
"""


@several_processors
def test_masks_that_others_set_for_workers_stay() -> None:
    done = kernels.run_python("""
import os, time, kernels, numpy as np, jitfuse as jf
worker = kernels.only_worker()
f = jf.fuse(lambda x: np.sin(x) * 2)
x, all_of_them = np.ones(1 << 18), sorted(os.sched_getaffinity(0))
others = set(all_of_them) - os.sched_getaffinity(worker)
os.sched_setaffinity(worker, others)  # as taskset does for all threads of a process
for k in range(20):
    os.sched_setaffinity(0, {all_of_them[k % 2]})
    time.sleep(0.005)
    f(x)
    assert os.sched_getaffinity(worker) <= others
print("stayed")
""")
    assert done.stdout == "stayed\n", done.stdout + done.stderr


@pytest.mark.full
def test_fork_after_use() -> None:
    assert_clean("""
warnings.simplefilter("ignore")
for _ in range(5):
    child = os.fork()
    if child == 0:
        use()
        grandchild = os.fork()
        if grandchild == 0:
            use()
            os._exit(0)
        os._exit(os.waitpid(grandchild, 0)[1])
    use()
    assert os.waitpid(child, 0)[1] == 0
""")


@pytest.mark.full
def test_fork_while_another_thread_runs_a_job() -> None:
    assert_clean("""
warnings.simplefilter("ignore")
stop = threading.Event()
def work():
    while not stop.is_set():
        use()
thread = threading.Thread(target=work)
thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        use()
        run = kernels.Count(2000, delay=2000)
        run.run()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
""")


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "os._exit(0)"])
def test_exit_is_clean(ending: str) -> None:
    assert_clean(ending)


@pytest.mark.full
def test_exit_while_a_daemon_thread_runs_a_job() -> None:
    assert_clean("""
long = kernels.Count(100_000, delay=20_000)
threading.Thread(target=long.run, daemon=True).start()
while not any(long.data[:100]):
    pass
""")


def test_signals_reach_the_main_thread() -> None:
    assert assert_clean("""
import signal, time
signal.signal(signal.SIGALRM, lambda *_: print("rang", flush=True) or os._exit(0))
signal.setitimer(signal.ITIMER_REAL, 0.05)
time.sleep(300)
""") == "rang\n"


def test_environment_sets_the_threads() -> None:
    code = "from jitfuse.backends.llvm.runtime import native; print(native.runtime().threads)"
    assert kernels.run_python(code, JITFUSE_NUM_THREADS="3").stdout == "3\n"


def test_threads_are_counted_when_a_plan_can_use_them() -> None:
    done = kernels.run_python("""
import numpy as np, jitfuse as jf
from jitfuse.backends.llvm.runtime import native
counted = []
native.thread_count = lambda: counted.append(1) or 3
small, large = np.ones(100), np.ones(1_000_000)
double = jf.fuse(lambda x: np.sin(x) * 2)
runtime = native.runtime()
double(small), double(small)
assert not counted
double(large), double(large)
assert len(counted) == 1 and runtime.threads == 3
runtime.set_threads(2)
jf.fuse(lambda x: np.cos(x) * 2)(large)
assert len(counted) == 1 and runtime.threads == 2
""", JITFUSE_NUM_THREADS="")
    assert done.returncode == 0, done.stderr


@pytest.mark.full
@pytest.mark.parametrize("start", ["empty cache", "filled cache"])
def test_a_bad_thread_number_is_an_error_of_the_first_call(start: str, tmp_path: Path) -> None:
    code = "import numpy as np, jitfuse as jf; jf.fuse(lambda x: x + 1)(np.ones(3))"
    if start == "filled cache":
        kernels.run_python(code, JITFUSE_CACHE_DIR=str(tmp_path))
    done = kernels.run_python(code, JITFUSE_CACHE_DIR=str(tmp_path), JITFUSE_NUM_THREADS="many")
    assert done.returncode == 1 and done.stderr.count("Traceback") == 1
    assert done.stderr.splitlines()[-1].startswith("jitfuse.errors.ArgumentError: JITFUSE_NUM_THREADS is 'many'")


@pytest.mark.parametrize("value", [
    "0", "-1", "two", "1.5", "²", "1e3", str(1 << 32), str(1 << 64), "9" * 5000, "\udcff",
])
def test_bad_thread_numbers_are_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITFUSE_NUM_THREADS", value)
    with pytest.raises(ArgumentError, match=r"JITFUSE_NUM_THREADS is .*such as 4") as error:
        thread_count()
    assert len(str(error.value)) < 250


def test_thread_count_follows_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JITFUSE_NUM_THREADS", raising=False)
    available = len(os.sched_getaffinity(0))
    assert 1 <= thread_count() <= available
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert thread_count() == 1


@pytest.mark.parametrize(("groups", "expected"), [
    ({"a/b/cpu.max": "150000 100000", "a/cpu.max": "max 100000"}, 1.5),
    ({"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000"}, 0.5),
    ({"a/b/cpu.max": "nonsense"}, None),
    ({}, None),
])
def test_cgroup_quota(groups: dict[str, str], expected: float | None, tmp_path: Path) -> None:
    proc, root = tmp_path / "cgroup", tmp_path / "fs"
    proc.write_text("0::/a/b\n")
    for name, content in groups.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    assert cgroup_quota(str(proc), str(root)) == expected
    assert cgroup_quota(str(tmp_path / "absent"), str(root)) is None


def test_cgroup_quota_of_version_1(tmp_path: Path) -> None:
    proc, root = tmp_path / "cgroup", tmp_path / "fs"
    proc.write_text("5:memory:/a\n4:cpu,cpuacct:/a\n")
    (root / "cpu/a").mkdir(parents=True)
    (root / "cpu/a/cpu.cfs_quota_us").write_text("300000")
    (root / "cpu/a/cpu.cfs_period_us").write_text("100000")
    (root / "cpu/cpu.cfs_quota_us").write_text("-1")
    assert cgroup_quota(str(proc), str(root)) == 3


def test_runtime_takes_only_known_symbols() -> None:
    code = jit.compile_text(native.runtime_text(), level=native.LEVEL)
    assert {name for name in object_symbols(code).undefined if name not in native.IMPORTS} == set()
    assert "PyErr_NoMemory" in native.IMPORTS and "system" not in native.IMPORTS


def test_runtime_text_is_the_same_twice() -> None:
    assert native.runtime_text() == native.runtime_text()


def test_runtime_comes_from_the_loader() -> None:
    done = kernels.run_python("""
from jitfuse.backends.llvm.runtime import native
asked = []
def loader(name, make_text, key_parts, link):
    assert {"level", "machine", "abi"} == key_parts.keys()
    asked.append(name)
    return native._compile_directly(name, make_text, key_parts, link)
native.set_loader(loader)
assert native.runtime() is native.runtime()
print(asked)
""")
    assert done.stdout == "['runtime']\n", done.stderr
