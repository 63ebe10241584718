"""Answers that are no success: a status of HTTP and one sentence."""

from __future__ import annotations


class Refusal(Exception):
    """Something that the server does not do; the page shows the sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence
