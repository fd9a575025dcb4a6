"""A compiled subgraph, called with arrays and numbers.

Owns the compilation of a subgraph, by the same pipeline as a whole program, and its fallbacks. Does not own the source
of its arguments (`jitfuse.graph_breaks.tree`).
"""
from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import optree

from jitfuse.backends.llvm.runtime.callable import NativeCallable
from jitfuse.compile import interface as compiler
from jitfuse.compile.native_entries import NativeEntries, is_supported
from jitfuse.compile.run.direct import call_directly
from jitfuse.compile.run.interpreting import interpret
from jitfuse.errors import CompileError, JitfuseError
from jitfuse.ir.analysis.liveness import looks_at_mode
from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.results.returned import OutputLeaf, ResultTree
from jitfuse.tracing.subgraph import TracedSubgraph
from jitfuse.tracing.trace import FeedSource, Trace

if TYPE_CHECKING:
    from jitfuse.function.options import Options

NoteFallback = Callable[[str, JitfuseError], None]


class CompiledSubgraph(NativeCallable):
    """Called with the subgraph's inputs in order; returns a tuple of new arrays of any rank, one per output."""

    def __init__(
        self, part: TracedSubgraph, training: bool, origin: compiler.Origin, options: Options,
        note_fallback: NoteFallback, *,
        many: bool = False, chosen: dict[int, Any] | None = None,
    ) -> None:
        """`many`: fewer equal iterations are re-rolled, as there are many subgraphs. `chosen`: lowerings of others."""
        program = part.program(options.schedule, many=many)
        leaves = tuple(OutputLeaf(path, "array", program.meta[i].dtype) for path, i in program.outputs.items())
        spec: Any = optree.tree_structure((0,) * len(leaves), none_is_leaf=True)  # type: ignore[arg-type]
        trace = Trace(
            program=program,
            feeds={
                k: FeedSource(Chain.arg(k, i.name), i.kind, i.meta, i.strides) for k, i in enumerate(part.inputs)
            },
            guards=(), aliases=(), guarded_values={}, int_ranges={}, result=ResultTree(spec, leaves),
            positional=len(part.inputs), keywords=(), mode_sensitive=looks_at_mode(program), trace_ms=0.0,
            mode=training,
        )
        self._training, self._origin, self._options, self._note_fallback = training, origin, options, note_fallback
        self._chosen = chosen
        self._on_status = functools.partial(compiler.raise_status, origin.function)
        self.lock = threading.Lock()
        self._entries = NativeEntries(training)
        self._entries.serve(self)
        self._direct_launches = 0
        self.spec = compiler.Specialisation(trace, compiler.Binding({}, self._on_status))

    @property
    def launches(self) -> int:
        """Kernels launched so far."""
        return self._direct_launches + self._entries.launches

    @property
    def steps(self) -> int:
        """Steps still to be compiled."""
        return 0 if self._training in self.spec.plans else len(self.spec.trace.program.steps)

    def prepare(self) -> None:
        """Compile the subgraph; raises CompileError."""
        with self.lock:
            if self._training not in self.spec.plans:
                compiler.compile_mode(
                    self.spec, self._training, self._origin, use_cache=self._options.cache,
                    schedule=self._options.schedule, chosen=self._chosen,
                )

    def __call__(self, *values: Any) -> Any:
        """Run the subgraph if native code does not take the call: before it exists, or if it rejects the arguments."""
        try:
            self.prepare()
        except CompileError as error:
            self._note_fallback("the interpreter", error)
            found = interpret(self.spec.trace, self._training, values, {}, {}).to(values, {})
            return tuple(np.array(a, order="C") for a in found)
        done = self._entries.attempt(self._training, values, {}) if self._starts_native() else None
        if done is not None:
            return done.value
        made = self.spec.plans[self._training]
        self._direct_launches += made.call.launches
        try:
            return call_directly(
                self.spec.trace, made.call, made.kernels, made.constants, values, {}, {}, self._on_status,
                self._origin.function,
            ).to(values, {})
        finally:
            if is_supported:
                compiler.build_runtime()

    def _starts_native(self) -> bool:
        """Serve calls natively from now on; return False if there is no native code, or it has just rejected a call."""
        with self.lock:
            if not is_supported or not compiler.runtime_is_ready(self.spec.plans[self._training].call):
                return False
            compiler.native_runtime().accept_error_state()
            entry, _ = compiler.native_entry(self.spec, self._training)
            return self._entries.prepend(entry)
