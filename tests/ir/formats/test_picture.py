"""Pictures: well-formed, complete, nothing drawn over anything else."""
from __future__ import annotations

import random
import xml.etree.ElementTree as ElementTree

import pytest

from jitfuse.ir.formats.picture import MAX_STEPS, DrawnGroup, program_svg
from jitfuse.ir.formats.picture_layout import Box, lay_out
from jitfuse.ir.program import FusedProgram, Meta, OpStep

SVG = "{http://www.w3.org/2000/svg}"


def titles(svg: str) -> list[str]:
    return [t.text or "" for t in ElementTree.fromstring(svg).iter(f"{SVG}text") if t.get("class") == "op"]


@pytest.mark.parametrize("seed", range(5))
def test_boxes_never_overlap_and_edges_lead_down(seed: int) -> None:
    rng = random.Random(seed)
    boxes = [Box(f"n{k}", rng.uniform(20, 200), 40.0) for k in range(60)]
    edges = [(f"n{rng.randrange(k)}", f"n{k}") for k in range(1, 60) for _ in range(rng.randint(0, 3))]
    layout = lay_out(boxes, edges)
    for a, b in edges:
        assert layout.centres[a][1] < layout.centres[b][1]
    for i, a in enumerate(boxes):
        (ax, ay) = layout.centres[a.name]
        assert ax - a.width / 2 + 1e-6 >= 0 and ax + a.width / 2 <= layout.width + 1e-6
        for b in boxes[:i]:
            bx, by = layout.centres[b.name]
            assert abs(ax - bx) >= (a.width + b.width) / 2 or abs(ay - by) >= 40.0


def test_every_feed_step_and_delivery_is_drawn(training_program: FusedProgram) -> None:
    svg = program_svg(training_program)
    found = titles(svg)
    for step in training_program.steps:
        assert any(t.startswith(step.op_name) for t in found)
    for path in training_program.outputs:
        assert f"return {path}" in found
    assert sum(t.startswith(("write", "update")) for t in found) == (
        len(training_program.writes) + len(training_program.state_out)
    )
    assert svg == training_program.to_svg() == training_program._repr_svg_()


def test_groups_colour_their_steps(training_program: FusedProgram) -> None:
    values = frozenset(training_program.producers)
    svg = program_svg(training_program, [DrawnGroup("kernel <0>", values), DrawnGroup("kernel 1", values)], "a & b")
    assert "kernel &lt;0&gt;" in svg and "a &amp; b" in svg
    names = {s.op_name for s in training_program.steps}
    assert all(t.endswith(("×2", "×2 (mode)")) for t in titles(svg) if t.split()[0] in names)


def test_large_programs_are_drawn_by_their_kernels() -> None:
    meta = {k: Meta((3,), "float32") for k in range(MAX_STEPS + 2)}
    steps = tuple(OpStep(k, "sin", (k,), (), (k + 1,)) for k in range(MAX_STEPS + 1))
    program = FusedProgram(frozenset({0}), steps, {"": MAX_STEPS + 1}, meta)
    half = MAX_STEPS // 2
    groups = [DrawnGroup("first", frozenset(range(1, half))), DrawnGroup("second", frozenset(range(half, len(meta))))]
    assert titles(program_svg(program, groups)) == ["first", "second"]
    assert len(titles(program_svg(program))) == len(steps) + 2


def test_an_empty_program() -> None:
    ElementTree.fromstring(program_svg(FusedProgram(frozenset(), (), {}, {})))
