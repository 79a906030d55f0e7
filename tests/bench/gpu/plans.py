"""The jobs of every line that has to be shown: what runs, with which parameters. No torch here: plans can be checked.

``small`` makes the same jobs for a machine without a GPU, to see that they run.
"""

from __future__ import annotations

from dataclasses import asdict

from groundspeed.plugins.protocol import Limits

LIMITS = asdict(Limits())
HERE = "tests.bench.gpu.workloads"
MODELS = "groundspeed.plugins.models"
BUSY_S = 9e-3
"""Device-busy time of the GPT step, where it could not be measured first; the trace says what was planted."""
SHORT = {"warmup_max_s": 0.8, "min_time_s": 0.25, "max_time_s": 0.5, "max_samples": 1000, "profile_time_s": 0.25}
"""Of a pool: it is the number of processes that decides, not the length of each."""
TINY = {"warmup_max_s": 0.1, "min_time_s": 0.01, "max_time_s": 0.05, "max_samples": 10, "min_samples": 3}
ROUNDS, MORE_PAIRS = 24, 36
"""Of the planted delays: processes of each, and further pairs without and with 0.5 %, for twenty blocks of three."""
MORE_ROUNDS, MORE_OTHERS = 12, {1, 4, 7, 10}
"""Of the further suites: six pairs on one device or three on each of two, and the rounds that hold the other variants."""
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv")
COLLECTIVE_PROCESSES = 8
DELAYS = (0.2, 0.5, 1.0)


def job(tag, plugin, target=None, params=None, limits=None, **more):
    return {"tag": tag, "plugin": plugin, "target": target, "params": params or {}, "limits": limits or SHORT, **more}


def shrunk(one):
    """The same job on a CPU: small models, short limits."""
    target = one["target"]
    swaps = {"training:gpt": "training:gpt_small", "training:resnet50": "training:resnet_small",
             "inference:bert_base": "inference:bert_small", "generation:gpt": "generation:gpt_small"}  # fmt: skip
    for name, other in swaps.items():
        if target == f"{MODELS}.{name}":
            target = f"{MODELS}.{other}"
    local = {f"{HERE}:gpt": f"{HERE}:gpt_small", f"{HERE}:resnet50": f"{MODELS}.training:resnet_small",
             f"{HERE}:memory_gpt": f"{MODELS}.training:gpt_small"}  # fmt: skip
    target = local.get(target, target)
    params = {
        key: value
        for key, value in one["params"].items()
        if key not in {"precision", "launch", "mode", "bytes", "buffers"}
    }
    if one["plugin"] in {"inference", "memory"} and one["params"].get("mode") in {"inference", "training"}:
        params["mode"] = one["params"]["mode"]
    smaller = {"batch_size": 2, "size": 64, "max_bytes": 16384, "min_bytes": 4096, "length": 32, "seconds": 0.05,
               "seconds_per_size": 0.0, "requests": 3, "samples": 5, "batches": 3}  # fmt: skip
    params = {key: smaller.get(key, value) for key, value in params.items()}
    return {**one, "target": target, "params": params, "limits": TINY}


def same(kinds=None):
    """One process of each kind that an A/A needs; the caller repeats and turns the order."""
    quick = {**SHORT, "warmup_max_s": 0.6}
    bf16 = {"precision": "bf16"}
    found = [
        job("gemm", "gemm", None, bf16, {**SHORT, "min_time_s": 1.0, "max_time_s": 1.0, "profile_time_s": 0.5}),
        job("resnet50", "training", f"{HERE}:resnet50", {**bf16, "batch_size": 32, "channels_last": True}),
        job("gpt", "training", f"{HERE}:gpt", bf16),
        job("bert eager", "inference", f"{HERE}:bert", {}),
        job("bert graph", "inference", f"{MODELS}.inference:bert_base", {"precision": "fp16", "mode": "graph"}),
        job("memory", "memory", f"{HERE}:memory_gpt", {"batch_size": 8}),
    ]
    none = {"GS_HABITS": ""}  # habits of other tools are shown with the planted delays
    found = [{**one, "env": none, "limits": SHORT if one["tag"] == "gemm" else quick} for one in found]
    return [one for one in found if kinds is None or one["tag"] in kinds]


