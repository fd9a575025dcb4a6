"""A program of a user's in which each marked line has one mistake: mypy --strict must find each, and nothing else."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

import jitfuse as jf

Floats = npt.NDArray[np.float64]


@jf.fuse
def scaled(x: Floats, factor: float = 2.0) -> Floats:
    return x * factor


@jf.fuse(training=True)
def dropped(x: Floats, *, p: float) -> Floats:
    result: Floats = jf.nn.dropout(x, p)
    return result


class Model:
    @jf.fuse
    def step(self, x: Floats, times: int = 1) -> Floats:
        return x * times

    @staticmethod
    @jf.fuse
    def apart(x: Floats) -> Floats:
        return x + 1

    @classmethod
    @jf.fuse
    def named(cls, x: Floats) -> Floats:
        return x


def misuse(x: Floats, model: Model) -> None:
    scaled()  # wrong
    scaled(x, 1.0, 2.0)  # wrong
    scaled(x, "twice")  # wrong
    scaled(x, fator=1.0)  # wrong
    scaled(x, training="yes")  # wrong
    dropped(x)  # wrong
    dropped(x, p=0.5, training=1.5)  # wrong
    scaled.explian(x)  # wrong
    scaled.stats()["launches"].append(1)  # wrong
    scaled(x).shap  # wrong
    text: str = scaled(x)  # wrong
    count: Callable[[str], Floats] = scaled  # wrong
    model.step(x, "often")  # wrong
    model.step()  # wrong
    Model.apart(3)  # wrong
    model.apart("x")  # wrong
    Model.named("x")  # wrong
    model.named(x, x)  # wrong
    jf.fuse(scaled, trainig=True)  # wrong
    jf.fuse(strict="yes")(lambda v: v)  # wrong
    jf.fuse(schedule="fast")(lambda v: v)  # wrong
    jf.fuse(3)  # wrong
    jf.sinn(x)  # wrong
    jf.sin(x, x)  # wrong
    jf.sin("x")  # wrong
    jf.sort(x, decending=True)  # wrong
    jf.float23  # wrong
    jf.nn.rleu(x)  # wrong
    jf.nn.relu("x")  # wrong
    jf.nn.gelu(x, approximate="tan")  # wrong
    jf.nn.mse_loss(x, x, reduction="avg")  # wrong
    jf.random.uniform("3")  # wrong
    jf.random.uniform(3, hihg=2.0)  # wrong
    jf.random.seed("zero")  # wrong
    jf.random.normal(3, sigma=2.0)  # wrong
    jf.random.split(jf.random.key(0), "two")  # wrong
    jf.linalg.svd(x, full=False)  # wrong
    jf.fft.nofft(x)  # wrong
    jf.cond(x[0] > 0, lambda v: v, lambda v: v, operand=x)  # wrong
    jf.cond(x[0] > 0, lambda v: v, lambda v, w: v, x)  # wrong
    jf.scan(lambda c, item: (c, item), 0.0, x, lenght=3)  # wrong
    jf.fori_loop(0, 3, lambda v: v, x)  # wrong
    jf.JitfuseErorr  # wrong
    print(text, count)
