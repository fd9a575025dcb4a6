"""``python -m jitfuse demo``: one image pipeline on 4K frames, as written in NumPy and fused.

Owns the pipeline, the frames made from two photographs, the comparison and the picture. The fused function is
the NumPy function itself under `jitfuse.fuse`. Imported by the command line only; needs the extra ``demo``.
"""
from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

import jitfuse as jf
from jitfuse.errors import JitfuseError

if TYPE_CHECKING:
    from rich.table import Table

Array = npt.NDArray[np.float32]

FRAMES: Final = 8
HEIGHT, WIDTH = 2160, 3840
TOLERANCE: Final = 1e-5
"""Largest difference that counts as equal. Results lie in [0, 1]. NumPy and jitfuse add up the 8.3 million
pixels of a plane in different orders, and a power of float32 is exact to about 1e-7 in either; the gamma of
at least 1 makes nothing steeper than gamma itself."""
_BATCHES_IN_MEMORY: Final = 7  # the frames, both results, and NumPy's temporaries
_PHOTOGRAPHS: Final = ("china.jpg", "flower.jpg")


def develop(x: Any, gain: Array, bias: Array, gamma: float, eps: float) -> Any:
    """Normalise each frame and channel of `x` (B, C, H, W), scale, clamp to [0, 1], apply a gamma curve.

    `gain` and `bias` have shape (C, 1, 1).
    """
    mean = np.mean(x, axis=(2, 3), keepdims=True)
    var = np.var(x, axis=(2, 3), keepdims=True)
    y = (x - mean) / np.sqrt(var + eps) * gain + bias
    return np.clip(y, 0.0, 1.0) ** gamma


@dataclass(frozen=True)
class Timing:
    """Seconds of the first run and of each of the following ones."""

    first: float
    others: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of all but the first run."""
        return statistics.median(self.others)


def run(
    frames: int | None = None, runs: int = 5, folder: str | Path = "demo-output",
    size: tuple[int, int] = (HEIGHT, WIDTH), verbose: bool = False,
) -> int:
    """Run the demo; return 0 if both results agree within `TOLERANCE`, else 1. `verbose` also prints the report.

    `frames` of `size` (height, width) each; None takes 8, or as many as fit into memory. The picture goes
    into `folder`. Raises JitfuseError if the extra ``demo`` is missing or memory does not suffice.
    """
    from jitfuse.cli.output import console

    screen = console()
    folder = _writable(folder)
    photographs = load_photographs()
    count = _fitting(frames, size)
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    fused = jf.fuse(develop)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        x = make_frames(photographs, count, size, _ticker(progress, f"making {_frames(count)}", count))
        parameters = (*_gain_and_bias(), 1.6, 1e-5)
        contestants = (
            (lambda: develop(x, *parameters), _ticker(progress, "NumPy", 1 + runs)),
            (lambda: fused(x, *parameters), _ticker(progress, "jitfuse", 1 + runs)),
        )
        (numpy_time, expected), (fused_time, actual) = measure(contestants, runs)
        error = largest_difference(expected, actual, _ticker(progress, "comparing every pixel", count))
    equal = error <= TOLERANCE
    picture = save_picture(x, actual, folder)
    code = develop.__code__
    screen.print(f"develop: clip((x - mean) / sqrt(var + eps) * gain + bias, 0, 1) ** gamma\n"
                 f"  on {_frames(count)} of {size[1]} x {size[0]}, float32, {x.nbytes / 1e6:,.0f} MB "
                 f"({Path(code.co_filename).name}:{code.co_firstlineno})")
    screen.print(_times(x, numpy_time, fused_time))
    screen.print(
        f"results {'equal' if equal else 'NOT EQUAL'}: they differ from NumPy's by {error:.2g} at most "
        f"(tolerance {TOLERANCE:g})", style="green" if equal else "bold red",
    )
    screen.print(_work(fused, 1 + runs))
    screen.print(f"picture: {picture.resolve()}", soft_wrap=True)
    if verbose:
        screen.print(fused.explain(x, *parameters), markup=False, soft_wrap=True)
    else:
        screen.print("what was fused and why: --verbose, or f.explain(...) of any function")
    return 0 if equal else 1


def _times(x: Array, plain: Timing, fast: Timing) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("", "first run", f"median of {len(plain.others)}", "GB/s", "speed-up"):
        table.add_column(title, justify="left" if not title else "right")
    for name, timing in (("NumPy", plain), ("jitfuse", fast)):
        rate = 2 * x.nbytes / timing.median / 1e9  # the least memory traffic: frames in, frames out
        table.add_row(name, f"{1e3 * timing.first:,.0f} ms", f"{1e3 * timing.median:,.1f} ms", f"{rate:.2f}",
                      f"{plain.median / timing.median:.1f}")
    return table


def _work(fused: jf.FusedFunction[..., Array], calls: int) -> str:
    stats, kernels = fused.stats(), fused.kernels
    loaded = sum(bool(kernel.from_cache) for kernel in kernels)
    built = sum(kernel.compile_ms for kernel in kernels)
    return (f"{len(kernels)} kernels, {loaded} cached, {built:.0f} ms to compile; "
            f"launches per call: {stats['launches'] // calls}; fallbacks: {stats['fallbacks']}")


def _writable(folder: str | Path) -> Path:
    """Make the folder before the work begins; raise JitfuseError if it cannot be written."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JitfuseError(f"no picture can be saved in {folder} ({error.strerror}); --out names a folder") from error
    return Path(folder)


