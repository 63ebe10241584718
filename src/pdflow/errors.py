"""Errors for users: one sentence with what was wrong, where, and what to do."""

from __future__ import annotations


class PdflowError(Exception):
    """Bad input or bad usage; the message is one sentence for the user (exit code 2)."""


class MissingExtraError(PdflowError):
    """An optional dependency is not installed; the message names the extra to install."""


class LossWarning(UserWarning):
    """A target format cannot hold something; the message names everything it leaves out."""
