"""LLVM code of the tiles: vectors, and a product that skips columns of zeros.

The functions emit code into a builder of llvmlite and return values of that code.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils

LANES = 16
"""Numbers of a vector; LLVM fits it to the registers of the processor."""

MARKS = 64
"""Columns per word of marks."""

INDEX = ir.IntType(64)

_FLOAT = ir.FloatType()
_BYTES = 4
_VECTOR = ir.VectorType(_FLOAT, LANES)
_SAME_LANE = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)

ZERO = ir.Constant(_VECTOR, [0.0] * LANES)
"""A vector of zeros."""

Sums = list[list[Any]]
"""Vectors of sums: a list for each row."""


def sum_of_products(
    builder: Any, left: Any, stride: Any, marks: Any, depth: Any, panel: Any, start: Sums
) -> Sums:
    """Emit the loops over words of marks and over the bits in them.

    Returns `start` plus the sums of left[:, k] right[k, :] over all marked k.
    """
    before = builder.block
    word, bit, after, done = (
        builder.append_basic_block(name) for name in ("word", "bit", "after", "sums")
    )
    builder.branch(word)
    builder.position_at_end(word)
    base = builder.phi(INDEX)
    sums = _phis(builder, start)
    mark = builder.load(builder.gep(marks, [builder.udiv(base, INDEX(MARKS))]))
    builder.cbranch(builder.icmp_unsigned("==", mark, INDEX(0)), after, bit)

    builder.position_at_end(bit)
    rest = builder.phi(INDEX)
    inner = _phis(builder, start)
    k = builder.add(base, builder.cttz(rest, ir.IntType(1)(1)))
    results = _add_products(builder, left, stride, panel, k, inner)
    following = builder.and_(rest, builder.sub(rest, INDEX(1)))
    rest.add_incoming(mark, word)
    rest.add_incoming(following, bit)
    _join(inner, sums, word)
    _join(inner, results, bit)
    builder.cbranch(builder.icmp_unsigned("==", following, INDEX(0)), after, bit)

    builder.position_at_end(after)
    totals = _phis(builder, start)
    _join(totals, sums, word)
    _join(totals, results, bit)
    next_base = builder.add(base, INDEX(MARKS))
    base.add_incoming(INDEX(0), before)
    base.add_incoming(next_base, after)
    _join(sums, start, before)
    _join(sums, totals, after)
    builder.cbranch(builder.icmp_signed("<", next_base, depth), word, done)
    builder.position_at_end(done)
    return totals


def _add_products(builder: Any, left: Any, stride: Any, panel: Any, k: Any, sums: Sums) -> Sums:
    """sums + left[:, k] right[k, :]."""
    multiply_add = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), f"llvm.fmuladd.v{LANES}f32"
    )
    vectors = range(len(sums[0]))
    line = builder.gep(panel, [builder.mul(k, INDEX(len(vectors) * LANES))])
    factors = [load_vector(builder, builder.gep(line, [INDEX(v * LANES)])) for v in vectors]
    column = builder.gep(left, [k])
    results = []
    for r, row in enumerate(sums):
        element = builder.load(builder.gep(column, [builder.mul(stride, INDEX(r))]))
        value = broadcast(builder, element)
        results.append(
            [builder.call(multiply_add, [value, f, s]) for f, s in zip(factors, row, strict=True)]
        )
    return results


def either(builder: Any, some: Any | None, more: Any) -> Any:
    """some | more; `more` alone where there is nothing yet."""
    return more if some is None else builder.or_(some, more)


def with_bits(builder: Any, word: Any, some: Any, lane: int) -> Any:
    """A word of marks with the bits of a vector from bit `lane` on."""
    bits = builder.zext(builder.bitcast(some, ir.IntType(LANES)), INDEX)
    return builder.or_(word, builder.shl(bits, INDEX(lane)))


def _phis(builder: Any, like: Sums) -> Sums:
    return [[builder.phi(_VECTOR) for _ in row] for row in like]


def _join(phis: Sums, values: Sums, block: Any) -> None:
    """Let phis take these values when control comes from `block`."""
    for row, new in zip(phis, values, strict=True):
        for phi, value in zip(row, new, strict=True):
            phi.add_incoming(value, block)


def array_data(context: Any, builder: Any, signature: Any, arguments: Any, index: int) -> Any:
    """Pointer to the first element of an array among the arguments."""
    array = context.make_array(signature.args[index])(context, builder, arguments[index])
    return array.data


def broadcast(builder: Any, value: Any) -> Any:
    """A vector with one value in all lanes."""
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    single = builder.insert_element(undefined, value, ir.IntType(32)(0))
    return builder.shuffle_vector(single, undefined, _SAME_LANE)


def load_vector(builder: Any, where: Any) -> Any:
    """LANES numbers from a pointer to the first."""
    vector = builder.load(builder.bitcast(where, _VECTOR.as_pointer()))
    vector.align = _BYTES
    return vector


def store_vector(builder: Any, value: Any, where: Any) -> None:
    """Write LANES numbers to a pointer to the first."""
    stored = builder.store(value, builder.bitcast(where, _VECTOR.as_pointer()))
    stored.align = _BYTES


def larger(builder: Any, a: Any, b: Any) -> Any:
    """The larger of two vectors, by lane; b where either is NaN."""
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)