def _frames(count: int) -> str:
    return "1 frame" if count == 1 else f"{count} frames"


def _ticker(progress: Any, title: str, total: int) -> Callable[[], None]:
    task = progress.add_task(title, total=total)
    return lambda: progress.advance(task)


def measure(
    contestants: Sequence[tuple[Callable[[], Array], Callable[[], None]]], runs: int
) -> list[tuple[Timing, Array]]:
    """Call each contestant once and then `runs` times, in turn; return the times and last results of each.

    A contestant is what to call, and what to call after it for the progress display.
    """
    times: list[list[float]] = [[] for _ in contestants]
    results: list[Any] = [None for _ in contestants]
    for _ in range(1 + runs):
        for k, (call, tick) in enumerate(contestants):
            results[k] = None  # so that at most one batch of results of each is alive
            start = time.perf_counter()
            results[k] = call()
            times[k].append(time.perf_counter() - start)
            tick()
    return [(Timing(own[0], tuple(own[1:])), result) for own, result in zip(times, results)]


def largest_difference(expected: Array, actual: Array, tick: Callable[[], None]) -> float:
    """Return the largest absolute difference; infinity if shape or dtype differ or a value is NaN."""
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return float("inf")
    largest = 0.0
    for one, other in zip(expected, actual):
        difference = float(np.max(np.abs(one - other)))
        largest = max(largest, float("inf") if np.isnan(difference) else difference)
        tick()
    return largest


# ---------------------------------------------------------------------- frames
def load_photographs() -> list[npt.NDArray[np.uint8]]:
    """Return scikit-learn's two photographs (H, W, 3), 8 bits per channel."""
    try:
        import PIL.Image  # noqa: F401
        from sklearn.datasets import load_sample_image
    except ImportError as error:
        raise JitfuseError(f"the demo needs {error.name}: pip install scikit-learn pillow") from error
    return [load_sample_image(name) for name in _PHOTOGRAPHS]


def make_frames(
    photographs: list[npt.NDArray[np.uint8]], count: int, size: tuple[int, int], tick: Callable[[], None]
) -> Array:
    """Return `count` frames (count, 3, H, W) in [0, 1]: the photographs in turn, under a moving camera."""
    from PIL import Image

    height, width = size
    margin = 1 + width // 32
    result = np.empty((count, 3, height, width), np.float32)
    enlarged = [_cover(Image.fromarray(photo), width + margin, height + margin) for photo in photographs]
    for k in range(count):
        picture = enlarged[k % len(enlarged)]
        down, right = (k * 13) % margin, (k * 29) % margin
        window = picture[down : down + height, right : right + width]
        np.divide(window.transpose(2, 0, 1), np.float32(255), out=result[k])
        tick()
    return result


def _cover(image: Any, width: int, height: int) -> npt.NDArray[np.uint8]:
    """Enlarge an image until it covers width x height, and cut that out of the middle."""
    from PIL import Image, ImageOps

    return np.asarray(ImageOps.fit(image, (width, height), Image.Resampling.BICUBIC))


def _gain_and_bias() -> tuple[Array, Array]:
    """Return contrast and brightness for red, green and blue: a little warmer than the photograph."""
    gain = np.array([0.25, 0.24, 0.22], np.float32).reshape(3, 1, 1)
    bias = np.array([0.64, 0.61, 0.57], np.float32).reshape(3, 1, 1)
    return gain, bias


def _fitting(frames: int | None, size: tuple[int, int]) -> int:
    """Return the number of frames to make; raise JitfuseError if those requested, or one, do not fit."""
    one = 3 * size[0] * size[1] * 4 * _BATCHES_IN_MEMORY
    available = _available_memory()
    fitting = FRAMES if available is None else available // one
    if (frames or 1) > fitting and available is not None:
        raise JitfuseError(
            f"{_frames(frames or 1)} of {size[1]} x {size[0]} need about {(frames or 1) * one / 1e9:.1f} GB and "
            f"{available / 1e9:.1f} GB are free; --frames {max(1, fitting)} takes less"
        )
    return frames or min(FRAMES, fitting)


def _available_memory() -> int | None:
    """Return the bytes that this process may still allocate, by the system and its control group; None: unknown."""
    found = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if limit != "max":
            found.append(int(limit) - int(Path("/sys/fs/cgroup/memory.current").read_text()))
    except (OSError, ValueError, IndexError):
        pass
    if not found and hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        found.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(found, default=None)


# ---------------------------------------------------------------------- the picture
def save_picture(before: Array, after: Array, folder: Path, width: int = 960) -> Path:
    """Write the first frame of each photograph, input left and result right, as a PNG; return its path."""
    from PIL import Image, ImageDraw, ImageFont

    chosen = range(min(len(before), len(_PHOTOGRAPHS)))
    height = max(1, round(width * before.shape[2] / before.shape[3]))
    label = max(12, width // 24)
    sheet = Image.new("RGB", (2 * width, len(chosen) * height + 2 * label), "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(size=label)
    for column, (title, frames) in enumerate((("input", before), ("result, by jitfuse", after))):
        draw.text((column * width + label // 2, label // 3), title, fill="black", font=font)
        for row in chosen:
            pixels = (np.clip(frames[row], 0, 1) * 255 + 0.5).astype(np.uint8).transpose(1, 2, 0)
            image = Image.fromarray(np.ascontiguousarray(pixels)).resize((width, height))
            sheet.paste(image, (column * width, 2 * label + row * height))
    path = folder / "input-and-result.png"
    sheet.save(path)
    return path
