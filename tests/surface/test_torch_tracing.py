"""torch in fused functions beyond single functions: modules, attributes, views, kinds of results, errors."""
from __future__ import annotations

import copy
import math
import subprocess
import sys
from typing import Any

import amount
import numpy as np
import pytest

import jitfuse as jf

torch = pytest.importorskip("torch", reason="torch is not installed")
F = torch.nn.functional


class Network(torch.nn.Module):
    """Layers, a parameter of its own, a number that forward reads."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.GELU(), torch.nn.LayerNorm(8))
        self.scale = torch.nn.Parameter(torch.ones(8))
        self.factor = 2.0

    def forward(self, x: Any) -> Any:
        """Return the layers' values, scaled."""
        return self.layers(x) * self.scale * self.factor


@pytest.fixture
def network() -> Any:
    torch.manual_seed(1)
    return Network().eval()


@pytest.fixture
def x() -> Any:
    return torch.linspace(0, 1, 20).reshape(4, 5)


def close(a: Any, b: Any) -> bool:
    return bool(torch.allclose(a, b, rtol=2e-5, atol=1e-5))


class TestModules:
    def test_parameters_are_read_again(self, network: Any, x: Any) -> None:
        # of some features: normalised, all of them cancel out
        f = jf.fuse(lambda x: network(x)[:, :3].sum(dim=1))
        with torch.no_grad():
            assert close(f(x), network(x)[:, :3].sum(dim=1))
            network.layers[0].weight.mul_(2)
            network.scale.add_(1)
            assert close(f(x), network(x)[:, :3].sum(dim=1))
            assert f.stats()["traces"] == 1
            network.scale = torch.nn.Parameter(torch.full((8,), 3.0))
            network.layers[0].bias = torch.nn.Parameter(torch.ones(8))
            assert close(f(x), network(x)[:, :3].sum(dim=1))

    def test_what_else_is_in_them_is_guarded(self, network: Any, x: Any) -> None:
        f = jf.fuse(network.forward)
        with torch.no_grad():
            assert close(f(x), network(x))
            network.factor = 0.5
            assert close(f(x), network(x))
            network.layers[2].eps = 0.1
            assert close(f(x), network(x))
            network.layers[1] = torch.nn.ReLU()
            assert close(f(x), network(x))
            network.layers.append(torch.nn.Tanh())
            assert close(f(x), network(x))

    def test_a_module_as_an_argument(self, network: Any, x: Any) -> None:
        f = jf.fuse(lambda module, x: module(x) + 1)
        other = Network().eval()
        with torch.no_grad():
            assert close(f(network, x), network(x) + 1)
            assert close(f(other, x), other(x) + 1)

    def test_gradients_are_kept_unless_no_grad(self, network: Any, x: Any) -> None:
        f = jf.fuse(lambda x: network(x), strict=True)
        found = f(x)
        assert close(found.detach(), network(x)) and found.requires_grad
        with torch.no_grad():
            assert close(f(x), network(x)) and not f(x).requires_grad

    def test_layers(self) -> None:
        torch.manual_seed(2)
        image = torch.rand(2, 4, 8, 8)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(4, 6, 3, padding=1), torch.nn.BatchNorm2d(6), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.Linear(96, 3), torch.nn.Softmax(dim=1),
        ).eval()
        f = jf.fuse(lambda image: model(image))
        with torch.no_grad():
            assert close(f(image), model(image))

    def test_embedding_and_attention(self) -> None:
        torch.manual_seed(3)
        table, tokens = torch.nn.Embedding(11, 8), torch.randint(0, 11, (2, 5))

        def block(tokens: Any) -> Any:
            h = table(tokens).view(2, 5, 2, 4).transpose(1, 2)
            return F.scaled_dot_product_attention(h, h, h, is_causal=True).transpose(1, 2).reshape(2, 5, 8)

        with torch.no_grad():
            assert close(jf.fuse(block)(tokens), block(tokens))


class OwnNorm(torch.nn.BatchNorm1d):
    pass


class OwnBuffer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x: Any) -> Any:
        y = self.norm(x)
        self.mean.mul_(0.9).add_(y.mean(0), alpha=0.1)
        return y - self.mean + self.norm.running_var


def _each(modules: Any, x: Any) -> Any:
    return [module(x) for module in modules][-1]


def _on_device(module: Any, x: Any) -> Any:
    with torch.device("cpu"):
        return module(x)


