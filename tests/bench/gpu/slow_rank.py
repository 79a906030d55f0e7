"""Training targets of which one rank (GS_SLOW_RANK) works longer on its device, or on the host where there is none.

GS_SLOW_S: by how much a step, in seconds; where many ranks share few processors it must be more than they disturb
each other.
"""

from __future__ import annotations

import os
import time

import torch

from groundspeed.plugins.models import training

EXTRA_S = float(os.environ.get("GS_SLOW_S", "5e-3"))


def _slowed(made, rank, device):
    if rank == int(os.environ.get("GS_SLOW_RANK", "-1")):
        loss = made["loss"]

        def slow(model, batch):
            if device == "cpu":
                time.sleep(4 * EXTRA_S)
            else:
                torch.cuda._sleep(int(EXTRA_S * 1.98e9))
            return loss(model, batch)

        made["loss"] = slow
    return made


def gpt(device, batch_size=8, rank=0):
    return _slowed(training.gpt(device, batch_size), rank, device.partition(":")[0])


def gpt_small(device, batch_size=4, rank=0):
    return _slowed(training.gpt_small(device, batch_size), rank, device.partition(":")[0])
