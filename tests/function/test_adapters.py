"""Arguments that native code does not read as they are: torch tensors, unaligned and byte-swapped arrays, specs."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitfuse as jf


def test_fields_of_records_are_read_written_and_returned() -> None:
    records = np.zeros(3, dtype=[("a", "i1"), ("b", "f8")])
    field = records["b"]
    assert not field.flags.aligned

    @jf.fuse
    def f(x: Any) -> Any:
        x += 1.5
        return x, x * 2

    for iteration in range(1, 4):
        same, double = f(field)
        assert same is field
        np.testing.assert_array_equal(field, np.full(3, 1.5 * iteration))
        np.testing.assert_array_equal(double, field * 2)
    assert f.stats()["traces"] == 1 and f.stats()["fallbacks"] == 0


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_other_byte_orders_are_plain_pythons() -> None:
    def parts(d: Any) -> Any:
        x = d["x"][0]
        x[0] += 1
        return x * 2, x[1:], x.T, x.copy(), np.sort(x), x.dtype, np.zeros_like(x)

    f = jf.fuse(parts)
    for kind in (">f8", "<f8", ">i4", ">f8", "<f8"):
        for shift in (0, 1):
            mine, its = (np.zeros(41, np.uint8)[shift:][:np.dtype(kind).itemsize * 5].view(kind) for _ in range(2))
            mine[:] = its[:] = np.arange(5)
            for got, want in zip(f({"x": [its]}), parts({"x": [mine]}), strict=True):
                if isinstance(want, np.dtype):
                    assert got.str == want.str
                    continue
                assert got.dtype.str == want.dtype.str
                np.testing.assert_array_equal(got, want)
                assert shift or np.shares_memory(got, its) == np.shares_memory(want, mine)
            np.testing.assert_array_equal(its, mine)


def test_warm_compiles_for_specs() -> None:
    f = jf.fuse(lambda x, s: np.sin(x) * s)
    f.warm(jf.spec((64, 3), np.float32), 2.0)
    before = f.stats()
    assert before["traces"] == 1 and before["launches"] == 0
    f(np.ones((64, 3), np.float32), 3.0)
    assert {**f.stats(), "launches": 0} == before


class TestTorch:
    @pytest.fixture
    def torch(self) -> Any:
        return pytest.importorskip("torch", reason="torch is not installed")

    def test_tensors_in_tensors_out(self, torch: Any) -> None:
        f = jf.fuse(lambda p, s: {"y": p["x"] * s, "x": p["x"], "sum": np.sum(p["x"])})
        x = torch.rand(5, 3)
        got = f({"x": x}, 2.0)
        assert got["x"] is x and torch.equal(got["y"], x * 2.0) and got["y"].dtype is torch.float32
        assert torch.allclose(got["sum"], x.sum())

    def test_writes_reach_the_tensor(self, torch: Any) -> None:
        def fill(x: Any) -> None:
            x[1:] = 7.0

        x = torch.zeros(4)
        jf.fuse(fill)(x)
        assert x.tolist() == [0.0, 7.0, 7.0, 7.0]

    def test_gradients_are_not_lost_silently(self, torch: Any) -> None:
        f = jf.fuse(lambda x: x + 1)
        x = torch.zeros(3, requires_grad=True)
        assert jf.fuse(lambda x: x + 1, strict=True)(x).requires_grad
        assert f(x).requires_grad
        with torch.no_grad():
            assert f(x).tolist() == [1.0, 1.0, 1.0]

    def test_mixed_dtypes_promote_as_in_torch(self, torch: Any) -> None:
        f = jf.fuse(lambda x, y: x + y)
        for a, b in ((torch.float32, torch.float64), (torch.int8, torch.uint8), (torch.int16, torch.float16),
                     (torch.bfloat16, torch.float16), (torch.int64, torch.float32), (torch.bool, torch.int8)):
            x, y = torch.ones(3, dtype=a), torch.ones(3, dtype=b)
            assert f(x, y).dtype is (x + y).dtype and torch.equal(f(x, y), x + y)
            scalar = torch.tensor(1, dtype=b)
            assert f(x, scalar).dtype is (x + scalar).dtype

    def test_a_tensor_meets_an_array(self, torch: Any) -> None:
        f = jf.fuse(lambda x, y: (x + y,))
        (added,) = f(torch.ones(3), np.arange(3.0))
        assert torch.equal(added, torch.ones(3) + torch.arange(3.0, dtype=torch.float64))
        assert isinstance(f(np.ones(3), np.arange(3.0))[0], np.ndarray)
        assert f.stats()["traces"] == 2
