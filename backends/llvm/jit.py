"""Compiles LLVM assembly text to object code for this machine.

Owns: the host target as LLVM sees it, LLVM's options, and loading through LLVM's linker on systems that
`jitfuse.backends.llvm.loader` has no loader for. Does not own: what the text means
(`jitfuse.backends.llvm.text.builder`) or where object code is kept (the cache).

A process that finds everything in its cache does not import this module. `llvmlite` is imported on first use.

No function attribute keeps the code generator from writing library calls: ``"no-builtins"`` keeps *passes*
from recognising a loop as memset or memcpy, but a frem, a vector llvm.sin or a large llvm.memcpy still
becomes a call. So passes that form such calls run only on request, kernels carry ``"no-builtins"``
(`KERNEL_ATTRIBUTES`), and `load` rejects objects with any remaining call.
"""
from __future__ import annotations

import ctypes
import itertools
import os
import re
from collections.abc import Callable, Container
from functools import cache, partial
from typing import Any

from jitfuse.backends.llvm.load.elf import object_symbols
from jitfuse.backends.llvm.load.image import DAMAGED
from jitfuse.backends.llvm.load.process import process_addresses, process_lock, refuse_foreign
from jitfuse.base import forks
from jitfuse.base.records import NamedTuple
from jitfuse.errors import CompileError

_OPTIONS = (
    "-enable-misched=false",  # the scheduler undoes the interleaving of independent chains
    "-disable-lsr",  # addresses are base, index and constant already; rewriting them takes half of the time
    "-optimize-regalloc=true",  # level 0 would keep every value on the stack
    # passes that change nothing for code without repetitions and needless jumps
    "-disable-constant-hoisting", "-disable-machine-sink", "-disable-early-taildup", "-disable-tail-duplicate",
)
"""Options of LLVM for the whole process, set before the first compilation."""

KERNEL_ATTRIBUTES = 'nounwind "no-builtins"'
"""Attributes of every function that must not reach outside its object."""


FIRST_TEXT = """
declare <8 x double> @llvm.fma.v8f64(<8 x double>, <8 x double>, <8 x double>)
declare void @llvm.masked.store.v8f64.p0(<8 x double>, ptr, <8 x i1>)
define void @first(ptr %p, i64 %n) nounwind {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %end
body:
  %at = getelementptr double, ptr %p, i64 %i
  %x = load <8 x double>, ptr %at, align 8
  %y = call <8 x double> @llvm.fma.v8f64(<8 x double> %x, <8 x double> %x, <8 x double> splat (double 2.0))
  %mask = fcmp oge <8 x double> %y, splat (double 4.0)
  %either = select <8 x i1> %mask, <8 x double> %x, <8 x double> %y
  %bits = bitcast <8 x double> %either to <8 x i64>
  %low = and <8 x i64> %bits, splat (i64 2)
  %z = bitcast <8 x i64> %low to <8 x double>
  call void @llvm.masked.store.v8f64.p0(<8 x double> %z, ptr align 8 %at, <8 x i1> %mask)
  %next = add i64 %i, 8
  br label %head
end:
  ret void
}
"""
"""A loop like those of kernels, compiled in advance as the first compilation of a process."""


class Target(NamedTuple):
    """The machine that code is made for: LLVM's names for it, and the two facts that lowering needs."""

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    has_fma: bool


@cache
def host_target() -> Target:
    """Return the target of this process, as LLVM detects it, but without SSE4a.

    Its `insertq`, by which LLVM shuffles bytes, has no AVX form: between AVX code it takes hundreds of nanoseconds
    (measured on an EPYC).
    """
    llvm = _llvm()
    features = llvm.get_host_cpu_features()
    if "sse4a" in features:
        features["sse4a"] = False
    triple = llvm.get_process_triple()
    on = {name for name, present in features.items() if present}
    width = 64 if "avx512f" in on else 32 if "avx2" in on else 16
    has_fma = {"fma", "f16c"} <= on or triple.startswith(("aarch64", "arm64"))
    return Target(triple, llvm.get_host_cpu_name(), features.flatten(), width, has_fma)


