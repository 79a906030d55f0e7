"""NCCL's collectives timed as nccl-tests times them, through ctypes: for machines without a compiler.

One process, one communicator a device (ncclCommInitAll), every operation of all devices in one group; five untimed and
twenty timed operations between two events on device 0's stream, out of place, as ``all_reduce_perf -g N`` does.
``python3 -m tests.bench.gpu.nccl_by_hand OUT DEVICES MIN_BYTES MAX_BYTES FACTOR COLLECTIVE …``.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

import torch

WARMUPS, TIMED, REPEATS = 5, 20, 3
FLOAT, SUM = 7, 0


def library():
    """The NCCL that torch has loaded."""
    torch.cuda.init()
    torch.cuda.nccl.version()
    maps = Path("/proc/self/maps").read_text()
    paths = [line.split()[-1] for line in maps.splitlines() if "libnccl.so" in line]
    return ctypes.CDLL(paths[0] if paths else "libnccl.so.2")


class Group:
    """Communicators, streams and buffers of one size on every device."""

    def __init__(self, nccl, world):
        self.nccl, self.world = nccl, world
        self.comms = (ctypes.c_void_p * world)()
        self.check(nccl.ncclCommInitAll(self.comms, world, (ctypes.c_int * world)(*range(world))))
        self.streams = [torch.cuda.Stream(device=index) for index in range(world)]

    def check(self, code):
        if code != 0:
            self.nccl.ncclGetErrorString.restype = ctypes.c_char_p
            raise RuntimeError(f"NCCL: {self.nccl.ncclGetErrorString(code).decode()}")

    def buffers(self, size):
        """Of the whole size on every device; a collective uses as much of each as nccl-tests counts."""
        self.sent = [torch.zeros(max(size // 4, self.world), device=f"cuda:{index}") for index in range(self.world)]
        self.got = [torch.zeros_like(one) for one in self.sent]

    def run(self, name, count):
        nccl = self.nccl
        self.check(nccl.ncclGroupStart())
        for index in range(self.world):
            comm, stream = ctypes.c_void_p(self.comms[index]), ctypes.c_void_p(self.streams[index].cuda_stream)
            sent, got = ctypes.c_void_p(self.sent[index].data_ptr()), ctypes.c_void_p(self.got[index].data_ptr())
            part = ctypes.c_size_t(count // self.world)
            if name == "all_reduce":
                self.check(nccl.ncclAllReduce(sent, got, ctypes.c_size_t(count), FLOAT, SUM, comm, stream))
            elif name == "all_gather":
                self.check(nccl.ncclAllGather(sent, got, part, FLOAT, comm, stream))
            elif name == "reduce_scatter":
                self.check(nccl.ncclReduceScatter(sent, got, part, FLOAT, SUM, comm, stream))
            elif name == "broadcast":
                self.check(nccl.ncclBroadcast(sent, got, ctypes.c_size_t(count), FLOAT, 0, comm, stream))
            elif name == "send_recv":
                after, before = (index + 1) % self.world, (index - 1) % self.world
                self.check(nccl.ncclSend(sent, ctypes.c_size_t(count), FLOAT, after, comm, stream))
                self.check(nccl.ncclRecv(got, ctypes.c_size_t(count), FLOAT, before, comm, stream))
            else:
                step = 4 * (count // self.world)
                for peer in range(self.world):
                    place = ctypes.c_void_p(self.sent[index].data_ptr() + peer * step)
                    self.check(nccl.ncclSend(place, part, FLOAT, peer, comm, stream))
                    place = ctypes.c_void_p(self.got[index].data_ptr() + peer * step)
                    self.check(nccl.ncclRecv(place, part, FLOAT, peer, comm, stream))
        self.check(nccl.ncclGroupEnd())

    def seconds(self, name, size):
        count = max(size // 4 // self.world, 1) * self.world
        for _ in range(WARMUPS):
            self.run(name, count)
        found = []
        for _ in range(REPEATS):
            for index in range(self.world):
                torch.cuda.synchronize(index)
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record(self.streams[0])
            for _ in range(TIMED):
                self.run(name, count)
            end.record(self.streams[0])
            end.synchronize()
            found.append(begin.elapsed_time(end) * 1e-3 / TIMED)
        return sorted(found)[len(found) // 2]


def main(out, world, minimum, maximum, factor, *names):
    from groundspeed.plugins.distributed.sweep import bus_factor, sizes

    world = int(world)
    group = Group(library(), world)
    with Path(out).open("a") as file:
        for size in sizes(int(minimum), int(maximum), int(factor)):
            group.buffers(size)
            for name in names:
                seconds = group.seconds(name, size)
                line = {"collective": name, "ranks": world, "bytes": size, "seconds": seconds,
                        "bus_bandwidth": size / seconds * bus_factor(name, world)}  # fmt: skip
                file.write(json.dumps(line) + "\n")
                file.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
