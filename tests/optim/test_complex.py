"""Complex parameters, which optimisers see as pairs of real numbers: beside torch."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitfuse as jf

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)
START, X, Y = (RNG.normal(size=s) + 1j * RNG.normal(size=s) for s in ((3, 2), (5, 3), (5, 2)))
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}), ("Adam", {"amsgrad": True}), ("AdamW", {}),
    ("NAdam", {}), ("RAdam", {"weight_decay": 0.1}), ("Adamax", {}), ("RMSprop", {"momentum": 0.5, "centered": True}),
    ("Adagrad", {}), ("Adadelta", {}), ("ASGD", {}), ("Rprop", {}),
]


@pytest.mark.parametrize(("name", "options"), SETTINGS, ids=[name for name, _ in SETTINGS])
def test_steps_are_those_of_torch(name: str, options: dict[str, Any]) -> None:
    theirs = torch.tensor(START, requires_grad=True)
    params = jf.nn.parameters({"w": START.copy()})
    torch.set_default_dtype(torch.float64)  # torch keeps rates in it
    try:
        reference = getattr(torch.optim, name)([theirs], lr=0.05, **options)
        optimiser = getattr(jf.optim, name)(params, lr=0.05, **options)

        @jf.fuse(training=True)
        def step(x: Any, y: Any) -> Any:
            loss = np.mean(np.abs(x @ params["w"] - y) ** 2)
            optimiser.minimize(loss)
            return loss

        for _ in range(6):
            reference.zero_grad()
            loss = ((torch.tensor(X) @ theirs - torch.tensor(Y)).abs() ** 2).mean()
            loss.backward()
            reference.step()
            assert float(step(X, Y)) == pytest.approx(float(loss.detach()), rel=1e-9)
            np.testing.assert_allclose(params["w"].array, theirs.detach().numpy(), rtol=1e-8, atol=1e-10)
    finally:
        torch.set_default_dtype(torch.float32)
    assert step.stats()["traces"] == 1 and params["w"].array.dtype == np.complex128


@pytest.mark.parametrize("name", ["Muon", "Adafactor", "LBFGS"])
def test_some_take_real_ones_alone(name: str) -> None:
    with pytest.raises(jf.ArgumentError, match="w is complex128, and it takes real parameters alone"):
        getattr(jf.optim, name)(jf.nn.parameters({"w": START}))


def test_gradients_are_applied_outside_and_complex64_stays() -> None:
    params = jf.nn.parameters({"w": START.astype("complex64")})
    optimiser = jf.optim.Lion(params, lr=0.5)
    optimiser.apply({"w": np.ones((3, 2), "complex64") * (2 - 1j)})
    np.testing.assert_allclose(params["w"].array, START.astype("complex64") - (0.5 - 0.5j), rtol=1e-6)
    assert params["w"].array.dtype == np.complex64 and optimiser.slots[0]["mean"].shape == (3, 2, 2)
