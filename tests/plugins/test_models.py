"""The reference models beside those of torchvision and transformers, where these are installed."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "package"),
    [("resnet", "torchvision"), ("vit", "torchvision"), ("bert", "transformers"), ("gpt", "transformers")],
)
def test_the_same_weights_give_the_same_answers(name, package):
    """In single precision, on random inputs: to the rounding of its sums."""
    pytest.importorskip(package, exc_type=ImportError)
    from tests.bench.gpu import models_agree

    with torch.inference_mode():
        assert getattr(models_agree, name)() < 1e-5
