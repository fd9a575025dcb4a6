"""The rules of a valid register program, and the check that finds all violations at once.

`RULES` is the whole list. Where something an instruction needs is wrong itself, what follows from it is not reported.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Any, Final

from jitfuse.base.records import NamedTuple
from jitfuse.errors import VerifyError
from jitfuse.factors.ir.arguments import ARGUMENTS, NO_RESULT, Kind, fits, is_count, written_slot
from jitfuse.factors.ir.schema import Axis, AxisKey, AxisType, Instruction, OpCode, Program, RegID, SlotKey, TensorSpec
from jitfuse.factors.ir.text import key_text, spec_text

RULES: Final = {
    "opcode": "an instruction has one of the nine opcodes",
    "dst": "an instruction that makes a tensor names its register, the others name none",
    "spec": "an instruction that makes a tensor has its spec, the others have none",
    "missing_argument": "every argument of the opcode is given",
    "unknown_argument": "no other argument is given",
    "argument_type": "an argument has the type that its name requires",
    "factor": "a factor that is loaded exists",
    "selector": "a selector that is loaded exists",
    "undefined": "a register is written before it is read or freed",
    "assigned_twice": "a register is written once",
    "read_after_free": "a register is not read once it is freed",
    "freed_twice": "a register is freed once",
    "not_freed": "every register is freed",
    "slot_unwritten": "a slot is written before it is loaded",
    "slot_written_twice": "a slot is written once",
    "slot_spec": "a slot is loaded with the spec that it was written with",
    "cycle": "no instruction waits for itself, through registers or slots",
    "axis": "an axis has an id from 0 on, a kind, and a size from 1 on",
    "axis_twice": "a spec has every axis once",
    "axis_size": "an axis has one size in the whole program",
    "table_spec": "a factor or selector is loaded with its own spec, the same in the whole program",
    "selector_axes": "a selector has two axes, of a variable and of a mode of no more values",
    "new_axis": "CONTRACT makes no axis that none of its inputs has",
    "absent_axis": "ELIMINATE keeps axes that its input has",
    "result_spec": "ELIMINATE leaves the kept axes in the order of its input, NORMALIZE all of them",
}
"""What each code of a finding stands for."""
NO_SLOTS: Final[Mapping[SlotKey, TensorSpec]] = MappingProxyType({})
SCALAR: Final = TensorSpec(())
"""What NORMALIZE keeps of a tensor: one number."""
Tables = int | Sequence[TensorSpec] | None
"""The factors or selectors of a model: how many there are, the spec of each, or any (None)."""


class Finding(NamedTuple):
    """A broken rule: the number of the instruction that shows it, the rule's code, what is wrong."""

    number: int
    code: str
    reason: str


def verify(
    program: Program, *, factors: Tables = None, selectors: Tables = None,
    before: Mapping[SlotKey, TensorSpec] = NO_SLOTS,
) -> tuple[Finding, ...]:
    """Return every broken rule of `RULES`, in the order of instructions; nothing where the program is valid.

    `factors` and `selectors` are how many there are, or the specs that they are loaded with (None: any); `before` the
    slots that other programs have written.

    Example:
        >>> from jitfuse.factors.ir.text import from_text
        >>> verify(from_text("UNIT dst=0 spec=(v3:2)"))
        (Finding(number=0, code='not_freed', reason='register 0 is never freed'),)
    """
    walk = _Walk(program, factors, selectors, before)
    for number, instruction in enumerate(program.instructions):
        walk.step(number, instruction)
    walk.end()
    return tuple(sorted(walk.findings, key=lambda finding: finding.number))


def check(
    program: Program, *, factors: Tables = None, selectors: Tables = None,
    before: Mapping[SlotKey, TensorSpec] = NO_SLOTS,
) -> None:
    """Raise VerifyError with all that `verify` finds; the arguments are those of `verify`."""
    found = verify(program, factors=factors, selectors=selectors, before=before)
    if found:
        raise VerifyError(tuple(f"[{n}] {code}: {reason}" for n, code, reason in found), "the register program")


