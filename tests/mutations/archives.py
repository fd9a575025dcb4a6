"""Archives at ``cache import``, and entries' files at ``cache list``, ``show``, ``diff``, ``verify`` and ``stats``.

Mutates bytes anywhere, with the checksum as it was or made again, and the content of metadata and forms. What is
imported must be what this process makes of the same form, with listings of its own.
"""
from __future__ import annotations

import contextlib
import io
import json
import os
import random
import tempfile
import zlib
from base64 import b64encode
from functools import cache
from pathlib import Path
from typing import Any

from jitfuse.base.digests import digest
from jitfuse.cache import Entry, cache_key
from jitfuse.cache.archive import FORMAT_VERSION, MAGIC
from jitfuse.cache.entry import EntryError, decode, encode
from jitfuse.cache.parts import key_from_parts, recorded_parts
from jitfuse.cli import main
from tests.mutations import forms
from tests.mutations.kinds import Kind
from tests.mutations.samples import entries

_HEADER = MAGIC + FORMAT_VERSION.to_bytes(4, "little")
_ENTRY = 16
"""Where the first entry of an archive begins."""
_BODY = 52
_BOMB = {"zlib": b64encode(zlib.compress(bytes(1 << 28), 9)).decode()}
_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 63, 10**4000, -1e300, float("nan"), float("inf"), 253402300800, "", "x" * 100_000,
    "\x1b]0;owned\x07", "\ud800", "%s{}[bold]", "café\u202e", [], [[]] * 100, [1, "k0"], {}, {"zlib": "!"}, {"zlib": 7},
    _BOMB, "<" * 60_000, "bool[" * 60_000, {"hex": "zz"}, [float("nan")], {"a": {"b": [{}]}},
)


def entry_bytes() -> list[bytes]:
    """Return the bytes of entries of the sample."""
    return [encode(entry) for entry in entries()]


def archive_bytes() -> list[bytes]:
    """Return archives of one entry each, and one of three."""
    single = entry_bytes()
    return [_archive([data]) for data in single] + [_archive(single[:3])]


def _archive(items: list[bytes]) -> bytes:
    return _HEADER + len(items).to_bytes(4, "little") + b"".join(items)


def _cut(archive: bytes) -> list[bytes]:
    """Return the entries of a valid archive."""
    found, at = [], _ENTRY
    while at < len(archive):
        size = int.from_bytes(archive[at + 12 : at + 20], "little")
        found.append(archive[at : at + size])
        at += size
    return found


# ---------------------------------------------------------------- mutations
def mutate_archive(data: bytes, draw: random.Random) -> bytes:
    """Return an archive with one of its entries mutated, or entries moved, or bytes changed anywhere."""
    way = draw.random()
    if way < 0.15:
        return noise(data, draw)
    items = _cut(data)
    at = draw.randrange(len(items))
    if way < 0.2:
        items[at:at] = [items[draw.randrange(len(items))]] * draw.choice((1, 50))
    elif way < 0.25:
        return _HEADER + draw.choice((0, 2, 1 << 31)).to_bytes(4, "little") + b"".join(items)
    else:
        items[at] = mutate_entry(items[at], draw)
    return _archive(items)


def mutate_entry(data: bytes, draw: random.Random) -> bytes:
    """Return an entry with bytes, metadata, form or code changed; its checksum mostly made again, its key often."""
    way = draw.random()
    if way < 0.2:
        return noise(data, draw)
    if way < 0.35:
        return sealed(noise(data[:_BODY] + data[_BODY:], draw))
    entry = decode(data, data[_BODY : _BODY + 32].hex())
    metadata, canonical, code = json.loads(entry.metadata.text), entry.canonical, entry.code  # type: ignore[attr-defined]
    if way < 0.7:
        for _ in range(draw.choice((1, 3))):
            parts = metadata.get("key_parts")
            holder = draw.choice([metadata, metadata, parts if isinstance(parts, dict) else metadata])
            holder[draw.choice([*holder, "claimed", "kind", "more"])] = draw.choice(_VALUES)
    elif way < 0.95:
        members = canonical.split(b"\0")
        at = draw.randrange(len(members))
        members[at] = forms.mutate(members[at], draw)
        canonical = b"\0".join(members * draw.choice((1, 1, 1, 1, 5)))
    else:
        code = noise(code, draw)
    return _written(entry.key, metadata, canonical, code, rename=draw.random() < 0.8)


