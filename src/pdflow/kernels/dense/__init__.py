"""Stacks of dense layers on the rows of a matrix, in one compiled pass on one core."""

from __future__ import annotations

from pdflow.kernels.dense.cpu import Dense as Dense
from pdflow.kernels.dense.tile import Array as Array
