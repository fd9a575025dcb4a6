"""The command line: arguments, exit codes, and error messages.

Owns the parser and `main`. Each command is a function of one module here and imports what it needs when it
runs, so that ``jitfuse cache path`` starts neither LLVM nor rich.

Exit codes: 0 done; 1 it ran and found something wrong (the message says what); 2 the arguments were invalid.
"""
from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from jitfuse.cli import cache, devices, doctor
from jitfuse.cli.output import every_character
from jitfuse.errors import JitfuseError
from jitfuse.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `arguments` default to the process's own."""
    with every_character():
        return _run(parser().parse_args(arguments))


def _run(options: argparse.Namespace) -> int:
    try:
        code: int | None = options.run(options)
        sys.stdout.flush()
        return code or 0
    except JitfuseError as error:
        print(f"jitfuse: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `jitfuse cache list | head`: the reader has left, which is no failure of ours
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("jitfuse: interrupted", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(
        "jitfuse", description="Fused native kernels for array code: see them work, inspect the cache and the machine.",
        epilog="example:\n  jitfuse doctor              whether this machine compiles kernels\n"
        "  jitfuse cache list          the kernels on disk\n\n`jitfuse COMMAND --help` says more of a command. "
        "`python -m jitfuse` is the same as `jitfuse`.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"jitfuse {__version__}")
    commands = top.add_subparsers(title="commands", metavar="command")
    top.set_defaults(run=lambda options: print(top.format_help(), end=""))
    _add_demo(commands)
    cache.add_commands(commands)
    doctor.add_command(commands)
    devices.add_command(commands)
    return top


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser(
        "demo", help="run an image pipeline on 4K frames, with NumPy and fused, and compare",
        description="Runs an image pipeline on 4K frames made from two photographs, as NumPy and fused; "
        "checks one against the other and saves a picture of input and result.",
    )
    demo.add_argument("--frames", type=_count, metavar="N",
                      help="frames in the batch (default: 8, or fewer where memory is short)")
    demo.add_argument("--runs", type=_count, default=5, metavar="N", help="timed runs of each (default: 5)")
    demo.add_argument("--out", default="demo-output", metavar="DIR",
                      help="folder for the picture (default: demo-output)")
    demo.add_argument("--verbose", action="store_true", help="also print what was fused and why")
    demo.set_defaults(run=_demo)


def _demo(options: argparse.Namespace) -> int:
    from jitfuse.cli.demo import run

    return run(frames=options.frames, runs=options.runs, folder=options.out, verbose=options.verbose)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)
