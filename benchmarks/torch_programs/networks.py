"""Networks as people write them: layers of `torch.nn` in eval mode, and blocks built from functions."""
from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from torch_programs.program import Program


def _mlp(size):
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 256), nn.GELU(),
                          nn.LayerNorm(256), nn.Linear(256, 10)).eval()
    return model.forward, (torch.randn(256 if size == "large" else 4, 64),)


class ResidualBlock(nn.Module):
    """Two convolutions with batch normalisation, and a projected shortcut."""

    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.shortcut = nn.Identity()
        if stride != 1 or cin != cout:
            self.shortcut = nn.Sequential(nn.Conv2d(cin, cout, 1, stride=stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out, inplace=True)


def _resnet(size):
    channels, side = (32, 28) if size == "large" else (4, 7)
    model = nn.Sequential(
        nn.Conv2d(3, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2, padding=1), ResidualBlock(channels, channels),
        ResidualBlock(channels, 2 * channels, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * channels, 10),
    ).eval()
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)
    return model.forward, (torch.randn(4 if size == "large" else 2, 3, side, side),)


def _encoder_layer(size):
    dim, length = (256, 128) if size == "large" else (16, 5)
    layer = nn.TransformerEncoderLayer(dim, 4, 4 * dim, activation="gelu", batch_first=True, norm_first=True).eval()
    return layer.forward, (torch.randn(2, length, dim),)


def _transformer(size):
    dim, length = (64, 32) if size == "large" else (16, 5)
    model = nn.Transformer(dim, 4, 2, 2, 2 * dim, batch_first=True).eval()
    mask = nn.Transformer.generate_square_subsequent_mask(length)
    return lambda source, target: model(source, target, tgt_mask=mask), (
        torch.randn(2, length, dim), torch.randn(2, length, dim))


def rotate_half(x):
    """Return the halves of the last axis exchanged, the second negated."""
    one, two = x.chunk(2, dim=-1)
    return torch.cat((-two, one), dim=-1)


class RMSNorm(nn.Module):
    """Root mean square normalisation, computed in float32."""

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * x.to(dtype)


class RotaryAttention(nn.Module):
    """Causal attention with rotary embeddings and grouped keys."""

    def __init__(self, dim, heads, kv_heads, base=10000.0):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, dim // heads
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)
        inv_freq = 1.0 / (base ** (torch.arange(0, self.head_dim, 2).float() / self.head_dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, x):
        b, t, d = x.shape
        q = self.q_proj(x).view(b, t, self.heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, t, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, t, self.kv_heads, self.head_dim).transpose(1, 2)
        angles = torch.outer(torch.arange(t, device=x.device).float(), self.inv_freq)
        emb = torch.cat((angles, angles), dim=-1)
        cos, sin = emb.cos()[None, None], emb.sin()[None, None]
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        groups = self.heads // self.kv_heads
        k = k[:, :, None].expand(b, self.kv_heads, groups, t, self.head_dim).reshape(b, self.heads, t, self.head_dim)
        v = v.repeat_interleave(groups, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).contiguous().view(b, t, d))


