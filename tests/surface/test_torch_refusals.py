"""Calls that torch refuses raise a typed error inside a fused function too, with the user's line."""
from __future__ import annotations

import warnings

import pytest
from surface.examples import function_of

import jitfuse as jf

torch = pytest.importorskip("torch", reason="torch is not installed")
F = torch.nn.functional
from surface import torch_page  # noqa: E402
from surface.torch_arguments import torch_arguments  # noqa: E402

INVALID = """
    x @ y; x @ m; x @ v; torch.mm(x, y); torch.mm(x, v); torch.bmm(x, y); torch.mv(x, v); torch.dot(v, w[:3])
    torch.dot(x, y); F.linear(x, m); F.linear(x, y.double()); F.linear(x, y, v); F.linear(x, y, v[:4].double())
    torch.addmm(x, x, y.T); torch.addmm(m, x, y.T); torch.einsum("ij,jk->ik", x, y); torch.outer(x, v)
    n.add_(0.5); n.mul_(x); n.div_(2); (n + 0).__iadd__(x); (b.clone()).add_(1); (n + 0).__itruediv__(2); n.exp_()
    n.sigmoid_(); (x + 0).add_(q); (x + 0).__iadd__(v); (x + 0).copy_(v); torch.add(x, y, out=torch.zeros(4, 5).long())
    x + v; x * q[0, 0, 0, :3]; torch.maximum(x, v); torch.where(b, x, v); torch.where(x, x, y); x < v
    x.view(3, 7); x.view(-1, 3); x.reshape(7, -1); x.reshape(-1, -1); x.view(4, -5); x.t().view(-1); x[:, 1:].view(-1)
    x.expand(4, 6); x.expand(5); x.expand(3, 4, 6); v.expand(6, 5); x.expand(-1, 4, 5); x.expand_as(v)
    torch.cat([x, v]); torch.cat([x, q]); torch.cat([x, m]); torch.cat([]); torch.stack([x, v]); torch.cat([x, y], 2)
    torch.stack([x, y], 4); torch.stack([]); x.sum(2); x.sum(-3); x.mean(5); x.max(2); x.argmax(3); x.sum((0, 0))
    x.softmax(2); F.softmax(x, -3); x.cumsum(2); x.transpose(0, 2); x.permute(0, 0); x.permute(0); x.permute(0, 1, 2)
    x.unsqueeze(4); x.squeeze(3); x.flatten(1, 0); x.flatten(3); x.unbind(2); x.select(0, 4); x.select(2, 0); x.t().t(1)
    q.t(); x.narrow(0, 2, 3); x.narrow(3, 0, 1); x.split(0); x.split([1, 2]); x.split(-1); x.chunk(0); x[4]; x[0, 5]
    x[:, :, 0]; x[-5]; x[::-1]; x.index_select(0, i); x.index_select(0, i.float()); x.gather(0, i)
    x.index_select(1, i[:2] - 1)
    F.embedding(i - 1, x); x.gather(1, n.long() - 5); o.index_add(0, i[:4] - 1, x.double()); F.nll_loss(x, i[:4] - 1)
    x[i.float()]; x[torch.tensor([7])]; torch.gather(x, 1, n.long() + 5); x.index_select(2, i); x[b.T]; x[b, b]
    o.scatter(1, n.long() + 5, 1.0); o.scatter_add(1, n.long(), x.float()); o.index_add(0, i, x)
    o.index_add(0, i[:4] % 4, x); o.masked_fill(n, 1.0); o.masked_fill(b.T, 1.0); torch.take(x, i + 20)
    n.mean(); n.std(); n.var(); b.mean(); n.norm(); n.softmax(0); F.softmax(n, 0); n.log_softmax(1); F.gelu(n)
    F.silu(n); F.layer_norm(x, (4,)); F.layer_norm(n, (5,)); F.layer_norm(x, (5,), v); F.layer_norm(x, (5,), v[:5], w)
    F.rms_norm(x, (4,)); F.rms_norm(x, (5,), v); F.group_norm(img, 3); F.group_norm(img, 2, v); F.dropout(x, 2.0)
    F.batch_norm(img, v, w); F.batch_norm(img, v[:4], w[:4], v); F.batch_norm(x, None, None); F.instance_norm(v)
    F.cross_entropy(x, i); F.cross_entropy(x, i[:4] + 5); F.cross_entropy(x, i[:4].float()); F.cross_entropy(x, i[:3])
    F.nll_loss(x, i[:4] + 4); F.nll_loss(x, i[:4] - 3); F.cross_entropy(x, i[:4], weight=v)
    F.cross_entropy(x, i[:4], reduction="avg"); F.mse_loss(x, v); F.mse_loss(x, y, reduction="avg")
    F.l1_loss(x, v); F.binary_cross_entropy(x, y[:2]); F.binary_cross_entropy(x * 9, y)
    F.binary_cross_entropy_with_logits(x, y[:2]); F.kl_div(x, v); F.smooth_l1_loss(x, y, beta=-1.0)
    F.embedding(i, x); F.embedding(x, x); F.embedding(i % 4 - 9, x); F.one_hot(i, 3); F.one_hot(i.int(), 5)
    F.one_hot(i - 1, 5); F.conv2d(img, ker[:, :3]); F.conv2d(img, ker.double()); F.conv2d(img, ker, v)
    F.conv2d(x, ker); F.conv2d(img, ker, groups=3); F.conv2d(img[..., :2], ker); F.conv2d(img, ker, stride=0)
    F.conv2d(img, ker, padding=-1); F.conv2d(img, ker, stride=2, padding="same"); F.conv_transpose2d(img, ker)
    F.max_pool2d(img, 7); F.max_pool2d(img, 2, padding=2); F.avg_pool2d(v, 2); F.max_pool2d(img, 0)
    F.interpolate(img); F.interpolate(img, size=(3,)); F.interpolate(img, scale_factor=2, mode="linear")
    F.interpolate(img, scale_factor=2, align_corners=True); F.pad(x, (1,)); F.pad(x, (1, 1, 1, 1, 1, 1))
    F.pad(x, (1, 1), mode="other"); F.pad(img, (9, 9), mode="reflect"); F.pad(x, (-3, -3)); F.glu(x); F.glu(v[:3])
    F.scaled_dot_product_attention(q, q[..., :3], q); F.scaled_dot_product_attention(q, q.double(), q)
    F.normalize(n); F.cosine_similarity(x, v); F.pixel_shuffle(img, 3); F.prelu(x, v); F.unfold(x, 3)
    torch.clamp(x); x.clamp(v); torch.cross(x, y, dim=0); torch.linalg.inv(x); torch.linalg.inv(n[:4, :4])
    torch.linalg.solve(m, v.double()); torch.linalg.cholesky(-m); torch.linalg.det(x); torch.linalg.inv(m * 0)
    n // 0; n % 0; torch.div(n, 0, rounding_mode="trunc"); torch.fmod(n, 0); n // n; n % n; torch.remainder(5, n)
    torch.floor_divide(n, n); torch.div(n, n, rounding_mode="floor"); n ** -1; torch.pow(n, -2); -b; b - b; x & 1; ~x
    x << 1; x | y; torch.gcd(x, y); b.neg(); torch.bitwise_not(x); x.bool() - True; torch.sub(b, b)
    torch.arange(0, 5, -1); torch.arange(0, 5, 0); torch.full((2, -1), 1.0); torch.zeros(-1); torch.eye(-1)
    torch.linspace(0, 1, -2); x.repeat(2); x.repeat(-1, 1); torch.tile(x, (-1,)); x.topk(9); v.kthvalue(7)
    v.kthvalue(0)
    torch.sort(x, 2); torch.searchsorted(x, v); torch.searchsorted(v, x, right=True, side="left")
    torch.quantile(x, 1.5); torch.quantile(n, 0.5); x.roll(1, 2); x.flip(2)
    torch.diff(x, dim=2); torch.trace(v); torch.tril(v); torch.diag(q); torch.diagonal(v); torch.meshgrid(x, y)
    v.unfold(0, 9, 1); v.unfold(0, 2, 0); v.unflatten(0, (4, 2)); v.unflatten(0, (-1, 4)); torch.lerp(x, m, 0.5)
    torch.lerp(x, y.double(), 0.5); torch.isclose(x, y.double()); torch.addcmul(x, y, v); torch.atan2(x, v); x.item()
    torch.nn.functional.huber_loss(x, y, delta=0.0); torch.masked_select(x, n); x.masked_scatter(b, y.double())
    torch.movedim(x, 0, 3); torch.rot90(v); torch.tensordot(x, y, dims=1); torch.kron(x, "a"); len(x.sum()); x.sum()[0]
    float(x); int(x); bool(x); list(x.sum()); x.new_zeros(-2); torch.vstack([x, v[:4]]); torch.hstack([x, v])
"""
EXPRESSIONS = [e.strip() for line in INVALID.strip().splitlines() for e in line.split("; ")]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_what_torch_refuses_raises(expression: str) -> None:
    made, again = torch_arguments(), torch_arguments()
    function, used = function_of(expression, torch_page.space(), list(made))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as plain:
            function(*(made[k] for k in used))
        with pytest.raises(Exception) as caught:
            jf.fuse(function, strict=True)(*(again[k] for k in used))
    kinds = jf.JitfuseError | TypeError | ValueError | IndexError
    assert isinstance(caught.value, kinds | type(plain.value)), caught.value


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_integers_divided_by_zero(name: str, dtype: str) -> None:
    f = jf.fuse(getattr(torch, name))
    x = torch.arange(20, 31).to(getattr(torch, dtype))
    y = (x - 15).clone()
    for _ in range(2):
        assert torch.equal(f(x, y), getattr(torch, name)(x, y))
    y[7] = 0
    for _ in range(2):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            f(x, y)
    assert f(x[:0], y[:0]).shape == (0,)
    floats = getattr(torch, name)(x.float(), y.float())
    assert torch.equal(f(x.float(), y.float()).isfinite(), floats.isfinite())


def test_labels_that_are_ignored_may_be_anything() -> None:
    f = jf.fuse(lambda x, t: F.cross_entropy(x, t))
    x, t = torch.rand(3, 4), torch.tensor([1, -100, 3])
    assert torch.allclose(f(x, t), F.cross_entropy(x, t))
    t[0] = -1
    with pytest.raises(IndexError):
        f(x, t)
