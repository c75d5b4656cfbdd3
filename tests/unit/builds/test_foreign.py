"""Kernels that TuxMake and KernelCI built, from folders and from a web server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.build import Build, BuildSource
from tests.support import build_files as made
from tests.support.foreign_builds import COMMIT, kernelci_folder, kernelci_node, served, tuxmake_folder

FILES = ["bcm2711-rpi-4-b.dtb", "kernel8.img", made.RELEASE]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def source_of(build: Build) -> BuildSource:
    assert [file.name for file in build.files] == FILES
    assert build.source is not None
    return build.source


def test_a_folder_of_tuxmake(tmp_path: Path) -> None:
    folder = tuxmake_folder(tmp_path / "out")
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


def test_a_url_of_tuxmake_is_downloaded_once(tmp_path: Path) -> None:
    local = load_build(str(tuxmake_folder(tmp_path / "27Ab")))
    with served(tmp_path) as (address, requests):
        for place in (f"{address}/27Ab", f"{address}/27Ab/", f"{address}/27Ab/metadata.json"):
            build = load_build(place)
            assert build.key == local.key
            assert source_of(build).place == place
            assert build.name == "v6.12.25"
    assert sum(line.startswith("GET") and line.endswith("Image.gz 200") for line in requests) == 1
    assert Path(source_of(build).config).read_text() == "CONFIG_MODULES=y\n"


def test_a_changed_file_is_downloaded_again(tmp_path: Path) -> None:
    folder = tuxmake_folder(tmp_path / "out")
    with served(tmp_path) as (address, _):
        first = load_build(f"{address}/out")
        (folder / "Image.gz").write_bytes(made.image(size=6000))
        assert load_build(f"{address}/out").key != first.key


def test_a_folder_of_kernelci(tmp_path: Path) -> None:
    build = load_build(str(kernelci_folder(tmp_path / "kbuild")))
    # The build of Rockchip's boards is left out.
    assert source_of(build).compiler == "gcc-12"
    assert source_of(build).commit == ""


def test_a_url_and_a_node_of_kernelci(tmp_path: Path) -> None:
    with served(tmp_path) as (address, _):
        folder = kernelci_folder(tmp_path / "kbuild-gcc-12-arm64-6710a3c2", address)
        of_url = load_build(f"{address}/{folder.name}")
        (tmp_path / "node").write_text(json.dumps(kernelci_node(folder, address)))
        of_node = load_build(f"{address}/node")
        (tmp_path / "node.json").write_text(json.dumps(kernelci_node(folder, address)))
        of_file = load_build(str(tmp_path / "node.json"))
    assert of_url.key == of_node.key == of_file.key
    source = source_of(of_node)
    assert (source.commit, source.branch, source.made_by) == (COMMIT, "master", "KernelCI")
    assert source.tree.endswith("torvalds/linux.git")
    assert of_node.name == "v6.12-rc7-3-g308d78f1385d"


def test_a_build_yaml_can_name_such_a_build_and_state_its_source(tmp_path: Path) -> None:
    kernelci_folder(tmp_path / "kbuild")
    (tmp_path / "build.yaml").write_text(
        f"artefacts: kbuild\nconfig: dtparam=eee=off\nsource: {{commit: {COMMIT}, describe: v6.12.25}}\n"
    )
    build = load_build(str(tmp_path / "build.yaml"))
    assert build.config == ("dtparam=eee=off",)
    source = source_of(build)
    assert (source.made_by, source.commit, source.describe) == ("KernelCI", COMMIT, "v6.12.25")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "{",
            "expected the metadata.json of TuxMake or KernelCI, or a build node of KernelCI's API, but it is not JSON",
        ),
        ("[]", "found none of their keys 'results', 'build' and 'data'"),
        ('{"results": {"status": "FAIL"}}', "TuxMake reports 'FAIL' for this build, so there is nothing to measure"),
        ('{"results": {"status": "PASS"}}', "TuxMake built no kernel; name the target: tuxmake -a arm64 config kernel"),
        ('{"results": {"status": 1}}', "key 'results.status': Input should be a valid string"),
        ('{"results": {"status": "PASS", "artifacts": {"kernel": ["../Image"]}}}', "leads out of the folder"),
        ('{"build": {"result": "fail"}}', "KernelCI reports 'fail' for this build"),
        (
            '{"build": {}}',
            "names no kernel for a Raspberry Pi; expected Image, Image.gz or zImage",
        ),
        ('{"build": {}, "artifacts": {"Image": "file:///etc/passwd"}}', "expected a URL that begins with https:// or"),
    ],
)
def test_mistakes_are_one_sentence_with_the_file(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "metadata.json").write_text(content)
    with pytest.raises(ConfigError) as caught:
        load_build(str(tmp_path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_without_the_build(tmp_path: Path) -> None:
    with served(tmp_path) as (address, _), pytest.raises(ConfigError, match=r"metadata.json cannot be downloaded: the"):
        load_build(f"{address}/none")
    with pytest.raises(ConfigError, match=r"cannot be downloaded: .*refused"):
        load_build(f"{address}/none")


def test_a_missing_artefact(tmp_path: Path) -> None:
    folder = tuxmake_folder(tmp_path / "out")
    (folder / "modules.tar.xz").unlink()
    with pytest.raises(ConfigError, match=r"there is no module, folder or archive of modules .*/modules.tar.xz"):
        load_build(str(folder))
    with served(tmp_path) as (address, _), pytest.raises(ConfigError, match=r"modules.tar.xz cannot be downloaded"):
        load_build(f"{address}/out")


def test_a_commit_must_be_whole(tmp_path: Path) -> None:
    (tmp_path / "build.yaml").write_text("sysctls: {net.ipv4.tcp_sack: 0}\nsource: {commit: 308d78f}\n")
    with pytest.raises(ConfigError, match=r"build.yaml:2: source.commit: expected the whole hash of a commit"):
        load_build(str(tmp_path / "build.yaml"))
