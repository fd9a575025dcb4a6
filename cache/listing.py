"""Listings in colours: programs, kernel forms, LLVM IR, WGSL and machine code as text for a terminal.

Owns which part of a listing has which colour. The colours are the terminal's own, so that they are readable on any
background. Texts must be printable (`metadata.printable`) and at most some 10,000 characters long.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

_LEXERS = {"ir": "llvm", "wgsl": "wgsl"}
_RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "program": (
        (r"%\d+", "cyan"),
        (r"\b(?:bool|u?int\d+|b?float\d+|complex\d+)\[[^\]\n]{0,200}\]", "magenta"),
        (r"(?<== )[\w.]+(?=\()", "bold blue"),
        (r"(?m)^ *(?:program|feed|state|return|update|write)\b", "bold"),
        (r"'[^'\n]{0,200}'", "green"),
        (r"\{step[^}\n]{0,200}\}", "dim"),
        (r"(?m)# .*$", "dim"),
    ),
    "forms": (
        (r"\bv\d+\b|#\d+", "cyan"),
        (r"\b(?:bool|u?int\d+|b?float\d+|complex\d+)\b", "magenta"),
        (r"(?<== )(?!reduce)[\w.]+|(?<=reduce )\w+", "bold blue"),
        (r"(?m)^ *(?:kernel over|in(?= )|out|point|map|reduce|scan|contract|then)\b", "bold"),
    ),
    "asm": (
        (r"(?m)^ *[0-9a-f]+:", "dim"),
        (r"(?<=:\t)[\w.]+(?: [\w.]+(?=\t| +[%$*]))?", "bold blue"),
        (r"%[a-z]\w*", "cyan"),
        (r"\$-?\w+|\B-?0x[0-9a-f]+", "magenta"),
        (r"<[^>\n]{0,200}>|(?m:^[0-9a-f]{8,16} (?=<))", "bold green"),
        (r"(?m)[#;] .*$", "dim"),
        (r"R_\w+.*", "yellow"),
    ),
}


def highlighted(text: str, kind: str) -> Text:
    """Return a listing in colours; `kind` is program, forms, ir, wgsl or asm."""
    from rich.text import Text

    if kind in _LEXERS:
        from rich.syntax import Syntax

        drawn = Syntax(text, _LEXERS[kind], theme="ansi_dark", background_color="default").highlight(text)
        drawn.rstrip()
        return drawn
    drawn = Text(text)
    for pattern, style in _RULES.get(kind, ()):
        drawn.highlight_regex(pattern, style)
    return drawn
