"""GPU memory: buffers by usage and length class, which return to a pool when their last owner is gone.

Commands run in the order of submission, so that a buffer may be reused while earlier work on it is still running.
Owns: the pool, uploads and downloads. Does not own the content of a buffer.
"""
from __future__ import annotations

import math
import threading
import weakref
from collections import deque
from typing import Any, Final

import numpy as np

from jitfuse.backends.wgsl.runtime import transfers
from jitfuse.backends.wgsl.runtime.device import Device
from jitfuse.errors import DeviceError

STORAGE: Final = "storage"
UNIFORM: Final = "uniform"
STAGING: Final = "staging"

_SMALLEST: Final = 256
_STEPS: Final = 4
_KEPT: Final = 8
"""The most free buffers of one class that are cached."""
_KEPT_BYTES: Final = 1 << 28
"""Bytes of free buffers beyond which all are released, so that sizes no longer in use do not stay for ever."""


def length_class(size: int) -> int:
    """Return the length of the buffer for so many bytes: a quarter step between powers of two, at least 256."""
    if size <= _SMALLEST:
        return _SMALLEST
    step = 1 << max((size - 1).bit_length() - 1 - int(math.log2(_STEPS)), 2)
    return -(-size // step) * step


class Block:
    """A buffer in use, which returns to its pool with its last reference."""

    __slots__ = ("__weakref__", "handle", "pool", "size", "usage")

    def __init__(self, pool: Pool, usage: str, handle: Any) -> None:
        self.pool = pool
        self.usage = usage
        self.handle = handle
        self.size = int(handle.size)

    def __del__(self) -> None:
        self.pool.take_back(self.usage, self.handle)


class Pool:
    """The buffers of one device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._free: dict[tuple[str, int], deque[Any]] = {}
        # the collector may finalise a buffer before the block in the same cycle, so buffers in use are held here too
        self._lent: dict[int, Any] = {}
        self._free_bytes = 0
        self._lock = threading.RLock()
        self.made = 0

    def get(self, size: int, usage: str = STORAGE) -> Block:
        """Return a buffer of at least so many bytes; raises DeviceError where the adapter has no buffer as large."""
        length = length_class(size)
        if usage == STORAGE and size > self.device.binding_bytes:
            raise DeviceError(
                f"an array of {size} bytes: the adapter {self.device.name} binds at most {self.device.binding_bytes}"
            )
        if usage == STORAGE:
            length = min(length, self.device.binding_bytes & ~3)
        with self._lock:
            free = self._free.get((usage, length))
            handle = free.pop() if free else None
            self._free_bytes -= length if handle is not None else 0
        if handle is None:
            handle = self._make(length, usage)
        self._lent[id(handle)] = handle
        return Block(self, usage, handle)

    def _make(self, length: int, usage: str) -> Any:
        from wgpu import BufferUsage

        flags = {
            STORAGE: BufferUsage.STORAGE | BufferUsage.COPY_SRC | BufferUsage.COPY_DST,
            UNIFORM: BufferUsage.UNIFORM | BufferUsage.COPY_DST,
            STAGING: BufferUsage.MAP_READ | BufferUsage.COPY_DST,
        }[usage]
        self.made += 1
        try:
            return self.device.handle.create_buffer(size=length, usage=flags)
        except Exception as error:
            raise DeviceError(f"the adapter {self.device.name} has no {length} bytes left: {error}") from error

    def take_back(self, usage: str, handle: Any) -> None:
        """Cache a buffer for reuse; runs in any thread that drops the last reference."""
        self._lent.pop(id(handle), None)
        size = int(handle.size)
        with self._lock:  # reentrant: the collector may call this while the lock is held
            if self._free_bytes + size > _KEPT_BYTES:
                self._free, self._free_bytes = {}, 0
            free = self._free.setdefault((usage, size), deque())
            if len(free) < _KEPT:
                free.append(handle)
                self._free_bytes += size

    # ------------------------------------------------------------------ host and GPU
    def upload(self, data: np.ndarray[Any, Any]) -> Block:
        """Return a buffer that holds an array's elements in row-major order; counted."""
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)  # of any dtype, bfloat16 too
        block = self.get(flat.nbytes)
        self.write(block, flat.tobytes() if flat.nbytes % 4 else flat)
        transfers.count(up=flat.nbytes)
        return block

    def write(self, block: Block, data: Any) -> None:
        """Put bytes at the start of a buffer; not counted."""
        view = memoryview(data).cast("B") if not isinstance(data, np.ndarray) else data
        size = view.nbytes
        if not size:
            return
        if size % 4:
            view = memoryview(bytes(view).ljust(size + -size % 4, b"\0"))
        with self.device.lock:
            self.device.queue.write_buffer(block.handle, 0, view)

    def download(self, block: Block, size: int) -> bytearray:
        """Return the first bytes of a buffer, after all work submitted so far; counted."""
        transfers.count(down=size)
        whole = size + -size % 4
        if not whole:
            return bytearray()
        staging = self.get(whole, STAGING)
        with self.device.lock:
            encoder = self.device.handle.create_command_encoder()
            encoder.copy_buffer_to_buffer(block.handle, 0, staging.handle, 0, whole)
            self.device.queue.submit([encoder.finish()])
            staging.handle.map_sync("READ", 0, whole)
            try:
                data = bytearray(staging.handle.read_mapped(0, whole))
            finally:
                staging.handle.unmap()
        del data[size:]
        return data


_pools: weakref.WeakKeyDictionary[Device, Pool] = weakref.WeakKeyDictionary()


def pool_of(device: Device) -> Pool:
    """Return the pool of a device."""
    found = _pools.get(device)
    if found is None:
        found = _pools[device] = Pool(device)
    return found
