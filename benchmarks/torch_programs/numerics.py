"""Losses, search, physics and filters written with torch's functions."""
from __future__ import annotations

import torch
import torch.nn.functional as F

from torch_programs.program import Program


def nearest(points, queries, labels, k=5):
    """Classify queries by the k nearest points."""
    distances = torch.cdist(queries, points)
    nearest = distances.topk(k, dim=1, largest=False)
    votes = F.one_hot(labels[nearest.indices], 4).float()
    weights = 1.0 / (nearest.values + 1e-6)
    return (votes * weights.unsqueeze(-1)).sum(1).argmax(dim=1), nearest.values


def _nearest(size):
    n = 2000 if size == "large" else 40
    return nearest, (torch.randn(n, 8), torch.randn(n // 10, 8), torch.randint(0, 4, (n,)))


def losses(logits, targets, boxes, wanted):
    """Return the terms of a detector's loss."""
    p = torch.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    p_t = p * targets + (1 - p) * (1 - targets)
    focal = (0.25 * targets + 0.75 * (1 - targets)) * (1 - p_t) ** 2.0 * ce
    top_left, bottom_right = torch.max(boxes[:, :2], wanted[:, :2]), torch.min(boxes[:, 2:], wanted[:, 2:])
    size = (bottom_right - top_left).clamp(min=0)
    overlap = size[:, 0] * size[:, 1]
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    other = (wanted[:, 2] - wanted[:, 0]) * (wanted[:, 3] - wanted[:, 1])
    iou = overlap / (area + other - overlap).clamp(min=1e-7)
    return {"focal": focal.mean(), "iou": (1 - iou).mean(), "box": F.smooth_l1_loss(boxes, wanted, beta=0.1),
            "dice": 1 - (2 * (p * targets).sum() + 1) / (p.sum() + targets.sum() + 1)}


def _losses(size):
    n = 20000 if size == "large" else 12
    corners = torch.rand(n, 2)
    boxes = torch.cat([corners, corners + torch.rand(n, 2)], 1)
    return losses, (torch.randn(n, 4), (torch.rand(n, 4) > 0.7).float(), boxes, boxes + torch.rand(n, 4) * 0.1)


def contrastive(a, b, temperature=0.07):
    """Symmetric loss of pairs of embeddings, and the accuracy of retrieval."""
    a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
    logits = a @ b.t() / temperature
    labels = torch.arange(logits.shape[0], device=a.device)
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
    return loss, (logits.argmax(dim=1) == labels).float().mean()


def _contrastive(size):
    n, dim = (512, 128) if size == "large" else (6, 5)
    return contrastive, (torch.randn(n, dim), torch.randn(n, dim))


def wave(u, previous, speed, steps=8):
    """Steps of the wave equation with a convolution as the Laplacian."""
    kernel = torch.tensor([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]], dtype=u.dtype).view(1, 1, 3, 3)
    for _ in range(steps):
        padded = F.pad(u[None, None], (1, 1, 1, 1), mode="circular")
        laplacian = F.conv2d(padded, kernel)[0, 0]
        u, previous = 2 * u - previous + speed * laplacian, u
    return u, previous


def _wave(size):
    n = 256 if size == "large" else 9
    u = torch.rand(n, n)
    return wave, (u, u * 0.99, torch.rand(n, n) * 0.3)


def diffuse(field, steps=10, rate=0.1):
    """Heat flow by rolled neighbours, in place."""
    field = field.clone()
    for _ in range(steps):
        around = sum(torch.roll(field, s, d) for s in (1, -1) for d in (0, 1))
        field[1:-1, 1:-1] += rate * (around - 4 * field)[1:-1, 1:-1]
    return field


def _diffuse(size):
    n = 512 if size == "large" else 9
    return diffuse, (torch.rand(n, n),)


def particles(position, velocity, mass, dt=0.01):
    """One leapfrog step of gravitating particles, and their energy."""
    apart = position[None] - position[:, None]
    squared = (apart ** 2).sum(-1) + 0.01
    inverse = squared.rsqrt()
    force = (apart * (mass[None, :, None] * inverse.pow(3)[..., None])).sum(1)
    velocity = velocity + dt * force
    energy = 0.5 * (mass * velocity.square().sum(-1)).sum() - (torch.triu(inverse, 1) * torch.outer(mass, mass)).sum()
    return position + dt * velocity, velocity, energy


def _particles(size):
    n = 500 if size == "large" else 7
    return particles, (torch.randn(n, 3), torch.randn(n, 3), torch.rand(n))


def newton(a, steps=40):
    """Newton's iteration for the inverse of matrices, as long as it is not there."""
    x = a.transpose(-1, -2) / (a.abs().sum(-1).max() * a.abs().sum(-2).max())
    identity = torch.eye(a.shape[-1], dtype=a.dtype)
    for _ in range(steps):
        residual = identity - a @ x
        if residual.abs().max() < 1e-9:
            break
        x = x + x @ residual
    return x


def _newton(size):
    n = 64 if size == "large" else 5
    return newton, (torch.eye(n, dtype=torch.float64) * 3 + torch.rand(n, n, dtype=torch.float64) / n,)


def suppress(boxes, scores, threshold=0.5, keep=0.3):
    """Boxes of high scores, those that overlap a better one left out."""
    mask = scores > keep
    boxes, scores = boxes[mask], scores[mask]
    order = scores.argsort(descending=True)
    boxes, scores = boxes[order], scores[order]
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    overlap = (high - low).clamp(min=0).prod(-1)
    iou = overlap / (area[:, None] + area[None] - overlap)
    worse = torch.triu(iou > threshold, diagonal=1).any(dim=0)
    return boxes[~worse], scores.masked_select(~worse)


def _suppress(size):
    n = 400 if size == "large" else 12
    corners = torch.rand(n, 2)
    return suppress, (torch.cat([corners, corners + torch.rand(n, 2)], 1), torch.rand(n))


PROGRAMS = (
    Program("nearest", _nearest), Program("detector_losses", _losses), Program("contrastive", _contrastive),
    Program("wave", _wave), Program("diffuse", _diffuse), Program("particles", _particles),
    Program("newton_inverse", _newton, 1e-9, splits=True), Program("suppress_boxes", _suppress, splits=True),
)
