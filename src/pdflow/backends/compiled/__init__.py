"""The compiled backend: a network as numpy arrays and compiled loops, for CPUs.

`CompiledNetwork` is the same function as `PDFlow.denoise_patches`, up to rounding, without the
log-determinants:

- inv1x1 and actnorm, or any other fixed mixing of channels, become one affine map, made once per
  network in float64 instead of once per patch;
- channels are never reversed: the weights that follow a `Reverse` are, once;
- all layers of a unit run in one compiled loop (`pdflow.kernels.dense`, `pdflow.kernels.edge.cpu`);
- batch normalisation and fixed factors of the augmentation are part of the layers beside them;
- affine maps that follow each other become one.

The network starts no threads, and its loops run without Python's lock, so `backend.py` spreads
patches over all cores.
"""
