"""The report as a page: complete, self-contained, written whole or not at all."""
from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.reports import explain_html

VOID = {"meta", "br", "rect", "path"}


class Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@jf.fuse(name="a <step> & more")
def step(x: Any, w: Any) -> Any:
    h = np.tanh(x @ w)
    return h / h.sum(axis=0), h[::-1]


@pytest.fixture
def page(tmp_path: Path) -> str:
    path = tmp_path / "step.html"
    text = step.explain(np.ones((30, 20)), np.ones((20, 10)), html=path)
    assert text == step.explain(np.ones((30, 20)), np.ones((20, 10)))
    assert [p.name for p in tmp_path.iterdir()] == ["step.html"]
    return path.read_text(encoding="utf-8")


def test_the_page_is_whole(page: str) -> None:
    parser = Balanced()
    parser.feed(page)
    assert not parser.open
    text = "".join(parser.text)
    for word in ("a <step> & more", "What runs together", "As written", "program (as written)", "plan: ", "LLVM IR"):
        assert word in text
    for kernel in step.kernels:
        assert kernel.key in text


def test_nothing_comes_from_elsewhere(page: str) -> None:
    links = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"')\s>]+)""", page)
    assert set(links) <= {"#arrow"}
    assert "<script" not in page and "@import" not in page


def test_a_failed_page_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "step.html"
    path.write_text("old")

    def fail(*_: Any) -> str:
        raise RuntimeError("no page today")

    monkeypatch.setattr(explain_html, "page", fail)
    with pytest.raises(RuntimeError, match="no page today"):
        step.explain(np.ones((30, 20)), np.ones((20, 10)), html=path)
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_the_arena_is_drawn(tmp_path: Path) -> None:
    f = jf.fuse(lambda x: np.tanh(np.sin(x)).sum(axis=0) + np.tanh(np.sin(x)).sum(axis=1))
    x = np.ones((64, 64))
    f.explain(x, html=str(tmp_path / "f.html"))
    (spec,) = f.parts.specs
    assert explain_html.arena_svg(spec.plans[False].runtime).count("<title>") == len(spec.plans[False].runtime.offsets)
    assert "Temporaries in the arena" in (tmp_path / "f.html").read_text()