class SwiGLU(nn.Module):
    """Gated feed-forward layer."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.w1, self.w2 = nn.Linear(dim, hidden, bias=False), nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class DecoderBlock(nn.Module):
    """A decoder layer of today's language models."""

    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        self.attention, self.mlp = RotaryAttention(dim, heads, kv_heads), SwiGLU(dim, 3 * dim)
        self.norm1, self.norm2 = RMSNorm(dim), RMSNorm(dim)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    """Embedding, decoder layers, logits by the embedding's weights."""

    def __init__(self, vocabulary, dim, layers):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.layers = nn.ModuleList([DecoderBlock(dim, 4, 2) for _ in range(layers)])
        self.norm = RMSNorm(dim)
        self.head = nn.Linear(dim, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def _language_model(size):
    vocabulary, dim, layers, length = (1000, 128, 2, 64) if size == "large" else (29, 16, 1, 6)
    model = LanguageModel(vocabulary, dim, layers).eval()
    return model.forward, (torch.randint(0, vocabulary, (2, length)),)


class UNetBlock(nn.Module):
    """Down, up with a skip connection, time embedding, group normalisation."""

    def __init__(self, channels, time_dim):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, channels), nn.GroupNorm(4, channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(time_dim, 2 * channels)
        self.down = nn.Conv2d(channels, channels, 4, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(channels, channels, 4, stride=2, padding=1)
        self.merge = nn.Conv2d(2 * channels, channels, 1)

    def forward(self, x, t):
        scale, shift = self.time(F.silu(t))[:, :, None, None].chunk(2, dim=1)
        h = self.conv1(F.silu(self.norm1(x)))
        low = self.down(h) * (1 + scale) + shift
        up = self.up(F.silu(self.norm2(low)))
        return x + self.merge(torch.cat([self.conv2(up), h], dim=1))


def timestep_embedding(t, dim, max_period=10000):
    """Sinusoidal embedding of time steps."""
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(half, dtype=torch.float32) / half)
    args = t[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


def _unet(size):
    channels, side = (32, 32) if size == "large" else (8, 6)
    block = UNetBlock(channels, 32).eval()

    def step(x, t):
        return block(x, timestep_embedding(t, 32))

    return step, (torch.randn(2, channels, side, side), torch.tensor([3, 700]))


def _diffusion(size):
    channels, side = (16, 32) if size == "large" else (8, 6)
    block = UNetBlock(channels, 32).eval()
    betas = torch.linspace(1e-4, 0.02, 1000)
    alphas = torch.cumprod(1.0 - betas, dim=0)

    def step(x, t, noise):
        eps = block(x, timestep_embedding(t, 32))
        a = alphas.gather(0, t).reshape(-1, 1, 1, 1)
        b = betas[t].reshape(-1, 1, 1, 1)
        start = ((x - torch.sqrt(1 - a) * eps) / torch.sqrt(a)).clamp(-1, 1)
        mean = (x - b / torch.sqrt(1 - a) * eps) / torch.sqrt(1 - b)
        keep = (t > 0).float().view(-1, 1, 1, 1)
        return mean + keep * torch.sqrt(b) * noise, start

    shape = (2, channels, side, side)
    return step, (torch.randn(shape), torch.tensor([3, 700]), torch.randn(shape))


def _vae(size):
    base, side = (32, 8) if size == "large" else (4, 3)
    decoder = nn.Sequential(
        nn.Conv2d(4, base, 3, padding=1), nn.SiLU(), nn.Upsample(scale_factor=2, mode="nearest"),
        nn.Conv2d(base, base, 3, padding=1), nn.LeakyReLU(0.2), nn.ConvTranspose2d(base, base // 2, 4, 2, 1),
        nn.InstanceNorm2d(base // 2), nn.ReLU(), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
        nn.Conv2d(base // 2, 3, 3, padding=1), nn.Sigmoid(),
    ).eval()

    def decode(mean, log_variance, noise):
        z = mean + torch.exp(0.5 * log_variance) * noise
        return decoder(z), -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())

    shape = (2, 4, side, side)
    return decode, tuple(torch.randn(shape) for _ in range(3))


class GRULanguageModel(nn.Module):
    """One step of a recurrent language model: logits, greedy choice, next state."""

    def __init__(self, vocabulary, dim, layers=2):
        super().__init__()
        self.embed, self.gru = nn.Embedding(vocabulary, dim), nn.GRU(dim, dim, layers, batch_first=True)
        self.out = nn.Linear(dim, vocabulary)

    def forward(self, tokens, state):
        y, state = self.gru(self.embed(tokens), state)
        logits = self.out(y[:, -1])
        return F.log_softmax(logits, dim=-1), logits.argmax(dim=-1), state


def _gru(size):
    vocabulary, dim = (500, 128) if size == "large" else (19, 8)
    model = GRULanguageModel(vocabulary, dim).eval()
    return model.forward, (torch.randint(0, vocabulary, (4, 3)), torch.zeros(2, 4, dim))


def _lstm(size):
    dim, length = (64, 20) if size == "large" else (6, 4)
    lstm = nn.LSTM(dim, dim, bidirectional=True, batch_first=True).eval()
    head = nn.Linear(2 * dim, 3).eval()
    return lambda x: head(lstm(x)[0].mean(dim=1)), (torch.randn(4, length, dim),)


class PatchEmbedding(nn.Module):
    """A small vision transformer: patches, class token, encoder layers."""

    def __init__(self, dim, patches):
        super().__init__()
        self.project = nn.Conv2d(3, dim, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, dim))
        self.position = nn.Parameter(torch.randn(1, patches + 1, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 10)

    def forward(self, image):
        x = self.project(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.position
        return self.head(self.encoder(x)[:, 0]).softmax(dim=-1)


def _vision(size):
    dim, side = (64, 32) if size == "large" else (16, 8)
    return PatchEmbedding(dim, (side // 4) ** 2).eval().forward, (torch.randn(2, 3, side, side),)


PROGRAMS = (
    Program("mlp", _mlp), Program("resnet", _resnet, 5e-5), Program("encoder_layer", _encoder_layer),
    Program("transformer", _transformer, splits=True), Program("language_model", _language_model, 2e-5),
    Program("unet_block", _unet, 2e-5), Program("diffusion_step", _diffusion, 5e-5),
    Program("vae_decode", _vae, 2e-5), Program("gru_step", _gru),
    Program("lstm_classifier", _lstm), Program("vision_transformer", _vision),
)
