"""Whatever is given as a repository is one, or is refused in words."""

from __future__ import annotations

import pytest

from groundspeed.service.errors import Invalid
from groundspeed.service.repo.location import canonical


@pytest.mark.parametrize(
    "location",
    [
        "https://[x", "file://[x", "https://a:b/c", "https://user:word@h/x", "ext::sh -c id", "ext://x", "-x", "a\0b", "",
        "~nobody-of-this-name/x", "/" + "a" * 300, "git@-oProxyCommand=x:y", "/etc",
    ],
)  # fmt: skip
def test_what_cannot_be_a_repository_is_refused(location: str) -> None:
    with pytest.raises(Invalid):
        canonical(location)
