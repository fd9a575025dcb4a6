"""Factor graphs from files."""
from __future__ import annotations

import os
from typing import Any

from jitfuse.factors.formats import bif, uai
from jitfuse.factors.formats.model import Model
from jitfuse.factors.graph import FactorGraph


def read_uai(
    path: str | os.PathLike[str], evidence: str | os.PathLike[str] | None = None, **options: Any
) -> FactorGraph:
    """Read a model in the format of the UAI competitions, gzipped or not; its variables are 0, 1, ...

    Args:
        path: the model.
        evidence: the file of its evidence, of one sample: the observed variables are fixed.
        options: `limit_bytes` and `libraries` of `FactorGraph`.

    Raises:
        ModelError: what does not follow the format, with file and line.

    Example:
        >>> jf.factors.read_uai("missing.uai")
        Traceback (most recent call last):
        FileNotFoundError: ...
    """
    return of_model(uai.read_model(path, evidence), **options)


def read_bif(path: str | os.PathLike[str], **options: Any) -> FactorGraph:
    """Read a Bayesian network in the Bayesian interchange format, gzipped or not: variables and states have names.

    Args:
        path: the network.
        options: `limit_bytes` and `libraries` of `FactorGraph`.

    Raises:
        ModelError: what does not follow the format, with file and line.

    Example:
        >>> jf.factors.read_bif("missing.bif")
        Traceback (most recent call last):
        FileNotFoundError: ...
    """
    return of_model(bif.read_model(path), **options)


def of_model(model: Model, **options: Any) -> FactorGraph:
    """Return the graph of what was read; its evidence holds in every query."""
    return FactorGraph(model.sizes, model.factors, evidence=model.evidence, states=model.states, **options)
