"""Windows propagated over a polyhedron: the compiled loop behind exact geodesic distances.

A shortest path is a straight line once the faces it crosses are unfolded into a plane; it bends
only at vertices whose angles add up to more than a full turn (saddles) and at the border. So light
is sent from the source through the edges: a window is the lit interval of an edge, together with
the unfolded place of its source. Windows are processed nearest first, up to the wanted reach. A
window is dropped if the known distance of a vertex proves it useless (Chen and Han, 1990, in the
order and with the filter of Xin and Wang, 2009). Every stored length belongs to a real path, so
rounding can only make an answer too long, by as much as it moves that path.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pdflow.compiled import compiled
from pdflow.geometry.arrays import FloatArray, IntArray

_SLACK = 1e-12
"""Relative rounding error allowed when two path lengths are compared."""


class Window(NamedTuple):
    """A lit interval of a half-edge, about to enter a face. Windows are ordered by `key`.

    key        distance of the nearest point of the window
    half       half-edge by which it enters a face; -1 - v for a vertex v that becomes a source
    low, high  the interval, measured from the tail of the half-edge
    x, y       unfolded place of the source: along the half-edge, and below it (y <= 0)
    offset     length of the path up to that source
    """

    key: float
    half: int
    low: float
    high: float
    x: float
    y: float
    offset: float


Heap: TypeAlias = "list[Window]"


class SurfaceGraph(NamedTuple):
    """A mesh with its adjacency. Half-edge 3f + e runs from corner e of face f to corner e + 1.

    vertices       (V, 3)
    faces          (F, 3)
    edge_of        (3F,) edge of every half-edge
    edge_start     (E + 1,) with
    edge_halves    (3F,) half-edges of edge i: edge_halves[edge_start[i] : edge_start[i + 1]]
    vertex_start   (V + 1,) with
    vertex_halves  (3F,) half-edges that leave vertex i, likewise
    bends          (V,) whether a shortest path may bend there
    """

    vertices: FloatArray
    faces: IntArray
    edge_of: IntArray
    edge_start: IntArray
    edge_halves: IntArray
    vertex_start: IntArray
    vertex_halves: IntArray
    bends: NDArray[np.bool_]


class LocatedPoints(NamedTuple):
    """Points (M, 3) on a surface; those of face i are rows[face_start[i] : face_start[i + 1]]."""

    points: FloatArray
    face_start: IntArray
    rows: IntArray


class Progress(NamedTuple):
    """Distances from one source, found so far.

    reach             how far to search
    vertex_distances  (V,) upper bounds, initially inf
    distances         (M,) of the points, initially inf; in the end exact up to the reach
    touched           (M,) rows of the points whose distance is no longer inf
    """

    reach: float
    vertex_distances: FloatArray
    distances: FloatArray
    touched: IntArray


@compiled
def spread(
    graph: SurfaceGraph,
    sources: FloatArray,
    source: int,
    face: int,
    targets: LocatedPoints,
    progress: Progress,
) -> int:
    """Fill in the distances from a source (a row of sources, on a face) up to the reach.

    Returns the number of touched points; distances beyond the reach are upper bounds.
    """
    heap = [Window(0.0, 0, 0.0, 0.0, 0.0, 0.0, 0.0)]
    heap.pop()  # numba infers the type of the heap from it
    count = _light_face(heap, graph, face, sources, source, 0.0, -1, targets, progress, 0)
    while heap:
        window = heapq.heappop(heap)
        key, half, low, high, x, y, offset = window
        if half < 0:
            vertex = -1 - half
            if key > progress.vertex_distances[vertex] * (1 + _SLACK):
                continue
            # Lowered by more than the slack, so that an equal path found later is not followed.
            progress.vertex_distances[vertex] = key * (1 - 4 * _SLACK)
            for i in range(graph.vertex_start[vertex], graph.vertex_start[vertex + 1]):
                count = _light_face(
                    heap, graph, graph.vertex_halves[i] // 3, graph.vertices, vertex, key, vertex,
                    targets, progress, count,
                )  # fmt: skip
            continue
        f, e = half // 3, half % 3
        a, b, c = graph.faces[f, e], graph.faces[f, (e + 1) % 3], graph.faces[f, (e + 2) % 3]
        ux, uy, uz, length = _between(graph.vertices, a, graph.vertices, b)
        if _is_outdone(window, length, progress.vertex_distances[a], progress.vertex_distances[b]):
            continue
        # The plane of this face: a at the origin, b along x, c above; the source is below.
        ux, uy, uz = ux / length, uy / length, uz / length
        for i in range(targets.face_start[f], targets.face_start[f + 1]):
            row = targets.rows[i]
            wx, wy, wz, _ = _between(graph.vertices, a, targets.points, row)
            px, py = _in_plane(wx, wy, wz, ux, uy, uz)
            crossing = x - (px - x) * y / (py - y) if py > y else px
            crossing = min(max(crossing, low), high)
            way = offset + np.hypot(crossing - x, y) + np.hypot(px - crossing, py)
            count = _reach_point(progress, row, way, count)
        wx, wy, wz, _ = _between(graph.vertices, a, graph.vertices, c)
        cx, cy = _in_plane(wx, wy, wz, ux, uy, uz)
        if y < 0.0:
            _cross_face(heap, graph, window, length, cx, cy, progress)
    return count


@compiled
def _cross_face(
    heap: Heap,
    graph: SurfaceGraph,
    window: Window,
    length: float,
    cx: float,
    cy: float,
    progress: Progress,
) -> None:
    """Propagate a window, y < 0, to the other two edges of the face it enters.

    length, cx, cy  that face in its plane: corners at (0, 0), (length, 0) and (cx, cy)
    """
    _, half, low, high, x, y, offset = window
    face, e = half // 3, half % 3
    crossing = x - (cx - x) * y / (cy - y)
    if low <= crossing <= high:
        corner = graph.faces[face, (e + 2) % 3]
        _reach_vertex(heap, graph, corner, offset + np.hypot(cx - x, cy - y), progress)
    for side in range(2):
        # Rays right of the corner leave through the edge up to it, the others through the next.
        first, last = (max(low, crossing), high) if side == 0 else (low, min(high, crossing))
        if last <= first:
            continue
        px, py, qx, qy = (length, 0.0, cx, cy) if side == 0 else (cx, cy, 0.0, 0.0)
        span = np.hypot(qx - px, qy - py)
        dx, dy = (qx - px) / span, (qy - py) / span
        at_last, at_first = 0.0, span  # at the corner, or at an end that the ray only grazes
        slope = _cross(dx, dy, last - x, -y)
        if slope != 0.0 and not (side == 1 and last == crossing):
            at_last = _cross(x - px, y - py, last - x, -y) / slope
        slope = _cross(dx, dy, first - x, -y)
        if slope != 0.0 and not (side == 0 and first == crossing):
            at_first = _cross(x - px, y - py, first - x, -y) / slope
        along = (x - px) * dx + (y - py) * dy
        beside = -abs(_cross(dx, dy, x - px, y - py))
        lit = Window(0.0, 3 * face + (e + 1 + side) % 3, at_last, at_first, along, beside, offset)
        _pass_on(heap, graph, lit, progress)


@compiled
def _light_face(
    heap: Heap,
    graph: SurfaceGraph,
    face: int,
    places: FloatArray,
    place: int,
    offset: float,
    corner: int,
    targets: LocatedPoints,
    progress: Progress,
    count: int,
) -> int:
    """Light a whole face from a place on it (a row of places): its points, corners and edges.

    corner  the vertex at that place, or -1 if it is none; from a vertex only the opposite edge is
            lit
    """
    for i in range(targets.face_start[face], targets.face_start[face + 1]):
        _, _, _, way = _between(places, place, targets.points, targets.rows[i])
        count = _reach_point(progress, targets.rows[i], offset + way, count)
    for e in range(3):
        tail, head = graph.faces[face, e], graph.faces[face, (e + 1) % 3]
        wx, wy, wz, way = _between(graph.vertices, tail, places, place)
        if tail == corner:
            continue
        _reach_vertex(heap, graph, tail, offset + way, progress)
        if head == corner:
            continue
        ux, uy, uz, length = _between(graph.vertices, tail, graph.vertices, head)
        x, y = _in_plane(wx, wy, wz, ux / length, uy / length, uz / length)
        _pass_on(heap, graph, Window(0.0, 3 * face + e, 0.0, length, x, -y, offset), progress)
    return count


@compiled
def _pass_on(heap: Heap, graph: SurfaceGraph, window: Window, progress: Progress) -> None:
    """Pass a window that has reached a half-edge from inside to the faces beyond that edge.

    Its `key` is computed here; the given one is ignored.
    """
    _, half, low, high, x, y, offset = window
    face, e = half // 3, half % 3
    tail, head = graph.faces[face, e], graph.faces[face, (e + 1) % 3]
    _, _, _, length = _between(graph.vertices, tail, graph.vertices, head)
    low, high = max(low, 0.0), min(high, length)
    if high <= low:
        return
    # Even if the window is dropped, it proves these two lengths.
    bounds = progress.vertex_distances
    bounds[tail] = min(bounds[tail], offset + np.hypot(x - low, y) + low)
    bounds[head] = min(bounds[head], offset + np.hypot(x - high, y) + length - high)
    key = offset + np.hypot(min(max(x, low), high) - x, y)
    if key > progress.reach:
        return
    edge = graph.edge_of[half]
    for i in range(graph.edge_start[edge], graph.edge_start[edge + 1]):
        other = graph.edge_halves[i]
        if other == half:
            continue
        if graph.faces[other // 3, other % 3] == tail:
            heapq.heappush(heap, Window(key, other, low, high, x, y, offset))
        else:
            turned = Window(key, other, length - high, length - low, length - x, y, offset)
            heapq.heappush(heap, turned)


@compiled
def _reach_vertex(
    heap: Heap, graph: SurfaceGraph, vertex: int, way: float, progress: Progress
) -> None:
    """Store a straight path to a vertex, which becomes a source if paths may bend there."""
    if way > progress.vertex_distances[vertex] * (1 + _SLACK):
        return
    progress.vertex_distances[vertex] = min(progress.vertex_distances[vertex], way)
    if graph.bends[vertex] and way <= progress.reach:
        heapq.heappush(heap, Window(way, -1 - vertex, 0.0, 0.0, 0.0, 0.0, 0.0))


@compiled
def _reach_point(progress: Progress, row: int, way: float, count: int) -> int:
    if progress.distances[row] == np.inf:
        progress.touched[count] = row
        count += 1
    progress.distances[row] = min(progress.distances[row], way)
    return count


@compiled
def _is_outdone(window: Window, length: float, at_tail: float, at_head: float) -> bool:
    """Whether a window is useless: a path through an end of its edge is shorter."""
    _, _, low, high, x, y, offset = window
    to_low, to_high = offset + np.hypot(x - low, y), offset + np.hypot(x - high, y)
    if to_high > (at_tail + high) * (1 + _SLACK):
        return True
    return bool(to_low > (at_head + length - low) * (1 + _SLACK))


@compiled
def _between(a: FloatArray, i: int, b: FloatArray, j: int) -> tuple[float, float, float, float]:
    """The vector from row i of a to row j of b, and its length."""
    x, y, z = b[j, 0] - a[i, 0], b[j, 1] - a[i, 1], b[j, 2] - a[i, 2]
    return x, y, z, np.sqrt(x * x + y * y + z * z)


@compiled
def _in_plane(
    wx: float, wy: float, wz: float, ux: float, uy: float, uz: float
) -> tuple[float, float]:
    """Components of a vector w along a unit vector u, and across it (as a length)."""
    along = wx * ux + wy * uy + wz * uz
    rx, ry, rz = wx - along * ux, wy - along * uy, wz - along * uz
    return along, np.sqrt(rx * rx + ry * ry + rz * rz)


@compiled
def _cross(ax: float, ay: float, bx: float, by: float) -> float:
    return ax * by - ay * bx
