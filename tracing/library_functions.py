"""Which functions of libraries leave everything as it was: they may be called at any time, and again.

Looked up by object: a module must have this very object under its name. Owns the table. Does not own the calls
(`jitfuse.tracing.numpy_like.library_calls`).
"""
from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

_WHOLE: Final = {
    "scipy.linalg": "clarkson_woodruff_transform find_best_blas_type funm get_blas_funcs get_lapack_funcs",
    "scipy.fft": "get_workers register_backend set_backend set_global_backend set_workers skip_backend",
    "scipy.ndimage": "generic_filter generic_filter1d generic_gradient_magnitude generic_laplace geometric_transform"
                     " labeled_comprehension vectorized_filter",
    "scipy.signal": "", "scipy.signal.windows": "", "scipy.spatial.distance": "directed_hausdorff",
}
"""Modules all of whose public functions do, but for these: they draw, keep state, or call functions of the user's."""
_SOME: Final = {
    "scipy.integrate": "cumulative_simpson cumulative_trapezoid newton_cotes romb simpson trapezoid",
    "scipy.interpolate": "bisplev bisplrep griddata interpn krogh_interpolate pchip_interpolate splder splev splint"
                         " splprep splrep sproot",
    "scipy.optimize": "linear_sum_assignment nnls",
    "scipy.cluster.vq": "vq whiten",
    "scipy.cluster.hierarchy": "average centroid complete cophenet fcluster inconsistent linkage median single ward"
                               " weighted",
    "scipy.special": "assoc_laguerre comb diric factorial factorial2 h1vp h2vp ivp jvp kvp lambertw multigammaln perm"
                     " polygamma softplus spherical_in spherical_jn spherical_kn spherical_yn stirling2 yvp",
    "scipy.stats": "circmean circstd circvar differential_entropy energy_distance entropy gmean gstd gzscore hmean iqr"
                   " kurtosis median_abs_deviation moment percentileofscore pmean rankdata sem skew tmax tmean tmin"
                   " trim_mean tsem tstd tvar variation wasserstein_distance zmap zscore",
    "sklearn.metrics": "accuracy_score adjusted_rand_score auc average_precision_score balanced_accuracy_score"
                       " brier_score_loss cohen_kappa_score confusion_matrix explained_variance_score f1_score"
                       " fbeta_score hamming_loss hinge_loss jaccard_score log_loss matthews_corrcoef max_error"
                       " mean_absolute_error mean_absolute_percentage_error mean_squared_error mean_squared_log_error"
                       " median_absolute_error mutual_info_score normalized_mutual_info_score precision_score"
                       " r2_score rand_score recall_score roc_auc_score roc_curve root_mean_squared_error"
                       " v_measure_score zero_one_loss",
    "sklearn.metrics.pairwise": "additive_chi2_kernel chi2_kernel cosine_distances cosine_similarity"
                                " euclidean_distances haversine_distances laplacian_kernel linear_kernel"
                                " manhattan_distances nan_euclidean_distances paired_cosine_distances"
                                " paired_euclidean_distances paired_manhattan_distances polynomial_kernel rbf_kernel"
                                " sigmoid_kernel",
}
"""Functions of other modules."""
NUMPY: Final = frozenset({
    "histogramdd", "packbits", "polydiv", "polymul", "ravel_multi_index", "roots", "unpackbits",
    "unravel_index",
})
"""Functions of NumPy that dispatch on arrays, and have no operators."""
_READERS: Final = {
    "time": "monotonic monotonic_ns perf_counter perf_counter_ns process_time process_time_ns thread_time"
            " thread_time_ns time time_ns",
    "os": "cpu_count getcwd getenv getpid",
    "os.path": "exists getmtime getsize isdir isfile",
    "numpy": "fromfile genfromtxt load loadtxt",
}
"""Functions that read what is no argument: clocks, the environment, files."""
_known: set[str] = set()


def new_functions() -> Iterator[tuple[Callable[..., Any], str]]:
    """Yield the functions, with their names, of modules that have been imported since the last call."""
    for module in (*_WHOLE, *_SOME):
        found = sys.modules.get(module)
        if found is None or module in _known or _is_importing(found):
            continue
        _known.add(module)
        public = getattr(found, "__all__", ())
        names = set(public) - set(_WHOLE[module].split()) if module in _WHOLE else _SOME[module].split()
        for name in sorted(names):
            function = getattr(found, name, None)
            if callable(function) and not isinstance(function, type):
                yield function, f"{module}.{name}"


def readers() -> Iterator[tuple[Callable[..., Any], str]]:
    """Yield the functions that read what is no argument, with their names."""
    for module, names in _READERS.items():
        for name in names.split():
            yield getattr(sys.modules[module], name), f"{module}.{name}"


def _is_importing(module: types.ModuleType) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))
