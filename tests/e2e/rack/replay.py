"""A self-timed plugin that replays recorded GPU noise with planted effects of node, device, settings and driver.

Everything follows from the machine's capture (which driver, which settings), the planted truth, and which process it
is: the same run measured again gives the same number.
"""

import json
import os
import random
import re
from pathlib import Path

from groundspeed.plugins.spi import Direction, Kind, Measured, Metric, Needs


class _Replay:
    version = "1"
    timing = "self-timed"
    params = ()

    def __init__(self, name, metric, unit, level, devices):
        self.name, self.metric, self.unit, self.level = name, metric, unit, level
        self.description = f"Replays {metric}"
        self.needs = Needs(devices=devices, target=False)

    def metrics(self):
        return (Metric(self.metric, self.unit, Direction.HIGHER, Kind.RATE, "Replayed."),)

    def run(self, context):
        context.progress("replaying")
        folder, node = Path(os.environ["RACK_FOLDER"]), os.environ["RACK_NODE"]
        capture = (folder / f"{node}.xml").read_text()
        truth = json.loads((folder / "truth.json").read_text())
        driver = re.search(r"<driver_version>(.*?)<", capture)[1]
        devices = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        factor = 1 - truth["devices"].get(f"{self.name}/{devices}", 0.0)
        factor *= 1 - truth["drivers"].get(f"{self.name}/{node}/{driver}", 0.0)
        if "<persistence_mode>Disabled" in capture:
            factor *= 1 - truth["settings"].get(self.name, 0.0)
        place = f"{node}/{devices}/{self.name}"
        own = random.Random(place).gauss(0.0, truth["nodes"])
        # A fresh process draws a fresh number, as a real one does; yet each test run draws the same ones.
        number = _number(folder / "processes", f"{place}/{driver}")
        noise = random.Random(f"{place}/{driver}/{number}").choice(truth["noise"][self.name])
        yield Measured(self.metric, [self.level * factor * (1 + own + noise)] * 3)


def _number(folder, place):
    """How many processes there were before this one in the same place."""
    folder.mkdir(exist_ok=True)
    number = 0
    while True:
        try:
            (folder / f"{place.replace('/', ' ')} {number}").touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return number


COMPUTE = _Replay("rack_compute", "throughput", "samples/s", 1000.0, 1)
FABRIC = _Replay("rack_fabric", "bus_bandwidth", "B/s", 3.6e11, 2)
