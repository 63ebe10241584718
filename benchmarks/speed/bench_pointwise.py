"""Check and time the fused point-wise kernels on one CUDA device, launch by launch.

    python benchmarks/speed/bench_pointwise.py [--patches 64] [--points 1024] [--seed 0]
        [--only NAME]

Errors are norms of differences to the torch twin in float64, over norms: of the output, then of
each gradient. Times are medians in milliseconds inside a CUDA graph. A launch is tile x warps x
programs per multiprocessor (x stages of its loop); one that does not compile or run is named and
does not stop the rest.
"""

from __future__ import annotations

import argparse
import math
import platform
from collections.abc import Callable
from itertools import pairwise, product

import torch
import triton.testing
from torch import Tensor

from pdflow.kernels.coupling import triton_autograd
from pdflow.kernels.coupling.direction import Direction
from pdflow.kernels.coupling.triton_autograd import Couple, Kept, Shape
from pdflow.kernels.coupling.twin import couple_torch
from pdflow.kernels.edge import edge_pool, triton_split
from pdflow.kernels.edge.triton_autograd import EdgePool
from pdflow.kernels.graph import patch_graph
from pdflow.kernels.mixing import triton_affine
from pdflow.kernels.mixing.twin import affine_torch
from pdflow.provenance import source_version

WIDTH = 64
FACTOR = 2 * 1.9 / math.pi
Launch = tuple[int, ...]
FORWARD: list[Launch] = [(128, 8), (64, 4), (32, 4), (32, 2)]
TILES: list[Launch] = [
    (64, 4, 2, 1), (64, 4, 2, 2), (64, 4, 3, 1), (64, 4, 4, 1), (64, 4, 3, 2), (128, 8, 1, 1),
    (128, 8, 1, 2), (128, 8, 2, 1),
]  # fmt: skip
BACKWARD: list[Launch] = [
    (64, 8, 1), (64, 4, 1), (32, 8, 1), (32, 4, 2), (32, 2, 2), (16, 4, 2), (16, 2, 4),
]  # fmt: skip


def normal(*shape: int) -> Tensor:
    """Random numbers on the device."""
    return torch.randn(shape, device="cuda")


def median_ms(function: Callable[[], object]) -> float:
    """Median time of one call."""
    return float(triton.testing.do_bench_cudagraph(function, rep=20, return_mode="median"))


def sweep(name: str, launches: list[Launch], run: Callable[..., object]) -> None:
    """Print the time of every launch, best first."""
    times: list[tuple[float, str]] = []
    for launch in launches:
        label = "x".join(map(str, launch))
        try:
            times.append((median_ms(lambda: run(*launch)), label))  # noqa: B023
        except Exception as error:
            times.append((math.inf, f"{label} ({type(error).__name__})"))
    print(f"  {name:34s} " + "  ".join(f"{label} {ms:.4f}" for ms, label in sorted(times)))


def errors(found: list[Tensor], expected: list[Tensor]) -> str:
    """Norms of differences over norms."""
    pairs = zip(found, expected, strict=True)
    return " ".join(f"{((a - b).norm() / b.norm()).item():.1e}" for a, b in pairs)


def coupling_inputs(
    batch: int, points: int, groups: int, channels: int, deep: bool
) -> tuple[Tensor, Tensor | None, list[Tensor]]:
    """x, features and the layers of a network."""
    kept = (channels + 1) // 2
    widths = [kept, WIDTH, WIDTH, WIDTH] if deep else [WIDTH]
    layers = [
        tensor
        for inputs, outputs in pairwise([*widths, channels - kept])
        for tensor in (normal(groups, inputs, outputs) / inputs**0.5, normal(groups, outputs))
    ]
    features = None if deep else normal(groups, batch, points, WIDTH).relu().bfloat16()
    return normal(batch, points, channels), features, layers


