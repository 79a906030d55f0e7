"""Checkouts: the right tree in any circumstances, and no credential where it does not belong."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from groundspeed.workers.checkout import Checkout, Checkouts, source_paths
from groundspeed.workers.errors import CheckoutFailed
from groundspeed.workers.git import Git
from groundspeed.workers.settings import Credential


@pytest.fixture
def checkouts(tmp_path: Path) -> Callable[..., Checkouts]:
    """One cache, any slot."""
    git = Git(tmp_path / "git-home", 60)

    def make(slot: int = 0, **credentials: Credential) -> Checkouts:
        return Checkouts(tmp_path / "cache", slot, git, credentials, 3, threading.Event())

    return make


def read(checkout: Checkout, name: str) -> str:
    return (checkout.source / name).read_text(encoding="utf-8")


def test_each_revision_has_its_own_tree_and_is_reused(repo: Any, checkouts: Any, make_job: Any) -> None:
    """A second visit finds the folder as the first left it, but for what a benchmark changed."""
    old, new = repo.commit({"a.py": "1"}), repo.commit({"a.py": "2"})
    job = make_job(repo, new)
    first, second = checkouts().get(job, old), checkouts().get(job, new)
    assert (read(first, "a.py"), read(second, "a.py")) == ("1", "2")
    (first.source / "a.py").write_text("spoilt")
    (first.source / "litter").mkdir()
    (first.source / "litter" / "x").write_text("")
    again = checkouts().get(job, old)
    assert not again.fresh
    assert read(again, "a.py") == "1"
    assert not (again.source / "litter").exists()


def test_the_tips_benchmarks_are_laid_over_older_code(repo: Any, checkouts: Any, make_job: Any) -> None:
    """Files that the tip no longer has are gone, the rest of the revision stays."""
    old = repo.commit({"code.py": "old", "bench/a.py": "old", "bench/gone.py": "old"})
    repo.git("rm", "-q", "bench/gone.py")
    tip = repo.commit({"code.py": "new", "bench/a.py": "new", "bench/sub/b.py": "new"})
    job = make_job(repo, tip, build={"benchmarks": "bench", "source": "tip"})
    for _ in range(2):
        found = checkouts().get(job, old)
        assert (read(found, "code.py"), read(found, "bench/a.py"), read(found, "bench/sub/b.py")) == (
            "old",
            "new",
            "new",
        )
        assert not (found.source / "bench" / "gone.py").exists()
    own = checkouts().get(make_job(repo, tip, build={"benchmarks": "bench", "source": "revision"}), old)
    assert read(own, "bench/a.py") == "old"
    assert own.home != found.home


def test_an_overlay_never_leaves_the_checkout(repo: Any, checkouts: Any, make_job: Any, tmp_path: Path) -> None:
    """A link in an old commit is replaced, not followed; a path that leads out is refused."""
    outside = tmp_path / "outside"
    (outside / "bench").mkdir(parents=True)
    (outside / "bench" / "precious").write_text("keep")
    (repo.path / "tools").symlink_to(outside)
    old = repo.commit({"x": "1"})
    (repo.path / "tools").unlink()
    tip = repo.commit({"tools/bench/a.py": "new"})
    found = checkouts().get(make_job(repo, tip, build={"benchmarks": "tools/bench"}), old)
    assert read(found, "tools/bench/a.py") == "new"
    assert (outside / "bench" / "precious").read_text() == "keep"
    for wrong in ("../x", "/etc", ".git/hooks"):
        with pytest.raises(CheckoutFailed, match="does not lie inside"):
            checkouts().get(make_job(repo, tip, build={"benchmarks": wrong}), old)
        with pytest.raises(CheckoutFailed, match="does not lie inside"):
            source_paths(found, make_job(repo, tip, build={"paths": [wrong]}).build)


def test_a_missing_benchmark_folder_or_commit_is_told_in_words(repo: Any, checkouts: Any, make_job: Any, tmp_path: Path) -> None:  # fmt: skip
    """Permanent errors, without a traceback."""
    old, tip = repo.commit({"a": "1"}), repo.commit({"a": "2"})
    with pytest.raises(CheckoutFailed, match="nowhere") as missing:
        checkouts().get(make_job(repo, tip, build={"benchmarks": "nowhere"}), old)
    assert not missing.value.transient
    with pytest.raises(CheckoutFailed, match="is not in"):
        checkouts().get(make_job(repo, tip), "f" * 40)
    with pytest.raises(CheckoutFailed, match="cannot be fetched"):
        checkouts().get(make_job(repo, tip, repo_url=str(tmp_path / "gone")), old)


def test_a_rewritten_branch_still_yields_the_commit_seen_before(repo: Any, checkouts: Any, make_job: Any) -> None:
    """The mirror keeps what it was once asked for."""
    first = repo.commit({"a": "1"})
    lost = repo.commit({"a": "2"})
    checkouts().get(make_job(repo, first), lost)
    repo.git("reset", "-q", "--hard", first)
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    newer = repo.commit({"a": "3"})
    assert read(checkouts().get(make_job(repo, newer), lost), "a") == "2"


def test_slots_work_at_the_same_time(repo: Any, checkouts: Any, make_job: Any) -> None:
    """Many threads on one mirror: everyone gets the right tree."""
    shas = [repo.commit({"a.py": str(i)}) for i in range(5)]
    job = make_job(repo, shas[-1])
    wrong: list[object] = []

    def work(slot: int) -> None:
        for index, sha in enumerate(shas):
            try:
                if read(checkouts(slot).get(job, sha), "a.py") != str(index):
                    wrong.append((slot, index))
            except Exception as error:  # noqa: BLE001 - collected and compared below
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(slot,)) for slot in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_only_the_most_recent_checkouts_are_kept(repo: Any, checkouts: Any, make_job: Any, tmp_path: Path) -> None:
    """Three in this test's cache."""
    shas = [repo.commit({"a.py": str(i)}) for i in range(6)]
    for sha in shas:
        checkouts().get(make_job(repo, shas[-1]), sha)
    assert len(list((tmp_path / "cache" / "checkouts").glob("*/*/*"))) == 3


