"""WGSL kernels: pipelines of a form's variants, from this process, else from text on disk, else generated.

Owns keys, and the wiring of cache and code generator. Does not own what a form means or how pipelines are launched.
"""
from __future__ import annotations

import threading
import time
import weakref
from typing import Any

from jitfuse.backends.wgsl.codegen.kernel import Shader, emit_shader
from jitfuse.backends.wgsl.codegen.operators import UnknownOperatorError
from jitfuse.backends.wgsl.codegen.variant import Variant
from jitfuse.backends.wgsl.runtime.device import Device
from jitfuse.backends.wgsl.runtime.pipelines import Pipeline
from jitfuse.cache import Entry, cache_key, compress_text, default_store, environment_parts, publish
from jitfuse.cache.parts import describe
from jitfuse.compile.objects.described import Described
from jitfuse.compile.objects.origin import Origin, recorded_milliseconds
from jitfuse.compile.objects.totals import count
from jitfuse.errors import CompileError
from jitfuse.ir.kernels.form import KernelForm

_lock = threading.RLock()
_kernels: weakref.WeakValueDictionary[tuple[int, str], GpuKernel] = weakref.WeakValueDictionary()


class GpuKernel(Described):
    """A launchable kernel, with the details that `FusedFunction.kernels` shows."""

    backend = "wgsl"

    def __init__(self, key: str, form: KernelForm, variant: Variant, source: str, pipeline: Pipeline) -> None:
        self.key = key
        self.form = form
        self.variant = variant
        self.source = source
        self.pipeline = pipeline
        self.entry: Entry | None = None
        self.compile_ms = 0.0
        self.from_cache = False

    @property
    def asm(self) -> str:
        """Empty: drivers do not show their code for WGSL."""
        return ""


def gpu_kernel(form: KernelForm, variant: Variant, device: Device, origin: Origin, *, use_cache: bool) -> GpuKernel:
    """Return the kernel of a form's variant; raises CompileError if the adapter does not support it."""
    key, canonical = _name(form, variant, device)
    with _lock:
        found = _kernels.get((id(device), key))
        if found is None:
            found = _made(key, canonical, form, variant, device, origin, use_cache)
            _kernels[id(device), key] = found
        return found


def _name(form: KernelForm, variant: Variant, device: Device) -> tuple[str, bytes]:
    """Return key and canonical form of a form's variant."""
    canonical = form.canonical_bytes + b"\0" + repr(tuple(variant)).encode()
    return cache_key({**device_parts(device), "form": canonical}), canonical


def device_parts(device: Device) -> dict[str, Any]:
    """Return the parts of the keys of a device's kernels, except their forms."""
    return dict(environment_parts("wgsl", touches_python=False, extra={"adapter": device.identity()}))


def _made(
    key: str, canonical: bytes, form: KernelForm, variant: Variant, device: Device, origin: Origin, use_cache: bool
) -> GpuKernel:
    kernel = _loaded(key, canonical, form, variant, device) if use_cache else None
    if kernel is not None:
        count("cache_hits")
        return kernel
    begin = time.perf_counter()
    try:
        shader = emit_shader(form, variant, device.facts)
    except UnknownOperatorError as error:
        raise CompileError(f"{error} (adapter {device.name})") from error
    kernel = GpuKernel(key, form, variant, shader.text, Pipeline(device, shader))
    kernel.compile_ms = (time.perf_counter() - begin) * 1e3
    count("cache_misses")
    count("compiles")
    kernel.entry = _entry(key, canonical, form, shader, device, origin, kernel.compile_ms)
    if use_cache:
        publish(kernel.entry)
    return kernel


def _loaded(key: str, canonical: bytes, form: KernelForm, variant: Variant, device: Device) -> GpuKernel | None:
    """Return the kernel from the cache; None if it is missing or, though intact, is no shader."""
    store = default_store()
    entry = store.load(key, canonical)
    if entry is None:
        return None
    try:
        shader = _decoded(entry)
        kernel = GpuKernel(key, form, variant, shader.text, Pipeline(device, shader))
    except (CompileError, UnicodeDecodeError) as error:
        store.reject(key, str(error))
        return None
    kernel.from_cache, kernel.entry = True, entry
    kernel.compile_ms = recorded_milliseconds(entry)
    return kernel


def _entry(
    key: str, canonical: bytes, form: KernelForm, shader: Shader, device: Device, origin: Origin, elapsed: float
) -> Entry:
    metadata: dict[str, Any] = {
        "function": origin.function, "source": origin.source, "backend": "wgsl", "target": device.name,
        "compile_ms": round(elapsed, 3), "kernels": ["main"], "created": int(time.time()),
        "forms": compress_text(str(form)), "wgsl": compress_text(shader.text), "program": origin.program_text,
        "versions": {"wgpu": device.identity()[0]}, **describe(device_parts(device), "form"),
    }
    return Entry(key, metadata, canonical, _encoded(shader))


def shader_entry(form: KernelForm, variant: Variant, device: Device, origin: Origin) -> Entry:
    """Return the entry of a form's variant, with its text generated anew."""
    begin = time.perf_counter()
    shader = emit_shader(form, variant, device.facts)
    elapsed = (time.perf_counter() - begin) * 1e3
    return _entry(*_name(form, variant, device), form, shader, device, origin, elapsed)


def _encoded(shader: Shader) -> bytes:
    """Return a shader as bytes: a line with the bindings that it writes, then its text."""
    return "".join("w" if w else "r" for w in shader.writes).encode() + b"\n" + shader.text.encode()


def _decoded(entry: Entry) -> Shader:
    bindings, line, text = entry.code.partition(b"\n")
    if not line or bindings.strip(b"rw"):
        raise CompileError("it does not begin with its bindings")
    return Shader(text.decode(), tuple(chr(b) == "w" for b in bindings))
