"""``jitfuse cache``: list, show, diff, verify, stats, clear, path, export, import."""
from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Callable
from typing import Any, Final

from jitfuse.cache import Entry, default_store
from jitfuse.cache import metadata as entry_metadata
from jitfuse.cli import transfer
from jitfuse.cli.output import console, print_json
from jitfuse.cli.recompile import recompiled
from jitfuse.errors import CompileError, JitfuseError

_SECONDS = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_SORTS: Final = ("used", "key", "function", "source", "backend", "target", "size", "age", "hits", "compile")
_PARTS: Final = ("metadata", "program", "forms", "ir", "wgsl", "asm")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``cache`` and its subcommands."""
    group = commands.add_parser("cache", help="inspect, check, carry or remove the kernels on disk")
    actions = group.add_subparsers(required=True, metavar="action")

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("--json", action="store_true", help="print JSON")
        action.set_defaults(run=run)
        return action

    _listing_options(add("list", _list, "list entries, most recently used first"))
    show = add("show", _show, "show one entry: where it comes from, its program, kernel forms and code")
    show.add_argument("key", help="the key or its first digits, as `cache list` prints them")
    show.add_argument("--only", action="append", choices=_PARTS, default=[], help="only this part; may be repeated")
    diff = add("diff", _diff, "say why two entries are not one: which parts of their keys differ")
    diff.add_argument("key", help="the first key, or its first digits")
    diff.add_argument("other", help="the second key, or its first digits")
    verify = add("verify", _verify, "read and check every entry; exit code 1 where one is damaged")
    verify.add_argument("--recompile", action="store_true",
                        help="compile each kernel again too, and compare; takes as long as compiling all of them")
    add("stats", _stats, "print how much is stored and how much it was used, and the bounds")
    clear = add("clear", _clear, "remove entries; programs that run go on")
    clear.add_argument("--older-than", type=_span, metavar="TIME",
                       help="only what was not used for TIME: 90s, 30min, 12h, 7d, 2w")
    clear.add_argument("--function", metavar="NAME", help="only what this function made; * and ? stand for more")
    add("path", _path, "print the folder that kernels are written to")
    export = add("export", transfer.export_entries, "write entries to one file, for another machine of this kind")
    export.add_argument("file", metavar="FILE")
    _filters(export)
    export.add_argument("--force", action="store_true", help="replace FILE even if it is no cache archive")
    take = add("import", transfer.import_entries,
               "take entries from such a file; each is compiled again and compared first, so it need not be trusted")
    take.add_argument("file", metavar="FILE")
    take.add_argument("--unchecked", action="store_true",
                      help="believe the file: its machine code will run in your processes. For other machines' kernels")


def _listing_options(action: argparse.ArgumentParser) -> None:
    _filters(action)
    action.add_argument("--target", metavar="TEXT", help="only where the target has this text, such as znver4")
    action.add_argument("--older-than", type=_span, metavar="TIME", help="only what was not used for TIME, such as 7d")
    action.add_argument("--sort", choices=_SORTS, help="by this column: the largest, or the latest, first")
    action.add_argument("--reverse", action="store_true", help="in reverse order")
    action.add_argument("--limit", type=_count, metavar="N", help="at most N rows")


def _filters(action: argparse.ArgumentParser) -> None:
    action.add_argument("--function", metavar="NAME", help="only what this function made; * and ? stand for more")
    action.add_argument("--backend", choices=("llvm", "wgsl"), help="only kernels of this backend")
    action.add_argument("--source", metavar="TEXT", help="only where file:line has this text")


def _span(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min|h|d|w)?", text.strip().lower(), re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s, 30min, 12h, 7d or 2w")
    return float(match[1]) * _SECONDS[match[2] or ""]


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _list(options: argparse.Namespace) -> int:
    from jitfuse.cache import inspect

    everything = inspect.list_entries(default_store())
    entries = inspect.chosen(
        everything, options.function, options.backend, options.source, options.target, options.older_than
    )
    if options.sort:
        entries.sort(key=inspect.SORTINGS[options.sort])
    if options.reverse:
        entries.reverse()
    shown = entries[: options.limit]
    if options.json:
        print_json([dataclasses.asdict(info) for info in shown])
        return 0
    from jitfuse.cache import render

    if not everything:
        print(f"no kernels in {_folders()}")
        return 0
    terminal = console()
    terminal.print(render.entries_table(shown, width=terminal.width))
    total = render.format_bytes(sum(info.size for info in shown))
    of = f" of {len(everything)}" if len(shown) < len(everything) else ""
    print(f"{len(shown)}{of} {'entry' if len(everything) == 1 else 'entries'}, {total}, in {_folders()}")
    return 0


def _folders() -> str:
    return ", ".join(default_store().read_folders()) or "memory only (no folder can be used)"


def _show(options: argparse.Namespace) -> int:
    from jitfuse.cache import inspect

    info, entry = inspect.find(default_store(), options.key)
    wanted = not options.only or "asm" in options.only
    listing, note = _machine_code(info.backend, entry) if wanted else (None, None)
    if options.json:
        texts, cut = entry_metadata.listings(entry.metadata, (*entry_metadata.LISTINGS, "features"))
        document: dict[str, Any] = {**entry.metadata, **dataclasses.asdict(info), "asm": listing, **texts, "cut": cut}
        print_json({name: document[name] for name in options.only if name in document} if options.only else document)
        return 0
    from jitfuse.cache import render

    console().print(render.show_entry(info, entry, listing, options.only), soft_wrap=True)
    if note:
        print(note)
    return 0


def _machine_code(backend: str, entry: Entry) -> tuple[str | None, str | None]:
    """Return the machine code as text, and a note on it."""
    from jitfuse.backends.llvm import disassembly

    if backend != "llvm":
        return None, None
    try:
        return disassembly.disassemble(entry.code), None
    except CompileError as error:
        refused = str(error)
    from jitfuse.cache.parts import recorded_parts
    from jitfuse.compile import rebuild
    from jitfuse.compile.objects.keys import kernel_parts

    if recorded_parts(entry.metadata) != kernel_parts():
        return None, f"no machine code: {refused}"
    try:
        note = "This is what the kernel forms compile to here; with binutils installed the stored code is shown."
        return rebuild.assembly(entry.canonical), note
    except JitfuseError as error:
        return None, f"no machine code: {error}"


def _diff(options: argparse.Namespace) -> int:
    from jitfuse.cache import inspect, render
    from jitfuse.cache.parts import differences

    pair = [inspect.find(default_store(), key) for key in (options.key, options.other)]
    if options.json:
        found = [difference._asdict() for difference in differences(pair[0][1], pair[1][1])]
        forms = render.form_changes(pair[0][1], pair[1][1])
        print_json({"keys": [info.key for info, _ in pair], "differences": found, "forms": forms})
    else:
        console().print(render.diff_entries(*pair))
    return 0


def _verify(options: argparse.Namespace) -> int:
    from jitfuse.cache import inspect

    report = inspect.verify(default_store())
    again = recompiled(default_store()) if options.recompile else None
    if options.json:
        more = {} if again is None else {"recompiled": again.as_json()}
        print_json({**dataclasses.asdict(report), **more})
    else:
        from jitfuse.cache import render

        size = render.format_bytes(report.bytes)
        print(f"{report.checked} checked ({size}), {len(report.damaged)} damaged, in {_folders()}")
        for info in report.damaged:
            print(f"  {info.key[:16]} in {info.layer}: {entry_metadata.printable(info.damaged or '')}")
        if report.damaged:
            print("Damaged entries do no harm: their kernels are compiled again when needed.")
        if again is not None:
            again.show()
    return 1 if report.damaged or (again is not None and again.different) else 0


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
    from jitfuse.cache import inspect

    store = default_store()
    bounds, used = store.stats(), inspect.usage_totals(store)
    if options.json:
        print_json({"folder": store.layers.write, **bounds._asdict(), **dataclasses.asdict(used)})
        return 0
    from jitfuse.cache import render

    print(f"folder   {store.layers.write or 'none'}")
    for layer in store.layers.read:
        print(f"reads    {layer}")
    print(f"files    {bounds.files:,} of {bounds.max_files:,}")
    print(f"size     {render.format_bytes(bounds.bytes)} of {render.format_bytes(bounds.max_bytes)}")
    backends = sorted(used.backends.items())
    made = ", ".join(f"{count:,} {entry_metadata.printable(name) or 'unknown'}" for name, count in backends)
    print(f"entries  {sum(used.backends.values()):,}{f' ({made})' if made else ''} by {used.functions:,} functions")
    print(f"hits     {used.loads:,}")
    print(f"compile  {used.compile_ms / 1e3:.2f} s spent, {used.saved_ms / 1e3:.2f} s saved by hits")
    return 0