nn = torch.nn
BUFFERS: dict[str, tuple[Any, tuple[int, ...], Any]] = {
    "batch_norm": (lambda: nn.BatchNorm1d(4), (6, 4), None),
    "of images": (lambda: nn.BatchNorm2d(4, affine=False), (3, 4, 2, 5), None),
    "no momentum": (lambda: nn.BatchNorm1d(4, momentum=None), (6, 4), None),
    "none kept": (lambda: nn.BatchNorm1d(4, track_running_stats=False), (6, 4), None),
    "instance_norm": (lambda: nn.InstanceNorm2d(4, track_running_stats=True, affine=True), (3, 4, 2, 5), None),
    "derived": (lambda: OwnNorm(4), (6, 4), None),
    "own buffer": (OwnBuffer, (6, 4), None),
    "sequence": (lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True)), (6, 4), None),
    "list": (lambda: nn.ModuleList([nn.BatchNorm1d(4), nn.BatchNorm1d(4)]), (6, 4), _each),
    "twice": (lambda: nn.BatchNorm1d(4), (6, 4), lambda module, x: module(module(x))),
    "a mode of torch's": (lambda: nn.BatchNorm1d(4), (6, 4), _on_device),
    "observer": (torch.ao.quantization.FakeQuantize, (6, 4), None),
}


@pytest.mark.parametrize("name", BUFFERS)
@pytest.mark.filterwarnings("ignore:.*observer.*:UserWarning", "ignore:torch.ao.quantization:DeprecationWarning")
def test_buffers_of_torchs_modules_move(name: str) -> None:
    make, shape, call = BUFFERS[name]
    torch.manual_seed(7)
    module = make().requires_grad_(False)
    plain, call = copy.deepcopy(module), call or (lambda module, x: module(x))
    f = jf.fuse(lambda m, x: call(m, x * 2) + 1)
    for training in (True, True, False, True, False):
        module.train(training), plain.train(training)
        x = torch.rand(shape)
        assert close(f(module, x), call(plain, x * 2) + 1)
        for (key, buffer), expected in zip(module.named_buffers(), plain.buffers(), strict=True):
            assert type(buffer) is torch.Tensor and close(buffer, expected), key


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_what_a_library_stores_in_its_module_is_plain() -> None:
    torch.manual_seed(7)
    for normed in (nn.utils.spectral_norm, nn.utils.parametrizations.spectral_norm):
        module = normed(nn.Linear(4, 4)).requires_grad_(False)
        plain, f, x = copy.deepcopy(module), jf.fuse(lambda x, m=module: m(x) + 1), torch.rand(6, 4)
        for _ in range(3):
            assert close(f(x), plain(x) + 1)
            for value, expected in zip(module.state_dict().values(), plain.state_dict().values(), strict=True):
                assert type(value) is torch.Tensor and close(value, expected)


@pytest.mark.full
def test_transformer_layers_and_cells() -> None:
    torch.manual_seed(4)
    x = torch.rand(2, 5, 16)
    encoder = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    decoder = torch.nn.TransformerDecoderLayer(16, 4, 32, batch_first=True).eval()
    attention = torch.nn.MultiheadAttention(16, 4, kdim=8, vdim=8).eval()
    gru, lstm, rnn = torch.nn.GRUCell(16, 8), torch.nn.LSTMCell(16, 8), torch.nn.RNNCell(16, 8)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(5)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        for function in (
            lambda x: encoder(x), lambda x: encoder(x, src_mask=causal), lambda x: encoder(
                x, src_key_padding_mask=padding), lambda x: decoder(x, x * 2),
            lambda x: attention(x, x[..., :8], x[..., 8:]), lambda x: attention(
                x[0], x[0, :, :8], x[1, :, 8:], average_attn_weights=False)[1],
            lambda x: gru(x[:, 0]), lambda x: lstm(x[:, 0]), lambda x: rnn(x[:, 0], x[:, 1, :8]),
        ):
            got, want = jf.fuse(function)(x), function(x)
            pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
            assert all(close(a, b) and a.shape == b.shape for a, b in pairs)


def test_fusing_a_container_leaves_layers_as_they_are() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.ReLU()).eval()
    gru, x = torch.nn.GRU(5, 4).eval(), torch.rand(3, 5)
    with torch.no_grad():
        assert close(jf.fuse(model.forward)(x), model(x))
        f = jf.fuse(lambda x: gru(x)[0])
        for _ in range(3):
            assert close(f(x), gru(x)[0])
        gru.weight_ih_l0 = torch.nn.Parameter(torch.rand(12, 5))
        assert close(f(x), gru(x)[0])
        assert f.stats()["fallbacks"] == 0


