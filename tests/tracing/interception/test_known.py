"""What is installed and not known stays out of traces: objects by their classes, callables by identity."""
from __future__ import annotations

import argparse
import collections
import contextvars
import datetime
import decimal
import fractions
import functools
import inspect
import io
import itertools
import json
import logging
import math
import operator
import os
import pathlib
import queue
import re
import string
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
import pytest

from jitfuse.errors import VolatileError
from jitfuse.tracing.interception.known import is_known, is_known_instance
from jitfuse.tracing.known_libraries import knows

X = np.arange(3.0)
T = TypeVar("T")


class Plain:
    def __init__(self) -> None:
        self.k = 2.0


class Typed(Plain, Generic[T]):
    pass


class Mapped(collections.UserDict[str, float]):
    pass


class Parser(argparse.ArgumentParser):
    pass


class Formatter(string.Formatter):
    pass


KNOWN: list[Any] = [
    abs, len, sum, zip, map, sorted, dict, list, str.upper, [].append, dict.fromkeys, int.from_bytes, ValueError,
    math.sin, operator.add, operator.itemgetter(0), itertools.chain, functools.reduce, functools.partial,
    functools.wraps, collections.deque, collections.Counter, collections.OrderedDict, json.dumps, re.compile,
    re.compile("a").match, fractions.Fraction, datetime.timedelta, datetime.date.fromisoformat,
    os.path.join, inspect.signature, Plain, Plain().__init__, np.sin, np.sum, np.linalg.inv, np.add.reduce,
    np.float32, np.dtype, np.errstate, np.issubdtype, np.finfo, np.ones(3).sum, np.float64(3).item, lambda: 1,
]
OPAQUE: list[Any] = [
    open, input, memoryview, json.load, os.getcwd, os.listdir, os.getenv, os.environ.get, sys.stdout.write,
    time.sleep, datetime.datetime.now, datetime.datetime(2020, 1, 2).timestamp, decimal.Decimal,
    threading.Event().is_set, threading.Lock, queue.Queue().qsize,
    logging.getLogger, logging.getLogger("a").isEnabledFor, functools.lru_cache, collections.UserDict, io.BytesIO,
    io.BytesIO().read, inspect.getsource, weakref.ref, weakref.ref(Plain), contextvars.ContextVar("a").get,
    pathlib.Path.exists, np.load, np.save, np.loadtxt, np.fromfile, np.frombuffer, np.memmap, np.nditer,
    np.set_printoptions, np.ones(3).tofile, np.polynomial.Polynomial, np.testing.assert_allclose,
]


@pytest.mark.parametrize("value", KNOWN)
def test_known_callables(value: Any) -> None:
    assert is_known(value, knows)


@pytest.mark.parametrize("value", OPAQUE)
def test_opaque_callables(value: Any) -> None:
    assert not is_known(value, knows)


def test_a_name_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """What claims to be of a known module is known only if the module has it."""
    sine = types.FunctionType((lambda x: x).__code__, {"__name__": "math"}, "sin")
    sine.__module__ = "math"
    monkeypatch.setattr(types, "made_up", sine, raising=False)
    cls = type("Fraction", (fractions.Fraction,), {"__module__": "fractions"})
    assert not is_known(cls, knows)
    ufunc = np.frompyfunc(lambda x: x, 1, 1)
    assert not is_known(ufunc, knows)


@pytest.mark.parametrize("value", [
    Plain(), Typed[int](), types.SimpleNamespace(a=1), argparse.Namespace(a=1), datetime.date(2020, 1, 2),
    fractions.Fraction(3, 4), pathlib.Path("a"), re.compile("a"), np.dtype("f8"), np.finfo("f4"),
    np.float32(3), int | str, list[int], operator.itemgetter(1), inspect.Signature(),
])
def test_objects_that_traces_may_hold(value: Any) -> None:
    assert is_known_instance(value, knows)


@pytest.mark.parametrize("value", [
    decimal.Decimal(3), Mapped(), Parser(),
    Formatter(), collections.UserDict(), collections.ChainMap(), {"a": 1}.values(), {"a": 1}.keys(),
    threading.Event(), threading.Lock(), queue.Queue(), io.StringIO(), logging.getLogger("a"), memoryview(b"a"),
    types.MappingProxyType({}),
    weakref.WeakValueDictionary(), os.environ, contextvars.ContextVar("b"), np.poly1d([1, 2]), np.nditer(X),
    np.random.SeedSequence(), iter([1]),
])
def test_objects_that_traces_may_not_hold(value: Any) -> None:
    assert not is_known_instance(value, knows)


def cached(x: Any) -> Any:
    return x * 2


@pytest.mark.parametrize(("function", "named"), [
    (lambda x: x * len(os.getcwd()), "posix.getcwd"), (lambda x: x * len(os.environ["HOME"]), "os.environ"),
    (lambda x: x * len(sys.argv), None), (lambda x: x * float(json.load(io.StringIO("3"))), "json.load"),
    (lambda x: x * threading.active_count(), "threading.active_count"),
], ids=["function", "object", "list", "argument", "Python"])
def test_opaque_code_raises_before_it_runs(trace: Any, function: Callable[[Any], Any], named: str | None) -> None:
    if named is None:  # a list of a library is guarded like any other
        assert trace(function, X).holds
    else:
        with pytest.raises(VolatileError, match=named):
            trace(function, X)


def test_replaced_attributes_of_libraries(follows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def change() -> None:
        monkeypatch.setattr(math, "pi", 3.0)
        monkeypatch.setattr(string, "ascii_letters", "ab")

    follows(lambda x: x * math.pi + len(string.ascii_letters), change, X, by="guard")
    follows(lambda x: x * math.floor(2.5), lambda: monkeypatch.setattr(math, "floor", math.ceil), X, by="guard")