def check_coupling(groups: int, channels: int, deep: bool, inverse: bool, precision: str) -> None:
    """Errors of values and gradients of one kind of coupling."""
    x, features, layers = coupling_inputs(4, 1000, groups, channels, deep)
    total, dy, dterms = normal(4, 1000), normal(4, 1000, channels), normal(4, 1000)
    kept = (channels + 1) // 2
    direction = Direction(inverse, flip_in=not inverse, flip_out=inverse)

    def run(dtype: torch.dtype, fused: bool) -> list[Tensor]:
        leaves = [t.detach().to(dtype).requires_grad_() for t in (x, total, *layers)]
        kind = features.dtype if fused and features is not None else dtype
        seen = None if features is None else features.detach().to(kind).requires_grad_()
        if fused:
            shape = Shape(channels, kept, groups, direction)
            y, terms = Couple.apply(
                leaves[0], leaves[1], seen, FACTOR, shape, precision, *leaves[2:]
            )
            terms = leaves[1] if terms is None else terms
        else:
            pairs = list(zip(leaves[2::2], leaves[3::2], strict=True))
            y, terms = couple_torch(leaves[0], pairs, kept, FACTOR, seen, direction)
            terms = leaves[1] if terms is None else leaves[1] + terms
        loss = (y * dy.to(dtype)).sum() + (terms * dterms.to(dtype)).sum()
        wanted = leaves if seen is None else [*leaves, seen]
        return [y.detach(), *torch.autograd.grad(loss, wanted)]

    print(
        f"coupling G={groups} C={channels} {'deep' if deep else 'flat'} inverse={inverse} "
        f"{precision}: "
        f"{errors(run(torch.float32, True), run(torch.float64, False))}"
    )


