"""The body of an exported function: arguments, steps under their modes, copies, writes, and the return.

Owns which values share memory and are copied before they are returned. Does not own single calls (`calls`), the tree of
results (`results`), or the module around the function (`module`), all in `jitfuse.exporting`.
"""
from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jitfuse.errors import ArgumentError, UnsupportedError
from jitfuse.exporting import checks
from jitfuse.exporting.calls import OperandText, call
from jitfuse.exporting.definitions import Definitions
from jitfuse.exporting.layout import INDENT, WIDTH, lay_out
from jitfuse.exporting.literals import dtype_expression, literal
from jitfuse.exporting.names import argument_names, unused, value_names
from jitfuse.exporting.results import Argument, Constant, FeedWindow, Leaf, Structure, expression
from jitfuse.ir.analysis.liveness import inputs_in_mode, live_steps, looks_at_mode
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, OpStep

_IN_NEW_MEMORY: Final = frozenset({
    ops.ELEMENTWISE, ops.REDUCTION, ops.SCAN, ops.LIBRARY, ops.UPDATE, ops.CREATION,
    "matmul", "random_uniform", "random_advance",
})
"""Kinds and names of operators whose references return new memory; all others may return a view."""
_WRITABLE_VIEWS: Final = frozenset({"slice", "reshape", "transpose"})
_NUMBERS: Final = {"bool": "bool", "int64": "int", "uint64": "int", "float64": "float", "complex128": "complex"}
_BOTH: Final = "both"


