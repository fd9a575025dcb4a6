"""The UAI-2014 inference competition: `python tests/factors/uai_sets.py FOLDER TASK [NAME ...]`.

TASK is MAR, PR or MAP. FOLDER holds a folder for each, with NAME.uai, NAME.uai.evid and the answer NAME.uai.TASK of
each model. Every model has a process of its own, with so much memory and time; all run one after the other. Prints a
line for each, and how many are right, wrong, refused and stopped. No pytest: it takes many minutes.
"""
from __future__ import annotations

import json
import math
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jitfuse import factors
from jitfuse.factors.formats import uai
from jitfuse.factors.formats.uai_results import read_result

SECONDS = 60
"""Of processor time, reading and compilation with it."""
BYTES = 8 << 30
NEAR = {"MAR": 1e-6, "PR": 5e-6, "MAP": 1e-9}
"""The answers have six digits: differences of probabilities; of logs relative ones where these are above 1."""
WORDS = ("right", "wrong", "refused", "failed", "stopped")


def difference(task: str, path: Path) -> float:
    """Return how far the answer to a task is from the published one."""
    evidence = path.with_name(path.name + ".evid")
    graph = factors.read_uai(path, evidence)
    (published,) = read_result(path.with_name(f"{path.name}.{task}"), [*graph.sizes.values()]).solutions
    if task == "MAR":
        found = graph.marginals()
        return max((float(np.abs(found[v] - table).max()) for v, table in enumerate(published)), default=0.0)
    if task == "PR":
        found = graph.log_partition() / math.log(10)
        return 0.0 if found == published else abs(found - published) / max(1.0, abs(published))
    states, value = graph.map()
    model = uai.read_model(path, evidence)
    reached, best = (log_value(model, chosen) for chosen in ([*states.values()], published))
    if abs(reached - value) > NEAR["MAP"] * max(1.0, abs(value)):
        return abs(reached - value)
    return max(0.0, best - reached) / max(1.0, abs(best))  # of several best ones any will do


def log_value(model: Any, states: Sequence[int]) -> float:
    """Return the log of the product of all tables; -inf where the states are not those of the evidence."""
    if any(states[v] != state for v, state in model.evidence.items()):
        return -math.inf
    with np.errstate(divide="ignore"):
        return math.fsum(float(np.log(table[tuple([states[v] for v in scope])])) for scope, table in model.factors)


def answer(task: str, path: Path) -> list[Any]:
    """Return a word, the seconds of processor time, and the difference or the error."""
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    began = time.process_time()
    try:
        apart = difference(task, path)
    except factors.TooLargeError as error:
        return ["refused", time.process_time() - began, str(error)]
    except Exception as error:
        return ["failed", time.process_time() - began, f"{type(error).__name__}: {error}"]
    return ["right" if apart <= NEAR[task] else "wrong", time.process_time() - began, apart]


def judged(task: str, path: Path) -> list[Any]:
    """Return what a process of its own answers."""
    command = [sys.executable, str(Path(__file__).resolve()), "--one", task, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if -done.returncode in (signal.SIGXCPU, signal.SIGKILL):
        return ["stopped", float(SECONDS), f"takes more than {SECONDS} s"]
    if done.returncode:
        return ["failed", 0.0, f"ends with {done.returncode}: {done.stderr[-300:]}"]
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(folder: str, task: str, *names: str) -> int:
    """Judge the models of a task that have an answer; return 1 where any is wrong or failed."""
    paths = [path for path in sorted((Path(folder) / task).glob("*.uai")) if not names or path.stem in names]
    counts: Counter[str] = Counter()
    worst, slowest = 0.0, 0.0
    for path in paths:
        if not path.with_name(f"{path.name}.{task}").exists():
            continue
        word, seconds, what = judged(task, path)
        counts[word] += 1
        worst = max(worst, what if word == "right" else 0.0)
        slowest = max(slowest, seconds if word == "refused" else 0.0)
        print(f"{path.stem}: {word}, {seconds:.2f} s, {what}", flush=True)
    print(f"{task}: {counts.total()} models:", ", ".join(f"{counts[word]} {word}" for word in WORDS))
    print(f"largest difference of a right answer: {worst:.1e}; slowest refusal: {slowest:.2f} s")
    return int(counts["wrong"] + counts["failed"] > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(answer(sys.argv[2], Path(sys.argv[3]))))
        sys.exit()
    sys.exit(main(*sys.argv[1:]))
