"""A program as a picture: steps in layers, coloured by the kernel or library call that computes them, as SVG.

Owns what is drawn and how it looks. Positions are decided in `jitfuse.ir.formats.picture_layout`.
"""
from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from jitfuse.base.records import NamedTuple
from jitfuse.ir.formats.picture_layout import Box, PictureLayout, lay_out
from jitfuse.ir.formats.text import meta_text, step_text
from jitfuse.ir.schema import ProgramData

MAX_STEPS: Final = 400
"""Up to this many steps, a program is drawn step by step; larger ones by their kernels."""
_MARGIN: Final = 28.0
COLOURS: Final = (
    "#cfe3fb", "#fde0bf", "#d5efcf", "#e7d9f5", "#fbd3d6", "#d3f0ee", "#f7ebb8", "#e3dcd3", "#dbe1ea", "#f6d5ec",
)
_STYLE: Final = (
    "text{font-family:ui-sans-serif,system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1b2733}"
    ".op{font-size:13px;font-weight:600}.meta{font-size:10.5px;fill:#51606f}.note{font-size:11px;fill:#51606f}"
    ".edge{fill:none;stroke:#8a97a5;stroke-width:1.2}.title{font-size:14px;font-weight:600}"
)


class DrawnGroup(NamedTuple):
    """Steps that share a colour: the kernel or library call, and the values that it makes."""

    name: str
    values: frozenset[int]


class _PictureNode(NamedTuple):
    name: str
    title: str
    meta: str
    hint: str
    kind: str
    group: int | None


def program_svg(program: ProgramData, groups: Sequence[DrawnGroup] = (), title: str = "") -> str:
    """Return a self-contained SVG of a program; with `groups`, a step's colour shows what computes it.

    Programs of more than `MAX_STEPS` steps are drawn by their groups, if these are given.
    """
    if groups and len(program.steps) > MAX_STEPS:
        nodes, edges = _by_groups(program, groups)
    else:
        nodes, edges = _by_steps(program, groups)
    boxes = [Box(n.name, max(_width(n.title, 7.6), _width(n.meta, 6.2)) + 22, 40.0) for n in nodes]
    layout = lay_out(boxes, edges)
    drawn = [*_edges(layout, edges, boxes), *(_node(n, b, layout) for n, b in zip(nodes, boxes, strict=True))]
    return _document(layout, drawn, groups, title)


def _by_steps(
    program: ProgramData, groups: Sequence[DrawnGroup]
) -> tuple[list[_PictureNode], list[tuple[str, str]]]:
    home: dict[int, int] = {}
    times: dict[int, int] = {}
    for k, group in enumerate(groups):
        for value in group.values:
            home.setdefault(value, k)
            times[value] = times.get(value, 0) + 1
    used = {i for s in program.steps for i in s.input_ids}
    nodes = [
        _PictureNode(f"v{i}", _feed_name(program, i), meta_text(program.meta.get(i)), "feed", "feed", None)
        for i in program.ordered_feeds if i in used or i in program.outputs.values()
    ]
    edges: list[tuple[str, str]] = []
    made = {i: f"v{i}" for i in program.feeds}
    for step in program.steps:
        name = f"s{step.step_id}"
        value = step.result_id
        again = f" ×{times[value]}" if times.get(value, 0) > 1 else ""
        mode = " (mode)" if step.mode_sensitive else ""
        nodes.append(_PictureNode(
            name, step.op_name + again + mode, meta_text(program.meta.get(value)), step_text(program, step), "step",
            home.get(value),
        ))
        edges += [(made[i], name) for i in dict.fromkeys(step.input_ids)]
        made.update(dict.fromkeys(step.result_ids, name))
    for path, value in _deliveries(program):
        nodes.append(_PictureNode(f"o{path}", path, meta_text(program.meta.get(value)), "delivered", "out", None))
        edges.append((made[value], f"o{path}"))
    return nodes, edges


def _by_groups(program: ProgramData, groups: Sequence[DrawnGroup]) -> tuple[list[_PictureNode], list[tuple[str, str]]]:
    """Return only the kernels and library calls, in the order in which they run."""
    home = {value: k for k, group in reversed(list(enumerate(groups))) for value in group.values}
    nodes, edges = [], []
    for k, group in enumerate(groups):
        names = [program.producers[v].op_name for v in sorted(group.values) if v in program.producers]
        nodes.append(_PictureNode(f"g{k}", group.name, f"{len(names)} steps", ", ".join(names), "step", k))
        needed = {i for v in group.values if v in program.producers for i in program.producers[v].input_ids}
        edges += [(f"g{j}", f"g{k}") for j in sorted({home[i] for i in needed if i in home}) if j < k]
    return nodes, edges


