from __future__ import annotations

from pdflow.errors import PdflowError


def test_words_that_no_name_is_as_long_as_are_shortened() -> None:
    sentence = str(PdflowError(f"scan.pcd: WIDTH is {'9' * 400}: it is damaged."))
    assert sentence == f"scan.pcd: WIDTH is {'9' * 60}... it is damaged."


def test_long_paths_stay_whole() -> None:
    path = "/".join(["folder" * 10] * 10)
    assert str(PdflowError(f"{path} is empty.")) == f"{path} is empty."
