"""Every public callable of torch in a fused function, each in a process of its own: none may end by a signal.

    python tests/surface/torch_signals.py [--every 80]

Prints the callables whose process was lost, and how many were tried. It needs an operating system that can fork.
"""
from __future__ import annotations

import argparse
import inspect
import itertools
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

import jitfuse as jf

SKIPPED: Final = frozenset({"compile", "fork", "wait", "init_num_threads", "_dynamo", "import_ir_module"})
"""Callables that start processes or compilers."""
LIMIT: Final = 200
"""Seconds after which a call is given up."""


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield (name, callable) of torch's functions and of tensors' methods."""
    holders = {"torch": torch, "linalg": torch.linalg, "special": torch.special, "fft": torch.fft,
               "F": torch.nn.functional, "Tensor": torch.Tensor}
    for prefix, holder in holders.items():
        for name in sorted(dir(holder)):
            found = getattr(holder, name, None)
            if not name.startswith("_") and name not in SKIPPED and callable(found) and not inspect.isclass(found):
                yield f"{prefix}.{name}", found


def tried(function: Callable[..., Any]) -> None:
    """Call a function fused, with several kinds of arguments; errors do not count."""
    x, n = torch.rand(3, 3), torch.arange(3)
    for args in ((x,), (x, x), (x, 1), (x, 0, n), (x, x, x), (n, n), (x, 2.0), (n[0], n[1])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                jf.fuse(lambda *given: function(*given))(*args)
            except Exception:  # only a lost process counts
                continue


def main() -> None:
    """Try all, or each so many-th."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1)
    every = parser.parse_args().every
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    jf.fuse(lambda x: torch.relu(x) + 1)(torch.rand(3))  # imports all before the forks
    count, lost = 0, []
    for name, function in itertools.islice(public(), 0, None, every):
        child = os.fork()
        if not child:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(LIMIT)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            try:
                tried(function)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        count += 1
        if os.WIFSIGNALED(status):
            lost.append(f"{name}: signal {os.WTERMSIG(status)}")
            print(lost[-1], flush=True)
    print(f"{count} callables, {len(lost)} processes lost")
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