class State:
    def __init__(self) -> None:
        self.w = torch.ones(5)
        self.parts = [torch.zeros(5), {"b": torch.arange(5.0)}]
        self.lr = 0.5


def test_tensors_in_attributes_and_containers(x: Any) -> None:
    state = State()
    f = jf.fuse(lambda x: x * state.w * state.lr + state.parts[0] + state.parts[1]["b"])

    def plain() -> Any:
        return x * state.w * state.lr + state.parts[0] + state.parts[1]["b"]

    assert close(f(x), plain())
    state.w += 1
    state.lr = 0.25
    assert close(f(x), plain()) and f.stats()["traces"] == 1
    state.w = torch.full((5,), 3.0)
    state.parts[1]["b"] = torch.ones(5)
    assert close(f(x), plain())
    state.w = torch.ones(5, dtype=torch.float64)
    assert close(f(x), plain()) and f(x).dtype is torch.float64


def test_numpy_arguments_and_tensors_of_globals() -> None:
    weights = torch.arange(4.0)
    f = jf.fuse(lambda a: weights * a)
    got = f(np.ones(4, "float32"))
    assert isinstance(got, torch.Tensor) and torch.equal(got, weights)


def test_views_writes_and_identities(x: Any) -> None:
    @jf.fuse
    def f(x: Any) -> Any:
        row = x[1]
        row.mul_(10)
        x[0] = 7
        x += 1
        return x, x[2:], x.view(-1)[:3] + 0

    mine, plain = x.clone(), x.clone()
    same, part, flat = f(mine)
    plain[1].mul_(10)
    plain[0] = 7
    plain += 1
    assert same is mine and torch.equal(mine, plain)
    assert part.data_ptr() == mine[2:].data_ptr() and torch.equal(flat, mine.view(-1)[:3])


def test_kinds_of_results(x: Any) -> None:
    def f(x: Any) -> Any:
        return {"max": x.max(dim=0), "size": x.shape, "n": x.size(0), "dtype": x.dtype, "scalar": x.sum()}

    got, want = jf.fuse(f)(x), f(x)
    assert got["size"] == want["size"] and got["n"] == 4 and got["dtype"] is torch.float32
    assert torch.equal(got["max"].indices, want["max"].indices) and got["scalar"].ndim == 0


def test_the_same_function_with_numpy_and_torch(x: Any) -> None:
    f = jf.fuse(lambda x: x.mean() / 2)
    for _ in range(2):
        assert isinstance(f(x.numpy()), np.float32) and isinstance(f(x), torch.Tensor)
    assert f.stats()["traces"] == 2
    assert "mean" in [s.op_name for s in f.program(x).steps]


def test_bfloat16_and_ints() -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.int8, torch.uint8, torch.int32, torch.bool):
        x = torch.arange(6).to(dtype)
        f = jf.fuse(lambda x: (x * 2, x + x, x.float() / 3, x.sum()))
        for got, want in zip(f(x), (x * 2, x + x, x.float() / 3, x.sum()), strict=True):
            assert got.dtype is want.dtype and torch.equal(got, want)


def test_functions_of_jitfuse_take_tensors(x: Any) -> None:
    f = jf.fuse(lambda x: jf.fori_loop(0, 3, lambda i, v: v.mul(2).add(x.mean(dim=0)), x) + jf.nn.relu(x - 0.5))
    want = x
    for _ in range(3):
        want = want.mul(2).add(x.mean(dim=0))
    assert close(f(x), want + F.relu(x - 0.5))


def test_dropout_draws_anew(x: Any) -> None:
    f = jf.fuse(lambda x: F.dropout(x, 0.5))
    many = torch.ones(100, 100)
    one, two = f(many), f(many)
    assert not torch.equal(one, two) and set(one.unique().tolist()) == {0.0, 2.0}
    assert 0.4 < (one == 0).float().mean() < 0.6


def test_randomness_and_missing_functions_say_so(x: Any) -> None:
    with pytest.raises(jf.UntraceableError, match=r"torch\.rand.*every call"):
        jf.fuse(lambda x: x + torch.rand(5), strict=True)(x)
    with pytest.raises(jf.JitfuseError, match=r"histc.*test_torch_tracing\.py"):
        jf.fuse(lambda x: torch.histc(x), strict=True)(x)
    with pytest.raises(jf.JitfuseError, match="can't be cast"):
        jf.fuse(lambda n: n.add_(0.5), strict=True)(torch.arange(3))


