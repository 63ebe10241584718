"""Choice of a device."""

from __future__ import annotations

import pytest
import torch

from pdflow.device import best_device, using_device
from pdflow.errors import PdflowError


def test_the_best_device_can_be_used() -> None:
    assert torch.zeros(1, device=best_device()).device.type == best_device()


@pytest.mark.parametrize("device", ["abacus", "cuda:99"])
def test_a_device_that_cannot_be_used_gives_one_sentence(device: str) -> None:
    sentence = f"Device '{device}' cannot be used .+choose cpu"
    with pytest.raises(PdflowError, match=sentence) as info, using_device(device):
        torch.zeros(1, device=device)
    assert "\n" not in str(info.value)
