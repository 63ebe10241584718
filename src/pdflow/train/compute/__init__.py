"""How a training step is computed: CUDA graph, streams, gradients, precision, processes."""