def test_reads_of_data_split_with_tensors_on_both_sides(x: Any) -> None:
    weights = torch.ones(5)

    def f(x: Any) -> Any:
        total = x.sum()
        if total > 0:
            return {"y": x.mul(2) * weights, "total": total}
        return {"y": weights - 1, "total": total}

    fused = jf.fuse(f)
    for sign in (1, -1, 1, -1):
        got, want = fused(x * sign), f(x * sign)
        assert close(got["y"], want["y"]) and close(got["total"], want["total"])
    given = jf.fuse(lambda a: weights * 2 if a.sum() > 0 else torch.zeros(2))
    for sign in (1, -1, 1):
        assert isinstance(given(np.full(3, float(sign))), torch.Tensor)


@pytest.mark.full
def test_functions_of_arrays_do_not_pay_for_torch() -> None:
    code = (
        "import sys, torch, numpy as np, jitfuse as jf\n"
        "jf.fuse(lambda x: np.sin(x) * sum([x, x]))(np.ones(3))\n"
        "assert not [m for m in sys.modules if 'torch_like' in m]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("part", [
    lambda x: x.contiguous(), lambda x: x.T.contiguous(), lambda x: x[:, ::2].contiguous(), lambda x: +x,
    lambda x: x.conj(), lambda x: x.narrow(1, -3, 2), lambda x: x.narrow(0, 1, 3),
])
def test_memory_is_shared_where_torch_shares_it(part: Any, x: Any) -> None:
    def f(x: Any) -> Any:
        y = part(x)
        y[0] = 7
        return y, x.sum()

    for given in (x, x.T.clone().T):
        ours = given.clone(memory_format=torch.preserve_format)
        expected, result = f(given), jf.fuse(f)(ours)
        assert all(map(close, result, expected))
        assert close(ours, given)


def test_narrow_beyond_the_axis(x: Any) -> None:
    for strict in (True, False):
        with pytest.raises(RuntimeError, match="exceeds dimension size"):
            jf.fuse(lambda x: x.narrow(1, 3, 9), strict=strict)(x)


@pytest.mark.parametrize(("case", "dtype"), amount.crossed(2, [
    ((2, 3, 9, 70), (3, 1, 3, 3), {"groups": 3, "padding": 1}), ((1, 1, 5, 200), (1, 1, 5, 2), {"stride": (2, 3)}),
    ((1, 70, 66), (1, 1, 1, 3), {"padding": "same"}), ((2, 2, 300), (2, 1, 40), {"groups": 2, "dilation": 3}),
    ((2, 2, 300), (4, 1, 7), {"groups": 2}), ((1, 1, 3, 4, 80), (1, 1, 2, 2, 2), {"padding": 1}),
    ((2, 1, 12, 90), (1, 1, 11, 11), {}), ((0, 1, 5, 80), (1, 1, 3, 3), {"padding": 1}),
], [torch.float32, torch.float64, torch.bfloat16]))
def test_convolutions_of_single_channels(case: Any, dtype: Any) -> None:
    shape, weight, options = case
    torch.manual_seed(5)
    conv = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[len(weight)]
    x, w, b = torch.randn(shape).to(dtype), torch.randn(weight).to(dtype), torch.randn(weight[0]).to(dtype)

    def f(x: Any, w: Any, b: Any) -> Any:
        y = conv(x, w, b, **options)
        z = torch.relu(conv(torch.tanh(x), w, **options))
        return y, z, conv(z, w, **options) if z.shape == x.shape else z

    tolerance = 0.1 if dtype is torch.bfloat16 else 2e-5
    fused = jf.fuse(f)
    for given in (x, x * 2, x.transpose(0, -1).contiguous().transpose(0, -1)):
        for got, want in zip(fused(given, w, b), f(given, w, b), strict=True):
            assert got.dtype is dtype
            torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize(("boundaries", "values"), [
    (torch.int64, torch.float32), (torch.int64, torch.float64), (torch.float32, torch.int64),
    (torch.float32, torch.float64), (torch.int32, torch.int64), (torch.uint8, torch.int8), (torch.float16, torch.int16),
])
def test_sorted_sequences_are_searched_in_the_dtype_that_both_have_in_common(
    boundaries: torch.dtype, values: torch.dtype
) -> None:
    sequence = torch.tensor([[0, 2, 2, 5, 7]] * 2).to(boundaries)
    v = torch.tensor([[0.5, 2.0, 2.5, 6.9]] * 2, dtype=torch.float64).to(values)

    def f(sequence: Any, v: Any) -> Any:
        return (torch.searchsorted(sequence, v), torch.searchsorted(sequence[0], v, right=True),
                torch.searchsorted(sequence[0], v[0, 2]), torch.searchsorted(sequence[0], 2.5),
                torch.bucketize(v, sequence[0]), torch.bucketize(2, sequence[1], right=True))

    for got, want in zip(jf.fuse(f)(sequence, v), f(sequence, v), strict=True):
        assert got.dtype is want.dtype
        torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.parametrize(("size", "dtype"), amount.crossed(
    2, [0, 1, 2, 7, 33], [torch.float32, torch.float64, torch.float16]))
