"""Work beside other work gives what it gives in line."""

from __future__ import annotations

import torch

from pdflow.train.compute.streams import Beside


def test_work_beside_gives_the_same() -> None:
    x = torch.randn(4, requires_grad=True)
    with Beside(x) as branch:
        y = x.square()
    z = 3 * x
    branch.join(y)
    (y + z).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach() + 3)
