"""Images and signals: filters, histograms, transforms."""
from __future__ import annotations

import numpy as np

from numpy_programs.program import Program


def convolve_edges(image, kernel):
    """Correlate with an odd kernel, edges repeated."""
    ky, kx = kernel.shape
    padded = np.pad(image, ((ky // 2, ky // 2), (kx // 2, kx // 2)), mode="edge")
    out = np.zeros_like(image, dtype=float)
    for i in range(ky):
        for j in range(kx):
            out += kernel[i, j] * padded[i:i + image.shape[0], j:j + image.shape[1]]
    return out


def sobel(image):
    """Edges: their strength and direction."""
    across = np.array([[1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [1.0, 0.0, -1.0]])
    gx, gy = convolve_edges(image, across), convolve_edges(image, across.T)
    strength = np.hypot(gx, gy)
    return strength / strength.max(), np.arctan2(gy, gx)


def gaussian_kernel(sigma):
    radius = int(3 * sigma + 0.5)
    x = np.arange(-radius, radius + 1)
    k = np.exp(-0.5 * (x / sigma) ** 2)
    return k / k.sum()


def blur(image, sigma):
    """Gaussian blur, one axis after the other."""
    k = gaussian_kernel(sigma)
    radius = len(k) // 2
    wide = np.pad(image, ((radius, radius), (0, 0)), mode="reflect")
    rows = sum(k[i] * wide[i:i + image.shape[0]] for i in range(len(k)))
    wide = np.pad(rows, ((0, 0), (radius, radius)), mode="reflect")
    return sum(k[i] * wide[:, i:i + image.shape[1]] for i in range(len(k)))


def unsharp(image, sigma, amount):
    """Sharpen by what a blur takes away; clipped to bytes."""
    sharp = image + amount * (image - blur(image.astype(np.float64), sigma))
    return np.clip(np.rint(sharp), 0, 255).astype(np.uint8)


def median_filter(image):
    """Median of each 3 by 3, by sorting."""
    padded = np.pad(image, 1, mode="edge")
    h, w = image.shape
    window = np.stack([padded[i:i + h, j:j + w] for i in range(3) for j in range(3)], axis=-1)
    return np.sort(window, axis=-1)[..., 4]


def equalise(image):
    """Histogram equalisation of bytes."""
    counts = np.bincount(image.ravel(), minlength=256)
    total = np.cumsum(counts)
    lowest = total[np.argmax(counts > 0)]
    table = np.round((total - lowest) / (image.size - lowest) * 255).astype(np.uint8)
    return table[image]


def deriche(image, alpha):
    """Recursive edge filter: forth and back along rows, then along columns."""
    e = np.exp(-alpha)
    k = (1 - e) ** 2 / (1 + 2 * alpha * e - np.exp(-2 * alpha))
    a1, a2, a3, a4 = k, k * e * (alpha - 1), k * e * (alpha + 1), -k * e * e
    b1, b2 = 2 * e, -np.exp(-2 * alpha)

    def both_ways(x):
        forth, back = np.empty_like(x), np.empty_like(x)
        n = x.shape[1]
        forth[:, 0] = a1 * x[:, 0]
        forth[:, 1] = a1 * x[:, 1] + a2 * x[:, 0] + b1 * forth[:, 0]
        for j in range(2, n):
            forth[:, j] = a1 * x[:, j] + a2 * x[:, j - 1] + b1 * forth[:, j - 1] + b2 * forth[:, j - 2]
        back[:, -1] = 0.0
        back[:, -2] = a3 * x[:, -1]
        for j in range(n - 3, -1, -1):
            back[:, j] = a3 * x[:, j + 1] + a4 * x[:, j + 2] + b1 * back[:, j + 1] + b2 * back[:, j + 2]
        return forth + back

    return both_ways(both_ways(image).T).T


def stockham_fft(x, radix_two):
    """Fourier transform by halves, each step over all of them at once."""
    n = 2 ** radix_two
    y = x.astype(np.complex128).reshape(n, 1)
    half = n
    while half > 1:
        half //= 2
        even, odd = y[:half], y[half:]
        columns = y.shape[1]
        twiddle = np.exp(-2j * np.pi * np.arange(columns) / (2 * columns))
        odd = odd * twiddle
        y = np.concatenate((even + odd, even - odd), axis=1)
    return y.reshape(n)


def low_pass(signal, cutoff, rate):
    """Remove high frequencies by a transform and its inverse."""
    spectrum = np.fft.rfft(signal, axis=-1)
    frequencies = np.fft.rfftfreq(signal.shape[-1], 1 / rate)
    spectrum[..., frequencies > cutoff] = 0
    return np.fft.irfft(spectrum, n=signal.shape[-1], axis=-1)


def haar(x, levels):
    """Wavelet coefficients of rows, level by level, in one array."""
    out = x.copy()
    n = x.shape[-1]
    for _ in range(levels):
        pairs = out[..., :n].reshape(*x.shape[:-1], n // 2, 2)
        average = (pairs[..., 0] + pairs[..., 1]) / np.sqrt(2)
        detail = (pairs[..., 0] - pairs[..., 1]) / np.sqrt(2)
        out[..., :n // 2] = average
        out[..., n // 2:n] = detail
        n //= 2
    return out


def spectrogram(signal, width, hop):
    """Windowed frames, their power in decibels."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(width) / width)
    count = 1 + (len(signal) - width) // hop
    index = np.arange(width)[None, :] + hop * np.arange(count)[:, None]
    frames = signal[index] * window
    power = np.abs(np.fft.rfft(frames)) ** 2
    return 10 * np.log10(np.maximum(power, 1e-10))


PROGRAMS = (
    Program(sobel, lambda n, r: (r.random((n, n + 3)),), 7, 512),
    Program(unsharp, lambda n, r: (r.integers(0, 256, (n, n)).astype(np.uint8), 1.0, 1.5), 9, 512),
    Program(median_filter, lambda n, r: (r.random((n, n)).astype(np.float32),), 7, 256),
    Program(equalise, lambda n, r: (r.integers(20, 180, (n, n)).astype(np.uint8),), 9, 512, needs="values"),
    Program(deriche, lambda n, r: (r.random((n, n)), 0.25), 8, 120),
    Program(stockham_fft, lambda n, r: (r.random(2 ** n), n), 5, 14),
    Program(low_pass, lambda n, r: (r.random((4, n)), 2.5, 30.0), 32, 20000),
    Program(haar, lambda n, r: (r.random((n, 64)), 3), 5, 2000),
    Program(spectrogram, lambda n, r: (r.random(16 * n), 16 if n < 50 else 256, 8 if n < 50 else 128), 6, 4000, 1e-8),
)