def time_coupling(batch: int, points: int, groups: int, channels: int, deep: bool) -> None:
    """Time launches of one kind of coupling."""
    x, features, layers = coupling_inputs(batch, points, groups, channels, deep)
    shape = Shape(channels, (channels + 1) // 2, groups, Direction())
    total, dy = normal(batch, points), normal(batch, points, channels)
    kind = f"G={groups} C={channels} {'deep' if deep else 'flat'}"

    def forward(*launch: int) -> tuple[Tensor, Tensor | None, Kept]:
        return triton_autograd.forward(
            x, total, features, layers, FACTOR, shape, "bf16", True, launch
        )

    y, _, kept = forward(*TILES[0])
    gradients = x, y, kept.scale, dy, total, FACTOR, shape, "bf16"
    dx, dout = triton_autograd.backward_outputs(*gradients)

    def network(*launch: int) -> object:
        if features is not None:
            return triton_autograd.backward_layer(dout, features, layers, shape, "bf16", launch)
        assert kept.hidden is not None
        assert kept.inputs is not None
        return triton_autograd.backward_layers(
            dout, kept.hidden, kept.inputs, layers, dx, shape, "bf16", launch
        )

    sweep(f"coupling forward {kind}", TILES, forward)
    sweep(
        f"coupling backward, outputs {kind}",
        [(16, 4), (32, 2), (32, 4), (64, 4)],
        lambda *launch: triton_autograd.backward_outputs(*gradients, *launch),
    )
    sweep(f"coupling backward, network {kind}", TILES, network)


def check_affine(channels: int, relu: bool) -> None:
    """Errors of values and gradients of an affine map."""
    leaves = [normal(4, 1000, channels), normal(channels, channels), normal(channels)]
    dy = normal(4, 1000, channels)
    single = [leaf.clone().requires_grad_() for leaf in leaves]
    double = [leaf.double().requires_grad_() for leaf in leaves]
    y, expected = triton_affine.Affine.apply(*single, relu, "bf16"), affine_torch(*double, relu)
    found = [y.detach(), *torch.autograd.grad(y, single, dy)]
    wanted = [expected.detach(), *torch.autograd.grad(expected, double, dy.double())]
    print(f"affine C={channels} relu={relu}: {errors(found, wanted)}")


def time_affine(batch: int, points: int, channels: int) -> None:
    """Time launches of an affine map."""
    x, matrix, bias = normal(batch, points, channels), normal(channels, channels), normal(channels)
    sweep(
        f"affine forward C={channels}",
        [(32, 4, 4, 1), (32, 4, 4, 2), *TILES],
        lambda *launch: triton_affine.forward(x, matrix, bias, False, "tf32", launch),
    )
    sweep(
        f"affine backward C={channels}",
        [(32, 4, 4, 1), (32, 4, 4, 2), (64, 8, 2, 1), (64, 8, 2, 2), (64, 8, 4, 1), *TILES],
        lambda *launch: triton_affine.backward(x, matrix, None, x, "bf16", launch),
    )


def check_pool(groups: int, channels: int, inputs: int, precision: str) -> None:
    """Errors of values and gradients of the graph layers of an EdgeUnit."""
    x = normal(2, 1000, channels)
    leaves = [
        x, normal(groups, 3 * inputs, WIDTH) / inputs**0.5, normal(groups, WIDTH),
        normal(groups, WIDTH, WIDTH) / 8, normal(groups, WIDTH),
    ]  # fmt: skip
    graph = patch_graph(x[..., :3].contiguous(), 16)
    dout = normal(groups, 2, 1000, WIDTH)
    single = [leaf.clone().requires_grad_() for leaf in leaves]
    double = [leaf.double().requires_grad_() for leaf in leaves]
    out, _ = EdgePool.apply(single[0], graph, *single[1:], inputs, False, precision)
    expected, _ = edge_pool(
        double[0], graph, (double[1], double[2]), (double[3], double[4]), inputs=inputs
    )
    found = [out.detach(), *torch.autograd.grad(out, single, dout.to(out.dtype))]
    wanted = [expected.detach(), *torch.autograd.grad(expected, double, dout.double())]
    print(f"pool G={groups} inputs={inputs} {precision}: {errors(found, wanted)}")


def time_split(batch: int, points: int, groups: int, channels: int, inputs: int) -> None:
    """Time launches of the first layer of an EdgeUnit."""
    x = normal(batch, points, channels)
    weight, bias = normal(groups, 3 * inputs, WIDTH), normal(groups, WIDTH)
    dcentre = normal(groups, batch, points, WIDTH).bfloat16()
    dneighbour = normal(groups, batch, points, WIDTH)
    sweep(
        f"first layer forward G={groups} {inputs}",
        FORWARD,
        lambda *launch: triton_split.forward(x, inputs, weight, bias, False, "bf16", *launch),
    )
    sweep(
        f"first layer backward G={groups} {inputs}",
        [(64, 4, 2), (64, 8, 2), *BACKWARD[2:]],
        lambda *launch: triton_split.backward(
            x, inputs, weight, dcentre, dneighbour, None, False, "bf16", *launch
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patches", type=int, default=64)
    parser.add_argument("--points", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("coupling", "affine", "split"))
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton.__version__}, "
        f"Python {platform.python_version()}, commit {source_version()}; B={options.patches} "
        f"N={options.points} H={WIDTH}"
    )
    size = options.patches, options.points
    if options.only in (None, "coupling"):
        for groups, channels, deep in (*product((1, 2), (35,), (True, False)), (1, 64, True)):
            for inverse, precision in ((False, "bf16"), (True, "bf16"), (False, "tf32")):
                check_coupling(groups, channels, deep, inverse, precision)
            time_coupling(*size, groups, channels, deep)
    if options.only in (None, "affine"):
        for channels in (35, 64):
            check_affine(channels, relu=channels == 64)
            time_affine(*size, channels)
    if options.only in (None, "split"):
        for groups, channels, inputs in ((1, 35, 18), (2, 35, 18), (1, 195, 195)):
            check_pool(groups, channels, inputs, "bf16")
            time_split(*size, groups, channels, inputs)


if __name__ == "__main__":
    main()
