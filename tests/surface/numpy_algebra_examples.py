"""NumPy's linear algebra, transforms and methods of ufuncs in several forms: a part of numpy_examples.py."""
from __future__ import annotations

from typing import Final

SECTIONS: Final[dict[str, str]] = {
    "Products and linear algebra": """
        dot: np.dot(v, w); np.dot(x, y.T); np.dot(x, v[:5]); x.dot(2.0); np.dot(s, x)
        matmul: np.matmul(x, y.T); x @ v[:5]; np.stack([m, m]) @ m
        inner: np.inner(v, w); np.inner(x, y)
        outer: np.outer(v, w); np.outer(x, v)
        vdot: np.vdot(v, w); np.vdot(c, c)
        vecdot: np.vecdot(x, y)
        matvec: np.matvec(x, v[:5])
        vecmat: np.vecmat(v[:4], x)
        tensordot: np.tensordot(x, y, axes=([0, 1], [0, 1])); np.tensordot(x, y.T, 1); np.tensordot(v, w, 0)
        einsum: np.einsum("ij,ij->i", x, y); np.einsum("ij->ji", x); np.einsum("ii", m); \
            np.einsum("ij,kj", x, y, optimize=True)
        kron: np.kron(v, w); np.kron(m, x)
        cross: np.cross(v[:3], w[:3]); np.cross(x[:, :3], y[:, :3])
        convolve: np.convolve(v, w); np.convolve(v, w[:3], mode="same"); np.convolve(v, [1, 2, 1], "valid"); \
            np.convolve(v[:2], w, "same"); np.convolve(i, i)
        correlate: np.correlate(v, w); np.correlate(v, w[:3], "full"); np.correlate(v[:2], w, "same"); \
            np.correlate(c[0], c[1], "full")
        interp: np.interp(x, p, v); np.interp(0.5, p, v); np.interp(x, p, v, left=-1.0, right=9.0); \
            np.interp(x * 9, p, v, period=3.0); np.interp(p, p, v)
        polyval: np.polyval([1.0, 2.0, 3.0], x); np.polyval(v, x); np.polyval(i, n)
        polyadd: np.polyadd(v, w[:3])
        polysub: np.polysub(v, w[:3])
        polyder: np.polyder(v); np.polyder(v, 2)
        polyint: np.polyint(v); np.polyint(v, 2, k=[1.0, 2.0])
        polyfit: np.polyfit(p, v, 2); np.polyfit(p, v, 1, w=w)
        poly: np.poly(v[:3])
        polymul: np.polymul(v, w)
        roots: np.roots(v)
        linalg.norm: np.linalg.norm(v); np.linalg.norm(x, axis=1); np.linalg.norm(x); np.linalg.norm(x, 1); \
            np.linalg.norm(m, 2); np.linalg.norm(v, np.inf); np.linalg.norm(x, "nuc"); \
            np.linalg.norm(x, axis=0, keepdims=True); np.linalg.norm(v, 3)
        linalg.inv: np.linalg.inv(m)
        linalg.det: np.linalg.det(m)
        linalg.slogdet: np.linalg.slogdet(m)
        linalg.solve: np.linalg.solve(m, v[:4]); np.linalg.solve(m, x)
        linalg.lstsq: np.linalg.lstsq(x, v[:4], rcond=None)[0]; np.linalg.lstsq(x.T, v[:5], rcond=None); \
            np.linalg.lstsq(x.T, y.T)[3]
        linalg.eigh: np.linalg.eigh(m + m.T)[0]; np.abs(np.linalg.eigh(m + m.T)[1])
        linalg.eigvalsh: np.linalg.eigvalsh(m + m.T)
        linalg.eig: np.sort(np.abs(np.linalg.eig(m + 0j)[0]))
        linalg.eigvals: np.sort(np.abs(np.linalg.eigvals(m + 0j)))
        linalg.svdvals: np.linalg.svdvals(x)
        linalg.vector_norm: np.linalg.vector_norm(x, axis=1); np.linalg.vector_norm(v, ord=1)
        linalg.matrix_norm: np.linalg.matrix_norm(m); np.linalg.matrix_norm(m, ord=2)
        linalg.matmul: np.linalg.matmul(x, y.T)
        linalg.outer: np.linalg.outer(v, w)
        linalg.cross: np.linalg.cross(v[:3], w[:3])
        linalg.diagonal: np.linalg.diagonal(m) + 0
        linalg.trace: np.linalg.trace(m)
        linalg.matrix_transpose: np.linalg.matrix_transpose(m)
        linalg.vecdot: np.linalg.vecdot(x, y)
        linalg.tensordot: np.linalg.tensordot(x, y.T, axes=1)
        linalg.svd: np.linalg.svd(x)[1]; np.linalg.svd(x, compute_uv=False); \
            np.abs(np.linalg.svd(m, full_matrices=False)[0])
        linalg.qr: np.abs(np.linalg.qr(x)[1]); np.abs(np.linalg.qr(m, mode="r"))
        linalg.cholesky: np.linalg.cholesky(m @ m.T)
        linalg.pinv: np.linalg.pinv(x)
        linalg.matrix_rank: np.linalg.matrix_rank(x)
        linalg.matrix_power: np.linalg.matrix_power(m, 3); np.linalg.matrix_power(m, -1)
        linalg.multi_dot: np.linalg.multi_dot([m, x, y.T])
        linalg.cond: np.linalg.cond(m); np.linalg.cond(m, 1); np.linalg.cond(x)
        linalg.tensorsolve: np.linalg.tensorsolve(m.reshape(2, 2, 4), x[:2, :2])
        linalg.tensorinv: np.linalg.tensorinv(m.reshape(2, 2, 4), ind=2)
    """,
    "Fourier transforms": """
        fft.fft: np.fft.fft(v); np.fft.fft(x, axis=0); np.fft.fft(v, 8); np.fft.fft(x, norm="ortho")
        fft.ifft: np.fft.ifft(c); np.fft.ifft(c, axis=0)
        fft.rfft: np.fft.rfft(v); np.fft.rfft(x, n=4)
        fft.irfft: np.fft.irfft(np.fft.rfft(v)); np.fft.irfft(np.fft.rfft(v[:5]), 5)
        fft.fft2: np.fft.fft2(x)
        fft.ifft2: np.fft.ifft2(c)
        fft.fftn: np.fft.fftn(x)
        fft.ifftn: np.fft.ifftn(c)
        fft.rfft2: np.fft.rfft2(x)
        fft.irfft2: np.fft.irfft2(np.fft.rfft2(x[:, :4]))
        fft.rfftn: np.fft.rfftn(x)
        fft.irfftn: np.fft.irfftn(np.fft.rfftn(x[:, :4]))
        fft.hfft: np.fft.hfft(np.fft.rfft(v))
        fft.ihfft: np.fft.ihfft(v)
        fft.fftfreq: np.fft.fftfreq(6, 0.1); np.fft.fftfreq(5) * v[:5]
        fft.rfftfreq: np.fft.rfftfreq(6, d=0.5)
        fft.fftshift: np.fft.fftshift(v); np.fft.fftshift(x, axes=1)
        fft.ifftshift: np.fft.ifftshift(v)
    """,
    "Methods of ufuncs, functions of parts": """
        ufunc.reduce: np.add.reduce(x); np.add.reduce(x, axis=None); np.multiply.reduce(x, axis=1, keepdims=True); \
            np.maximum.reduce(x, axis=(0, 1)); np.bitwise_or.reduce(n, axis=1); np.logical_xor.reduce(b); \
            np.fmin.reduce(x); np.gcd.reduce(n); np.subtract.reduce(x, axis=1); np.hypot.reduce(x, axis=0)
        ufunc.accumulate: np.add.accumulate(x, axis=1); np.maximum.accumulate(v); np.multiply.accumulate(v)
        ufunc.outer: np.subtract.outer(v, w); np.multiply.outer(x, v)
        ufunc.at: (np.add.at(o, (i % 4, i), 1.0), o)[1]; (np.maximum.at(o1, i, v), o1)[1]
        ufunc.reduceat: np.add.reduceat(v, [0, 2, 4]); np.maximum.reduceat(x, [0, 2], axis=1); \
            np.add.reduceat(v, [3, 1, 5])
        apply_along_axis: np.apply_along_axis(lambda r: r.sum(), 0, x); np.apply_along_axis(np.sort, 1, x); \
            np.apply_along_axis(lambda r, k: r * k, 1, x, 2.0)
        apply_over_axes: np.apply_over_axes(np.sum, x, [0, 1])
        vectorize: np.vectorize(lambda t: t + 1)(x)
        result_type: np.result_type(x, n); np.result_type(x, 1.0)
        can_cast: np.can_cast(x.dtype, np.float64)
    """,
}