def overhead():
    """Each suite as it runs by default, with the core's own limits: what its turns are spent on.

    The first of a lane is started alone: there is no process before it that measures while it imports.
    """
    bf16, whole = {"precision": "bf16"}, dict(LIMITS)
    found = [
        job("gemm, started alone", "gemm", None, bf16),
        job("memory-bandwidth read", "memory-bandwidth", None, {"operation": "read"}),
        job("gemm", "gemm", None, bf16),
        job("training gpt", "training", f"{MODELS}.training:gpt", bf16),
        job("training resnet50", "training", f"{MODELS}.training:resnet50", {**bf16, "batch_size": 64}),
        job("training gpt graph", "training", f"{MODELS}.training:gpt", {**bf16, "mode": "graph"}),
        job("inference eager", "inference", f"{MODELS}.inference:bert_base", {"precision": "fp16"}),
        job("inference graph", "inference", f"{MODELS}.inference:bert_base", {"precision": "fp16", "mode": "graph"}),
        job("memory", "memory", f"{MODELS}.training:gpt", {}),
        job("memory-bandwidth", "memory-bandwidth", None, {}),
        job("attention", "attention", None, {}),
        job("kernel", "kernel", f"{MODELS}.kernels:layernorm_gelu", {"variant": "unfused"}),
        job("dataloader", "dataloader", "tests.bench.gpu.loaders:ready_loader", {"workers": 4}),
    ]
    return [{**one, "limits": whole} for one in found]


def same_collectives():
    params = {"collective": "all_reduce", "min_bytes": 8192, "max_bytes": 64 << 20, "factor": 8192, "samples": 30,
              "seconds_per_size": 0.1}  # fmt: skip
    return [job("collectives", "collectives", None, params)]


def turned(rounds):
    """Half of the rounds backwards, so that what drifts meets all of a round alike: on one device, and on each of two."""
    return [one[::-1] if number % 4 in {1, 2} else one for number, one in enumerate(rounds)]


def gpt_delayed(tag, **env):
    return job(tag, "training", f"{HERE}:gpt", {"precision": "bf16"}, env=env)


def calibration():
    """What a step takes, before anything is planted."""
    return gpt_delayed("gpt calibration")


def delays(busy_s=BUSY_S):
    """GPT without and with a planted delay on the device, and one on the host: whole rounds, then pairs for more blocks."""
    planted = {share: gpt_delayed(f"gpt +{share} %", GS_DELAY_S=busy_s * share / 100) for share in DELAYS}
    whole = [gpt_delayed("gpt +0 %"), *planted.values(), gpt_delayed("gpt host +3 ms", GS_HOST_DELAY_S=3e-3)]
    pair = [gpt_delayed("gpt +0 %"), planted[0.5]]
    rounds = [whole] * ROUNDS + [pair] * MORE_PAIRS
    return turned(rounds)


def more():
    """Rounds of the further suites: six pairs of each suite's default run, and some of its other parameters."""
    bf16 = {"precision": "bf16"}
    fused = {"variant": "triton", "precision": "bf16", "tolerance": 0.02}
    core = [
        job("memory-bandwidth copy", "memory-bandwidth", None, {"operation": "copy"}),
        job("memory-bandwidth host_to_device", "memory-bandwidth", None, {"operation": "host_to_device"}),
        job("attention flash", "attention", None, {"backend": "flash", "direction": "both"}),
        job("kernel triton", "kernel", f"{MODELS}.kernels:layernorm_gelu", fused),
        job("dataloader", "dataloader", "tests.bench.gpu.loaders:ready_loader", {"workers": 4, "seconds": 1.0}),
        job("command", "command", None, {"command": "{python} -c pass", "runs": 10}),
    ]
    others = [job(f"memory-bandwidth {name}", "memory-bandwidth", None, {"operation": name})
              for name in ("read", "write", "triad", "device_to_host")]  # fmt: skip
    others.append(job("memory-bandwidth pageable", "memory-bandwidth", None,
                      {"operation": "host_to_device", "host_memory": "pageable"}))  # fmt: skip
    others.append(job("gemm bf16", "gemm", None, bf16, {**SHORT, "max_time_s": 1.0}))
    others += [job(f"attention {backend}", "attention", None, {"backend": backend, "direction": "both"})
               for backend in ("efficient", "cudnn", "math")]  # fmt: skip
    others.append(job("kernel unfused", "kernel", f"{MODELS}.kernels:layernorm_gelu", {**fused, "variant": "unfused"}))
    others.append(job("serving", "serving", f"{MODELS}.inference:bert_base", {"precision": "fp16", "seconds": 2.0}))
    others.append(job("generation", "generation", f"{MODELS}.generation:gpt", bf16))
    return turned([[*core, *(others if number in MORE_OTHERS else [])] for number in range(MORE_ROUNDS)])


