from __future__ import annotations

from pathlib import Path

import pytest

from groundspeed.service.errors import Invalid, NotFound, Unavailable
from groundspeed.service.repo import Mirrors
from repositories import GitRepo, toy


@pytest.fixture
def mirrors(tmp_path: Path) -> Mirrors:
    return Mirrors(tmp_path / "mirrors")


def test_history_has_positions_counted_from_the_root(tmp_path: Path, mirrors: Mirrors) -> None:
    _, shas = toy(tmp_path / "r", 6)
    repo = mirrors.open(str(tmp_path / "r"))
    history = repo.history(repo.branch_tip("main"), 4)
    assert [(c.sha, c.position) for c in history] == [(shas[i], i) for i in (5, 4, 3, 2)]
    assert history[0].title == "Change 5"
    assert history[0].author == "Ada"
    assert history[0].parents == (shas[4],)
    assert history[0].committed_at.timestamp() == 1_700_000_360


def test_merges_count_once_along_first_parents(tmp_path: Path, mirrors: Mirrors) -> None:
    """A branch of two commits that is merged adds one position."""
    repo, shas = toy(tmp_path / "r", 2)
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("Side 1", {"a": "1"})
    repo.commit("Side 2", {"a": "2"})
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-ff", "-m", "Merge", "side")
    seen = mirrors.open(str(tmp_path / "r"))
    assert [(c.title, c.position) for c in seen.history(seen.resolve("main"), 9)] == [
        ("Merge", 2),
        ("Change 1", 1),
        ("Start", 0),
    ]
    assert seen.merge_base("main", "side") == repo.git("rev-parse", "side")
    assert seen.merge_base("main~1", "side") == shas[1]


def test_a_range_holds_the_commits_after_its_start(tmp_path: Path, mirrors: Mirrors) -> None:
    _, shas = toy(tmp_path / "r", 6)
    repo = mirrors.open(str(tmp_path / "r"))
    assert [(c.sha, c.position) for c in repo.range(f"{shas[1]}..{shas[4]}")] == [(shas[i], i) for i in (2, 3, 4)]
    assert [c.sha for c in repo.range("HEAD~2..HEAD")] == shas[4:]
    assert [c.sha for c in repo.range("HEAD~2..")] == shas[4:]
    assert [c.sha for c in repo.range(shas[3])] == [shas[3]]


def test_an_empty_range_and_an_unknown_one_are_said_in_words(tmp_path: Path, mirrors: Mirrors) -> None:
    toy(tmp_path / "r", 6)
    repo = mirrors.open(str(tmp_path / "r"))
    with pytest.raises(Invalid, match=r"HEAD~3\.\.HEAD is not empty: turn it round"):
        repo.range("HEAD..HEAD~3")
    with pytest.raises(Invalid, match="is empty"):
        repo.range("HEAD..HEAD")
    with pytest.raises(Invalid, match="no commit 'v9'"):
        repo.range("v9..HEAD")


def test_what_is_no_repository_is_refused_in_words(tmp_path: Path, mirrors: Mirrors) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(Invalid, match="is not a git repository"):
        mirrors.open(str(tmp_path / "plain"))
    with pytest.raises(Invalid, match="is not a folder"):
        mirrors.open(str(tmp_path / "absent"))
    with pytest.raises(Invalid, match="holds a password"):
        mirrors.open("https://me:secret@example.org/x.git")
    with pytest.raises(Invalid, match="ext://"):
        mirrors.open("ext://sh -c evil")
    with pytest.raises(Unavailable, match="could not be read"):
        mirrors.open("http://127.0.0.1:1/x.git")


def test_a_shallow_clone_is_refused_with_the_cure(tmp_path: Path, mirrors: Mirrors) -> None:
    repo, _ = toy(tmp_path / "r", 4)
    repo.git("clone", "-q", "--depth", "2", f"file://{tmp_path / 'r'}", str(tmp_path / "shallow"))
    with pytest.raises(Invalid, match="shallow clone") as caught:
        mirrors.open(str(tmp_path / "shallow"))
    assert "--unshallow" in caught.value.advice


def test_a_file_is_read_as_it_was(tmp_path: Path, mirrors: Mirrors) -> None:
    _, shas = toy(tmp_path / "r", 4)
    repo = mirrors.open(str(tmp_path / "r"))
    assert repo.read(shas[2], "n.txt") == "2"
    with pytest.raises(NotFound, match=r"no file n\.txt"):
        repo.read(shas[0], "n.txt")


def test_a_fetch_brings_new_commits_forced_ones_and_the_head(tmp_path: Path, mirrors: Mirrors) -> None:
    source, shas = toy(tmp_path / "r", 4)
    mirrors.open(str(tmp_path / "r"))
    new = source.commit("More", {"n.txt": "x"})
    assert mirrors.open(str(tmp_path / "r"), fetch=False).branch_tip("main") == shas[3]
    assert mirrors.open(str(tmp_path / "r")).branch_tip("main") == new
    source.git("reset", "-q", "--hard", shas[1])
    forced = source.commit("Other", {"n.txt": "y"})
    repo = mirrors.open(str(tmp_path / "r"))
    assert repo.branch_tip("main") == forced
    assert not repo.is_ancestor(new, forced)
    assert repo.is_ancestor(shas[1], forced)
    source.git("checkout", "-q", "--detach", shas[0])
    detached = source.commit("Detached", {"z": "z"})
    repo = mirrors.open(str(tmp_path / "r"))
    assert repo.head_branch() is None
    assert repo.resolve("HEAD") == detached


