"""Images and signals by windows, samplers of language models, sums over graphs: written with torch's functions."""
from __future__ import annotations

import torch
import torch.nn.functional as F

from torch_programs.program import Program


def structural_similarity(a, b, width=11, sigma=1.5):
    """Mean structural similarity of images, and the ratio of signal to noise."""
    places = torch.arange(width, dtype=a.dtype) - (width - 1) / 2
    line = torch.exp(-places ** 2 / (2 * sigma ** 2))
    window = torch.outer(line, line)[None, None] / line.sum() ** 2
    mean_a, mean_b = F.conv2d(a, window), F.conv2d(b, window)
    var_a, var_b = F.conv2d(a * a, window) - mean_a ** 2, F.conv2d(b * b, window) - mean_b ** 2
    both = F.conv2d(a * b, window) - mean_a * mean_b
    similar = (2 * mean_a * mean_b + 1e-4) * (2 * both + 9e-4)
    similar = similar / ((mean_a ** 2 + mean_b ** 2 + 1e-4) * (var_a + var_b + 9e-4))
    return similar.mean(), -10 * torch.log10(F.mse_loss(a, b))


def _structural_similarity(size):
    side = 160 if size == "large" else 80
    a = torch.rand(2, 1, side, side)
    return structural_similarity, (a, (a + 0.1 * torch.rand(a.shape)).clamp(max=1))