def attention():
    """Every backend over lengths, head sizes, masks and directions; what a backend cannot run is part of the table."""
    found = []
    for backend in ("flash", "efficient", "cudnn", "math"):
        for length in (512, 4096, 16384):
            if backend == "math" and length > 4096:
                continue
            for causal in (True, False):
                params = {"backend": backend, "length": length, "causal": causal, "direction": "both"}
                found.append(
                    job(f"attention {backend} {length} {'causal' if causal else 'full'}", "attention", None, params)
                )
        for head_size, dtype in ((64, "fp16"), (256, "bf16"), (512, "bf16"), (128, "fp32")):
            params = {
                "backend": backend,
                "length": 1024,
                "head_size": head_size,
                "dtype": dtype,
                "direction": "forward",
            }
            found.append(job(f"attention {backend} head {head_size} {dtype}", "attention", None, params))
    return found


def kernels():
    return [job(f"kernel {variant} {rows}", "kernel", f"{MODELS}.kernels:layernorm_gelu",
                {"variant": variant, "size": rows, "precision": "bf16", "tolerance": 0.02})
            for rows, variants in ((16384, ("unfused", "triton", "compile")), (1024, ("unfused", "triton")),
                                   (65536, ("unfused", "triton"))) for variant in variants]  # fmt: skip


def loaders():
    """Loaders made slow on purpose; what each must be named as."""
    base = {"batch_size": 32, "seconds": 2.0}
    return [
        job("slow-decode", "dataloader", "tests.bench.gpu.loaders:decoding", {**base, "workers": 4, "cpus": 4}),
        job("slow-storage", "dataloader", "tests.bench.gpu.loaders:storage", {**base, "workers": 4}),
        job("too-few-workers", "dataloader", "tests.bench.gpu.loaders:decoding", {**base, "workers": 1}),
        job(
            "slow-copy", "dataloader", "tests.bench.gpu.loaders:large_batches", {**base, "workers": 0, "step_s": 0.001}
        ),
        job(
            "none",
            "dataloader",
            "tests.bench.gpu.loaders:large_batches",
            {**base, "workers": 0, "pin_memory": True, "step_s": 0.4},
        ),
    ]


def wrong():
    """What goes wrong, each followed by a clean run of the same kind on the same device."""
    found = []
    for name in ("out_of_memory", "crash", "bad_kernel", "hang"):
        found.append(job(name, "training", f"{HERE}:{name}", timeout_s=12.0 if name == "hang" else 60.0))
        found.append(job(f"clean after {name}", "training", f"{HERE}:steady"))
    return found


def contaminated():
    """Beside another process that loads the device, and once that is gone."""
    return [job("contaminated", "training", f"{HERE}:steady")], [
        job("clean after contaminated", "training", f"{HERE}:steady")
    ]


def collectives(world):
    """All six operations over the whole sweep, for the comparison with nccl-tests."""
    return [collective(name, world) for name in COLLECTIVES]


def otherwise(world):
    """The same in buffers that NCCL knows, and one launched in the other ways."""
    registered = [collective(name, world, buffers="registered") for name in COLLECTIVES]
    return [*registered, *(collective("all_reduce", world, launch=launch) for launch in ("graph", "eager"))]


def collective(name, world, **more):
    params = {"collective": name, "world_size": world, "factor": 2, "seconds_per_size": 0.1, **more}
    return job(f"{name} x{world}", "collectives", None, params, devices=tuple(map(str, range(world))), timeout_s=240.0)


def scaling(world):
    found = []
    for parallel in ("ddp", "fsdp"):
        for name, batch in (("gpt", 8), ("resnet50", 64)):
            params = {"parallel": parallel, "world_size": world, "precision": "bf16", "batch_size": batch}
            found.append(job(f"{name} {parallel} x{world}", "distributed-training", f"{MODELS}.training:{name}", params,
                             devices=tuple(map(str, range(world))), timeout_s=240.0))  # fmt: skip
    return found


def everything():
    """Every job of every line, for the check that plugins take them."""
    found = [*same(), *overhead(), calibration(), *same_collectives(), *attention(), *kernels(), *loaders(), *wrong()]
    found += [one for jobs in (*delays()[:3], *more()[:2]) for one in jobs]
    for world in (2, 4, 8):
        found += collectives(world) + otherwise(world) + scaling(world)
    return found
