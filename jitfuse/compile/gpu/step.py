"""One launch of a plan on the GPU: its variants by the call's scalars, and its kernel arguments.

Does not own when it runs (`jitfuse.compile.gpu.run`).
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jitfuse.backends.wgsl.codegen import words
from jitfuse.backends.wgsl.codegen.host_values import HostValues
from jitfuse.backends.wgsl.codegen.variant import Variant, choose, scratch_bytes
from jitfuse.compile.gpu.kernels import GpuKernel
from jitfuse.plans import Launch

_MANY_SCALARS: Final = 256


class GpuStep:
    """One launch: its kernels by variant, and where its arguments lie in the plan's uniform buffer."""

    def __init__(self, launch: Launch, scalars: frozenset[int]) -> None:
        self.launch = launch
        form = launch.form
        self.kernels: dict[Variant, GpuKernel] = {}
        self.scratch = scratch_bytes(form, launch.sizes)
        self.scalar_of = {
            o: buffer[1] for o, (buffer, _) in enumerate(launch.buffers) if buffer[0] == "feed" and buffer[1] in scalars
        }
        at = len(form.words.strides) + len(form.words.sizes)
        self.params = launch.words[at : at + len(form.params)]
        self._wide = [o for o in self.scalar_of if form.operands[o].dtype == "int64"]
        self._variants: dict[tuple[int, ...], Variant] = {}
        self._host: HostValues | None = None

    def variant(self, scalars: Mapping[int, int]) -> Variant:
        """Return the variant for the scalars of a call; only the sizes of integers matter."""
        key = tuple(scalars[self.scalar_of[o]] for o in self._wide)
        found = self._variants.get(key)
        if found is None:
            if len(self._variants) >= _MANY_SCALARS:
                self._variants.clear()
            buffers = [buffer for buffer, _ in self.launch.buffers]
            found = choose(self.launch.form, self.launch.sizes, self.params, buffers, self._known(scalars))
            self._variants[key] = found
        return found

    def _known(self, scalars: Mapping[int, int]) -> dict[int, int]:
        return {o: scalars[feed] for o, feed in self.scalar_of.items()}

    def _host_words(self, scalars: Mapping[int, int]) -> list[int]:
        if self._host is None:
            self._host = HostValues(self.launch.form, self.variant(scalars).inline)
        return self._host.evaluate(self.params, self._known(scalars))

    def packed(self, scalars: Mapping[int, int], offsets: Mapping[int, int]) -> bytes:
        """Return the launch's kernel arguments: offsets into buffers, or the values of scalars, first."""
        first = [
            scalars[self.scalar_of[o]] if o in self.scalar_of
            else offset + (offsets.get(buffer[1], 0) if buffer[0] == "feed" else 0)
            for o, (buffer, offset) in enumerate(self.launch.buffers)
        ]
        further = self._host_words(scalars)
        return words.pack(self.launch.form, self.launch.sizes, [*first, *self.launch.words, *further])
