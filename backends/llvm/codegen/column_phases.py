"""Phases of reductions over columns: the partial phase stores a result for each chunk, which the final phase reads.

Does not own the loop over a chunk's elements (`jitfuse.backends.llvm.codegen.column_loops`).
"""
from __future__ import annotations

from collections.abc import Mapping

from jitfuse.backends.llvm.codegen.carried import Carried
from jitfuse.backends.llvm.codegen.column_addresses import ColumnAddresses
from jitfuse.backends.llvm.codegen.column_sums import ColumnSum
from jitfuse.backends.llvm.codegen.combine import Reduced, State
from jitfuse.backends.llvm.codegen.elements.types import MEMORY, i64
from jitfuse.backends.llvm.codegen.frame import Address
from jitfuse.backends.llvm.text.builder import Value


def final(addresses: ColumnAddresses, free: list[Reduced], sums: Mapping[int, ColumnSum]) -> list[State]:
    """Write the loop over the rows that a partial phase stored."""
    f = addresses.f
    last = f.intrinsic("smax", "i64", f.sub(addresses.stop, i64(1)), i64(0))
    for s in sums.values():
        s.clear()
    with f.loop(i64(0), addresses.stop) as chunks:
        carried = Carried(chunks)
        totals = [carried.add_all(p.start(addresses.filled)) for p in free]
        for s in sums.values():
            with f.loop(i64(0), i64(s.part.row)) as rows:
                s.save(rows.index, _load_lane(addresses, s.part, chunks.index, rows.index)[0])
            with f.if_(f.icmp("slt", chunks.index, last)):
                s.push(chunks.index)
        merged = []
        for p, state in zip(free, totals, strict=True):
            with f.loop(i64(0), i64(p.reduction.partial_rows[0][1])) as rows:
                inside = Carried(rows)
                total = inside.add_all(state)
                inside.update_all([p.merge(total, _load_lane(addresses, p, chunks.index, rows.index))])
            merged += inside.results([state])
        carried.update_all(merged)
    for s in sums.values():
        s.finish(last)
    return carried.results(totals)


def store_partial(addresses: ColumnAddresses, part: Reduced, column_sum: ColumnSum | None, total: State | None) -> None:
    """Store rows of virtual lanes; a reduction without virtual lanes is stored in the first."""
    r, start = part.reduction, part.start(addresses.filled)
    with addresses.f.loop(i64(0), i64(r.partial_rows[0][1])) as loop:
        if column_sum is not None:
            lane: State = (column_sum.load(loop.index),)
        else:
            assert total is not None
            first = addresses.f.icmp("eq", loop.index, i64(0))
            lane = tuple([t.context.batch([
                addresses.f.select(first, v, w) for v, w in zip(t.values, s.values, strict=True)
            ]) for t, s in zip(total, start, strict=True)])
        for o, (dtype, _), x in zip(r.store_to, r.partial_rows, lane, strict=True):
            address = _lane_address(addresses, o, dtype, loop.index, {})
            addresses.body.memory.store_each(x, dtype, address, addresses.body.masks(None, addresses.frame))


def _load_lane(addresses: ColumnAddresses, part: Reduced, chunk: Value, lane: Value) -> State:
    """Return a virtual lane of a chunk's partial result, for every column."""
    r, loaded = part.reduction, []
    for o, (dtype, _) in zip(r.load_from, r.partial_rows, strict=True):
        address = _lane_address(addresses, o, dtype, lane, {addresses.axes[0]: chunk})
        loaded.append(addresses.body.memory.load_each(dtype, address, addresses.body.masks(None, addresses.frame)))
    return tuple(loaded)


def _lane_address(
    addresses: ColumnAddresses, operand: int, dtype: str, lane: Value, inner: Mapping[int, Value]
) -> Address:
    address = addresses.frame.at(inner, ()).address(operand)
    address.base = addresses.f.offset(address.base, lane, MEMORY[dtype])
    return address
