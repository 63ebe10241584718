"""Patches, their latent codes and their likelihood: the network one step at a time.

    cut or given -> encode -> filter_code -> decode -> stitch

`Denoiser` does all of this for whole clouds. These functions are for research: they show what is
between the steps. They compute no gradients; the methods of `PDFlow` that they call do.

>>> import numpy as np, pdflow
>>> from pdflow import patches
>>> model = pdflow.load_model("pdflow")
>>> noisy = np.random.default_rng(0).random((300, 3)) * [1, 1, 0.05]
>>> batch = patches.cut(model, noisy)
>>> encoding = patches.encode(model, batch)
>>> clean = patches.decode(model, patches.filter_code(model, encoding.code), batch)
>>> tuple(encoding.code.shape[1:]), tuple(clean.shape[1:]), batch.stitch(clean).shape
((300, 64), (300, 3), (300, 3))
"""

from pdflow.patches.batch import PatchBatch, cut, given
from pdflow.patches.latent import decode, encode, filter_code, log_likelihood

__all__ = ["PatchBatch", "cut", "decode", "encode", "filter_code", "given", "log_likelihood"]
