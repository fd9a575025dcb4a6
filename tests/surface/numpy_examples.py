"""NumPy's functions that array code uses, with calls of each in several forms: the list that docs/numpy.md shows.

The choice: everything in NumPy's reference that computes with arrays and that scientific code, course material and the
published benchmark collections call; not files, printing, records, strings, dates and masked arrays. One line for each
function: its name, then expressions over the arguments that `surface.arguments` makes.
"""
from __future__ import annotations

from typing import Final

from surface import numpy_algebra_examples
from surface.page import listed

SECTIONS: Final[dict[str, str]] = {
    "Elementwise mathematics": """
        add: np.add(x, y); np.add(x, 2.5); np.add(x, y, out=o); np.add(x, y, where=b, out=o); \
            np.add(n, 1, dtype=np.float32)
        subtract: np.subtract(x, y); np.subtract(x, v[:5]); np.subtract(c, x)
        multiply: np.multiply(x, y); np.multiply(x, 3); np.multiply(c, 2j)
        divide: np.divide(x, y); np.divide(n, 4); np.divide(x, 0.0); np.true_divide(x, y)
        floor_divide: np.floor_divide(x, y); np.floor_divide(n, 3); n // 2
        power: np.power(x, 2); np.power(x, y); x ** 0.5; x ** -1; np.power(n, 3)
        float_power: np.float_power(x, 2); np.float_power(x, y)
        remainder: np.remainder(x, y); np.mod(x, 0.3); n % 3
        fmod: np.fmod(x, y); np.fmod(n, 3)
        divmod: np.divmod(x, y); divmod(n, 3)
        negative: np.negative(x); -x
        positive: np.positive(x); +x
        absolute: np.absolute(x); np.abs(x - 0.5); abs(c)
        fabs: np.fabs(x - 0.5)
        sign: np.sign(x - 0.5); np.sign(n)
        rint: np.rint(x * 10)
        sqrt: np.sqrt(x); np.sqrt(c); np.sqrt(x, out=o)
        cbrt: np.cbrt(x)
        square: np.square(x); np.square(n)
        reciprocal: np.reciprocal(x)
        exp: np.exp(x); np.exp(c); np.exp(n, dtype=np.float32)
        exp2: np.exp2(x)
        expm1: np.expm1(x)
        log: np.log(x); np.log(c)
        log2: np.log2(x)
        log10: np.log10(x)
        log1p: np.log1p(x)
        logaddexp: np.logaddexp(x, y)
        logaddexp2: np.logaddexp2(x, y)
        hypot: np.hypot(x, y); np.hypot(x, 3)
        sin: np.sin(x); np.sin(c)
        cos: np.cos(x)
        tan: np.tan(x)
        arcsin: np.arcsin(x); np.asin(x)
        arccos: np.arccos(x)
        arctan: np.arctan(x)
        arctan2: np.arctan2(x, y); np.atan2(x, -1.0)
        sinh: np.sinh(x)
        cosh: np.cosh(x)
        tanh: np.tanh(x)
        arcsinh: np.arcsinh(x)
        arccosh: np.arccosh(x + 1)
        arctanh: np.arctanh(x * 0.5)
        deg2rad: np.deg2rad(x)
        rad2deg: np.rad2deg(x)
        radians: np.radians(x)
        degrees: np.degrees(x)
        heaviside: np.heaviside(x - 0.5, 0.5)
        copysign: np.copysign(x, -y)
        nextafter: np.nextafter(x, 1.0)
        spacing: np.spacing(x)
        ldexp: np.ldexp(x, 2)
        frexp: np.frexp(x)
        modf: np.modf(x * 3)
        gcd: np.gcd(n, 6)
        lcm: np.lcm(n, 4)
        sinc: np.sinc(x)
        i0: np.i0(x)
        real: np.real(c); c.real; np.real(x)
        imag: np.imag(c); c.imag
        conj: np.conj(c); np.conjugate(x); c.conj()
        angle: np.angle(c); np.angle(c, deg=True)
    """,
    "Rounding, limits and what is no number": """
        floor: np.floor(x * 10)
        ceil: np.ceil(x * 10)
        trunc: np.trunc(x * 10)
        round: np.round(x, 2); np.around(x * 10); x.round(1); np.round(x, decimals=1, out=o)
        fix: np.fix(x * 10)
        clip: np.clip(x, 0.2, 0.8); np.clip(x, None, 0.5); np.clip(x, y, 1); x.clip(0.1, 0.6); \
            np.clip(x, 0.2, 0.8, out=o)
        maximum: np.maximum(x, y); np.maximum(x, 0.5)
        minimum: np.minimum(x, y)
        fmax: np.fmax(x, y)
        fmin: np.fmin(x, y)
        nan_to_num: np.nan_to_num(x / 0); np.nan_to_num(x, nan=1.0, posinf=2.0)
        isnan: np.isnan(x / 0 * 0)
        isinf: np.isinf(x / 0)
        isfinite: np.isfinite(x)
        isposinf: np.isposinf(x / 0)
        isneginf: np.isneginf(-x / 0)
        signbit: np.signbit(x - 0.5)
        unwrap: np.unwrap(v * 10); np.unwrap(x * 9, axis=0); np.unwrap(v * 4, period=3); np.unwrap(v * 9, 2.0)
    """,
    "Comparison and logic": """
        equal: np.equal(x, y); x == y; x == 0.5
        not_equal: np.not_equal(x, y)
        less: np.less(x, y); x < 0.5
        less_equal: np.less_equal(x, y)
        greater: np.greater(x, y)
        greater_equal: np.greater_equal(x, 1)
        logical_and: np.logical_and(b, x > 0.5); np.logical_and(x, y)
        logical_or: np.logical_or(b, x > 0.5)
        logical_xor: np.logical_xor(b, x > 0.5)
        logical_not: np.logical_not(b); np.logical_not(x)
        bitwise_and: np.bitwise_and(n, 3); b & (x > 0.5)
        bitwise_or: np.bitwise_or(n, 3); b | b
        bitwise_xor: np.bitwise_xor(n, 5)
        bitwise_count: np.bitwise_count(n)
        invert: np.invert(n); ~b
        left_shift: np.left_shift(n, 2)
        right_shift: np.right_shift(n, 1)
        isclose: np.isclose(x, y); np.isclose(x, x + 1e-9, rtol=1e-4)
        allclose: np.allclose(x, y); np.allclose(x, x)
        array_equal: np.array_equal(x, y); np.array_equal(x, x); np.array_equal(x, v)
        array_equiv: np.array_equiv(x, x[:1]); np.array_equiv(x, v)
        any: np.any(b); np.any(b, axis=1); b.any(axis=(0, 1)); np.any(x > 0.5, axis=0, keepdims=True)
        all: np.all(b); np.all(b, axis=0); b.all(1)
        isin: np.isin(n, [1, 2]); np.isin(n, i, invert=True); np.isin(n, np.arange(50))
        iscomplex: np.iscomplex(c); np.iscomplex(x)
        isreal: np.isreal(c)
        iscomplexobj: np.iscomplexobj(c); np.iscomplexobj(x)
        isrealobj: np.isrealobj(x)
    """,
    "Sums and statistics": """
        sum: np.sum(x); np.sum(x, axis=0); np.sum(x, axis=(0, 1), keepdims=True); x.sum(-1); \
            np.sum(x, 1, np.float64); np.sum(x, where=b); np.sum(x, axis=0, out=o1); np.sum(e, axis=0); \
            np.sum(x, initial=2.0)
        prod: np.prod(x); np.prod(x, axis=1); n.prod(0)
        min: np.min(x); np.min(x, axis=0); np.amin(x, axis=1, keepdims=True); np.min(x, initial=0.1); \
            np.min(x, where=b, initial=9)
        max: np.max(x); x.max(axis=0); np.amax(x, axis=(0, 1)); np.max(e, axis=1)
        ptp: np.ptp(x); np.ptp(x, axis=0)
        mean: np.mean(x); np.mean(x, axis=0); np.mean(x, axis=(0, 1), keepdims=True); np.mean(n, axis=1); \
            np.mean(x, where=b); np.mean(x, dtype=np.float64); np.mean(x, axis=0, out=o1)
        average: np.average(x); np.average(x, axis=1, weights=v[:5]); np.average(x, weights=y, returned=True)
        median: np.median(x); np.median(x, axis=0); np.median(n, axis=1, keepdims=True)
        percentile: np.percentile(x, 30); np.percentile(x, [10, 50], axis=0); np.percentile(x, 25, method="lower")
        quantile: np.quantile(x, 0.3); np.quantile(x, [0.1, 0.5], axis=1)
        std: np.std(x); np.std(x, axis=0, ddof=1); x.std(1, keepdims=True); np.std(x, where=b)
        var: np.var(x); np.var(x, axis=0, ddof=1); np.var(n); np.var(c, axis=0)
        cov: np.cov(x); np.cov(x, rowvar=False); np.cov(v, w); np.cov(x, bias=True); np.cov(x, ddof=0, aweights=v[:5])
        corrcoef: np.corrcoef(x); np.corrcoef(v, w); np.corrcoef(x, rowvar=False)
        nansum: np.nansum(x / x); np.nansum(x, axis=0)
        nanprod: np.nanprod(x, axis=1)
        nanmin: np.nanmin(x); np.nanmin(x, axis=0)
        nanmax: np.nanmax(x, axis=1)
        nanmean: np.nanmean(x, axis=0)
        nanstd: np.nanstd(x); np.nanstd(x, axis=0, ddof=1)
        nanvar: np.nanvar(x, axis=1)
        nanmedian: np.nanmedian(x, axis=0)
        nanpercentile: np.nanpercentile(x, 40, axis=1)
        nanquantile: np.nanquantile(x, 0.4)
        nanargmin: np.nanargmin(x, axis=0)
        nanargmax: np.nanargmax(x)
        argmin: np.argmin(x); np.argmin(x, axis=1); x.argmin(0)
        argmax: np.argmax(x); np.argmax(x, axis=0, keepdims=True)
        count_nonzero: np.count_nonzero(b); np.count_nonzero(n, axis=1)
        cumsum: np.cumsum(x); np.cumsum(x, axis=1); np.cumsum(n, dtype=np.float32)
        cumprod: np.cumprod(x, axis=0); v.cumprod()
        nancumsum: np.nancumsum(x, axis=0)
        nancumprod: np.nancumprod(v)
        cumulative_sum: np.cumulative_sum(x, axis=1, include_initial=True)
        cumulative_prod: np.cumulative_prod(x, axis=0)
        diff: np.diff(v); np.diff(x, axis=0); np.diff(v, n=2); np.diff(v, prepend=0.0); np.diff(b, axis=1)
        ediff1d: np.ediff1d(v); np.ediff1d(v, to_end=v[:2])
        gradient: np.gradient(v); np.gradient(x); np.gradient(x, 0.5, axis=0); np.gradient(v, p); \
            np.gradient(x, 2.0, 0.1, edge_order=2); np.gradient(v, p, edge_order=2)
        trapezoid: np.trapezoid(v); np.trapezoid(x, dx=0.1); np.trapezoid(v, p); np.trapezoid(x, axis=0)
        histogram: np.histogram(x); np.histogram(v, bins=4, range=(0, 1)); \
            np.histogram(v, bins=[0, 0.25, 0.5, 1.0]); np.histogram(v, bins=3, density=True); \
            np.histogram(v, 5, weights=w); np.histogram(n, 3)
        histogram_bin_edges: np.histogram_bin_edges(v, 5); np.histogram_bin_edges(v, 3, (0, 2))
        histogram2d: np.histogram2d(v, w, bins=3); np.histogram2d(v, w, [2, 4], range=[[0, 1], [0, 2]]); \
            np.histogram2d(v, w, 3, density=True)
        bincount: np.bincount(i); np.bincount(i, weights=v); np.bincount(i, minlength=10)
        digitize: np.digitize(x, [0.2, 0.5, 0.9]); np.digitize(v, p, right=True)
    """,
    "Sorting, searching and choosing": """
        sort: np.sort(x); np.sort(x, axis=0); np.sort(x, axis=None); np.sort(v, kind="stable")
        argsort: np.argsort(v); np.argsort(x, axis=0); v.argsort()
        lexsort: np.lexsort((v, i)); np.lexsort([w, i, i])
        sort_complex: np.sort_complex(v)
        partition: np.partition(v, 2); np.partition(x, 1, axis=0)
        argpartition: np.argpartition(v, 2)[2]
        searchsorted: np.searchsorted(p, v); np.searchsorted(p, x, side="right")
        where: np.where(x > 0.5, x, y); np.where(b, 1, 0); np.where(x > 0.5, x, 0.0)
        select: np.select([x < 0.3, x < 0.6], [x, x ** 2]); np.select([b, x > 0.5], [0.0, y], default=-1.0); \
            np.select([b], [n], 7)
        piecewise: np.piecewise(x, [x < 0.3, x >= 0.6], [lambda t: t * 2, lambda t: -t]); \
            np.piecewise(v, v > 0.5, [1, 0]); np.piecewise(x, [x < 0.5], [0.0, np.sin])
        choose: np.choose(i, [v, w, v + w, v * w]); np.choose(n, (x, y), mode="wrap"); \
            np.choose(n, (x, 0.5), mode="clip")
        take: np.take(v, [0, 2]); np.take(x, i, axis=0); x.take(3); np.take(v, [7, -9], mode="wrap"); \
            np.take(x, 1, axis=1)
        take_along_axis: np.take_along_axis(x, np.argsort(x, axis=1), axis=1)
        put: (np.put(o, [0, 3], [1.0, 2.0]), o)[1]; (np.put(o1, 1, s), o1)[1]
        put_along_axis: (np.put_along_axis(o, n % 5, 1.5, axis=1), o)[1]
        putmask: (np.putmask(o, x > 0.5, y), o)[1]; (np.putmask(o, b, [1.0, 2.0, 3.0]), o)[1]
        place: (np.place(o, x > 0.5, [1.0, 2.0]), o)[1]; (np.place(o, b, v), o)[1]
        copyto: (np.copyto(o, x), o)[1]; (np.copyto(o, 1.0, where=b), o)[1]
        nonzero: np.nonzero(b); np.nonzero(v > 0.5)[0]
        argwhere: np.argwhere(b)
        flatnonzero: np.flatnonzero(b)
        unique: np.unique(i); np.unique(i, return_counts=True)
        unique_all: np.unique_all(i)
        unique_counts: np.unique_counts(i)
        unique_inverse: np.unique_inverse(i)
        unique_values: np.unique_values(i)
        extract: np.extract(b, x)
        compress: np.compress([True, False, True], x, axis=0)
        intersect1d: np.intersect1d(i, [1, 2, 9])
        union1d: np.union1d(i, [1, 2, 9])
        setdiff1d: np.setdiff1d(i, [1])
        setxor1d: np.setxor1d(i, [1])
        trim_zeros: np.trim_zeros(v)
    """,
    "Shapes": """
        reshape: np.reshape(x, (2, 10)); x.reshape(-1); x.reshape(5, -1); np.reshape(x, 20); \
            np.reshape(x, (5, 4), order='F'); x.reshape(-1, order='F')
        ravel: np.ravel(x); x.ravel(); x.flatten(); x.ravel('F'); x.T.flatten('F')
        transpose: np.transpose(x); x.T; np.transpose(x, (1, 0)); np.permute_dims(x, (1, 0)); x.transpose(1, 0)
        matrix_transpose: np.matrix_transpose(x)
        swapaxes: np.swapaxes(x, 0, 1)
        moveaxis: np.moveaxis(x, 0, 1); np.moveaxis(x[None], [0, 1], [-1, 0])
        lib.stride_tricks.sliding_window_view: np.lib.stride_tricks.sliding_window_view(v, 3) + 0; \
            np.lib.stride_tricks.sliding_window_view(x, (2, 3)).sum((2, 3)); \
            np.lib.stride_tricks.sliding_window_view(x, 2, axis=1) * 2
        rollaxis: np.rollaxis(x, 1)
        expand_dims: np.expand_dims(x, 0); np.expand_dims(x, (0, 2)); x[:, None]
        squeeze: np.squeeze(x[:1]); np.squeeze(x[None], axis=0)
        broadcast_to: np.broadcast_to(v, (3, 6)); np.broadcast_to(s, (2, 2))
        broadcast_arrays: np.broadcast_arrays(x, v[:5])[1] + 0
        atleast_1d: np.atleast_1d(s); np.atleast_1d(x)
        atleast_2d: np.atleast_2d(v)
        atleast_3d: np.atleast_3d(x)
        concatenate: np.concatenate([x, y]); np.concatenate((x, y), axis=1); np.concatenate([x, n]); \
            np.concatenate([x, y], axis=None)
        stack: np.stack([x, y]); np.stack([x, y], axis=-1); np.stack((v, w), 1)
        vstack: np.vstack([x, y]); np.vstack((v, w))
        hstack: np.hstack([x, y]); np.hstack((v, w))
        dstack: np.dstack([x, y])
        column_stack: np.column_stack([v, w]); np.column_stack((v, i))
        block: np.block([[x, y], [y, x]]); np.block([v, w]); np.block([[x], [y]])
        append: np.append(v, w); np.append(x, y, axis=0); np.append(v, 1.0)
        insert: np.insert(v, 2, 9.0); np.insert(x, 1, v[:5], axis=0); np.insert(v, [1, 3], [5.0, 6.0]); \
            np.insert(x, -1, 0, axis=1)
        delete: np.delete(v, 1); np.delete(x, [0, 2], axis=0); np.delete(v, slice(1, 3)); np.delete(x, -1, axis=1)
        split: np.split(x, 2); np.split(v, [2, 4]); np.split(x, 5, axis=1)
        array_split: np.array_split(v, 4)
        hsplit: np.hsplit(x, 5)
        vsplit: np.vsplit(x, 2)
        dsplit: np.dsplit(x.reshape(2, 2, 5), [1, 3]) if x.size else x
        unstack: np.unstack(x, axis=1)
        tile: np.tile(v, 2); np.tile(x, (2, 1))
        repeat: np.repeat(v, 2); np.repeat(x, 3, axis=1); np.repeat(v, [1, 0, 2, 1, 1, 3])
        resize: np.resize(x, (3, 3)); np.resize(v, 10)
        flip: np.flip(x); np.flip(x, axis=1)
        fliplr: np.fliplr(x)
        flipud: np.flipud(x)
        rot90: np.rot90(x); np.rot90(x, 2); np.rot90(x, -1)
        roll: np.roll(v, 2); np.roll(x, 1, axis=0); np.roll(x, (1, -2), axis=(0, 1))
        pad: np.pad(v, 2); np.pad(x, ((1, 0), (2, 1)), mode="edge"); np.pad(v, 2, mode="reflect"); \
            np.pad(x, 1, constant_values=3.0); np.pad(v, 1, mode="wrap")
        meshgrid: np.meshgrid(v, p); np.meshgrid(v, w, indexing="ij"); np.meshgrid(v, p, sparse=True)
        tril: np.tril(m); np.tril(x, -1)
        triu: np.triu(m); np.triu(x, 1)
        diag: np.diag(v); np.diag(m); np.diag(v, 1); np.diag(m, -1)
        diagonal: np.diagonal(m) + 0; m.diagonal(1) + 0
        diagflat: np.diagflat(v)
        trace: np.trace(m); np.trace(x, 1); m.trace()
        fill_diagonal: (np.fill_diagonal(o, 5.0), o)[1]
        ix_: x[np.ix_([0, 2], [1, 3])]; x[np.ix_(i[:3], i)]
        ravel_multi_index: np.ravel_multi_index((i, i), (4, 5)); np.ravel_multi_index((i, i + 9), (4, 5), mode="clip")
        unravel_index: np.unravel_index(i, (2, 4)); np.unravel_index(np.argmax(x), x.shape)
        tril_indices_from: m[np.tril_indices_from(m)]
        triu_indices_from: m[np.triu_indices_from(m, 1)]
        diag_indices_from: m[np.diag_indices_from(m)]
        shape: np.shape(x); x.shape
        ndim: np.ndim(x)
        size: np.size(x); np.size(x, 1)
        copy: np.copy(x); x.copy()
        astype: x.astype(np.float32); np.astype(x, np.int32); x.astype("complex128"); n.astype(bool)
    """,
    "Creation": """
        array: np.array([v[0], v[1], 2.0]); np.array(x); np.array([[s, 1], [2, 3]]); np.array(x, dtype=np.float32)
        asarray: np.asarray(x); np.asarray(n, dtype=float); np.ascontiguousarray(x)
        zeros: np.zeros(3) + v[:3]; np.zeros((2, 3), dtype=np.int32); np.zeros(v.shape)
        ones: np.ones(6) * v; np.ones((2, 2), np.float32)
        full: np.full((2, 3), 7.0); np.full(4, s); np.full(3, 1)
        empty: np.empty(6).shape; np.empty((2, 3)).dtype
        zeros_like: np.zeros_like(x); np.zeros_like(x, dtype=int)
        ones_like: np.ones_like(n)
        full_like: np.full_like(x, 3); np.full_like(n, 2.5, dtype=float)
        empty_like: np.empty_like(x).shape
        arange: np.arange(5); np.arange(1.0, 3.0, 0.5); np.arange(v.size) * v; np.arange(10, 0, -3)
        linspace: np.linspace(0, 1, 5); np.linspace(0, s, 4); np.linspace(v, w, 3); \
            np.linspace(0, 1, 4, endpoint=False); np.linspace(1, 2, 3, retstep=True)
        logspace: np.logspace(0, 2, 4); np.logspace(0, s, 3)
        geomspace: np.geomspace(1, 8, 4)
        eye: np.eye(3); np.eye(3, 4, k=1); np.eye(4) * m
        identity: np.identity(4) @ m
        tri: np.tri(3); np.tri(4, 5, 1) * x
        indices: np.indices((2, 3)); np.indices((4, 5))[0] * x
        fromfunction: np.fromfunction(lambda j, k: j * 10 + k, (2, 3)); \
            np.fromfunction(lambda j: j + 1, (4,), dtype=int)
        tril_indices: m[np.tril_indices(4)]
        triu_indices: m[np.triu_indices(4, 1)]
        diag_indices: m[np.diag_indices(4)]
        hanning: np.hanning(6) * v
        hamming: np.hamming(6) * v
        blackman: np.blackman(6) * v
        bartlett: np.bartlett(6)
        kaiser: np.kaiser(6, 14.0) * v
        vander: np.vander(v); np.vander(v, 3, increasing=True); np.vander(i, 4)
    """,
    **numpy_algebra_examples.SECTIONS,
}

REFUSED: Final = frozenset({"polymul", "roots", "vectorize"})
"""Functions that may raise: their way out is in the table."""
BY_VALUES: Final = frozenset({
    "bincount", "nonzero", "argwhere", "flatnonzero", "unique", "extract", "compress", "intersect1d", "union1d",
    "setdiff1d", "setxor1d", "trim_zeros", "unique_all", "unique_counts", "unique_inverse", "unique_values",
})
"""Functions whose results have shapes that depend on values."""


def functions() -> dict[str, dict[str, list[str]]]:
    """Return section -> function -> its examples."""
    return listed(SECTIONS)
