"""WGSL kernels: pipelines of what shaders are made from, from this process, else from text on disk, else generated.

Owns keys, and the wiring of cache and code generator. Does not own what a form means or how pipelines are launched.
"""
from __future__ import annotations

import threading
import time
import weakref
from itertools import product
from typing import Any, Final

from jitfuse.backends.wgsl.codegen.kernel import Shader, emit_shader
from jitfuse.backends.wgsl.codegen.operators import UnknownOperatorError
from jitfuse.backends.wgsl.codegen.records import emit_records
from jitfuse.backends.wgsl.codegen.types import Facts
from jitfuse.backends.wgsl.codegen.variant import Variant
from jitfuse.backends.wgsl.runtime.device import Device
from jitfuse.backends.wgsl.runtime.pipelines import Pipeline
from jitfuse.base.records import NamedTuple
from jitfuse.cache import Entry, cache_key, compress_text, default_store, environment_parts, publish
from jitfuse.cache.parts import describe
from jitfuse.compile.objects.described import Described
from jitfuse.compile.objects.origin import Origin, recorded_milliseconds
from jitfuse.compile.objects.totals import count
from jitfuse.errors import CompileError
from jitfuse.ir.kernels.form import KernelForm
from jitfuse.ir.semirings.tables import CARRIERS


class FormSource(NamedTuple):
    """What a kernel of a plan is made from: a form, and one of its variants."""

    form: KernelForm
    variant: Variant

    @property
    def canonical(self) -> bytes:
        """The bytes that name it."""
        return self.form.canonical_bytes + b"\0" + repr(tuple(self.variant)).encode()

    def text(self) -> str:
        """Return it for users."""
        return str(self.form)

    def emit(self, facts: Facts) -> Shader:
        """Return the shader; raises UnknownOperatorError for what has no WGSL version on such an adapter."""
        return emit_shader(self.form, self.variant, facts)


class RecordSource(NamedTuple):
    """What a kernel that runs tables of records is made from; `small` is that of small levels."""

    carrier: str
    dtype: str
    small: bool

    @property
    def canonical(self) -> bytes:
        """The bytes that name it."""
        return f"records {self.carrier} {self.dtype} {'small' if self.small else 'large'}".encode()

    def text(self) -> str:
        """Return it for users."""
        return self.canonical.decode()

    def emit(self, facts: Facts) -> Shader:
        """Return the shader; raises UnknownOperatorError for a dtype that such an adapter lacks."""
        return emit_records(self.carrier, self.dtype, facts, small=self.small)


RECORD_SOURCES: Final = {
    source.canonical: source
    for source in (RecordSource(*each) for each in product(CARRIERS, ("float32", "float64"), (False, True)))}
"""All of them, by their names."""
Source = FormSource | RecordSource

_lock = threading.RLock()
_kernels: weakref.WeakValueDictionary[tuple[int, str], GpuKernel] = weakref.WeakValueDictionary()


class GpuKernel(Described):
    """A launchable kernel, with the details that `FusedFunction.kernels` shows."""

    backend = "wgsl"

    def __init__(self, key: str, text: str, pipeline: Pipeline) -> None:
        self.key = key
        self.source = text
        self.pipeline = pipeline
        self.entry: Entry | None = None
        self.compile_ms = 0.0
        self.from_cache = False

    @property
    def asm(self) -> str:
        """Empty: drivers do not show their code for WGSL."""
        return ""


def gpu_kernel(source: Source, device: Device, origin: Origin, *, use_cache: bool) -> GpuKernel:
    """Return the kernel that is made from a source; raises CompileError if the adapter does not support it."""
    key = _key(source, device)
    with _lock:
        found = _kernels.get((id(device), key))
        if found is None:
            found = _made(key, source, device, origin, use_cache)
            _kernels[id(device), key] = found
        return found


def _key(source: Source, device: Device) -> str:
    return cache_key({**device_parts(device), "form": source.canonical})


def device_parts(device: Device) -> dict[str, Any]:
    """Return the parts of the keys of a device's kernels, except their forms."""
    return dict(environment_parts("wgsl", touches_python=False, extra={"adapter": device.identity()}))


def _made(key: str, source: Source, device: Device, origin: Origin, use_cache: bool) -> GpuKernel:
    kernel = _loaded(key, source, device) if use_cache else None
    if kernel is not None:
        count("cache_hits")
        return kernel
    begin = time.perf_counter()
    try:
        shader = source.emit(device.facts)
    except UnknownOperatorError as error:
        raise CompileError(f"{error} (adapter {device.name})") from error
    kernel = GpuKernel(key, shader.text, Pipeline(device, shader))
    kernel.compile_ms = (time.perf_counter() - begin) * 1e3
    count("cache_misses")
    count("compiles")
    kernel.entry = _entry(key, source, shader, device, origin, kernel.compile_ms)
    if use_cache:
        publish(kernel.entry)
    return kernel


def _loaded(key: str, source: Source, device: Device) -> GpuKernel | None:
    """Return the kernel from the cache; None if it is missing or, though intact, is no shader."""
    store = default_store()
    entry = store.load(key, source.canonical)
    if entry is None:
        return None
    try:
        shader = _decoded(entry)
        kernel = GpuKernel(key, shader.text, Pipeline(device, shader))
    except (CompileError, UnicodeDecodeError) as error:
        store.reject(key, str(error))
        return None
    kernel.from_cache, kernel.entry = True, entry
    kernel.compile_ms = recorded_milliseconds(entry)
    return kernel


def _entry(key: str, source: Source, shader: Shader, device: Device, origin: Origin, elapsed: float) -> Entry:
    metadata: dict[str, Any] = {
        "function": origin.function, "source": origin.source, "backend": "wgsl", "target": device.name,
        "compile_ms": round(elapsed, 3), "kernels": ["main"], "created": int(time.time()),
        "forms": compress_text(source.text()), "wgsl": compress_text(shader.text), "program": origin.program_text,
        "versions": {"wgpu": device.identity()[0]}, **describe(device_parts(device), "form"),
    }
    return Entry(key, metadata, source.canonical, _encoded(shader))


def shader_entry(source: Source, device: Device, origin: Origin) -> Entry:
    """Return the entry of a kernel, with its text generated anew."""
    begin = time.perf_counter()
    shader = source.emit(device.facts)
    elapsed = (time.perf_counter() - begin) * 1e3
    return _entry(_key(source, device), source, shader, device, origin, elapsed)


def _encoded(shader: Shader) -> bytes:
    """Return a shader as bytes: a line with the bindings that it writes, then its text."""
    return "".join("w" if w else "r" for w in shader.writes).encode() + b"\n" + shader.text.encode()


def _decoded(entry: Entry) -> Shader:
    bindings, line, text = entry.code.partition(b"\n")
    if not line or bindings.strip(b"rw"):
        raise CompileError("it does not begin with its bindings")
    return Shader(text.decode(), tuple(chr(b) == "w" for b in bindings))
