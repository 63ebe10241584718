"""Errors for users: one sentence with what was wrong, where, and what to do."""

from __future__ import annotations


class PdflowError(Exception):
    """Bad input or bad usage; the message is one sentence for the user (exit code 2).

    >>> import pdflow
    >>> try:
    ...     pdflow.read("missing.ply")
    ... except pdflow.PdflowError as error:
    ...     print(error)
    missing.ply does not exist: check the name.

    A word that is longer than any file name came out of a file, and is shortened.
    """

    def __init__(self, sentence: str = "") -> None:
        words = str(sentence).split(" ")
        super().__init__(
            " ".join(w if len(w) <= 255 or "/" in w else f"{w[:60]}..." for w in words)
        )


class MissingExtraError(PdflowError):
    """An optional dependency is not installed; the message names the extra to install."""


class LossWarning(UserWarning):
    """A target format cannot hold something; the message names everything it leaves out.

    Turn it into an error to write files only if they are complete:

    >>> import tempfile, warnings, pdflow
    >>> cloud = pdflow.PointCloud([[0, 0, 0]], metadata={"crs": "EPSG:25832"})
    >>> with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
    ...     warnings.simplefilter("error", pdflow.LossWarning)
    ...     try:
    ...         pdflow.write(f"{folder}/cloud.npy", cloud)
    ...     except pdflow.LossWarning:
    ...         print("nothing was written")
    nothing was written
    """


class ScaleWarning(UserWarning):
    """Patches are far smaller or larger than those that a network was trained on."""
