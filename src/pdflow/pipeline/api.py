"""`denoise`: points in, points of the same kind out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

from pdflow.cloud import PointCloud
from pdflow.device import named_device, one_thread_after_fork
from pdflow.model import PDFlow
from pdflow.pipeline.denoise import OVERLAP, Denoiser, Mode, Outliers
from pdflow.pipeline.options import as_numbers
from pdflow.pipeline.results import Denoised, Report
from pdflow.weights import load_model

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import ArrayLike, NDArray
    from typing_extensions import Unpack

DEFAULT_MODEL = "pdflow"


class DenoiseOptions(TypedDict, total=False):
    """The keywords of `denoise`, for type checkers."""

    mode: Mode
    iterations: int | Literal["auto"]
    partitions: int | Literal["auto"]
    points: int | None
    overlap: float
    radius: float | None
    noise: float | str | NDArray[np.floating]
    max_move: float | None
    outliers: Outliers
    displacement: bool
    seed: int | None
    model: str | Path | PDFlow
    device: str | torch.device | None


@overload
def denoise(
    cloud: PointCloud,
    /,
    *,
    return_report: Literal[False] = False,
    **options: Unpack[DenoiseOptions],
) -> PointCloud: ...


@overload
def denoise(
    cloud: PointCloud, /, *, return_report: Literal[True], **options: Unpack[DenoiseOptions]
) -> tuple[PointCloud, Report]: ...


@overload
def denoise(
    cloud: torch.Tensor,
    /,
    *,
    return_report: Literal[False] = False,
    **options: Unpack[DenoiseOptions],
) -> torch.Tensor: ...


@overload
def denoise(
    cloud: torch.Tensor, /, *, return_report: Literal[True], **options: Unpack[DenoiseOptions]
) -> tuple[torch.Tensor, Report]: ...


@overload
def denoise(
    cloud: ArrayLike,
    /,
    *,
    return_report: Literal[False] = False,
    **options: Unpack[DenoiseOptions],
) -> NDArray[np.floating]: ...


@overload
def denoise(
    cloud: ArrayLike, /, *, return_report: Literal[True], **options: Unpack[DenoiseOptions]
) -> tuple[NDArray[np.floating], Report]: ...


@one_thread_after_fork()
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
    outliers: Outliers = "keep",
    displacement: bool = False,
    seed: int | None = None,
    model: str | Path | PDFlow = DEFAULT_MODEL,
    device: str | torch.device | None = None,
    return_report: bool = False,
) -> Any:
    """Clean points of the same kind as `cloud`.

    cloud   (M, 3) a numpy array, anything that numpy makes one of, or a torch tensor, whose dtype
            is kept (integers become float64); or a PointCloud, whose attributes are kept
    mode    "points" moves each point and keeps its row; "resample" spreads new points evenly
    iterations, partitions  passes through the network and partitions of the first one; "auto"
            decides by the estimated noise
    points  number of points to resample to
    overlap, radius  how patches are cut
    noise   standard deviation of the noise in the cloud's unit: one number, one (M,) for each
            point, or the name of an attribute; "auto" estimates it
    max_move  farthest that a point may move, in the cloud's unit; by default 5 standard deviations
            of the noise around it
    outliers  "keep", "mark" or "remove" points without a surface near them
    displacement  adds a column with the way each point of a PointCloud was moved
    seed    draws the extra dimensions instead of taking their mean
    model   a shipped name, a weight file, or a loaded network
    device  where a named model runs (default: the best there is); a loaded one stays where it is
    return_report  returns the points and a `Report` of what was done

    `Denoiser` explains the options in full.

    >>> import numpy as np, pdflow
    >>> noisy = np.random.default_rng(0).random((300, 3)) * [1, 1, 0.05]
    >>> clean, report = pdflow.denoise(noisy, iterations=1, return_report=True)
    >>> clean.shape, report.points_out
    ((300, 3), 300)
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
        outliers=outliers,
        displacement=displacement,
        seed=seed,
    )
    done: Denoised
    clean: Any
    if isinstance(cloud, PointCloud):
        done = run(cloud)
        clean = done.cloud
    elif hasattr(cloud, "detach"):
        wide = cloud.detach().double()
        done = run(PointCloud(wide.cpu().numpy()))
        clean = wide.new_tensor(done.cloud.points)
        if cloud.is_floating_point():
            clean = clean.to(cloud.dtype)
    else:
        array = as_numbers(cloud)
        done = run(PointCloud(array))
        clean = done.cloud.points
        if array.dtype.kind == "f":
            clean = clean.astype(array.dtype)
    return (clean, done.report) if return_report else clean
