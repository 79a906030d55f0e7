"""The service's own view of a repository under test: history and files, read by git, never checked out."""

from groundspeed.service.repo.mirrors import Mirrors
from groundspeed.service.repo.reader import Commit, Repository, is_sha

__all__ = ["Commit", "Mirrors", "Repository", "is_sha"]
