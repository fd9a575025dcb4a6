"""The shaders that run any table of records of a semiring: sums of products, an invocation for each element.

There are two of each: one workgroup runs small levels one after the other, with a barrier behind each; a large level is
a dispatch of its own, without. A sum of "log" takes two passes: the largest term first, by which exponents are shifted.
Does not own the words that they read (`record_table.py`).
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.wgsl import library
from jitfuse.backends.wgsl.codegen.kernel import ENTRY, Shader
from jitfuse.backends.wgsl.codegen.operators import UnknownOperatorError, apply, constant
from jitfuse.backends.wgsl.codegen.record_table import HEADER, LEVEL_WORDS
from jitfuse.backends.wgsl.codegen.text import Text
from jitfuse.backends.wgsl.codegen.types import REGISTER, Facts

GROUP: Final = 128
"""Invocations of a workgroup."""


def emit_records(carrier: str, dtype: str, facts: Facts, *, small: bool) -> Shader:
    """Return the shader of a semiring, "sum_product" or "log", for "float32" or "float64".

    `small` is whether it is for one workgroup. Kernel arguments: two zeros, the first level and the one behind the
    last. Buffers: the table, and the memory of all elements. Raises UnknownOperatorError for a dtype that the adapter
    lacks.
    """
    missing = facts.missing(REGISTER[dtype])
    if missing:
        raise UnknownOperatorError(f"semiring_sums of {dtype} needs {' and '.join(missing)}")
    text = Text()
    _Records(text, carrier, dtype).write(small)
    main = str(text)
    functions = library.needed(main)
    bindings = [
        "@group(0) @binding(0) var<uniform> words: array<vec4<u32>, 1>;",
        "@group(0) @binding(1) var<storage, read> table: array<u32>;",
        f"@group(0) @binding(2) var<storage, read_write> memory: array<{REGISTER[dtype]}>;",
        library.fences(facts.rewrites),
    ]
    if "_64(" in functions + main:
        bindings.append(library.fences_64(facts.rewrites))
    return Shader("\n".join([*bindings, functions, main, ""]), (False, True))


class _Records:
    """The code of the functions of one semiring."""

    def __init__(self, text: Text, carrier: str, dtype: str) -> None:
        self.text, self.carrier, self.dtype, self.type = text, carrier, dtype, REGISTER[dtype]

    def write(self, small: bool) -> None:
        self._element()
        head = (f"@compute @workgroup_size({GROUP})\nfn {ENTRY}(@builtin(workgroup_id) at: vec3<u32>, "
                "@builtin(num_workgroups) all: vec3<u32>, @builtin(local_invocation_index) local: u32)")
        with self.text.block(head):
            if small:
                with self.text.block("for (var level = words[0].z; level < words[0].w; level++)"):
                    self._level("level", "local", f"{GROUP}u")
                    self.text.line("storageBarrier();")
            else:
                self._level("words[0].z", f"at.x * {GROUP}u + local", f"all.x * {GROUP}u")

    def _level(self, level: str, first: str, step: str) -> None:
        self.text.line(f"let head = {HEADER}u + {level} * {LEVEL_WORDS}u;")
        with self.text.block(f"for (var k = {first}; k < table[head + 2u]; k += {step})"):
            self._found_record()
            self.text.line("compute(table[list + 2u * low + 1u], k - table[list + 2u * low]);")

    def _found_record(self) -> None:
        """Find the record of an element of a level, the last one that begins at it or before."""
        self.text.line("let list = table[head];")
        self.text.line("var low = 0u;")
        self.text.line("var high = table[head + 1u];")
        with self.text.block("while (high - low > 1u)"):
            self.text.line("let middle = (low + high) / 2u;")
            self.text.line("if (table[list + 2u * middle] <= k) { low = middle; } else { high = middle; }")

    def _element(self) -> None:
        """Write the function that computes one element of a record."""
        line = self.text.line
        with self.text.block("fn compute(record: u32, element: u32)"):
            for k, name in enumerate(("out", "a", "b")):
                line(f"var {name} = table[record + {k}u];")
            for k, name in enumerate(("rank", "extent", "step_a", "step_b", "count"), 3):
                line(f"let {name} = table[record + {k}u];")
            line("var axis = record + 8u;")
            line("let offsets = axis + 4u * rank;")
            line("var rest = element;")
            with self.text.block("for (; axis < offsets; axis += 4u)"):
                line("let above = rest / table[axis];")
                line("let index = rest - above * table[axis];")
                line("rest = above;")
                for k, name in enumerate(("out", "a", "b"), 1):
                    line(f"{name} += index * table[axis + {k}u];")
            if self.carrier == "log":
                self._log_sum()
            else:
                self._sum("total", constant(0, self.type), "add", self._term())
                line("memory[out] = total;")

    def _log_sum(self) -> None:
        line = self.text.line
        self._sum("largest", constant(float("-inf"), self.type), "maximum", self._term())
        is_finite = self._apply("isfinite", "largest")
        with self.text.block(f"if (count * extent == 1u || !{is_finite})"):
            line("memory[out] = largest;")
            line("return;")
        shifted = self._apply("subtract", self._term(), "largest")
        self._sum("total", constant(0, self.type), "add", self._apply("exp", shifted))
        line(f"memory[out] = {self._apply('add', 'largest', self._apply('log', 'total'))};")

    def _sum(self, name: str, first: str, combine: str, term: str) -> None:
        """Write a variable that all terms are combined in, those of each offset first."""
        self.text.line(f"var {name} = {first};")
        with self.text.block("for (var k = 0u; k < count; k++)"):
            self.text.line(f"var part = {first};")
            self.text.line("let from_a = a + table[offsets + 2u * k];")
            self.text.line("let from_b = b + table[offsets + 2u * k + 1u];")
            with self.text.block("for (var i = 0u; i < extent; i++)"):
                self.text.line(f"part = {self._apply(combine, 'part', term)};")
            self.text.line(f"{name} = {self._apply(combine, name, 'part')};")

    def _term(self) -> str:
        operator = "add" if self.carrier == "log" else "multiply"
        return self._apply(operator, "memory[from_a + i * step_a]", "memory[from_b + i * step_b]")

    def _apply(self, operator: str, *args: str) -> str:
        return apply(operator, self.dtype, self.type, args)