def test_locks_and_halves_of_a_killed_worker_do_not_matter(repo: Any, checkouts: Any, make_job: Any, tmp_path: Path) -> None:  # fmt: skip
    """Stale lock files, a half-made worktree, a half-received pack."""
    sha = repo.commit({"a": "1"})
    job = make_job(repo, sha)
    found = checkouts().get(job, sha)
    mirror = next((tmp_path / "cache" / "mirrors").glob("*.git"))
    for name in ("config.lock", "packed-refs.lock", "refs/heads/main.lock", "HEAD.lock", "objects/pack/tmp_pack_x"):
        (mirror / name).parent.mkdir(parents=True, exist_ok=True)
        (mirror / name).write_text("")
    (found.home / "ready.json").unlink()
    (found.source / "a").write_text("half")
    for admin in (mirror / "worktrees").iterdir():
        (admin / "locked").write_text("initializing")
        (admin / "index.lock").write_text("")
    newer = repo.commit({"a": "2"})
    assert read(checkouts().get(job, sha), "a") == "1"
    assert read(checkouts().get(make_job(repo, newer), newer), "a") == "2"


def test_kill_nine_at_any_moment_leaves_a_usable_cache(
    repo: Any, checkouts: Any, make_job: Any, tmp_path: Path
) -> None:
    """A process that checks out in a loop is killed again and again; the next one always succeeds."""
    shas = [repo.commit({f"f{i}.py": "x" * 2000 for i in range(40)} | {"a": str(n)}) for n in range(4)]
    job = make_job(repo, shas[-1])
    script = tmp_path / "loop.py"
    script.write_text(
        "import sys, threading, itertools\nfrom pathlib import Path\n"
        "from groundspeed.service.wire import v1\nfrom groundspeed.workers.checkout import Checkouts\n"
        "from groundspeed.workers.git import Git\n"
        f"job = v1.JobSpec.model_validate_json({job.model_dump_json()!r})\n"
        f"root = Path({str(tmp_path)!r})\n"
        "checkouts = Checkouts(root / 'cache', 0, Git(root / 'git-home', 60), {}, 1, threading.Event())\n"
        f"print('go', flush=True)\nfor sha in itertools.cycle({shas!r}): checkouts.get(job, sha)\n"
    )
    for delay in (0.05, 0.12, 0.2, 0.31):
        process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        for index, sha in enumerate(shas):
            assert read(checkouts().get(job, sha), "a") == str(index)


def test_submodules_come_along(repo: Any, new_repo: Any, checkouts: Any, make_job: Any) -> None:
    """With the commit that each revision names; without the setting they stay empty."""
    library = new_repo("library")
    library.commit({"lib.py": "one"})
    repo.git("submodule", "--quiet", "add", library.url, "vendor")
    first = repo.commit({"a": "1"})
    library.commit({"lib.py": "two"})
    repo.git("submodule", "--quiet", "update", "--remote")
    second = repo.commit({"a": "2"})
    job = make_job(repo, second, build={"submodules": True})
    assert read(checkouts().get(job, first), "vendor/lib.py") == "one"
    assert read(checkouts().get(job, second), "vendor/lib.py") == "two"
    assert read(checkouts().get(job, first), "vendor/lib.py") == "one"
    assert not (checkouts(1).get(make_job(repo, second), first).source / "vendor" / "lib.py").exists()


