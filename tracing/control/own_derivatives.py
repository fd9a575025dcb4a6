"""Steps whose derivatives a function defines: those of `jf.custom_vjp`, `jf.custom_jvp` and `jf.checkpoint`.

Does not own what users call (`jitfuse.own_derivatives`).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitfuse.errors import ShapeError
from jitfuse.gradients.bodies import arranged
from jitfuse.ir.program import FusedProgram
from jitfuse.tracing.control.combinators import strong
from jitfuse.tracing.control.derivatives import alike, differentiable, record, spliced
from jitfuse.tracing.record.foreign import bare
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.regions import program_of, trace_body
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.results.trees import Tree, tree_of
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import tensor_id


def custom(
    run: Recorder, op_name: str, value: Any, leaves: Sequence[Any], parameters: str, rule: Callable[[list[Any]], Any]
) -> Any:
    """Return a value whose derivative a function defines, of the step that says so.

    The rule is recorded over new values like the smooth leaves of the value (`parameters` is "value") or like some
    leaves ("leaves"), and returns a tree of as many leaves as the other side has.
    """
    tree = tree_of(value, "result")
    results = [strong(lift(run, bare(leaf))) for leaf in tree.leaves]
    inputs = [strong(lift(run, bare(leaf))) for leaf in leaves]
    given, likes = (results, tree.leaves) if parameters == "value" else (inputs, leaves)
    wanted = inputs if parameters == "value" else results

    def body(ids: list[int]) -> list[int]:
        found = [strong(lift(run, bare(leaf))) for leaf in tree_of(rule(alike(run, likes, ids)), "rule").leaves]
        if [x.shape for x in found] != [x.shape for x in wanted]:
            shapes = [x.shape for x in wanted]
            raise ShapeError(f"{op_name} at {user_line()}: the rule has to return values of shapes {shapes}, and "
                             f"returns {[x.shape for x in found]}")
        return [run.fit(tensor_id(x), w.shape, w._meta.dtype) for x, w in zip(found, wanted, strict=True)]

    run.differentiated -= 1  # a rule's steps are differentiated one time less
    try:
        traced = trace_body(run, f"the rule of {op_name}", [("change", x._meta) for x in given], body, runs_once=True)
    finally:
        run.differentiated += 1
    captured = sorted(traced.captured)
    slots = list(zip(traced.parameters, [run.graph.metas[i] for i in traced.parameters], strict=True))
    return _of_rule(run, op_name, tree, list(map(tensor_id, results)), captured, list(map(tensor_id, inputs)),
                    program_of(run.session, traced, slots, captured))


def checkpointed(run: Recorder, function: Callable[[Sequence[Any]], Any], leaves: Sequence[Any]) -> Any:
    """Return a function's value of some leaves, of the step that says that derivatives compute it again from them."""
    by = differentiable(run, "checkpoint", (list(leaves),), (0,))
    recorded = record(run, "jf.checkpoint", function, (list(leaves),), {}, by, False, copies=False)
    program, feeds, count = recorded.program, recorded.program.ordered_feeds, len(by.tensors)
    value, _ = recorded.finished(program, spliced(
        run, program, program.steps, dict(zip(feeds, recorded.operands, strict=True))))
    tree = tree_of(value, "result")
    results = [tensor_id(strong(lift(run, bare(leaf)))) for leaf in tree.leaves]
    rule = arranged(program, feeds, {name: program.outputs[name] for name in recorded.names})
    return _of_rule(run, "checkpoint", tree, results, recorded.operands[count:], recorded.operands[:count], rule)


def _of_rule(
    run: Recorder, op_name: str, tree: Tree, results: Sequence[int], captured: Sequence[int], inputs: Sequence[int],
    rule: FusedProgram,
) -> Any:
    """Return results as those of the step that names their rule, in the tree of the value."""
    attrs = {"rule": rule, "results": len(results), "captured": len(captured)}
    made = run.emit_all(op_name, (*results, *captured, *inputs), attrs)
    return tree.filled(alike(run, tree.leaves, made))
