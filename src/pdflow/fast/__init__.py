"""A network rewritten for inference on a CPU: numpy arrays and compiled loops, patch by patch.

`FastNetwork` is the same function as `PDFlow.denoise_patches`, up to rounding, without the
log-determinants:

- inv1x1 and actnorm, or any other fixed mixing of channels, become one affine map, made once per
  network in float64 instead of once per patch;
- channels are never turned around: the weights that follow a `Reverse` are, once;
- all layers of a unit run in one compiled loop (`pdflow.kernels.dense`, `pdflow.kernels.edge.cpu`);
- batch normalisation and fixed factors of the augmentation are part of the layers beside them;
- affine maps that follow each other become one.

Nothing in here starts threads of its own, and the loops run without Python's lock, so patches can
be spread over all cores (`pdflow.inference`).
"""

from __future__ import annotations

from pdflow.fast.flow import Spans
from pdflow.fast.network import FastNetwork

__all__ = ["FastNetwork", "Spans"]
