"""Writes the instructions of stage bodies.

Owns: values by number and their register types, the addresses of loads and stores, kept rows, indices. Does not
own loops over inner elements.
"""
from __future__ import annotations

from collections.abc import Sequence

from jitfuse.backends.wgsl.codegen import memory
from jitfuse.backends.wgsl.codegen.analysis import INNER, POINT, ShaderAnalysis
from jitfuse.backends.wgsl.codegen.casts import astype, converted
from jitfuse.backends.wgsl.codegen.host_values import HostValues
from jitfuse.backends.wgsl.codegen.operators import (
    UnknownOperatorError,
    apply,
    constant,
    needs_float64,
    power_by_constant,
)
from jitfuse.backends.wgsl.codegen.text import Text
from jitfuse.backends.wgsl.codegen.types import FLOATS, PAIR, REGISTER, Facts
from jitfuse.backends.wgsl.codegen.variant import Variant
from jitfuse.backends.wgsl.codegen.words import WordTable
from jitfuse.dtypes import itemsize
from jitfuse.ir.kernels.stages import Instr
from jitfuse.ir.kernels.values import access

Numbered = Sequence[tuple[int, Instr]]


class ShaderBody:
    """The values of a kernel under construction, and the methods that write more of them."""

    def __init__(self, text: Text, analysis: ShaderAnalysis, variant: Variant, facts: Facts) -> None:
        self.text = text
        self.analysis = analysis
        self.form = analysis.form
        self.variant = variant
        self.words = WordTable(self.form)
        self.host = HostValues(self.form, variant.inline)
        self.facts = facts
        self.names: dict[int, str] = {}
        self.types = [self._type(n, facts) for n in range(len(self.form.instructions))]
        self.positions: dict[int, str] = {}
        self._scans: dict[int, str] = {}
        self.element = "0u"
        """The position in the row of inner elements."""

    # ------------------------------------------------------------------ types
    def _type(self, number: int, facts: Facts) -> str:
        maker = self.form.instructions[number]
        dtype = maker.dtype if isinstance(maker, Instr) else maker.result_dtype
        if number in self.host.unread:
            return REGISTER.get(dtype, "u32")
        if dtype not in REGISTER:
            raise UnknownOperatorError(f"{dtype} has no WGSL version")
        if number in self.variant.narrow:
            return "i32"
        if dtype == "int64" and isinstance(maker, Instr) and maker.op == "load" and self._only_random(number):
            return PAIR
        missing = facts.missing(REGISTER[dtype])
        if missing and not (isinstance(maker, Instr) and maker.op == "store" and self._is_narrow(maker)):
            raise UnknownOperatorError(f"{dtype} needs {' and '.join(missing)}")
        return REGISTER[dtype]

    def _is_narrow(self, store: Instr) -> bool:
        return all(number in self.variant.narrow for number in self._stored(store))

    def _stored(self, store: Instr) -> tuple[int, ...]:
        """Return the numbers of the values that a store writes: one for each element of a cell."""
        return store.args[: self.form.operands[access(store).operand].cell]

    def _only_random(self, number: int) -> bool:
        readers = self.analysis.consumers.get(number, [])
        return bool(readers) and all(isinstance(r, Instr) and r.op == "random" for r in readers)

    def value(self, number: int, type_: str | None = None) -> str:
        """Return a value as an expression, in a register type of its dtype."""
        name = self.names[number]
        return name if type_ is None else converted(name, self.types[number], type_)

    def define(self, number: int, name: str) -> None:
        """Name a value that was computed elsewhere, such as a reduction's result."""
        self.names[number] = name

    # ------------------------------------------------------------------ bodies
    def hoist(self, body: Numbered) -> None:
        """Write the instructions of a body that are the same for all inner elements."""
        self._write_all(body, POINT)

    def run(self, body: Numbered, *, effects: bool = True) -> None:
        """Write the instructions of a body that belong to one inner element; stores only with `effects`."""
        chosen = [(n, i) for n, i in body if effects or i.op not in ("store", "keep")]
        self._write_all(chosen, INNER)

    def _write_all(self, body: Numbered, level: int) -> None:
        for number, instr in body:
            if self.analysis.levels[number] == level and number not in self.host.unread:
                self._write(number, instr)

    def _write(self, number: int, instr: Instr) -> None:
        if instr.op == "store":
            self._store(instr)
        elif instr.op == "keep":
            self._keep(instr)
        elif instr.op == "load" and access(instr).mask:
            self._masked_load(number, instr)
        else:
            expression = self._expression(number, instr)
            name = self.text.fresh(f"v{number}")
            self.text.line(f"let {name} = {expression};")
            self.names[number] = name

    def _expression(self, number: int, instr: Instr) -> str:
        type_ = self.types[number]
        if number in self.host.words:
            return self.words.scalar(self.form.words.count + self.host.words.index(number), instr.dtype, type_)
        if instr.op == "param":
            return self.words.scalar(self.words.param(instr.imm), instr.dtype, type_)
        if instr.op == "const":
            return constant(instr.imm, type_)
        if instr.op == "index":
            return f"{type_}({self.positions[instr.imm]})"
        if instr.op == "load":
            return self._load(number, instr)
        if instr.op == "kept":
            return self._kept(instr)
        if instr.op == "random":
            return self._random(instr)
        if instr.op == "scan":
            return self._scan(number, instr)
        if instr.op == "astype":
            (a,) = instr.args
            source = self.form.instructions[a].dtype
            if source == instr.dtype:
                return self.value(a, type_)
            return astype(self.value(a), source, self.types[a], instr.dtype, type_)
        if instr.op == "where":
            condition, *choices = instr.args
            chosen, other = (self.value(c, type_) for c in choices)
            return f"select({other}, {chosen}, {self.value(condition)})"
        return self._operator(instr, type_)

    def _operator(self, instr: Instr, result_type: str) -> str:
        dtype = self.form.instructions[instr.args[0]].dtype
        types = {self.types[a] for a in instr.args}
        type_ = types.pop() if len(types) == 1 else REGISTER[dtype]
        if instr.dtype == dtype and result_type != type_:
            type_ = result_type
        args = [self.value(a, type_) for a in instr.args]
        if needs_float64(instr.op, type_) and self.facts.missing("f64"):
            raise UnknownOperatorError(f"{instr.op} of {dtype} needs {' and '.join(self.facts.missing('f64'))}")
        if instr.op == "power":
            return self._power(instr, dtype, type_, args)
        return apply(instr.op, dtype, type_, args)

    def _power(self, instr: Instr, dtype: str, type_: str, args: Sequence[str]) -> str:
        exponent = self.form.instructions[instr.args[1]]
        if isinstance(exponent, Instr) and exponent.op == "const":
            simple = power_by_constant(args[0], dtype, type_, exponent.imm)
            if simple is not None:
                return simple
        if type_ not in FLOATS:
            raise UnknownOperatorError("integers to run-time powers, which may have to raise, have no WGSL version")
        return apply("power", dtype, type_, args)

    def open_scan(self, number: int) -> None:
        """Declare the value that a scan carries from one inner point to the next."""
        type_ = REGISTER[self.form.instructions[number].dtype]
        name = self._scans[number] = self.text.fresh("carried")
        self.text.line(f"var {name}: {type_} = {constant(0, type_)};")

    def _scan(self, number: int, instr: Instr) -> str:
        name, type_ = self._scans[number], REGISTER[instr.dtype]
        x = self.value(instr.args[0], type_)
        op = {"sum": "add", "prod": "multiply", "min": "minimum", "max": "maximum"}[instr.imm]
        joined = apply(op, instr.dtype, type_, [name, x])
        with self.text.block(f"if ({self.element} == 0u)"):
            self.text.line(f"{name} = {x};")
        with self.text.block("else"):
            self.text.line(f"{name} = {joined};")
        return name

    def _random(self, instr: Instr) -> str:
        seed, counter, index, element = (self.value(a, PAIR) for a in instr.args)
        return f"jf_uniform_{REGISTER[instr.dtype]}(jf_philox({seed}, ({counter}).x, ({index}).x, {element}))"

    # ------------------------------------------------------------------ memory
    def buffer(self, operand: int) -> str:
        """Return the variable that holds an operand."""
        return f"b{self.variant.bindings[operand]}"

    def address(self, operand: int, instr: Instr | None = None) -> str:
        """Return the byte address of an operand at the current grid point and inner element."""
        parts = [f"a{operand}"]
        strides = self.form.operands[operand].strides
        for axis in range(len(self.form.grid), len(self.form.axes)):
            if strides[axis] != "0" and axis in self.positions:
                parts.append(f"{self.positions[axis]} * {self.stride(operand, axis)}")
        if instr is not None and access(instr).offset:
            offset = instr.args[len(self._stored(instr)) if instr.op == "store" else 0]
            parts.append(f"bitcast<u32>(i32({self.value(offset)}))")
        return f"({' + '.join(parts)})" if len(parts) > 1 else parts[0]

    def stride(self, operand: int, axis: int) -> str:
        """Return the byte stride of an operand along an axis, modulo 2**32."""
        declared = self.form.operands[operand]
        distance = declared.element_distance(axis)
        return f"s{operand}_{axis}" if distance is None else f"{distance * itemsize(declared.dtype)}u"

    def _load(self, number: int, instr: Instr) -> str:
        o = access(instr).operand
        if o in self.variant.inline:
            return self.words.scalar(o, instr.dtype, self.types[number])
        at = self.text.fresh("at")
        self.text.line(f"let {at} = {self.address(o, instr)};")
        return memory.load(self.buffer(o), at, instr.dtype, self.types[number])

    def _masked_load(self, number: int, instr: Instr) -> None:
        name, type_ = self.text.fresh(f"v{number}"), self.types[number]
        nothing = "vec2<u32>(0u, 0u)" if type_ == PAIR else constant(0, type_)
        self.text.line(f"var {name} = {nothing};")
        with self.text.block(f"if ({self.value(instr.args[-1])})"):
            self.text.line(f"{name} = {self._load(number, instr)};")
        self.names[number] = name

    def _store(self, instr: Instr) -> None:
        o = access(instr).operand
        statements = self._store_statements(o, instr)
        if access(instr).mask:
            with self.text.block(f"if ({self.value(instr.args[-1])})"):
                for s in statements:
                    self.text.line(s)
            return
        for s in statements:
            self.text.line(s)

    def _store_statements(self, o: int, instr: Instr) -> list[str]:
        at = self.text.fresh("at")
        statements = [f"let {at} = {self.address(o, instr)};"]
        for k, value in enumerate(self._stored(instr)):
            there = f"({at} + {k * itemsize(instr.dtype)}u)" if k else at
            statements += memory.store(self.buffer(o), there, instr.dtype, self.value(value), self.types[value])
        return statements

    # ------------------------------------------------------------------ kept rows
    def slot(self, row: int) -> str:
        """Return the index of the current element in a kept row."""
        return f"k{row}[point * words[0].z + {self.element}]"

    def _keep(self, instr: Instr) -> None:
        dtype = self.form.keeps[instr.imm]
        value = self.value(instr.args[0], REGISTER[dtype])
        kept = f"select(0u, 1u, {value})" if dtype == "bool" else value
        self.text.line(f"{self.slot(instr.imm)} = {kept};")

    def _kept(self, instr: Instr) -> str:
        slot = self.slot(instr.imm)
        return f"({slot} != 0u)" if self.form.keeps[instr.imm] == "bool" else slot
