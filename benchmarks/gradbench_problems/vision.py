"""Objectives of vision, of which the Jacobian is wanted: bundle adjustment (ba) and hand tracking (ht)."""
from __future__ import annotations

from typing import Any

import numpy as np

import jitfuse as jf


# ---------------------------------------------------------------------- bundle adjustment
def rotated(rotation: Any, x: Any) -> Any:
    """Points turned about axes by the angles that are the lengths of the axes."""
    square = np.sum(rotation**2, 1)[:, None]
    angle = np.sqrt(square)
    cosine, sine = np.cos(angle), np.sin(angle)
    axis = rotation / angle
    along = np.sum(axis * x, 1)[:, None] * (1.0 - cosine)
    turned = x * cosine + np.linalg.cross(axis, x) * sine + axis * along
    return np.where(square != 0.0, turned, x + np.linalg.cross(rotation, x))


def reprojection(cameras: Any, points: Any, weights: Any, seen: Any) -> Any:
    """How far each point is from where its camera has seen it; a camera is 3 angles, 3 places, focus, 2 + 2 numbers."""
    local = rotated(cameras[:, :3], points - cameras[:, 3:6])
    flat = local[:, :2] / local[:, 2:]
    square = np.sum(flat**2, 1)[:, None]
    distorted = flat * (1.0 + cameras[:, 9:10] * square + cameras[:, 10:11] * square**2)
    return weights[:, None] * (distorted * cameras[:, 6:7] + cameras[:, 7:9] - seen)


def ba(cameras: Any, points: Any, weights: Any, which: Any, seen: Any) -> Any:
    return reprojection(cameras[which[:, 0]], points[which[:, 1]], weights, seen), 1.0 - weights**2


def ba_jacobian(cameras: Any, points: Any, weights: Any, which: Any, seen: Any) -> Any:
    """What is not 0 of the Jacobian: a block of 2 x 15 and a number for each observation."""
    _, pull_back = jf.vjp(lambda c, x, w: reprojection(c, x, w, seen),
                          cameras[which[:, 0]], points[which[:, 1]], weights)
    blocks = []
    for axis in range(2):
        cotangent = np.zeros_like(seen)
        cotangent[:, axis] = 1.0
        by_camera, by_point, by_weight = pull_back(cotangent)
        blocks.append(np.concatenate([by_camera, by_point, by_weight[:, None]], 1))
    _, pull_back = jf.vjp(lambda w: 1.0 - w**2, weights)
    return np.stack(blocks, 1), pull_back(np.ones_like(weights))[0]


def ba_inputs(rng: Any, n: int, m: int, p: int) -> tuple[Any, ...]:
    """One camera and one point, given many times as GradBench does, and a little apart."""
    camera = np.array([-0.76, -1.11, -0.85, 34.6, 39.7, 53.9, 419.0, 5.9, -8.5, 0.088, 0.0027])
    which = np.stack([np.arange(p) % n, np.arange(p) % m], 1)
    return (camera * (1 + 0.01 * rng.normal(size=(n, 11))), np.array([7.2, 0.0011, 3.0]) + rng.normal(size=(m, 3)),
            0.417 + 0.1 * rng.random(p), which, np.array([271.8, 834.2]) + rng.normal(size=(p, 2)))


# ---------------------------------------------------------------------- hand tracking
FINGERS = 5
PARENTS = (-1, *(0 if k == 0 else 4 * finger + k for finger in range(FINGERS) for k in range(4)), 0)
"""The bone that each hangs on: the wrist, four a finger, the forearm."""
BENT = np.array([4 * finger + k for finger in range(FINGERS) for k in (2, 2, 3, 4)])
BENT_AXIS = np.array([0, 1, 0, 0] * FINGERS)


def matrices(*rows: Any) -> Any:
    return np.stack([np.stack(row, -1) for row in rows], -2)


