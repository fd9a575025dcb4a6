"""The options of `jf.fuse`, and the rejection of unsupported ones.

Owns the record of options. Does not own what they mean (`jitfuse.fuse`).
"""
from __future__ import annotations

from collections.abc import Collection

from jitfuse.errors import ArgumentError


class Options:
    """The options of one fused function; see `jitfuse.fuse.fuse`."""

    __slots__ = ("cache", "device", "name", "schedule", "static", "strict", "training")

    def __init__(
        self, training: bool | None, device: str | None, strict: bool, schedule: str, static: frozenset[str],
        cache: bool, name: str | None,
    ) -> None:
        self.training = training
        self.device = device
        self.strict = strict
        self.schedule = schedule
        self.static = static
        self.cache = cache
        self.name = name


def reject_unknown(device: str | None, donate: Collection[str], fastmath: bool) -> None:
    """Raise ArgumentError for options that this version does not have."""
    if device not in (None, "cpu", "gpu"):
        raise ArgumentError(f"device={device!r}: pass 'cpu' or 'gpu', or leave it out to run where the inputs live")
    if donate:
        raise ArgumentError("donate= is not available in this version; write into an argument (x[...] = ...) instead")
    if fastmath:
        raise ArgumentError("fastmath=True is not available in this version; results are strict IEEE")
