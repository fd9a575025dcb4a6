"""Shaders as pipelines, and launches of them.

Owns: pipelines, bind groups (cached by their buffers), the number of workgroups. Does not own the
shaders' text or the content of buffers.
"""
from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

from jitfuse.backends.wgsl.codegen.kernel import ENTRY, Shader
from jitfuse.backends.wgsl.codegen.variant import POINTS, Variant
from jitfuse.backends.wgsl.runtime.buffers import Block
from jitfuse.backends.wgsl.runtime.device import Device
from jitfuse.base.records import NamedTuple
from jitfuse.errors import CompileError

MAX_GROUPS: Final = 4_096
"""Workgroups of a dispatch, enough to fill any device; WebGPU has at most 65,535 along one dimension."""
MAX_POINTS: Final = 2**32 - 2**24
"""Grid points of a dispatch, such that another step does not overflow."""
_BIND_GROUPS: Final = 8


class BufferRange(NamedTuple):
    """A range of a buffer that is bound."""

    block: Block
    offset: int
    size: int


class Pipeline:
    """A compiled shader."""

    def __init__(self, device: Device, shader: Shader) -> None:
        """Compile the shader; raises CompileError where the adapter rejects it."""
        if len(shader.writes) > device.storage_buffers:
            raise CompileError(
                f"the kernel needs {len(shader.writes)} buffers, the adapter {device.name} binds "
                f"{device.storage_buffers}"
            )
        self.device = device
        self._groups: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        handle = device.handle
        try:
            with device.lock:
                module = handle.create_shader_module(code=shader.text)
                self._layout = handle.create_bind_group_layout(entries=_layout_entries(shader))
                layout = handle.create_pipeline_layout(bind_group_layouts=[self._layout])
                self._pipeline = handle.create_compute_pipeline(
                    layout=layout, compute={"module": module, "entry_point": ENTRY}
                )
        except Exception as error:
            raise CompileError(f"the adapter {device.name} rejects a kernel: {error}") from error

    def encode(self, compute: Any, words: BufferRange, buffers: Sequence[Block], groups: int) -> None:
        """Put one dispatch into a compute pass."""
        compute.set_pipeline(self._pipeline)
        compute.set_bind_group(0, self._group(words, buffers), [words.offset])
        compute.dispatch_workgroups(groups)

    def _group(self, words: BufferRange, buffers: Sequence[Block]) -> Any:
        key = (id(words.block.handle), words.size, *(id(b.handle) for b in buffers))
        found = self._groups.get(key)
        if found is not None:
            self._groups.move_to_end(key)
            return found[0]
        resources = [
            {"buffer": words.block.handle, "offset": 0, "size": words.size},
            *({"buffer": b.handle, "offset": 0, "size": b.size} for b in buffers),
        ]
        entries = [{"binding": k, "resource": r} for k, r in enumerate(resources)]
        group = self.device.handle.create_bind_group(layout=self._layout, entries=entries)
        # the buffers are kept with the group, so that their ids are not reused
        self._groups[key] = group, words.block.handle, [b.handle for b in buffers]
        if len(self._groups) > _BIND_GROUPS:
            self._groups.popitem(last=False)
        return group


def _layout_entries(shader: Shader) -> list[dict[str, Any]]:
    from wgpu import BufferBindingType, ShaderStage

    # where a dispatch's words begin is told with it, so that one group serves all dispatches over the same buffers
    layouts: list[dict[str, Any]] = [{"type": BufferBindingType.uniform, "has_dynamic_offset": True}]
    layouts += [{"type": BufferBindingType.storage if w else BufferBindingType.read_only_storage}
                for w in shader.writes]
    return [{"binding": k, "visibility": ShaderStage.COMPUTE, "buffer": each} for k, each in enumerate(layouts)]


def workgroups(variant: Variant, sizes: Sequence[int], n_grid: int) -> int:
    """Return the number of workgroups of a launch; each loops over grid points with that number as its stride.

    Raises CompileError for more grid points than 32 bits count.
    """
    points = math.prod(sizes[:n_grid])
    if points >= MAX_POINTS:
        raise CompileError(f"{points} grid points are more than one dispatch has")
    count = -(-points // variant.group) if variant.mode == POINTS else points
    return min(count, MAX_GROUPS)
