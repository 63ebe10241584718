"""PTX instructions of the edge kernels, for which Triton would emit several."""

from __future__ import annotations

import triton.language as tl

ADD_AND_RELU = tl.constexpr(
    "{.reg .b32 one; mov.b32 one, 0x3F803F80; fma.rn.relu.bf16x2 $0, $1, one, $2;}"
)
"""relu(a + b) of two pairs of bf16 numbers, as relu(a * 1 + b)."""

REPLACE_LOW_BITS = tl.constexpr("lop3.b32 $0, $1, 0xFFFFFFC0, $2, 0xEA;")
"""(a & -64) | b of 32 bits: b in place of the low 6 bits of a."""

ROUND_PAIR = tl.constexpr("cvt.rn.bf16x2.f32 $0, $2, $1;")
"""Two fp32 numbers as bf16 numbers in one register."""

SELECT_EQUAL = tl.constexpr(
    "{.reg .b32 hit; set.eq.bf16x2.bf16x2 hit, $1, $2; mul.bf16x2 $0, hit, $3;}"
)
"""c where a equals b, else 0, of two pairs of bf16 numbers."""
