"""Where a kernel comes from, in words and links."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_pinet.model.build import BuildSource
from pytest_pinet.model.record.change import BuildRecord
from pytest_pinet.report.change_table import commit_url, kernel_words, source_lines

COMMIT = "0e44d9fed54654d05b4c841b78fb077dac90c249"
LINUS = "git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git"
SOURCE = BuildSource(
    made_by="TuxMake",
    place="/home/me/out",
    tree=f"https://{LINUS}",
    branch="master",
    commit=COMMIT,
    describe="v6.12-rc7-3-g0e44d9fed546",
    compiler="gcc 12",
    config="build-B.config",
)


@pytest.mark.parametrize(
    ("tree", "url"),
    [
        (f"https://{LINUS}", f"https://{LINUS}/commit/?id={COMMIT}"),
        (f"git://{LINUS}", f"https://{LINUS}/commit/?id={COMMIT}"),
        ("https://github.com/raspberrypi/linux.git", f"https://github.com/raspberrypi/linux/commit/{COMMIT}"),
        ("https://gitlab.com/cip-project/linux", f"https://gitlab.com/cip-project/linux/-/commit/{COMMIT}"),
        ("javascript:alert(1)", ""),
        ("ssh://git@host.example.org/linux", ""),
    ],
)
def test_the_page_of_a_commit(tree: str, url: str) -> None:
    assert commit_url(replace(SOURCE, tree=tree)) == url
    assert commit_url(replace(SOURCE, tree=tree, commit="")) == ""


def test_the_short_name_of_a_kernel() -> None:
    assert kernel_words(None) == ""
    assert kernel_words(SOURCE) == "v6.12-rc7-3-g0e44d9fed546"
    assert kernel_words(replace(SOURCE, describe="v6.12")) == "v6.12 (0e44d9fed546)"
    assert kernel_words(replace(SOURCE, describe="")) == "commit 0e44d9fed546"


def test_lines_with_their_links() -> None:
    assert source_lines(SOURCE, "runs/1") == [
        (
            f"source: v6.12-rc7-3-g0e44d9fed546, branch master of https://{LINUS}",
            f"https://{LINUS}/commit/?id={COMMIT}",
        ),
        ("built by TuxMake with gcc 12: /home/me/out", ""),
        ("kernel configuration: build-B.config", "runs/1/build-B.config"),
    ]


def test_a_build_without_a_source_has_no_key_for_it() -> None:
    build = BuildRecord(name="x", key="1", release=None, files=(), config=(), cmdline=(), options=(), sysctls=())
    assert "source" not in build.dump()
    assert build.replace(source=SOURCE).dump()["source"]["commit"] == COMMIT
