"""The first convolution of images computes what torch's does on scaled pixels, with its gradients."""

from __future__ import annotations

import pytest
import torch
from maze_models.convolution import convolve_image
from torch.nn import functional as F


def pictures(rows: int, channels: int, height: int, width: int, *, channels_last: bool, floats: bool) -> torch.Tensor:
    shape = (rows, height, width, channels) if channels_last else (rows, channels, height, width)
    image = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    image = image / 255 if floats else image
    return image.permute(0, 3, 1, 2) if channels_last else image


@pytest.mark.parametrize(("channels_last", "floats"), [(False, True), (True, False)])
@pytest.mark.parametrize(
    ("channels", "height", "width", "kernel", "stride", "padding"),
    [(4, 84, 84, 8, 4, 0), (1, 40, 36, 8, 4, 0), (3, 36, 50, 8, 4, 0), (3, 12, 20, 4, 2, 0), (2, 9, 8, 3, 2, 1)],
)
def test_convolution_and_gradients_are_those_of_torch(
    channels, height, width, kernel, stride, padding, floats, channels_last
):
    image = pictures(3, channels, height, width, channels_last=channels_last, floats=floats)
    torch.manual_seed(2)
    layer = torch.nn.Conv2d(channels, 6, kernel, stride, padding)
    scale = None if floats else 1 / 255
    twin = [p.detach().double().requires_grad_() for p in layer.parameters()]
    expected = F.conv2d(image.double() * (scale or 1), *twin, stride, padding)
    expected.square().sum().backward()
    found = convolve_image(image, layer, scale)
    found.square().sum().backward()
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)
    for parameter, reference in zip(layer.parameters(), twin, strict=True):
        torch.testing.assert_close(parameter.grad.double(), reference.grad, atol=1e-3, rtol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(convolve_image(image, layer, scale), found, atol=1e-5, rtol=1e-5)


def test_rows_that_begin_in_the_middle_of_a_word():
    """Words of four bytes can be read only from addresses that four divides."""
    memory = torch.randint(0, 256, (1 + 2 * 36 * 36,), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    image = memory[1:].view(2, 1, 36, 36)
    layer = torch.nn.Conv2d(1, 4, 8, 4)
    expected = F.conv2d(image / 255, layer.weight, layer.bias, 4)
    torch.testing.assert_close(convolve_image(image, layer, 1 / 255), expected, atol=1e-5, rtol=1e-5)


def test_nothing_to_convolve():
    layer = torch.nn.Conv2d(4, 8, 8, 4)
    assert convolve_image(torch.zeros(0, 4, 84, 84, dtype=torch.uint8), layer, 1 / 255).shape == (0, 8, 20, 20)
