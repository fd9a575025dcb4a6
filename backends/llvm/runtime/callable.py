"""The base type of fused functions: once native code is attached, calls go there without a Python frame.

Owns: the heap type with a vectorcall pointer and a state pointer, and whether this interpreter can be
trusted to use them. Does not own the native code (driver.py, fastcall.py) or the state block (entries.py).

A subclass defines an ordinary ``__call__``. While nothing is attached, or where the interpreter is not one
that `layout.supported` knows, calls run that method; once `attach` has set the vectorcall pointer, calls jump
to native code. `f.__call__(...)` is always the Python method.

CPython does not set the vectorcall flag of a class that defines ``__call__``, because the two might differ.
This module sets it for subclasses, as PyType_Ready does for a C type.
"""
from __future__ import annotations

import ctypes
import types
from typing import TYPE_CHECKING, Any, ClassVar, Final

from jitfuse.backends.llvm.runtime import layout

_T_PYSSIZET: Final = 19
_READONLY: Final = 1
_PY_TP_CALL: Final = 50
_PY_TP_MEMBERS: Final = 72


class _MemberDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("type", ctypes.c_int), ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    )


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("pfunc", ctypes.c_void_p))


class _CallableSpec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("basicsize", ctypes.c_int), ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint), ("slots", ctypes.POINTER(_Slot)),
    )


def _symbol(name: str) -> int:
    """Return the address of a function of the interpreter."""
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert address is not None
    return address


def _make_base() -> tuple[type, Any]:
    """Make the heap type; returns it with the C structures that it may still point to."""
    members = (_MemberDef * 2)(
        _MemberDef(b"__vectorcalloffset__", _T_PYSSIZET, layout.CALLABLE_VECTORCALL, _READONLY, None)
    )
    slots = (_Slot * 3)(
        _Slot(_PY_TP_MEMBERS, ctypes.addressof(members)), _Slot(_PY_TP_CALL, _symbol("PyVectorcall_Call"))
    )
    name = b"jitfuse.backends.llvm.runtime.callable._Base"
    flags = layout.TPFLAGS_BASETYPE | layout.TPFLAGS_HAVE_VECTORCALL
    spec = _CallableSpec(name, layout.CALLABLE_SIZE, 0, flags, slots)
    from_spec = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.POINTER(_CallableSpec))(_symbol("PyType_FromSpec"))
    return from_spec(ctypes.byref(spec)), (members, slots, spec)


def _word(owner: object, offset: int) -> int:
    return ctypes.c_ssize_t.from_address(id(owner) + offset).value


def _set_word(owner: object, offset: int, value: int) -> None:
    ctypes.c_ssize_t.from_address(id(owner) + offset).value = value


def _type_layout_is_known(base: type) -> bool:
    """Return whether type objects keep size, vectorcall offset and flags where layout.py says."""
    return all(
        _word(t, layout.TYPE_BASICSIZE) == t.__basicsize__ and _word(t, layout.TYPE_FLAGS) == t.__flags__
        for t in (base, int, dict, type)
    ) and _word(base, layout.TYPE_VECTORCALL_OFFSET) == layout.CALLABLE_VECTORCALL


def _object_layout_is_known() -> bool:
    """Return whether objects that guards read keep their contents where layout.py says."""
    item = object()
    pair, items, cell, number = (item,), [item], types.CellType(item), 1.5
    values = ctypes.c_double.from_address(id(number) + layout.FLOAT_VALUE).value, _word(items, layout.LIST_ITEMS)
    return values[0] == number and ctypes.c_ssize_t.from_address(values[1]).value == id(item) and (
        _word(pair, layout.TUPLE_ITEMS) == _word(cell, layout.CELL_CONTENT) == id(item)
        and [_word(o, layout.VAR_SIZE) for o in (pair, items, {1: 2, 3: 4})] == [1, 1, 2]
        and _word(item, layout.OB_TYPE) == id(object)
    )


_KEEP: Any = None
if TYPE_CHECKING:
    _Base = object
elif layout.supported():
    _Base, _KEEP = _make_base()
else:
    _Base = object

_type_modified: Final = ctypes.pythonapi.PyType_Modified
_type_modified.argtypes = (ctypes.py_object,)
_type_modified.restype = None


class NativeCallable(_Base):
    """A callable whose calls can be handed to native code.

    Subclasses define ``__call__``, which must do what the attached code does; they may be weakly referenced,
    have a ``__dict__``, be collected in cycles and bind as methods.
    """

    __slots__ = ("_attached",)
    native: ClassVar[bool] = layout.supported() and _type_layout_is_known(_Base) and _object_layout_is_known()
    """Whether `attach` has an effect in this interpreter."""
    _attached: object

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Set the vectorcall flag of the new class, which a class with ``__call__`` does not inherit."""
        super().__init_subclass__(**kwargs)
        if NativeCallable.native and _word(cls, layout.TYPE_VECTORCALL_OFFSET) == layout.CALLABLE_VECTORCALL:
            _set_word(cls, layout.TYPE_FLAGS, cls.__flags__ | layout.TPFLAGS_HAVE_VECTORCALL)
            _type_modified(cls)

    def attach(self, address: int, state_words: int, keep: object = None) -> bool:
        """Send calls to the vectorcall function at `address`; returns whether that is possible here.

        `state_words` is the address of the state block, and `keep` its owner, held until the next `attach`.
        """
        if not NativeCallable.native:
            return False
        self._attached = keep
        _set_word(self, layout.CALLABLE_STATE, state_words)
        _set_word(self, layout.CALLABLE_VECTORCALL, address)
        return True

    def detach(self) -> None:
        """Send calls to ``__call__`` again; running native calls finish with the tables that they started with.

        The `keep` of `attach` is therefore held until the object dies or is attached again.
        """
        if NativeCallable.native:
            _set_word(self, layout.CALLABLE_VECTORCALL, 0)

    @property
    def attached(self) -> bool:
        """Whether calls go to native code."""
        return NativeCallable.native and _word(self, layout.CALLABLE_VECTORCALL) != 0


def _calls_reach_native_code() -> bool:
    """Return whether a call with the pointer set bypasses ``__call__``, and one without it does not.

    PyObject_Type serves as native code: it takes the callable first, ignores the rest, returns its type.
    """

    class Probe(NativeCallable):
        __slots__ = ()

        def __call__(self) -> object:
            return self

    probe = Probe()
    if probe() is not probe or not probe.attach(_symbol("PyObject_Type"), 0):
        return False
    reached = probe()
    probe.detach()
    return reached is Probe and probe() is probe


NativeCallable.native = NativeCallable.native and _calls_reach_native_code()
