"""What `TensorOp.plan` shows: the candidates, their scores, the winner, and why the others lost."""
from __future__ import annotations

from collections.abc import Iterator

from jitfuse.axes.layouts import contiguous
from jitfuse.axes.plans.steps import SpecializationContext
from jitfuse.axes.plans.symbolic import Score, SymbolicPlan
from jitfuse.base.records import Record


class PlanReport(Record, frozen=True, eq=False):
    """The plans of an operation for arrays of some shapes; printing it shows them.

    Fields: `operation` (its text), `candidates` (symbolic plans), `context` (what a call brings).
    """

    operation: str
    candidates: tuple[SymbolicPlan, ...]
    context: SpecializationContext

    @property
    def scores(self) -> tuple[Score, ...]:
        """The score of each candidate."""
        return tuple(plan.score(self.context) for plan in self.candidates)

    @property
    def winner(self) -> SymbolicPlan:
        """The plan that calls take: the smallest score, the first of equals."""
        return min(self.candidates, key=lambda plan: plan.score(self.context))

    @property
    def copies(self) -> bool:
        """Whether the winner writes elements: else its results are views."""
        return self.winner.score(self.context).allocation_count > 0

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the results."""
        return tuple(layout.shape for layout in self.winner.traced(self.context)[0])

    def lines(self) -> Iterator[str]:
        """Yield what is printed."""
        shapes = ", ".join(str(layout.shape) for layout in self.context.layouts)
        sizes = ", ".join(f"{k}={n}" for k, n in self.context.sizes.items() if "#" not in k and "(" not in k)
        yield f"{self.operation} for {shapes}{': ' * bool(sizes)}{sizes}"
        seen = "as given" if any(l != contiguous(l.shape) for l in self.context.layouts) else "in C order"
        yield f"results: {', '.join(map(str, self.shapes))}; {'copied' if self.copies else 'views, no copy'} ({seen})"
        best, scores = self.winner, self.scores
        lowest = best.score(self.context)
        for plan, score in sorted(zip(self.candidates, scores), key=lambda pair: pair[1]):
            yield f"{'-> ' if plan is best else '   '}{plan.kind or 'the only plan'}"
            yield f"     {', '.join(f'{name}={value}' for name, value in zip(score._fields, score))}"
            if plan is not best:
                yield f"     lost: {_reason(score, lowest)}"
                continue
            for step in plan.specialize(self.context):
                for line in step.lines:
                    yield f"     {step.name:8} {line}"

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _reason(score: Score, best: Score) -> str:
    """Return what decides between two plans."""
    for name, mine, other in zip(score._fields, score, best):
        if mine != other:
            return f"{name} {mine} > {other}"
    return "equal, and behind the winner in order"
