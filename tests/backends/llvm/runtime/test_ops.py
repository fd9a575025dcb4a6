"""Each kind of op of a plan through the real driver: launches, statuses, observed values, host steps."""
from __future__ import annotations

import gc
import sys
from typing import Any, NoReturn

import numpy as np
import pytest
from single_plans import StatusError, single

from jitfuse.backends.llvm.runtime.tables import (
    ARENA,
    ArrayResult,
    HostStepArray,
    ObjectResult,
    PlanBuilder,
    SlotResult,
)


@pytest.mark.parametrize("gil", [False, True])
@pytest.mark.parametrize("threads", [1, 0, 2, 5])
@pytest.mark.parametrize("units", [0, 1, 7, 100_003])
def test_launches_of_every_kind_fill_the_same(harness: Any, units: int, threads: int, gil: bool) -> None:
    for scratch in (8, 100):
        def build(p: PlanBuilder, value: int, scratch: int = scratch) -> None:
            out = p.output("int64", (units,))
            p.launch(harness.kernel("through_scratch"), units, operands=[(out.value, 0)], threads=threads,
                     scratch=scratch, gil=gil)
            p.finish(ArrayResult(out))

        f = single(harness, build)
        gc.collect()
        live = harness.live_bytes()
        for _ in range(3):
            assert np.array_equal(f(np.zeros(1, np.int64)), np.arange(units))
        assert harness.live_bytes() == live


@pytest.mark.parametrize(("threads", "gil"), [(1, False), (1, True), (0, False), (0, True)])
def test_a_status_goes_to_the_handler(harness: Any, threads: int, gil: bool) -> None:
    seen: list[Any] = []
    answers = {5: True, 6: None, 7: False, 8: 1}

    def handler(site: int, code: int) -> Any:
        seen.append((site, code))
        if code in answers:
            return answers[code]
        raise StatusError

    def build(p: PlanBuilder, value: int) -> None:
        p.output("float64", (100,))
        p.arena(1000)
        p.launch(harness.kernel("status"), 1, operands=[(value, 0)], site=-4, threads=threads, gil=gil)
        p.finish(ObjectResult("done"))

    f = single(harness, build, handler=handler)
    gc.collect()
    live = harness.live_bytes()
    assert f(np.array([0])) == "done"
    with pytest.raises(StatusError):
        f(np.array([9]))
    for code in answers:
        with pytest.raises(RuntimeError, match="unexpected"):  # the call is left to the miss handler
            f(np.array([code]))
    assert seen == [(-4, code) for code in (9, *answers)]
    assert harness.live_bytes() == live


def test_check_reads_a_status_from_memory(harness: Any) -> None:
    def handler(site: int, code: int) -> NoReturn:
        raise StatusError(site, code)

    def build(p: PlanBuilder, value: int) -> None:
        p.check(value, 8, site=2)
        p.finish(SlotResult(0))

    f = single(harness, build, shape=(3,), handler=handler)
    x = np.array([1, 0, 1])
    assert f(x) is x
    with pytest.raises(StatusError) as caught:
        f(np.array([0, -3, 0]))
    assert caught.value.args == (2, -3)


OBSERVED = {
    "bool": [True, False],
    "int32": [0, -1, 2**31 - 1, -(2**31)],
    "int64": [0, -1, 2**63 - 1, -(2**63)],
    "float32": [0.0, -0.0, 1.5, float("inf")],
    "float64": [0.0, -0.0, 0.1, float("-inf")],
}


@pytest.mark.parametrize("dtype", OBSERVED)
def test_observed_values_choose_the_path(harness: Any, dtype: str) -> None:
    """All values but the last are cases; the last goes on with the next step."""
    values = OBSERVED[dtype]

    def build(p: PlanBuilder, value: int) -> None:
        labels = [p.label() for _ in values[:-1]]
        end = p.label()
        p.observe(value, dtype, list(zip(values, labels)))
        p.finish(ObjectResult("no case"))
        for label, v in zip(labels, values):
            p.place(label)
            if v == values[0] and str(v) == str(values[0]):
                p.jump(end)
            else:
                p.finish(ObjectResult(("case", v)))
        p.place(end)
        p.finish(ObjectResult(("case", values[0])))

    f = single(harness, build, dtype=dtype)
    for v in values[:-1]:
        assert str(f(np.array([v], dtype))) == str(("case", v))
    assert f(np.array(values[-1:], dtype)) == "no case"


@pytest.mark.parametrize("nbytes", [0, 1, 7, 8, 24, 4001])
def test_memory_that_holds_certain_bytes_chooses_the_way(harness: Any, nbytes: int) -> None:
    held = bytes(range(256)) * 16
    contents = [held[k : k + nbytes] for k in range(3)]

    def build(p: PlanBuilder, value: int) -> None:
        labels = [p.label() for _ in contents]
        for content, label in zip(contents, labels):
            p.match(value, content, label, offset=1)
        p.finish(ObjectResult("none"))
        for k, label in enumerate(labels):
            p.place(label)
            p.finish(ObjectResult(k))

    f = single(harness, build, shape=(nbytes + 1,), dtype="uint8")
    for k, content in enumerate(contents):
        assert f(np.frombuffer(b"x" + content, np.uint8).copy()) == (k if nbytes else 0)
    if nbytes:
        assert f(np.frombuffer(b"x" + contents[0][:-1] + b"!", np.uint8).copy()) == "none"


def test_host_arrays_stay_valid_for_whoever_keeps_them(harness: Any) -> None:
    kept: list[np.ndarray] = []

    def host(*arrays: np.ndarray) -> None:
        arrays[0][...] = arrays[3]
        arrays[2][...] = 5
        kept.extend(a[:] for a in arrays)
        if len(kept) > 4:
            raise ArithmeticError

    def build(p: PlanBuilder, value: int) -> None:
        p.arena(256)
        out = p.output("int64", (4,))
        p.host(host, [
            HostStepArray(out.value, "int64", (4,), writeable=True),
            HostStepArray(out.value, "int32", (2,), (8,), 16),
            HostStepArray(ARENA, "int64", (4, 2), (8, 32), 128, writeable=True),
            HostStepArray(value, "int64", (4,), (-8,), 24, slot=0),
        ])
        p.finish(ArrayResult(out))

    gc.collect()
    live = harness.live_bytes()
    f = single(harness, build, shape=(4,))
    x = np.arange(4)
    count = sys.getrefcount(x)
    y = f(x)
    assert y.tolist() == [3, 2, 1, 0] and kept[0].base is y
    with pytest.raises(ArithmeticError):
        f(x)
    for _ in range(10):
        f.detach(), f.attach(harness.runtime.address("jf_fastcall"), f._attached.address, f._attached)
    assert [k.tolist() for k in kept[:2]] == [[3, 2, 1, 0], [1, 0]]
    assert (kept[2] == 5).all() and (kept[6] == 5).all() and kept[3].tolist() == [3, 2, 1, 0]
    assert sys.getrefcount(x) == count + 2
    del y
    kept.clear()
    gc.collect()
    assert sys.getrefcount(x) == count and harness.live_bytes() == live
