# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Layouts of registers and shared memory on Hopper GPUs, for products with H = 64 columns.

A thread loads eight adjacent channels. The matrix units expect just these from it if the channels
of a product are counted in another order (`channel_at`). Only the weights are stored in that order;
nothing else moves between threads.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper

WIDTH = 64
NODES_PER_WARP = 16

H = gl.constexpr(WIDTH)
SHARED = gl.constexpr(gl.NVMMASharedLayout(128, 16, 2))

_threads_meet = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier


@gluon.constexpr_function
def product_layout(tile):
    """Products of tile x 64, sixteen rows per warp."""
    return gl.NVMMADistributedLayout([3, 0], [tile // NODES_PER_WARP, 1], [16, 64, 16])


@gluon.constexpr_function
def row_layout(tile):
    """The rows of products: a thread has two, and of each two runs of eight channels."""
    return gl.DistributedLinearLayout(
        reg_bases=[[0, 1], [0, 2], [0, 4], [0, 32], [8, 0]],
        lane_bases=[[0, 8], [0, 16], [1, 0], [2, 0], [4, 0]],
        warp_bases=[[row, 0] for row in (16, 32, 64, 128) if row < tile],
        block_bases=[],
        shape=[tile, 64],
    )


@gluon.constexpr_function
def line_layout(tile):
    """Whole rows per group of threads, for copies to shared memory."""
    return gl.BlockedLayout([1, 8], [4, 8], [tile // NODES_PER_WARP, 1], [1, 0])


@gluon.jit
def channel_at(column):
    """The channel at a column of a product."""
    thread = (column // 2) % 4
    pair = (column // 8) % 4
    return column // 32 * 32 + thread * 8 + pair * 2 + column % 2


@gluon.jit
def _exchange_orders(x):
    """Change the order of channels to that of `channel_at`, or back; nothing moves."""
    return x.reshape([x.shape[0], 2, 4, 4, 2]).permute([0, 1, 3, 2, 4]).reshape(x.shape)


@gluon.jit
def left_operand(x):
    """Rows as the left operand of a product."""
    return gl.convert_layout(
        _exchange_orders(x), gl.DotOperandLayout(0, product_layout(x.shape[0]), 2)
    )


@gluon.jit
def in_rows(product):
    """A product in the layout of rows."""
    return gl.convert_layout(_exchange_orders(product), row_layout(product.shape[0]))


@gluon.jit
def shared_weight(weight_ptr, TILE: gl.constexpr):
    """(H, H) weights in shared memory, rows and columns in the order of `channel_at`."""
    row = channel_at(gl.arange(0, H, gl.SliceLayout(1, line_layout(TILE))))[:, None]
    column = channel_at(gl.arange(0, H, gl.SliceLayout(0, line_layout(TILE))))[None, :]
    weight = gl.load(weight_ptr + row * H + column).to(gl.bfloat16)
    shared = gl.allocate_shared_memory(gl.bfloat16, [H, H], SHARED, weight)
    hopper.fence_async_shared()
    _threads_meet()
    return shared
