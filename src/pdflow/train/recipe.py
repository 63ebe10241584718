"""Recipes: small TOML files that say everything a training run depends on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from pdflow.errors import PdflowError
from pdflow.losses import LossConfig
from pdflow.model import FlowConfig

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

SCHEDULES = ("cosine", "constant")
Section = TypeVar("Section")


@dataclass(frozen=True)
class DataConfig:
    """Which patches a step sees.

    levels   smallest and largest noise, relative to the bounding sphere
    scales   smallest and largest random scale
    seeds    surroundings cut from every cloud
    holdout  shapes that are left out of training, for validation
    iterate  share of a batch that is the network's own output: what a second pass sees
    """

    levels: tuple[float, float] = (0.005, 0.03)
    scales: tuple[float, float] = (0.8, 1.2)
    seeds: int = 1024
    holdout: tuple[str, ...] = ()
    iterate: float = 0.0


@dataclass(frozen=True)
class OptimConfig:
    """How the weights are moved.

    schedule  "cosine" falls to zero at the last step, "constant" stays; both after a warm-up
    clip      largest norm of the gradient
    ema       share of the old average kept in each step
    """

    batch: int = 64
    steps: int = 100_000
    lr: float = 2e-3
    betas: tuple[float, float] = (0.9, 0.99)
    warmup: int = 500
    schedule: str = "cosine"
    clip: float = 1.0
    ema: float = 0.999
    seed: int = 0


@dataclass(frozen=True)
class Recipe:
    """A training run: network, data, loss and optimiser."""

    name: str
    model: FlowConfig = field(default_factory=FlowConfig)
    data: DataConfig = field(default_factory=DataConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)

    def as_dict(self) -> dict[str, Any]:
        """The recipe as JSON types."""
        return asdict(self)


def shipped_recipes() -> list[str]:
    """Names that `load_recipe` knows without a file."""
    folder = resources.files("pdflow.train") / "recipes"
    return sorted(Path(f.name).stem for f in folder.iterdir() if f.name.endswith(".toml"))


def load_recipe(name_or_path: str | Path) -> Recipe:
    """A shipped recipe by name, or any TOML file by path."""
    path = Path(name_or_path)
    if str(name_or_path) in shipped_recipes():
        path = Path(str(resources.files("pdflow.train") / "recipes" / f"{name_or_path}.toml"))
    if not path.is_file():
        known = ", ".join(shipped_recipes())
        raise PdflowError(f"No recipe {str(path)!r}: give a TOML file or one of {known}.")
    try:
        values = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PdflowError(f"{path} is no TOML file ({error}).") from error
    sections = {"model": FlowConfig, "data": DataConfig, "loss": LossConfig, "optim": OptimConfig}
    unknown = sorted(set(values) - set(sections))
    if unknown:
        raise PdflowError(f"{path}: unknown section [{unknown[0]}]: use {', '.join(sections)}.")
    made: dict[str, Any] = {
        name: _section(kind, values.get(name, {}), path, name) for name, kind in sections.items()
    }
    return Recipe(path.stem, **made)


def _section(kind: type[Section], values: dict[str, Any], path: Path, name: str) -> Section:
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(values) - known)
    if unknown:
        raise PdflowError(f"{path}: [{name}] has no setting {unknown[0]!r}.")
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
