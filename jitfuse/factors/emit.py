"""Register programs of a tree: upward, downward and finalize.

The three are those of exact belief propagation: messages to the root, messages from the root and beliefs, the partition
function. They hold no values, and serve every semiring.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final

from jitfuse.factors.ir.schema import (
    PARTITION,
    Axis,
    Instruction,
    OpCode,
    Program,
    RegID,
    SlotKey,
    TensorSpec,
    belief,
    marginal,
    message,
    mode,
    scale,
    variable,
)
from jitfuse.factors.marginals import Marginals
from jitfuse.factors.structure import Structure
from jitfuse.factors.tree import NO_PARENT, Node, Tree

Modes = Mapping[int, int]
NO_MODES: Final[Modes] = {}
MOST_INPUTS: Final = 4
"""Registers that one instruction multiplies."""
LARGER: Final = 16
"""How many times the elements of small tensors large ones have, at least."""
SMALL: Final = 1 << 12
"""Elements of a product up to which all its registers are multiplied at once."""


class Emitter:
    """Instructions as they are written: registers are numbered, and known by the axes of what they hold.

    Axes are in the one order that the tree gives them.

    `modes` are the sizes of the modes of variables that are conditioned on. A mode has the number of its variable.
    """

    def __init__(self, structure: Structure, tree: Tree, modes: Modes = NO_MODES) -> None:
        self.structure, self.tree, self.modes = structure, tree, modes
        self.instructions: list[Instruction] = []
        self.specs: dict[RegID, TensorSpec] = {}
        self._orders: dict[tuple[int, ...], TensorSpec] = {}
        self._variables: dict[int, Axis] = {}
        self.slots: dict[SlotKey, TensorSpec] = {}
        self.held: list[RegID] = []

    def spec(self, variables: Iterable[int]) -> TensorSpec:
        """Return the axes of variables."""
        return self._in_order(tuple(sorted(variables, key=self.tree.axes.__getitem__)))

    def _in_order(self, variables: tuple[int, ...]) -> TensorSpec:
        """Return the axes of variables in this order; the same object each time."""
        found = self._orders.get(variables)
        if found is None:
            found = self._orders[variables] = TensorSpec(tuple([self.axis(v) for v in variables]))
        return found

    def axis(self, v: int) -> Axis:
        """Return the axis that stands for a variable behind the loads of factors: its mode's, if it has one."""
        return mode(v, self.modes[v]) if v in self.modes else self.variable(v)

    def variable(self, v: int) -> Axis:
        """Return the axis of a variable."""
        found = self._variables.get(v)
        if found is None:
            found = self._variables[v] = variable(v, self.structure.sizes[v])
        return found

    def write(self, op: OpCode, spec: TensorSpec, **args: Any) -> RegID:
        """Append an instruction that makes a register, and return it."""
        register = len(self.specs)
        self.specs[register] = spec
        self.held.append(register)
        self.instructions.append(Instruction(op, register, args, spec))
        return register

    def store(self, slot: SlotKey, register: RegID) -> None:
        """Append what keeps a register under a key."""
        self.slots[slot] = self.specs[register]
        self.instructions.append(Instruction(OpCode.STORE_SLOT, None, {"slot": slot, "src": register}))

    def free(self) -> None:
        """Append what gives back all registers since the last time."""
        if self.held:
            self.instructions.append(Instruction(OpCode.FREE, None, {"srcs": tuple(self.held)}))
        self.held = []

    def load_factor(self, factor: int) -> RegID:
        """Append the load of a factor: its axes are in the order of its scope, as it lies in memory.

        Selectors take its elements at the values of the modes, whose axes are then those of the conditioned variables.
        """
        scope = self.structure.scopes[factor]
        if not self.modes:
            return self.write(OpCode.LOAD_FACTOR, self._in_order(scope), factor_id=factor)
        axes = tuple([self.variable(v) for v in scope])
        register = self.write(OpCode.LOAD_FACTOR, TensorSpec(axes), factor_id=factor)
        chosen = [self.write(OpCode.LOAD_SELECTOR, TensorSpec((axis, self.axis(axis.id))), selector_id=number)
                  for number, v in enumerate(self.modes) for axis in axes if axis.id == v]
        return self.write(OpCode.CONTRACT, self.spec(scope), inputs=(register, *chosen)) if chosen else register

    def load_message(self, source: int, target: int) -> RegID:
        """Append the load of what one node told another: if no instruction here did, with the axes of the interface."""
        slot = message(source, target)
        spec = self.slots.get(slot) or self.spec(self.tree.nodes[source].interface)
        return self.write(OpCode.LOAD_SLOT, spec, slot=slot)

    def product(self, inputs: Iterable[RegID], variables: Iterable[int] = ()) -> RegID:
        """Append the product of registers; it has the axes of `variables` in any case.

        A small product is one instruction. Of a large one the smallest registers are multiplied first, by twos: small
        factors meet before the large message does, which is then read once.
        """
        left = list(inputs)
        left += self.ones(left, variables)
        left = left or [self.write(OpCode.UNIT, self.spec(()))]
        whole = self.union(left)
        together = MOST_INPUTS if whole.size <= SMALL else 2
        if 1 < len(left) <= together:
            first = sorted(left, key=lambda register: (self.specs[register].size, register))
            return self.write(OpCode.CONTRACT, whole, inputs=tuple(first))
        heap = [(self.specs[register].size, register) for register in left]
        heapify(heap)
        while len(heap) > 1:
            first = [heappop(heap)[1] for _ in range(min(together, len(heap)))]
            made = self.write(OpCode.CONTRACT, self.union(first), inputs=tuple(first))
            heappush(heap, (self.specs[made].size, made))
        return heap[0][1]

    def ones(self, registers: Iterable[RegID], variables: Iterable[int]) -> list[RegID]:
        """Append ones over those variables that no register has, and return their register; none if all are there."""
        covered = {axis.id for register in registers for axis in self.specs[register].axes}
        missing = [v for v in variables if v not in covered]
        return [self.write(OpCode.UNIT, self.spec(missing))] if missing else []

    def union(self, registers: Iterable[RegID]) -> TensorSpec:
        """Return the axes that any of the registers has."""
        return self.spec(dict.fromkeys([axis.id for register in registers for axis in self.specs[register].axes]))

    def eliminated(self, register: RegID, variables: Sequence[int]) -> RegID:
        """Append the sum over all axes but those of these variables; what stays is in the order of all axes."""
        spec = self.specs[register]
        names = [axis.id for axis in spec.axes if axis.id in variables]
        kept, ordered = self._in_order(tuple(names)), self.spec(names)
        if ordered is not kept:
            return self.write(OpCode.CONTRACT, ordered, inputs=(register,))
        if kept.ndim == spec.ndim:
            return register
        return self.write(OpCode.ELIMINATE, kept, src=register, keep_keys=kept.keys)

    def marginals(self, inputs: tuple[RegID, ...], variables: Collection[int]) -> None:
        """Append what stores the marginals of variables of a product: halves of its axes first, then each alone."""
        axes = self.union(inputs).axes
        if len(axes) == 1:
            register = inputs[0] if len(inputs) == 1 else self.write(OpCode.CONTRACT, TensorSpec(axes), inputs=inputs)
            self.store(marginal(axes[0].id), register)
            return
        half = len(axes) // 2
        for part in (axes[:half], axes[half:]):
            wanted = [axis.id for axis in part if axis.id in variables]
            if wanted:
                self.marginals((self.write(OpCode.CONTRACT, TensorSpec(part), inputs=inputs),), wanted)

    def tell(self, slot: SlotKey, register: RegID, normalize: bool) -> None:
        """Append what stores a message, divided by its largest element if asked."""
        if normalize:
            register = self.write(OpCode.NORMALIZE, self.specs[register], src=register, scale=scale(*slot))
        self.store(slot, register)