class _Walk:
    """What is known of registers and slots before the instruction that is looked at; a spec of None is unknown."""

    def __init__(
        self, program: Program, factors: Tables, selectors: Tables, before: Mapping[SlotKey, TensorSpec]
    ) -> None:
        self.findings: list[Finding] = []
        self.counts: dict[OpCode, int] = {}
        self.tables: dict[tuple[OpCode, int], TensorSpec] = {}
        for op, given in ((OpCode.LOAD_FACTOR, factors), (OpCode.LOAD_SELECTOR, selectors)):
            if given is not None:
                self.counts[op] = given if isinstance(given, int) else len(given)
            if not isinstance(given, int | None):
                self.tables |= {(op, index): spec for index, spec in enumerate(given)}
        self.number = 0
        self.registers: dict[RegID, TensorSpec | None] = {}
        self.freed: dict[RegID, int] = {}
        self.slots: dict[SlotKey, TensorSpec | None] = {**before}
        self.sizes = {axis.key: axis.size for spec in before.values() for axis in spec.axes}
        self.waits: dict[int, set[int]] = {}
        """For each instruction, those that write what it reads."""
        self.makers: dict[RegID | SlotKey, int] = {}
        """Which instruction writes a register or slot, the later ones included."""
        for number, instruction in enumerate(program.instructions):
            for made in _made(instruction):
                self.makers.setdefault(made, number)

    def note(self, code: str, reason: str) -> None:
        assert code in RULES, code
        self.findings.append(Finding(self.number, code, reason))

    def step(self, number: int, instruction: Instruction) -> None:
        """Look at one instruction."""
        self.number = number
        if type(instruction.op) is not OpCode:
            self.note("opcode", f"{instruction.op!r} is no opcode")
            return
        args, spec = self.arguments(instruction), self.spec(instruction)
        self.read((args["src"],) if "src" in args else args.get("inputs", ()))
        self.table(instruction.op, args, spec)
        self.result(instruction.op, args, spec)
        self.slot(instruction.op, args, spec)
        self.free(args.get("srcs", ()))
        self.write(instruction, spec)

    def arguments(self, instruction: Instruction) -> dict[str, Any]:
        """Return the arguments that are as they should be."""
        op, given = instruction.op, instruction.args
        for name in given:
            if name not in ARGUMENTS[op]:
                self.note("unknown_argument", f"{op.name} has no argument {name}")
        sound = {}
        for name, kind in ARGUMENTS[op].items():
            if name not in given:
                self.note("missing_argument", f"{op.name} needs {name}")
            elif not fits(kind, given[name]):
                self.note("argument_type", f"{name} is {given[name]!r}, and should be {kind.value}")
            else:
                sound[name] = given[name]
        return sound

    def spec(self, instruction: Instruction) -> TensorSpec | None:
        """Return the spec of an instruction where it can be worked with."""
        spec, wanted = instruction.spec, instruction.op not in NO_RESULT
        if not wanted or type(spec) is not TensorSpec:
            if wanted or spec is not None:
                shown = spec_text(spec) if type(spec) is TensorSpec else repr(spec)
                self.note("spec", f"{instruction.op.name} {'needs a spec' if wanted else 'has no spec'}, not {shown}")
            return None
        wrong = [axis for axis in spec.axes if not _is_sound(axis)]
        if wrong:
            for axis in wrong:
                self.note("axis", f"{axis!r} is no axis")
            return None
        for axis in spec.axes:
            if self.sizes.setdefault(axis.key, axis.size) != axis.size:
                self.note("axis_size", f"{key_text(axis.key)} has {axis.size} states, elsewhere {self.sizes[axis.key]}")
        if len(set(spec.keys)) == len(spec.keys):
            return spec
        self.note("axis_twice", f"{spec_text(spec)} has an axis twice")
        return None

    def read(self, registers: Iterable[RegID]) -> None:
        """Look at the registers that an instruction reads."""
        for register in dict.fromkeys(registers):
            if register in self.makers:
                self.waits.setdefault(self.number, set()).add(self.makers[register])
            if register in self.freed:
                self.note("read_after_free", f"register {register} is read, and [{self.freed[register]}] has freed it")
            else:
                self.defined(register, "read")

    def defined(self, register: RegID, used: str) -> bool:
        if register in self.registers:
            return True
        later = self.makers.get(register)
        who = "no instruction" if later is None else f"only [{later}]"
        self.note("undefined", f"register {register} is {used} here, but {who} writes it")
        return False

    def table(self, op: OpCode, args: Mapping[str, Any], spec: TensorSpec | None) -> None:
        """Look at what is loaded of the model."""
        for code in ("factor", "selector"):
            if (index := args.get(f"{code}_id")) is None:
                continue
            if index >= self.counts.get(op, index + 1):
                self.note(code, f"there is no {code} {index}: there are {self.counts[op]}")
            if spec is not None and (known := self.tables.setdefault((op, index), spec)) != spec:
                self.note("table_spec", f"{code} {index} is {spec_text(known)}, not {spec_text(spec)}")
        if op is OpCode.LOAD_SELECTOR and spec is not None:
            sizes = {axis.kind: axis.size for axis in spec.axes}
            if (spec.ndim, len(sizes)) != (2, 2) or sizes[AxisType.TOPOLOGICAL] > sizes[AxisType.GEOMETRIC]:
                self.note("selector_axes", f"{spec_text(spec)} is not a variable and a mode of no more values")

    def result(self, op: OpCode, args: Mapping[str, Any], spec: TensorSpec | None) -> None:
        """Compare the spec of what is made with those of what it is made of."""
        if op is OpCode.CONTRACT and spec is not None and "inputs" in args:
            inputs = [self.registers.get(register) for register in args["inputs"]]
            known = {key for source in inputs if source is not None for key in source.keys}
            if None not in inputs and (new := [key for key in spec.keys if key not in known]):
                self.note("new_axis", f"no input has {_listed(new)}")
        source = self.registers.get(args["src"]) if "src" in args else None
        if source is None or not (op is OpCode.NORMALIZE or (op is OpCode.ELIMINATE and "keep_keys" in args)):
            return
        kept = args.get("keep_keys", source.keys)
        if absent := [key for key in kept if not source.has_key(key)]:
            self.note("absent_axis", f"register {args['src']} of {spec_text(source)} has no {_listed(absent)}")
        elif spec is not None and spec != (wanted := source.subset(kept)):
            self.note("result_spec", f"the result is {spec_text(wanted)}, not {spec_text(spec)}")

    def slot(self, op: OpCode, args: Mapping[str, Any], spec: TensorSpec | None) -> None:
        """Look at the slot that is loaded or written."""
        key = args.get("scale", args.get("slot"))
        if key is None:
            return
        if op is not OpCode.LOAD_SLOT:
            if key in self.slots:
                self.note("slot_written_twice", f"slot {key} is written already")
            source = SCALAR if op is OpCode.NORMALIZE else self.registers.get(args.get("src", -1))
            self.slots.setdefault(key, source)
            return
        if key in self.makers:
            self.waits.setdefault(self.number, set()).add(self.makers[key])
        if key not in self.slots:
            self.note("slot_unwritten", f"slot {key} is loaded before it is written")
        elif spec is not None and self.slots[key] not in (None, spec):
            self.note("slot_spec", f"slot {key} was written with another spec than {spec_text(spec)}")

    def free(self, registers: Iterable[RegID]) -> None:
        """Look at the registers that FREE gives back."""
        for register in registers:
            if register in self.freed:
                self.note("freed_twice", f"[{self.freed[register]}] has freed register {register}")
            elif self.defined(register, "freed"):
                self.freed[register] = self.number

    def write(self, instruction: Instruction, spec: TensorSpec | None) -> None:
        """Look at the register that an instruction writes."""
        dst, wanted = instruction.dst, instruction.op not in NO_RESULT
        if wanted != is_count(dst) or (not wanted and dst is not None):
            held = "a register, a number from 0 on" if wanted else "None"
            self.note("dst", f"{instruction.op.name} has {dst!r} as dst, which should be {held}")
        elif dst is not None:
            if dst in self.registers:
                self.note("assigned_twice", f"[{self.makers[dst]}] writes register {dst} already")
            self.registers.setdefault(dst, spec)

    def end(self) -> None:
        """Look at what is left when all instructions have run."""
        for register in self.registers:
            if register not in self.freed:
                self.number = self.makers[register]
                self.note("not_freed", f"register {register} is never freed")
        for cycle in _cycles(self.waits):
            self.number = cycle[0]
            self.note("cycle", f"instructions {', '.join(f'[{n}]' for n in cycle)} wait for their own results")


def _made(instruction: Instruction) -> Iterator[RegID | SlotKey]:
    """Yield the register and the slot that an instruction writes, where it names them soundly."""
    if is_count(instruction.dst):
        yield instruction.dst
    key = written_slot(instruction)
    if fits(Kind.SLOT, key):
        yield key


def _is_sound(axis: Any) -> bool:
    return (type(axis) is Axis and type(axis.kind) is AxisType and is_count(axis.id) and is_count(axis.size)
            and axis.size > 0)


def _listed(keys: Iterable[AxisKey]) -> str:
    return ", ".join(map(key_text, keys))


def _cycles(waits: Mapping[int, set[int]]) -> Iterator[list[int]]:
    """Yield cycles that share no instruction until none is left."""
    if all(maker < number for number, makers in waits.items() for maker in makers):
        return
    left = dict(waits)
    while True:
        try:
            TopologicalSorter(left).prepare()
            return
        except CycleError as error:
            cycle = sorted(set(error.args[1]))
            yield cycle
            left = {number: makers for number, makers in left.items() if number not in cycle}
