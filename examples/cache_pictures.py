"""Draw what `jitfuse cache` prints: writes cache_list.svg and cache_show.svg into demo-output, or the folder named.

Runs three functions twice, in processes of their own with a new cache, then the commands, in a terminal.
"""
from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURES = Path("demo-output")
COLUMNS = 116
MODEL = """
import numpy as np
import jitfuse as jf

@jf.fuse
def brighten(image, gain):
    return np.clip(image * gain, 0, 255)

@jf.fuse
def standardise(x):
    return (x - np.mean(x, axis=1, keepdims=True)) / np.std(x, axis=1, keepdims=True)

@jf.fuse
def attention(q, k, v):
    return jf.softmax(q @ k.T / np.sqrt(q.shape[1])) @ v

x = np.ones((64, 32))
brighten(x, 2.0), brighten(x.astype("float32"), 2.0), standardise(x), attention(x, x, x)
"""
PAGE = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


class Terminal:
    """Runs commands in a folder, as somebody at a terminal of `COLUMNS` columns sees them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        package = str(Path(__file__).resolve().parents[1])
        search = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        self._environment = {
            **os.environ, "JITFUSE_CACHE_DIR": str(folder / "kernels"), "JITFUSE_CACHE_PATH": "", "PYTHONPATH": search,
            "COLUMNS": str(COLUMNS), "LINES": "50", "TERM": "xterm-256color",
        }

    def run(self, *arguments: str) -> str:
        """Return what python prints into a terminal, colours included."""
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [sys.executable, *arguments], cwd=self._folder, env=self._environment, stdout=theirs, stderr=theirs
        ) as process:
            os.close(theirs)
            printed = b""
            while True:
                try:
                    block = os.read(ours, 65_536)
                except OSError:  # Linux says so at the end
                    break
                if not block:
                    break
                printed += block
        os.close(ours)
        if process.returncode:
            raise SystemExit(printed.decode())
        return printed.decode().replace("\r\n", "\n")


def draw(parts: list[tuple[str, str]], path: Path) -> None:
    """Write commands and what they printed as one picture."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    for command, printed in parts:
        console.print(Text(f"$ {command}", style="bold green"))
        console.print(Text.from_ansi(printed.rstrip("\n")), soft_wrap=True)
        console.print()
    picture = console.export_svg(title="jitfuse cache", code_format=PAGE, unique_id=path.stem.replace("_", "-"))
    path.write_text("\n".join(line.rstrip() for line in picture.splitlines()) + "\n", encoding="utf-8")
    console.file.close()


def first_lines(text: str, lines: int) -> str:
    """Return the beginning of a long output, with a mark that there is more."""
    kept = text.splitlines()
    return "\n".join([*kept[:lines], "..."] if len(kept) > lines else kept)


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "model.py").write_text(MODEL.lstrip())
        terminal = Terminal(folder)
        for _ in range(2):
            terminal.run("model.py")
        cache = ("-m", "jitfuse", "cache")
        listed = terminal.run(*cache, "list").replace(str(folder), "~")
        entries = json.loads(terminal.run(*cache, "list", "--json", "--function", "brighten"))
        first, second = (entry["key"][:12] for entry in entries[:2])
        diff = terminal.run(*cache, "diff", first, second)
        show = {part: terminal.run(*cache, "show", first, "--only", part) for part in ("program", "forms", "asm")}
    program = show["program"].replace(f"{folder}{os.sep}", "")
    draw([("jitfuse cache list", listed), (f"jitfuse cache diff {first} {second}", diff)], target / "cache_list.svg")
    shown = program + show["forms"] + first_lines(show["asm"], 40)
    draw([(f"jitfuse cache show {first} --only program --only forms --only asm", shown)], target / "cache_show.svg")
    print(f"cache_list.svg, cache_show.svg: {len(entries)} kernels of brighten")


if __name__ == "__main__":
    main()
