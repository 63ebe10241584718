"""What formats ask of a result: its history, digits and classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdflow import __version__

if TYPE_CHECKING:
    from pdflow.cloud import PointCloud
    from pdflow.pipeline.denoise import Denoiser

COMMENTED = ("ply", "las", "laz")
"""Formats that get the line. A comment in a text file could stop other programs from reading it."""

LOW_NOISE = 7
"""The class of LAS for points that belong to nothing."""


def describe_run(denoiser: Denoiser, model: str) -> str:
    """One line: version, model, and every option that is not the default; no date, no paths.

    model  as the user named it
    """
    given = [
        f"{field.name}={getattr(denoiser, field.name)}"
        for field in fields(denoiser)
        if field.name != "model" and getattr(denoiser, field.name) != field.default
    ]
    return f"denoised by pdflow {__version__} ({', '.join([f'model={Path(model).name}', *given])})"


def with_digits(clean: PointCloud, noisy: PointCloud, format: str) -> PointCloud:
    """For LAS, points rounded to one digit more than the noisy ones had, if those had few.

    The writer then chooses a scale that fits. Clouds from LAS files keep their own scale.
    """
    if format not in ("las", "laz") or "las" in noisy.metadata:
        return clean
    from pdflow.io.las.frame import decimals_of

    decimals = decimals_of(noisy.points)
    return clean if decimals is None else clean.with_points(clean.points.round(decimals + 1))


def outlier_class(options: Mapping[str, Any], format: str) -> int | None:
    """The class that outliers get in files of a format; None if they get no class.

    options  of a run: `outliers` and `outlier_class`
    """
    if options["outliers"] != "mark":
        return None
    given: int | None = options["outlier_class"]
    return LOW_NOISE if given is None and format in ("las", "laz") else given


def with_outlier_class(cloud: PointCloud, code: int | None) -> PointCloud:
    """A cloud whose outliers have a class instead of a mark in the column `outlier`."""
    import numpy as np

    from pdflow.cloud import PointCloud

    if code is None:
        return cloud
    attributes = dict(cloud.attributes)
    marks = attributes.pop("outlier")
    classes = attributes.get("classification", np.zeros(len(cloud), np.uint8))
    attributes["classification"] = np.where(marks, np.array(code, classes.dtype), classes)
    return PointCloud(cloud.points, attributes, cloud.metadata)


def with_history(cloud: PointCloud, line: str, format: str) -> PointCloud:
    """A cloud whose comments end with the line, if the format of its file has comments.

    In a cloud from a LAS file the generating software becomes pdflow, as the standard asks of the
    program that wrote the file; the line names the one before. All else in the header stays.
    """
    from pdflow.cloud import PointCloud

    if format not in COMMENTED:
        return cloud
    metadata = dict(cloud.metadata)
    las = metadata.get("las")
    if isinstance(las, dict) and format != "ply":
        ours, before = f"pdflow {__version__}", las.get("generating_software")
        if before and before != ours:
            line += f"; before by {before if isinstance(before, str) else before.decode('latin-1')}"
        metadata["las"] = {**las, "generating_software": ours}
    comments = metadata.get("comments")
    metadata["comments"] = [*(comments if isinstance(comments, list) else []), line]
    return PointCloud(cloud.points, cloud.attributes, metadata)