class FunctionWriter:
    """Writes the statements of one program's function; `indent` is the indentation of its body."""

    def __init__(
        self, program: FusedProgram, arguments: Mapping[int, str], taken: set[str], definitions: Definitions,
        indent: str = INDENT,
    ) -> None:
        self.program = program
        self.indent = indent
        self.arguments = arguments
        self.names: dict[int, str] = {**value_names(program, taken), **arguments}
        self.taken = taken
        self.definitions = definitions
        self.structures: dict[type, Structure] = {}
        self.live = {mode: {s.step_id for s in live_steps(program, mode)} for mode in (False, True)}
        self.steps = [s for s in program.steps if s.step_id in self.live[False] | self.live[True]]
        self.literals = {s.result_id: self._literal(s) for s in self.steps if _is_number(s, program)}
        moved = any(not program.is_random_state(f) for f in program.state_out)
        self.has_modes = moved or looks_at_mode(program)
        self.roots = self._roots()

    def _literal(self, step: OpStep) -> ast.expr:
        op = ops.get(step.op_name)
        assert op is not None
        return literal(op.numpy(**step.attr_dict))

    # ------------------------------------------------------------------ arguments
    def checks(self, tree: Any, fixed: Mapping[int, Any]) -> Iterator[str]:
        """Yield the statements that check the arguments; arguments of rank 0 are rebound as numbers."""
        handed_out = {leaf.feed for leaf in _leaves(tree) if isinstance(leaf, Argument)}
        handed_out |= {i for i in self.program.outputs.values() if i in self.program.feeds}
        windows = {leaf.feed: leaf.base for leaf in _leaves(tree) if isinstance(leaf, FeedWindow)}
        arrays = {*self.program.writes, *windows}
        for feed, name in self.arguments.items():
            meta = self.program.meta[feed]
            quoted = ast.Constant(name)
            if meta.shape or feed in arrays:
                expected = [ast.Name(name), quoted, literal(meta.shape), ast.Constant(meta.dtype)]
                yield from self._statement("", self._helper("check_array", expected))
            if not meta.shape:
                kept = unused(f"{name}_value", self.taken) if feed in handed_out | arrays else name
                helper, kind = ("as_number", ast.Name(_NUMBERS[meta.dtype])) if meta.weak else (
                    "as_scalar", ast.Constant(meta.dtype))
                yield from self._statement(f"{kept} = ", self._helper(helper, [ast.Name(name), quoted, kind]))
                self.names[feed] = kept
            if feed in fixed:
                expected = [self._value(feed), quoted, literal(fixed[feed])]
                yield from self._statement("", self._helper("check_value", expected))
            if feed in windows:
                yield from self._statement(
                    "", self._helper("check_strides", [ast.Name(name), quoted, literal(windows[feed])]))

    def _helper(self, name: str, args: list[ast.expr]) -> ast.Call:
        return ast.Call(self.definitions.function(getattr(checks, name), name), args, [])

    # ------------------------------------------------------------------ steps
    def statements(self) -> Iterator[str]:
        """Yield the steps, each under the user's source line; those of a single mode are under an `if`."""
        written = [s for s in self.steps if s.result_id not in self.literals]
        for mode, steps in itertools.groupby(written, self._mode):
            indent = self.indent
            if mode != _BOTH:
                yield f"{indent}if {mode}:"
                indent += INDENT
            where = None
            for step in steps:
                source_line = self.program.sources.get(step.step_id)
                if source_line is not None and source_line != where:
                    yield f"{indent}# {_printable(source_line)}"
                where = source_line
                held = {}
                for name, value in step.attrs:
                    if isinstance(value, FusedProgram):
                        held[name] = unused(f"{name}_{step.result_id}", self.taken)
                        yield from self._function(held[name], value, indent)
                op = ops.get(step.op_name)
                targets = ", ".join(self.names[i] for i in step.result_ids)
                comma = "," * (op is not None and op.is_of_many and len(step.result_ids) == 1)
                yield from lay_out(f"{targets}{comma} = ", self._call(step, held), indent=indent)

    def _function(self, name: str, program: FusedProgram, indent: str) -> Iterator[str]:
        """Yield the function of a program in a step's attribute, and the metadata of its results."""
        taken = set(self.taken)
        arguments = argument_names(program, {}, taken)
        inner = indent + INDENT
        body = FunctionWriter(program, arguments, taken, self.definitions, inner)
        results = [body.result(i) for i in program.outputs.values()]
        metas = [program.meta[i] for i in program.outputs.values()]
        line = f"{indent}def {name}({', '.join(arguments.values())}):"
        broken = [f"{indent}def {name}(", *(f"{inner}{argument}," for argument in arguments.values()), f"{indent}):"]
        yield from [line] if len(line) <= WIDTH else broken
        yield from body.statements()
        yield from lay_out("return ", ast.Tuple(results, ast.Load()), indent=inner)
        metas_ = literal([(meta.shape, meta.dtype) for meta in metas])
        yield from lay_out(f"{name}.results = ", metas_, indent=indent)

    def result(self, i: int) -> ast.expr:
        """Return a value as a strong one, as the programs in steps return it."""
        meta, value = self.program.meta[i], self._value(i)
        return ast.Call(dtype_expression(meta.dtype), [value], []) if meta.weak else value

    def _mode(self, step: OpStep) -> str:
        in_training, in_evaluation = (step.step_id in self.live[mode] for mode in (True, False))
        return _BOTH if in_training and in_evaluation else "training" if in_training else "not training"

    def _call(self, step: OpStep, held: Mapping[str, str]) -> ast.expr:
        """Return the call of a step's operator; `held` names the functions of the programs in its attributes."""
        op = ops.get(step.op_name)
        assert op is not None
        if op.name == "mode_select":
            first, second = (self._value(i) for i in step.input_ids)
            return ast.IfExp(ast.Name("training"), first, second)
        operands = [OperandText(self._value(i), self.program.meta[i]) for i in step.input_ids]
        attrs: dict[str, Any] = {**op.check_attrs(step.attr_dict), **{k: ast.Name(name) for k, name in held.items()}}
        if op.mode_sensitive:
            attrs["training"] = ast.Name("training")
        if op.name == "constant":
            try:
                return literal(op.numpy(**attrs))
            except UnsupportedError:  # long arrays are written as bytes
                pass
        return call(op, operands, attrs, self.program.meta[step.result_id], self.definitions)

    def _value(self, i: int) -> ast.expr:
        return self.literals.get(i) or ast.Name(self.names[i])

    # ------------------------------------------------------------------ results
    def delivery(self, tree: Any) -> Iterator[str]:
        """Yield copies of values that share memory, then the writes, then the return."""
        program = self.program
        taken: set[int] = set(program.feeds)
        ready: dict[tuple[int, str], ast.expr] = {}
        copies: list[str] = []

        def hand_out(i: int, kind: str) -> ast.expr:
            if i in program.feeds and not kind:
                return ast.Name(self.arguments[i])
            if (i, kind) not in ready:
                made = self._delivered(i, kind, taken)
                taken.update(self.roots[i])
                if isinstance(made, ast.Call) and i not in self.literals:  # a new object, made once
                    name = unused(f"{self.names[i]}_{kind or 'copy'}", self.taken)
                    copies.extend(self._statement(f"{name} = ", made))
                    made = ast.Name(name)
                ready[i, kind] = made
            return ready[i, kind]

        result = expression(tree, lambda leaf: self._leaf(leaf, hand_out), self.structures)
        state = {feed: self._new_state(feed, new, hand_out) for feed, new in program.state_out.items()}
        writes = [(feed, self._written(feed, new, hand_out)) for feed, new in program.writes.items()]
        yield from copies
        for feed, value in writes:
            yield from self._statement(f"{self.arguments[feed]}[...] = ", value)
        if state:
            keys: list[ast.expr | None] = [ast.Constant(self.arguments[f]) for f in state]
            result = ast.Tuple([result, ast.Dict(keys, list(state.values()))], ast.Load())
        yield from self._statement("return ", result)

    def _leaf(self, leaf: Leaf, hand_out: Any) -> ast.expr:
        if isinstance(leaf, Constant):
            return literal(leaf.value)
        if isinstance(leaf, Argument):
            return ast.Name(self.arguments[leaf.feed])
        if isinstance(leaf, FeedWindow):
            where = [literal(leaf.offset), literal(leaf.shape), literal(leaf.strides)]
            return self._helper("window", [ast.Name(self.arguments[leaf.feed]), *where])
        i = self.program.outputs.get(leaf.path)
        if i is None:
            raise ArgumentError(f"the program has no output {leaf.path!r}")
        return hand_out(i, leaf.kind)  # type: ignore[no-any-return]

    def _new_state(self, feed: int, new: int, hand_out: Any) -> ast.expr:
        value = hand_out(new, "")
        if self.program.is_random_state(feed):
            return value  # type: ignore[no-any-return]
        return ast.IfExp(ast.Name("training"), value, ast.Name(self.arguments[feed]))

    def _written(self, feed: int, new: int, hand_out: Any) -> ast.expr:
        if self.roots.get(new) == {feed}:  # NumPy handles the overlap within one array
            return self._value(new)
        return hand_out(new, "")  # type: ignore[no-any-return]

    def _delivered(self, i: int, kind: str, taken: set[int]) -> ast.expr:
        meta, value = self.program.meta[i], self._value(i)
        if meta.shape:
            shared = not self.roots[i].isdisjoint(taken) or not self._is_writable(i)
            return _np("array", value) if shared else value
        if kind == "array":
            return _np("array", value)  # copies read-only views too
        if kind == "python":
            return value if meta.weak else ast.Call(ast.Attribute(value, "item"), [], [])
        if meta.weak:
            return value if not kind else ast.Call(dtype_expression(meta.dtype), [value], [])
        return value if i in self.literals else ast.Subscript(value, ast.Tuple([], ast.Load()))

    # ------------------------------------------------------------------ memory
    def _roots(self) -> dict[int, set[int]]:
        """Return for each value the values whose memory it may share; with memory of its own, only itself."""
        roots: dict[int, set[int]] = {feed: {feed} for feed in self.program.feeds}
        for step in self.steps:
            op = ops.get(step.op_name)
            assert op is not None
            fresh = op.kind in _IN_NEW_MEMORY or op.name in _IN_NEW_MEMORY
            read = {i for mode in (False, True) for i in inputs_in_mode(step, mode)}
            for made in step.result_ids:
                alike = [i for i in read if self.program.meta[i].dtype == self.program.meta[made].dtype]
                roots[made] = {made} if fresh else set().union(*(roots.get(i, {i}) for i in alike))
        return roots

    def _is_writable(self, i: int) -> bool:
        """Return whether the array in the exported source is writable; views of NumPy scalars are not."""
        if not self.program.meta[i].shape:
            return False
        step = self.program.producers[i]
        if self.roots[i] == {i}:
            return True
        return step.op_name in _WRITABLE_VIEWS and all(self._is_writable(k) for k in step.input_ids if k in self.roots)

    def _statement(self, prefix: str, node: ast.expr) -> list[str]:
        return lay_out(prefix, node, indent=self.indent)


def _np(name: str, value: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name("np"), name), [value], [])


def _is_number(step: OpStep, program: FusedProgram) -> bool:
    """Return whether a step makes a known number, which is written as a literal wherever it is used."""
    op = ops.get(step.op_name)
    return op is not None and op.kind == ops.CREATION and not program.meta[step.result_id].shape and len(
        step.result_ids) == 1 and step.op_name in ("full", "extent")


def _leaves(tree: Any) -> Iterator[Leaf]:
    if isinstance(tree, Leaf):
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from _leaves(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from _leaves(value)
    elif hasattr(tree, "__dataclass_fields__"):
        for name in tree.__dataclass_fields__:
            yield from _leaves(getattr(tree, name))


def _printable(text: str) -> str:
    plain = "".join(c if c.isprintable() else "?" for c in text)
    return plain if len(plain) <= 100 else f"...{plain[-97:]}"