def test_sequences_with_nan_are_searched_as_torch_does(size: int, dtype: torch.dtype) -> None:
    draws = torch.Generator().manual_seed(size)
    sequence = torch.rand(3, size, generator=draws, dtype=torch.float64).to(dtype)
    sequence[torch.rand(3, size, generator=draws) < 0.4] = torch.nan
    v = torch.tensor([[0.1, torch.nan, 0.5, -torch.inf, 0.9, torch.inf, 0.0]] * 3).to(dtype)

    def f(sequence: Any, v: Any) -> Any:
        return (torch.searchsorted(sequence, v), torch.searchsorted(sequence, v, right=True),
                torch.searchsorted(sequence[0], v), torch.searchsorted(sequence[0], v, side="right", out_int32=True),
                torch.searchsorted(sequence.flip(1), v[:, :0]), torch.bucketize(v, sequence[1]),
                torch.searchsorted(sequence[:, ::2].contiguous(), v.repeat(1, 9)))

    for got, want in zip(jf.fuse(f, strict=True)(sequence, v), f(sequence, v), strict=True):
        assert got.dtype is want.dtype
        assert torch.equal(got, want)


@pytest.mark.parametrize("move", [
    lambda x: x, lambda x: x[1:], lambda x: x[..., :0], lambda x: x.flip(0), lambda x: x.unsqueeze(1),
    lambda x: x[:1], lambda x: x[..., :1], lambda x: x.transpose(0, -1).contiguous(), lambda x: x.narrow(0, 0, 1),
    lambda x: x.transpose(0, -1).reshape(-1), lambda x: x.expand(1, *x.shape), lambda x: x.flatten(),
    lambda x: x.transpose(0, -1).reshape(x.shape),
])
@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 4), (1, 4), (6,)])
def test_tensors_that_torch_views_are_viewed(move: Any, shape: tuple[int, ...]) -> None:
    for target in ((-1,), (2, -1), (-1, 1)):
        x = torch.arange(math.prod(shape)).reshape(shape)
        try:
            want = move(x).view(*target)
        except RuntimeError:
            with pytest.raises((RuntimeError, jf.ShapeError)):
                jf.fuse(lambda x, target=target: move(x).view(*target), strict=True)(x)
            continue
        got = jf.fuse(lambda x, target=target: move(x).view(size=target), strict=True)(x)
        assert torch.equal(got, want)


def test_views_that_torch_refuses_raise_its_error() -> None:
    f = jf.fuse(lambda x: x.t().view(-1) + 1)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            f(torch.zeros(4, 6))
    assert f(torch.zeros(1, 6)).shape == (6,)


@pytest.mark.parametrize("width", [1, 3, 7, 14, 33, 70])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2)])
def test_convolutions_of_single_channels_sum_slices_of_rows_of_any_width(
    width: int, stride: int, dilation: int
) -> None:
    draws = torch.Generator().manual_seed(width)
    x, w = torch.rand(2, 5, 6, width, generator=draws), torch.rand(5, 1, 3, 3, generator=draws)
    x[0, 1, 2, width // 2], x[1, 3, 0, 0] = torch.inf, torch.nan

    def f(x: Any, w: Any) -> Any:
        return F.conv2d(x, w, stride=stride, dilation=dilation, padding=2, groups=5)

    fused = jf.fuse(f, strict=True)
    for given in (x, x.flip(0), x.transpose(0, 1).contiguous().transpose(0, 1)):
        torch.testing.assert_close(fused(given, w), f(given, w), equal_nan=True)
    assert "matmul" not in fused.explain(x, w)