def sharpen(image, amount=0.5, width=7):
    """Unsharp masking by a separable blur, one group of channels each."""
    channels = image.shape[1]
    places = torch.arange(width, dtype=image.dtype) - width // 2
    line = torch.exp(-places ** 2 / 4.5)
    line = line / line.sum()
    blurred = F.pad(image, (width // 2,) * 4, mode="reflect")
    blurred = F.conv2d(blurred, line.view(1, 1, 1, -1).repeat(channels, 1, 1, 1), groups=channels)
    blurred = F.conv2d(blurred, line.view(1, 1, -1, 1).repeat(channels, 1, 1, 1), groups=channels)
    return (image + amount * (image - blurred)).clamp(0, 1)


def _sharpen(size):
    return sharpen, (torch.rand(2, 3, *((256, 256) if size == "large" else (9, 70))),)


def smooth(image, width=5, spread=0.02):
    """Bilateral filter: neighbours weighted by distance and by likeness."""
    reach = width // 2
    around = F.pad(image, (reach,) * 4, mode="replicate").unfold(2, width, 1).unfold(3, width, 1)
    apart = around - image[..., None, None]
    rows, columns = torch.meshgrid(*(torch.arange(-reach, reach + 1.0),) * 2, indexing="ij")
    weight = torch.exp(-apart ** 2 / spread) * torch.exp(-(rows ** 2 + columns ** 2) / 8)
    return (weight * around).sum((-1, -2)) / weight.sum((-1, -2))


def _smooth(size):
    side = 96 if size == "large" else 7
    return smooth, (torch.rand(1, 2, side, side),)


def spectrogram(signal, bands, size=256, hop=64):
    """Logarithms of the power of signals in bands of frequencies, and how loud each part is."""
    window = torch.hann_window(size)
    spectra = torch.stft(signal, size, hop, window=window, return_complex=True)
    power = spectra.real ** 2 + spectra.imag ** 2
    loud = F.pad(signal, (size // 2, size // 2)).unfold(-1, size, hop).square().mean(-1).sqrt()
    return torch.log((power.transpose(-1, -2) @ bands).clamp(min=1e-6)), loud


def _spectrogram(size):
    return spectrogram, (torch.randn(2, 16000 if size == "large" else 600), torch.rand(129, 20))


def moving_statistics(series, width=15):
    """Mean, deviation and extremes of moving windows, and how many elements lie far from theirs."""
    windows = series.unfold(0, width, 1)
    mean, deviation = windows.mean(-1), windows.std(-1)
    far = ((series[width - 1 :] - mean) / (deviation + 1e-6)).abs() > 1.5
    return mean, deviation, windows.amax(-1), windows.amin(-1), far.sum()


def _moving_statistics(size):
    return moving_statistics, (torch.randn(50000 if size == "large" else 40),)


def filtered(logits, draws, k=50, p=0.9):
    """Sample tokens among the k best, and of those the fewest that have a probability together."""
    logits = logits / 0.8
    least = logits.topk(min(k, logits.shape[-1])).values[..., -1, None]
    logits = logits.masked_fill(logits < least, -float("inf"))
    ordered, places = torch.sort(logits, descending=True)
    dropped = ordered.softmax(-1).cumsum(-1) > p
    dropped[..., 1:] = dropped[..., :-1].clone()
    dropped[..., 0] = False
    logits[dropped.scatter(1, places, dropped)] = -float("inf")
    chances = logits.softmax(-1)
    return torch.searchsorted(chances.cumsum(-1), draws).clamp(max=logits.shape[-1] - 1), chances


def _filtered(size):
    rows, tokens = (8, 5000) if size == "large" else (2, 11)
    return filtered, (torch.randn(rows, tokens) * 3, torch.rand(rows, 1) * 0.5)


def beams(chances, scores, sequences, done):
    """One step of a beam search: the best continuations of all beams."""
    count, tokens = chances.shape[1:]
    chances = chances.masked_fill(done[..., None], -1e9)
    chances[..., 0] = torch.where(done, torch.zeros_like(scores), chances[..., 0])
    best, places = (scores[..., None] + chances).view(scores.shape[0], -1).topk(count)
    beam, token = places // tokens, places % tokens
    sequences = sequences.gather(1, beam[..., None].expand(-1, -1, sequences.shape[-1]))
    return best, torch.cat([sequences, token[..., None]], -1), done.gather(1, beam) | (token == 0)


def _beams(size):
    rows, count, tokens, length = (8, 4, 3000, 20) if size == "large" else (2, 2, 60, 3)
    return beams, (F.log_softmax(torch.randn(rows, count, tokens), -1), torch.randn(rows, count),
                   torch.randint(0, tokens, (rows, count, length)), torch.rand(rows, count) > 0.7)


def graph_attention(x, edges, weight, source_weight, target_weight):
    """One layer of attention over the edges of a graph."""
    source, target = edges
    h = x @ weight
    score = F.leaky_relu((h * source_weight).sum(-1)[source] + (h * target_weight).sum(-1)[target], 0.2)
    most = torch.zeros(x.shape[0]).scatter_reduce(0, target, score, reduce="amax", include_self=False)
    share = torch.exp(score - most[target])
    total = torch.zeros(x.shape[0]).index_add_(0, target, share)
    share = share / (total[target] + 1e-9)
    return F.elu(torch.zeros_like(h).index_add_(0, target, h[source] * share[:, None]))


def _graph_attention(size):
    nodes, edges, dim = (1000, 5000, 16) if size == "large" else (6, 12, 4)
    return graph_attention, (torch.randn(nodes, dim), torch.randint(0, nodes, (2, edges)),
                             torch.randn(dim, dim) / dim ** 0.5, torch.randn(dim), torch.randn(dim))


def cooled(field, source, steps=10, rate=0.1):
    """Heat flow with walls that lose no heat and a diagonal that is held, through views in place."""
    field = field.clone()
    inner, wall = field[1:-1, 1:-1], field.diagonal()
    for _ in range(steps):
        inner += rate * (field[2:, 1:-1] + field[:-2, 1:-1] + field[1:-1, 2:] + field[1:-1, :-2] - 4 * inner)
        field[0] = field[1]
        field[-1].copy_(field[-2])
        field[:, 0], field[:, -1] = field[:, 1], field[:, -2]
        wall.lerp_(source, 0.5)
        field[2, 3].mul_(0.9)
    return field


def _cooled(size):
    side = 256 if size == "large" else 8
    return cooled, (torch.rand(side, side), torch.rand(side))


PROGRAMS = (
    Program("structural_similarity", _structural_similarity, 5e-5), Program("sharpen", _sharpen),
    Program("bilateral", _smooth), Program("spectrogram", _spectrogram, 5e-5),
    Program("moving_statistics", _moving_statistics, 5e-5), Program("top_filter", _filtered),
    Program("beam_step", _beams), Program("graph_attention", _graph_attention), Program("held_heat", _cooled),
)
