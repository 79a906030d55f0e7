"""Builds: isolated, layered over the node's torch, cached by content, and never installing torch by themselves."""

from __future__ import annotations

import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundspeed.service.wire import v1
from groundspeed.workers import process
from groundspeed.workers.checkout import Checkout
from groundspeed.workers.dependencies import dependency_key
from groundspeed.workers.environment import BuildInterrupted, Environment, Environments
from groundspeed.workers.errors import BuildFailed
from groundspeed.workers.process import Command, Ended
from groundspeed.workers.stack import Distribution, Stack, closure, link_targets
from groundspeed.workers.variables import base_variables, build_variables

Build = Callable[..., Environment]


def make_wheel(folder: Path, name: str, version: str, body: str = "", requires: tuple[str, ...] = ()) -> None:
    """A pure wheel of one module that knows its version."""
    folder.mkdir(exist_ok=True)
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    meta = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(
        f"Requires-Dist: {r}\n" for r in requires
    )
    files = {
        f"{module}/__init__.py": body or f"__version__ = {version!r}\n",
        f"{info}/METADATA": meta,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{n},,\n" for n in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(path, text)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    make_wheel(folder, "numpy", "1.26.4")
    make_wheel(folder, "tool", "1.0")
    make_wheel(folder, "tool", "2.0")
    make_wheel(folder, "torch", "99.0")
    make_wheel(folder, "nvidia-nccl-cu12", "2.30")
    make_wheel(folder, "needs-new-torch", "1.0", requires=("torch>=99",))
    make_wheel(folder, "needs-nccl", "1.0", requires=("nvidia-nccl-cu12",))
    make_wheel(folder, "fits", "1.0", requires=("torch>=2", "numpy>=2"))
    return folder


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    home = tmp_path / "checkout"
    (home / "src").mkdir(parents=True)
    return Checkout(home, "0" * 40, "", (), fresh=True)


@pytest.fixture
def commands() -> list[str]:
    return []


@pytest.fixture
def build(tmp_path: Path, wheels: Path, stack: Stack, checkout: Checkout, commands: list[str]) -> Build:
    """Builds in the checkout from local wheels alone, and remembers what was run."""

    def run(command: Command) -> Ended:
        commands.append(command.argv[-1])
        return process.run(command, lambda *_: None)

    def go(*install: str, **changes: Any) -> Environment:
        variables = {
            **base_variables({"PATH": "/usr/bin:/bin"}),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels),
            "HOME": str(tmp_path),
        }
        spec = v1.BuildSpec(install=install, **changes)
        environments = Environments(tmp_path / "cache", stack, 2, threading.Event())
        with environments.use(spec, checkout, variables, run) as environment:
            return environment

    return go


