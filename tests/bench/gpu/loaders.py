"""Datasets made slow on purpose. Apart from the workloads: loader processes import this and must wait for no lane."""

from __future__ import annotations

import time

import torch
from torch.utils.data import Dataset

SHAPE = (3, 224, 224)


class Ready(Dataset):
    """Samples that are there already."""

    def __init__(self, shape=SHAPE):
        self.sample = torch.zeros(shape)

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        return self.sample


class Decoding(Ready):
    """As a JPEG of camera size: 8 ms of one CPU a sample."""

    def __getitem__(self, index):
        end = time.thread_time() + 8e-3
        while time.thread_time() < end:
            pass
        return self.sample


class Storage(Ready):
    """As an object store: 8 ms of waiting a sample."""

    def __getitem__(self, index):
        time.sleep(8e-3)
        return self.sample


def _step(device):
    """10 ms of work on the device, waited for."""
    if device == "cpu":
        return lambda batch: time.sleep(0.01)

    def step(batch):
        torch.cuda._sleep(int(0.01 * 1.9e9))
        torch.cuda.synchronize()

    return step


def ready_loader(device):
    return {"dataset": Ready(), "step": _step(device)}


def decoding(device):
    return {"dataset": Decoding(), "step": _step(device)}


def storage(device):
    return {"dataset": Storage(), "step": _step(device)}


def large_batches(device):
    """77 MB a batch of 32 and next to no work in making it: the copy is what there is."""
    return {"dataset": Ready((3, 448, 448)), "options": {"collate_fn": Collate()}}


class Collate:
    """Gives the same batch each time, in the page-locked memory that the loader copies it to or as it is."""

    batch = None

    def __call__(self, samples):
        if Collate.batch is None:
            Collate.batch = torch.stack(list(samples))
        return Collate.batch
