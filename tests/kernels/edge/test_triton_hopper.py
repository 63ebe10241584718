"""The kernels for Hopper GPUs: on such a GPU, or else emulated with torch tensors.

The emulation has no threads; it checks what the kernels compute. Tests of the compiled code check
that nothing moves between threads.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pdflow.kernels.edge.twin import edge_max_torch
from pdflow.kernels.graph.twin import nearest_torch


class Value:
    """A tensor of a kernel; a scalar has no dimensions."""

    def __init__(self, data: Any) -> None:
        self.data = plain(data)

    def to(self, dtype: torch.dtype, bitcast: bool = False) -> Value:
        return Value(self.data.view(dtype) if bitcast else self.data.to(dtype))

    @property
    def shape(self) -> torch.Size:
        return self.data.shape

    def reshape(self, shape: Sequence[int]) -> Value:
        return Value(self.data.reshape([int(size) for size in shape]))

    def permute(self, order: Sequence[int]) -> Value:
        return Value(self.data.permute(*order))

    def __getitem__(self, index: Any) -> Value:
        return Value(self.data[index])

    def __index__(self) -> int:
        return int(self.data)


def plain(value: Any) -> Tensor:
    return value.data if isinstance(value, Value) else torch.as_tensor(value)


def add_operators() -> None:
    names = "add sub mul floordiv mod and or xor lshift rshift lt gt ge ne eq neg"
    for name in names.split():
        method = f"__{name}__"
        function = getattr(Tensor, method)
        setattr(Value, method, lambda a, *b, f=function: Value(f(a.data, *map(plain, b))))
    for name in ("add", "mul"):
        setattr(Value, f"__r{name}__", getattr(Value, f"__{name}__"))


add_operators()


class Pointer:
    """Places in the memory of a tensor."""

    def __init__(self, memory: Tensor, at: Any = 0) -> None:
        self.memory, self.at = memory, plain(at).long()
        self.dtype = self
        self.element_ty = memory.dtype

    def __add__(self, offset: Any) -> Pointer:
        return Pointer(self.memory, self.at + plain(offset))


def memory(tensor: Tensor) -> Pointer:
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    return Pointer(tensor.as_strided((size - tensor.storage_offset(),), (1,)))


class Shared:
    """A descriptor of shared memory."""

    def __init__(self, data: Tensor) -> None:
        self.data = data

    def store(self, value: Value) -> None:
        self.data.copy_(value.data)

    def permute(self, order: Sequence[int]) -> Shared:
        return Shared(self.data.permute(*order))


def product(a: Any, b: Shared, total: Value, use_acc: bool = True, is_async: bool = False) -> Value:
    result = a.data.float() @ b.data.float()
    return Value(total.data + result if use_acc else result)


class Language:
    """The part of Gluon that the kernels use."""

    int16, int32, int64, uint8 = torch.int16, torch.int32, torch.int64, torch.uint8
    bfloat16, float32 = torch.bfloat16, torch.float32
    place: tuple[int, ...] = ()
    grid: tuple[int, ...] = ()

    def program_id(self, axis: int) -> Value:
        return Value(self.place[axis])

    def num_programs(self, axis: int) -> Value:
        return Value(self.grid[axis])

    def load(self, pointer: Pointer, mask: Any = True, other: Any = 0) -> Value:
        at, inside = torch.broadcast_tensors(pointer.at, plain(mask))
        found = pointer.memory[torch.where(inside, at, 0)]
        return Value(torch.where(inside, found, plain(other).to(found.dtype)))

    def store(self, pointer: Pointer, value: Value, mask: Any = True) -> None:
        self._write(pointer, value, mask, accumulate=False)

    def atomic_add(self, pointer: Pointer, value: Value, mask: Any, sem: str) -> None:
        self._write(pointer, value, mask, accumulate=True)

    def _write(self, pointer: Pointer, value: Value, mask: Any, accumulate: bool) -> None:
        at, data, inside = torch.broadcast_tensors(pointer.at, value.data, plain(mask))
        assert data.dtype == pointer.memory.dtype or not accumulate
        values = data[inside].to(pointer.memory.dtype)
        pointer.memory.index_put_((at[inside],), values, accumulate=accumulate)

    def arange(self, start: int, end: Any, layout: object) -> Value:
        return Value(torch.arange(int(start), int(end), dtype=torch.int32))

    def full(self, shape: Sequence[Any], value: float, dtype: Any, layout: object) -> Value:
        return Value(torch.full([int(size) for size in shape], value, dtype=dtype))

    def zeros(self, shape: Sequence[Any], dtype: torch.dtype, layout: object) -> Value:
        return self.full(shape, 0, dtype, layout)

    def where(self, condition: Value, a: Any, b: Any) -> Value:
        return Value(torch.where(condition.data, plain(a), plain(b)))

    def maximum(self, a: Value, b: Any) -> Value:
        return Value(torch.maximum(a.data, plain(b).to(a.data.dtype)))

    def minimum(self, a: Any, b: Any) -> int:
        return min(int(a), int(b))

    def cdiv(self, a: int, b: Any) -> int:
        return -(-a // int(b))

    def sum(self, x: Value, axis: int) -> Value:
        return Value(x.data.sum(axis))

    def reduce(self, x: Value, axis: int, combine: Callable[[Value, Value], Value]) -> Value:
        parts = [Value(part) for part in x.data.unbind(axis)]
        return list(itertools.accumulate(parts, combine))[-1]

    def convert_layout(self, x: Value, layout: object) -> Value:
        return x

    def SliceLayout(self, axis: int, layout: object) -> None:
        return None

    def DotOperandLayout(self, operand: int, layout: object, width: int) -> None:
        return None

    def allocate_shared_memory(
        self, dtype: torch.dtype, shape: Sequence[Any], layout: object, value: Value | None = None
    ) -> Shared:
        data = torch.full([int(size) for size in shape], float("nan"), dtype=dtype)
        return Shared(data if value is None else value.data.clone())

    def inline_asm_elementwise(
        self,
        code: str,
        constraints: str,
        arguments: list[Any],
        dtype: Any,
        is_pure: bool,
        pack: int,
    ) -> Value:
        a, *others = map(plain, arguments)
        if "fma.rn.relu.bf16x2" in code:
            return Value((a + others[0]).clamp_min(0))
        if "set.eq.bf16x2.bf16x2" in code:
            return Value(torch.where(a == others[0], others[1], 0))
        if "cvt.rn.bf16x2.f32" in code:
            return Value(a.to(dtype))
        assert code.startswith("lop3.b32 $0, $1, 0xFFFFFFC0, $2, 0xEA")
        return Value((a & -64) | others[0])


class Hopper:
    """The instructions of one kind of GPU."""

    warpgroup_mma = staticmethod(product)

    def fence_async_shared(self) -> None:
        return None

    def warpgroup_mma_wait(self, outstanding: int, values: list[Value]) -> Value:
        return values[0]


class Kernel:
    """A kernel that is launched program by program."""

    def __init__(self, function: Callable[..., None], language: Language) -> None:
        self.function, self.language = function, language

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*arguments: Any, num_warps: int, maxnreg: int = 255, **constants: Any) -> None:
            self.language.grid = grid
            places = [memory(x) if isinstance(x, Tensor) else x for x in arguments]
            for self.language.place in itertools.product(*map(range, grid)):
                self.function(*places, **constants)

        return launch


@pytest.fixture
def hopper(device: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The device on which the kernels run here; they are emulated on the CPU."""
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon._runtime import GluonJITFunction
    from triton.runtime.jit import ConstexprFunction

    from pdflow.kernels.edge import triton_hopper, triton_hopper_layout

    if device == "cuda":
        if torch.cuda.get_device_capability()[0] != 9:
            pytest.skip("no Hopper GPU")
        return device
    language = Language()
    for module in (triton_hopper, triton_hopper_layout):
        for name, value in vars(module).copy().items():
            if isinstance(value, GluonJITFunction):
                emulated = Kernel(value.fn, language) if name.endswith("_kernel") else value.fn
                monkeypatch.setattr(module, name, emulated)
            elif isinstance(value, ConstexprFunction):
                monkeypatch.setattr(module, name, lambda tile: None)
            elif isinstance(value, gl.constexpr):
                monkeypatch.setattr(module, name, value.value)
        monkeypatch.setattr(module, "gl", language)
        monkeypatch.setattr(module, "hopper", Hopper())
    monkeypatch.setattr(triton_hopper_layout, "_threads_meet", lambda: None)
    return device


