"""TracedTorchTensor: the traced tensor that user code sees in a function called with torch tensors.

It has torch's methods, operators and `__torch_function__`, all over one traced tensor. Owns Python's protocols, items,
attributes and in-place methods. A NumPy function over it returns one again. Does not own any function.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from jitfuse.dtypes import itemsize, kind
from jitfuse.errors import ShapeError, UnsupportedError
from jitfuse.tracing.record.foreign import Foreign
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.tensor.traced import TracedTensor
from jitfuse.tracing.torch_like import dispatcher, table
from jitfuse.tracing.torch_like.promotion import TORCH, assign, cast, memory, operand

_made: Final = torch.Tensor._make_wrapper_subclass
_set: Final = object.__setattr__


class TracedTorchTensor(Foreign, torch.Tensor):  # type: ignore[misc]  # torch is not typed
    """A traced tensor as a real tensor without memory: torch's own code, in Python and C++, takes it as any other."""

    @staticmethod
    def __new__(cls, tensor: Tensor) -> TracedTorchTensor:
        """Return a tensor whose sizes torch knows; those of a masked selection are unknown until they are asked for."""
        if type(tensor) is TracedTensor:
            meta = tensor._meta
            strides = None if tensor._lazy_layout is None else _strides(tensor)
            made: TracedTorchTensor = _made(cls, meta.shape, strides, dtype=TORCH[meta.dtype])
        else:
            made = _made(cls, (0,), dtype=TORCH[str(tensor.dtype)])
        _set(made, "tensor", tensor)
        return made

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Return the type in plain Python, for `type` and isinstance."""
        return torch.nn.Parameter if "_is_param" in self.__dict__ else torch.Tensor  # type: ignore[no-any-return]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatcher.carry_out(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatcher.lower(func, args, kwargs or {})

    def __setattr__(self, name: str, value: Any) -> None:
        raise UnsupportedError(f"Tensor.{name} is set at {user_line()}: a traced tensor has no attributes of its own")

    def become(self, tensor: Tensor) -> None:
        """Make this another view of memory, as torch's methods that change axes in place do."""
        _set(self, "tensor", tensor)
        with torch._C.DisableTorchFunctionSubclass():
            torch.Tensor.data.__set__(self, TracedTorchTensor(tensor))

    # ------------------------------------------------------------------ attributes
    @property
    def shape(self) -> Any:
        """Extents."""
        return torch.Size(self.tensor.shape)

    @property
    def dtype(self) -> Any:
        """torch's dtype."""
        return TORCH[str(self.tensor.dtype)]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.tensor.shape)

    @property
    def data(self) -> Any:
        """The same tensor, without gradients."""
        return self.detach()

    device: Final = torch.device("cpu")
    is_cuda: Final = False
    is_sparse: Final = False
    is_quantized: Final = False
    is_nested: Final = False
    is_meta: Final = False
    layout: Final = torch.strided

    # ------------------------------------------------------------------ items
    def __getitem__(self, index: Any) -> Any:
        whole, at = _selected(self.tensor, _index(index))
        found = whole[at]
        if not found.ndim and not self.tensor.weak and _is_of_ints(at):
            found = whole[(*at, ...) if isinstance(at, tuple) else (at, ...)]  # a view, as in torch
        return TracedTorchTensor(memory(found))

    def __setitem__(self, index: Any, value: Any) -> None:
        new = operand(value)
        if not new.weak and new.ndim > self.ndim and not [n for n in new.shape[: new.ndim - self.ndim] if n != 1]:
            new = new.reshape(new.shape[new.ndim - self.ndim :])
        own = str(self.tensor.dtype)
        whole, at = _selected(self.tensor, _index(index))
        whole[at] = cast(new, own) if not new.weak or kind(own) in ("int", "uint", "bool") else new

    def __len__(self) -> int:
        if not self.tensor.shape:
            raise TypeError("len() of a 0-d tensor")
        return int(self.tensor.shape[0])

    def __iter__(self) -> Iterator[Any]:
        if not self.tensor.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter([self[k] for k in range(self.tensor.shape[0])])

    # ------------------------------------------------------------------ reads of values
    def __contains__(self, value: Any) -> bool:
        return bool((self.tensor == operand(value)).any())

    def __hash__(self) -> int:
        return id(self)

    # ------------------------------------------------------------------ NumPy
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.tensor.__array__(dtype, copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _by_numpy(lambda *args, **options: self.tensor.__array_ufunc__(ufunc, method, *args, **options),
                         inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _by_numpy(lambda *given, **options: self.tensor.__array_function__(func, types, given, options),
                         args, kwargs)


def _strides(tensor: TracedTensor) -> tuple[int, ...] | None:
    """Return the steps between elements, by which torch's reshape chooses between a view and a copy."""
    if not tensor.size:
        return None
    size, steps = itemsize(str(tensor.dtype)), tensor._where().strides
    return None if any(step < 0 or step % size for step in steps) else tuple(step // size for step in steps)


def as_parameter(made: TracedTorchTensor) -> TracedTorchTensor:
    """Make isinstance and `type` say that a tensor is a parameter, as the real one is; return it."""
    _set(made, "_is_param", True)
    return made


def _read(read: Callable[[Any], Any]) -> property:
    return property(lambda self: read(self.tensor))


for _name, _get in {
    "T": lambda x: TracedTorchTensor(x.T), "mT": lambda x: TracedTorchTensor(x.swapaxes(-1, -2)),
    "real": lambda x: TracedTorchTensor(x.real), "imag": lambda x: TracedTorchTensor(memory(x.imag)),
    "itemsize": lambda x: itemsize(str(x.dtype)), "nbytes": lambda x: itemsize(str(x.dtype)) * x.size,
}.items():
    setattr(TracedTorchTensor, _name, _read(_get))


def _of_array(name: str) -> Callable[..., Any]:
    return lambda self, *args: getattr(self.tensor, name)(*args)


for _name in ("__int__", "__float__", "__complex__", "__index__", "__repr__", "__format__"):
    setattr(TracedTorchTensor, _name, _of_array(_name))


def _of_autograd(name: str, value: Any) -> property:
    """Return an attribute of what is computed in a trace, which has no gradients; those of real tensors may change."""
    def get(self: TracedTorchTensor) -> Any:
        storage = getattr(self.tensor, "_storage", None)
        if storage is not None and storage.feed is not None:
            raise UnsupportedError(f"Tensor.{name} of a tensor from outside of the fused function is read at "
                                   f"{user_line()}: it may be another in each call. Read it outside.")
        return value

    return property(get)


for _name, _value in {"requires_grad": False, "grad": None, "grad_fn": None, "is_leaf": True}.items():
    setattr(TracedTorchTensor, _name, _of_autograd(_name, _value))


def wrap(value: Any) -> Any:
    """Return a result with its traced tensors as torch's."""
    if type(value) is TracedTensor:
        return value if value.weak else TracedTorchTensor(memory(value))
    if isinstance(value, TracedTensor):  # a masked selection
        return TracedTorchTensor(value)
    if isinstance(value, tuple | list):
        parts = [wrap(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if type(value) is dict:
        return {k: wrap(v) for k, v in value.items()}
    return value


table.wrap = wrap


def unwrap(value: Any) -> Any:
    """Return arguments with torch's tensors as traced tensors, in containers too."""
    if isinstance(value, Foreign):
        return value.tensor
    if type(value) in (list, tuple):
        return type(value)(map(unwrap, value))
    if type(value) is dict:
        return {k: unwrap(v) for k, v in value.items()}
    return value


def _by_numpy(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return wrap(function(*unwrap(tuple(args)), **unwrap(dict(kwargs))))


def _index(index: Any) -> Any:
    """Return an index with traced tensors in it; raises for negative steps, as torch does."""
    items = index if isinstance(index, tuple) else (index,)
    for item in items:
        if isinstance(item, slice) and item.step is not None and item.step < 1:
            raise ShapeError(f"step must be greater than zero, at {user_line()}. Use torch.flip.")
    return tuple(_item(i) for i in index) if isinstance(index, tuple) else _item(index)


def _is_of_ints(index: Any) -> bool:
    return all(map(_is_int, index)) if isinstance(index, tuple) else _is_int(index)


def _is_int(item: Any) -> bool:
    return type(item) is int or (isinstance(item, TracedTensor) and bool(item.weak or item._scalar))


def _selected(x: Tensor, index: Any) -> tuple[Tensor, Any]:
    """Return the indexed tensor and the index; torch selects by numbers before it indexes by tensors, NumPy at once."""
    if not isinstance(index, tuple) or not any(map(_is_int, index)):
        return x, index
    if all(_is_int(i) or i is None or i is Ellipsis or isinstance(i, slice) for i in index):
        return x, index
    first: list[Any] = []
    for item in index:
        mask = isinstance(item, TracedTensor) and item.dtype == "bool"
        first += () if item is None else (item,) if _is_int(item) or item is Ellipsis else (
            (slice(None),) * (item.ndim if mask else 1))
    return x[tuple(first)], tuple(item for item in index if not _is_int(item))


def _item(item: Any) -> Any:
    if isinstance(item, slice):
        return slice(*(unwrap(v) for v in (item.start, item.stop, item.step)))
    found = operand(item) if isinstance(item, torch.Tensor) else unwrap(item)
    if isinstance(found, TracedTensor) and not found.ndim and not found.weak and kind(str(found.dtype)) == "int":
        return found.as_copy(scalar=True)  # as an index it gives a view, as a number does
    return found


# ---------------------------------------------------------------- operators
_BINARY: Final = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "pow", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}
_COMPARISONS: Final = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "ne"}
_UNARY: Final = {"neg": "neg", "pos": "positive", "abs": "abs", "invert": "bitwise_not"}


def _operator(name: str, reflected: bool) -> Callable[..., Any]:
    def operator(self: TracedTorchTensor, other: Any) -> Any:
        if other is None or isinstance(other, str | list | tuple | dict):
            return NotImplemented
        function = _function(name)
        return function(other, self) if reflected else function(self, other)

    return operator


def _inplace(name: str) -> Callable[..., Any]:
    def operator(self: TracedTorchTensor, other: Any) -> Any:
        return assign(self, _function(name)(self, other), name)

    return operator


def _function(name: str) -> Callable[..., Any]:
    table.loaded()
    return table.FUNCTIONS[name]


for _dunder, _name in {**_BINARY, **_COMPARISONS}.items():
    setattr(TracedTorchTensor, f"__{_dunder}__", _operator(_name, reflected=False))
for _dunder, _name in _BINARY.items():
    setattr(TracedTorchTensor, f"__r{_dunder}__", _operator(_name, reflected=True))
    setattr(TracedTorchTensor, f"__i{_dunder}__", _inplace(_name))
for _dunder, _name in _UNARY.items():
    setattr(TracedTorchTensor, f"__{_dunder}__", (lambda n: lambda self: _function(n)(self))(_name))


def _method(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    base = getattr(torch.Tensor, name[:-1], None) if name.endswith("_") else None

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        known = table.by_object()
        if base in known and original not in known:  # by our entry: torch's code would read traced numbers
            return assign(self, dispatcher.carry_out(base, (self, *args), kwargs), name[:-1])
        return dispatcher.carry_out(original, (self, *args), kwargs)

    return call


for _name in dir(torch.Tensor):  # by Python: the argument parser of torch's methods refuses traced numbers
    if not _name.startswith("__") and _name not in vars(TracedTorchTensor):
        _original = getattr(torch.Tensor, _name)
        if inspect.ismethoddescriptor(_original) or inspect.isfunction(_original):
            setattr(TracedTorchTensor, _name, _method(_name, _original))
