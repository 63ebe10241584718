"""A register-blocked product of small matrices, for the compiled loops of the CPU.

numba does not compile a triple loop into a product at the processor's speed, so the innermost loop
is written in LLVM's own language (`llvm`). A tile of ROWS x COLUMNS sums stays in vector registers
while one loop runs over the depth of the product. LLVM fits the vectors to any processor.

A matrix is stored in panels as wide as a tile, one after the other and each row by row, so that a
tile reads it in order (`pack`).

Most outputs of a relu are zero. So a product reads marks first, one bit per column of its left
side, and skips columns that are zero in all rows of the tile. Sums stay the same.

numba caches a compiled loop by the date of its own file: after a change of this file or of
`llvm.py`, touch `cpu.py` here and in `pdflow.kernels.edge`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from pdflow.kernels.dense.llvm import (
    INDEX,
    LANES,
    MARKS,
    ZERO,
    array_data,
    broadcast,
    either,
    larger,
    load_vector,
    store_vector,
    sum_of_products,
    with_bits,
)

_WIDE = bool(binding.get_host_cpu_features().get("avx512f", False))

# 16 sums of 16 lanes make good use of the 32 registers of AVX-512, 4 of those of AVX2 and NEON.
_VECTORS = 2 if _WIDE else 1
_EDGE_VECTORS = 4 if _WIDE else 1

ROWS = 8 if _WIDE else 4
"""Rows of a dense tile."""

COLUMNS = LANES * _VECTORS
"""Columns of a dense tile."""

EDGE_ROWS = 4
"""Edges of a tile: few, so that many channels are zero in all of them."""

EDGE_COLUMNS = LANES * _EDGE_VECTORS
"""Columns of a tile of edges."""

Array = NDArray[np.float32]


def padded(columns: int, unit: int) -> int:
    """The next multiple of `unit`."""
    return -(-columns // unit) * unit


def pack(matrix: NDArray[np.floating], columns: int) -> Array:
    """The panels of a matrix, each `columns` wide, flat; columns beyond the last are zero."""
    rows, width = matrix.shape
    wide = np.zeros((rows, padded(width, columns)), np.float32)
    wide[:, :width] = matrix
    return np.ascontiguousarray(wide.reshape(rows, -1, columns).swapaxes(0, 1)).reshape(-1)


def _tile_edges(
    _: Any, features: Any, point: Any, graph: Any, edge: Any, width: Any, out: Any, marks: Any
) -> tuple[Any, Any]:
    """out[r, c] = relu(features[point, c] + features[graph[edge + r], width + c]).

    features  flat float32, rows of 2 width; width is a multiple of MARKS
    graph     flat int64 rows of features
    out       flat float32, EDGE_ROWS x width
    marks     int64, width / MARKS; bit c is set if any row of column c is not zero
    """
    index = types.int64
    signature = types.void(features, index, graph, index, index, out, marks)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        features, graph, out, marks = (
            array_data(context, builder, signature, arguments, i) for i in (0, 2, 5, 6)
        )
        _, point, _, edge, width, _, _ = arguments
        stride = builder.mul(width, INDEX(2))
        own = builder.gep(features, [builder.mul(point, stride)])
        others = []
        for r in range(EDGE_ROWS):
            row = builder.load(builder.gep(graph, [builder.add(edge, INDEX(r))]))
            others.append(builder.gep(features, [builder.add(builder.mul(row, stride), width)]))
        with cgutils.for_range_slice(builder, INDEX(0), width, INDEX(MARKS)) as (c, _):
            word = INDEX(0)
            for lane in range(0, MARKS, LANES):
                column = builder.add(c, INDEX(lane))
                centre = load_vector(builder, builder.gep(own, [column]))
                some = None
                for r, other in enumerate(others):
                    total = builder.fadd(centre, load_vector(builder, builder.gep(other, [column])))
                    place = builder.add(builder.mul(width, INDEX(r)), column)
                    store_vector(builder, larger(builder, ZERO, total), builder.gep(out, [place]))
                    some = either(builder, some, builder.fcmp_ordered(">", total, ZERO))
                word = with_bits(builder, word, some, lane)
            builder.store(word, builder.gep(marks, [builder.udiv(c, INDEX(MARKS))]))
        return context.get_dummy_value()

    return signature, generate


def _tile_max(
    _: Any, left: Any, marks: Any, depth: Any, right: Any, panel: Any, out: Any, place: Any
) -> tuple[Any, Any]:
    """out[place + c] = max(out[place + c], max_r (left @ right)[r, c]).

    left   flat float32, EDGE_ROWS x depth, as `tile_edges` makes it
    marks  its columns that are not zero; the others are skipped
    right  flat float32 with a panel (depth, EDGE_COLUMNS) from index `panel` on
    out    flat float32; EDGE_COLUMNS of it are written
    """
    index = types.int64
    signature = types.void(left, marks, index, right, index, out, index)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, marks, right, out = (
            array_data(context, builder, signature, arguments, i) for i in (0, 1, 3, 5)
        )
        _, _, depth, _, panel, _, place = arguments
        panel = builder.gep(right, [panel])
        start = [[ZERO] * _EDGE_VECTORS] * EDGE_ROWS
        sums = sum_of_products(builder, left, depth, marks, depth, panel, start)
        for v in range(_EDGE_VECTORS):
            where = builder.gep(out, [builder.add(place, INDEX(v * LANES))])
            best = load_vector(builder, where)
            for row in sums:
                best = larger(builder, best, row[v])
            store_vector(builder, best, where)
        return context.get_dummy_value()

    return signature, generate


def _tile_marks(
    _: Any, left: Any, row: Any, stride: Any, depth: Any, marks: Any, first: Any
) -> tuple[Any, Any]:
    """Mark the columns of a dense tile that are not zero.

    left   flat float32, ROWS rows of `depth` numbers, `stride` apart, from index `row` on; they may
           be read up to the next multiple of MARKS
    marks  int64, written from index `first` on
    """
    index = types.int64
    signature = types.void(left, index, index, index, marks, index)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, marks = (array_data(context, builder, signature, arguments, i) for i in (0, 4))
        _, row, stride, depth, _, first = arguments
        start = builder.gep(left, [row])
        with cgutils.for_range_slice(builder, INDEX(0), depth, INDEX(MARKS)) as (c, _):
            word = INDEX(0)
            for lane in range(0, MARKS, LANES):
                column = builder.gep(start, [builder.add(c, INDEX(lane))])
                some = None
                for r in range(ROWS):
                    values = load_vector(
                        builder, builder.gep(column, [builder.mul(stride, INDEX(r))])
                    )
                    some = either(builder, some, builder.fcmp_unordered("!=", values, ZERO))
                word = with_bits(builder, word, some, lane)
            behind = builder.sub(builder.add(c, INDEX(MARKS)), depth)
            ends_here = builder.icmp_signed(">", behind, INDEX(0))
            too_many = builder.select(ends_here, behind, INDEX(0))
            word = builder.and_(word, builder.lshr(INDEX(-1), too_many))
            place = builder.add(first, builder.udiv(c, INDEX(MARKS)))
            builder.store(word, builder.gep(marks, [place]))
        return context.get_dummy_value()

    return signature, generate


def _tile_affine(
    _: Any,
    left: Any,
    row: Any,
    stride: Any,
    depth: Any,
    marks: Any,
    mark: Any,
    right: Any,
    panel: Any,
    bias: Any,
    floor: Any,
    out: Any,
    place: Any,
) -> tuple[Any, Any]:
    """out[r, c] = max(floor, bias[c] + (left @ right)[r, c]); a floor of 0 is relu.

    left   flat float32, ROWS rows of `depth` numbers, `stride` apart, from index `row` on
    marks  their marks, as `tile_marks` sets them, from index `mark` on
    right  flat float32 with a panel (depth, COLUMNS) from index `panel` on, and the bias (COLUMNS,)
           from index `bias` on
    out    flat float32; ROWS rows of COLUMNS numbers, `stride` apart, from index `place` on
    """
    index = types.int64
    signature = types.void(
        left, index, index, index, marks, index, right, index, index, types.float32, out, index
    )

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, marks, right, out = (
            array_data(context, builder, signature, arguments, i) for i in (0, 4, 6, 10)
        )
        _, row, stride, depth, _, mark, _, panel, bias, floor, _, place = arguments
        start = builder.gep(right, [bias])
        biases = [
            load_vector(builder, builder.gep(start, [INDEX(v * LANES)])) for v in range(_VECTORS)
        ]
        left, panel = builder.gep(left, [row]), builder.gep(right, [panel])
        marks = builder.gep(marks, [mark])
        sums = sum_of_products(builder, left, stride, marks, depth, panel, [biases] * ROWS)
        lowest = broadcast(builder, floor)
        for r, values in enumerate(sums):
            line = builder.gep(out, [builder.add(place, builder.mul(stride, INDEX(r)))])
            for v, value in enumerate(values):
                where = builder.gep(line, [INDEX(v * LANES)])
                store_vector(builder, larger(builder, lowest, value), where)
        return context.get_dummy_value()

    return signature, generate


tile_edges: Callable[..., None] = intrinsic(_tile_edges)
tile_max: Callable[..., None] = intrinsic(_tile_max)
tile_marks: Callable[..., None] = intrinsic(_tile_marks)
tile_affine: Callable[..., None] = intrinsic(_tile_affine)
