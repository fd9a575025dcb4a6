"""Functions of neural networks over traced and NumPy arrays: `jf.nn`."""
from __future__ import annotations

from jitfuse.array_api.descriptions import documentation
from jitfuse.arrays import state_trees
from jitfuse.arrays.state_trees import load, load_state_dict, parameters, save, state_dict
from jitfuse.nn.activations import (
    elu,
    gelu,
    hard_sigmoid,
    hard_silu,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    mish,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softmax,
    softplus,
    softsign,
)
from jitfuse.nn.layers import batch_norm, dropout, layer_norm, linear, rms_norm
from jitfuse.nn.losses import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)

__all__ = [
    "batch_norm", "binary_cross_entropy_with_logits", "cross_entropy", "dropout", "elu", "gelu", "hard_sigmoid",
    "hard_silu", "hard_tanh", "huber_loss", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear", "load",
    "load_state_dict", "log_sigmoid", "log_softmax", "mish", "mse_loss", "nll_loss", "parameters", "relu", "relu6",
    "rms_norm", "save", "selu", "sigmoid", "silu", "smooth_l1_loss", "softmax", "softplus", "softsign", "state_dict",
]


def __dir__() -> list[str]:
    return __all__


for _name in sorted({*__all__} - {*state_trees.__all__}):
    globals()[_name].__doc__ = documentation(f"nn.{_name}", globals()[_name])
