"""Substitutes for builtins and standard functions that read Python state on the function's behalf."""
from __future__ import annotations
import __future__

import builtins
import functools
import gc
import operator
import sys
import types
from collections.abc import Callable
from typing import Any, Final

from jitfuse.base.gc_pause import PAUSED
from jitfuse.tracing.interception import probes
from jitfuse.tracing.interception.bytecode import rewrite
from jitfuse.tracing.interception.user_code import class_member, is_user_class

_REQUIRED: Final = object()
_FUTURE_FLAGS: Final = functools.reduce(
    operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))


def _getattr(owner: Any, name: str, default: Any = _REQUIRED, /) -> Any:
    try:
        return probes.load_attr(owner, name)
    except AttributeError:
        if default is _REQUIRED:
            raise
        return default


def _hasattr(owner: Any, name: str, /) -> bool:
    try:
        probes.load_attr(owner, name)
    except AttributeError:
        return False
    return True


def _setattr(owner: Any, name: str, value: Any, /) -> None:
    probes.store_attr(owner, value, name)


def _delattr(owner: Any, name: str, /) -> None:
    probes.delete_attr(owner, name)


def _object_setattr(owner: Any, name: str, value: Any, /) -> None:
    environment = probes.current.get()
    if environment is None:
        object.__setattr__(owner, name, value)
    else:
        environment.store_attr(owner, name, value, object.__setattr__)


def _vars(*owner: Any) -> Any:
    return probes.load_attr(owner[0], "__dict__") if owner else sys._getframe(1).f_locals


def _globals() -> dict[str, Any]:
    namespace = sys._getframe(1).f_globals
    environment = probes.current.get()
    if environment is not None:
        environment.namespaces[id(namespace)] = namespace
    return namespace


def _run_source(run: Callable[..., Any], source: Any, namespace: Any, local: Any) -> Any:
    """Run source text or a code object in the tracing environment, in the caller's namespaces by default."""
    frame = sys._getframe(2)
    if namespace is None:
        namespace, local = frame.f_globals, frame.f_locals if local is None else local
    if not isinstance(source, types.CodeType):
        source = compile(source.strip() if run is eval and isinstance(source, str) else source, "<string>",
                         run.__name__, dont_inherit=True, flags=frame.f_code.co_flags & _FUTURE_FLAGS)
    return run(rewrite(source, nested=True), namespace, local)


def _eval(source: Any, namespace: Any = None, local: Any = None, /) -> Any:
    return _run_source(eval, source, namespace, local)


def _exec(source: Any, namespace: Any = None, local: Any = None, /) -> None:
    _run_source(exec, source, namespace, local)


def _replace(owner: Any, /, **changes: Any) -> Any:
    import dataclasses

    for field in dataclasses.fields(owner):
        if field.init and field.name not in changes:
            changes[field.name] = probes.load_attr(owner, field.name)
    return dataclasses.replace(owner, **changes)


def _asdict(owner: Any, *, dict_factory: Callable[[Any], Any] = dict) -> Any:
    return _fields_in(owner, lambda pairs: dict_factory(pairs))


def _astuple(owner: Any, *, tuple_factory: Callable[[Any], Any] = tuple) -> Any:
    return _fields_in(owner, lambda pairs: tuple_factory([value for _, value in pairs]))


def _fields_in(value: Any, make: Callable[[list[tuple[str, Any]]], Any]) -> Any:
    """Walk dataclasses and containers as dataclasses.asdict does."""
    import dataclasses

    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return make([(f.name, _fields_in(probes.load_attr(value, f.name), make)) for f in dataclasses.fields(value)])
    if type(value) in {list, tuple}:
        return type(value)(_fields_in(item, make) for item in value)
    if type(value) is dict:
        return {_fields_in(key, make): _fields_in(item, make) for key, item in value.items()}
    return value


def _copy(value: Any) -> Any:
    cls: Any = type(value)
    environment = probes.current.get()
    custom = any(class_member(cls, name) is not class_member(object, name)
                 for name in ("__copy__", "__reduce__", "__reduce_ex__", "__slots__", "__getstate__"))
    if environment is None or custom or not is_user_class(cls):
        import copy

        return copy.copy(value)
    made: Any = cls.__new__(cls)
    for name in list(vars(value)):
        object.__setattr__(made, name, probes.load_attr(value, name))
    environment.mark_fresh(made)
    return made


def _attrgetter(*paths: str) -> Callable[[Any], Any]:
    def one(owner: Any, path: str) -> Any:
        for name in path.split("."):
            owner = probes.load_attr(owner, name)
        return owner

    if len(paths) == 1:
        return lambda owner: one(owner, paths[0])
    return lambda owner: tuple(one(owner, path) for path in paths)


def _id(value: Any, /) -> int:
    environment = probes.current.get()
    if environment is not None:
        (value,) = environment.hooks.identified(value)
    return id(value)


def _table() -> dict[int, Any]:
    pairs = [
        (gc.get_threshold, PAUSED.threshold),
        (builtins.getattr, _getattr), (builtins.hasattr, _hasattr), (builtins.setattr, _setattr),
        (builtins.eval, _eval), (builtins.exec, _exec),
        (builtins.delattr, _delattr), (builtins.vars, _vars), (builtins.globals, _globals),
        (operator.is_, probes.same), (operator.is_not, probes.not_same), (builtins.id, _id),
        (operator.attrgetter, _attrgetter), (object.__setattr__, _object_setattr),
    ]
    return {id(real): seen for real, seen in pairs}


_SUBSTITUTES: Final = _table()


_BY_NAME: Final[dict[tuple[str, str], Any]] = {
    ("copy", "copy"): _copy, ("dataclasses", "replace"): _replace, ("dataclasses", "asdict"): _asdict,
    ("dataclasses", "astuple"): _astuple,
}
"""By module and name, so that these modules need not be imported here."""


def substitute_of(real: Any) -> Any:
    """Return the substitute, in traced code, of a standard function whose reads would not be intercepted; or None."""
    found = _SUBSTITUTES.get(id(real))
    if found is None and type(real) is types.FunctionType:
        return _BY_NAME.get((real.__module__, real.__name__))
    if found is None and type(real) is types.MethodWrapperType and real.__qualname__ == "object.__setattr__":
        return functools.partial(_object_setattr, real.__self__)  # super().__setattr__
    return found
