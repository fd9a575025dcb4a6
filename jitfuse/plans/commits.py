"""Writes in place: the kernel that computes what an argument holds after the call stores it there itself.

Otherwise the value is stored in the arena, and copied at the end: six streams over memory where two would do. In place
is sound where nothing else reads the argument later, where the kernel reads it at the element that it writes alone, and
where nothing can raise from there on: a call that raises leaves its arguments as they are. Owns these conditions.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from jitfuse.base.records import NamedTuple
from jitfuse.ir.kernels.form import KernelForm
from jitfuse.ir.kernels.values import access, may_report
from jitfuse.plans.launch import Launch

Buffer = Any


class Target(NamedTuple):
    """A whole value that is written into the whole of an argument of its layout."""

    value: Buffer
    feed: Buffer


def write_in_place(
    steps: Sequence[Any], touched: Sequence[Collection[Buffer]], targets: Sequence[Target | None]
) -> tuple[list[Any], set[int]]:
    """Return the steps with targets written by the launches that compute them, and the numbers of these targets.

    `touched[k]` are the buffers of step k. A target is None where a write is no plain copy.
    """
    made, done = list(steps), set()
    safe = _last_that_may_raise(steps)
    uses: dict[Buffer, list[int]] = {}
    for k, used in enumerate(touched):
        for buffer in used:
            uses.setdefault(buffer, []).append(k)
    written = Counter(target.value for target in targets if target is not None)
    for number, target in enumerate(targets):
        if target is None:
            continue
        users, readers = uses.get(target.value, []), uses.get(target.feed, [])
        writer = users[0] if users else -1
        if writer <= safe or readers[-1:] > [writer] or not isinstance(made[writer], Launch):
            continue
        if written[target.value] == 1 and _writes_what_it_reads(made[writer], target):
            done.add(number)
            for k in users:
                made[k] = _redirected(made[k], target, k == writer)
    return made, done


def _last_that_may_raise(steps: Sequence[Any]) -> int:
    """Return the number of the last step after which a call may still end by an error; -1 for none."""
    return max([k for k, step in enumerate(steps) if may_raise(step)], default=-1)


def may_raise(step: Any) -> bool:
    """Return whether a call may end by an error of this step."""
    if not isinstance(step, Launch):
        return True
    form = step.form
    return may_report(form) or (form.then is not None and may_report(form.then))


def _writes_what_it_reads(launch: Launch, target: Target) -> bool:
    """Return whether a launch writes the value once, and reads the argument only there, and before."""
    form = launch.form
    if form.then is not None or form.sweep is not None:
        return False
    held = [o for o, (buffer, _) in enumerate(launch.buffers) if buffer == target.value]
    read = [o for o, (buffer, _) in enumerate(launch.buffers) if buffer == target.feed]
    if len(held) != 1 or not form.operands[held[0]].out or launch.buffers[held[0]][1]:
        return False
    places = _places(form)
    store, own = held[0], form.operands[held[0]]
    at = places.get(store, [])
    if len(at) != 1:
        return False
    return all(
        form.operands[o]._replace(out=True) == own and not launch.buffers[o][1]
        and _words(launch, o) == _words(launch, store) and max(places.get(o, [(0, 0)])) < at[0]
        for o in read)


def _places(form: KernelForm) -> dict[int, list[tuple[int, int]]]:
    """Return where the loads and stores of each operand are: the numbers of the stage and of the instruction."""
    found: dict[int, list[tuple[int, int]]] = {}
    for number, stage in enumerate(form.stages):
        for position, instr in enumerate(stage.body):
            if instr.op in ("load", "store"):
                found.setdefault(access(instr).operand, []).append((number, position))
    return found


def _words(launch: Launch, operand: int) -> list[tuple[int, int]]:
    pairs = zip(launch.form.words.strides, launch.words, strict=False)
    return [(axis, word) for (o, axis), word in pairs if o == operand]


def _redirected(step: Any, target: Target, writes: bool) -> Any:
    """Return a step that finds the value in the argument's memory."""
    if not isinstance(step, Launch):
        def moved(operands: Any) -> Any:
            return tuple([o._replace(buffer=target.feed) if o.buffer == target.value else o for o in operands])

        return step._replace(inputs=moved(step.inputs), outputs=moved(step.outputs))
    buffers = tuple([(target.feed, at) if buffer == target.value else (buffer, at) for buffer, at in step.buffers])
    # what has just been read lies in a cache: past it would be slower
    words = (*step.words[:-1], 0) if writes else step.words
    return step._replace(buffers=buffers, words=words)