def _deliveries(program: ProgramData) -> Iterable[tuple[str, int]]:
    for path, value in program.outputs.items():
        yield f"return {path}", value
    for feed, value in sorted(program.writes.items()):
        yield f"write {_feed_name(program, feed)}", value
    for feed, value in sorted(program.state_out.items()):
        yield f"update {_feed_name(program, feed)}", value


def _feed_name(program: ProgramData, feed: int) -> str:
    return program.feed_names.get(feed, f"%{feed}")


def _width(text: str, per_letter: float) -> float:
    return per_letter * min(len(text), 42)


def _short(text: str) -> str:
    return text if len(text) <= 42 else text[:41] + "…"


def _node(node: _PictureNode, box: Box, layout: PictureLayout) -> str:
    x, y = layout.centres[node.name]
    fill = "#ffffff" if node.group is None else COLOURS[node.group % len(COLOURS)]
    if node.kind == "feed":
        fill = "#eef1f4"
    look = {"feed": 'rx="19" stroke="#9aa7b4"', "out": 'rx="3" stroke="#1b2733" stroke-width="1.6"'}.get(
        node.kind, 'rx="7" stroke="#6f7f8f"'
    )
    return (
        f'<g><title>{escape(node.hint)}</title>'
        f'<rect x="{x - box.width / 2:.1f}" y="{y - 20:.1f}" width="{box.width:.1f}" height="40" fill="{fill}" {look}/>'
        f'<text class="op" x="{x:.1f}" y="{y - 3:.1f}" text-anchor="middle">{escape(_short(node.title))}</text>'
        f'<text class="meta" x="{x:.1f}" y="{y + 12:.1f}" text-anchor="middle">{escape(_short(node.meta))}</text></g>'
    )


def _edges(layout: PictureLayout, edges: Sequence[tuple[str, str]], boxes: Sequence[Box]) -> list[str]:
    height = {b.name: b.height for b in boxes}
    drawn = []
    for edge in dict.fromkeys(edges):
        (ax, ay), (bx, by) = layout.centres[edge[0]], layout.centres[edge[1]]
        points = [(ax, ay + height[edge[0]] / 2), *layout.bends[edge], (bx, by - height[edge[1]] / 2 - 5)]
        path = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
        for (px, py), (qx, qy) in itertools.pairwise(points):
            middle = (py + qy) / 2
            path += f" C{px:.1f},{middle:.1f} {qx:.1f},{middle:.1f} {qx:.1f},{qy:.1f}"
        drawn.append(f'<path class="edge" d="{path}" marker-end="url(#arrow)"/>')
    return drawn


def _document(layout: PictureLayout, drawn: Sequence[str], groups: Sequence[DrawnGroup], title: str) -> str:
    legend = [_legend_line(k, g) for k, g in enumerate(groups[:40])]
    legend_width = 230.0 if legend else 0.0
    top = _MARGIN + (24.0 if title else 0.0)
    width = max(layout.width + 2 * _MARGIN + legend_width, _width(title, 8.5) + 2 * _MARGIN)
    height = max(layout.height, 20.0 * len(legend)) + top + _MARGIN
    heading = f'<text class="title" x="{_MARGIN}" y="{_MARGIN}">{escape(title)}</text>' if title else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img"><style>{_STYLE}</style>'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0.8 L7,4 L0,7.2 z" fill="#8a97a5"/></marker></defs>'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{heading}'
        f'<g transform="translate({_MARGIN},{top})">{"".join(drawn)}</g>'
        f'<g transform="translate({layout.width + 2 * _MARGIN},{top})">{"".join(legend)}</g></svg>'
    )


def _legend_line(k: int, group: DrawnGroup) -> str:
    return (
        f'<rect y="{20 * k}" width="14" height="14" rx="3" fill="{COLOURS[k % len(COLOURS)]}" stroke="#6f7f8f"/>'
        f'<text class="note" x="22" y="{20 * k + 11}">{escape(_short(group.name))}</text>'
    )
