"""The op table's contents: the name of every operator, in table order, by the file of its row.

A file's rows are entered when one of them is requested (`jitfuse.ir.operators.op.get`): most programs use few of them.
"""
from __future__ import annotations

from typing import Final

FAMILIES: Final[dict[str, tuple[str, ...]]] = {file: tuple(operators.split()) for file, operators in {
    "arrangements": "roll stack tile repeat pad tril triu diag diagonal",
    "reductions": """
        sum prod min max any all mean var argmin argmax nanargmin nanargmax std count_nonzero ptp logsumexp nansum
        nanprod nanmin nanmax nanmean nanvar nanstd
    """,
    "scans": "cumsum cumprod cummax cummin",
    "complex_numbers": """
        real imag conj angle make_complex complex_prod complex_cumprod complex_cummin complex_cummax complex_argmin
        complex_argmax
    """,
    "contractions": "matmul einsum",
    "counted": """
        nonzero_counted repeat_counted unique_padded intersect1d_padded union1d_padded setdiff1d_padded setxor1d_padded
    """,
    "control": "cond while_loop fori_loop scan rolled_loop custom_vjp custom_jvp checkpoint",
    "creation": "zeros full extent arange constant",
    "elementwise": """
        negative positive abs square sign sqrt floor ceil trunc copy isnan isinf isfinite logical_not bitwise_invert exp
        exp2 expm1 log log2 log10 log1p sin cos tanh erf erfc add subtract multiply divide floor_divide remainder
        minimum maximum equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor
        bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift power logaddexp logaddexp2 xlogy logit
        sinc rint signbit spacing reciprocal copysign nextafter fmod fmin fmax heaviside ldexp gcd lcm bitwise_count
        frexp_mantissa frexp_exponent modf_fraction modf_whole fabs float_power isposinf isneginf nan_to_num round
        isclose sigmoid silu gelu gelu_tanh softplus log_sigmoid relu leaky_relu elu tan asin acos atan atan2 rad2deg
        deg2rad sinh cosh asinh acosh atanh hypot cbrt where clip require python_number astype
        stop_gradient
    """,
    "fourier": "fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn",
    "generators": "generator_seed generator_draw",
    "indexing": "gather take_along_axis take scatter",
    "linear_algebra": "cholesky det inv slogdet svd svdvals qr eigh eigvalsh eig eigvals solve pinv",
    "normalisations": "softmax log_softmax layer_norm rms_norm",
    "ordering": """
        sort argsort partition argpartition topk searchsorted median nanmedian quantile percentile nanquantile
        nanpercentile
    """,
    "random_and_mode": "random_uniform random_advance dropout mode_select",
    "semirings": "semiring_sums",
    "special": """
        gammaln gamma rgamma beta betaln gammainc gammaincc gammaincinv i0 i0e i1 i1e ndtr log_ndtr erfinv erfcinv ndtri
        digamma zeta riemann_zeta
    """,
    "views": "reshape transpose broadcast_to slice windows concat update_slice update_at",
}.items()}