@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed on this machine")
def test_lfs_files_are_fetched(repo: Any, checkouts: Any, make_job: Any) -> None:
    """Pointers without the setting, the content with it."""
    repo.git("lfs", "install", "--local")
    repo.git("lfs", "track", "*.bin")
    sha = repo.commit({"weights.bin": "real content"})
    plain = checkouts(1).get(make_job(repo, sha), sha)
    assert read(plain, "weights.bin").startswith("version https://git-lfs")
    for _ in range(2):
        found = checkouts().get(make_job(repo, sha, build={"lfs": True}), sha)
        assert read(found, "weights.bin") == "real content"


# --- private repositories -----------------------------------------------------------------------------------------------


class GitServer:
    """git's own HTTP backend behind basic authentication."""

    def __init__(self, root: Path) -> None:
        backend = Path(
            subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip()
        )
        asked = self.asked = []  # type: ignore[var-annotated]

        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                asked.append(self.headers.get("Authorization"))
                expected = "Basic " + base64.b64encode(b"robot:s3cret").decode()
                if self.headers.get("Authorization") != expected:
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="x"')
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                path, _, query = self.path.partition("?")
                env = {
                    "PATH": os.environ["PATH"],
                    "GIT_PROJECT_ROOT": str(root),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "GIT_CONFIG_COUNT": "1",
                    "GIT_CONFIG_KEY_0": "safe.directory",
                    "GIT_CONFIG_VALUE_0": "*",
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "REQUEST_METHOD": self.command,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "REMOTE_USER": "robot",
                }
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                done = subprocess.run(
                    [str(backend / "git-http-backend")], check=False, input=body, env=env, capture_output=True
                )
                head, _, content = done.stdout.partition(b"\r\n\r\n")
                self.send_response(200)
                for line in head.decode().split("\r\n"):
                    name, _, value = line.partition(": ")
                    if name and name != "Status":
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = _serve  # noqa: N815 - the name http.server looks for

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def git_server(tmp_path: Path) -> Iterator[GitServer]:
    made = GitServer(tmp_path)
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_private_repository_needs_its_credential_and_hides_it(repo: Any, checkouts: Any, make_job: Any, git_server: GitServer, tmp_path: Path) -> None:  # fmt: skip
    """The token reaches git and nothing on disk; without it, or with another, the error says so."""
    sha = repo.commit({"a": "1"})
    job = make_job(repo, sha, repo_url=f"{git_server.url}/repo/.git", credential="forge")
    with pytest.raises(CheckoutFailed, match="needs the credential 'forge'"):
        checkouts().get(job, sha)
    with pytest.raises(CheckoutFailed, match="cannot be fetched"):
        checkouts(forge=Credential(username="robot", password="wrong")).get(job, sha)
    found = checkouts(forge=Credential(username="robot", password="s3cret")).get(job, sha)
    assert read(found, "a") == "1"
    for place in (tmp_path / "cache", tmp_path / "git-home"):
        for path in place.rglob("*"):
            assert not path.is_file() or b"s3cret" not in path.read_bytes()


def test_a_credential_is_never_shown_to_another_host(repo: Any, checkouts: Any, make_job: Any, git_server: GitServer, tmp_path: Path, new_repo: Any) -> None:  # fmt: skip
    """A submodule on another server asks in vain."""
    stranger = GitServer(tmp_path)
    try:
        repo.commit({"a": "1"})
        library = new_repo("library")
        library_sha = library.commit({"lib.py": "one"})
        (repo.path / ".gitmodules").write_text(
            f'[submodule "vendor"]\n\tpath = vendor\n\turl = {stranger.url}/library/.git\n'
        )
        repo.git("add", ".gitmodules")
        repo.git("update-index", "--add", "--cacheinfo", f"160000,{library_sha},vendor")
        repo.git("commit", "-q", "-m", "hostile submodule")
        sha = repo.git("rev-parse", "HEAD")
        job = make_job(
            repo, sha, repo_url=f"{git_server.url}/repo/.git", credential="forge", build={"submodules": True}
        )
        with pytest.raises(CheckoutFailed):
            checkouts(forge=Credential(username="robot", password="s3cret")).get(job, sha)
        assert git_server.asked
        assert stranger.asked
        assert set(stranger.asked) == {None}
    finally:
        stranger.server.shutdown()
        stranger.server.server_close()
