"""``jitfuse devices``: where kernels can run."""
from __future__ import annotations

import argparse
from typing import Any

from jitfuse.cli.output import print_json


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``devices``."""
    command = commands.add_parser("devices", help="list the devices that kernels can run on")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_run)


def cpu() -> dict[str, Any]:
    """Return what kernels are built for on this machine's CPU; `vector_bits` is the width they use."""
    from jitfuse.backends.llvm.jit import host_target
    from jitfuse.backends.llvm.runtime.threads import thread_count

    target = host_target()
    return {
        "device": "cpu", "name": target.cpu, "triple": target.triple, "vector_bits": 8 * target.vector_bytes,
        "fma": target.has_fma, "threads": thread_count(),
    }


def _run(options: argparse.Namespace) -> int:
    device = cpu()
    if options.json:
        print_json([device])
        return 0
    print(f"cpu  {device['name']}, {device['triple']}, {device['vector_bits']}-bit vectors, "
          f"threads: {device['threads']}")
    print("This version runs kernels on the CPU only.")
    return 0
