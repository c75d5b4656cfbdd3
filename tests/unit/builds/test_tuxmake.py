"""Kernels that TuxMake built, and folders of KernelCI."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.build import Build, BuildSource
from tests.support import build_files as made

COMMIT = "308d78f1385d6da2716d74aaec2160a521f2572e"
FILES = ["bcm2711-rpi-4-b.dtb", "kernel8.img", made.RELEASE]


def source_of(build: Build) -> BuildSource:
    assert [file.name for file in build.files] == FILES
    assert build.source is not None
    return build.source


def test_a_folder_of_tuxmake(tmp_path: Path) -> None:
    folder = made.tuxmake_folder(tmp_path / "out")
    build = load_build(str(folder))
    assert build.name == "out"
    assert source_of(build) == BuildSource(
        made_by="TuxMake",
        place=str(folder),
        tree="https://git.example.org/linux.git",
        branch="main",
        commit=COMMIT,
        describe="v6.12.25",
        compiler="aarch64-linux-gnu-gcc (Debian 12.2.0-14+deb12u1) 12.2.0",
        config=str(folder / "config"),
    )


def test_a_folder_of_kernelci_is_read_by_the_names_of_its_files(tmp_path: Path) -> None:
    made.write(tmp_path, {"Image": made.image(), ".config": b"", made.TREE: made.device_tree(), "metadata.json": b"{}"})
    (tmp_path / "modules.tar.xz").write_bytes(lzma.compress(made.tar(made.tree())))
    assert [file.name for file in load_build(str(tmp_path)).files] == FILES


def test_a_build_yaml_can_name_such_a_build_and_state_its_source(tmp_path: Path) -> None:
    made.tuxmake_folder(tmp_path / "out")
    (tmp_path / "build.yaml").write_text(
        f"artefacts: out\nconfig: dtparam=eee=off\nsource: {{commit: {COMMIT[::-1]}, branch: mine}}\n"
    )
    build = load_build(str(tmp_path / "build.yaml"))
    assert build.config == ("dtparam=eee=off",)
    source = source_of(build)
    assert (source.made_by, source.commit, source.branch, source.describe) == (
        "TuxMake", COMMIT[::-1], "mine", "v6.12.25",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"results"', "expected the metadata.json of TuxMake, but it is not JSON"),
        ('{"results": {"status": "FAIL"}}', "TuxMake reports 'FAIL' for this build, so there is nothing to measure"),
        ('{"results": {"status": "PASS"}}', "TuxMake built no kernel; name the target: tuxmake -a arm64 config kernel"),
        ('{"results": {"status": 1}}', "key 'results.status': Input should be a valid string"),
        ('{"results": {"status": "PASS", "artifacts": {"kernel": ["../Image"]}}}', "leads out of the folder"),
    ],
)
def test_mistakes_are_one_sentence_with_the_file(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "metadata.json").write_text(content)
    with pytest.raises(ConfigError) as caught:
        load_build(str(tmp_path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_artefact(tmp_path: Path) -> None:
    folder = made.tuxmake_folder(tmp_path / "out")
    (folder / "modules.tar.xz").unlink()
    with pytest.raises(ConfigError, match=r"there is no module, folder or archive of modules .*/modules.tar.xz"):
        load_build(str(folder))


def test_a_url_is_refused(tmp_path: Path) -> None:
    url = "https://github.com/raspberrypi/linux/pull/7472"
    with pytest.raises(ConfigError, match="is a URL; download the build, or check out and build what the URL shows"):
        load_build(url)


def test_a_commit_must_be_whole(tmp_path: Path) -> None:
    (tmp_path / "build.yaml").write_text("sysctls: {net.ipv4.tcp_sack: 0}\nsource: {commit: 308d78f}\n")
    with pytest.raises(ConfigError, match=r"build.yaml:2: source.commit: expected the whole hash of a commit"):
        load_build(str(tmp_path / "build.yaml"))