def said(environment: Environment, code: str) -> str:
    done = subprocess.run([str(environment.python), "-P", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_without_install_commands_nothing_is_built_twice(build: Build, commands: list[str], stack: Stack) -> None:
    """One empty environment for all revisions; it sees the node's torch and none of the worker's packages."""
    first = build()
    second = build()
    assert (first.home, commands) == (second.home, [])
    code = "import importlib.metadata as m; print(m.version('torch'), sorted(d.name for d in m.distributions()))"
    seen = said(first, code)
    assert seen.startswith(str(stack.torch))
    assert "celery" not in seen
    assert "groundspeed" not in seen
    assert "celery" in {d.metadata["Name"] for d in __import__("importlib.metadata").metadata.distributions()}


def test_a_build_sees_its_own_numpy_and_the_nodes_torch(build: Build, stack: Stack) -> None:
    """What the build brings comes first, what it does not bring comes from the node."""
    environment = build("pip install numpy==1.26.4")
    code = "import numpy, importlib.metadata as m; print(numpy.__version__, m.version('numpy'), m.version('torch'))"
    assert said(environment, code) == f"1.26.4 1.26.4 {stack.torch}"
    assert environment.packages == {"numpy": "1.26.4"}
    assert said(build(), "import numpy; print(numpy.__version__)") == stack.shared["numpy"].version


def test_environments_are_cached_by_command_and_by_the_files_they_read(build: Build, commands: list[str], checkout: Checkout) -> None:  # fmt: skip
    """Another requirement is another environment; the same is the same, whatever else has changed."""
    requirements = checkout.source / "requirements.txt"
    requirements.write_text("tool==1.0\n")
    first = build("pip install -r requirements.txt")
    (checkout.source / "code.py").write_text("changed")
    assert build("pip install -r requirements.txt").home == first.home
    assert len(commands) == 1
    requirements.write_text("tool==2.0\n")
    second = build("pip install -r requirements.txt")
    assert (first.packages, second.packages) == ({"tool": "1.0"}, {"tool": "2.0"})
    requirements.write_text("tool==1.0\n")
    assert build("pip install -r requirements.txt").home == first.home


def test_a_python_that_makes_no_venv_is_not_the_revisions_fault(
    tmp_path: Path, stack: Stack, checkout: Checkout
) -> None:
    """A full disk, say: the job is tried again, with the words of whoever failed."""
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho No space left on device\nexit 1\n")
    broken.chmod(0o755)
    environments = Environments(tmp_path / "cache", replace(stack, executable=broken), 2, threading.Event())
    with (
        pytest.raises(BuildInterrupted, match="No space left on device"),
        environments.use(v1.BuildSpec(), checkout, {}, lambda command: pytest.fail(str(command))),
    ):
        pass


def test_what_may_read_the_whole_tree_belongs_to_its_checkout(build: Build, checkout: Checkout) -> None:
    """Building the project itself is never shared between revisions."""
    assert build("python -c 1").home.parent == checkout.home


@pytest.mark.parametrize(
    ("command", "shared"),
    [
        ("pip install numpy", True),
        ("pip install 'numpy>=1.26,<3' tool[extra]==1", True),
        ("python -m pip install -r requirements.txt", True),
        ("uv pip install tool", True),
        ("pip install --index-url https://example.com/simple tool", True),
        ("pip install .", False),
        ("pip install -e .", False),
        ("pip install ./sub", False),
        ("pip install package", False),
        ("pip install -r local.txt", False),
        ("pip install -r ../outside.txt", False),
        ("pip install -r missing.txt", False),
        ("pip install tool && make", False),
        ("pip install $TOOL", False),
        ("make", False),
    ],
)
def test_which_commands_share_an_environment(checkout: Checkout, command: str, shared: bool) -> None:
    """When in doubt, no."""
    (checkout.source / "package").mkdir()
    (checkout.source / "requirements.txt").write_text("# comment\nnumpy==2.0 ; python_version > '3'\n\ntool  # why\n")
    (checkout.source / "local.txt").write_text("-e .\n")
    (checkout.source.parent / "outside.txt").write_text("numpy\n")
    assert (dependency_key([command], checkout.source) is not None) == shared


def test_torch_is_satisfied_by_the_node(build: Build) -> None:
    """A requirement that the node meets installs nothing of it."""
    assert build("pip install fits").packages == {"fits": "1.0"}


@pytest.mark.parametrize(
    ("command", "who"),
    [("pip install torch==99.0", "torch==99.0"), ("pip install needs-new-torch", "needs-new-torch 1.0")],
)
def test_an_unmet_torch_is_an_error_naming_both_versions(build: Build, stack: Stack, command: str, who: str) -> None:
    """Asked for directly or by a package."""
    with pytest.raises(BuildFailed) as failed:
        build(command)
    assert who in str(failed.value)
    assert "99" in str(failed.value)
    assert str(stack.torch) in str(failed.value)


def test_the_projects_own_requirement_is_checked_even_without_install(build: Build, checkout: Checkout, stack: Stack) -> None:  # fmt: skip
    """pyproject.toml speaks for the project."""
    (checkout.source / "pyproject.toml").write_text('[project]\nname = "p"\ndependencies = ["torch>=99"]\n')
    with pytest.raises(BuildFailed, match=r"pyproject.toml.*torch>=99.*offers torch"):
        build()


def test_a_build_never_brings_cuda_or_nccl(build: Build) -> None:
    """Unless the project asks for it."""
    with pytest.raises(BuildFailed, match=r"nvidia-nccl-cu12 2\.30"):
        build("pip install needs-nccl")


def test_a_project_may_bring_its_own_torch(build: Build) -> None:
    """Then nothing of the node's stack is seen."""
    environment = build("pip install torch==99.0", allow_torch=True)
    assert environment.packages == {"torch": "99.0"}
    with pytest.raises(subprocess.CalledProcessError):
        said(environment, "import numpy")


def test_a_failed_build_carries_the_end_of_its_log(build: Build, tmp_path: Path) -> None:
    """And leaves no environment that a later build would take for good."""
    flag = tmp_path / "flag"
    command = f"echo reason-for-failure >&2; test -e {flag}"
    with pytest.raises(BuildFailed) as failed:
        build(command)
    assert "reason-for-failure" in failed.value.log_tail
    flag.touch()
    assert build(command).packages == {}


def test_a_build_that_hangs_ends(build: Build) -> None:
    """With the command that hung."""
    with pytest.raises(BuildFailed, match=r"longer than 1 s.*sleep 60"):
        build("sleep 60", timeout_s=1)


def test_network_trouble_is_not_the_revisions_fault(build: Build) -> None:
    """It is worth another try."""
    with pytest.raises(BuildInterrupted):
        build("echo 'Temporary failure in name resolution'; exit 1")


def test_unused_environments_are_evicted(build: Build, tmp_path: Path) -> None:
    """Two are kept in this test."""
    for version in ("tool==1.0", "tool==2.0", "numpy", "fits"):
        build(f"pip install --no-deps {version}")
    assert len([p for p in (tmp_path / "cache" / "environments").iterdir() if p.is_dir()]) <= 3


def test_a_builds_pip_and_python_are_its_own(build: Build) -> None:
    """python -m pip works although pip is not installed in the environment."""
    environment = build("python -m pip install tool==1.0", "pip list", "python -c 'import tool'")
    assert "pip" not in environment.packages


# --- the layer ----------------------------------------------------------------------------------------------------------


def distribution(name: str, *requires: str, tops: tuple[str, ...] = (), pairs: tuple[str, ...] = ()) -> Distribution:
    return Distribution(name, "1.0", requires, Path("/site"), f"{name}-1.0.dist-info", tops or (name,), pairs, {})


def test_the_closure_follows_markers_and_leaves_extras_out() -> None:
    """Exactly what torch requires here."""
    installed = {
        "torch": distribution("torch", "a", "b; sys_platform == 'win32'", "c; extra == 'x'", "not-installed"),
        "a": distribution("a", "A.b_c>=1"),
        "a-b-c": distribution("a-b-c", "torch"),
        "b": distribution("b"),
        "c": distribution("c"),
        "worker": distribution("worker"),
    }
    assert set(closure(installed, ["torch", "absent"])) == {"torch", "a", "a-b-c"}


def test_a_folder_that_distributions_share_is_linked_one_level_down(tmp_path: Path) -> None:
    """So that nvidia/cublas is linked and nvidia/other, which torch does not need, is not."""
    (tmp_path / "nvidia" / "cublas").mkdir(parents=True)
    found = Distribution(
        "nvidia-cublas", "1", (), tmp_path, "nvidia_cublas-1.dist-info", ("nvidia", "x"), ("nvidia/cublas",), {}
    )
    links = link_targets(found, {(tmp_path, "nvidia"): 2, (tmp_path, "x"): 1})
    assert set(links) == {"nvidia/cublas", "x", "nvidia_cublas-1.dist-info"}


def test_variables_that_smell_of_secrets_stay_behind() -> None:
    """A list of what may pass, minus secrets, plus what the operator names."""
    environ = {
        "PATH": "/bin",
        "OMP_NUM_THREADS": "1",
        "GROUNDSPEED_WORKER_TOKEN": "t",
        "AWS_SECRET_ACCESS_KEY": "s",
        "NVIDIA_API_KEY": "k",
        "PIP_INDEX_URL": "https://example.com",
        "MY_FLAG": "x",
    }
    assert set(base_variables(environ)) == {"PATH", "OMP_NUM_THREADS"}
    assert set(build_variables(environ, ("MY_FLAG",))) == {"PATH", "OMP_NUM_THREADS", "PIP_INDEX_URL", "MY_FLAG"}


def test_the_worker_imports_without_torch_or_the_service(tmp_path: Path) -> None:
    """Nothing of the worker loads torch, numpy, the database or the web framework."""
    code = (
        "import sys, groundspeed.workers.main, groundspeed.workers.hygiene as h; h.environment(); h.devices();"
        "print([m for m in ('torch', 'numpy', 'sqlalchemy', 'sqlmodel', 'fastapi') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]"
