"""A register-blocked product of small matrices, for the compiled loops of the CPU.

numba does not turn a triple loop into a product that runs at the processor's speed, so the
innermost one is written in LLVM's own language: a tile of ROWS x COLUMNS sums is held in vector
registers while the depth of the product is walked once. LLVM fits the vectors to any processor.

A matrix is stored in panels as wide as a tile, one after the other and each row by row, so that a
tile reads it in order (`pack`).

What comes out of a relu is mostly zero. So a product looks at marks first, one bit for each column
of its left side, and leaves out those that are zero in all rows of the tile. Sums are the same.

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

# 16 sums of 16 lanes fill the 32 registers of AVX-512 well, 4 those of AVX2 and NEON.
_VECTORS = 2 if _WIDE else 1
_EDGE_VECTORS = 4 if _WIDE else 1

ROWS = 8 if _WIDE else 4
"""Rows of a dense tile."""

COLUMNS = _LANES * _VECTORS
"""Columns of a dense tile."""

EDGE_ROWS = 4
"""Edges of a tile: few, so that many of their channels are zero in all of them."""

EDGE_COLUMNS = _LANES * _EDGE_VECTORS
"""Columns of a tile of edges."""

MARKS = 64
"""Columns that one word of marks speaks of."""

_FLOAT = ir.FloatType()
_BYTES = 4
_INDEX = ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, _LANES)
_SAME_LANE = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)

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
    marks     int64, width / MARKS; bit c says whether any row of column c is not zero
    """
    index = types.int64
    signature = types.void(features, index, graph, index, index, out, marks)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        features, graph, out, marks = (
            _data(context, builder, signature, arguments, i) for i in (0, 2, 5, 6)
        )
        _, point, _, edge, width, _, _ = arguments
        stride = builder.mul(width, _INDEX(2))
        own = builder.gep(features, [builder.mul(point, stride)])
        others = []
        for r in range(EDGE_ROWS):
            row = builder.load(builder.gep(graph, [builder.add(edge, _INDEX(r))]))
            others.append(builder.gep(features, [builder.add(builder.mul(row, stride), width)]))
        zero = _zero()
        with cgutils.for_range_slice(builder, _INDEX(0), width, _INDEX(MARKS)) as (c, _):
            word = _INDEX(0)
            for lane in range(0, MARKS, _LANES):
                column = builder.add(c, _INDEX(lane))
                centre = _load(builder, builder.gep(own, [column]))
                some = None
                for r, other in enumerate(others):
                    total = builder.fadd(centre, _load(builder, builder.gep(other, [column])))
                    place = builder.add(builder.mul(width, _INDEX(r)), column)
                    _store(builder, _larger(builder, zero, total), builder.gep(out, [place]))
                    some = _either(builder, some, builder.fcmp_ordered(">", total, zero))
                word = _with_bits(builder, word, some, lane)
            builder.store(word, builder.gep(marks, [builder.udiv(c, _INDEX(MARKS))]))
        return context.get_dummy_value()

    return signature, generate


def _tile_max(
    _: Any, left: Any, marks: Any, depth: Any, right: Any, panel: Any, out: Any, place: Any
) -> tuple[Any, Any]:
    """out[place + c] = max(out[place + c], max_r (left @ right)[r, c]).

    left   flat float32, EDGE_ROWS x depth, as `tile_edges` makes it
    marks  its columns that are not zero; the others are left out
    right  flat float32 that holds a panel (depth, EDGE_COLUMNS) from index `panel` on
    out    flat float32; EDGE_COLUMNS of it are written
    """
    index = types.int64
    signature = types.void(left, marks, index, right, index, out, index)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, marks, right, out = (
            _data(context, builder, signature, arguments, i) for i in (0, 1, 3, 5)
        )
        _, _, depth, _, panel, _, place = arguments
        panel = builder.gep(right, [panel])
        start = [[_zero()] * _EDGE_VECTORS] * EDGE_ROWS
        sums = _product(builder, left, depth, marks, depth, panel, start)
        for v in range(_EDGE_VECTORS):
            where = builder.gep(out, [builder.add(place, _INDEX(v * _LANES))])
            best = _load(builder, where)
            for row in sums:
                best = _larger(builder, best, row[v])
            _store(builder, best, where)
        return context.get_dummy_value()

    return signature, generate


