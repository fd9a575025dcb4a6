"""How many threads this process should use.

Owns: ``JITFUSE_NUM_THREADS``, the scheduler's affinity mask, the CPU quota of control groups. Does not own
the threads (`jitfuse.backends.llvm.runtime.pool`).
"""
from __future__ import annotations

import os
from pathlib import Path

from jitfuse.errors import ArgumentError

VARIABLE = "JITFUSE_NUM_THREADS"


def thread_count() -> int:
    """Return ``JITFUSE_NUM_THREADS``, else the processors that this process may use, at least 1.

    That is the size of the affinity mask, or the whole processors in the control group's quota where those
    are fewer. Raises ArgumentError where the variable is not a positive integer.
    """
    asked = os.environ.get(VARIABLE, "").strip()
    if asked:
        if not asked.isascii() or not asked.isdigit() or int(asked) < 1:
            raise ArgumentError(f"{VARIABLE} is {asked!r}; set it to a whole number from 1 up, or unset it")
        return int(asked)
    quota = cgroup_quota()
    available = _affinity()
    return available if quota is None else max(1, min(available, int(quota)))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cgroup_quota(proc: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Return the processors' worth of time that this process's control groups grant it; None: no limit.

    The smallest quota on the way from the process's group up to the root counts. Reads version 2
    (``cpu.max``) and version 1 (``cpu.cfs_quota_us``).
    """
    try:
        lines = proc.read_text().splitlines()
    except OSError:
        return None
    quotas = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / "cpu" if controllers else root
        inside = Path(path.lstrip("/"))
        for group in (inside, *inside.parents):
            quota = _quota_v1(base / group) if controllers else _quota_v2(base / group)
            if quota is not None:
                quotas.append(quota)
    return min(quotas, default=None)


def _quota_v2(group: Path) -> float | None:
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _quota_v1(group: Path) -> float | None:
    try:
        quota = int((group / "cpu.cfs_quota_us").read_text())
        return None if quota <= 0 else quota / int((group / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError, ZeroDivisionError):
        return None
