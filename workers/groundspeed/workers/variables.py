"""Which environment variables reach a build or a benchmark: a list of what may, never all but what may not. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

_ALWAYS = re.compile(r"^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TERM|TMPDIR)$")
_MACHINE = re.compile(
    r"^(LD_LIBRARY_PATH|CUDA_\w+|NVIDIA_\w+|NCCL_\w+|GLOO_\w+|TORCH_\w+|PYTORCH_\w+|TORCHINDUCTOR_\w+|TRITON_\w+|"
    r"OMP_\w+|MKL_\w+|OPENBLAS_\w+|KMP_\w+|GOMP_\w+|ROCM_\w+|ROCR_\w+|HIP_\w+|HSA_\w+|ONEAPI_\w+|ZE_\w+|SYCL_\w+|"
    r"CUBLAS_\w+|CUDNN_\w+|MALLOC_\w+|LD_PRELOAD|XDG_CACHE_HOME|HF_HOME|HF_HUB_OFFLINE|HF_DATASETS_CACHE)$"
)
_BUILD = re.compile(
    r"^(PIP_\w+|UV_\w+|CC|CXX|CFLAGS|CXXFLAGS|LDFLAGS|CPATH|LIBRARY_PATH|PKG_CONFIG_PATH|CMAKE_\w+|MAX_JOBS|"
    r"CARGO_HOME|RUSTUP_HOME|http_proxy|https_proxy|no_proxy|HTTP_PROXY|HTTPS_PROXY|NO_PROXY|SSL_CERT_\w+|"
    r"REQUESTS_CA_BUNDLE)$"
)
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_KEY|AUTH", re.IGNORECASE)


def base_variables(environ: Mapping[str, str], passed: Iterable[str] = ()) -> dict[str, str]:
    """For benchmarks: what describes the machine. Nothing whose name smells of a secret, unless it is in ``passed``."""
    return _select(environ, (_ALWAYS, _MACHINE), frozenset(passed))


def build_variables(environ: Mapping[str, str], passed: Iterable[str] = ()) -> dict[str, str]:
    """For builds: also package indexes, proxies and compilers."""
    return _select(environ, (_ALWAYS, _MACHINE, _BUILD), frozenset(passed))


def _select(environ: Mapping[str, str], allowed: Iterable[re.Pattern[str]], passed: frozenset[str]) -> dict[str, str]:
    patterns = tuple(allowed)
    return {
        name: value
        for name, value in environ.items()
        if name in passed or (any(p.match(name) for p in patterns) and not _SECRET.search(name))
    }


def with_python(variables: Mapping[str, str], environment: Path) -> dict[str, str]:
    """The build's own Python first on PATH."""
    path = variables.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    return {**variables, "PATH": f"{environment / 'bin'}:{path}", "VIRTUAL_ENV": str(environment)}
