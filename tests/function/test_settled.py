"""Functions that have settled: which calls run as plain Python, and which are still compiled."""
from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.graph_breaks import limits

BUDGET = jf.Budget(seconds=0.02)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jf.FallbackWarning)
        yield


def _scaled(x: Any, text: str) -> Any:
    return x * len(text) + 1


def _settled_by(x: Any) -> Any:
    """Return a function that has seen ever new texts with such an argument."""
    fused = jf.fuse(_scaled, budget=BUDGET)
    for n in (*[0] * 6, *range(40)):
        assert np.asarray(fused(x, "a" * n)).tolist() == np.asarray(_scaled(x, "a" * n)).tolist()
    assert 0 < fused.stats()["traces"] < 40
    return fused


def _unaligned(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.frombuffer(b"\0" + x.tobytes(), x.dtype, offset=1)


@pytest.mark.parametrize("made", [np.asarray, jf.asarray, _unaligned], ids=["numpy", "eager", "unaligned"])
def test_calls_of_other_types_are_still_compiled(made: Any) -> None:
    x = made(np.arange(3.0))
    fused = _settled_by(x)
    before = fused.stats()
    fused(x, "b" * 100)
    assert fused.stats()["fallbacks"] == before["fallbacks"] + 1
    torch = pytest.importorskip("torch")
    tensor = torch.arange(3.0)
    for _ in range(3):
        assert fused(tensor, "c").tolist() == [1.0, 2.0, 3.0]
    assert fused.stats()["traces"] == before["traces"] + 1


def test_tensors_settle_by_themselves_and_known_calls_of_theirs_stay_compiled() -> None:
    torch = pytest.importorskip("torch")
    tensor, array = torch.arange(3.0), np.arange(3.0)
    fused = _settled_by(tensor)
    before = fused.stats()
    for n in range(50, 60):
        assert torch.equal(fused(tensor, "a" * n), _scaled(tensor, "a" * n))
    assert fused.stats()["fallbacks"] == before["fallbacks"] + 10
    for _ in range(5):
        assert torch.equal(fused(tensor, ""), _scaled(tensor, ""))  # the first signature
        assert fused(array, "a").tolist() == [1.0, 2.0, 3.0]
        assert [fused(array, text=text).tolist() for text in ("a", "ab")] == [[1.0, 2.0, 3.0], [1.0, 3.0, 5.0]]
    assert fused.stats()["fallbacks"] == before["fallbacks"] + 10


def test_what_failed_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RETRIED", 10)
    torch = pytest.importorskip("torch")
    weight = torch.ones(3, requires_grad=True)
    fused = jf.fuse(lambda x: x * weight)
    x = torch.arange(3.0)
    for _ in range(5):
        assert fused(x).requires_grad
    with torch.no_grad():
        for _ in range(30):
            assert not fused(x).requires_grad
    assert fused.stats()["traces"] == 1 and fused.stats()["launches"] > 10


def test_calls_that_raise_come_to_an_end_and_others_stay_compiled() -> None:
    def rooted(x: Any, n: float) -> Any:
        if n < 0:
            raise ValueError("negative")
        return x * n

    fused = jf.fuse(rooted, budget=BUDGET)
    for k in range(400):
        with pytest.raises(ValueError, match="negative"):
            fused(np.ones(3), -1.0 - k)
        assert fused(np.ones(3), float(k)).tolist() == [float(k)] * 3
    stats = fused.stats()
    assert stats["traces"] == 1 and stats["launches"] >= 398 and 100 < stats["fallbacks"] < 400
    assert "[JF212]" in fused.why()


@pytest.mark.parametrize("given", [
    lambda n: np.datetime64("2020-01-01") + np.timedelta64(n, "D"), lambda n: "a" * n, lambda n: [0.0] * n, lambda n: n,
], ids=["dates", "texts", "lists", "numbers"])
def test_signatures_are_told_apart_by_what_they_have_fixed(given: Any) -> None:
    fused = jf.fuse(lambda x, g: x * (len(g) if isinstance(g, str | list) else float(g > np.datetime64("2020-01-05"))
                                      if isinstance(g, np.datetime64) else len(range(g))))
    x, table = np.ones(3), fused.parts.plain
    for n in (*range(12), *range(12)):
        assert fused(x, given(n)).tolist() == fused.__wrapped__(x, given(n)).tolist()
    searched = [0]
    for known in table.specs._found.values():
        searched += [len(bucket) for bucket in known.values()]
    assert len(table.specs) >= 7 and max(searched) == 1
