"""Check and time the fused kernels on one CUDA device, beside plain torch and torch.compile.

    python benchmarks/speed/bench_kernels.py [--patches 64] [--points 1024] [--seed 0]

Errors are against the torch twin in float64: the largest difference over the largest value for
outputs, the norm of the difference over the norm for gradients. Times are medians in
milliseconds with a cold L2 cache. TFLOP/s count 2 H H per edge forward and twice that backward,
whatever share of the edges a kernel really visits.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import triton.testing
from torch import Tensor

from pdflow.kernels.edge import edge_max, triton_max
from pdflow.kernels.edge.triton_edges import Edges
from pdflow.kernels.edge.triton_max import EdgeLaunch as Launch
from pdflow.kernels.edge.twin import edge_max_torch
from pdflow.kernels.graph import patch_graph, triton_nearest
from pdflow.kernels.graph.twin import nearest_torch

WIDTH = 64
CODE_CHANNELS = 17
"""Channels of the half of a point that an EdgeUnit sees in the paper's network."""


@dataclass
class EdgeCase:
    """Inputs of `edge_max` as an EdgeUnit makes them: linear in a code that varies over a surface.

    leaves  centre, neighbour (G, B, N, H), weight (G, H, H), bias (G, H)
    """

    leaves: list[Tensor]
    graph: Tensor
    dout: Tensor

    def to(self, dtype: torch.dtype) -> EdgeCase:
        """The same with features of another type; float64 changes parameters, too."""
        parameters = torch.float64 if dtype == torch.float64 else torch.float32
        dtypes = [dtype, dtype, parameters, parameters]
        leaves = [
            x.detach().to(d).requires_grad_() for x, d in zip(self.leaves, dtypes, strict=True)
        ]
        return EdgeCase(leaves, self.graph, self.dout.to(dtype))

    def arguments(self) -> tuple[Tensor, ...]:
        """Arguments of `edge_max` in their order."""
        centre, neighbour, weight, bias = self.leaves
        return centre, neighbour, self.graph, weight, bias

    def edges(self, precision: str) -> tuple[Edges, Tensor]:
        """Arguments of the kernels; features are bf16 where that is the precision."""
        centre, neighbour, graph, weight, bias = (x.detach() for x in self.arguments())
        if precision == "bf16":
            centre, neighbour = centre.bfloat16(), neighbour.bfloat16()
        return Edges(centre, neighbour, graph, weight), bias

    def flops(self) -> float:
        """Of the product, forward."""
        groups, _, _, width = self.leaves[0].shape
        return 2.0 * groups * self.graph.numel() * width * width


def surface_patches(batch: int, points: int, device: str) -> Tensor:
    """Noisy curved patches (B, N, 3) in the order of the distance from their centre."""
    flat = torch.randn(batch, points, 2, device=device)
    flat = (
        flat / flat.norm(dim=-1, keepdim=True) * torch.rand(batch, points, 1, device=device) ** 0.5
    )
    bend = torch.randn(batch, 1, 2, device=device)
    height = (bend * flat.square()).sum(-1, keepdim=True)
    patches = torch.cat([flat, height], -1) + 0.02 * torch.randn(batch, points, 3, device=device)
    order = patches.norm(dim=-1).argsort(dim=1)
    return patches.gather(1, order[..., None].expand_as(patches))


def edge_case(groups: int, batch: int, points: int, k: int, device: str) -> EdgeCase:
    """Random inputs over fresh patches."""
    patches = surface_patches(batch, points, device)
    code = torch.tanh(patches @ torch.randn(3, CODE_CHANNELS, device=device))
    code = code + 0.1 * torch.randn_like(code)
    maps = torch.randn(2, groups, 1, CODE_CHANNELS, WIDTH, device=device) / CODE_CHANNELS**0.5
    centre, neighbour = code @ maps[0], code @ maps[1]
    weight = torch.randn(groups, WIDTH, WIDTH, device=device) / WIDTH**0.5
    bias = 0.1 * torch.randn(groups, WIDTH, device=device)
    leaves = [x.requires_grad_() for x in (centre, neighbour, weight, bias)]
    return EdgeCase(leaves, patch_graph(patches, k), torch.randn_like(centre))