def _written(key: str, metadata: Any, canonical: bytes, code: bytes, *, rename: bool) -> bytes:
    """Return the bytes of an entry of any metadata, under the key that its content makes where it makes one."""
    text = json.dumps(metadata).encode()
    made = None
    with contextlib.suppress(EntryError, ValueError):
        parts = recorded_parts(json.loads(text))
        made = key_from_parts(Entry(key, json.loads(text), canonical, code)) if parts is not None else None
    key = made if made is not None and rename else key
    sizes = len(text).to_bytes(4, "little") + len(canonical).to_bytes(8, "little") + len(code).to_bytes(8, "little")
    body = bytes.fromhex(key) + sizes + text + canonical + code
    total = _BODY + len(body)
    return b"JITFUSE\0\3\0\0\0" + total.to_bytes(8, "little") + digest(body) + body


def sealed(data: bytes) -> bytes:
    """Return an entry whose length and checksum fit what it holds."""
    return data[:12] + len(data).to_bytes(8, "little") + digest(data[_BODY:]) + data[_BODY:]


def noise(data: bytes, draw: random.Random) -> bytes:
    """Return bytes with some flipped, cut out, put in or written over."""
    result = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8))):
        at = draw.randrange(len(result) + 1)
        way = draw.randrange(5)
        if way == 0 and at < len(result):
            result[at] ^= 1 << draw.randrange(8)
        elif way == 1:
            del result[at : at + draw.choice((1, 4, 1000))]
        elif way == 2:
            result[at:at] = draw.randbytes(draw.choice((1, 8, 500)))
        elif way == 3:
            result[at : at + 8] = draw.choice((b"\xff" * 8, bytes(8), b"\0\0\0\x10" + bytes(4)))
        else:
            del result[at:]
    return bytes(result)


# ---------------------------------------------------------------- judges
def judge_archive(valid: bytes, mutated: bytes) -> str | None:
    """Import an archive into an empty folder; whatever arrives there must be what this process makes.

    Then into another one unchecked, and look at what that took in every way.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "archive")
        file.write_bytes(mutated)
        file.chmod(0o600)
        for options in ((), ("--unchecked",)):
            code, out = _run(f"{folder}/cache{len(options)}", "import", str(file), "--json", *options)
            if code not in (0, 1) or (mutated == valid and code):
                return f"exit code {code}: {out}"
        return _foreign(Path(folder, "cache0")) or _looked_at(f"{folder}/cache1")


def _foreign(folder: Path) -> str | None:
    """Return what of a folder's entries is not as this process makes it."""
    for path in folder.glob("*.jfc"):
        found = decode(path.read_bytes(), path.stem)
        if found.metadata.get("kind") is not None:
            continue
        mine = _ours().get(found.key)
        if mine is None:  # of a mutated form that is valid, and of no other code
            continue
        if (mine.canonical, mine.code) != (found.canonical, found.code):
            return f"{path.stem} is not as it is made here"
        for name in ("ir", "forms", "target", "features", "backend", "kernels", "key_parts", "versions"):
            if found.metadata.get(name) != mine.metadata.get(name):
                return f"{name} of {path.stem} is the archive's"
    return None


@cache
def _ours() -> dict[str, Entry]:
    return {entry.key: entry for entry in entries()}


def judge_entry(valid: bytes, mutated: bytes) -> str | None:
    """Put an entry beside another one into a folder, under its own name, and look at it in every way."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        key = mutated[_BODY : _BODY + 32].hex()
        for name, data in ((key, mutated), (cache_key({"other": 1}), valid)):
            if len(name) == 64:
                Path(folder, f"{name}.jfc").write_bytes(data)
                Path(folder, f"{name}.jfc").chmod(0o600)
        return _looked_at(folder)


def _looked_at(folder: str) -> str | None:
    """Run every command that looks at a folder; return what is wrong, None where nothing is."""
    keys = sorted(path.stem for path in Path(folder).glob("*.jfc"))[:2]
    commands = [["list"], ["list", "--json"], ["verify"], ["stats"]]
    for key in keys:
        commands += [["show", key], ["show", key, "--json"], ["diff", key, keys[0]]]
    for command in commands:
        code, out = _run(folder, *command)
        if code not in (0, 1):
            return f"{command}: exit code {code}: {out}"
        if "\x1b" in out or "\x07" in out:
            return f"{command} prints what a terminal obeys"
        if code == 0 and "--json" in command:
            json.loads(out, parse_constant=_refuse)
    return None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _run(folder: str, *command: str) -> tuple[int, str]:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict", write_through=True)
    os.environ["JITFUSE_CACHE_DIR"], before = folder, os.environ["JITFUSE_CACHE_DIR"]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = main(["cache", *command])
    finally:
        os.environ["JITFUSE_CACHE_DIR"] = before
    return code, out.buffer.getvalue().decode("ascii")  # type: ignore[attr-defined]


ARCHIVES = Kind(archive_bytes, mutate_archive, judge_archive)
ENTRIES = Kind(entry_bytes, mutate_entry, judge_entry)
