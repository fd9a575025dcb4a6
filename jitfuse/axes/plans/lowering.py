"""Lowering: every way of writing an operation as primitive steps, for packs of known numbers of axes.

All forms (`jitfuse.axes.plans.forms`) are tried; equal plans are one. Owns the search. Does not own what the parts are
made of (`jitfuse.axes.routing`) nor the choice (`jitfuse.axes.plans.symbolic`).
"""
from __future__ import annotations

import itertools

from jitfuse.axes.faults import Fault
from jitfuse.axes.parts import Part
from jitfuse.axes.plans.draft import first_split
from jitfuse.axes.plans.forms import Assembly, Form, Forms, Grouping, Operation, Product, Sharing
from jitfuse.axes.plans.products import MAX_LABELS
from jitfuse.axes.plans.steps import Slot
from jitfuse.axes.plans.symbolic import SymbolicPlan
from jitfuse.base.records import Record


class LoweringProgram(Record, frozen=True):
    """The forms that compete: how axes are grouped, how products are formed and shared, how parts come together."""

    groupings: tuple[Grouping, ...] = ("as written", "merged", "as wanted")
    products: tuple[Product, ...] = ("einsum", "einsum chain", "contract chain")
    sharings: tuple[Sharing, ...] = ("split first", "contract first")
    assemblies: tuple[Assembly, ...] = ("concat", "reindex")

    def candidates(self, operation: Operation) -> tuple[SymbolicPlan, ...]:
        """Return the plan of each form that exists; equal ones once, under the first form's name.

        Raises:
            Fault: there is none.
        """
        groups = len(operation.solution.sizes) > MAX_LABELS or any(
            len(keys) != 1 for p in (*operation.lefts, *operation.rights) for keys in p.dims)
        forms = Forms(operation)
        choices = (
            self.groupings if groups else self.groupings[:1],
            self.products if any(len(s) > 1 for s in operation.sources) else self.products[:1],
            self.sharings if forms.shared else self.sharings[:1],
            self.assemblies if _gathers(operation) else self.assemblies[:1],
        )
        found: dict[tuple[Slot, ...], SymbolicPlan] = {}
        for choice in itertools.product(*choices):
            outputs = forms.outputs(Form._make(choice))
            if outputs is not None and outputs not in found:
                steps = forms.draft.steps(outputs)
                if all(step.feasible for step in steps):
                    kind = ", ".join(chosen for chosen, among in zip(choice, choices) if len(among) > 1)
                    found[outputs] = SymbolicPlan(kind, len(operation.solution.lefts), outputs, steps)
        if not found:
            raise Fault("too_many_axes", "a sum of products has more axes than einsum has letters",
                        help="Merge axes that stay together into one, or multiply fewer arrays at once.")
        return tuple(found.values())


def _gathers(operation: Operation) -> bool:
    """Return whether a part is repeated, or joined and not as it lies: then writing it to its place may be best."""
    cut = {k for k, dims in enumerate(operation.solution.lefts) if first_split(dims) is not None}
    joins = any(first_split(dims) is not None for dims in operation.solution.rights)
    for right, own in zip(operation.rights, operation.sources):
        lefts = [operation.lefts[k] for k in own]
        if right.axes - frozenset().union(*(left.axes for left in lefts)):
            return True
        if joins and (len(lefts) > 1 or lefts[0].array in cut or _order(right) != [
                key for key in _order(lefts[0]) if key in right.axes]):
            return True
    return False


def _order(part: Part) -> list[str]:
    return [key for keys in part.dims for key in keys]
