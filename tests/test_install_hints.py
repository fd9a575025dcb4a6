"""What messages and pages tell people to install can be installed: jitfuse itself is on no package index yet."""
from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("jitfuse", "tracing", "backends", "cache")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted(path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py"))


def hints(path: Path) -> Iterator[str]:
    """Yield what a file says after `pip install`, up to the end of the command."""
    for found in re.finditer(r"pip install ([^`\n&);]*)", path.read_text(encoding="utf-8")):
        yield found[1].strip()


def extras() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["optional-dependencies"])


def test_there_are_hints_to_check() -> None:
    assert sum(1 for path in SOURCES for _ in hints(path)) >= 5
    assert sum(1 for path in PAGES for _ in hints(path)) >= 3


HINTING = [path for path in (*SOURCES, *PAGES) if any(hints(path))]


@pytest.mark.parametrize("path", HINTING, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_hint_names_jitfuse_on_a_package_index(path: Path) -> None:
    for hint in hints(path):
        assert not re.match(r"""["']?jitfuse\b""", hint), f"{path.name}: pip install {hint}"
        extra = re.match(r'"\.\[(\w+)\]"', hint)
        assert extra is None or extra[1] in extras(), f"{path.name}: there is no extra {extra[1]}"
