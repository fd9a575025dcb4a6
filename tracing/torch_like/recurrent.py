"""torch's recurrent layers and cells over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`; `nn.LSTM`, `nn.GRU`, `nn.RNN` and the cells use them. One
product multiplies the inputs of all time steps; the time steps are unrolled.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jitfuse.errors import ShapeError, UnsupportedError
from jitfuse.tracing.numpy_like import shapes
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.torch_like.networks import dropout, linear
from jitfuse.tracing.torch_like.promotion import numbers, operand
from jitfuse.tracing.torch_like.table import implements
from jitfuse.tracing.torch_like.tensor import wrap

State = tuple[Tensor, ...]
Cell = Callable[[list[Tensor], list[Tensor], State], State]
"""(gates of the input, gates of the state, state) -> the next state, whose first part is the output."""


def _lstm(one: list[Tensor], two: list[Tensor], state: State) -> State:
    i, f, g, o = (a + b for a, b in zip(one, two, strict=True))
    cell = f.call("sigmoid") * state[1] + i.call("sigmoid") * g.call("tanh")
    return o.call("sigmoid") * cell.call("tanh"), cell


def _gru(one: list[Tensor], two: list[Tensor], state: State) -> State:
    reset, update = ((a + b).call("sigmoid") for a, b in zip(one[:2], two[:2], strict=True))
    new = (one[2] + reset * two[2]).call("tanh")
    return (new + update * (state[0] - new),)


def _simple(op_name: str) -> Cell:
    return lambda one, two, state: ((one[0] + two[0]).call(op_name),)


CELLS: dict[str, tuple[Cell, int]] = {
    "lstm": (_lstm, 4), "gru": (_gru, 3), "rnn_tanh": (_simple("tanh"), 1), "rnn_relu": (_simple("relu"), 1)}
"""Name -> (the cell, its number of gates)."""


class _Weights(NamedTuple):
    """The weights of one direction of one layer."""

    w_ih: Any
    w_hh: Any
    b_ih: Any = None
    b_hh: Any = None
    w_hr: Any = None


def _gates(whole: Tensor, count: int) -> list[Tensor]:
    size = whole.shape[-1] // count
    return [whole[..., k * size : (k + 1) * size] for k in range(count)]


def _product(x: Any, w: Any, b: Any) -> Tensor:
    return operand(linear(wrap(x), w, b))


def _direction(name: str, x: Tensor, state: State, w: _Weights, backwards: bool) -> tuple[Tensor, State]:
    """Return the outputs (length, samples, features) of all time steps, and the last state."""
    cell, count = CELLS[name]
    inputs, outputs = _product(x, w.w_ih, w.b_ih), []
    steps = range(x.shape[0])
    for k in reversed(steps) if backwards else steps:
        state = cell(_gates(inputs[k], count), _gates(_product(state[0], w.w_hh, w.b_hh), count), state)
        if w.w_hr is not None:
            state = _product(state[0], w.w_hr, None), *state[1:]
        outputs.append(state[0])
    return shapes.stack(outputs[::-1] if backwards else outputs, 0), state


def _weights_of(params: Any, biases: bool, projected: bool) -> list[_Weights]:
    count = (4 if biases else 2) + projected
    parts = [list(params[k : k + count]) for k in range(0, len(params), count)]
    return [_Weights(*(p if biases else [*p[:2], None, None, *p[2:]])) for p in parts]


def _layers(name: str) -> None:
    states = 2 if name == "lstm" else 1

    def function(input: Any, hx: Any, params: Any, has_biases: Any, num_layers: Any, dropout_p: Any, train: Any,
                 bidirectional: Any, batch_first: Any = None) -> Any:
        if batch_first is None:
            raise UnsupportedError(f"torch.{name} of packed sequences is not available inside a fused function, at "
                                   f"{user_line()}. Pad them, or pack and run it outside.")
        x, first = operand(input), tuple(map(operand, hx if states == 2 else (hx,)))
        layers, directions = int(numbers(num_layers)), 2 if numbers(bidirectional) else 1
        every = _weights_of(params, bool(numbers(has_biases)),
                            len(params) != layers * directions * (4 if numbers(has_biases) else 2))
        x = x.swapaxes(0, 1) if numbers(batch_first) else x
        if any(s.ndim != 3 or s.shape[:2] != (len(every), x.shape[1]) for s in first):
            raise ShapeError(f"{name}: expected hidden size ({len(every)}, {x.shape[1]}, ...), got "
                             f"{', '.join(str(s.shape) for s in first)}, at {user_line()}")
        last: list[State] = []
        for layer in range(layers):
            made = []
            for direction in range(directions):
                k = layer * directions + direction
                outputs, state = _direction(name, x, tuple(s[k] for s in first), every[k], direction == 1)
                made.append(outputs)
                last.append(state)
            x = shapes.concatenate(made, -1) if directions == 2 else made[0]
            if numbers(train) and float(numbers(dropout_p)) > 0.0 and layer + 1 < layers:
                x = operand(dropout(wrap(x), dropout_p))
        ends = [wrap(shapes.stack([s[k] for s in last], 0)) for k in range(states)]
        return (wrap(x.swapaxes(0, 1) if numbers(batch_first) else x), *ends)

    implements(name)(function)


def _cell(name: str) -> None:
    cell, count = CELLS[name]

    @implements(f"{name}_cell")
    def function(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
        state = tuple(map(operand, hx if name == "lstm" else (hx,)))
        one, two = _product(operand(input), w_ih, b_ih), _product(state[0], w_hh, b_hh)
        made = tuple(map(wrap, cell(_gates(one, count), _gates(two, count), state)))
        return made if name == "lstm" else made[0]


for _name in CELLS:
    _layers(_name)
    _cell(_name)
