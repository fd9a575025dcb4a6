"""The start-up probe: does the driver rewrite float arithmetic?

It tests contraction of a*b + c, and algebra that IEEE 754 does not allow: (a + b) - a, x - x, x * 0, x + 0. Where any
result is wrong, every float result is fenced. Owns: the kernel of the probe.
"""
from __future__ import annotations

import struct
from typing import Any, Final

_INPUTS: Final = (1.0000001192092896, 0.30000001192092896, float("inf"), float("nan"), -0.0, 1.0000002384185791)

_SHADER: Final = """
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read_write> o: array<u32>;
@compute @workgroup_size(1)
fn main() {
  o[0] = bitcast<u32>((a[0] + a[1]) - a[0]);
  o[1] = bitcast<u32>(a[2] - a[2]) & 0x7f800000u;
  o[2] = bitcast<u32>(a[3] * 0.0) & 0x7f800000u;
  o[3] = bitcast<u32>(a[4] + 0.0);
  o[4] = bitcast<u32>(a[0] * a[0] - a[5]);
}
"""
_EXPECTED: Final = (0x3E99999C, 0x7F800000, 0x7F800000, 0, 0)


def rewrites(device: Any) -> bool:
    """Return whether the device's driver changes what float operations mean."""
    from wgpu import BufferUsage

    handle = device.handle
    source = handle.create_buffer_with_data(data=struct.pack("<6f", *_INPUTS), usage=BufferUsage.STORAGE)
    size = 4 * len(_EXPECTED)
    result = handle.create_buffer(size=size, usage=BufferUsage.STORAGE | BufferUsage.COPY_SRC)
    module = handle.create_shader_module(code=_SHADER)
    pipeline = handle.create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": "main"})
    entries = [{"binding": k, "resource": {"buffer": b, "offset": 0, "size": b.size}}
               for k, b in enumerate((source, result))]
    group = handle.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    encoder = handle.create_command_encoder()
    compute = encoder.begin_compute_pass()
    compute.set_pipeline(pipeline)
    compute.set_bind_group(0, group)
    compute.dispatch_workgroups(1)
    compute.end()
    device.queue.submit([encoder.finish()])
    return struct.unpack(f"<{len(_EXPECTED)}I", device.queue.read_buffer(result)) != _EXPECTED