def test_hostile_names_are_data(tmp_path: Path, mirrors: Mirrors) -> None:
    """A branch, an author or a title that looks like an option or like several fields stays what it is."""
    repo = GitRepo(tmp_path / "-rf $(touch pwned)")
    repo.commit("--upload-pack=touch pwned\x1f%H", {"groundspeed.toml": ""})
    repo.git("branch", "x;touch${IFS}pwned")
    seen = mirrors.open(str(repo.path))
    assert seen.history(seen.branch_tip("main"), 5)[0].title == "--upload-pack=touch pwned\x1f%H"
    assert seen.resolve("x;touch${IFS}pwned") == seen.resolve("main")
    for name in ("--output=pwned", "", "main --all", "a\nb", "main:groundspeed.toml"):
        with pytest.raises(Invalid):
            seen.resolve(name)
    assert not list(tmp_path.rglob("pwned"))


def test_a_branch_is_known_beside_a_tag_of_its_name_and_whatever_is_in_names(tmp_path: Path, mirrors: Mirrors) -> None:
    repo, shas = toy(tmp_path / "r", 2)
    repo.git("tag", "main", shas[0])
    for name in ("--upload-pack=x", "a\u2028b", "a\u00a0b"):
        repo.git("update-ref", f"refs/heads/{name}", shas[0])
        repo.git("update-ref", f"refs/tags/{name}", shas[1])
    mirror = mirrors.open(str(tmp_path / "r"))
    assert mirror.branches() == ["--upload-pack=x", "a\u00a0b", "a\u2028b", "main"]
    assert mirror.branch_tip("main") == shas[1]
    assert mirror.branch_tip("--upload-pack=x") == shas[0]
    assert mirror.tags() == {shas[0]: ["main"], shas[1]: ["--upload-pack=x", "a\u00a0b", "a\u2028b"]}


def test_a_branch_that_is_missing_is_answered_with_those_there_are(tmp_path: Path, mirrors: Mirrors) -> None:
    toy(tmp_path / "r", 2)
    with pytest.raises(Invalid, match=r"no branch 'master'\. It has main"):
        mirrors.open(str(tmp_path / "r")).branch_tip("master")
    GitRepo(tmp_path / "empty")
    with pytest.raises(Invalid, match="no commit yet"):
        mirrors.open(str(tmp_path / "empty")).branch_tip("main")


def test_a_secret_reaches_git_by_environment_for_its_host_alone(tmp_path: Path) -> None:
    from groundspeed.service.repo.location import authorization

    env = authorization("https://git.example.org/a/b.git", "s3cret")
    assert env["GIT_CONFIG_KEY_0"] == "http.https://git.example.org/.extraHeader"
    assert authorization("git@example.org:a/b", "s3cret") == {}
    with pytest.raises(Invalid, match="GROUNDSPEED_CREDENTIAL_NOPE"):
        Mirrors(tmp_path).open("https://git.example.org/a/b.git", "nope")


def test_what_a_killed_git_left_does_not_stop_the_next(tmp_path: Path, mirrors: Mirrors) -> None:
    """Its locks, and a clone that was cut, go; the fetch brings what is new."""
    repo, _ = toy(tmp_path / "r", 2)
    mirror = mirrors.open(str(tmp_path / "r")).path
    for name in ("packed-refs.lock", "HEAD.lock", "refs/heads/main.lock", "objects/pack/tmp_pack_x"):
        (mirror / name).parent.mkdir(exist_ok=True)
        (mirror / name).touch()
    cut = mirror.with_name(f".clone-{mirror.name}-cut")
    cut.mkdir()
    new = repo.commit("New", {"a": "1"})
    assert mirrors.open(str(tmp_path / "r")).branch_tip("main") == new
    assert not cut.exists()


def test_a_mirror_that_was_damaged_is_made_anew(tmp_path: Path, mirrors: Mirrors) -> None:
    """As after a power cut: refs that name objects which are not there, or no HEAD."""
    repo, _ = toy(tmp_path / "r", 2)
    mirror = mirrors.open(str(tmp_path / "r")).path
    for pack in mirror.glob("objects/pack/*"):
        pack.unlink()
    new = repo.commit("New", {"a": "1"})
    seen = mirrors.open(str(tmp_path / "r"))
    assert seen.history(new, 9)[0].sha == new
    assert len(seen.history(new, 9)) == 3
    (mirror / "HEAD").unlink()
    assert len(mirrors.open(str(tmp_path / "r")).history(new, 9)) == 3
    assert [p.name for p in mirrors.root.iterdir() if p.is_dir()] == [mirror.name]