def emit_upward_program(
    structure: Structure, tree: Tree, normalized: frozenset[int] = frozenset(), modes: Modes = NO_MODES
) -> Program:
    """Return the program of all messages to the root, and of the root's belief.

    Args:
        structure: variables and scopes.
        tree: its tree.
        normalized: nodes whose messages are divided by their largest element.
        modes: for each variable that is conditioned on, how many of its states a run takes: the values of its mode.
            The tree keeps these variables. The results of runs with selectors of other states are summed.
    """
    out = Emitter(structure, tree, modes)
    for place, node in enumerate(tree.nodes):
        inputs = [out.load_factor(f) for f in node.factors]
        inputs += [out.load_message(c, place) for c in node.children]
        product = out.eliminated(out.product(inputs, node.clique), node.interface)
        if node.parent == NO_PARENT:
            out.store(belief(place), product)
        else:
            out.tell(message(place, node.parent), product, place in normalized)
        out.free()
    return Program(tuple(out.instructions))


def emit_downward_program(
    structure: Structure, tree: Tree, wanted: Marginals, normalized: frozenset[int] = frozenset(),
    modes: Modes = NO_MODES,
) -> Program:
    """Return the program of all messages from the root, and of marginals, after the upward program has run.

    Args:
        structure: variables and scopes.
        tree: its tree.
        wanted: where the marginal of each variable is taken from.
        normalized: nodes whose messages from their parents are divided by their largest element.
        modes: as in the upward program.

    The message to each child is what the node holds but for that child's own message. Prefixes and suffixes of the
    products of children make all of them in a number of products linear in the number of children, without a division.
    """
    out = Emitter(structure, tree, modes)
    needed = _needed(tree, (*wanted.cliques, *wanted.separators))
    for place in reversed(range(len(tree.nodes))):
        node = tree.nodes[place]
        if place not in needed:
            continue
        base = [out.load_factor(f) for f in node.factors]
        if node.parent != NO_PARENT:
            base.append(out.load_message(node.parent, place))
        children = [out.load_message(c, place) for c in node.children]
        base += out.ones([*base, *children], node.clique)
        if place in wanted.cliques:
            held = out.eliminated(out.product([*base, *children]), wanted.cliques[place])  # few: fused, so never whole
            for v in wanted.cliques[place]:
                out.store(marginal(v), out.eliminated(held, (v,)))
        _tell_children(out, place, node, base, children, needed, normalized, wanted)
        out.free()
    return Program(tuple(out.instructions))


