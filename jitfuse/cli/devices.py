"""``jitfuse devices``: where kernels can run."""
from __future__ import annotations

import argparse
from typing import Any

from jitfuse.cli.output import print_json
from jitfuse.errors import DeviceError


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``devices``."""
    command = commands.add_parser("devices", help="list the devices that kernels can run on")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_run)


def cpu() -> dict[str, Any]:
    """Return the CPU features that kernels are built for; `vector_bits` is the vector width they use."""
    from jitfuse.backends.llvm.jit import host_target
    from jitfuse.backends.llvm.runtime.threads import thread_count

    target = host_target()
    return {
        "device": "cpu", "name": target.cpu, "triple": target.triple, "vector_bits": 8 * target.vector_bytes,
        "fma": target.has_fma, "threads": thread_count(),
    }


def gpus() -> list[dict[str, Any]]:
    """Return every adapter that wgpu finds, none if wgpu is missing; the first one is used."""
    from jitfuse.backends.wgsl.runtime.device import adapters, default_device

    try:
        found = list(adapters())
        if found:
            used = default_device().info
            found.sort(key=lambda info: info != used)
    except DeviceError:
        return []
    return [
        {"device": "gpu", "name": a.name, "kind": a.kind, "backend": a.backend, "driver": a.driver,
         "features": list(a.features)}
        for a in found
    ]


def _run(options: argparse.Namespace) -> int:
    device, adapters = cpu(), gpus()
    if options.json:
        print_json([device, *adapters])
        return 0
    print(f"cpu  {device['name']}, {device['triple']}, {device['vector_bits']}-bit vectors, "
          f"threads: {device['threads']}")
    for a in adapters:
        has = f", has {', '.join(a['features'])}" if a["features"] else ""
        print(f"gpu  {a['name']}, {a['backend']}, {a['driver']}{has}")
    if not adapters:
        print("no gpu: it takes wgpu (pip install wgpu) and a driver; mesa-vulkan-drivers has one in software")
    return 0
