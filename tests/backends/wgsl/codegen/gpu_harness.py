"""Runs kernel forms on the GPU and compares them with the evaluator."""
from __future__ import annotations

import struct
from typing import Any

import numpy as np
from evaluate import Evaluator, Memory
from harness import Builder, assert_same

from jitfuse.backends.wgsl.codegen import words
from jitfuse.backends.wgsl.codegen.host_values import HostValues
from jitfuse.backends.wgsl.codegen.kernel import emit_shader
from jitfuse.backends.wgsl.codegen.variant import choose, scratch_bytes
from jitfuse.backends.wgsl.runtime.buffers import UNIFORM, pool_of
from jitfuse.backends.wgsl.runtime.pipelines import BufferRange, Pipeline, workgroups
from jitfuse.ir.kernels.form import KernelForm, Operand


def bits(dtype: str, value: Any) -> int:
    return int(struct.unpack("<q", np.asarray(value, dtype).tobytes().ljust(8, b"\0"))[0])


def launch(
    device: Any, form: KernelForm, sizes: tuple[int, ...], operands: list[Memory], params: list[Any] = [], *,  # noqa: B006
    mode: str | None = None, inline: bool = False,
) -> None:
    """Run a form on the GPU; the buffers of its outputs change."""
    pool = pool_of(device)
    param_words = [bits(d, p) for d, p in zip(form.params, params, strict=True)]
    scalars = {}
    if inline:
        for k, (o, m) in enumerate(zip(form.operands, operands, strict=True)):
            if not o.out and not any(m.strides) and m.buffer.size == np.dtype(m.dtype).itemsize:
                scalars[k] = bits(m.dtype, m.buffer.view(m.dtype)[0])
    variant = choose(form, sizes, param_words, [id(m.buffer) for m in operands], scalars)
    if mode is not None and form.inner:
        variant = variant._replace(mode=mode, group=64 if mode == "points" else variant.group)
    shader = emit_shader(form, variant, device.facts)
    try:
        pipeline = Pipeline(device, shader)
    except Exception as error:
        numbered = "\n".join(f"{k + 1:4} {line}" for k, line in enumerate(shader.text.split("\n")))
        raise AssertionError(f"{error}\n{numbered}\n{form}") from error
    if 0 in sizes[: len(form.grid)]:
        return
    first = [scalars.get(k, m.start) for k, m in enumerate(operands)]
    rest = form.words.shape([m.strides for m in operands], sizes)
    tiles = [0, 0] if form.contracted else []
    further = HostValues(form, variant.inline).evaluate(param_words, scalars)
    packed = words.pack(form, sizes, [*first, *rest, *param_words, *tiles, 0, *further])
    uniform = pool.get(len(packed), UNIFORM)
    pool.write(uniform, packed)
    blocks: dict[int, Any] = {}
    for m, b in zip(operands, variant.bindings, strict=True):
        if b >= 0 and b not in blocks:
            blocks[b] = pool.upload(m.buffer)
    scratch = [pool.get(n) for n in scratch_bytes(form, sizes)]
    buffers = [*(blocks[b] for b in range(variant.buffers)), *scratch]
    encoder = device.handle.create_command_encoder()
    compute = encoder.begin_compute_pass()
    groups = workgroups(variant, sizes, len(form.grid))
    pipeline.encode(compute, BufferRange(uniform, 0, len(packed)), buffers, groups)
    compute.end()
    device.queue.submit([encoder.finish()])
    for o, m, b in zip(form.operands, operands, variant.bindings, strict=True):
        if o.out:
            m.buffer[:] = np.frombuffer(pool.download(blocks[b], m.buffer.size), np.uint8)


def check(
    device: Any, form: KernelForm, sizes: tuple[int, ...], operands: list[Memory], params: list[Any] = [], *,  # noqa: B006
    ulps: float = 0, **options: Any,
) -> list[Memory]:
    """Run a form on the GPU and in the evaluator; all buffers must agree, bytes outside of results too."""
    expected = [o.copy() for o in operands]
    actual = [o.copy() for o in operands]
    Evaluator(form, sizes, expected, params).run()
    launch(device, form, sizes, actual, params, **options)
    for k, (e, a) in enumerate(zip(expected, actual)):
        assert_same(e, a, ulps, f"operand {k} of\n{form}\nsizes {sizes}")
    return actual


def applied(op: str, dtypes: tuple[str, ...], result: str) -> KernelForm:
    """The form that applies an operator to elements."""
    b = Builder()
    b.store(len(dtypes), result, b.add(op, result, *[b.load(k, d) for k, d in enumerate(dtypes)]))
    b.stage("point")
    operands = [Operand(d, ("1",)) for d in dtypes] + [Operand(result, ("1",), True)]
    return b.form(1, 0, 0, operands)
