"""Time of the full training step on one CUDA device: patches per second, and time by kernel.

    python benchmarks/speed/bench_train_step.py [--batch 64] [--naive-batch 16] [--seed 0]
        [--precision bf16]

A step samples a batch from a pool on the device, adds noise, finds neighbours, encodes, decodes,
matches, and runs the backward pass; then it clips gradients and updates the weights and their
average. It is one CUDA graph. It is compared with the naive step: the twins in plain torch,
launched one by one, with a batch whose edges fit in memory. Clouds are bent noisy sheets; no data
is needed.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import torch
from torch.profiler import ProfilerActivity, profile

from pdflow.kernels import plain_torch
from pdflow.provenance import source_version
from pdflow.train.compute.capture import captured
from pdflow.train.compute.precision import PRECISIONS, matmul_precision
from pdflow.train.data import PatchPool
from pdflow.train.loop import Trainer
from pdflow.train.losses import MATCHINGS, exact_matching
from pdflow.train.recipe import Recipe, load_recipe

POINTS = 1024
POOL = 512
LEVELS = (0.005, 0.03)
KINDS = {
    "EdgeUnits, per edge, forward": ("edge_forward",),
    "EdgeUnits, per edge, backward": ("edge_backward", "edge_list"),
    "EdgeUnits, first layer": ("split_",),
    "couplings, forward": ("couple_forward",),
    "couplings, backward": ("couple_backward",),
    "affine maps of channels": ("affine_", "mixing_"),
    "augmentation, condition net": (
        "points_forward",
        "points_backward",
        "mean_forward",
        "mean_backward",
    ),
    "augmentation, couplings": (
        "gate_forward",
        "gate_backward",
        "gate_weights",
        "norm_statistics",
        "shift_forward",
        "shift_backward",
    ),
    "sums of weights' gradients": ("sum_kernel",),
    "neighbours": ("nearest_",),
    "matching": ("match_kernel", "costs_kernel"),
    "other products": ("gemm", "cutlass", "xmma", "splitK", "gemv", "trsm"),
    "optimiser and clipping": ("multi_tensor", "fused_adam", "lpnorm"),
    "reductions": ("reduce_kernel", "batch_norm"),
    "copies": ("copy", "Cat", "Memcpy", "Memset", "Fill", "gather", "index", "scatter"),
}
OTHER = "element-wise and the rest"


def bent_sheets(count: int, points: int, generator: torch.Generator) -> torch.Tensor:
    """Surroundings (count, points, 3) of seeds, sorted by the distance from their seed."""
    flat = torch.rand(count, points, 2, generator=generator, device=generator.device) - 0.5
    bend = torch.randn(count, 1, 2, generator=generator, device=generator.device)
    height = 0.3 * (bend * flat.square()).sum(-1, keepdim=True)
    sheets = 0.3 * torch.cat([flat, height], -1)
    order = sheets.square().sum(-1).argsort(dim=1)
    return sheets.gather(1, order[..., None].expand_as(sheets))


def recipes(batch: int, precision: str) -> dict[str, Recipe]:
    """What is timed, by name."""
    paper = load_recipe("paper-lcc")
    paper = replace(
        paper,
        loss=replace(paper.loss, matching="auction"),
        optim=replace(paper.optim, batch=batch, precision=precision),
    )
    ours = load_recipe("pdflow-fast")
    return {
        "paper-lcc, affine": paper,
        "paper-lcc, additive": replace(paper, model=replace(paper.model, coupling="additive")),
        "pdflow": replace(ours, optim=replace(ours.optim, batch=batch, precision=precision)),
    }


def seconds_per_call(function: Callable[[], object], calls: int) -> float:
    """Mean time of a call, after a warm-up call."""
    function()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(calls):
        function()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / calls


def kind_of(kernel: str) -> str:
    """The line of the breakdown for a kernel."""
    for kind, fragments in KINDS.items():
        if any(fragment in kernel for fragment in fragments):
            return kind
    return OTHER


def print_breakdown(run: Callable[[], object]) -> None:
    """Milliseconds and launches of one step by kind of kernel."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        run()
        torch.cuda.synchronize()
    spent: dict[str, float] = defaultdict(float)
    launches: dict[str, int] = defaultdict(int)
    for event in profiled.key_averages():
        spent[kind_of(event.key)] += event.device_time_total / 1e3
        launches[kind_of(event.key)] += event.count
    for kind in sorted(spent, key=lambda kind: -spent[kind]):
        print(f"    {spent[kind]:7.3f} ms {launches[kind]:5d} launches  {kind}")
    print(f"    {sum(spent.values()):7.3f} ms {sum(launches.values()):5d} launches  in all")


