"""The nodes of a job that runs on several, as torchrun names them in the environment; without a word: one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Nodes:
    """``rank`` of this node among ``count``; ``meeting`` is empty on a node that is alone."""

    count: int = 1
    rank: int = 0
    meeting: str = ""

    @classmethod
    def here(cls, environ: Mapping[str, str] = os.environ) -> Nodes:
        count = int(environ.get("GROUP_WORLD_SIZE") or 1)
        if count < 2:
            return cls()
        meeting = f"tcp://{environ['MASTER_ADDR']}:{environ['MASTER_PORT']}"
        return cls(count, int(environ["GROUP_RANK"]), meeting)

    def ranks(self, world_size: int) -> range:
        """The ranks that run here, of all; raises ValueError where they cannot be shared out evenly."""
        each, rest = divmod(world_size, self.count)
        if rest or not each:
            raise ValueError(f"{world_size} ranks cannot be shared out evenly among {self.count} nodes")
        return range(self.rank * each, (self.rank + 1) * each)
