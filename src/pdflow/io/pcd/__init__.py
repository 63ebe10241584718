"""PCD, versions .5 to .7: ascii, binary and binary_compressed.

Fields with COUNT W are (M, W) attributes, normal_x, normal_y, normal_z are `normals`, and the
packed fields rgb and rgba are `colors` (uint8), with `alpha` where there is any. Padding fields
(`_`) are skipped. What the header says beyond the fields is `metadata["pcd"]` and is written
back:

    data              ascii, binary (the default) or binary_compressed
    width, height     of an organised cloud, as long as they give the number of points
    viewpoint         seven numbers: translation and quaternion (w, x, y, z)
    rgb               name and TYPE of the field with packed colours, where there is one

Other metadata are comment lines.
"""

from __future__ import annotations

from pdflow.io.pcd.reader import read
from pdflow.io.pcd.writer import write

__all__ = ["read", "write"]
