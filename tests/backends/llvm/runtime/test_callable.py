"""NativeCallable as a Python object: calls, subclasses, methods, lifetimes, unknown interpreters."""
from __future__ import annotations

import copy
import ctypes
import gc
import importlib.util
import pickle
import subprocess
import sys
import types
import weakref
from typing import Any

import pytest

from jitfuse.backends.llvm.runtime import callable as callable_module
from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.callable import NativeCallable

TYPE_OF = ctypes.cast(ctypes.pythonapi.PyObject_Type, ctypes.c_void_p).value
"""A stand-in for native code: returns the type of what is called."""


class Function(NativeCallable):
    def __init__(self, name: str = "f") -> None:
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The Python path."""
        return (self.name, args, kwargs)

    def __get__(self, owner: object, type_: type | None = None) -> Any:
        return self if owner is None else types.MethodType(self, owner)

    def __reduce__(self) -> Any:
        return Function, (self.name,)


class Derived(Function):
    pass


@pytest.fixture(params=[Function, Derived])
def function(request: Any) -> Any:
    return request.param()


def test_this_interpreter_is_supported() -> None:
    assert NativeCallable.native, "see backends/llvm/runtime/layout.py: are its offsets those of this Python?"


def test_calls_switch_between_python_and_native(function: Any) -> None:
    python = ("f", (1,), {"k": 2})
    for _ in range(3):
        assert not function.attached and function(1, k=2) == python
        assert function.attach(TYPE_OF, 0)
        assert function.attached and function(1, k=2) is type(function)
        assert function(*[1], **dict.fromkeys("k", 2)) is type(function)
        assert list(map(function, [1, 2])) == [type(function)] * 2
        assert function.__call__(1, k=2) == python
        function.detach()
    assert function(1, k=2) == python


def test_as_a_method() -> None:
    class Owner:
        method = Function("m")

    owner = Owner()
    assert owner.method(1) == ("m", (owner, 1), {})
    Owner.__dict__["method"].attach(TYPE_OF, 0)
    assert owner.method(1) is Function


def test_a_hot_call_site_follows(function: Any) -> None:
    """Specialised bytecode must not remember which way the call went."""

    def loop(n: int) -> Any:
        for _ in range(n):
            result = function(1)
        return result

    assert loop(100) == ("f", (1,), {})
    function.attach(TYPE_OF, 0)
    assert loop(100) is type(function)
    function.detach()
    assert loop(100) == ("f", (1,), {})


def test_lifetime() -> None:
    gc.collect()
    keep = Function("kept")
    f = Function()
    f.attach(TYPE_OF, 0, keep)
    f.me = f  # type: ignore[attr-defined]
    died, kept = weakref.ref(f), weakref.ref(keep)
    del keep
    f.detach()
    assert kept() is not None
    count = sys.getrefcount(Function)
    del f
    gc.collect()
    assert died() is None and kept() is None
    assert sys.getrefcount(Function) == count - 2
    for _ in range(1000):
        Function().attach(TYPE_OF, 0, [1])
    assert sys.getrefcount(Function) == count - 2


def test_pickle_and_copy(function: Any) -> None:
    function.attach(TYPE_OF, 0)
    for other in (pickle.loads(pickle.dumps(Function("p"))), copy.copy(function)):
        assert isinstance(other, Function) and not other.attached


def test_introspection(function: Any) -> None:
    function.attach(TYPE_OF, 0)
    assert callable(function) and function.__call__.__doc__ == "The Python path."
    assert repr(function).startswith("<")
    with pytest.raises(TypeError):
        NativeCallable()()  # type: ignore[operator]


def loaded_again() -> Any:
    spec = importlib.util.spec_from_file_location("callable_there", callable_module.__file__)
    assert spec is not None and spec.loader is not None
    there = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(there)
    return there


@pytest.mark.parametrize("name", ["TYPE_FLAGS", "TYPE_BASICSIZE", "CELL_CONTENT", "LIST_ITEMS", "FLOAT_VALUE"])
def test_other_layouts_are_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert loaded_again().NativeCallable.native
    monkeypatch.setattr(layout, name, layout.OB_TYPE if name == "LIST_ITEMS" else getattr(layout, name) - 8)
    assert not loaded_again().NativeCallable.native


def test_unknown_interpreters_run_python(monkeypatch: pytest.MonkeyPatch) -> None:
    assert layout.supported()
    monkeypatch.setattr(layout.sys, "version_info", (3, 99, 0))
    assert not layout.supported()
    there = loaded_again()
    assert not there.NativeCallable.native and NativeCallable.native

    class Plain(there.NativeCallable):  # type: ignore[misc, name-defined]
        def __call__(self, x: int) -> int:
            return x + 1

    f = Plain()
    assert not f.attach(1, 2) and not f.attached and f(1) == 2
    f.detach()
    assert f(1) == 2


def test_the_import_needs_no_compiler() -> None:
    code = "import sys, jitfuse.backends.llvm.runtime.tables, jitfuse.backends.llvm.runtime.callable\n" \
           "assert not any('llvmlite' in m for m in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
