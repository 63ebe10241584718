"""A simulated LiDAR scanner with rotating heads.

Each head turns about the z axis and fires a fan of beams, one above the other, at every step of
the turn. A head outside the object sweeps only the window that holds the object, so `beams` and
`azimuths` determine the density of the scan lines on it. Its errors:

    range      Gaussian noise along the ray; then the range is rounded to a step
    angle      recorded angles are rounded to the step of the encoder: an error across the ray that
               grows with the range
    dropouts   some returns are lost at random, and all from surfaces at a grazing angle

So, unlike in `pdflow.noise.models`, the noise is neither isotropic nor independent of the place,
and the density falls with range and slant, as in real scans.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray, IntArray, finite_points, generator
from pdflow.geometry.frame import Frame, unit_sphere
from pdflow.mesh import TriangleMesh
from pdflow.noise.models import check_level

HEAD_DISTANCE = 3.0
"""Distance of the default heads from the centre, in radii of the bounding sphere."""

HEAD_ELEVATION = np.radians(25.0)
"""The default heads stand alternately above and below the centre, by this angle."""


class Rays(NamedTuple):
    """Rays of all heads: where each starts and points to, and who fired it.

    origins    (R, 3)
    azimuths   (R,) true angle about the z axis, in radians
    elevations (R,) true angle above the horizontal, in radians
    scan, beam (R,) number of the head, and of the beam counted from below
    """

    origins: FloatArray
    azimuths: FloatArray
    elevations: FloatArray
    scan: IntArray
    beam: IntArray


def simulate_lidar(
    mesh: TriangleMesh,
    *,
    level: float = 0.01,
    beams: int = 64,
    azimuths: int = 512,
    heads: int | ArrayLike = 6,
    range_step: float = 0.001,
    angle_step: float = 0.02,
    dropout: float = 0.02,
    grazing: float = 85.0,
    seed: int = 0,
) -> PointCloud:
    """Scan a mesh from several heads around it, with the errors of a real scanner.

    level       standard deviation of the range, relative to the bounding sphere's radius
    beams       scan lines of a head
    azimuths    measurements along a scan line
    heads       number of heads, on a ring of 3 radii around the object; or their positions (S, 3);
                a head inside the bounding sphere scans in all directions
    range_step  unit of the measured range, relative to the bounding sphere's radius; 0 for none
    angle_step  unit of the measured angles in degrees; 0 for none
    dropout     share of the returns that is lost at random
    grazing     angle between beam and surface normal in degrees, above which nothing returns
    seed        the same seed gives the same scan

    Returns a cloud with the attributes `scan` (head, from 0) and `beam` (from below, from 0), both
    uint16, `range` (measured, float64, in units of the mesh) and `intensity` (cosine of the angle
    between beam and normal, float32).

    >>> square = TriangleMesh([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]],
    ...                       [[0, 1, 2], [0, 2, 3]])
    >>> scan = simulate_lidar(square, beams=8, azimuths=8, heads=2)
    >>> sorted(scan.attributes), bool(0 < len(scan) < 2 * 8 * 8)
    (['beam', 'intensity', 'range', 'scan'], True)
    """
    from pdflow.geometry.triangles import cast_rays

    check_level(level)
    _check_options(beams, azimuths, range_step, angle_step, dropout, grazing)
    if not len(mesh.faces):
        raise PdflowError("The mesh has no faces: give one with a surface to scan.")
    sphere = unit_sphere(mesh.vertices[mesh.faces].reshape(-1, 3))
    rng = generator(seed)
    rays = _fire(sphere, _head_positions(heads, sphere), beams, azimuths, rng)
    ways = _directions(rays.azimuths, rays.elevations)
    distances, faces = cast_rays(rays.origins, ways, mesh)

    a, b, c = mesh.vertices[mesh.faces[faces]].transpose(1, 0, 2)
    normals = np.cross(b - a, c - a)
    lengths = np.linalg.norm(normals, axis=1)
    slant = np.abs((ways * normals).sum(1)) / np.where(lengths > 0, lengths, np.inf)
    # Drawn for all rays, so that a miss does not change the noise of later rays.
    error = level * sphere.scale * rng.standard_normal(len(distances))
    kept = (rng.random(len(distances)) >= dropout) & (faces >= 0)
    kept &= slant >= np.cos(np.radians(grazing))
    measured = _rounded(distances[kept] + error[kept], range_step * sphere.scale)
    unit = np.radians(angle_step)
    written = _directions(
        _rounded(rays.azimuths[kept], unit), _rounded(rays.elevations[kept], unit)
    )
    if not kept.any():
        raise PdflowError("No beam came back from the mesh: use more beams, azimuths or heads.")
    return PointCloud(
        rays.origins[kept] + measured[:, None] * written,
        {
            "scan": rays.scan[kept].astype(np.uint16),
            "beam": rays.beam[kept].astype(np.uint16),
            "range": measured,
            "intensity": slant[kept].astype(np.float32),
        },
    )


def _check_options(
    beams: int,
    azimuths: int,
    range_step: float,
    angle_step: float,
    dropout: float,
    grazing: float,
) -> None:
    for name, count in (("beams", beams), ("azimuths", azimuths)):
        if not 1 <= count < 2**16:
            raise PdflowError(f"A head cannot have {count} {name}: give 1 to 65535.")
    for name, value, limit in (
        ("range step", range_step, np.inf),
        ("angle step", angle_step, np.inf),
        ("dropout", dropout, 1.0),
    ):
        if not 0 <= value < limit:
            raise PdflowError(f"The {name} {value} is out of range: give 0 or more, below {limit}.")
    if not 0 < grazing <= 90:
        raise PdflowError(f"The grazing angle {grazing} is out of range: give 0 to 90 degrees.")


def _head_positions(heads: int | ArrayLike, sphere: Frame) -> FloatArray:
    """Positions of the heads (S, 3): the caller's, or on a ring, alternately high and low."""
    if not isinstance(heads, int | np.integer):
        positions = finite_points(heads, "Heads")
    else:
        azimuth = 2 * np.pi * np.arange(heads) / max(heads, 1)
        elevation = np.where(np.arange(heads) % 2, -HEAD_ELEVATION, HEAD_ELEVATION)
        positions = sphere.undo(HEAD_DISTANCE * _directions(azimuth, elevation))
    if not 1 <= len(positions) < 2**16:
        raise PdflowError(f"Cannot scan with {len(positions)} heads: give 1 to 65535.")
    return positions


