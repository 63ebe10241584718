"""`denoise`: clouds in, clouds of the same kind out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from pdflow.adapters.groups import group
from pdflow.device import named_device
from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.pipeline.denoise import OVERLAP, Denoiser, Mode, Outliers
from pdflow.pipeline.progress import Listener, reporting, scaled
from pdflow.pipeline.results import Report
from pdflow.weights import load_model

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import ArrayLike, NDArray
    from typing_extensions import Unpack

    from pdflow.pipeline.signature import (
        Array,
        ArrayOrArrays,
        Arrays,
        Cloud,
        CloudOptions,
        CloudOrClouds,
        Clouds,
        Columns,
        DisplacementOptions,
        MarkOptions,
        PlainOptions,
    )

DEFAULT_MODEL = "pdflow"


@overload
def denoise(
    cloud: CloudOrClouds,
    /,
    *,
    return_report: Literal[False] = False,
    **options: Unpack[CloudOptions],
) -> CloudOrClouds: ...


@overload
def denoise(
    cloud: Cloud, /, *, return_report: Literal[True], **options: Unpack[CloudOptions]
) -> tuple[Cloud, Report]: ...


@overload
def denoise(
    cloud: Clouds, /, *, return_report: Literal[True], **options: Unpack[CloudOptions]
) -> tuple[Clouds, list[Report]]: ...


@overload
def denoise(
    cloud: ArrayOrArrays,
    /,
    *,
    return_report: Literal[False] = False,
    **options: Unpack[PlainOptions],
) -> ArrayOrArrays: ...


@overload
def denoise(
    cloud: ArrayOrArrays,
    /,
    *,
    return_report: Literal[False] = False,
    **options: Unpack[MarkOptions],
) -> tuple[ArrayOrArrays, Columns]: ...


@overload
def denoise(
    cloud: ArrayOrArrays,
    /,
    *,
    return_report: Literal[False] = False,
    **options: Unpack[DisplacementOptions],
) -> tuple[ArrayOrArrays, Columns]: ...


@overload
def denoise(
    cloud: Array, /, *, return_report: Literal[True], **options: Unpack[PlainOptions]
) -> tuple[Array, Report]: ...


@overload
def denoise(
    cloud: Array, /, *, return_report: Literal[True], **options: Unpack[MarkOptions]
) -> tuple[Array, Columns, Report]: ...


@overload
def denoise(
    cloud: Array, /, *, return_report: Literal[True], **options: Unpack[DisplacementOptions]
) -> tuple[Array, Columns, Report]: ...


@overload
def denoise(
    cloud: Arrays, /, *, return_report: Literal[True], **options: Unpack[PlainOptions]
) -> tuple[Arrays, list[Report]]: ...


@overload
def denoise(
    cloud: Arrays, /, *, return_report: Literal[True], **options: Unpack[MarkOptions]
) -> tuple[Arrays, Columns, list[Report]]: ...


@overload
def denoise(
    cloud: Arrays, /, *, return_report: Literal[True], **options: Unpack[DisplacementOptions]
) -> tuple[Arrays, Columns, list[Report]]: ...


@overload
def denoise(
    cloud: ArrayLike, /, *, return_report: Literal[False] = False, **options: Unpack[PlainOptions]
) -> NDArray[np.floating]: ...


@overload
def denoise(
    cloud: ArrayLike, /, *, return_report: Literal[False] = False, **options: Unpack[MarkOptions]
) -> tuple[NDArray[np.floating], Columns]: ...


@overload
def denoise(
    cloud: ArrayLike,
    /,
    *,
    return_report: Literal[False] = False,
    **options: Unpack[DisplacementOptions],
) -> tuple[NDArray[np.floating], Columns]: ...


@overload
def denoise(
    cloud: ArrayLike, /, *, return_report: Literal[True], **options: Unpack[PlainOptions]
) -> tuple[NDArray[np.floating], Report]: ...


@overload
def denoise(
    cloud: ArrayLike, /, *, return_report: Literal[True], **options: Unpack[MarkOptions]
) -> tuple[NDArray[np.floating], Columns, Report]: ...


@overload
def denoise(
    cloud: ArrayLike, /, *, return_report: Literal[True], **options: Unpack[DisplacementOptions]
) -> tuple[NDArray[np.floating], Columns, Report]: ...


def denoise(
    cloud: Any,
    /,
    *,
    mode: Mode = "points",
    iterations: int | Literal["auto"] = "auto",
    partitions: int | Literal["auto"] = "auto",
    points: int | None = None,
    overlap: float = OVERLAP,
    radius: float | None = None,
    noise: float | str | NDArray[np.floating] = "auto",
    max_move: float | None = None,
    where: str | NDArray[np.bool_] | None = None,
    outliers: Outliers = "keep",
    displacement: bool = False,
    uncertainty: bool = False,
    seed: int | None = None,
    model: str | Path | PDFlow = DEFAULT_MODEL,
    device: str | torch.device | None = None,
    progress: Listener | bool | None = None,
    return_report: bool = False,
) -> Any:
    """A clean cloud of the same kind as `cloud`; the one given is not changed.

    cloud   a PointCloud; an array or torch tensor (M, 3), whose dtype and device are kept and whose
            further columns are carried along; a cloud of Open3D, trimesh or PyVista; any object
            with `points`; a list or tuple of these; or a batch (B, N, 3)
    mode    "points" moves each point and keeps its row; "resample" spreads new points evenly
    iterations, partitions  passes through the network and partitions of the first one; "auto"
            decides by the estimated noise
    points  number of points to resample to
    overlap, radius  how patches are cut
    noise   standard deviation of the noise in the cloud's unit: one number, one (M,) for each
            point, or the name of an attribute; "auto" estimates it
    max_move  farthest that a point may move, in the cloud's unit; by default 5 standard deviations
            of the noise around it
    where   which points may move, while the others still show the surface: a mask (M,), or a
            condition on attributes such as "classification in 2,6"
    outliers  "keep", "mark" or "remove" points without a surface near them
    displacement  adds a column with the way each point was moved
    uncertainty  adds a column with how far each point may still be off the surface
    seed    draws the extra dimensions instead of taking their mean
    model   a shipped name, a weight file, or a loaded network
    device  where a named model runs (default: the best there is); a loaded one stays where it is
    progress  is called with the share done, from 0 to 1, and may raise to end the run; True shows a
            bar on a terminal or in a notebook
    return_report  returns a `Report` of what was done as well, a list of them for a list

    Attributes that were asked for (`outlier`, `displacement`, `uncertainty`) are in the clean
    cloud, by their names. Arrays and tensors have no names, so their result is a tuple: clean
    points, and a dict of the attributes. A report comes last. `Denoiser` explains all options.

    >>> import numpy as np, pdflow
    >>> noisy = np.random.default_rng(0).random((300, 3)) * [1, 1, 0.05]
    >>> clean, report = pdflow.denoise(noisy, iterations=1, return_report=True)
    >>> clean.shape, report.points_out
    ((300, 3), 300)
    >>> clean, columns = pdflow.denoise(noisy, iterations=1, outliers="mark")
    >>> columns["outlier"].shape
    (300,)
    """
    if not isinstance(model, PDFlow):
        model = load_model(
            model, named_device(device) if isinstance(device, str | None) else device
        )
    run = Denoiser(
        model,
        mode=mode,
        iterations=iterations,
        partitions=partitions,
        points=points,
        overlap=overlap,
        radius=radius,
        noise=noise,
        max_move=max_move,
        where=where,
        outliers=outliers,
        displacement=displacement,
        uncertainty=uncertainty,
        seed=seed,
    )
    given = group(cloud)
    if given.kind == "batch" and return_report:
        raise PdflowError("Each cloud of a batch has its own report: pass a list of clouds.")
    given.check_room(run.added)
    if not run.keeps_rows:
        given.check_rows(some_go=outliers == "remove")
    with reporting(progress) as advance:
        part = scaled(advance, 1 / len(given.members))
        done = [run(member.read(), part) for member in given.members]
    clouds = [each.cloud for each in done]
    clean = given.restore(clouds, run.added)
    columns = given.columns(clouds, run.added)
    reports: list[Report] = [each.report for each in done]
    results = [clean, *([] if columns is None else [columns])]
    if return_report:
        results.append(reports[0] if given.kind == "one" else reports)
    return results[0] if len(results) == 1 else tuple(results)