def print_matching(pool: PatchPool, patches: int = 8) -> None:
    """Matchings between noisy and clean patches, compared with the best bijection."""
    batch = pool.sample(patches, LEVELS)
    distances = torch.cdist(batch.noisy.double(), batch.clean.double())

    def lengths(rows: torch.Tensor) -> torch.Tensor:
        return distances.gather(2, rows[..., None])[..., 0]

    best = lengths(exact_matching(batch.noisy, batch.clean)).sum(1)
    for name in ("auction", "approximate"):
        rows = MATCHINGS[name](batch.noisy, batch.clean)
        ratios = lengths(rows).sum(1) / best
        used = min(len(set(patch.tolist())) for patch in rows)
        print(
            f"matching {name}: {ratios.min():.4f} to {ratios.max():.4f} of the least sum of "
            f"distances, {used} of {POINTS} targets used at least, {patches} patches with noise "
            f"from {LEVELS[0]} to {LEVELS[1]}"
        )
    print()


def time_step(name: str, recipe: Recipe, pool: PatchPool, naive: Recipe, calls: int) -> None:
    """Print the throughput of a recipe, its breakdown, and the naive step's throughput."""
    with matmul_precision(recipe.optim.precision):
        trainer = Trainer(recipe, pool, "cuda")
        trainer.rate.fill_(1e-4)
        run = captured(trainer.step, trainer.tensors(), trainer.device)
        seconds = seconds_per_call(run, calls)
        batch = recipe.optim.batch
        print(
            f"{name}: {1e3 * seconds:.2f} ms a step, {batch / seconds:.0f} patches/s at batch "
            f"{batch}, {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB, "
            f"matching {recipe.loss.matching}, {int(trainer.skipped)} steps skipped",
            flush=True,
        )
        print_breakdown(run)
    del trainer, run
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    with plain_torch(), matmul_precision("ieee"):
        trainer = Trainer(naive, pool, "cuda")
        seconds = seconds_per_call(trainer.step, 2)
    batch = naive.optim.batch
    print(
        f"    naive step: {1e3 * seconds:.1f} ms, {batch / seconds:.0f} patches/s at batch "
        f"{batch}, matching {naive.loss.matching}\n",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--naive-batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--precision", choices=PRECISIONS, default="bf16")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("The training step is timed on a CUDA device, and there is none here.")
    import triton

    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton.__version__}, "
        f"Python {platform.python_version()}, commit {source_version()}, seed {options.seed}, "
        f"{POINTS} points a patch, precision {options.precision}\n"
    )
    generator = torch.Generator("cuda").manual_seed(options.seed)
    pool = PatchPool(bent_sheets(POOL, 2 * POINTS, generator), POINTS)
    print_matching(pool)
    for name, recipe in recipes(options.batch, options.precision).items():
        recipe = replace(recipe, optim=replace(recipe.optim, seed=options.seed))
        naive = replace(
            recipe,
            loss=replace(recipe.loss, matching="paired"),
            optim=replace(recipe.optim, batch=options.naive_batch),
        )
        try:
            time_step(name, recipe, pool, naive, options.steps)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}\n", flush=True)


if __name__ == "__main__":
    main()
