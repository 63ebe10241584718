"""A register-blocked product of small matrices, for the compiled loops of the CPU.

numba does not turn a triple loop into a product that runs at the processor's speed, so the
innermost one is written in LLVM's own language: a tile of ROWS x COLUMNS sums is held in vector
registers while the depth of the product is walked once. LLVM fits the vectors to any processor.

A matrix is stored in panels of COLUMNS columns, one after the other and each row by row, so that
a tile reads it in order (`pack`).

numba keeps compiled loops by the date of their own file: who changes this one must touch
`dense.py` and `edge_cpu.py` as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

_LANES = 16
_WIDE = bool(binding.get_host_cpu_features().get("avx512f", False))
_VECTORS = 2 if _WIDE else 1

ROWS = 8 if _WIDE else 4
"""Rows of a tile: 16 sums fill the registers of AVX-512 well, 4 those of AVX2 and NEON."""

COLUMNS = _LANES * _VECTORS
"""Columns of a tile and of a panel."""

_FLOAT = ir.FloatType()
_BYTES = 4
_INDEX = ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, _LANES)
_SAME_LANE = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)

Array = NDArray[np.float32]


def padded(columns: int) -> int:
    """The number of columns that whole panels need."""
    return -(-columns // COLUMNS) * COLUMNS


def pack(matrix: Array) -> Array:
    """The panels of a matrix (rows, columns), flat; columns beyond the last are zero."""
    rows, columns = matrix.shape
    wide = np.zeros((rows, padded(columns)), np.float32)
    wide[:, :columns] = matrix
    return np.ascontiguousarray(wide.reshape(rows, -1, COLUMNS).swapaxes(0, 1)).reshape(-1)


def _tile_edges(
    _: Any, features: Any, point: Any, graph: Any, edge: Any, width: Any, out: Any
) -> tuple[Any, Any]:
    """out[r, c] = relu(features[point, c] + features[graph[edge + r], width + c]).

    features  flat float32, rows of 2 width; width is a multiple of COLUMNS
    graph     flat int64 rows of features
    out       flat float32, ROWS x width
    """
    index = types.int64
    signature = types.void(features, index, graph, index, index, out)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        features, graph, out = (_data(context, builder, signature, arguments, i) for i in (0, 2, 5))
        _, point, _, edge, width, _ = arguments
        stride = builder.mul(width, _INDEX(2))
        own = builder.gep(features, [builder.mul(point, stride)])
        others = []
        for r in range(ROWS):
            row = builder.load(builder.gep(graph, [builder.add(edge, _INDEX(r))]))
            others.append(builder.gep(features, [builder.add(builder.mul(row, stride), width)]))
        zero = ir.Constant(_VECTOR, [0.0] * _LANES)
        with cgutils.for_range_slice(builder, _INDEX(0), width, _INDEX(_LANES)) as (c, _):
            centre = _load(builder, builder.gep(own, [c]))
            for r, other in enumerate(others):
                total = builder.fadd(centre, _load(builder, builder.gep(other, [c])))
                place = builder.add(builder.mul(width, _INDEX(r)), c)
                _store(builder, _larger(builder, zero, total), builder.gep(out, [place]))
        return context.get_dummy_value()

    return signature, generate


def _tile_max(
    _: Any, left: Any, depth: Any, right: Any, panel: Any, out: Any, place: Any
) -> tuple[Any, Any]:
    """out[place + c] = max(out[place + c], max_r (left @ right)[r, c]).

    left   flat float32, ROWS x depth
    right  flat float32 that holds a panel (depth, COLUMNS) from index `panel` on
    out    flat float32; COLUMNS of it are written
    """
    signature = types.void(left, types.int64, right, types.int64, out, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right, out = (_data(context, builder, signature, arguments, i) for i in (0, 2, 4))
        _, depth, _, panel, _, place = arguments
        zero = ir.Constant(_VECTOR, [0.0] * _LANES)
        start = [[zero] * _VECTORS] * ROWS
        sums = _product(builder, left, depth, builder.gep(right, [panel]), depth, start)
        for v in range(_VECTORS):
            where = builder.gep(out, [builder.add(place, _INDEX(v * _LANES))])
            best = _load(builder, where)
            for row in sums:
                best = _larger(builder, best, row[v])
            _store(builder, best, where)
        return context.get_dummy_value()

    return signature, generate


def _tile_affine(
    _: Any,
    left: Any,
    row: Any,
    stride: Any,
    depth: Any,
    right: Any,
    panel: Any,
    bias: Any,
    floor: Any,
    out: Any,
    place: Any,
) -> tuple[Any, Any]:
    """out[r, c] = max(floor, bias[c] + (left @ right)[r, c]); a floor of 0 is relu.

    left   flat float32, ROWS rows that lie `stride` apart, `depth` deep, from index `row` on
    right  flat float32 that holds a panel (depth, COLUMNS) from index `panel` on, and the bias
           (COLUMNS,) from index `bias` on
    out    flat float32; ROWS rows of COLUMNS that lie `stride` apart, from index `place` on
    """
    index = types.int64
    signature = types.void(
        left, index, index, index, right, index, index, types.float32, out, index
    )

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right, out = (_data(context, builder, signature, arguments, i) for i in (0, 4, 8))
        _, row, stride, depth, _, panel, bias, floor, _, place = arguments
        start = builder.gep(right, [bias])
        biases = [_load(builder, builder.gep(start, [_INDEX(v * _LANES)])) for v in range(_VECTORS)]
        left, panel = builder.gep(left, [row]), builder.gep(right, [panel])
        sums = _product(builder, left, stride, panel, depth, [biases] * ROWS)
        lowest = _broadcast(builder, floor)
        for r, values in enumerate(sums):
            line = builder.gep(out, [builder.add(place, builder.mul(stride, _INDEX(r)))])
            for v, value in enumerate(values):
                where = builder.gep(line, [_INDEX(v * _LANES)])
                _store(builder, _larger(builder, lowest, value), where)
        return context.get_dummy_value()

    return signature, generate


tile_edges: Callable[..., None] = intrinsic(_tile_edges)
tile_max: Callable[..., None] = intrinsic(_tile_max)
tile_affine: Callable[..., None] = intrinsic(_tile_affine)


def _product(
    builder: Any, left: Any, stride: Any, panel: Any, depth: Any, start: list[list[Any]]
) -> list[list[Any]]:
    """Emit the loop over the depth; returns ROWS x _VECTORS sums on top of `start`."""
    multiply_add = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), f"llvm.fmuladd.v{_LANES}f32"
    )
    before = builder.block
    loop, after = builder.append_basic_block("depth"), builder.append_basic_block("sums")
    builder.branch(loop)
    builder.position_at_end(loop)
    k = builder.phi(_INDEX)
    k.add_incoming(_INDEX(0), before)
    sums = [[builder.phi(_VECTOR) for _ in row] for row in start]
    line = builder.gep(panel, [builder.mul(k, _INDEX(COLUMNS))])
    factors = [_load(builder, builder.gep(line, [_INDEX(v * _LANES)])) for v in range(_VECTORS)]
    column = builder.gep(left, [k])
    results = []
    for r, row in enumerate(sums):
        element = builder.load(builder.gep(column, [builder.mul(stride, _INDEX(r))]))
        value = _broadcast(builder, element)
        results.append(
            [builder.call(multiply_add, [value, f, s]) for f, s in zip(factors, row, strict=True)]
        )
    following = builder.add(k, _INDEX(1))
    k.add_incoming(following, loop)
    for row, first, result in zip(sums, start, results, strict=True):
        for phi, a, b in zip(row, first, result, strict=True):
            phi.add_incoming(a, before)
            phi.add_incoming(b, loop)
    builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)
    builder.position_at_end(after)
    return results


def _data(context: Any, builder: Any, signature: Any, arguments: Any, index: int) -> Any:
    """Pointer to the first element of an array among the arguments."""
    array = context.make_array(signature.args[index])(context, builder, arguments[index])
    return array.data


def _broadcast(builder: Any, value: Any) -> Any:
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    single = builder.insert_element(undefined, value, ir.IntType(32)(0))
    return builder.shuffle_vector(single, undefined, _SAME_LANE)


def _load(builder: Any, where: Any) -> Any:
    vector = builder.load(builder.bitcast(where, _VECTOR.as_pointer()))
    vector.align = _BYTES
    return vector


def _store(builder: Any, value: Any, where: Any) -> None:
    stored = builder.store(value, builder.bitcast(where, _VECTOR.as_pointer()))
    stored.align = _BYTES


def _larger(builder: Any, a: Any, b: Any) -> Any:
    """The larger of two vectors; b where it is NaN."""
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)
