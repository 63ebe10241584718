"""Point cloud denoising with normalizing flows.

The tree is the data path: read (`io`), normalise and patch (`geometry`), flow, filter and
inverse (`flow`, `model`), stitch (`geometry`), write (`io`).

Shape letters, used in every docstring (batch first, channels last):

    B  patches in a batch        M  points in a cloud
    N  points in a patch         P  patches in a cloud
    K  neighbours of a point     V  vertices of a mesh
    C  channels of a point       F  faces of a mesh

Importing this package is cheap: torch and numba are loaded by the first call that needs them.
"""

from __future__ import annotations

from pdflow.lazy import lazy_names

__version__ = "0.1.0"

# As `typing.TYPE_CHECKING`, whose import takes longer than all of this package's.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pdflow.cloud import PointCloud as PointCloud
    from pdflow.errors import LossWarning as LossWarning
    from pdflow.errors import PdflowError as PdflowError
    from pdflow.io import open_reader as open_reader
    from pdflow.io import open_writer as open_writer
    from pdflow.io import read as read
    from pdflow.io import read_mesh as read_mesh
    from pdflow.io import write as write
    from pdflow.io import write_mesh as write_mesh
    from pdflow.mesh import TriangleMesh as TriangleMesh
    from pdflow.model import PDFlow as PDFlow
    from pdflow.noise.estimate import NoiseEstimate as NoiseEstimate
    from pdflow.noise.estimate import estimate_noise as estimate_noise
    from pdflow.pipeline.api import denoise as denoise
    from pdflow.pipeline.denoise import Denoiser as Denoiser
    from pdflow.pipeline.results import Denoised as Denoised
    from pdflow.pipeline.results import Report as Report
    from pdflow.tiles.api import denoise_files as denoise_files
    from pdflow.viewer.show import view as view
    from pdflow.weights import load_model as load_model
    from pdflow.weights import save_model as save_model
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "cloud": ["PointCloud"],
            "errors": ["LossWarning", "PdflowError"],
            "io": ["open_reader", "open_writer", "read", "read_mesh", "write", "write_mesh"],
            "mesh": ["TriangleMesh"],
            "model": ["PDFlow"],
            "noise.estimate": ["NoiseEstimate", "estimate_noise"],
            "pipeline.api": ["denoise"],
            "pipeline.denoise": ["Denoiser"],
            "pipeline.results": ["Denoised", "Report"],
            "tiles.api": ["denoise_files"],
            "viewer.show": ["view"],
            "weights": ["load_model", "save_model"],
        },
    )
    __all__ += ["__version__"]