def relative_error(found: Tensor, expected: Tensor) -> float:
    return ((found - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize("any_order", [False, True])
@pytest.mark.parametrize(
    ("groups", "batch", "points", "k"),
    [
        pytest.param(1, 1, 300, 5, id="odd-points"),
        pytest.param(2, 2, 64, 8, id="groups-and-patches"),
        pytest.param(1, 2, 70, 1, id="one-neighbour"),
        pytest.param(1, 1, 80, 40, id="more-than-32-neighbours"),
    ],
)
def test_values_and_gradients_equal_the_twin(
    hopper: str, groups: int, batch: int, points: int, k: int, any_order: bool
) -> None:
    from pdflow.kernels import sums_in_any_order
    from pdflow.kernels.edge import triton_hopper
    from pdflow.kernels.edge.triton_edges import Edges

    generator = torch.Generator().manual_seed(points)

    def numbers(*shape: int, steps: int, unit: float) -> Tensor:
        """Multiples of a unit: sums and products of them are exact."""
        return torch.randint(-steps, steps + 1, shape, generator=generator).to(hopper) * unit

    cloud = torch.randn(batch, points, 3, generator=generator)
    graph = nearest_torch(cloud, cloud, k + 1)[..., :k].to(hopper)
    centre, neighbour = (numbers(groups, batch, points, 64, steps=8, unit=1) for _ in range(2))
    weight = numbers(groups, 64, 64, steps=127, unit=2**-7)
    bias = numbers(groups, 64, steps=50, unit=2.0**-7)
    dout = torch.randn(centre.shape, generator=generator).bfloat16().to(hopper)

    rows = neighbour.double()[:, torch.arange(batch)[:, None, None], graph]
    hidden = torch.relu(centre.double()[:, :, :, None] + rows)
    products = hidden @ weight.double()[:, None, None]
    is_tie = (products == products.amax(3, keepdim=True)).sum(3) > 1
    dout[is_tie] = 0
    leaves = [x.double().requires_grad_() for x in (centre, neighbour, weight, bias)]
    expected = edge_max_torch(leaves[0], leaves[1], graph, leaves[2], leaves[3])
    expected_gradients = torch.autograd.grad(expected, leaves, dout.double())
    edges = Edges(centre.bfloat16(), neighbour.bfloat16(), graph, weight)
    out, choice, active = triton_hopper.forward(edges, bias)
    with sums_in_any_order() if any_order else nullcontext():
        gradients = triton_hopper.backward(edges, choice, active, dout)
    without_choice = triton_hopper.forward(edges, bias, with_choice=False)[0]

    assert torch.equal(out, expected.bfloat16())
    assert torch.equal(out, without_choice)
    errors = [relative_error(*x) for x in zip(gradients, expected_gradients, strict=True)]
    assert errors[0] < 4e-3
    assert errors[1] < (2e-2 if any_order else 4e-3)
    assert max(errors[2:]) < 1e-5


@pytest.fixture(scope="module")
def code() -> dict[str, str]:
    """PTX of the kernels by their names."""
    pytest.importorskip("triton", reason="Triton is not installed")
    script = Path(__file__).with_name("compile_for_hopper.py")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    run = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=True
    )
    kernels: dict[str, str] = json.loads(run.stdout)
    return kernels


@pytest.mark.parametrize("name", ["forward", "inference", "features", "fast features"])
def test_features_move_straight_from_memory_to_products(code: dict[str, str], name: str) -> None:
    assert "wgmma.mma_async" in code[name]
    assert "ld.shared" not in code[name]
    assert "ldmatrix" not in code[name]


def test_atomics_add_sixteen_bytes_at_once(code: dict[str, str]) -> None:
    assert "add.v4.f32" in code["features"]
    assert "add.noftz.v8.bf16" in code["fast features"]


def test_the_kernel_of_the_weights_multiplies_on_matrix_units(code: dict[str, str]) -> None:
    assert "wgmma.mma_async" in code["weights"]
