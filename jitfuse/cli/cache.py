"""``jitfuse cache``: list, show, verify, clear, path, stats."""
from __future__ import annotations

import argparse
import dataclasses
import re
from typing import Any

from jitfuse.cache import default_store, expand_text
from jitfuse.cli.output import console, print_json

_SECONDS = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_TEXTS = ("program", "forms", "ir")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``cache`` and what stands behind it."""
    group = commands.add_parser("cache", help="look at the kernels on disk, check or remove them")
    actions = group.add_subparsers(required=True, metavar="action")
    for name, run, text in (
        ("list", _list, "list all entries, most recently used first"),
        ("show", _show, "show one entry: its program, kernel forms and code"),
        ("verify", _verify, "read and check every entry; exit code 1 where one is damaged"),
        ("clear", _clear, "remove entries; programs that run go on"),
        ("path", _path, "print the folder that kernels are written to"),
        ("stats", _stats, "print how much is stored, and the bounds"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("--json", action="store_true", help="print JSON")
        action.set_defaults(run=run)
        if name == "show":
            action.add_argument("key", help="the key or its first digits, as `cache list` prints them")
            action.add_argument("--asm", action="store_true", help="disassemble the machine code, too")
        if name == "clear":
            action.add_argument("--older-than", type=_span, metavar="TIME",
                                help="only what was not used for TIME: 90s, 30min, 12h, 7d, 2w")
            action.add_argument("--function", metavar="NAME", help="only what this function made")


def _span(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min|h|d|w)?", text.strip().lower(), re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s, 30min, 12h, 7d or 2w")
    return float(match[1]) * _SECONDS[match[2] or ""]


def _list(options: argparse.Namespace) -> int:
    from jitfuse.cache import inspect

    entries = inspect.list_entries(default_store())
    if options.json:
        print_json([dataclasses.asdict(info) for info in entries])
        return 0
    from jitfuse.cache import render

    if not entries:
        print(f"no kernels in {_folders()}")
        return 0
    console().print(render.entries_table(entries))
    total = render.format_bytes(sum(info.size for info in entries))
    print(f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'}, {total}, in {_folders()}")
    return 0


def _folders() -> str:
    return ", ".join(default_store().read_folders()) or "memory only (no folder can be used)"


def _show(options: argparse.Namespace) -> int:
    from jitfuse.cache import inspect

    info, entry = inspect.find(default_store(), options.key)
    listing = _disassembly(entry.code) if options.asm else None
    if options.json:
        document: dict[str, Any] = {**entry.metadata, **dataclasses.asdict(info)}
        document.update({name: expand_text(entry.metadata.get(name)) for name in _TEXTS})
        print_json(document if listing is None else {**document, "asm": listing})
        return 0
    from jitfuse.cache import render

    console().print(render.show_entry(info, entry))
    if listing is not None:
        print(f"── asm\n{render.printable(listing)}")
    return 0


def _disassembly(code: bytes) -> str:
    from jitfuse.backends.llvm.jit import disassemble

    return disassemble(code)


def _verify(options: argparse.Namespace) -> int:
    from jitfuse.cache import inspect

    report = inspect.verify(default_store())
    if options.json:
        print_json(dataclasses.asdict(report))
    else:
        from jitfuse.cache import render

        size = render.format_bytes(report.bytes)
        print(f"{report.checked} checked ({size}), {len(report.damaged)} damaged, in {_folders()}")
        for info in report.damaged:
            print(f"  {info.key[:16]} in {info.layer}: {render.printable(info.damaged or '')}")
        if report.damaged:
            print("Damaged entries do no harm: their kernels are compiled again when needed.")
    return 1 if report.damaged else 0


def _clear(options: argparse.Namespace) -> int:
    from jitfuse.cache import inspect

    store = default_store()
    report = inspect.clear(store, options.older_than, options.function)
    if options.json:
        print_json(dataclasses.asdict(report))
        return 0
    from jitfuse.cache import render

    where = store.layers.write or "memory (no folder can be written to)"
    print(f"{report.removed} removed ({render.format_bytes(report.bytes)}) from {where}")
    return 0


def _path(options: argparse.Namespace) -> int:
    layers = default_store().layers
    if options.json:
        print_json({"read": list(layers.read), "write": layers.write})
    elif layers.write is not None:
        print(layers.write)
    else:
        print("no folder can be written to: kernels stay in memory (`jitfuse doctor` says why)")
    return 0 if layers.write is not None else 1


def _stats(options: argparse.Namespace) -> int:
    store = default_store()
    stats = store.stats()
    if options.json:
        print_json({"folder": store.layers.write, **stats._asdict()})
        return 0
    from jitfuse.cache import render

    print(f"folder   {store.layers.write or 'none'}")
    print(f"files    {stats.files:,} of {stats.max_files:,}")
    print(f"size     {render.format_bytes(stats.bytes)} of {render.format_bytes(stats.max_bytes)}")
    return 0
