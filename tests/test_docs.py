"""The README's two commands, and that links and file names in the documentation lead somewhere."""
from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = ['pip install ".[demo]" && python -m jitfuse demo', 'pip install ".[test]" && python -m pytest -n auto']


def test_the_readme_has_exactly_two_commands_each_in_a_block_of_its_own() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"```sh\n(.*?)```", text, re.DOTALL) == [command + "\n" for command in COMMANDS]
    assert "demo" not in text[: text.index(COMMANDS[0])].lower()


def test_the_first_block_of_the_readme_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (code, *_) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    namespace: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), namespace)
    assert namespace["f"].stats()["launches"] == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = [t for t in re.findall(r"\]\(([^)#]+)", text) if "://" not in t]
    assert [t for t in targets if not (page.parent / t).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_source_files_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:jitfuse|tracing|backends|cache|tests|docs|benchmarks)/[\w./]+\.(?:py|md))`", text)
    assert [n for n in named if not (ROOT / n).exists()] == []
