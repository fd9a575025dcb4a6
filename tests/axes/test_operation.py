"""Operations as values: text, equality, pickling; views that are views; pictures; arrays on a GPU."""
from __future__ import annotations

import copy
import importlib.util
import pickle
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from adapters import device_or_skip

import jitfuse as jf
from jitfuse.axes import TensorOp, ax, axes, contract, einop, packs, rearrange, reduce, repeat, symbols, view
from jitfuse.errors import AxesError

a, b, c, h, w = axes("a", "b", "c", "h", "w")
(tail,) = packs("tail")
ROOT = Path(__file__).resolve().parents[2]

OPERATIONS: list[TensorOp] = [
    view(ax[b, h, w], ax[b, h * w]), rearrange((ax[a + b, 3], ax[()]), (ax[3, a + b], ax[1])),
    repeat(ax[tail], ax[b, tail]).with_sizes(b=2), reduce(ax[(a + b * c) * h, w], ax[w]).reduce_by("mean"),
    reduce(ax[h, w, c], ax[c]).reduce_by((ax[h], "max"), (ax[w], "sum")), reduce(ax[h, w], ax[w]).reduce_by(np.ptp),
    contract((ax[tail, a], ax[a, b]), ax[tail, b]).with_sizes(tail=(2, 3)), einop((ax[a], ax[b]), ax[1 * a + 2 * b]),
    rearrange((ax[a],), (ax[a],)),
]


@pytest.mark.parametrize("op", OPERATIONS, ids=repr)
def test_an_operation_is_a_value(op: TensorOp) -> None:
    names = {"ax": ax, "a": a, "b": b, "c": c, "h": h, "w": w, "tail": tail, "ptp": np.ptp}
    makers = {f.__name__: f for f in (view, rearrange, repeat, reduce, contract, einop)}
    again = eval(repr(op), names | makers)
    for other in (again, copy.copy(op), copy.deepcopy(op), pickle.loads(pickle.dumps(op))):
        assert other == op and hash(other) == hash(op) and repr(other) == repr(op)
    assert len({op, again}) == 1 and op != rearrange(ax[b, h], ax[h, b])
    with pytest.raises(AttributeError):
        op.sizes = {}  # type: ignore[attr-defined]


def test_one_list_gives_an_array_and_a_tuple_gives_one() -> None:
    x = np.arange(3)
    assert rearrange(ax[a], ax[a])(x).tolist() == [0, 1, 2]
    (made,) = rearrange((ax[a],), (ax[a],))(x)
    assert made.tolist() == [0, 1, 2]


def test_symbols_are_axes_and_packs() -> None:
    assert symbols(axes="a, b", packs="tail") == (a, b, tail)


def test_views_share_memory_and_write_through() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    flat = view(ax[b, h, w], ax[b, h * w])(x)
    flat[1, 0] = -1
    assert x[1, 0, 0] == -1 and np.shares_memory(flat, x)
    first, rest = view(ax[b, 1 + h, w], (ax[b, w], ax[h, b, w]))(x)
    assert np.shares_memory(first, x) and np.shares_memory(rest, x)
    assert np.array_equal(rest, x[:, 1:].transpose(1, 0, 2))
    backwards = view(ax[b, h, w], ax[h, w, b])(x[::-1])
    assert np.shares_memory(backwards, x) and np.array_equal(backwards, x[::-1].transpose(1, 2, 0))


def test_a_view_is_proved_for_each_call() -> None:
    op = view(ax[b, h, w], ax[b, h * w])
    x = np.zeros((2, 3, 4))
    op(x)
    with pytest.raises(AxesError) as caught:
        op(x.transpose(0, 2, 1).copy().transpose(0, 2, 1))  # of the same shape
    assert caught.value.code == "not_a_view" and "h * w" in str(caught.value)


def test_torch_views_share_memory() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(24.0).reshape(2, 3, 4)
    made = view(ax[b, h, w], ax[h, b * 1, w])(x)
    made[0, 0, 0] = -1
    assert x[0, 0, 0] == -1
    with pytest.raises(AxesError):
        view(ax[b, h, w], ax[b, w * h])(x)
    x.requires_grad_()
    reduce(ax[b, h, w], ax[h]).reduce_by("max")(x).sum().backward()
    assert x.grad is not None and int((x.grad != 0).sum()) == 3


def test_repeats_of_numpy_can_be_written() -> None:
    made = repeat(ax[a], ax[a, b]).with_sizes(b=3)(np.arange(2.0))
    made[0, 0] = 5
    assert made.tolist() == [[5, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize("value", [np.float64(2), np.array(2.0), np.memmap])
def test_numbers_and_memory_maps(value: object, tmp_path: Path) -> None:
    if value is np.memmap:
        x = np.memmap(tmp_path / "x", dtype="float64", mode="w+", shape=(2, 3))
        op = rearrange(ax[a, b], ax[b, a])
        assert [type(op(x)) for _ in range(3)] == [np.ndarray] * 3
        assert op(x).shape == (3, 2)
    else:
        assert np.array_equal(repeat(ax[()], ax[a]).with_sizes(a=2)(value), [2, 2])


def test_many_shapes_are_forgotten() -> None:
    op = rearrange(ax[a, b], ax[b, a])
    for n in range(600):
        assert op(np.zeros((1, n))).shape == (n, 1)
    assert len(op._functions) <= 512


def test_arrays_on_a_gpu() -> None:
    device_or_skip()
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    y = np.ones((4, 5), "float32")
    for op, arrays in (
        (rearrange(ax[b, h, w], ax[w, b * h]), (x,)), (contract((ax[b, h, w], ax[w, c]), ax[c, b, h]), (x, y)),
        (reduce(ax[b, h, w], ax[h]).reduce_by("max"), (x,)), (repeat(ax[b, h, w], ax[b, 2, h, w]), (x,)),
    ):
        made = op(*(jf.asarray(v, device="gpu") for v in arrays))
        np.testing.assert_allclose(np.asarray(made), op(*arrays), rtol=1e-6)


def example() -> ModuleType:
    path = ROOT / "examples" / "axes_pictures.py"
    spec = importlib.util.spec_from_file_location("axes_pictures", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pictures_of_the_page_are_current(tmp_path: Path) -> None:
    module = example()
    module.main(tmp_path)
    page = (ROOT / "docs" / "named-axes.md").read_text()
    for name in module.PICTURES:
        assert (tmp_path / f"{name}.svg").read_text() == (ROOT / "docs" / "pictures" / f"{name}.svg").read_text()
        assert f"pictures/{name}.svg" in page


@pytest.mark.parametrize("op", OPERATIONS, ids=repr)
def test_every_operation_can_be_drawn(op: TensorOp) -> None:
    drawn = op.picture()
    assert drawn.startswith("<svg") and drawn.count("<rect") > len(op._plan.lhs) + len(op._plan.rhs)
