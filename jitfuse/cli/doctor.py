"""``jitfuse doctor``: what jitfuse finds on this machine, and whether it works here.

Reports versions, the CPU, threads, the cache's folders and the variables that are set; then compiles one
function, runs it and compares the result with NumPy's.
"""
from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any, Final

from jitfuse.cli.output import console, print_json
from jitfuse.errors import JitfuseError
from jitfuse.version import __version__

_LIBRARIES: Final = ("numpy", "llvmlite", "optree", "cloudpickle", "platformdirs", "rich")
_OPTIONAL: Final = ("torch", "scipy", "wgpu")
_STYLES: Final = {"ok": "green", "note": "yellow", "problem": "bold red"}


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the report; `state` is ``"ok"``, ``"note"`` (works, but check it) or ``"problem"``."""

    topic: str
    state: str
    text: str


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``doctor``."""
    command = commands.add_parser(
        "doctor", help="check this installation, and compile and run one function",
        description="Checks this installation. Exit code 1 where something does not work.",
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    findings = examine()
    if options.json:
        print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        _draw(findings)
    return 1 if any(finding.state == "problem" for finding in findings) else 0


def _draw(findings: Iterable[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        table.add_row(Text(finding.topic), Text(finding.state, style=_STYLES[finding.state]),
                      Text(finding.text))
    console().print(table)


def examine() -> list[Finding]:
    """Return all findings; a check that raises is a finding, too."""
    findings: list[Finding] = []
    checks: tuple[tuple[str, Callable[[], list[Finding]]], ...] = (
        ("versions", _versions), ("cpu", _cpu), ("threads", _threads), ("cache", _cache),
        ("environment", _environment), ("kernel", _kernel),
    )
    for topic, check in checks:
        try:
            findings += check()
        except Exception as error:
            findings.append(Finding(topic, "problem", f"{type(error).__name__}: {error}"))
    return findings


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _versions() -> list[Finding]:
    python = f"{platform.python_implementation()} {platform.python_version()}, {platform.platform()}"
    found = [Finding("jitfuse", "ok", f"{__version__} on {python}")]
    versions = {name: _version(name) for name in (*_LIBRARIES, *_OPTIONAL)}
    present = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    found.append(Finding("libraries", "ok", present))
    missing = [name for name in _LIBRARIES if versions[name] is None]
    if missing:
        text = f"not installed: {', '.join(missing)}; run pip install {' '.join(missing)}"
        found.append(Finding("libraries", "problem", text))
    return found


def _cpu() -> list[Finding]:
    from jitfuse.backends.llvm.jit import host_target

    target = host_target()
    text = f"{target.cpu} ({target.triple}), {8 * target.vector_bytes}-bit vectors"
    found = [Finding("cpu", "ok", f"{text}, {'with' if target.has_fma else 'without'} fused multiply-add")]
    if not sys.platform.startswith("linux") or not target.triple.startswith("x86_64"):
        found.append(Finding("platform", "note", "jitfuse is tested on Linux x86-64 only"))
    return found


def _threads() -> list[Finding]:
    from jitfuse.backends.llvm.runtime.threads import VARIABLE, cgroup_quota, thread_count

    quota = cgroup_quota()
    reasons = [f"{os.cpu_count()} processors"]
    if hasattr(os, "sched_getaffinity"):
        reasons.append(f"{len(os.sched_getaffinity(0))} of them allowed to this process")
    if quota is not None:
        reasons.append(f"control group quota {quota:g}")
    if os.environ.get(VARIABLE):
        reasons.append(f"{VARIABLE}={os.environ[VARIABLE]}")
    return [Finding("threads", "ok", f"{thread_count()} ({', '.join(reasons)})")]


def _cache() -> list[Finding]:
    from jitfuse.cache import location, notices
    from jitfuse.cache.render import format_bytes

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        notices.forget()
        layers = location.resolve_layers()
    found = [Finding("cache", "note", str(warning.message)) for warning in caught]
    if location.trusts_everyone():
        text = "JITFUSE_CACHE_TRUST=everyone: whoever can write to its folders, or above them, can run code as you"
        found.append(Finding("cache", "note", text))
    found += [Finding("cache", "ok", f"reads {folder}") for folder in layers.read]
    if layers.write is None:
        return [*found, Finding("cache", "note", "no folder to write to: each process compiles anew")]
    from jitfuse.cache import default_store

    stats = default_store().stats()
    size = f"{stats.files:,} files, {format_bytes(stats.bytes)} of {format_bytes(stats.max_bytes)}"
    return [*found, Finding("cache", "ok", f"{layers.write}, {size}")]


def _environment() -> list[Finding]:
    ours = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("JITFUSE_")]
    found = [Finding("variables", "ok", " ".join(ours) or "none of JITFUSE_* is set")]
    if os.environ.get("JITFUSE_DISABLE"):
        found.append(Finding("variables", "note", "JITFUSE_DISABLE is set: functions run as plain Python"))
    if "OPENBLAS_CORETYPE" in os.environ:
        text = f"OPENBLAS_CORETYPE={os.environ['OPENBLAS_CORETYPE']} can halve the speed of matrix products"
        found.append(Finding("variables", "note", text))
    return found


def _kernel() -> list[Finding]:
    import numpy as np

    import jitfuse as jf

    if os.environ.get("JITFUSE_DISABLE"):
        return [Finding("kernel", "note", "not checked: JITFUSE_DISABLE is set")]

    def doctor(x: Any, b: Any) -> Any:
        return np.sin(x) * x + b

    fused = jf.fuse(doctor)
    x = np.linspace(-10, 10, 100_003, dtype=np.float32)
    start = time.perf_counter()
    result = fused(x, 1.0)
    first = 1e3 * (time.perf_counter() - start)
    sine = np.sin(x.astype(np.float64)).astype(np.float32)
    # only the sine may differ, by one ulp; product and sum are NumPy's
    bound = np.spacing(np.abs(sine)) * np.abs(x) + np.spacing(np.abs(sine * x) + np.float32(1))
    if result.dtype != np.float32 or not bool(np.all(np.abs(result - (sine * x + np.float32(1))) <= bound)):
        raise JitfuseError("sin(x) * x + b differs from NumPy's result by more than one ulp of the sine")
    stats = fused.stats()
    if stats["fallbacks"]:
        return [Finding("kernel", "problem", "sin(x) * x + b is right, but no native kernel was built")]
    how = ", ".join(
        f"{'loaded from the cache' if kernel.from_cache else 'compiled'} ({kernel.compile_ms:.1f} ms to build)"
        for kernel in fused.kernels
    )
    return [Finding("kernel", "ok", f"sin(x) * x + b agrees with NumPy; {how}; first call {first:.1f} ms")]