class _Engine:
    """The parts of LLVM that this process has started; each starts on its first use."""

    def __init__(self) -> None:
        self._names = itertools.count()
        self.binding: Any = None
        self._jit: Any = None
        self._machines: dict[int, tuple[Any, str]] = {}
        # a child must not inherit LLVM in the middle of another thread's operation; the lock of the process is
        # always taken before this one
        self._held: Any = None
        forks.hold(self._before_fork, self._after_fork)

    def _before_fork(self) -> None:
        if self.binding is not None:
            self._held = self.binding.ffi.lib._lock  # llvmlite holds it around each of its calls
            self._held.__enter__()

    def _after_fork(self) -> None:
        if self._held is not None:
            self._held.__exit__(None, None, None)
            self._held = None

    def start_binding(self) -> Any:
        """Import llvmlite under the lock, because a child forked in the middle of an import never finishes it."""
        with process_lock:
            import llvmlite.binding as binding  # type: ignore[import-untyped]

            self.binding = binding
            return binding

    def jit(self) -> Any:
        """Return the process-wide LLJIT."""
        if self._jit is None:
            with process_lock:
                self._jit = self._jit or self._start_jit()
        return self._jit

    def _start_jit(self) -> Any:
        llvm = _llvm()
        llvm.initialize_native_target()
        # JITLink, because the default linker leaks 9 KB for each library that is loaded and unloaded
        jit = llvm.create_lljit_compiler(use_jit_link=True)
        # never disposed: results, and worker threads, may outlive the interpreter's modules
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(jit))
        return jit

    def machine(self, level: int) -> tuple[Any, str]:
        """Return the target machine of a code generation level, and the header its modules start with."""
        if level not in self._machines:
            with process_lock:
                if level not in self._machines:
                    self._machines[level] = self._start_machine(level)
        return self._machines[level]

    def _start_machine(self, level: int) -> tuple[Any, str]:
        llvm = _llvm()
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()  # inline assembly aborts the process without it
        if not self._machines:
            for option in _OPTIONS:
                llvm.set_option("jitfuse", option)
        host = host_target()
        machine = llvm.Target.from_triple(host.triple).create_target_machine(
            cpu=host.cpu, features=host.features, opt=level, reloc="pic", codemodel="small", jit=True
        )
        layout = str(machine.target_data)
        return machine, f'target triple = "{host.triple}"\ntarget datalayout = "{layout}"\n'

    def library_name(self) -> str:
        """Return a name that no library of this process has had."""
        return f"jitfuse.{next(self._names)}"


_engine = _Engine()


def _llvm() -> Any:
    return _engine.binding or _engine.start_binding()


# ---------------------------------------------------------------------- compile
def compile_text(text: str, *, level: int = 1, verify: bool = False) -> bytes:
    """Compile LLVM assembly to object code for the host.

    `level` is the code generation level, 0 to 3. Raises CompileError, with the offending lines, for text that LLVM does
    not parse or (with `verify`, or ``JITFUSE_DEBUG=1``) verify. No pass over LLVM IR runs: the text needs none.
    """
    return emitter(text, level=level, verify=verify)()


def emitter(text: str, *, level: int = 1, verify: bool = False) -> Callable[[], bytes]:
    """Return a function that generates the object code of `compile_text`, and lets other threads run meanwhile.

    Code generation takes most of the time. The errors of `compile_text` are raised here, not by the function.
    """
    machine, module = _parsed(text, level, verify=verify)
    return partial(machine.emit_object, module)


def assembly(text: str, *, level: int = 1) -> str:
    """Return the machine code that `compile_text` makes, as assembly text."""
    machine, module = _parsed(text, level)
    code: str = machine.emit_assembly(module)
    return code


def _parsed(text: str, level: int, *, verify: bool = False) -> tuple[Any, Any]:
    """Return the target machine of a level and the module of a text."""
    llvm = _llvm()
    machine, header = _engine.machine(level)
    try:
        # a context of its own: the global one keeps every type and constant ever parsed
        module = llvm.parse_assembly(header + text, context=llvm.create_context())
    except RuntimeError as error:
        raise CompileError(_explain(str(error), header + text)) from None
    if verify or os.environ.get("JITFUSE_DEBUG") == "1":
        try:
            module.verify()
        except RuntimeError as error:
            raise CompileError(f"LLVM rejects the module: {error}\n{_excerpt(text, 1, 40)}") from None
    return machine, module


def _explain(message: str, text: str) -> str:
    """Append the lines around an error of LLVM's parser (``<string>:line:column: error``) to its message."""
    where = re.search(r":(\d+):\d+: error", message)
    line = int(where.group(1)) if where else 1
    return f"{message.strip()}\n{_excerpt(text, max(1, line - 3), line + 3)}"


def _excerpt(text: str, first: int, last: int) -> str:
    lines = text.splitlines()
    return "\n".join(f"{n:5d} | {lines[n - 1]}" for n in range(first, min(last, len(lines)) + 1))


# ---------------------------------------------------------------------- load
class JitLibrary:
    """Code loaded by LLVM, as `jitfuse.backends.llvm.loader.Library`."""

    def __init__(self, tracker: Any, names: frozenset[str]) -> None:
        self._tracker = tracker
        self._names = names

    @property
    def names(self) -> frozenset[str]:
        """The global symbols of the object."""
        return self._names

    def address(self, name: str) -> int:
        """Return the address of a global symbol of the object; KeyError where it has none of that name."""
        address: int = self._tracker[name]
        return address


def load(object_code: bytes, *, allowed: Container[str] = ()) -> JitLibrary:
    """Link object code into the process through LLVM, for `jitfuse.backends.llvm.loader.load`."""
    try:
        symbols = object_symbols(object_code)
    except DAMAGED as error:
        raise CompileError(f"damaged object of {len(object_code)} bytes: {error}") from None
    refuse_foreign(symbols.undefined, allowed)
    imports = sorted(symbols.undefined)
    builder = _llvm().JITLibraryBuilder().add_object_img(object_code)
    for name, address in zip(imports, process_addresses(imports)):
        builder.import_symbol(name, address)
    for name in symbols.defined:
        builder.export_symbol(name)
    try:
        tracker = builder.link(_engine.jit(), _engine.library_name())
    except RuntimeError as error:
        raise CompileError(f"{len(object_code)} bytes of object code do not load: {error}") from None
    return JitLibrary(tracker, symbols.defined)
