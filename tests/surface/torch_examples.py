"""torch's functions and methods that array code uses, with calls in several forms: the list that docs/torch.md shows.

The choice: what networks, losses and numerical code call on tensors: no autograd, devices, sparse, quantised or
distributed tensors. One line for each function: its name, then expressions over the arguments of `torch_arguments`.
"""
from __future__ import annotations

from typing import Final

from surface import torch_network_examples
from surface.page import listed

SECTIONS: Final[dict[str, str]] = {
    "Arithmetic": """
        add: torch.add(x, y); x + 2.5; torch.add(x, y, alpha=2); x + n; 1 + x; x + z; torch.add(x, y, out=o)
        sub: x - y; torch.sub(x, 1.5, alpha=2); 3 - x; torch.subtract(x, y)
        mul: x * y; x * 3; torch.mul(n, 0.5); torch.multiply(x, y); x * True
        div: x / y; n / 2; torch.div(x, y, rounding_mode="floor"); torch.div(n, 3, rounding_mode="trunc"); x / 3; \
            1 / x
        floor_divide: x // y; n // 2; torch.floor_divide(n, 3)
        remainder: x % 0.3; n % 3; torch.remainder(x, y)
        fmod: torch.fmod(x, 0.3); torch.fmod(n, 3)
        pow: x ** 2; x ** 0.5; x ** y; torch.pow(x, 3); 2 ** x; n ** 2; x ** -1; x ** 1.7
        float_power: torch.float_power(x, 2)
        neg: -x; torch.neg(n)
        abs: abs(x - 0.5); torch.abs(x); x.abs()
        sign: torch.sign(x - 0.5); torch.sign(n)
        square: torch.square(x)
        sqrt: torch.sqrt(x); n.sqrt()
        rsqrt: torch.rsqrt(x)
        reciprocal: torch.reciprocal(x)
        exp: torch.exp(x); x.exp(); torch.exp(n)
        exp2: torch.exp2(x)
        expm1: torch.expm1(x)
        log: torch.log(x); x.log()
        log2: torch.log2(x)
        log10: torch.log10(x)
        log1p: torch.log1p(x)
        sin: torch.sin(x); x.sin()
        cos: torch.cos(x)
        tan: torch.tan(x)
        asin: torch.asin(x * 0.5)
        acos: torch.acos(x * 0.5)
        atan: torch.atan(x)
        atan2: torch.atan2(x, y)
        sinh: torch.sinh(x)
        cosh: torch.cosh(x)
        tanh: torch.tanh(x)
        asinh: torch.asinh(x)
        acosh: torch.acosh(x + 1)
        atanh: torch.atanh(x * 0.3)
        erf: torch.erf(x)
        erfc: torch.erfc(x)
        sigmoid: torch.sigmoid(x); x.sigmoid()
        logit: torch.logit(x * 0.5); torch.logit(x, eps=0.1)
        lgamma: torch.lgamma(x)
        digamma: torch.digamma(x)
        sinc: torch.sinc(x)
        hypot: torch.hypot(x, y)
        logaddexp: torch.logaddexp(x, y)
        xlogy: torch.xlogy(x, y)
        lerp: torch.lerp(x, y, 0.3); torch.lerp(x, y, y)
        addcmul: torch.addcmul(x, x, y, value=0.5)
        addcdiv: torch.addcdiv(x, x, y, value=0.5)
        deg2rad: torch.deg2rad(x)
        rad2deg: torch.rad2deg(x)
        copysign: torch.copysign(x, -y)
        gcd: torch.gcd(n, n + 2)
        erfinv: torch.erfinv(x * 0.9)
        special.ndtr: torch.special.ndtr(x)
        special.entr: torch.special.entr(x - 0.5)
        special.xlog1py: torch.special.xlog1py(x, y)
        special.i0e: torch.special.i0e(x)
        angle: torch.angle(x - 0.5); torch.angle(torch.complex(x.float(), y.float()))
        complex: torch.complex(x.float(), y.float())
        polar: torch.polar(x.float(), y.float())
        view_as_real: torch.view_as_real(torch.complex(x.float(), y.float()))
        view_as_complex: torch.view_as_complex(x[:, :2].float().contiguous())
        real: torch.real(x); torch.complex(x.float(), y.float()).real
        isreal: torch.isreal(x)
        result_type: torch.result_type(x, n); torch.result_type(n, 1.0)
    """,
    "Rounding, limits, comparison, logic": """
        floor: torch.floor(x * 10)
        ceil: torch.ceil(x * 10)
        trunc: torch.trunc(x * 10)
        round: torch.round(x * 10); torch.round(x, decimals=1)
        frac: torch.frac(x * 10)
        clamp: torch.clamp(x, 0.2, 0.8); x.clamp(min=0.5); x.clip(max=0.5); torch.clamp(n, 1, 3); torch.clamp(x, y)
        clamp_min: x.clamp_min(0.5)
        maximum: torch.maximum(x, y)
        minimum: torch.minimum(x, y)
        fmax: torch.fmax(x, y)
        nan_to_num: torch.nan_to_num(x / 0.0); torch.nan_to_num(x, nan=1.0)
        isnan: torch.isnan(x / 0.0 * 0.0)
        isinf: torch.isinf(x / 0.0)
        isfinite: torch.isfinite(x)
        eq: x == y; torch.eq(n, 2); x.eq(x)
        ne: x != y
        lt: x < 0.5; torch.lt(x, y)
        le: x <= y
        gt: x > 0.5; n > 1.5
        ge: x >= y
        isclose: torch.isclose(x, x)
        logical_and: torch.logical_and(b, x > 0.5); torch.logical_and(n, n)
        logical_or: torch.logical_or(b, b)
        logical_xor: torch.logical_xor(b, x > 0.5)
        logical_not: torch.logical_not(b); ~b
        bitwise_and: n & 3; b & (x > 0.5)
        bitwise_or: n | 4
        bitwise_xor: n ^ 1
        bitwise_not: torch.bitwise_not(n)
        bitwise_left_shift: n << 1
        bitwise_right_shift: n >> 1
        where: torch.where(x > 0.5, x, y); torch.where(b, x, 0.0); torch.where(b, 1.0, 0.0); x.where(b, y); \
            torch.where(b, x, n)
        masked_fill: x.masked_fill(b, 0.0); x.masked_fill(b, float("-inf"))
    """,
    "Reductions and scans": """
        sum: x.sum(); torch.sum(x, dim=1); x.sum((0, 1), keepdim=True); n.sum(); b.sum(); \
            torch.sum(x, -1, dtype=torch.float64); x.sum(axis=0)
        prod: x.prod(); torch.prod(x, 1); n.prod(dim=0, keepdim=True)
        mean: x.mean(); x.mean(dim=0); torch.mean(x, (0, 1)); x.mean(-1, keepdim=True); n.mean(dtype=torch.float32)
        var: x.var(); x.var(dim=1); torch.var(x, dim=0, unbiased=False); x.var(0, correction=0); \
            x.var(unbiased=False)
        std: x.std(); x.std(dim=1, keepdim=True); torch.std(x, 0, correction=0)
        var_mean: torch.var_mean(x, dim=1)
        std_mean: torch.std_mean(x)
        max: x.max(); x.max(dim=1); torch.max(x, 0, keepdim=True); torch.max(x, y); x.max(1).values
        min: x.min(); x.min(dim=0).indices; torch.min(x, y)
        amax: x.amax(); x.amax(dim=1); torch.amax(x, (0, 1), keepdim=True)
        amin: x.amin(dim=0)
        aminmax: torch.aminmax(x); torch.aminmax(x, dim=1)
        argmax: x.argmax(); x.argmax(dim=1); torch.argmax(x, 0, keepdim=True)
        argmin: x.argmin(dim=1)
        any: b.any(); torch.any(b, dim=1); n.any()
        all: b.all(); b.all(dim=0, keepdim=True)
        count_nonzero: torch.count_nonzero(n); torch.count_nonzero(n, dim=1)
        logsumexp: torch.logsumexp(x, dim=1); x.logsumexp((0, 1))
        norm: x.norm(); torch.norm(x, dim=1); x.norm(p=1, dim=0); torch.linalg.norm(v); \
            torch.linalg.vector_norm(x, dim=1); x.norm(3)
        cumsum: x.cumsum(0); torch.cumsum(n, dim=1)
        cumprod: x.cumprod(1)
        cummax: torch.cummax(x, 1); n.cummax(0)
        cummin: torch.cummin(x, dim=0)
        logcumsumexp: torch.logcumsumexp(x, 1)
        cumulative_trapezoid: torch.cumulative_trapezoid(x, dx=0.5)
        renorm: torch.renorm(x, 2, 0, 0.5)
        nanmedian: torch.nanmedian(x)
        cov: torch.cov(x.float())
        corrcoef: torch.corrcoef(x.float())
        nansum: torch.nansum(x)
        nanmean: torch.nanmean(x, dim=1)
        diff: torch.diff(v); torch.diff(x, dim=0)
        trapezoid: torch.trapezoid(x, dx=0.5)
        median: x.median(); x.median(dim=1)
        quantile: torch.quantile(x, 0.3); torch.quantile(x, 0.5, dim=1)
        sort: x.sort(dim=1); torch.sort(v, descending=True); x.sort(0).values
        argsort: v.argsort(); torch.argsort(x, dim=1, descending=True)
        topk: v.topk(3); torch.topk(x, 2, dim=1); v.topk(2, largest=False); x.repeat(1, 20).topk(3)[0]; \
            x.repeat(20, 1).topk(3, 0, False).values
        kthvalue: torch.kthvalue(v, 2)
        searchsorted: torch.searchsorted(v.sort().values, v); torch.searchsorted(v.sort().values, x, right=True); \
            torch.searchsorted(x.sort().values, y[:, :2]); \
            torch.searchsorted(q.sort().values, q[..., 1:4].contiguous(), right=True, out_int32=True)
        bucketize: torch.bucketize(x, v.sort().values)
    """,
    "Shapes, joins, rearrangements": """
        view: x.view(2, 10); x.view(-1); x.view((5, 4)) if x.is_contiguous() else x
        reshape: x.reshape(2, -1); torch.reshape(x, (20,))
        view_as: x.reshape_as(x.reshape(2, 10))
        permute: x.permute(1, 0); torch.permute(q, (0, 2, 1, 3)); q.permute(3, 0, 1, 2)
        transpose: x.transpose(0, 1); q.transpose(-1, -2); torch.swapaxes(x, 0, 1)
        t: x.t(); v.t() + 0
        T: x.T; x.mT
        movedim: torch.movedim(q, 1, -1)
        squeeze: x[None].squeeze(0); torch.squeeze(x[:, :1]); x.squeeze(0); x[:, :1].squeeze(-1)
        unsqueeze: x.unsqueeze(0); torch.unsqueeze(x, -1)
        flatten: q.flatten(); torch.flatten(q, 1); q.flatten(1, 2)
        unflatten: v.unflatten(0, (2, 3)); v.unflatten(0, (-1, 2))
        expand: x.unsqueeze(0).expand(3, -1, -1) + 0; v.expand(2, 6) + 0
        expand_as: v[:5].expand_as(x) + 0
        broadcast_to: torch.broadcast_to(v, (2, 6)) + 0
        repeat: v.repeat(2); x.repeat(2, 1)
        tile: torch.tile(v, (2,))
        repeat_interleave: v.repeat_interleave(2); torch.repeat_interleave(x, 2, dim=1)
        contiguous: x.contiguous() + 0; x.T.contiguous().view(-1)
        clone: x.clone()
        cat: torch.cat([x, y]); torch.cat((x, y), dim=1); torch.cat([x, n], -1)
        stack: torch.stack([x, y]); torch.stack((x, y), dim=-1)
        vstack: torch.vstack([x, y])
        hstack: torch.hstack([x, y])
        split: torch.split(x, 2, dim=1); x.split([1, 3])
        chunk: x.chunk(2, dim=0); torch.chunk(v, 4)[1] + 0
        unbind: x.unbind(1); torch.unbind(x)
        narrow: x.narrow(1, 1, 3) + 0
        select: x.select(0, 1) + 0
        getitem: x[0]; x[:, 1:4:2]; x[..., None]; x[i % 4]; x[i % 4, i]; x[-1, -2]; x[[0, 2]]; x[:, None, :]
        setitem: (o.__setitem__(0, 1.0), o)[1]; (o.__setitem__((slice(None), 1), x[:, 0].double()), o)[1]
        flip: x.flip(0); torch.flip(x, (0, 1))
        roll: torch.roll(v, 2); x.roll(1, 0); torch.roll(x, (1, -1), (0, 1))
        rot90: torch.rot90(x)
        tril: torch.tril(x); x.tril(-1)
        triu: torch.triu(x, 1)
        diag: torch.diag(v); torch.diag(m)
        diagonal: torch.diagonal(m) + 0
        trace: torch.trace(m)
        meshgrid: torch.meshgrid(v, w, indexing="ij"); torch.meshgrid(v, w, indexing="xy")
        unfold: v.unfold(0, 3, 1)
        gather: x.gather(1, n.long() % 5); torch.gather(x, 0, n[:2].long() % 4)
        scatter: o.scatter(1, n.long() % 5, 1.0); torch.scatter(o, 0, n[:1].long() % 4, x.double())
        scatter_reduce: o.scatter_reduce(1, n.long() % 5, x.double(), "amax"); \
            x.scatter_reduce(0, n[:3].long() % 4, y[:3], "mean"); x.scatter_reduce(1, n.long() % 2, y, "prod", \
            include_self=False); x.scatter_reduce(1, n.long() % 2, y, "amin", include_self=False); \
            x.scatter_reduce(0, n.long() % 4, y, reduce="mean", include_self=False); \
            (o.scatter_reduce_(0, n.long() % 3, y.double(), "sum", include_self=False), o)[1]
        scatter_add: torch.zeros(4, 5, dtype=x.dtype).scatter_add(0, n.long() % 4, x)
        index_select: x.index_select(0, i % 4); torch.index_select(x, 1, i)
        index_add: torch.zeros(6, 5, dtype=x.dtype).index_add(0, i[:4], x)
        take_along_dim: torch.take_along_dim(x, n.long() % 5, dim=1)
        tensor_split: torch.tensor_split(v, 4)[1] + 0; torch.tensor_split(x, (1, 3), dim=1)[2] * 2
        hsplit: torch.hsplit(v, 3)[2] + 0
        select_scatter: torch.select_scatter(x, y[0], 0, 1)
        slice_scatter: torch.slice_scatter(x, y[:2], 0, 1, 3)
        diagonal_scatter: torch.diagonal_scatter(m, m[0] * 2)
        diag_embed: torch.diag_embed(x); torch.diag_embed(v, 1, 0, 1)
        diagflat: torch.diagflat(x[:2, :2])
        block_diag: torch.block_diag(x, y[:2])
        cartesian_prod: torch.cartesian_prod(v, w)
        combinations: torch.combinations(v)
        vander: torch.vander(v, 3)
        stride: x.contiguous().stride()
        unsqueeze_: x.clone().unsqueeze_(0); (x + 1).squeeze_(); (x + 1).t_() * 2; (q * 2).transpose_(1, 2)
        fill_diagonal_: m.clone().fill_diagonal_(2.5)
        masked_scatter: x.masked_scatter(b, y)
        isin: torch.isin(n, i)
        broadcast_tensors: torch.broadcast_tensors(x, v[:5])[1] + 0
    """,
    "Tensors made, cast, asked": """
        zeros: torch.zeros(2, 3); torch.zeros((4, 5)) + x; torch.zeros(3, dtype=torch.int64)
        ones: torch.ones(4, 5) * x
        full: torch.full((2, 2), 3.5); torch.full((2,), 7)
        tensor: torch.tensor([1.0, 2.0]); torch.tensor([[1, 2], [3, 4]]); torch.tensor(2.5) * x
        arange: torch.arange(5); torch.arange(1.0, 2.0, 0.25); torch.arange(5) * x
        linspace: torch.linspace(0, 1, 5)
        eye: torch.eye(3); torch.eye(2, 3)
        zeros_like: torch.zeros_like(x); torch.zeros_like(x, dtype=torch.int32)
        ones_like: torch.ones_like(x)
        full_like: torch.full_like(x, 2)
        new_zeros: x.new_zeros(2, 3)
        new_ones: x.new_ones((2,))
        to: x.to(torch.float64); x.to("cpu"); x.to(dtype=torch.int32); x.to(y)
        float: x.float(); n.float()
        double: x.double()
        half: x.half()
        bfloat16: x.bfloat16()
        int: (x * 10).int()
        long: (x * 10).long()
        bool: n.bool()
        type_as: n.type_as(x)
        size: x.size(); x.size(0); x.shape[-1]
        dim: x.dim(); x.ndim
        numel: x.numel(); torch.numel(x)
        detach: x.detach() + 1
        dtype: x.dtype; (x + 1).dtype == x.dtype
        is_floating_point: x.is_floating_point(); torch.is_floating_point(n)
    """,
    "In place": """
        add_: (o.add_(1.5), o)[1]; (o.add_(x.double(), alpha=2), o)[1]
        sub_: (o.sub_(1), o)[1]
        mul_: (o.mul_(x.double()), o)[1]
        div_: (o.add_(1).div_(4), o)[1]
        clamp_: (o.add_(x.double()).clamp_(0.2, 0.6), o)[1]
        copy_: (o.copy_(x), o)[1]
        fill_: (o.fill_(3), o)[1]; (o[1].fill_(2), o)[1]
        zero_: (o.add_(1).zero_(), o)[1]
        relu_: (o.sub_(0.5).relu_(), o)[1]
        masked_fill_: (o.masked_fill_(b, 2.0), o)[1]
        exp_: (o.exp_(), o)[1]
        scatter_: (o.scatter_(1, n.long() % 5, 1.0), o)[1]
        index_add_: (o.index_add_(0, i[:2], x[:2].double()), o)[1]
    """,
    **torch_network_examples.SECTIONS,
    "Whose shapes depend on values, and randomness": """
        nonzero: torch.nonzero(b); b.nonzero(as_tuple=True); torch.where(b)
        argwhere: torch.argwhere(x > 0.5)
        masked_select: torch.masked_select(x, b); x[b]
        unique: torch.unique(i); torch.unique(n, return_inverse=True, return_counts=True); n.unique(dim=0)
        unique_consecutive: torch.unique_consecutive(i, return_counts=True)
        repeat_interleave by counts: torch.repeat_interleave(v, i)
        one_hot of all classes: F.one_hot(i)
        rand: torch.rand(3)
        randn_like: torch.randn_like(x)
        bincount: torch.bincount(i); torch.bincount(i, minlength=9)
        histc: torch.histc(x.float(), 4, 0, 1)
    """,
}
SPLITTING: Final = frozenset({
    "nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount", "repeat_interleave by counts",
    "one_hot of all classes"})
"""Functions by which the program is split."""
REFUSED: Final = frozenset({"rand", "randn_like"})
"""Functions that may raise: their way out is in the table."""
EXACT: Final = frozenset({"to", "float", "double", "half", "bfloat16", "cat", "stack", "view", "sort"})
"""Functions that only move and cast elements, for every dtype."""


def functions() -> dict[str, dict[str, list[str]]]:
    """Return section -> function -> its examples."""
    return listed(SECTIONS)
