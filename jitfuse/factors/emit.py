"""Register programs of a tree: upward, downward and finalize.

The three are those of exact belief propagation: messages to the root, messages from the root and beliefs, the partition
function. They hold no values, and serve every semiring.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitfuse.factors.emitter import NO_MODES, Emitter, Modes
from jitfuse.factors.ir.schema import PARTITION, OpCode, Program, RegID, belief, marginal, message
from jitfuse.factors.marginals import Marginals
from jitfuse.factors.structure import Structure
from jitfuse.factors.tree import NO_PARENT, Tree
from jitfuse.factors.work import LARGER


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
    _upward(out, normalized)
    return out.program()


def _upward(out: Emitter, normalized: frozenset[int]) -> None:
    for place, node in enumerate(out.tree.nodes):
        inputs = [out.load_factor(f) for f in node.factors]
        inputs += [out.load_message(c, place) for c in node.children]
        product = out.eliminated(out.product(inputs, node.clique), node.interface)
        if node.parent == NO_PARENT:
            out.store(belief(place), product)
        else:
            out.tell(message(place, node.parent), product, place in normalized)
        out.free()


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
    out = _Downward(structure, tree, wanted, normalized, modes)
    for place in reversed(range(len(tree.nodes))):
        if place in out.needed:
            out.node(place)
    return out.program()


def _needed(tree: Tree, beliefs: Iterable[int]) -> frozenset[int]:
    """Return the nodes with beliefs, and those between them and the root."""
    found: set[int] = set()
    for place in beliefs:
        while place != NO_PARENT and place not in found:
            found.add(place)
            place = tree.nodes[place].parent
    return frozenset(found)


class _Downward(Emitter):
    """The instructions of the downward program; `needed` are the nodes that have messages from their parents."""

    def __init__(
        self, structure: Structure, tree: Tree, wanted: Marginals, normalized: frozenset[int], modes: Modes
    ) -> None:
        super().__init__(structure, tree, modes)
        self.wanted, self.normalized = wanted, normalized
        self.needed = _needed(tree, (*wanted.cliques, *wanted.separators))

    def node(self, place: int) -> None:
        """Append the marginals of a node, and its messages to children."""
        node = self.tree.nodes[place]
        base = [self.load_factor(f) for f in node.factors]
        if node.parent != NO_PARENT:
            base.append(self.load_message(node.parent, place))
        children = [(c, self.load_message(c, place)) for c in node.children]
        loaded = [register for _, register in children]
        base += self.ones([*base, *loaded], node.clique)
        if own := self.wanted.cliques.get(place, ()):
            held = self.eliminated(self.product([*base, *loaded]), own)  # few: fused, so never whole
            for v in own:
                self.store(marginal(v), self.eliminated(held, (v,)))
        self._tell_children(place, base, children)
        self.free()

    def _tell_children(self, place: int, base: list[RegID], children: Sequence[tuple[int, RegID]]) -> None:
        """Append the messages to the children that need one. Each times the child's own message is the belief of what
        both share.

        Children with small messages are told from the product of the large registers, summed to what small ones have:
        it is read once for all of them, and never kept whole.
        """
        every = [*base, *[register for _, register in children]]
        largest = max([self.specs[r].size for r in every], default=1)
        small = {r for r in every if self.specs[r].size * LARGER <= largest}
        scope = self.union(small)
        if any(child in self.needed and r in small for child, r in children) and scope.size * LARGER <= largest:
            large = [r for r in every if r not in small]
            summed = self.eliminated(self.product(large), [axis.id for axis in scope.axes])
            own = [r for r in base if r in small]
            self._tell(place, [summed, *own], [(c, r) for c, r in children if r in small])
            base = [*base, *[r for _, r in children if r in small]]
            children = [(c, r) for c, r in children if r not in small]
        self._tell(place, base, children)

    def _tell(self, place: int, base: Sequence[RegID], children: Sequence[tuple[int, RegID]]) -> None:
        """Append the messages to children: products of prefixes and suffixes of what the others told."""
        suffixes: list[RegID | None] = [None]
        for _, register in reversed(children[1:]):
            last = suffixes[-1]
            suffixes.append(register if last is None else self.product((register, last)))
        prefix = self.product(base) if base else None
        for (child, register), suffix in zip(children, reversed(suffixes)):
            if child in self.needed:
                around = [r for r in (prefix, suffix) if r is not None]
                told = self.eliminated(self.product(around), self.tree.nodes[child].interface)
                self.tell(message(place, child), told, child in self.normalized)
                if child in self.wanted.separators:
                    self.marginals((told, register), self.wanted.separators[child])
            prefix = register if prefix is None else self.product((prefix, register))


def emit_finalize_program(structure: Structure, tree: Tree) -> Program:
    """Return the program of the partition function from the root's belief.

    Whoever runs the program multiplies in what messages were divided by.
    """
    out = Emitter(structure, tree)
    _finalize(out)
    return out.program()


def _finalize(out: Emitter) -> None:
    root = out.tree.nodes[out.tree.root]
    register = out.write(OpCode.LOAD_SLOT, out.spec(root.interface), slot=belief(out.tree.root))
    out.store(PARTITION, out.eliminated(register, ()))
    out.free()


def emit_partition_program(structure: Structure, tree: Tree, modes: Modes = NO_MODES) -> Program:
    """Return the upward program and the partition function as one; the modes are summed, too."""
    out = Emitter(structure, tree, modes)
    _upward(out, frozenset())
    _finalize(out)
    return out.program()
