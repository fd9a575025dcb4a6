"""Text of WGSL: indented lines and names that do not clash."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Text:
    """Lines under construction."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0
        self._names = 0

    def line(self, text: str) -> None:
        """Append one line."""
        self._lines.append("  " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Append a header and a block in braces."""
        self.line(f"{header} {{" if header else "{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")

    def fresh(self, hint: str) -> str:
        """Return a name that was not used yet."""
        self._names += 1
        return f"{hint}_{self._names}"

    def __str__(self) -> str:
        return "\n".join(self._lines)
