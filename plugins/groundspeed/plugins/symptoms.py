"""What can be wrong with a node or a result, in one table: doctor's findings and the hints of results use its words.

``what`` is the finding in one line, ``why`` how it comes about and what it does to a measurement, ``cure`` what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]
"""error: unfit to measure on; warning: numbers will be worse or unsteady; note: good to know."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """One kind of trouble; ``code`` is its name for programs and never changes."""

    code: str
    severity: Severity
    what: str
    why: str
    cure: str


_ALL = (
    # --- driver and devices -------------------------------------------------------------------------------------------
    Symptom("no-driver", "error", "the NVIDIA driver does not answer",
            "the driver is not installed, its kernel module is not loaded (after a kernel update it must be built "
            "again), or a container was started without the devices",
            "look at `lsmod | grep nvidia` and `dmesg`; install or reinstall the driver and reboot; for a container "
            "use `--gpus all` or the NVIDIA runtime"),
    Symptom("driver-library-mismatch", "error", "the driver's kernel module and its library are of different versions",
            "the driver's packages were updated while the old module stayed loaded",
            "reboot, or stop everything that uses the GPUs and reload the modules (`rmmod nvidia_uvm nvidia_drm "
            "nvidia_modeset nvidia`, then `modprobe nvidia`); in a container, rebuild or restart it"),
    Symptom("nvml-missing", "error", "NVIDIA's management library (libnvidia-ml.so.1) cannot be loaded",
            "the driver's user-space part is not installed, or the container was started without the `utility` "
            "capability: clocks, power, errors and foreign processes cannot be seen",
            "install the driver's libraries, or set NVIDIA_DRIVER_CAPABILITIES=compute,utility for the container"),
    Symptom("nouveau", "error", "another kernel module (nouveau) owns the GPU",
            "the open driver took the device before NVIDIA's could",
            "blacklist nouveau (`echo blacklist nouveau > /etc/modprobe.d/blacklist-nouveau.conf`), rebuild the "
            "initramfs and reboot"),
    Symptom("no-device", "error", "the driver runs but lists no device",
            "the GPU has fallen off the bus or is not powered, is passed to a virtual machine, or the container was "
            "given none",
            "look at `lspci | grep -i nvidia` and the kernel log; reseat or power-cycle; give the container its "
            "device"),
    Symptom("device-hidden", "error", "CUDA_VISIBLE_DEVICES hides every device",
            "the variable is empty or names a device that is not there",
            "unset CUDA_VISIBLE_DEVICES, or set it to indices or UUIDs that `nvidia-smi -L` lists"),
    Symptom("device-lost", "error", "a GPU does not answer any more",
            "it has fallen off the bus or its firmware hangs: power, heat or a hardware fault",
            "take the node out of use and reboot it; if it comes back, have the GPU replaced"),
    Symptom("xid", "error", "the driver has reported a fault of a device (Xid)",
            "the kernel log holds the number; it stays in force until the device is reset",
            "drain the node, reset the GPU (`nvidia-smi --gpu-reset`) or reboot; if it comes back, have it replaced"),
    Symptom("xid-application", "note", "the driver has reported an error of a program (Xid)",
            "a program did something wrong on the device, such as an address out of bounds; the device itself is well",
            "look at the program named in the kernel log; nothing to do for the node"),
    Symptom("fabric", "error", "the NVSwitch fabric has reported a fault (SXid or fabric manager)",
            "collectives over the switches fail or slow down",
            "take the node out of use; look at the fabric manager's log; reset the switches or reboot"),
    Symptom("mig-on", "warning", "MIG is on: the device is divided",
            "an instance has a share of the device's units and memory, so its numbers compare only with those of the "
            "same profile",
            "`nvidia-smi -i N -mig 0` on an idle device, or keep the profile and name the class of hardware after it"),
    Symptom("ecc-errors", "error", "uncorrected ECC errors since the last reset",
            "memory of the device is bad: results may be wrong and processes die",
            "drain the node, reset the GPU, and have it replaced if they come back"),
    Symptom("row-remap-failed", "error", "remapping a memory row has failed",
            "the device has no spare rows left for a bad one", "have the GPU replaced"),
    Symptom("row-remap-pending", "warning", "a memory row waits to be remapped",
            "a bad row was found and stays in use until the next reset", "reset the GPU when the node is drained"),
    Symptom("other-processes", "warning", "other processes hold the device",
            "they take time and memory from what is measured, and every sample is rejected as contaminated",
            "stop them or wait for them (`nvidia-smi` lists them); give the worker a device of its own"),
    Symptom("leaked-memory", "warning", "device memory is in use by no process that can be seen",
            "a process died without its context being freed, or one in another container holds it",
            "look for processes on the host (`fuser -v /dev/nvidia*`); reset the GPU when it is idle"),
    Symptom("clocks-unlocked", "note", "the clocks are not locked",
            "the device picks its clock by load, power and heat, so time moves with them; Groundspeed keeps the clock "
            "beside each sample and never changes it by itself",
            "to lock: `nvidia-smi -lgc MHZ`; or gate on device-busy time and look at device_cycles"),
    Symptom("power-cap", "warning", "the power limit is below the device's default",
            "under load the clock is held down earlier than on other devices of its kind",
            "`nvidia-smi -pl DEFAULT`, or record the limit as part of the environment and compare within it"),
    Symptom("persistence-off", "note", "persistence mode is off",
            "the driver unloads between processes: the first use takes seconds and settings are lost",
            "`nvidia-smi -pm 1` or the nvidia-persistenced service"),
    Symptom("hot", "warning", "the device is hot at rest",
            "it starts too near the temperature at which it slows itself down",
            "look at fans, airflow and neighbours; the worker waits for it to cool, within bounds"),
    # --- software -----------------------------------------------------------------------------------------------------
    Symptom("torch-missing", "note", "PyTorch is not installed for this Python",
            "suites that use it are unsupported here", "install it into the stack that the worker offers"),
    Symptom("torch-cpu-build", "error", "this PyTorch is built for the CPU only, and there is a GPU",
            "the default wheel of some indexes has no CUDA, and then everything runs on the CPU",
            "reinstall torch from the index of your CUDA version (https://pytorch.org/get-started/locally)"),
    Symptom("torch-newer-than-driver", "error", "this PyTorch needs a newer driver",
            "it is built for a major version of CUDA that the driver does not have",
            "update the driver, or install a torch built for the driver's CUDA version"),
    Symptom("torch-wrong-vendor", "error", "this PyTorch is built for another maker's devices",
            "a ROCm build on an NVIDIA node or the other way round", "install the build for the devices that are here"),
    Symptom("torch-arch", "error", "this PyTorch has no code for the device's architecture",
            "it was built before the device came out, or support for it has ended",
            "install a newer torch (an older one for an old device), or build it with TORCH_CUDA_ARCH_LIST"),
    Symptom("torch-no-gpu", "error", "PyTorch sees no device although the driver lists one",
            "an environment variable hides it, /dev/nvidia-uvm is missing in the container, or CUDA fails to start",
            "run `python -c 'import torch; torch.cuda.init()'` and read its error; check CUDA_VISIBLE_DEVICES and "
            "/dev/nvidia-uvm"),
    Symptom("nccl-missing", "warning", "NCCL is missing",
            "this PyTorch has no NCCL, so collectives between GPUs are unsupported",
            "install a CUDA build of torch; its wheel brings NCCL"),
    Symptom("nccl-shadowed", "warning", "another NCCL is loaded than the one that PyTorch brought",
            "LD_LIBRARY_PATH or LD_PRELOAD puts a library of another version in front: it hangs, fails or is slower, "
            "and the version of record is wrong",
            "unset the variable or remove that library from the path; `python -c 'import torch; "
            "print(torch.cuda.nccl.version())'` tells which is in use"),
    Symptom("nccl-error", "error", "NCCL cannot do its work",
            "a port or interface is closed, a rank died, or shared memory ran out; the library's own log says which",
            "run again with NCCL_DEBUG=INFO; check NCCL_SOCKET_IFNAME, the firewall, and /dev/shm"),
    Symptom("launch-failed", "error", "the ranks of a job could not be started",
            "the launcher found no free port, or the fabric's service gave it no more of its resources: processes of "
            "an earlier job still hold them, or limits are low",
            "end what earlier jobs left on the nodes, wait for closed ports to be free, raise the limits of the "
            "fabric's service, and start again"),
    Symptom("collective-wrong", "error", "a collective gave wrong values",
            "a link or a device corrupts data, libraries of different versions meet, or a reduction overflowed",
            "repeat it between pairs of devices to find which; look at ECC errors and the kernel log, and drain the "
            "node that it names"),
    # --- host ---------------------------------------------------------------------------------------------------------
    Symptom("low-files", "warning", "few files may be open at once",
            "loader workers and ranks pass tensors through file descriptors and fail with `Too many open files`",
            "raise it: `ulimit -n 65536`, LimitNOFILE= in the service's unit, `--ulimit nofile=65536` for a container"),
    Symptom("low-shm", "warning", "shared memory (/dev/shm) is small",
            "loader workers and NCCL exchange data there and die with a bus error when it is full",
            "`--shm-size=16g` or `--ipc=host` for a container; otherwise remount /dev/shm with a larger size"),
    Symptom("few-cpus", "warning", "there are few CPUs for each device",
            "data loading and kernel launches compete for them, and the device waits",
            "give the node, container or cgroup more CPUs (four or more a device), or decode on the device"),
    Symptom("busy-host", "warning", "the host is busy with other work",
            "whatever the host drives varies with it: launches, loaders, wall time",
            "stop it, or pin the worker to CPUs of its own; gate on device-busy or calibrated CPU time"),
    Symptom("governor", "note", "the CPU's frequency governor saves power",
            "the clock follows the load, so short work is timed at a lower clock",
            "`cpupower frequency-set -g performance`"),
    Symptom("no-accelerator", "note", "this machine has no accelerator",
            "there is no device file of one: suites run on the CPU at reduced size",
            "nothing, if that is as it should be"),
    # --- results ------------------------------------------------------------------------------------------------------
    Symptom("out-of-memory", "error", "memory ran out",
            "batch or activations are too large, memory is fragmented, another process holds some, or it leaks",
            "look at peak_allocated, peak_reserved and growth_per_step of the memory suite; lower the batch size, turn "
            "on activation checkpointing, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
    Symptom("launch-bound", "note", "the host's launches decide, not the device",
            "kernels are shorter than the time it takes to launch them, so wall time measures the host",
            "capture the step in a CUDA graph or compile it, raise the batch size, or gate on device-busy time"),
    Symptom("input-bound", "warning", "the step waits for its data",
            "the loader is slower than the step",
            "more loader workers, pinned memory with non_blocking copies, prefetching, faster storage, or decoding on "
            "the device; the dataloader suite names which"),
    Symptom("power-capped", "note", "the power cap holds the clock down",
            "the device reaches its power limit under this load, so time follows power and temperature",
            "compare under the same limit; look at device_cycles"),
    Symptom("thermally-throttled", "warning", "heat slows the device",
            "it reached the temperature at which it lowers its own clock; those samples count as degraded",
            "look at fans, airflow and neighbours, and measure again when it is cool"),
    Symptom("contaminated", "warning", "another process used the device during the measurement",
            "its work is in the numbers; those samples are rejected",
            "give the worker a device of its own and measure again"),
    Symptom("host-late", "note", "the device had begun before the host had queued the row",
            "the host was held up while it launched, so the device may have waited for it within the sample, which "
            "counts as degraded",
            "give ranks CPUs of their own and stop what else runs on the host, or use launch=graph"),
    Symptom("unsteady", "note", "the workload never settled within the time for warming up",
            "its time still drifted or its spread still grew when samples were taken: caches, compilation, heat or a "
            "busy host",
            "raise warmup_max_s in [measure], and look at the clocks and the load beside the samples"),
    Symptom("tail-from-few", "note", "the 99th percentile rests on few requests",
            "of fewer than 1,000 the slowest percent are a handful, and one hiccup of the host moves the figure",
            "raise max_time_s in [measure] (serving: `seconds`, generation: `requests`), and do not gate on it"),
    Symptom("overloaded", "warning", "more requests arrive than are answered",
            "the queue grows without end, and latency is how long the run was",
            "lower the load, let batches be larger or wait shorter (queue_delay_s), or look at highest_load"),
    Symptom("leak", "warning", "memory that is allocated in a step stays allocated",
            "tensors are kept alive: losses gathered with their graph, caches without bound, hooks",
            "detach what is kept (`loss.item()`), and look for growing lists and caches"),
    Symptom("recompiles", "warning", "torch.compile compiles again while steps run",
            "a guard failed: shapes, flags or Python values change from step to step, and compiling is many times a "
            "step",
            "run with TORCH_LOGS=recompiles to see which guard; fix shapes, mark them dynamic, or warm up each"),
    Symptom("inaccurate", "error", "the reduced mode's answer differs too much from fp32",
            "outliers in activations or weights, a layer that does not bear the type, or a wrong scheme",
            "keep the first and last layers in higher precision, take a scale a channel, or another mode; tolerance "
            "says how much is allowed"),
    Symptom("poor-scaling", "warning", "several devices are far from as many times as fast as one",
            "collectives are not hidden behind computation, the batch of each device is small, the link is slow, the "
            "loader is shared, or one rank is slower",
            "look at exposed_communication_share and straggler_excess, and measure the link alone with collectives"),
    Symptom("hang", "error", "a process or rank stopped making progress",
            "a rank died, left the order of collectives or waits for a lock, a port or an interface is closed, or a "
            "loader's worker is gone; the stacks and the last collective of each rank say where",
            "look at the stacks beside the result, first at the rank whose last collective is the oldest; run again "
            "with NCCL_DEBUG=INFO; check firewall and interface between nodes, and that all run the same code"),
    Symptom("straggler", "warning", "one rank holds up the others",
            "its device is slower, shared or hot, or its part of the work is larger; all others wait for it in every "
            "collective",
            "look at the conditions of that rank's device (clocks, heat, other processes); measure it alone with gemm"),
    Symptom("communication-exposed", "note", "the devices wait for communication",
            "collectives are not hidden behind computation",
            "larger buckets or batches, gradient accumulation, overlap (DDP does it with the backward pass); measure "
            "the link alone with collectives"),
    Symptom("device-assert", "error", "a kernel failed on the device",
            "an index or address was out of bounds; what is reported later than the fault itself is a follow-up",
            "run again with CUDA_LAUNCH_BLOCKING=1 to see the line, or under compute-sanitizer"),
    Symptom("slow-decode", "warning", "making a sample takes most of the loader's time",
            "decoding and augmentation on the CPU are slower than the step",
            "more workers, a faster decoder (TurboJPEG, DALI), cached or smaller inputs, decoding on the device"),
    Symptom("slow-storage", "warning", "reading a sample takes most of the loader's time",
            "the loader waits for a disk or the network while the CPU idles",
            "more workers to have more reads under way, larger sequential files (WebDataset), a local cache"),
    Symptom("too-few-workers", "warning", "too few workers load the data",
            "one more worker would bring nearly its full share of samples",
            "raise num_workers up to the CPUs there are, and keep them (persistent_workers=True)"),
    Symptom("slow-copy", "warning", "copying a batch to the device takes long",
            "its memory is pageable, so that the copy goes through a staging buffer and the host waits for it",
            "pin_memory=True in the loader and non_blocking=True for the copy"),
)  # fmt: skip

SYMPTOMS = {symptom.code: symptom for symptom in _ALL}


def hint(code: str) -> str:
    """Explanation and cure in one sentence, as results carry them."""
    symptom = SYMPTOMS[code]
    return f"{symptom.why}. What to do: {symptom.cure}"


def as_dict(code: str) -> dict[str, str]:
    """A hint as a result keeps it."""
    symptom = SYMPTOMS[code]
    return {"code": code, "what": symptom.what, "why": symptom.why, "cure": symptom.cure}
