"""A program of a user's without a mistake: mypy --strict must find nothing. It also runs."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, assert_type

import numpy as np
import numpy.typing as npt

import jitfuse as jf

Floats = npt.NDArray[np.float64]
T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


@jf.fuse
def scaled(x: Floats, factor: float = 2.0, *, shift: float = 0.0) -> Floats:
    return x * factor + shift


@jf.fuse(training=True, device="cpu", schedule="asap", static_argnames=("p",), name="drop")
def dropped(x: Floats, p: float) -> Floats:
    result: Floats = jf.nn.dropout(x, p)
    return result


@jf.fuse
def own_mode(x: Floats, training: bool = False) -> Floats:
    return x * 2 if training else x


@jf.fuse
def of_many(*xs: Floats, **factors: float) -> Floats:
    return xs[0] * factors["a"] + xs[1]


@jf.fuse
def same(x: T) -> T:
    return x


class Model:
    def __init__(self) -> None:
        self.rate = 0.5

    @jf.fuse
    def step(self, x: Floats, times: int = 1) -> Floats:
        return x * self.rate * times

    @jf.fuse(training=True)
    def unannotated(self, x, y):  # type: ignore[no-untyped-def]
        return x + y

    @staticmethod
    @jf.fuse
    def apart(x: Floats) -> Floats:
        return x + 1

    @staticmethod
    @jf.fuse
    def of_any(x: Any, w: Any) -> Any:
        return x + w

    @classmethod
    @jf.fuse
    def named(cls, x: Floats) -> Floats:
        return x + len(cls.__name__)


class Larger(Model):
    pass


class Box(Generic[T]):
    @jf.fuse
    def put(self, x: T) -> T:
        return x


def retried(function: Callable[P, R]) -> Callable[P, R]:
    return function


x: Floats = np.ones(3)
assert_type(scaled(x), Floats)
scaled(x, 3.0)
scaled(x, factor=3, shift=1.0)
scaled(x, training=True)
scaled(x=x, training=np.bool_(False))
dropped(x, 0.5)
assert_type(dropped(x, p=0.5, training=False), Floats)
own_mode(x, True)
own_mode(x, training=True)
of_many(x, x, a=1.0)
assert_type(same(x), Floats)
retried(scaled)(x, shift=1.0)
takes_it: Callable[[Floats], Floats] = scaled
fused: jf.FusedFunction[[Floats], Floats] = jf.fuse(Model.apart)
jf.fuse(lambda v: v + 1)(x)
replay = jf.fuse(scaled.program(x), name="replay")
assert_type(replay(scaled.feeds(x)).outputs, dict[str, Any])

model, larger = Model(), Larger()
assert_type(model.step(x), Floats)
model.step(x, times=2)
larger.step(x, 2, training=True)
Model.step(model, x)
model.unannotated(x, x)
model.apart(x)
Model.apart(x)
model.of_any(x, x)
Model.of_any(x, x)
Model.named(x)
model.named(x)
larger.named(x, training=True)
Box[Floats]().put(x)

assert_type(scaled.stats(), dict[str, int])
scaled.warm(jf.spec((3,), "float32"), 2.0)
assert_type(scaled.explain(x), str)
model.step.stats()
program: jf.FusedProgram = scaled.program(x, 1.0)
print(scaled.name, len(scaled.kernels), len(program.steps))

sizes = {"a": 2, "b": 2}
evidence: dict[str, int] = {"a": 1}
graph = jf.factors.FactorGraph(sizes, [(("a", "b"), np.eye(2))])
print(graph.log_partition(evidence), graph.marginals(evidence)["b"], graph.map(evidence)[0]["b"])

array = jf.asarray([1.0, 2.0], dtype=jf.float32)
print(jf.sin(array).shape, jf.sum([1, 2], axis=0), np.zeros(2, jf.float32), jf.unique_counts(x).counts)
jf.nn.gelu(x, approximate="tanh")
jf.nn.layer_norm(x, x, axis=(0,))
jf.nn.batch_norm(x[:, None], running_mean=np.zeros(1), running_var=np.ones(1), training=False)
jf.nn.cross_entropy(x, np.int64(1), label_smoothing=0.1, reduction="sum")
jf.random.seed(3)
jf.random.uniform((2, 3), low=-1.0, dtype="float32")
first, second = jf.random.split(jf.random.fold_in(jf.random.key(0), 3))
jf.random.normal(None, loc=x, scale=2.0, key=first)
jf.random.permutation(x, axis=0, key=second)
jf.linalg.svd(np.eye(2), full_matrices=False)
jf.fft.rfft(x, n=4)
jf.cond(x[0] > 0, lambda v, k: v + k, lambda v, k: v - k, x, 1.0)
jf.scan(lambda carry, item: (carry + item, carry), 0.0, x, reverse=True)
jf.fori_loop(0, 3, lambda i, v: v * 2.0, x)
jf.while_loop(lambda v: v < 10.0, lambda v: v * 2.0, 1.0)
try:
    jf.map(lambda item: item * 2.0, x)
except jf.errors.BoundsError as error:
    print(error)