def step(
    case: EdgeCase, function: Callable[..., Tensor] = edge_max, **options: object
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Output and all gradients."""
    out = function(*case.arguments(), **options)
    return out.detach(), torch.autograd.grad(out, case.leaves, case.dout)


def median_ms(function: Callable[[], object], captured: bool = False) -> float:
    """Median time of one call; in a CUDA graph no time of the host is counted."""
    if captured:
        median = triton.testing.do_bench_cudagraph(function, rep=30, return_mode="median")
        return float(median)
    return float(triton.testing.do_bench(function, warmup=5, rep=30, return_mode="median"))


def attempt(function: Callable[[], object], captured: bool = False) -> tuple[float, str]:
    """Median time, or infinity and what went wrong (a launch may ask for too much)."""
    try:
        return median_ms(function, captured), ""
    except Exception as error:
        return float("inf"), f"{type(error).__name__}: {str(error).splitlines()[0][:70]}"


class Table:
    """Lines for the end of the run."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        """Print now and again at the end."""
        print(line, flush=True)
        self.lines.append(line)


def check_edges(table: Table, points: int, device: str) -> None:
    """Errors of every precision against float64."""
    table.add("errors against float64       out      dcentre  dneighb. dweight  dbias")
    for groups, count, k in ((1, points, 32), (2, points - 37, 16)):
        case = edge_case(groups, 2, count, k, device)
        expected, expected_gradients = step(case.to(torch.float64), edge_max_torch)
        for precision in ("ieee", "tf32", "bf16"):
            found, gradients = step(case, precision=precision)
            errors = [((found - expected).abs().max() / expected.abs().max()).item()]
            errors += [
                ((a - b).norm() / b.norm()).item()
                for a, b in zip(gradients, expected_gradients, strict=True)
            ]
            label = f"  G={groups} K={k} {precision}"
            table.add(f"{label:27s}" + "".join(f"  {error:.1e}" for error in errors))


def sweep_forward(table: Table, case: EdgeCase) -> None:
    """Time launches of the forward kernel."""
    launches = [
        Launch(64, 4, 1), Launch(64, 4, 2), Launch(64, 4, 3), Launch(64, 8, 1), Launch(128, 8, 1),
        Launch(128, 8, 3), Launch(128, 4, 1), Launch(256, 16, 1),
    ]  # fmt: skip
    few = [Launch(32, 8, 1), Launch(64, 8, 1)]
    for precision, tried in (("bf16", launches), ("tf32", launches), ("ieee", few)):
        edges, bias = case.edges(precision)

        def run(launch: Launch) -> object:
            return triton_max.forward(edges, bias, precision, True, launch)  # noqa: B023

        sweep(table, "forward", precision, tried, run, case.flops())


def sweep_backward(table: Table, case: EdgeCase) -> None:
    """Time launches of the backward kernel."""
    launches = [
        Launch(64, 4, 1), Launch(64, 4, 1, waves=4), Launch(64, 4, 1, 168, 3), Launch(64, 4, 2),
        Launch(64, 8, 1, waves=1), Launch(64, 8, 1, 128, 2), Launch(64, 8, 2, 128, 2),
        Launch(128, 8, 1, waves=1), Launch(16, 2, 1, waves=4), Launch(16, 2, 1, waves=6),
        Launch(32, 2, 1, waves=4),
    ]  # fmt: skip
    few = [Launch(64, 4, 1), Launch(64, 8, 1, waves=1), Launch(64, 8, 1, 128, 2)]
    for precision, tried in (("bf16", launches), ("tf32", few), ("ieee", few[1:])):
        edges, bias = case.edges(precision)
        _, choice, active = triton_max.forward(edges, bias, precision)
        dout = case.dout.to(edges.centre.dtype)

        def run(launch: Launch) -> object:
            return triton_max.backward(edges, choice, active, dout, precision, launch)  # noqa: B023

        sweep(table, "backward", precision, tried, run, 2 * case.flops())


def sweep(
    table: Table,
    kernel: str,
    precision: str,
    launches: list[Launch],
    run: Callable[[Launch], object],
    flops: float,
) -> None:
    """Time every launch of a kernel; the fastest one goes into the table."""
    times = []
    for launch in launches:
        ms, failure = attempt(lambda: run(launch))  # noqa: B023
        print(f"  {kernel} {precision} {describe(launch)} {ms:7.3f} ms {failure}", flush=True)
        times.append(ms)
    ms = min(times)
    best = describe(launches[times.index(ms)])
    table.add(f"{kernel:9s} {precision}   {ms:7.3f} ms {flops / ms * 1e-9:6.0f} TFLOP/s  {best}")


def describe(launch: object) -> str:
    """A launch in short."""
    names = ("tile", "warps", "stages", "registers", "waves")
    return " ".join(f"{name} {getattr(launch, name)}" for name in names)


def compare_steps(table: Table, batch: int, points: int, device: str) -> None:
    """Forward and backward through autograd: fused, naive and compiled."""
    compiled = torch.compile(edge_max_torch)
    torch.set_float32_matmul_precision("high")
    for groups, k in ((1, 32), (2, 32), (1, 16)):
        case = edge_case(groups, batch, points, k, device)
        half = case.to(torch.bfloat16)
        times = {
            "fused bf16": lambda: step(half),  # noqa: B023
            "fused tf32": lambda: step(case, precision="tf32"),  # noqa: B023
            "naive tf32": lambda: step(case, edge_max_torch),  # noqa: B023
        }
        if (groups, k) == (1, 32):
            times["compiled tf32"] = lambda: step(case, compiled)  # noqa: B023
        for name, function in times.items():
            ms, failure = attempt(function)
            table.add(f"step G={groups} K={k} {name:20s} {ms:7.3f} ms {failure}")
            if name.startswith("fused"):
                ms, failure = attempt(function, captured=True)
                table.add(f"step G={groups} K={k} {name + ', captured':20s} {ms:7.3f} ms {failure}")


def check_compiled_and_captured(table: Table, points: int, device: str) -> None:
    """The operators inside torch.compile(fullgraph) and inside a CUDA graph give the same."""
    case = edge_case(1, 2, points, 16, device)
    expected, expected_gradients = step(case, precision="ieee")

    def scaled(*arguments: Tensor, **options: object) -> Tensor:
        return 2.0 * edge_max(*arguments, **options)  # type: ignore[arg-type]

    try:
        found, gradients = step(case, torch.compile(scaled, fullgraph=True), precision="ieee")
        worst = max(
            ((g - 2 * e).norm() / e.norm()).item()
            for g, e in zip((found, *gradients), (expected, *expected_gradients), strict=True)
        )
        table.add(f"torch.compile(fullgraph): largest difference {worst:.1e}")
    except Exception as error:
        table.add(f"torch.compile(fullgraph): FAILED {type(error).__name__}: {str(error)[:300]}")
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured, captured_gradients = step(case, precision="ieee")
        graph.replay()
        worst = max(
            ((g - e).norm() / e.norm()).item()
            for g, e in zip(
                (captured, *captured_gradients), (expected, *expected_gradients), strict=True
            )
        )
        table.add(f"CUDA graph: largest difference {worst:.1e}")
    except Exception as error:
        table.add(f"CUDA graph: FAILED {type(error).__name__}: {str(error)[:300]}")


def time_graphs(table: Table, batch: int, points: int, device: str) -> None:
    """Check and time the neighbour search."""
    patches = surface_patches(batch, points, device)
    for k in (32, 16):
        found, expected = patch_graph(patches, k), nearest_torch(patches, patches, k)
        same = (found == expected).float().mean().item()
        gathered = [
            (patches[:, :, None] - patches.gather(1, rows.reshape(batch, -1, 1).expand(-1, -1, 3))
             .view(batch, points, k, 3)).double().norm(dim=-1) for rows in (found, expected)
        ]  # fmt: skip
        worst = (gathered[0] - gathered[1]).abs().max().item()
        for launch in ((1, 1), (2, 1), (1, 2), (4, 4)):
            ms, failure = attempt(lambda: triton_nearest.nearest(patches, patches, k, *launch))  # noqa: B023
            print(f"  nearest K={k} queries, warps {launch} {ms:7.3f} ms {failure}")
        naive = median_ms(lambda: torch.cdist(patches, patches).topk(k, largest=False))  # noqa: B023
        fused = median_ms(lambda: patch_graph(patches, k))  # noqa: B023
        table.add(
            f"graph K={k}: fused {fused:.3f} ms, cdist + topk {naive:.3f} ms; "
            f"{same:.6f} of rows equal, distances differ by {worst:.1e} at most"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patches", type=int, default=64)
    parser.add_argument("--points", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("The kernels are timed on a CUDA device, and there is none here.")
    torch.manual_seed(options.seed)
    began = time.perf_counter()
    table = Table()
    table.add(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}, "
        f"Python {platform.python_version()}; B={options.patches} N={options.points} H={WIDTH}"
    )
    check_edges(table, options.points, "cuda")
    check_compiled_and_captured(table, options.points, "cuda")
    for groups, k in ((1, 32),):
        case = edge_case(groups, options.patches, options.points, k, "cuda")
        active = triton_max.forward(*case.edges("tf32"), "tf32")[2]
        bits = sum(((active >> bit) & 1).sum().item() for bit in range(k))
        table.add(f"G={groups} K={k}: {bits / active.numel() / k:.2f} of the edges are active")
        sweep_forward(table, case)
        sweep_backward(table, case)
    compare_steps(table, options.patches, options.points, "cuda")
    time_graphs(table, options.patches, options.points, "cuda")
    print(f"\n{time.perf_counter() - began:.0f} s in all\n")
    print("\n".join(table.lines))


if __name__ == "__main__":
    main()
