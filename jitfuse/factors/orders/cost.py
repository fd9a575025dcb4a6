"""What an order of elimination costs: the buckets that it makes, and their width, states, operations and memory.

Exact, and computed from sizes alone, before anything is allocated. Owns what a bucket is. Does not own how orders are
found.

Variables are eliminated one after the other. The bucket of a variable multiplies the factors and the messages that
have it and no variable eliminated before, sums the variable out, and sends the result, its message, to the bucket of
the next of its variables to be eliminated. The variables of a bucket are a clique of the triangulated graph. A variable
of one state is in no bucket but its own: to sum it out is to drop an axis of one element, wherever that is done.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import log2, prod

from jitfuse.base.records import NamedTuple, Record
from jitfuse.factors.structure import Structure
from jitfuse.factors.work import ITEMSIZE, products


class Bucket(NamedTuple):
    """What is done when a variable is eliminated.

    variable  the one that is summed out
    scope     the variables of the bucket, in increasing order, `variable` among them; its message has the others
    parent    the variable whose bucket takes the message; None: the message is a number
    factors   the factors that are multiplied here, by their positions in the structure
    children  the variables whose messages are multiplied here
    """

    variable: int
    scope: tuple[int, ...]
    parent: int | None
    factors: tuple[int, ...]
    children: tuple[int, ...]

    def elements(self, sizes: Sequence[int]) -> int:
        """Return the elements of the product, of variables of these sizes."""
        return prod([sizes[v] for v in self.scope])

    def operations(self, sizes: Sequence[int]) -> int:
        """Return the products of two numbers that it takes."""
        return products(self.elements(sizes), len(self.factors) + len(self.children))


def buckets(structure: Structure, order: Sequence[int]) -> tuple[Bucket, ...]:
    """Return the buckets of an order, one for each variable, in the order of elimination.

    A factor is in the bucket of the first of its variables of several states, else of its first variable; one of no
    variable is in none. `order` holds each variable once; a ValueError says that it does not.

    Example:
        >>> [bucket.scope for bucket in buckets(Structure((2, 2, 2), ((0, 1), (1, 2))), (0, 2, 1))]
        [(0, 1), (1, 2), (1,)]
    """
    count = len(structure.sizes)
    place = {v: i for i, v in enumerate(order)}
    if len(order) != count or place.keys() != set(range(count)):
        raise ValueError(f"an order holds each of {count} variables once")
    scopes: list[set[int]] = [{v} for v in range(count)]
    factors: list[list[int]] = [[] for _ in range(count)]
    single = 1 in structure.sizes
    children: list[list[int]] = [[] for _ in range(count)]
    for number, scope in enumerate(structure.scopes):
        if scope:
            several = [v for v in scope if structure.sizes[v] > 1] if single else scope
            first = min(several or scope, key=place.__getitem__)
            scopes[first].update(several)
            factors[first].append(number)
    found = []
    for v in order:
        clique = tuple(sorted(scopes[v]))
        scopes[v].discard(v)
        parent = min(scopes[v], key=place.__getitem__, default=None)
        if parent is not None:
            scopes[parent] |= scopes[v]
            children[parent].append(v)
        scopes[v] = set()
        found.append(Bucket(v, clique, parent, tuple(factors[v]), tuple(children[v])))
    return tuple(found)


class Cost(Record, frozen=True):
    """What an order costs; the lower of two is the one with the smaller `key`.

    width       number of variables of the largest bucket
    states      log2 of the number of elements of the largest bucket
    operations  products of two numbers: for each bucket its number of elements, times its factors and messages
    numbers     the most elements that messages have at once, in a pass that drops each message once it was read
    kept        elements of all messages, for a pass that keeps them
    largest     elements of the largest message

    A bucket's own table is not counted: it is summed while it is multiplied, and never there as a whole.
    """

    width: int
    states: float
    operations: int
    numbers: int
    kept: int
    largest: int

    @property
    def key(self) -> tuple[float, int, int, int]:
        """What costs are compared by: states, then operations, then memory."""
        return self.states, self.operations, self.numbers, self.kept

    def __lt__(self, other: Cost) -> bool:
        return self.key < other.key

    def bytes(self, *, keep: bool = False) -> int:
        """Return the bytes of the messages at once; `keep`: of all messages."""
        return ITEMSIZE * (self.kept if keep else self.numbers)


def cost(structure: Structure, order: Sequence[int]) -> Cost:
    """Return what an order costs, exactly, in time that grows with the total size of the buckets.

    Example:
        >>> cost(Structure((2, 3, 2), ((0, 1), (1, 2))), (0, 2, 1))
        Cost(width=2, states=2.584962500721156, operations=18, numbers=7, kept=7, largest=3)
    """
    return cost_of(structure.sizes, buckets(structure, order))


def cost_of(sizes: Sequence[int], made: Sequence[Bucket]) -> Cost:
    """Return what these buckets cost."""
    width = states = operations = live = most = kept = largest = 0
    sent = [0] * len(sizes)
    for bucket in made:
        elements = bucket.elements(sizes)
        message = elements // sizes[bucket.variable]
        sent[bucket.variable] = message
        width, states = max(width, len(bucket.scope)), max(states, elements)
        operations += products(elements, len(bucket.factors) + len(bucket.children))
        live += message
        most = max(most, live)
        live -= sum([sent[v] for v in bucket.children]) + (message if bucket.parent is None else 0)
        kept += message
        largest = max(largest, message)
    return Cost(width, log2(states) if states else 0.0, operations, most, kept, largest)


def postorder(sizes: Sequence[int], made: Sequence[Bucket]) -> tuple[int, ...]:
    """Return the order of the same buckets that has the fewest elements at once of all that go subtree by subtree.

    Of the subtrees below a bucket, the one goes first that leaves the least of what it needed [Liu 1986, On the storage
    requirement in the out-of-core multifrontal method].
    """
    needs: dict[int, int] = {}
    leaves: dict[int, int] = {}
    below: dict[int, list[int]] = {}
    for bucket in made:
        v = bucket.variable
        children = sorted(bucket.children, key=lambda c: (leaves[c] - needs[c], c))
        held = most = 0
        for child in children:
            most = max(most, held + needs[child])
            held += leaves[child]
        message = prod([sizes[u] for u in bucket.scope if u != v])
        below[v], leaves[v] = children, message
        needs[v] = max(most, held + message)
    order: list[int] = []
    stack = [bucket.variable for bucket in made if bucket.parent is None]
    while stack:  # a bucket before its subtrees, and all of it turned round
        v = stack.pop()
        order.append(v)
        stack += below[v]
    return tuple(reversed(order))
