"""Write the pages that are made from tables: docs/operators.md, numpy.md, torch.md and accuracy.md.

    python tests/surface/make_pages.py

Rows of docs/accuracy.md are kept where they are there; those of new operators are measured, which takes seconds each
and mpmath. A page whose library is not installed is left as it is, and said so.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

for _folder in (Path(__file__).resolve().parents[1], Path(__file__).resolve().parents[1] / "helpers"):
    sys.path.insert(0, str(_folder))  # for `exact_functions` and `semiring_tables`

DOCS = Path(__file__).resolve().parents[2] / "docs"


def _operators() -> str:
    from surface.operators_page import support_page

    return support_page()


def _numpy() -> str:
    from surface.numpy_page import page

    return page()


def _torch() -> str:
    from surface.torch_page import page

    return page()


def _accuracy() -> str:
    from exact_functions import accuracy_tool

    tool = accuracy_tool()
    made: str = tool.page(known=tool.rows((DOCS / "accuracy.md").read_text(encoding="utf-8")))
    return made


PAGES: dict[str, Callable[[], str]] = {
    "operators.md": _operators, "numpy.md": _numpy, "torch.md": _torch, "accuracy.md": _accuracy,
}


def written() -> Iterator[str]:
    """Write every page; yield a line about each."""
    for name, made in PAGES.items():
        try:
            text = made()
        except ModuleNotFoundError as error:
            yield f"docs/{name}: left as it is, {error.name} is not installed"
            continue
        path = DOCS / name
        changed = text != path.read_text(encoding="utf-8")
        path.write_text(text, encoding="utf-8")
        yield f"docs/{name}: {'written anew' if changed else 'is current'}"


if __name__ == "__main__":
    for line in written():
        print(line)
