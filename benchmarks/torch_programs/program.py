"""What a program of the collection is: a torch function or model in eval mode, its arguments, its tolerance."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Program:
    """One torch program, unchanged.

    name       what tables call it
    make       size -> (function, its arguments): "small" for tests, "large" is timed
    tolerance  largest difference from eager torch, relative to its largest magnitude
    splits     whether Python looks at values of tensors in it
    """

    name: str
    make: Callable[[str], tuple[Callable[..., Any], tuple[Any, ...]]]
    tolerance: float = 1e-5
    splits: bool = False
