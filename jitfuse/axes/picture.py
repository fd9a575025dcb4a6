"""An operation as a picture: axes as boxes, before and after, as SVG.

Each array is a row of boxes, one for each of its axes; a product holds the boxes of its factors, a sum those of its
summands with a gap between. An axis has one colour everywhere, and a line from where it was to where it is.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from jitfuse.axes.terms import AxisList, NamedAxis, Number, Pack, Product, Sum, Term
from jitfuse.base.records import NamedTuple
from jitfuse.ir.formats.picture import COLOURS

_STYLE: Final = (
    "text{font-family:ui-sans-serif,system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1b2733;text-anchor:middle}"
    ".name{font-size:13px;font-weight:600}.size{font-size:10.5px;fill:#51606f}.note{font-size:9.5px;fill:#51606f}"
    ".title{font-size:13px;font-family:ui-monospace,Consolas,monospace;text-anchor:start}"
    ".line{fill:none;stroke-width:2}.array{fill:#f6f8fa;stroke:#8a97a5}.sum{fill:none;stroke:#8a97a5;"
    "stroke-dasharray:4 3}"
)
_BOX: Final = 34.0
_PAD: Final = 6.0
_GAP: Final = 10.0
_BETWEEN: Final = 34.0
_ROWS: Final = (52.0, 168.0)
"""Where the boxes of the arrays before and after begin."""


class _Drawn(NamedTuple):
    """The parts of a picture, and where each axis has boxes."""

    shapes: list[str]
    anchors: dict[str, list[float]]


def operation_svg(
    title: str, lefts: Sequence[AxisList], rights: Sequence[AxisList], sizes: Mapping[str, int] | None = None
) -> str:
    """Return a self-contained SVG of an operation; with sizes of axes, boxes show them."""
    colours = _colours((*lefts, *rights))
    sides = [_side(lists, y, colours, sizes or {}) for lists, y in zip((lefts, rights), _ROWS)]
    width = max(*(end for _, end in sides), len(title) * 7.9 + 32)
    lines = list(_lines(sides[0][0].anchors, sides[1][0].anchors, colours))
    body = [*lines, *sides[0][0].shapes, *sides[1][0].shapes]
    height = _ROWS[1] + _BOX + 2 * _PAD + 30
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img"><title>{escape(title)}</title><style>{_STYLE}</style>'
        f'<rect width="100%" height="100%" fill="#ffffff"/><text class="title" x="16" y="26">{escape(title)}</text>'
        f'{"".join(body)}</svg>\n'
    )


def _colours(lists: Sequence[AxisList]) -> dict[str, str]:
    """Return a colour for each axis, in the order in which they stand."""
    found: dict[str, str] = {}
    for axes in lists:
        for leaf in (leaf for term in axes for leaf in term.leaves()):
            found.setdefault(str(leaf), COLOURS[len(found) % len(COLOURS)])
    return found


def _side(
    lists: Sequence[AxisList], y: float, colours: Mapping[str, str], sizes: Mapping[str, int]
) -> tuple[_Drawn, float]:
    """Return the arrays of a side, one beside the other, and where they end."""
    drawn, x = _Drawn([], {}), 16.0
    for axes in lists:
        start = x
        x += _PAD
        for term in axes:
            x = _term(term, x, y + _PAD, drawn, colours, sizes) + _GAP
        x = max(x - _GAP if len(axes) else x, start + 30) + _PAD
        drawn.shapes.insert(0, _rect("array", start, y, x - start, _BOX + 2 * _PAD))
        if not len(axes):
            drawn.shapes.append(f'<text class="note" x="{(start + x) / 2:.1f}" y="{y + 27:.1f}">1</text>')
        x += _BETWEEN
    return drawn, x - _BETWEEN + 16


def _term(
    term: Term, x: float, y: float, drawn: _Drawn, colours: Mapping[str, str], sizes: Mapping[str, int]
) -> float:
    """Draw a term from `x` on; return where it ends. Factors touch, summands have a gap and a dashed frame."""
    if isinstance(term, Product):
        for factor in term.factors:
            x = _term(factor, x, y, drawn, colours, sizes)
        return x
    if isinstance(term, Sum):
        start = x
        for number, summand in enumerate(term.terms):
            x = _term(summand, x + (_GAP / 2 if number else 3), y, drawn, colours, sizes)
        drawn.shapes.append(_rect("sum", start, y - 3, x + 3 - start, _BOX + 6))
        return x + 3
    name = f"{term}…" if isinstance(term, Pack) else str(term)
    width = max(30.0, 9.0 * len(name) + 14)
    middle = x + width / 2
    drawn.shapes.append(_rect("", x, y, width, _BOX, colours[str(term)]))
    shown = str(sizes[term.name]) if isinstance(term, NamedAxis) and term.name in sizes else ""
    level = y + (16 if shown else 22)
    drawn.shapes.append(f'<text class="name" x="{middle:.1f}" y="{level:.1f}">{escape(name)}</text>')
    if shown:
        drawn.shapes.append(f'<text class="size" x="{middle:.1f}" y="{y + 29:.1f}">{shown}</text>')
    if not isinstance(term, Number):
        drawn.anchors.setdefault(str(term), []).append(middle)
    return x + width


def _rect(kind: str, x: float, y: float, width: float, height: float, fill: str = "") -> str:
    look = f'class="{kind}"' if kind else f'fill="{fill}" stroke="#51606f" stroke-width="0.8"'
    return f'<rect {look} x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5"/>'


def _lines(
    before: Mapping[str, list[float]], behind: Mapping[str, list[float]], colours: Mapping[str, str]
) -> Iterator[str]:
    """Yield a line for each axis from where it was to where it is, and notes where it ends or begins."""
    top, bottom = _ROWS[0] + _BOX + _PAD, _ROWS[1] + _PAD
    for name in {**before, **behind}:
        ends, starts = before.get(name, []), behind.get(name, [])
        pairs = list(zip(ends, starts)) + [(a, starts[-1]) for a in ends[len(starts) :] if starts]
        pairs += [(ends[-1], b) for b in starts[len(ends) :] if ends]
        for a, b in pairs:
            yield (f'<path class="line" stroke="{_dark(colours[name])}" d="M{a:.1f} {top:.1f} C{a:.1f} {top + 40:.1f} '
                   f'{b:.1f} {bottom - 40:.1f} {b:.1f} {bottom:.1f}"/>')
        for x in ends if not starts else ():
            yield f'<text class="note" x="{x:.1f}" y="{top + 22:.1f}">reduced</text>'
        for x in starts if not ends else ():
            yield f'<text class="note" x="{x:.1f}" y="{bottom - 14:.1f}">new</text>'


def _dark(colour: str) -> str:
    """Return a colour that is darker, for lines."""
    return "#" + "".join(f"{int(int(colour[k : k + 2], 16) * 0.72):02x}" for k in (1, 3, 5))
