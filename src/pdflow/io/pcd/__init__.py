"""PCD, versions .5 to .7: ascii, binary and binary_compressed.

Fields with COUNT W are (M, W) attributes; normal_x, normal_y, normal_z are `normals`; the packed
fields rgb and rgba are `colors` (uint8), with `alpha` if there is any. Padding fields (`_`) are
skipped. `metadata["pcd"]` keeps the rest of the header, and the writer uses it again:

    data              ascii, binary (the default) or binary_compressed
    width, height     of an organised cloud, if their product is still the number of points
    viewpoint         seven numbers: translation and quaternion (w, x, y, z)
    rgb               name and TYPE of the field with packed colours, if there is one

Other metadata goes into comment lines.
"""

from __future__ import annotations

from pdflow.io.pcd.reader import read
from pdflow.io.pcd.writer import write

__all__ = ["read", "write"]
