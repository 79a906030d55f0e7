"""Targets of the suites' tests: small, and some of them wrong or slow on purpose."""

from __future__ import annotations

import time


def two_answers():
    """A model that takes one input or two, and whose second answer follows from the first."""
    import torch

    class TwoAnswers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 4)

        def forward(self, left, right=None):
            answer = self.layer(left) if right is None else self.layer(left) - 2 * self.layer(right)
            return answer, answer.relu()

    return TwoAnswers()


def other_inputs_each_time(device):
    """Every request holds other numbers, and waits for them."""
    import torch

    def inputs():
        time.sleep(2e-3)
        return torch.randn(2, 8, device=device)

    return {"model": two_answers().to(device), "inputs": inputs}


def inputs_by_name(device):
    """Not in the order in which the model takes them."""
    import torch

    inputs = {"right": torch.randn(2, 8, device=device), "left": torch.randn(2, 8, device=device)}
    return {"model": two_answers().to(device), "inputs": inputs}


def good_kernel(device, size=0):
    import torch

    x = torch.randn(size or 4096, device=device)
    return {"run": lambda: x * 2 + 1, "bytes": 8.0 * x.numel(), "flops": 2.0 * x.numel(),
            "reference": lambda: x.double() * 2 + 1, "name": "axpb"}  # fmt: skip


def wrong_kernel(device):
    import torch

    x = torch.randn(64, device=device)
    return {"run": lambda: x * 2, "reference": lambda: x.double() * 2 + 1}


def plain_callable(device):
    import torch

    x = torch.randn(64, device=device)
    return lambda: x + 1


class Decoding:
    """Each sample computes for some milliseconds."""

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        import torch

        end = time.thread_time() + 0.004
        while time.thread_time() < end:
            pass
        return torch.zeros(4)


class Reading(Decoding):
    """Each sample waits for storage."""

    def __getitem__(self, index):
        import torch

        time.sleep(0.004)
        return torch.zeros(4)


class Ready(Decoding):
    def __getitem__(self, index):
        import torch

        return torch.zeros(4)


class Empty(Decoding):
    def __len__(self):
        return 0


def decoding():
    return Decoding()


def reading():
    return {"dataset": Reading()}


def empty():
    return [[]][0:0]


def slow_copies():
    """A copy whose time shows: on a machine without an accelerator nothing else does."""
    return {"dataset": Ready(), "copy": lambda batch, device: (time.sleep(0.1), batch)[1],
            "step": lambda batch: time.sleep(0.005)}  # fmt: skip


def ready_made_loader():
    from torch.utils.data import DataLoader

    return DataLoader(Ready(), batch_size=4)


def leaking_training(device):
    """Keeps 4 KiB a step."""
    import torch

    kept = []
    model = torch.nn.Linear(16, 16)

    def loss(model, batch):
        kept.append(torch.zeros(1024))
        return model(batch).sum()

    return {"model": model, "batch": torch.randn(4, 16), "loss": loss}


def quantised_badly(device):
    """One huge weight in each row: 8-bit steps of it swallow all the others."""
    import torch

    model = torch.nn.Linear(64, 64)
    with torch.no_grad():
        model.weight[:, 0] = 1e4
    inputs = torch.randn(4, 64)
    inputs[:, 0] = 0
    return {"model": model, "inputs": inputs}


def forgetful_engine(device):
    """Its cache loses the first token."""
    from groundspeed.plugins.models import generation

    parts = generation.gpt_small(device)
    prefill = parts["prefill"]
    return {**parts, "prefill": lambda cache, slot, tokens: prefill(cache, slot, tokens[1:] or tokens)}


def slow_on_rank_1(device, rank):
    import torch

    model = torch.nn.Linear(8, 8)

    def loss(model, batch):
        if rank == 1:
            time.sleep(0.15)
        return model(batch).sum()

    return {"model": model, "batch": torch.randn(2, 8), "loss": loss}


def step_of_a_millisecond():
    return lambda: time.sleep(1e-3)


def request_of_a_millisecond():
    return lambda: time.sleep(1e-3)


def own_product(device, size, off=0.0):
    import torch

    left, right = torch.randn(size, size, device=device), torch.randn(size, size, device=device)
    return {"run": lambda: left @ right + off, "left": left, "right": right}


def own_product_that_is_off(device, size):
    return own_product(device, size, off=1.0)


def no_product():
    return {"run": "one"}


def own_all_reduce(bytes, rank, world_size):  # noqa: A002 - as the suite calls it
    """A sum over two ranks by one exchange."""
    import torch
    import torch.distributed as dist

    mine, other = torch.full((bytes // 4,), float(rank + 1)), torch.empty(bytes // 4)
    peer = 1 - rank

    def run():
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, peer), dist.P2POp(dist.irecv, other, peer)]):
            work.wait()
        return mine + other

    def verify():
        assert bool((run() == world_size * (world_size + 1) / 2).all()), "not the sum"

    return {"run": run, "verify": verify}
