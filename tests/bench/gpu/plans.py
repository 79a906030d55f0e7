"""The jobs of every line that has to be shown: what runs, with which parameters. No torch here: plans can be checked.

``small`` makes the same jobs for a machine without a GPU, to see that they run.
"""

from __future__ import annotations

HERE = "tests.bench.gpu.workloads"
MODELS = "groundspeed.plugins.models"
BUSY_S = 15.5e-3
"""Device-busy time of the GPT step on an H200: what the planted shares refer to; the trace says what was planted."""
SHORT = {"warmup_max_s": 0.8, "min_time_s": 0.25, "max_time_s": 0.5, "max_samples": 60}
TINY = {"warmup_max_s": 0.1, "min_time_s": 0.01, "max_time_s": 0.05, "max_samples": 10, "min_samples": 3}
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv")
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
    local = {f"{HERE}:gpt": f"{MODELS}.training:gpt_small", f"{HERE}:resnet50": f"{MODELS}.training:resnet_small",
             f"{HERE}:bert": f"{MODELS}.inference:bert_small", f"{HERE}:bert_graph": f"{MODELS}.inference:bert_small",
             f"{HERE}:memory_gpt": f"{MODELS}.training:gpt_small"}  # fmt: skip
    target = local.get(target, target)
    params = {key: value for key, value in one["params"].items() if key not in {"precision", "launch", "mode", "bytes"}}
    if one["plugin"] in {"inference", "memory"} and one["params"].get("mode") in {"inference", "training"}:
        params["mode"] = one["params"]["mode"]
    smaller = {"batch_size": 2, "size": 64, "max_bytes": 16384, "min_bytes": 4096, "length": 32, "seconds": 0.05,
               "seconds_per_size": 0.0, "requests": 3, "samples": 5, "batches": 3}  # fmt: skip
    params = {key: smaller.get(key, value) for key, value in params.items()}
    return {**one, "target": target, "params": params, "limits": TINY}


def same(kinds=None):
    """One process of each kind that an A/A needs; the caller repeats and turns the order."""
    fp16 = {"precision": "fp16"}
    latency = {**SHORT, "max_time_s": 0.6}
    found = [
        job("gemm", "gemm", f"{HERE}:gpt", {"precision": "bf16"}, {**SHORT, "max_time_s": 1.0}),
        job("resnet50", "training", f"{HERE}:resnet50", {"precision": "bf16", "batch_size": 64, "channels_last": True}),
        job("gpt", "training", f"{HERE}:gpt", {"precision": "bf16"}),
        job("bert eager", "inference", f"{HERE}:bert", {}, latency),
        job("bert graph", "inference", f"{HERE}:bert_graph", {**fp16, "mode": "graph"}, latency),
        job("memory", "memory", f"{HERE}:memory_gpt", {"batch_size": 8}),
    ]
    return [one for one in found if kinds is None or one["tag"] in kinds]


def same_collectives():
    params = {"collective": "all_reduce", "min_bytes": 8192, "max_bytes": 64 << 20, "factor": 8192, "samples": 30,
              "seconds_per_size": 0.1}  # fmt: skip
    return [job("collectives", "collectives", None, params)]


def delays(number):
    """GPT without and with a planted delay on the device; every third time one on the host."""

    def gpt(tag, **env):
        return job(tag, "training", f"{HERE}:gpt", {"precision": "bf16"}, env=env)

    one = [gpt("gpt +0 %")]
    one += [gpt(f"gpt +{share} %", GS_DELAY_S=BUSY_S * share / 100) for share in DELAYS]
    if number % 3 == 0:
        one.append(gpt("gpt host +3 ms", GS_HOST_DELAY_S=3e-3))
    return one if number % 2 == 0 else one[::-1]


def more():
    """The default run of every suite of bandwidth, attention, kernels, loading, programs, serving and generation."""
    found = [job(f"memory-bandwidth {name}", "memory-bandwidth", None, {"operation": name})
             for name in ("copy", "read", "write", "triad", "host_to_device", "device_to_host")]  # fmt: skip
    found.append(job("memory-bandwidth pageable", "memory-bandwidth", None,
                     {"operation": "host_to_device", "host_memory": "pageable"}))  # fmt: skip
    found.append(job("gemm bf16", "gemm", None, {"precision": "bf16"}, {**SHORT, "max_time_s": 1.0}))
    found += [job(f"attention {backend}", "attention", None, {"backend": backend, "direction": "both"})
              for backend in ("flash", "efficient", "cudnn", "math")]  # fmt: skip
    found += [job(f"kernel {variant}", "kernel", f"{MODELS}.kernels:layernorm_gelu",
                  {"variant": variant, "precision": "bf16", "tolerance": 0.02})
              for variant in ("unfused", "triton")]  # fmt: skip
    found.append(
        job("dataloader", "dataloader", "tests.bench.gpu.loaders:ready_loader", {"workers": 4, "seconds": 1.5})
    )
    found.append(job("command", "command", None, {"command": "{python} -c pass", "runs": 10}))
    found.append(job("serving", "serving", f"{MODELS}.inference:bert_base", {"precision": "fp16", "seconds": 3.0}))
    found.append(job("generation", "generation", f"{MODELS}.generation:gpt", {"precision": "bf16"}))
    return found


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
            for rows in (1024, 16384, 65536) for variant in ("unfused", "compile", "triton")]  # fmt: skip


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


def collectives(world):
    """All six operations over the whole sweep, for the comparison with NCCL's own loop."""
    return [job(f"{name} x{world}", "collectives", None,
                {"collective": name, "world_size": world, "factor": 2 if name == "all_reduce" else 8,
                 "seconds_per_size": 0.1}, devices=tuple(map(str, range(world))), timeout_s=240.0)
            for name in COLLECTIVES]  # fmt: skip


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
    found = same() + same_collectives() + delays(0) + more() + attention() + kernels() + loaders()
    for world in (2, 4, 8):
        found += collectives(world) + scaling(world)
    return found
