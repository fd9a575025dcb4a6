"""torch's own operator tests through fused functions: every operator of torch's list, with torch's samples.

    python tests/surface/op_db.py [--dtypes float32 int64 ...] [--samples 4] [--only NAME ...]

Prints how many samples were fused, how many ran as plain Python and by which reason, and all whose results differ from
torch's. Needs torch with its testing module (`torch.testing._internal`), which is in its wheels, and expecttest.
"""
from __future__ import annotations

import argparse
import collections
import itertools
import types
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import torch
from torch.testing._internal.opinfo.core import OpInfo

import jitfuse as jf
from jitfuse.base.records import NamedTuple

DTYPES: Final = ("float32", "float64", "bfloat16", "float16", "int64", "uint8", "bool", "complex64")
UNSET: Final = frozenset({"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"})
"""Operators whose results hold anything."""
TIES: Final = frozenset({
    "linalg.eig", "linalg.eigh", "sort", "argsort", "msort", "kthvalue", "topk", "pca_lowrank", "svd_lowrank"})
"""Operators whose results are not unique: signs of eigenvectors, the order of equal elements."""
LOOSER: Final = {torch.float16: 4e-2, torch.bfloat16: 1e-1, torch.float32: 1e-4, torch.complex64: 1e-4}
"""Tolerance where sums are in another order, and where torch rounds between the steps of a function."""


class Case(NamedTuple):
    """One sample: the operator's name, its function as user code, and the arguments."""

    name: str
    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Found(NamedTuple):
    """What became of a sample: how it ran, by which reasons, and how its result differs ("" for not at all)."""

    case: Case
    how: str
    codes: tuple[str, ...]
    difference: str


def cases(dtype: Any, samples: int, only: Iterable[str] = (), every: int = 1, first: int = 0) -> Iterator[Case]:
    """Yield samples of each operator that has the dtype; of each `every`-th operator."""
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db[first::every]:
        if (only and op.name not in only) or op.name in UNSET | TIES or not op.supports_dtype(dtype, "cpu"):
            continue
        torch.manual_seed(0)
        samples_made = op.sample_inputs("cpu", dtype, requires_grad=False)
        made = list(samples_made if samples > 1 else itertools.islice(samples_made, 1))  # making all takes long
        for sample in made[:: max(1, len(made) // samples)][:samples]:
            yield Case(op.name, as_user_code(op.op), (sample.input, *sample.args), sample.kwargs)


def as_user_code(function: Any, instead: Mapping[Any, Any] | None = None, made: dict[Any, Any] | None = None) -> Any:
    """Return a function of torch's tests as one of the user's: installed code that calls others is opaque.

    `instead`: make the functions that it calls the user's too, some of them replaced. `made`: those made already.
    """
    if type(function) is not types.FunctionType or "testing" not in function.__code__.co_filename:
        return function
    if instead is not None and function in instead:
        return instead[function]
    made = {} if made is None else made
    if function not in made:
        code = function.__code__.replace(co_filename=__file__)
        names = dict(function.__globals__)
        cells = function.__closure__ if instead is None else _cells(function, instead, made)
        found = made[function] = types.FunctionType(code, names, function.__name__, function.__defaults__, cells)
        found.__kwdefaults__ = function.__kwdefaults__
        for name, called in names.items():
            if instead is not None and name in code.co_names and type(called) is types.FunctionType:
                names[name] = as_user_code(called, instead, made)
    return made[function]


def _cells(function: Any, instead: Mapping[Any, Any], made: dict[Any, Any]) -> Any:
    """Return what a function closes over as the user's; of an operator's description, its name."""
    found = [cell.cell_contents for cell in function.__closure__ or ()]
    return tuple([types.CellType(
        types.SimpleNamespace(name=value.name) if isinstance(value, OpInfo) else as_user_code(value, instead, made)
    ) for value in found]) or None


def judge(case: Case, dtype: Any) -> Found | None:
    """Run a sample in torch and fused; None where torch itself raises."""
    called = case.function

    def function(*args: Any, **kwargs: Any) -> Any:
        return called(*args, **kwargs)

    try:
        torch.manual_seed(0)
        want = called(*case.args, **case.kwargs)
    except Exception:
        return None
    fused = jf.fuse(function)
    try:
        torch.manual_seed(0)
        got = fused(*case.args, **case.kwargs)
    except Exception as error:
        return Found(case, "raised", (), f"{type(error).__name__}: {error}"[:200])
    codes = tuple(sorted(why.reason.code for why in fused.parts.counters.warned))
    options = {"rtol": LOOSER[dtype], "atol": LOOSER[dtype]} if dtype in LOOSER else {}
    try:
        torch.testing.assert_close(got, want, equal_nan=True, check_stride=False, **options)
    except AssertionError as error:
        return Found(case, "fused" if not codes else "plain", codes, " ".join(str(error).split())[:200])
    return Found(case, "fused" if not codes else "plain", codes, "")


def main() -> None:
    """Judge all, or what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", nargs="+", default=DTYPES)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    warnings.simplefilter("ignore")
    for name in options.dtypes:
        dtype, counts, reasons = getattr(torch, name), collections.Counter[str](), collections.Counter[str]()
        for case in cases(dtype, options.samples, options.only):
            found = judge(case, dtype)
            if found is None:
                continue
            counts[found.how] += 1
            reasons.update(f"{case.name} {code}" for code in found.codes)
            if found.difference:
                counts["different"] += 1
                print(f"{name} {case.name}: {found.difference}", flush=True)
        print(f"{name}: {dict(counts)}\n  plain: {', '.join(reasons)}", flush=True)


if __name__ == "__main__":
    main()
