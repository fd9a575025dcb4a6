"""Adapters and the device: chosen on first use, with the facts about them that code depends on.

Owns: the choice, limits, features, running the start-up probe. Does not own buffers (`buffers`) or pipelines
(`pipelines`). wgpu is imported here, on first use; DeviceError tells what is missing.
"""
from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any, Final

from jitfuse.backends.wgsl.codegen.types import Facts
from jitfuse.base.lazy import cached_property
from jitfuse.base.records import NamedTuple
from jitfuse.errors import DeviceError

FEATURES: Final = ("shader-f64", "shader-int64")
"""Features that kernels use where the adapter has them."""
_LIMITS: Final = (
    "max-storage-buffers-per-shader-stage", "max-storage-buffer-binding-size", "max-buffer-size",
    "max-compute-workgroup-storage-size", "max-compute-invocations-per-workgroup", "max-compute-workgroup-size-x",
)
_SPARE_BUFFERS: Final = 1
"""Storage buffers of a stage that wgpu may use itself."""


class AdapterInfo(NamedTuple):
    """The description of an adapter for users."""

    name: str
    kind: str
    backend: str
    driver: str
    features: tuple[str, ...]


def _wgpu() -> Any:
    try:
        import wgpu
    except ImportError as error:
        raise DeviceError("running on a GPU needs the package wgpu: pip install wgpu") from error
    return wgpu


def _describe(adapter: Any) -> AdapterInfo:
    info = adapter.info
    has = tuple(f for f in (*FEATURES, "shader-f16", "subgroup") if f in adapter.features)
    return AdapterInfo(
        str(info["device"]), str(info["adapter_type"]), str(info["backend_type"]), str(info["description"]), has
    )


def adapters() -> tuple[AdapterInfo, ...]:
    """Return every adapter that wgpu finds; raises DeviceError where wgpu is missing."""
    return tuple(_describe(a) for a in _wgpu().gpu.enumerate_adapters_sync())


class Device:
    """One opened device, its queue, limits and facts."""

    def __init__(self, features: tuple[str, ...] | None = None) -> None:
        """Open the best adapter with those of `features` (all that kernels can use, unless given) that it has."""
        wgpu = _wgpu()
        try:
            adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
        except Exception as error:
            raise DeviceError(f"no GPU adapter was found: {error}") from error
        if adapter is None:
            raise DeviceError("no GPU adapter was found; on Linux, mesa-vulkan-drivers has one in software")
        self.info = _describe(adapter)
        wanted = FEATURES if features is None else features
        self.features = frozenset(f for f in wanted if f in adapter.features)
        self.limits: Mapping[str, int] = {name: adapter.limits[name] for name in _LIMITS}
        try:
            self.handle: Any = adapter.request_device_sync(
                required_features=sorted(self.features), required_limits=dict(self.limits)
            )
        except Exception as error:
            raise DeviceError(f"the adapter {self.info.name} cannot be opened: {error}") from error
        self.queue: Any = self.handle.queue
        self.alignment = int(adapter.limits["min-uniform-buffer-offset-alignment"])
        self.lock = threading.RLock()
        self._process = os.getpid()

    @property
    def name(self) -> str:
        """The adapter's name."""
        return self.info.name

    @property
    def storage_buffers(self) -> int:
        """How many storage buffers a kernel may bind."""
        return self.limits["max-storage-buffers-per-shader-stage"] - _SPARE_BUFFERS

    @property
    def binding_bytes(self) -> int:
        """The most bytes of one buffer."""
        return min(self.limits["max-storage-buffer-binding-size"], self.limits["max-buffer-size"])

    @cached_property
    def facts(self) -> Facts:
        """The facts that code depends on; a small kernel probes how the driver treats float arithmetic."""
        from jitfuse.backends.wgsl.runtime.probe import rewrites

        return Facts(self.features, rewrites(self))

    def identity(self) -> tuple[str, ...]:
        """Return the strings that must be equal for a shader's text to be reused."""
        import wgpu

        kept = "rewrites" if self.facts.rewrites else "keeps"
        return (f"wgpu {wgpu.__version__}", *self.info[:4], *sorted(self.features), kept)

    def check_process(self) -> None:
        """Raise DeviceError in a child of the process that opened the device."""
        if os.getpid() != self._process:
            raise DeviceError(f"the GPU {self.name} was opened before this process forked: open it in the child only")


_default: Device | None = None
_default_lock = threading.Lock()


def default_device() -> Device:
    """Return the process's device, opened on first use; raises DeviceError where there is none."""
    global _default
    with _default_lock:
        if _default is None:
            _default = Device()
        _default.check_process()
        return _default
