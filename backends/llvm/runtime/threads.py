"""How many threads this process should use.

Owns: ``JITFUSE_NUM_THREADS``, the scheduler's affinity mask, the CPU quota of control groups. Does not own
the threads (`jitfuse.backends.llvm.runtime.pool`).
"""
from __future__ import annotations

import os

from jitfuse.errors import ArgumentError

VARIABLE = "JITFUSE_NUM_THREADS"
_MOST_DIGITS = 9


def thread_count() -> int:
    """Return ``JITFUSE_NUM_THREADS``, else the processors that this process may use, at least 1.

    That is the size of the affinity mask, or the whole processors in the control group's quota where those
    are fewer. Raises ArgumentError where the variable is not a positive integer.
    """
    asked = asked_threads()
    if asked is not None:
        return asked
    quota = cgroup_quota()
    available = _affinity()
    return available if quota is None else max(1, min(available, int(quota)))


def asked_threads() -> int | None:
    """Return ``JITFUSE_NUM_THREADS``, None where it is not set; ArgumentError where it is not a positive integer."""
    asked = os.environ.get(VARIABLE, "").strip()
    if not asked:
        return None
    # more digits do not fit in 64 bits, and Python refuses to convert very long ones
    number = int(asked) if asked.isascii() and asked.isdigit() and len(asked) <= _MOST_DIGITS else 0
    if number < 1:
        raise ArgumentError(
            f"{VARIABLE} is {asked[:80]!r}; set it to a whole number from 1 up, of {_MOST_DIGITS} digits at most, "
            "such as 4, or unset it"
        )
    return number


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cgroup_quota(proc: str = "/proc/self/cgroup", root: str = "/sys/fs/cgroup") -> float | None:
    """Return the processors' worth of time that this process's control groups grant it; None: no limit.

    The smallest quota from the process's group up to the root counts. Reads version 2
    (``cpu.max``) and version 1 (``cpu.cfs_quota_us``).
    """
    quotas = []
    for line in (_text(proc) or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = os.path.join(root, "cpu") if controllers else root
        names = [name for name in path.split("/") if name]
        for depth in range(len(names), -1, -1):
            group = os.path.join(base, *names[:depth])
            quota = _quota_v1(group) if controllers else _quota_v2(group)
            if quota is not None:
                quotas.append(quota)
    return min(quotas, default=None)


def _quota_v2(group: str) -> float | None:
    words = (_text(f"{group}/cpu.max") or "").split()
    return None if len(words) != 2 or words[0] == "max" else _share(*words)


def _quota_v1(group: str) -> float | None:
    quota = _text(f"{group}/cpu.cfs_quota_us")
    if quota is None or quota.startswith("-"):
        return None
    return _share(quota, _text(f"{group}/cpu.cfs_period_us") or "")


def _share(quota: str, period: str) -> float | None:
    try:
        return int(quota) / int(period) or None
    except (ValueError, ZeroDivisionError):
        return None


def _text(path: str) -> str | None:
    """Return the content of a small system file, None where it cannot be read."""
    try:
        file = os.open(path, os.O_RDONLY)  # takes a tenth of the time of a text file, at every start
    except OSError:
        return None
    try:
        return os.read(file, 1 << 16).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(file)
