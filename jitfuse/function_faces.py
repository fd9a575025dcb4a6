"""What a fused function tells about itself, and how it is made ready without a call.

Owns the faces: `program`, `explain`, `export`, `warm`, `stats`, `kernels`, `explain_miss`. Does not own the reports'
texts (`jitfuse.explain`, `jitfuse.misses`) or signatures.
"""
from __future__ import annotations

import os
from typing import Any

from jitfuse import behind
from jitfuse import compile as compiler
from jitfuse.drawing import Drawing
from jitfuse.frameworks import Adapted, materialise_specs, needs_adapting
from jitfuse.function_draws import with_everybodys
from jitfuse.function_splits import Splits
from jitfuse.ir.program import FusedProgram
from jitfuse.tracing.interruption import working


class Faces(Splits):
    """The public methods of a fused function beside the call."""

    def twin(self, places: tuple[int, ...], drawing: Drawing) -> Faces:
        """Return the function that answers calls with torch tensors and generators at places among the arguments."""
        raise NotImplementedError

    def _read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Faces, tuple[Any, ...], dict[str, Any]]:
        """Return the function that a call comes to, and its arguments as native code reads them."""
        if not (self._draws or needs_adapting(args, kwargs)):
            return self, args, kwargs
        adapted = Adapted(args, kwargs, self._draws)
        return self.twin(adapted.tensors, adapted.drawing), adapted.args, adapted.kwargs

    @with_everybodys
    @working()
    def program(self, *args: Any, **kwargs: Any) -> FusedProgram:
        """Return the program of a call with these arguments (traced where it is new); nothing is compiled."""
        self, args, kwargs = self._read(args, kwargs)
        training, args, kwargs = self._split_mode(args, kwargs)
        with self._lock:
            spec = next((s for s in self._specs if s.matches(args, kwargs)), None)
        result = spec.trace.program if spec is not None else self._whole_trace(training, args, kwargs).program
        assert isinstance(result, FusedProgram)
        return result

    @with_everybodys
    @working()
    def explain(self, *args: Any, html: str | os.PathLike[str] | None = None, **kwargs: Any) -> str:
        """Return a readable report of how a call with these arguments runs; compiles it where it is new.

        Of a function whose program is split, it shows the segments that calls have made so far, and what Python saw.
        `html` names a file that gets the report as one self-contained page, with pictures of the program and of the
        arena and the source of every kernel.
        """
        from jitfuse.explain import explain, kernels_of

        self, args, kwargs = self._read(args, kwargs)
        training, args, kwargs = self._split_mode(args, kwargs)
        with self._lock:
            split = self._explain_split(training, args, kwargs)
            if split is not None:
                return split
            spec = self._signature(training, args, kwargs)
            if self._runs_on_gpu(spec, args, kwargs):
                made = self._gpu_call(spec, training, args, kwargs).plan()
                plan, kernels = made.plan, made.kernels
            else:
                self._compile(spec, training)
                plan, kernels = spec.plans[training].runtime, kernels_of([spec])
            if html is not None:
                from jitfuse.explain_html import write_page

                write_page(html, self, spec, training, plan, kernels)
            return explain(self, spec, training, plan)

    @with_everybodys
    @working()
    def export(self, *args: Any, path: str | os.PathLike[str] | None = None, **kwargs: Any) -> str:
        """Return a call with these arguments as Python source that runs on NumPy alone; see `jitfuse.export`.

        The function in it takes what the call reads, one argument for each array and number, and returns what the
        call returns. `training` is what it takes unless its caller says otherwise; `path` names a file to write.
        Raises UnsupportedError where the result holds what cannot be written as source.
        """
        from jitfuse.function_export import export_call

        self, args, kwargs = self._read(args, kwargs)
        training, args, kwargs = self._split_mode(args, kwargs)
        with self._lock:
            spec = next((s for s in self._specs if s.matches(args, kwargs)), None)
            traced = spec.trace if spec is not None else self._whole_trace(training, args, kwargs)
        text = export_call(self, traced, training)
        if path is not None:
            from jitfuse.files import write_whole

            write_whole(path, text)
        return text

    @with_everybodys
    @working()
    def warm(self, *args: Any, **kwargs: Any) -> None:
        """Trace, compile and store for these arguments, arrays or `jf.spec(shape, dtype)`, without running anything."""
        self, args, kwargs = self._read(*materialise_specs(args, kwargs))
        training, args, kwargs = self._split_mode(args, kwargs)
        with self._lock:
            spec = self._signature(training, args, kwargs)
            if self._runs_on_gpu(spec, args, kwargs):
                with self._counting():
                    self._gpu_call(spec, training, args, kwargs).prepare()
                return
            self._compile(spec, training)
            if self.native:
                compiler.native_runtime()
        behind.wait()

    def stats(self) -> dict[str, int]:
        """Return counts: traces, compiles, cache_hits, cache_misses, launches, fallbacks, splits."""
        running = self._state.launches if self._state is not None else 0
        running += sum(segment.launches for segment in self._segments.values())
        own = {**self._counts, "launches": self._launches + running}
        for twin in list(self._twins.values()):
            own = {key: count + own[key] for key, count in twin.stats().items()}
        return own

    @property
    def kernels(self) -> tuple[Any, ...]:
        """Return every kernel that this function has compiled or loaded."""
        from jitfuse.explain import kernels_of

        own = [*self._specs, *(segment.spec for segment in self._segments.values())]
        kernels = kernels_of(own)
        for twin in list(self._twins.values()):
            kernels += twin.kernels
        return kernels

    def explain_miss(self) -> str:
        """Return why the last call that was new was new.

        Names the guards and arguments that differ from the nearest signature and, for kernels that the cache did not
        have, the parts of the key that differ from the nearest entry.
        """
        from jitfuse.misses import explain_miss

        with self._lock:
            entries = {kernel.key: kernel.entry for kernel in self.kernels}
            missed = [(made.key, entries.get(made.key)) for made in self._missed]
            return explain_miss(self.name, len(self._specs), self._why_new, missed, self._options.cache)
