"""ProcessGraph: the record of a trace, tensor nodes and op nodes with edges tensor -> op -> tensor.

Owns the nodes, their ids (small integers in the order of creation) and the user's line of each op. Does not own
Python values, storages or views (`jitfuse.tracing.record.memory`), nor order and programs
(`jitfuse.tracing.schedule.translator`).
"""
from __future__ import annotations

from collections.abc import Iterable

from jitfuse.base.records import NamedTuple, made
from jitfuse.ir.program import Attrs, Meta


class OpNode(NamedTuple):
    """One recorded operator call."""

    id: int
    op_name: str
    input_ids: tuple[int, ...]
    attrs: Attrs
    result_ids: tuple[int, ...]
    mode_sensitive: bool
    source: str

    @property
    def signature(self) -> tuple[str, tuple[int, ...], Attrs]:
        """Operator, inputs and attributes: equal calls have equal ones."""
        return self.op_name, self.input_ids, self.attrs


class ProcessGraph:
    """Tensor nodes and op nodes of one trace.

    `metas[t]` describes tensor t and `producer[t]` is its op's id, or None for a feed. Op ids count from 0,
    and so do tensor ids.
    """

    def __init__(self) -> None:
        self.metas: list[Meta] = []
        self.producer: list[int | None] = []
        self.ops: list[OpNode] = []
        self.feed_names: dict[int, str] = {}

    def add_feed(self, meta: Meta, name: str) -> int:
        """Add a tensor that no op produces and return its id."""
        self.metas.append(meta)
        self.producer.append(None)
        tensor = len(self.metas) - 1
        self.feed_names[tensor] = name
        return tensor

    def add_op(
        self, op_name: str, input_ids: tuple[int, ...], attrs: Attrs, meta: Meta, mode_sensitive: bool, source: str,
    ) -> int:
        """Add an op with one result and return the result's id."""
        tensor = len(self.metas)
        op_id = len(self.ops)
        self.metas.append(meta)
        self.producer.append(op_id)
        self.ops.append(made(OpNode, (op_id, op_name, input_ids, attrs, (tensor,), mode_sensitive, source)))
        return tensor

    def add_op_of_many(
        self, op_name: str, input_ids: tuple[int, ...], attrs: Attrs, metas: Iterable[Meta], *, source: str
    ) -> tuple[int, ...]:
        """Add an op with any number of results and return their ids."""
        first, op_id = len(self.metas), len(self.ops)
        self.metas += metas
        results = tuple(range(first, len(self.metas)))
        self.producer += [op_id] * len(results)
        self.ops.append(made(OpNode, (op_id, op_name, input_ids, attrs, results, False, source)))
        return results

    def node(self, tensor: int) -> OpNode | None:
        """Return the op that makes a tensor, or None for a feed."""
        op_id = self.producer[tensor]
        return None if op_id is None else self.ops[op_id]

    def live_ops(self, wanted: Iterable[int]) -> list[OpNode]:
        """Return the ops that the wanted tensors need, in ascending id order: each reads what earlier ones make."""
        needed = bytearray(len(self.metas))  # half the time that a set takes
        for tensor in wanted:
            needed[tensor] = 1
        found = []
        for op in reversed(self.ops):
            results = op[4]  # unpacking a named tuple is six times as slow
            if needed[results[0]] if len(results) == 1 else any(needed[t] for t in results):
                for tensor in op[2]:
                    needed[tensor] = 1
                found.append(op)
        found.reverse()
        return found

    def describe(self, tensor: int) -> str:
        """Return a description for the user: a feed's name and meta, or operator, meta and line."""
        node = self.node(tensor)
        meta = self.metas[tensor]
        if node is None:
            return f"{self.feed_names[tensor]} ({meta})"
        return f"the result of {node.op_name} ({meta}), made at {node.source}"
