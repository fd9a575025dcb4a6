"""Every code of an error, with the place, the sizes and the way out."""
from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitfuse.axes import TensorOp, ax, axes, contract, einop, packs, rearrange, reduce, repeat, view
from jitfuse.axes.faults import CODES
from jitfuse.errors import AxesError

a, b, c, h, w = axes("a", "b", "c", "h", "w")
many = axes(*(f"n{k}" for k in range(60)))
p, q = packs("p", "q")
x = np.zeros((2, 6))


class Strange:
    shape = (2, 6)


CASES: dict[str, list[Callable[[], Any]]] = {
    "bad_term": [
        lambda: ax["b"], lambda: ax[...], lambda: ax[-1], lambda: ax[True], lambda: axes("not a name"),
        lambda: axes("b", "b"), lambda: rearrange("b h", ax[b]), lambda: rearrange(ax[b, axes("p")[0]], ax[p, b]),
    ],
    "wrong_arity": [
        lambda: rearrange(ax[b, h], ax[h, b])(x, x), lambda: reduce((ax[b], ax[h]), ax[b]),
        lambda: repeat(ax[b], (ax[b], ax[b])), lambda: rearrange((), ax[b]),
        lambda: rearrange(ax[b, h], ax[h, b]).plan((2, 3), (3, 4)),
    ],
    "added_axis": [lambda: rearrange(ax[b], ax[b, h]), lambda: contract((ax[b], ax[b]), ax[b, h])],
    "lost_axis": [lambda: rearrange(ax[b, h], ax[b]), lambda: repeat(ax[b, p], ax[b])],
    "no_source": [lambda: rearrange(ax[a], (ax[a], ax[a])), lambda: rearrange((ax[a, b], ax[a]), (ax[a], ax[b]))],
    "ambiguous_parts": [lambda: einop((ax[a], ax[a]), (ax[a, b], ax[b, a]))],
    "unused_part": [lambda: rearrange((ax[a], ax[a]), ax[a])],
    "number_in_product": [lambda: contract((ax[b, 6], ax[6]), ax[b])(x, np.zeros(6))],
    "rank_mismatch": [
        lambda: rearrange(ax[b, h, w], ax[b, w, h])(x), lambda: rearrange(ax[b], ax[b])(x),
        lambda: contract((ax[p, b], ax[p]), ax[b])(x, x),
    ],
    "inconsistent_sizes": [
        lambda: rearrange(ax[b, h * w], ax[b, h, w]).with_sizes(h=4)(x),
        lambda: contract((ax[b], ax[b]), ax[b])(x[0], x[:, 0]),
        lambda: rearrange(ax[b, 5], ax[5, b])(x), lambda: reduce(ax[b, 7 + h], ax[b]).reduce_by("sum")(x),
        lambda: rearrange(ax[b * b, h], ax[b, b, h])(x),
        lambda: rearrange(ax[a * p, 2], ax[a, p, 2])(x), lambda: rearrange(ax[b, 4 * p], ax[b, 4, p])(x),
        lambda: einop(ax[b, 7 + h], ax[b, 7 + h, c])(x),
    ],
    "ambiguous_sizes": [
        lambda: rearrange(ax[b, h * w], ax[b, h, w])(x), lambda: rearrange(ax[b, h + w], (ax[b, h], ax[b, w]))(x),
        lambda: repeat(ax[b, h], ax[b, h, w])(x), lambda: contract((ax[p, q], ax[b]), ax[b])(x, x[0]),
        lambda: rearrange(ax[b * h, w], ax[b, h, w])(np.zeros((0, 3))), lambda: repeat(ax[b, h], ax[b, h, p])(x),
        lambda: rearrange(ax[b, h * p], ax[b, h, p])(x),
    ],
    "unknown_name": [lambda: rearrange(ax[b, h], ax[h, b]).with_sizes(w=3)],
    "bad_size": [
        lambda: rearrange(ax[b, h], ax[h, b]).with_sizes(b=-1), lambda: rearrange(ax[b, h], ax[h, b]).with_sizes(b=2.0),
        lambda: rearrange(ax[b, h], ax[h, b]).with_sizes(b=(2,)), lambda: rearrange(ax[b, p], ax[p, b]).with_sizes(p=6),
    ],
    "bad_reducer": [
        lambda: reduce(ax[b, h], ax[b])(x), lambda: reduce(ax[b, h], ax[b]).reduce_by("median"),
        lambda: rearrange(ax[b, h], ax[h, b]).reduce_by("sum"), lambda: reduce(ax[b, h], ax[b]).reduce_by(),
        lambda: reduce(ax[b, h], ax[()]).reduce_by((ax[b], "sum")),
        lambda: reduce(ax[b, h], ax[b]).reduce_by("sum", "max"),
        lambda: einop((ax[b, h], ax[h]), ax[b]).reduce_by("max")(x, x[0]),
        lambda: reduce(ax[b, 6], ax[()]).reduce_by((ax[b], "sum"))(x),
    ],
    "not_a_view": [
        lambda: view(ax[b, h], ax[h * b])(x), lambda: view(ax[b, h], ax[b * h])(x.T),
        lambda: view(ax[b, h], ax[b, b, h])(x), lambda: view(ax[a + b, h], ax[b + a, h]).with_sizes(a=1)(x),
    ],
    "mixed_libraries": [],
    "unsupported_array": [
        lambda: rearrange(ax[b, h], ax[h, b])([[1, 2]]), lambda: rearrange(ax[b, h], ax[h, b])(Strange()),
    ],
    "too_many_axes": [],
}


