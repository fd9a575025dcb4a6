"""A real run: scikit-learn's digits, beside the same model in torch; saved, and gone on with in another process."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

datasets = pytest.importorskip("sklearn.datasets")
MODEL = '''
import numpy as np
import jitfuse as jf

def made(seed=0):
    rng = np.random.default_rng(seed)
    params = jf.nn.parameters({
        "w1": rng.normal(size=(64, 32)) / 8, "scale": np.ones(32), "shift": np.zeros(32),
        "w2": rng.normal(size=(32, 10)) / 6, "b2": np.zeros(10)})
    mean, var = jf.Buffer(np.zeros(32), "mean"), jf.Buffer(np.ones(32), "var")
    opt = jf.optim.Adam(params, lr=1e-2)

    @jf.fuse(training=True)
    def step(x, y, p):
        h = jf.nn.batch_norm(jf.nn.linear(x, params["w1"]), params["scale"], params["shift"], mean, var)
        logits = jf.nn.linear(jf.nn.dropout(jf.nn.relu(h), 0.2) if p else jf.nn.relu(h), params["w2"], params["b2"])
        loss = jf.nn.cross_entropy(logits, y)
        opt.minimize(loss)
        return loss

    return {"params": params, "mean": mean, "var": var, "opt": opt}, step

def batches(x, y, count):
    order = np.random.default_rng(1)
    for _ in range(count):
        chosen = order.permutation(len(y))[:64]
        yield x[chosen], y[chosen]
'''


def digits() -> tuple[Any, Any]:
    x, y = datasets.load_digits(return_X_y=True)
    return x / 16, y


def model() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(MODEL, "<model>", "exec"), names)
    return names


def test_losses_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    names, (x, y) = model(), digits()
    state, step = names["made"]()
    first, norm, last = torch.nn.Linear(64, 32, bias=False), torch.nn.BatchNorm1d(32), torch.nn.Linear(32, 10)
    network = torch.nn.Sequential(first, norm, torch.nn.ReLU(), last).double()
    with torch.no_grad():
        first.weight.copy_(torch.from_numpy(state["params"]["w1"].array.T))
        last.weight.copy_(torch.from_numpy(state["params"]["w2"].array.T))
        last.bias.zero_()
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-2)
    for a, b in names["batches"](x, y, 50):
        loss = torch.nn.functional.cross_entropy(network(torch.from_numpy(a)), torch.from_numpy(b))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        np.testing.assert_allclose(float(step(a, b, False)), loss.item(), rtol=1e-9)
    network.eval()
    theirs = torch.nn.functional.cross_entropy(network(torch.from_numpy(x)), torch.from_numpy(y)).item()
    np.testing.assert_allclose(float(step(x, y, False, training=False)), theirs, rtol=1e-9)
    np.testing.assert_allclose(state["var"].array, norm.running_var.numpy(), rtol=1e-9)


def test_another_process_goes_on(tmp_path: Path) -> None:
    """With dropout: the state of the random numbers is saved too."""
    names, (x, y) = model(), digits()
    state, step = names["made"]()
    jf.random.seed(3)
    given = list(names["batches"](x, y, 20))
    for a, b in given[:10]:
        step(a, b, True)
    file = tmp_path / "state.safetensors"
    jf.nn.save(file, {**state, "random": jf.Buffer(jf.random.state())})
    expected = [float(step(a, b, True)).hex() for a, b in given[10:]]
    np.savez(tmp_path / "data.npz", x=x, y=y)
    script = MODEL + f'''
data = np.load({str(tmp_path / "data.npz")!r})
state, step = made(seed=7)
random = jf.Buffer(np.zeros(2, "int64"))
jf.nn.load({str(file)!r}, {{**state, "random": random}})
jf.random.state()[:] = random.array
for k, (a, b) in enumerate(batches(data["x"], data["y"], 20)):
    if k >= 10:
        print(float(step(a, b, True)).hex())
'''
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected
