"""Time layers F2 and M1 of one EdgeUnit, a LinearUnit and the graph of a patch on one core.

    python benchmarks/speed/bench_edge_cpu.py [--rounds 60]

1024 points of a sphere, K = 32, H = 64: 0.268 GFLOP in the EdgeUnit. Every way that was tried runs
on one thread. All take turns and the best CPU time of each counts, so that other work on the
machine disturbs little. Ways that need a missing package (onnx, onnxruntime) are skipped.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from pdflow.kernels.dense import Dense
from pdflow.kernels.edge.cpu import EdgeMax
from pdflow.kernels.edge.twin import edge_max_torch
from pdflow.kernels.graph.cpu import patch_graph

SEED = 0
POINTS, K, WIDTH = 1024, 32, 64
CHUNK = 4096
UNIT = (18, 64, 64, 64, 17)
MATRIX = 2048
Runs = dict[str, Callable[[], object]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    matrix = torch.randn(MATRIX, MATRIX)
    gigaflop = 2 * MATRIX**3 / best_times({"": lambda: matrix @ matrix}, 12)[""] / 1e9
    print(f"torch {torch.__version__}, seed {SEED}, {MATRIX} product {gigaflop:.0f} GFLOP/s\n")
    report("EdgeUnit", edge_runs(), 2 * POINTS * K * WIDTH**2, rounds)
    flop = 2 * POINTS * sum(a * b for a, b in pairwise(UNIT))
    report("LinearUnit", linear_runs(), flop, rounds)
    print("graph of a patch")
    for name, seconds in best_times(graph_runs(), rounds).items():
        print(f"    {name:36} {seconds * 1e3:7.2f} ms")


def sphere(rng: np.random.Generator) -> np.ndarray:
    points = rng.normal(size=(POINTS, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def graph_runs() -> Runs:
    points = sphere(np.random.default_rng(SEED))
    tensor = torch.from_numpy(points)
    return {
        "torch.cdist and topk": lambda: torch.cdist(tensor, tensor).topk(K, largest=False),
        "scipy's cKDTree": lambda: cKDTree(points).query(points, K),
        "pdflow (`patch_graph`)": lambda: patch_graph(points, K),
    }


def edge_runs() -> Runs:
    rng = np.random.default_rng(SEED)
    graph = patch_graph(sphere(rng), K)
    centre, neighbour = rng.normal(size=(2, POINTS, WIDTH)).astype(np.float32)
    weight = (rng.normal(size=(WIDTH, WIDTH)) / 8).astype(np.float32)
    bias = rng.normal(size=WIDTH).astype(np.float32)
    tensors = [torch.from_numpy(x) for x in (centre, neighbour, graph, weight, bias)]
    groups = [x[None, None] for x in tensors[:2]] + [x[None] for x in tensors[2:]]
    edges, product = torch.randn(POINTS * K, WIDTH), torch.empty(POINTS * K, WIDTH)
    fused, features = EdgeMax(weight, bias), np.concatenate([centre, neighbour], axis=1)
    compiled = torch.compile(whole)
    runs: Runs = {
        "torch, all edges at once": lambda: whole(*tensors),
        "torch, in chunks (`edge_max_torch`)": lambda: edge_max_torch(*groups),
        "torch, in chunks and in place": lambda: in_place(*tensors),
        "torch.compile": lambda: compiled(*tensors),
        "the product alone, torch.mm": lambda: torch.mm(edges, tensors[3], out=product),
        "pdflow (`EdgeMax`)": lambda: fused(features, graph, K),
    }
    nodes = [
        ("Gather", ["neighbour", "graph"], "edges"), ("Add", ["edges", "centre"], "sum"),
        ("Relu", ["sum"], "hidden"), ("MatMul", ["hidden", "weight"], "product"),
        ("ReduceMax", ["product", "axes"], "most"), ("Add", ["most", "bias"], "moved"),
        ("Relu", ["moved"], "out"),
    ]  # fmt: skip
    constants = {"weight": weight, "bias": bias, "axes": np.array([1])}
    inputs = {"neighbour": neighbour, "centre": centre[:, None], "graph": graph}
    return runs | onnx_run(nodes, constants, inputs)


def whole(centre: Tensor, neighbour: Tensor, graph: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    hidden = torch.relu(neighbour[graph] + centre[:, None])
    return torch.relu((hidden @ weight).amax(1) + bias)


def in_place(
    centre: Tensor, neighbour: Tensor, graph: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    out, rows = torch.empty_like(centre), graph.reshape(-1)
    hidden, product = torch.empty(CHUNK, WIDTH), torch.empty(CHUNK, WIDTH)
    step = CHUNK // K
    for start in range(0, POINTS, step):
        torch.index_select(neighbour, 0, rows[start * K : start * K + CHUNK], out=hidden)
        hidden.view(step, K, WIDTH).add_(centre[start : start + step, None])
        torch.mm(hidden.relu_(), weight, out=product)
        torch.amax(product.view(step, K, WIDTH), 1, out=out[start : start + step])
    return out.add_(bias).relu_()


def linear_runs() -> Runs:
    rng = np.random.default_rng(SEED)
    layers = [
        ((rng.normal(size=shape) / 8).astype(np.float32), np.ones(shape[1], np.float32))
        for shape in pairwise(UNIT)
    ]
    x = rng.normal(size=(POINTS, UNIT[0])).astype(np.float32)
    tensors = [(torch.from_numpy(weight), torch.from_numpy(bias)) for weight, bias in layers]

    def in_torch() -> Tensor:
        h = torch.from_numpy(x)
        for weight, bias in tensors[:-1]:
            h = torch.addmm(bias, h, weight).relu_()
        return torch.addmm(tensors[-1][1], h, tensors[-1][0])

    fused = Dense(layers)
    runs: Runs = {"torch.addmm": in_torch, "pdflow (`Dense`)": lambda: fused(x)}
    nodes, constants, last = [], {}, "x"
    for i, (weight, bias) in enumerate(layers):
        constants |= {f"w{i}": weight, f"b{i}": bias}
        is_last = i == len(layers) - 1
        nodes.append(("Gemm", [last, f"w{i}", f"b{i}"], "out" if is_last else f"y{i}"))
        if not is_last:
            nodes.append(("Relu", [f"y{i}"], f"h{i}"))
            last = f"h{i}"
    return runs | onnx_run(nodes, constants, {"x": x})


def onnx_run(
    nodes: list[tuple[str, list[str], str]],
    constants: dict[str, np.ndarray],
    inputs: dict[str, np.ndarray],
) -> Runs:
    """The graph of `nodes` (kind, inputs, output), which ends in "out", in onnxruntime."""
    try:
        import onnxruntime
        from onnx import TensorProto, helper, numpy_helper
    except ImportError as error:
        print(f"onnxruntime: skipped, {error}")
        return {}
    keep = {"keepdims": 0}
    made = [
        helper.make_node(kind, given, [out], **(keep if kind == "ReduceMax" else {}))
        for kind, given, out in nodes
    ]
    types = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}
    values = [
        helper.make_tensor_value_info(name, types[array.dtype], array.shape)
        for name, array in inputs.items()
    ]
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
    weights = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(made, "unit", values, [out], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return {f"onnxruntime {onnxruntime.__version__}": lambda: session.run(None, inputs)}


def report(title: str, runs: Runs, flop: float, rounds: int) -> None:
    print(f"{title}, {flop / 1e9:.3f} GFLOP")
    for name, seconds in best_times(runs, rounds).items():
        print(f"    {name:36} {seconds * 1e3:7.2f} ms {flop / seconds / 1e9:6.0f} GFLOP/s")


def best_times(runs: Runs, rounds: int) -> dict[str, float]:
    """Best CPU time of this thread for each, in turn, after one call to warm up."""
    best = dict.fromkeys(runs, np.inf)
    for turn in range(rounds + 1):
        for name, run in runs.items():
            start = time.thread_time()
            run()
            if turn:
                best[name] = min(best[name], time.thread_time() - start)
    return best


if __name__ == "__main__":
    main()