def turned_by(angles: Any) -> Any:
    """Rotations by three angles each, about x, z and y."""
    (cx, cz, cy), (sx, sz, sy) = np.cos(angles).T, np.sin(angles).T
    one, zero = np.ones_like(cx), np.zeros_like(cx)
    about_x = matrices((one, zero, zero), (zero, cx, -sx), (zero, sx, cx))
    about_y = matrices((cy, zero, sy), (zero, one, zero), (-sy, zero, cy))
    about_z = matrices((cz, -sz, zero), (sz, cz, zero), (zero, zero, one))
    return about_z @ about_y @ about_x


def rotation_about(axis: Any) -> Any:
    angle = np.sqrt(np.sum(axis**2))
    x, y, z = axis / angle
    s, c = np.sin(angle), np.cos(angle)
    return matrices((x * x + (1 - x * x) * c, x * y * (1 - c) - z * s, x * z * (1 - c) + y * s),
                    (x * y * (1 - c) + z * s, y * y + (1 - y * y) * c, y * z * (1 - c) - x * s),
                    (x * z * (1 - c) - y * s, z * y * (1 - c) + x * s, z * z + (1 - z * z) * c))


def skinned(theta: Any, relatives: Any, inverses: Any, positions: Any, weights: Any) -> Any:
    """Where the vertices of a hand are, which moves with its bones."""
    angles = np.zeros((len(PARENTS), 3), dtype=theta.dtype)
    angles[BENT, BENT_AXIS] = theta[6:]
    posed = relatives[:, :, :3] @ turned_by(angles)
    posed = np.concatenate([posed, relatives[:, :, 3:]], 2)
    absolutes: list[Any] = []
    for bone, parent in enumerate(PARENTS):
        absolutes.append(posed[bone] if parent < 0 else absolutes[parent] @ posed[bone])
    moved = np.einsum("bij,vj->vbi", np.stack(absolutes) @ inverses, positions)
    local = np.sum(moved * weights[:, :, None], 1)[:, :3]
    return local @ rotation_about(theta[:3]).T + theta[3:6]


def ht(theta: Any, us: Any, model: Any, triangles: Any, points: Any) -> Any:
    """How far points are from places on triangles of the hand, which `us` says."""
    corners = skinned(theta, *model)[triangles]
    first, second = us[:, :1], us[:, 1:]
    return points - (first * corners[:, 0] + second * corners[:, 1] + (1.0 - first - second) * corners[:, 2])


def ht_jacobian(theta: Any, us: Any, model: Any, triangles: Any, points: Any) -> Any:
    """Columns by each of the two numbers of each point's own place, then by each number of the pose."""
    directions = np.eye(2 + len(theta), dtype=theta.dtype)

    def column(direction: Any) -> Any:
        tangents = direction[2:], np.broadcast_to(direction[:2], us.shape)
        return jf.jvp(lambda theta, us: ht(theta, us, model, triangles, points), (theta, us), tangents)[1]

    return jf.map(column, directions)


def ht_inputs(rng: Any, vertices: int, points: int) -> tuple[Any, ...]:
    bones = len(PARENTS)
    relatives = np.zeros((bones, 4, 4))
    relatives[:, :3, :3] = turned_by(rng.normal(size=(bones, 3)))
    relatives[:, :3, 3], relatives[:, 3, 3] = rng.normal(size=(bones, 3)), 1.0
    absolutes: list[Any] = []
    for bone, parent in enumerate(PARENTS):
        absolutes.append(relatives[bone] if parent < 0 else absolutes[parent] @ relatives[bone])
    weights = rng.random((vertices, bones)) * (rng.random((vertices, bones)) < 0.2)
    weights[:, 0] += 0.1
    model = (relatives, np.linalg.inv(np.stack(absolutes)),
             np.concatenate([rng.normal(size=(vertices, 3)), np.ones((vertices, 1))], 1),
             weights / weights.sum(1, keepdims=True))
    return (rng.normal(size=26), rng.random((points, 2)) / 2, model, rng.integers(0, vertices, (points, 3)),
            rng.normal(size=(points, 3)))