def _needed(tree: Tree, beliefs: Iterable[int]) -> frozenset[int]:
    """Return the nodes with beliefs, and those between them and the root."""
    found: set[int] = set()
    for place in beliefs:
        while place != NO_PARENT and place not in found:
            found.add(place)
            place = tree.nodes[place].parent
    return frozenset(found)


def _tell_children(
    out: Emitter, place: int, node: Node, base: Sequence[RegID], children: Sequence[RegID], needed: frozenset[int],
    normalized: frozenset[int], wanted: Marginals,
) -> None:
    """Append the messages to the children that need one. Each times the child's own message is the belief of what both
    share.

    Children with small messages are told from the product of the large registers, summed to what small ones have: it is
    read once for all of them, and never kept whole.
    """
    largest = max([out.specs[r].size for r in (*base, *children)], default=1)
    small = {r for r in (*base, *children) if out.specs[r].size * LARGER <= largest}
    pairs = [(child, register) for child, register in zip(node.children, children)]
    scope = out.union(small)
    if any(child in needed and r in small for child, r in pairs) and scope.size * LARGER <= largest:
        large = [r for r in (*base, *children) if r not in small]
        summed = out.eliminated(out.product(large), [axis.id for axis in scope.axes])
        own = [r for r in base if r in small]
        _tell(out, place, [summed, *own], [(c, r) for c, r in pairs if r in small], needed, normalized, wanted)
        base = [*base, *[r for r in children if r in small]]
        pairs = [(c, r) for c, r in pairs if r not in small]
    _tell(out, place, base, pairs, needed, normalized, wanted)


def _tell(
    out: Emitter, place: int, base: Sequence[RegID], children: Sequence[tuple[int, RegID]], needed: frozenset[int],
    normalized: frozenset[int], wanted: Marginals,
) -> None:
    """Append the messages to children: products of prefixes and suffixes of what the others told."""
    suffixes: list[RegID | None] = [None]
    for _, register in reversed(children[1:]):
        last = suffixes[-1]
        suffixes.append(register if last is None else out.product((register, last)))
    prefix = out.product(base) if base else None
    for (child, register), suffix in zip(children, reversed(suffixes)):
        if child in needed:
            around = [r for r in (prefix, suffix) if r is not None]
            told = out.eliminated(out.product(around), out.tree.nodes[child].interface)
            out.tell(message(place, child), told, child in normalized)
            if child in wanted.separators:
                out.marginals((told, register), wanted.separators[child])
        prefix = register if prefix is None else out.product((prefix, register))


def emit_finalize_program(structure: Structure, tree: Tree, modes: Modes = NO_MODES) -> Program:
    """Return the program of the partition function from the root's belief.

    Args:
        structure: variables and scopes.
        tree: its tree. Whoever runs the program multiplies in what messages were divided by.
        modes: as in the upward program; they are summed, too.
    """
    out = Emitter(structure, tree, modes)
    root = tree.nodes[tree.root]
    register = out.write(OpCode.LOAD_SLOT, out.spec(root.interface), slot=belief(tree.root))
    out.store(PARTITION, out.eliminated(register, ()))
    out.free()
    return Program(tuple(out.instructions))


def joined(*programs: Program) -> Program:
    """Return programs as one, which runs them one after the other; registers are numbered on."""
    instructions: list[Instruction] = []
    for program in programs:
        first = 1 + max((step.dst for step in instructions if step.dst is not None), default=-1)
        for step in program.instructions:
            args = {key: first + value if key == "src" else tuple([first + r for r in value])
                    if key in ("inputs", "srcs") else value for key, value in step.args.items()}
            dst = None if step.dst is None else first + step.dst
            instructions.append(Instruction(step.op, dst, args, step.spec))
    return Program(tuple(instructions))
