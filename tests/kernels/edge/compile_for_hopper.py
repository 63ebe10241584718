"""Print the code of the kernels for Hopper GPUs as JSON; needs no GPU.

A program of its own: after Triton's interpreter has run, a process cannot compile kernels.
"""

from __future__ import annotations

import json

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource

from pdflow.kernels.edge import triton_hopper

TYPES = {
    "choice_ptr": "*u8", "weight_ptr": "*fp32", "bias_ptr": "*fp32", "sums_ptr": "*fp32",
    "anchors_ptr": "*fp32", "dneighbour_ptr": "*fp32",
    "graph_ptr": "*i64", "active_ptr": "*i32", "list_ptr": "*i32", "lengths_ptr": "*i32",
}  # fmt: skip


def code(name: str, nodes: int, **constants: object) -> str:
    """PTX of a kernel that works on tiles of some nodes."""
    constants["TILE"] = nodes
    types = TYPES if constants.get("EXACT") else TYPES | {"dneighbour_ptr": "*bf16"}
    kernel = getattr(triton_hopper, name)
    signature, constexprs, attributes = {}, {}, {}
    for index, argument in enumerate(kernel.arg_names):
        if argument in constants:
            signature[argument] = "constexpr"
            constexprs[(index,)] = constants[argument]
        else:
            is_pointer = argument.endswith("_ptr")
            signature[argument] = types.get(argument, "*bf16" if is_pointer else "i32")
            attributes[(index,)] = [["tt.divisibility", 16]] if is_pointer else []
    source = GluonASTSource(kernel, signature, constexprs, attributes)
    options = {"num_warps": nodes // triton_hopper.NODES_PER_WARP}
    return str(triton.compile(source, GPUTarget("cuda", 90, 32), options).asm["ptx"])


if __name__ == "__main__":
    forward_nodes, nodes = triton_hopper.FORWARD_NODES, triton_hopper.NODES
    kernels = {
        "forward": code("edge_forward_kernel", forward_nodes, K=16, CHOICE=True),
        "inference": code("edge_forward_kernel", forward_nodes, K=16, CHOICE=False),
        "features": code("edge_backward_features_kernel", nodes, K=16, EXACT=True),
        "fast features": code("edge_backward_features_kernel", nodes, K=16, EXACT=False),
        "weights": code("edge_backward_weights_kernel", nodes, K=16),
    }
    print(json.dumps(kernels))