def test_the_codes_are_a_closed_set() -> None:
    assert set(CASES) == set(CODES)
    page = (Path(__file__).resolve().parents[2] / "docs" / "named-axes.md").read_text()
    for code, meaning in CODES.items():
        assert f"| `{code}` | {meaning} |" in page


@pytest.mark.parametrize(("code", "number"), [(code, k) for code, cases in CASES.items() for k in range(len(cases))])
def test_each_code_is_reached(code: str, number: int) -> None:
    with pytest.raises(AxesError) as caught:
        CASES[code][number]()
    error = caught.value
    assert error.code == code and error.reason and error.help.endswith((".", ")"))
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, str(again)) == (code, str(error))


def test_torch_and_numpy_do_not_mix() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(AxesError, match=r"torch\.from_numpy") as caught:
        contract((ax[b, h], ax[h]), ax[b])(x, torch.zeros(6))
    assert caught.value.code == "mixed_libraries"


def test_a_product_of_very_many_axes() -> None:
    kept = many[:54]
    op = contract((ax[*kept, c], ax[*reversed(kept), c]), ax[*kept])
    with pytest.raises(AxesError) as caught:
        op.plan((1,) * 55, (1,) * 55)
    assert caught.value.code == "too_many_axes"
    together = contract((ax[*kept, c], ax[*kept, c]), ax[*kept])  # axes that stay together are one
    assert together.plan((1,) * 55, (1,) * 55).shapes == ((1,) * 54,)


def test_the_message_shows_the_place_the_line_and_the_sizes() -> None:
    op = rearrange(ax[b, h * w], ax[w, b, h]).with_sizes(h=4)
    with pytest.raises(AxesError) as caught:
        op(x)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("inconsistent_sizes: axis 2 of array 1 has size 6, but h = 4 was given, at ")
    assert "test_errors.py:" in lines[0]
    assert lines[1] == f"    {op!r}"
    start, stop = lines[2].index("^"), lines[2].rindex("^") + 1
    assert lines[1][start:stop] == "h * w"
    assert lines[3] == "sizes so far: h=4, b=2"
    assert lines[4].startswith("help: Check the shapes")


@pytest.mark.parametrize(("op", "array", "place"), [
    (lambda: contract((ax[b, h], ax[p, w, h]), ax[b, w]), (x, np.zeros((3, 2, 5))), "h"),
    (lambda: rearrange(ax[p, h * w, b], ax[p, h, w, b]), (np.zeros((2, 2, 6, 3)),), "h * w"),
])
def test_carets_are_under_terms_behind_packs(op: Callable[[], TensorOp], array: tuple[Any, ...], place: str) -> None:
    with pytest.raises(AxesError) as caught:
        op()(*array)
    lines = str(caught.value).splitlines()
    carets = next(line for line in lines if set(line.strip()) == {"^"})
    text = lines[lines.index(carets) - 1]
    assert text[carets.index("^") : carets.rindex("^") + 1] == place


@pytest.mark.parametrize(("op", "place"), [
    (lambda: rearrange((ax[a, b], ax[a]), (ax[a], ax[b])), "ax[b]"),
    (lambda: einop((ax[a], ax[a]), (ax[a, b], ax[b, a])), "ax[a, b]"),
    (lambda: rearrange((ax[a], ax[b]), ax[a]), "b"),
    (lambda: rearrange((ax[a], ax[a, h + w]), (ax[a, h], ax[a])), "h + w"),
    (lambda: rearrange((ax[a], ax[a]), ax[a]), "ax[a]"), (lambda: rearrange(ax[b, 3], ax[b]), "3"),
    (lambda: rearrange(ax[b], ax[b, 1, b * 3]), "b * 3"), (lambda: repeat(ax[p, a + b, c], ax[p, c]), "a + b"),
    (lambda: rearrange(ax[a, p], ax[a]), "p"), (lambda: contract(ax[a], (ax[a], ax[h * b])), "h * b"),
    (lambda: contract((ax[b, 6], ax[b]), ax[b])(x, x[:, 0]), "ax[b, 6]"),
])
def test_carets_are_under_axes_and_parts(op: Callable[[], Any], place: str) -> None:
    with pytest.raises(AxesError) as caught:
        op()
    _, text, carets, *_ = str(caught.value).splitlines()
    assert text[carets.index("^") : carets.rindex("^") + 1] == place