def _fire(
    sphere: Frame, heads: FloatArray, beams: int, azimuths: int, rng: np.random.Generator
) -> Rays:
    """The rays (S * beams * azimuths) of all heads, each over the window that holds the sphere."""
    parts = []
    for scan, head in enumerate(heads):
        (center_azimuth, half_width), (center_elevation, half_height) = _window(sphere, head)
        # Encoder and mount have random offsets; without them, rounding would have no effect.
        phase, tilt = rng.random((beams, 1)), rng.random()
        beam, step = np.mgrid[:beams, :azimuths]
        azimuth = center_azimuth + half_width * (2 * (step + phase) / azimuths - 1)
        elevation = center_elevation + half_height * (2 * (beam + tilt) / beams - 1)
        origins = np.broadcast_to(head, (beams * azimuths, 3))
        numbers = np.full(beams * azimuths, scan)
        parts.append(Rays(origins, azimuth.ravel(), elevation.ravel(), numbers, beam.ravel()))
    return Rays(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _window(sphere: Frame, head: FloatArray) -> tuple[tuple[float, float], tuple[float, float]]:
    """Centre and half width of the azimuths, and of the elevations, that see the sphere."""
    x, y, z = sphere.center - head
    distance = float(np.sqrt(x * x + y * y + z * z))
    if distance <= sphere.scale:
        return (0.0, np.pi), (0.0, np.pi / 2)
    half_height = float(np.arcsin(sphere.scale / distance))
    elevation = float(np.arcsin(z / distance))
    # At an elevation, a cone spans more azimuths, and all of them near the pole.
    part = np.sin(half_height) / np.cos(elevation)
    half_width = float(np.arcsin(part)) if part < 1 else np.pi
    return (float(np.arctan2(y, x)), half_width), (elevation, half_height)


def _directions(azimuth: FloatArray, elevation: FloatArray) -> FloatArray:
    """Unit vectors (R, 3)."""
    flat = np.cos(elevation)
    return np.column_stack([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)])


def _rounded(values: FloatArray, unit: float) -> FloatArray:
    return np.round(values / unit) * unit if unit > 0 else values
