# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""What the Triton kernels share: arithmetic, launches, and sums over the results of programs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

SUM_ROWS = 128
SUM_COLUMNS = 16


def arithmetic(precision: str) -> dict[str, object]:
    """Type of the operands of products, and how fp32 operands are rounded."""
    if precision == "bf16":
        return {"DOT": tl.bfloat16, "INPUT_PRECISION": "tf32"}
    return {"DOT": tl.float32, "INPUT_PRECISION": precision}


Launch = tuple[int, int, int, int]
"""Points of a tile, warps of a program, programs per multiprocessor, and stages of its loop. With 2
stages, the next tile is loaded during the work on a tile."""

REGISTERS = 65536
"""Registers of a multiprocessor; a thread has 255 at most."""


def tiling(launch: Launch) -> dict[str, int]:
    """Arguments of a kernel that loops over tiles; its programs share the registers."""
    tile, warps, programs, stages = launch
    registers = REGISTERS // (32 * warps * programs)
    return {
        "TILE": tile, "num_warps": warps, "STAGES": stages, "maxnreg": min(255, registers // 8 * 8)
    }  # fmt: skip


def tiles(tensor: Tensor | None, rows: int, launch: Launch) -> TensorDescriptor | None:
    """A contiguous tensor (..., H) of L x `rows` points as tiles of (L, rows, H), which Hopper's
    copy engine can load."""
    if tensor is None:
        return None
    width = tensor.shape[-1]
    return TensorDescriptor.from_tensor(tensor.view(-1, rows, width), [1, launch[0], width])


def programs_for(rows: int, launch: Launch, device: torch.device, groups: int = 1) -> int:
    """Programs among which the tiles of `rows` points are divided, in each of the groups."""
    return min(-(-rows // launch[0]), -(-launch[2] * multiprocessors(device) // groups))


def multiprocessors(device: torch.device) -> int:
    """Multiprocessors of a device; 1 for Triton's interpreter."""
    if device.type != "cuda":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count


@cache
def shared_memory(device: torch.device) -> int:
    """Bytes of shared memory that one program may use; plenty for Triton's interpreter."""
    if device.type != "cuda":
        return 1 << 20
    driver = triton.runtime.driver.active.utils
    return int(driver.get_device_properties(device.index)["max_shared_mem"])


@triton.jit
def sum_kernel(
    partials_ptr, total_ptr, count, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """COLUMNS sums over `count` rows of `width` numbers, always in the same order."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.arange(0, ROWS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, count, ROWS):
        here = start + row
        inside = (here < count)[:, None] & (column < width)[None, :]
        at = here.to(tl.int64)[:, None] * width + column[None, :]
        total += tl.load(partials_ptr + at, mask=inside, other=0.0)
    tl.store(total_ptr + column, tl.sum(total, 0), mask=column < width)


def sum_partials(partials: Tensor) -> Tensor:
    """Sums (S,) over the programs' results (P, S)."""
    count, width = partials.shape
    total = partials.new_empty(width)
    sum_kernel[(triton.cdiv(width, SUM_COLUMNS),)](
        partials, total, count, width, ROWS=SUM_ROWS, COLUMNS=SUM_COLUMNS
    )
    return total


def split_like(flat: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Views of a flat tensor, one after the other in the shapes of `tensors`."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    return [part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True)]