def _tile_marks(
    _: Any, left: Any, row: Any, stride: Any, depth: Any, marks: Any, first: Any
) -> tuple[Any, Any]:
    """Mark the columns of a dense tile that are not zero.

    left   flat float32, ROWS rows that lie `stride` apart, `depth` deep, from index `row` on;
           behind the depth there is room up to the next multiple of MARKS
    marks  int64, written from index `first` on
    """
    index = types.int64
    signature = types.void(left, index, index, index, marks, index)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, marks = (_data(context, builder, signature, arguments, i) for i in (0, 4))
        _, row, stride, depth, _, first = arguments
        start = builder.gep(left, [row])
        zero = _zero()
        with cgutils.for_range_slice(builder, _INDEX(0), depth, _INDEX(MARKS)) as (c, _):
            word = _INDEX(0)
            for lane in range(0, MARKS, _LANES):
                column = builder.gep(start, [builder.add(c, _INDEX(lane))])
                some = None
                for r in range(ROWS):
                    values = _load(builder, builder.gep(column, [builder.mul(stride, _INDEX(r))]))
                    some = _either(builder, some, builder.fcmp_unordered("!=", values, zero))
                word = _with_bits(builder, word, some, lane)
            behind = builder.sub(builder.add(c, _INDEX(MARKS)), depth)
            ends_here = builder.icmp_signed(">", behind, _INDEX(0))
            too_many = builder.select(ends_here, behind, _INDEX(0))
            word = builder.and_(word, builder.lshr(_INDEX(-1), too_many))
            place = builder.add(first, builder.udiv(c, _INDEX(MARKS)))
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

    left   flat float32, ROWS rows that lie `stride` apart, `depth` deep, from index `row` on
    marks  what `tile_marks` says about them, from index `mark` on
    right  flat float32 that holds a panel (depth, COLUMNS) from index `panel` on, and the bias
           (COLUMNS,) from index `bias` on
    out    flat float32; ROWS rows of COLUMNS that lie `stride` apart, from index `place` on
    """
    index = types.int64
    signature = types.void(
        left, index, index, index, marks, index, right, index, index, types.float32, out, index
    )

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, marks, right, out = (
            _data(context, builder, signature, arguments, i) for i in (0, 4, 6, 10)
        )
        _, row, stride, depth, _, mark, _, panel, bias, floor, _, place = arguments
        start = builder.gep(right, [bias])
        biases = [_load(builder, builder.gep(start, [_INDEX(v * _LANES)])) for v in range(_VECTORS)]
        left, panel = builder.gep(left, [row]), builder.gep(right, [panel])
        marks = builder.gep(marks, [mark])
        sums = _product(builder, left, stride, marks, depth, panel, [biases] * ROWS)
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
tile_marks: Callable[..., None] = intrinsic(_tile_marks)
tile_affine: Callable[..., None] = intrinsic(_tile_affine)


Sums = list[list[Any]]
"""Vectors of sums: those of a row side by side."""


def _product(
    builder: Any, left: Any, stride: Any, marks: Any, depth: Any, panel: Any, start: Sums
) -> Sums:
    """Emit the loops over words of marks and over the bits in them.

    Returns the sums of left[:, k] right[k, :] over all k that are marked, on top of `start`.
    """
    before = builder.block
    word, bit, after, done = (
        builder.append_basic_block(name) for name in ("word", "bit", "after", "sums")
    )
    builder.branch(word)
    builder.position_at_end(word)
    base = builder.phi(_INDEX)
    sums = _phis(builder, start)
    mark = builder.load(builder.gep(marks, [builder.udiv(base, _INDEX(MARKS))]))
    builder.cbranch(builder.icmp_unsigned("==", mark, _INDEX(0)), after, bit)

    builder.position_at_end(bit)
    rest = builder.phi(_INDEX)
    inner = _phis(builder, start)
    k = builder.add(base, builder.cttz(rest, ir.IntType(1)(1)))
    results = _add_products(builder, left, stride, panel, k, inner)
    following = builder.and_(rest, builder.sub(rest, _INDEX(1)))
    rest.add_incoming(mark, word)
    rest.add_incoming(following, bit)
    _join(inner, sums, word)
    _join(inner, results, bit)
    builder.cbranch(builder.icmp_unsigned("==", following, _INDEX(0)), after, bit)

    builder.position_at_end(after)
    totals = _phis(builder, start)
    _join(totals, sums, word)
    _join(totals, results, bit)
    next_base = builder.add(base, _INDEX(MARKS))
    base.add_incoming(_INDEX(0), before)
    base.add_incoming(next_base, after)
    _join(sums, start, before)
    _join(sums, totals, after)
    builder.cbranch(builder.icmp_signed("<", next_base, depth), word, done)
    builder.position_at_end(done)
    return totals


def _add_products(builder: Any, left: Any, stride: Any, panel: Any, k: Any, sums: Sums) -> Sums:
    """sums + left[:, k] right[k, :]."""
    multiply_add = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), f"llvm.fmuladd.v{_LANES}f32"
    )
    vectors = range(len(sums[0]))
    line = builder.gep(panel, [builder.mul(k, _INDEX(len(vectors) * _LANES))])
    factors = [_load(builder, builder.gep(line, [_INDEX(v * _LANES)])) for v in vectors]
    column = builder.gep(left, [k])
    results = []
    for r, row in enumerate(sums):
        element = builder.load(builder.gep(column, [builder.mul(stride, _INDEX(r))]))
        value = _broadcast(builder, element)
        results.append(
            [builder.call(multiply_add, [value, f, s]) for f, s in zip(factors, row, strict=True)]
        )
    return results


def _either(builder: Any, some: Any | None, more: Any) -> Any:
    return more if some is None else builder.or_(some, more)


def _with_bits(builder: Any, word: Any, some: Any, lane: int) -> Any:
    """A word of marks with those of a vector put in from bit `lane` on."""
    bits = builder.zext(builder.bitcast(some, ir.IntType(_LANES)), _INDEX)
    return builder.or_(word, builder.shl(bits, _INDEX(lane)))


def _phis(builder: Any, like: Sums) -> Sums:
    return [[builder.phi(_VECTOR) for _ in row] for row in like]


def _join(phis: Sums, values: Sums, block: Any) -> None:
    """Let phis take these values where the flow comes from `block`."""
    for row, new in zip(phis, values, strict=True):
        for phi, value in zip(row, new, strict=True):
            phi.add_incoming(value, block)


def _zero() -> Any:
    return ir.Constant(_VECTOR, [0.0] * _LANES)


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
