"""The view of Python that one trace has: what the gates of rewritten code call, and the run itself.

Owns `View` and `run`. How values are classified is in `jitfuse.tracing.view.classify`, attribute look-up in
`...attributes`, containers in `...shadow`, the bookkeeping in `...state`.
"""
from __future__ import annotations

import builtins
import contextlib
import os
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jitfuse.errors import JitfuseError
from jitfuse.tracing.view import gate, statically
from jitfuse.tracing.view.attributes import Attributes
from jitfuse.tracing.view.chain import Chain, Trail
from jitfuse.tracing.view.hooks import Hooks
from jitfuse.tracing.view.shadow import is_container, leak, write_back
from jitfuse.tracing.view.userland import MISSING, claim, class_member, is_user_class, is_user_function, own_attributes

_BUILTINS: Final[dict[str, Any]] = vars(builtins)
_FOLDER: Final = os.path.dirname(__file__) + os.sep


class View(Attributes):
    """One trace's view of Python. Not shared between threads; views may nest."""

    def __init__(self, hooks: Hooks) -> None:
        super().__init__(hooks)
        self.namespaces: dict[int, dict[str, Any]] = {}
        self._settled = False

    def run(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call the function with its code and all user code that it reaches seen by this view.

        args and kwargs are passed as they are: whatever in them is not the trace's own must have gone through
        `read`. Errors of the function pass, without the view's frames. Call `commit` or `rollback` afterwards.
        """
        fn = self._adopt_callable(fn)
        token = gate.current.set(self)
        try:
            self.exchange()
            return fn(*args, **kwargs)
        except BaseException as error:
            hide_frames(error)
            raise
        finally:
            gate.current.reset(token)
            self.release()

    def _adopt_callable(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """See the decorated function, method, partial or callable object; return what to call."""
        target = fn.__func__ if isinstance(fn, types.MethodType) else fn
        if isinstance(target, types.FunctionType):
            claim(target)
        seen: Callable[..., Any] = self.read(Chain.object(fn), fn)
        return seen

    def settle(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> list[str]:
        """Decide what the function's writes mean, without touching real containers; return `Trail.volatile`.

        args and kwargs are the call's own, for chains that start at an argument. Where the answer is not empty,
        the trace cannot stand for later calls: `commit` and use it once, or `rollback` and run the function.
        """
        if not self._settled:
            self._settled = True
            changed = (shadow for shadow in self.shadows.values() if shadow.changed())
            self.trail.volatile += [f"{shadow.chain} is changed by the function" for shadow in changed]
            self.settle_writes(lambda chain: chain.resolve(args, kwargs))
        return self.trail.volatile

    def commit(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> None:
        """Settle, and do to real containers what the function did to their shadows.

        Raises UntraceableError where a traced value would stay in a container; then no container is changed.
        """
        self.settle(args, kwargs)
        changed = [shadow for shadow in self.shadows.values() if shadow.changed()]
        for shadow in changed:
            for value in shadow.seen.values() if isinstance(shadow.seen, dict) else shadow.seen:
                self._container_value(str(shadow.chain), value)
        for shadow in changed:
            write_back(shadow, self._container_value)

    def rollback(self) -> None:
        """Put back what the function wrote to globals, closure cells and attributes; shadows are dropped."""
        for write in reversed(self.written.values()):
            write.restore()
        self.written.clear()

    def _container_value(self, place: str, value: Any) -> Any:
        found = self.reals.get(id(value))
        if found is not None:
            return found[1]
        if not self.hooks.is_traced(value):
            return value
        stored = self.hooks.stored(place, value)
        if self.hooks.is_traced(stored):
            raise leak(place)
        return stored

    # Loads

    def load_name(self, value: Any, name: str, namespace: dict[str, Any], raw: bool) -> Any:
        """A global or builtin was read."""
        quick = self.quick_names.get((id(namespace), name, raw))
        if quick is not None and quick[0] is value:
            return quick[1]
        chain = self.names.get((id(namespace), name))
        if chain is None:
            if name not in namespace:
                return self._builtin(value, name, namespace)
            chain = self.name_chain(namespace, name)
        if self.written and (id(namespace), name) in self.written:
            return self.known(value)
        seen = self.read(chain, value, raw)
        self.quick_names[id(namespace), name, raw] = value, seen
        return seen

    def _builtin(self, value: Any, name: str, namespace: dict[str, Any]) -> Any:
        if _BUILTINS.get(name, MISSING) is value:
            self.guard(Chain.object(namespace, "globals()"), "ABSENT", name, len(namespace))
        return self.arrived(value)

    def load_cell(self, value: Any, cell: types.CellType, raw: bool) -> Any:
        """A free variable was read; cells made in the trace hold the trace's own values."""
        found = self.cells.get(id(cell))
        if found is None:
            return value
        if self.written and (id(cell), "") in self.written:
            return self.known(value)
        return self.read(found[1], value, raw)

    def load_item(self, owner: Any, key: Any, raw: bool) -> Any:
        """``owner[key]``. Raises what that raises."""
        found = self.origin.get(id(owner))
        if found is None:
            namespace = self.namespaces.get(id(owner))
            if namespace is not None and isinstance(key, str) and key in namespace:
                return self.load_name(namespace[key], key, namespace, raw)
            return owner[key]
        chain = found[1]
        shadow = self.shadows.get(id(owner))
        if shadow is not None:
            return shadow.seen[key]
        simple = type(key) is str or type(key) is int
        quick = self.quick_items.get((id(owner), key)) if simple else None
        if quick is not None and owner[key] is quick[0]:
            return quick[1]
        if self.hooks.is_traced(key):
            key = self.hooks.concrete(key)
        if is_container(owner):
            seen = self._container_item(owner, chain, key, raw)
            if simple and not raw:
                self.quick_items[id(owner), key] = owner[key], seen
            return seen
        if is_user_function(getattr(type(owner), "__getitem__", None)) or isinstance(owner, type):
            return owner[key]
        return self.read(chain.key(key), owner[key], raw)

    def _container_item(self, owner: Any, chain: Chain, key: Any, raw: bool) -> Any:
        """One item of a container that has no shadow: only this item is guarded."""
        if isinstance(owner, dict):
            if type(owner) is not dict and key not in owner:
                return self.load_item(self.shadow(chain, owner), key, raw)  # a __missing__ may add it
            if key not in owner:
                self.guard(chain, "ABSENT", key, len(owner))
            return self.read(chain.key(key), owner[key], raw)
        if type(key) is not int or not -len(owner) <= key < len(owner):
            self.guard(chain, "LEN", len(owner))
            return self.shadow(chain, owner)[key]
        if key < 0:
            self.guard(chain, "LEN", len(owner))
            key += len(owner)
        step = chain.index(key) if type(owner) in {list, tuple} else chain.key(key)
        return self.read(step, owner[key], raw)

    def imported_name(self, module: Any, value: Any, name: str) -> Any:
        """``from module import name`` inside the function."""
        if isinstance(module, types.ModuleType) and name in vars(module):
            return self.load_attr(module, name, False)
        return self.arrived(value)

    def default(self, value: Any) -> Any:
        """A parameter whose default has content: is this the default?"""
        found = self.defaults.get(id(value))
        if found is None or id(value) in self.shadows:
            return value if found is None else self.shadows[id(value)].seen
        return self.read(found[1], value)

    # Stores

    def store_name(self, value: Any, name: str, namespace: dict[str, Any]) -> Any:
        """A global is about to be written or deleted."""
        chain = self.name_chain(namespace, name)
        self.note_write(namespace, name, chain, namespace.get(name, MISSING),
                        lambda old: namespace.__setitem__(name, old), lambda: namespace.pop(name, None))
        return self.to_store(name, value)

    def store_cell(self, cell: types.CellType, value: Any) -> Any:
        """A free variable is about to be written."""
        found = self.cells.get(id(cell))
        if found is None:
            return value
        try:
            old = cell.cell_contents
        except ValueError:
            old = MISSING
        self.note_write(cell, "", found[1], old, lambda value: setattr(cell, "cell_contents", value),
                        lambda: delattr(cell, "cell_contents"))
        return self.to_store(str(found[1]), value)

    def store_attr(self, owner: Any, name: str, value: Any, put: Callable[[Any, str, Any], None] = setattr) -> None:
        """``owner.name = value``; what was made in the trace may hold traced values."""
        if self.hooks.is_traced(owner):
            setattr(owner, name, value)
            return
        if isinstance(owner, types.ModuleType):
            setattr(owner, name, self.store_name(value, name, vars(owner)))
            return
        found = self.origin.get(id(owner))
        if found is None or id(owner) in self.fresh:
            self.fresh[id(owner)] = owner
            self._note_attr(owner, name, None)
            put(owner, name, value)
            return
        member = class_member(type(owner), name)
        if isinstance(member, property) or (member is not MISSING and is_user_class(type(member))):
            put(owner, name, value)
            return
        chain = found[1].attr(name)
        self._note_attr(owner, name, chain)
        put(owner, name, self.to_store(str(chain), value))

    def _note_attr(self, owner: Any, name: str, chain: Chain | None) -> None:
        old = MISSING
        if chain is not None:
            slot = class_member(type(owner), name)
            if isinstance(slot, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):
                    old = slot.__get__(owner)
            else:
                old = (own_attributes(owner) or {}).get(name, MISSING)
        self.note_write(owner, name, chain, old, lambda value: setattr(owner, name, value),
                        lambda: delattr(owner, name))

    def delete_attr(self, owner: Any, name: str) -> None:
        """``del owner.name``."""
        found = self.origin.get(id(owner))
        if found is not None and hasattr(owner, name):
            self._note_attr(owner, name, found[1].attr(name))
        delattr(owner, name)

    def store_item(self, owner: Any, key: Any, value: Any) -> None:
        """``owner[key] = value``: a real container that was only subscripted so far gets its shadow."""
        if id(owner) in self.namespaces:
            owner[key] = self.store_name(value, key, owner)
            return
        found = self.origin.get(id(owner))
        if found is not None and is_container(owner) and not isinstance(owner, tuple):
            owner = self.shadows[id(owner)].seen if id(owner) in self.shadows else self.shadow(found[1], owner)
        owner[key] = value

    # What the substitutes need

    def same(self, left: Any, right: Any) -> bool:
        """``left is right``: between two objects that chains lead to, both are pinned.

        A stand-in of a bool is True or False itself, as in ``training is True``.
        """
        left, right = self._constant(left, right), self._constant(right, left)
        a, b = self.origin.get(id(left)), self.origin.get(id(right))
        if a is not None and b is not None and a[0] is left and b[0] is right:
            self.guard(a[1], "IS", left)
            self.guard(b[1], "IS", right)
        return left is right

    def _constant(self, value: Any, other: Any) -> Any:
        if type(other) is bool and self.hooks.is_traced(value) and not self.is_traced_array(value):
            return self.hooks.concrete(value)
        return value

    def mark_fresh(self, value: Any) -> None:
        """Note an object made in the trace: its attributes are the trace's own."""
        if id(value) not in self.origin:
            self.fresh[id(value)] = value

    def is_traced_array(self, value: Any) -> bool:
        """Tell whether a value is a stand-in that cannot be made concrete."""
        if not self.hooks.is_traced(value):
            return False
        try:
            self.hooks.concrete(value)
        except (JitfuseError, TypeError):
            return True
        return False

    def plain(self, value: Any) -> Any:
        """Return the plain value behind a stand-in; counts as a look."""
        return self.hooks.concrete(value) if self.hooks.is_traced(value) else self.real(value)

    def adopt_result(self, value: Any) -> Any:
        """See an object that installed code keeps and hands out; plain values are constants."""
        if isinstance(value, int | float | complex | str | bytes | bool | None):
            return value
        return self.read(Chain.object(value), value)

    def read_statically(self, fn: types.FunctionType) -> None:
        """Guard what a function that cannot be rewritten reads."""
        statically.read_statically(self, fn)


def hide_frames(error: BaseException, folders: tuple[str, ...] = (_FOLDER,)) -> None:
    """Take the frames of files in some folders, the view's own, out of a traceback; the others stay in order."""
    trace = error.__traceback__
    frames = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(folders):
            frames.append(trace)
        trace = trace.tb_next
    head: types.TracebackType | None = None
    for frame in reversed(frames):
        head = types.TracebackType(head, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    error.__traceback__ = head


def run(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], hooks: Hooks) -> tuple[Any, Trail]:
    """Trace one call: read the arguments, run, commit. Returns the result and what it depends on."""
    view = View(hooks)
    seen = [view.read(Chain.arg(place), value) for place, value in enumerate(args)]
    named = {name: view.read(Chain.arg(name), value) for name, value in kwargs.items()}
    result = view.run(fn, seen, named)
    view.commit(args, kwargs)
    return result, view.trail
