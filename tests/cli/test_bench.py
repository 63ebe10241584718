"""`pdflow bench`: what it refuses before any work."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("puset",), "puset needs data: add --data DIR."),
        (("report",), "A report needs an output file: add --docs FILE.md."),
        (("puset", "--data", ".", "--docs", "x.md"), "--docs belongs to `pdflow bench report`"),
        (("puset", "--data", ".", "--points", "many"), "--points is 'many': give numbers"),
        (("puset", "--data", ".", "--levels", "low"), "--levels is 'low': give numbers"),
        (("puset", "--data", ".", "--methods", ","), "--methods is empty"),
    ],
)
def test_bad_usage_is_one_sentence(pdflow, words, sentence, tmp_path):
    done = pdflow("bench", *words, "-o", tmp_path)
    assert done.code == 2
    assert done.err.startswith(f"error: {sentence}")
    assert done.err.count("\n") == 1
    assert not list(tmp_path.iterdir())
