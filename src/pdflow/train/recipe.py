"""Recipes: small TOML files with everything that a training run depends on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from pdflow.config import MOVED_SETTINGS, FlowConfig, InferenceConfig
from pdflow.errors import PdflowError
from pdflow.noise.kinds import KINDS
from pdflow.train.compute.precision import PRECISIONS
from pdflow.train.losses import LossConfig

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

BASE = "base"
"""The entry of a recipe that names the one whose settings it changes."""

CUTS = ("noisy", "clean")
SCHEDULES = ("cosine", "constant", "plateau")

MOVED = {("model", old): ("inference", new) for old, new in MOVED_SETTINGS.items()}
MOVED["data", "told_spread"] = ("data", "conditioning_spread")
"""(section, setting) of earlier recipes -> where it is now."""

Section = TypeVar("Section")


@dataclass(frozen=True)
class DataConfig:
    """The patches of a step.

    levels       smallest and largest noise, relative to the bounding sphere; drawn per patch
    noise        names in `pdflow.noise.KINDS`; each patch gets one of them
    scales       smallest and largest random scale
    deform       size of a random linear map that stretches and shears patches; 0 for none
    bend         size of a random quadratic map that bends them; 0 for none
    conditioning_spread  standard deviation of a random factor exp(x) on the noise that a network
                 is conditioned on: at inference it gets an estimate
    cut          what patches are cut from: "noisy" clouds, or "clean" ones as the authors did
    seeds        surroundings cut from every cloud
    resolutions  numbers of points that meshes are sampled with: one cloud each
    holdout      shapes that are not trained on, but validated on
    iterate      share of a batch that is the network's own output, the input of a second pass
    scans        share of a batch that is cut from made scans (`pdflow.scenes`) with the errors of
                 scanners instead of shapes with noise; scan_seeds of them are made
    scan_levels  smallest and largest noise of scans, relative to the radius of a patch
    """

    levels: tuple[float, float] = (0.005, 0.03)
    noise: tuple[str, ...] = ("gaussian",)
    scales: tuple[float, float] = (0.8, 1.2)
    deform: float = 0.0
    bend: float = 0.0
    conditioning_spread: float = 0.0
    cut: str = "noisy"
    seeds: int = 1024
    resolutions: tuple[int, ...] = (10_000, 30_000, 50_000)
    holdout: tuple[str, ...] = ()
    iterate: float = 0.0
    scans: float = 0.0
    scan_seeds: int = 400
    scan_levels: tuple[float, float] = (0.002, 0.12)

    def __post_init__(self) -> None:
        for kind in self.noise:
            _choose("noise", kind, tuple(KINDS))
        _choose("cut", self.cut, CUTS)
        if not self.noise or not self.resolutions or min(self.seeds, *self.resolutions) < 1:
            raise PdflowError("[data] needs a noise, a resolution and seeds of 1 or more.")
        for name in ("iterate", "scans"):
            if not 0 <= getattr(self, name) <= 1:
                raise PdflowError(f"{name} is {getattr(self, name)}: give a share from 0 to 1.")


@dataclass(frozen=True)
class OptimConfig:
    """How the weights are updated.

    batch      patches in a step, over all processes
    schedule   of the learning rate after the warm-up: "cosine" falls to zero at the end,
               "constant" stays, "plateau" multiplies it by `factor` after `patience` validations
               without progress
    clip       largest norm of the gradient
    ema        share of the old average that each step keeps
    precision  of matrix products on a GPU: "ieee" (float32), "tf32" or "bf16"; all tensors are
               float32
    """

    batch: int = 64
    steps: int = 100_000
    lr: float = 2e-3
    betas: tuple[float, float] = (0.9, 0.99)
    warmup: int = 500
    schedule: str = "cosine"
    factor: float = 0.5
    patience: int = 10
    clip: float = 1.0
    ema: float = 0.999
    precision: str = "ieee"
    seed: int = 0

    def __post_init__(self) -> None:
        _choose("schedule", self.schedule, SCHEDULES)
        _choose("precision", self.precision, tuple(PRECISIONS))
        if self.batch < 1 or self.steps < 1:
            raise PdflowError("A recipe needs a batch and steps of 1 or more.")


@dataclass(frozen=True)
class ValidationConfig:
    """Validation on held-out shapes.

    every    steps between two validations; 0 for none
    patches  patches per noise level
    levels   noise, relative to the bounding sphere
    seed     of patches and noise; the same in all runs that are compared
    """

    every: int = 2000
    patches: int = 32
    levels: tuple[float, ...] = (0.01, 0.02, 0.03)
    seed: int = 0


@dataclass(frozen=True)
class Recipe:
    """A training run: network and its use, data, loss, optimiser and validation."""

    name: str
    model: FlowConfig = field(default_factory=FlowConfig)
    inference: InferenceConfig = field(default_factory=InferenceConfig)
    data: DataConfig = field(default_factory=DataConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)

    def as_dict(self) -> dict[str, Any]:
        """The recipe as JSON types."""
        return asdict(self)


def shipped_recipes() -> list[str]:
    """Names that `load_recipe` accepts."""
    folder = resources.files("pdflow.train") / "recipes"
    return sorted(Path(f.name).stem for f in folder.iterdir() if f.name.endswith(".toml"))


def load_recipe(name_or_path: str | Path) -> Recipe:
    """A shipped recipe by name, or any TOML file by path.

    A file that begins with `base = "pdflow"` changes settings of that recipe and keeps the others;
    the base is a shipped recipe, or a file beside this one.
    """
    path = _find(str(name_or_path), Path())
    sections: dict[str, type[Any]] = {
        "model": FlowConfig,
        "inference": InferenceConfig,
        "data": DataConfig,
        "loss": LossConfig,
        "optim": OptimConfig,
        "validation": ValidationConfig,
    }
    values: dict[str, dict[str, Any]] = {name: {} for name in sections}
    for file, written in reversed(_with_bases(path)):
        unknown = sorted(set(written) - set(sections))
        if unknown:
            raise PdflowError(f"{file}: unknown section [{unknown[0]}]: use {', '.join(sections)}.")
        for name, kind in sections.items():
            section = written.get(name, {})
            _section(kind, section, file, name)  # names the file that a mistake is in
            values[name] |= section
    made: dict[str, Any] = {
        name: _section(kind, values[name], path, name) for name, kind in sections.items()
    }
    return Recipe(path.stem, **made)


def _find(name: str, folder: Path) -> Path:
    """The file of a shipped recipe, or the one at a path relative to `folder`."""
    if name in shipped_recipes():
        return Path(str(resources.files("pdflow.train") / "recipes" / f"{name}.toml"))
    path = folder / name
    if not path.is_file():
        known = ", ".join(shipped_recipes())
        raise PdflowError(f"No recipe {str(path)!r}: give a TOML file or one of {known}.")
    return path


def _with_bases(path: Path) -> list[tuple[Path, dict[str, Any]]]:
    """A recipe, its base, the base of that and so on, each with the values that it sets itself."""
    found: list[tuple[Path, dict[str, Any]]] = []
    while True:
        if path in [file for file, _ in found]:
            raise PdflowError(f"{path} is its own base: let `base` name another recipe.")
        try:
            values = tomllib.loads(path.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise PdflowError(f"{path} is not a TOML file ({error}).") from error
        base = values.pop(BASE, None)
        found.append((path, values))
        if base is None:
            return found
        if not isinstance(base, str):
            raise PdflowError(f"{path}: base is {base!r}: give the name of a recipe.")
        path = _find(base, path.parent)


def _section(kind: type[Section], values: dict[str, Any], path: Path, name: str) -> Section:
    defaults = {f.name: f.default for f in fields(kind)}  # type: ignore[arg-type]
    for key, value in values.items():
        if (name, key) in MOVED:
            section, setting = MOVED[name, key]
            raise PdflowError(
                f"{path}: [{name}] {key} is now called [{section}] {setting}: move it there."
            )
        if key not in defaults:
            raise PdflowError(f"{path}: [{name}] has no setting {key!r}.")
        if isinstance(defaults[key], tuple) and isinstance(value, str):
            values = {**values, key: [value]}  # one name is short for a list of one
        elif not _fits(value, defaults[key]):
            raise PdflowError(
                f"{path}: [{name}] {key} is {value!r}: give a value such as {defaults[key]!r}."
            )
    try:
        return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
    except PdflowError as error:
        raise PdflowError(f"{path}: {error}") from error


def _fits(value: Any, default: Any) -> bool:
    """Whether a TOML value has the type of the default; a default of None allows any."""
    if default is None:
        return True
    if isinstance(default, tuple):
        return isinstance(value, list) and all(_fits(v, d) for v in value for d in default[:1])
    if isinstance(default, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is type(default)


def _choose(setting: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise PdflowError(f"{setting} is {value!r}: choose one of {', '.join(allowed)}.")
