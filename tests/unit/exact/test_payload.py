"""What a board boots: the modules in their order, the script of the traffic, and builds that a board cannot run."""

import gzip
import hashlib
import lzma
import re
import zipfile
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from pytest_pinet.builds.kernel_files import loaded_part
from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import CapabilityError, ConfigError, UnfitBuildError
from pytest_pinet.exact.board import ExactBoard, arguments
from pytest_pinet.exact.kernel_config import NEEDED
from pytest_pinet.exact.measure import exact_boards
from pytest_pinet.exact.payload import make_payload, traffic_program
from pytest_pinet.exact.traffic import amounts_of
from pytest_pinet.model.build import Build, BuildFileRole
from tests.support.build_files import RELEASE, device_tree, image, module, tar, tree, write

BOARDS = exact_boards()
E1000E, MACB, VIRTIO, GENET, R8169 = (BOARDS[name] for name in ("e1000e", "macb", "virtio-net", "genet", "r8169"))
OLD = "6.1.0-1-arm64 SMP mod_unload modversions aarch64"


def build_of(folder: Path, **modules: bytes) -> Build:
    return load_build(str(write(folder, {"Image": image(), **tree(RELEASE, **modules)})))


@pytest.fixture
def base(tmp_path: Path) -> Build:
    names = ("e1000e", "pktgen", "af_packet")
    chain = {"virtio_net": "net_failover", "net_failover": "failover", "failover": "", "virtio_pci": "of_mdio"}
    modules = {name: module(name) for name in names} | {name: module(name, depends=on) for name, on in chain.items()}
    return build_of(tmp_path / "base", **modules)


def script(payload_initramfs: bytes) -> list[str]:
    text = payload_initramfs[payload_initramfs.rindex(b"script\0") :]
    return text[7 : text.index(b"symbols\n")].lstrip(b"\0").decode().splitlines()


def test_modules_are_loaded_after_the_modules_that_they_need(base: Build) -> None:
    payload = make_payload(VIRTIO, base, None)
    assert [*payload.modules] == ["virtio_pci", "pktgen", "failover", "net_failover", "virtio_net"]
    lines = script(payload.initramfs)
    assert lines[:2] == ["limit 300", "module /modules/virtio_pci.ko"]
    assert lines[6:8] == ["counter", "pair 02:00:00:00:00:01 02:00:00:00:00:02"]
    assert lines[8:12] == ["distance 500", *["frame tx 60 256"] * 3]
    assert lines.count("pktgen tx 60 2500") == 3
    assert lines[-1] == "bulk tx 16384 16"
    assert payload.release == RELEASE


def test_a_driver_module_replaces_the_module_of_the_known_good_build(base: Build, tmp_path: Path) -> None:
    changed = module("e1000e", srcversion="FFFF")
    build = load_build(str(write(tmp_path / "b", {"e1000e.ko": changed}) / "e1000e.ko"))
    payload = make_payload(E1000E, base, build)
    assert payload.modules["e1000e"] == hashlib.sha256(loaded_part(changed)).hexdigest()
    assert payload.modules["pktgen"] == make_payload(E1000E, base, None).modules["pktgen"]
    assert loaded_part(changed) in payload.initramfs


def tree_of(folder: Path) -> Path:
    """Return the tree of modules that a build of this folder has."""
    (tree,) = [file for file in load_build(str(folder)).files if file.role is BuildFileRole.MODULES]
    return Path(tree.path)


@pytest.mark.parametrize(
    ("before", "ending"), [("", "o"), ("", "ko"), ("kernel/", "ko")], ids=["from 6.3", "from 5.3", "before 5.3"]
)
def test_the_folder_of_make_is_a_build(
    base: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, ending: str
) -> None:
    """``make O=out Image modules``: modules.order has three forms."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    own = {"e1000e": "drivers/net/ethernet/intel/e1000e/e1000e", "pktgen": "net/core/pktgen"}
    # CONFIG_IKCONFIG=m of bcm2711_defconfig: the tree has a folder kernel/ of its own.
    places = own | {"configs": "kernel/configs"}
    config = "".join(f"{name}=y\n" for name in NEEDED)
    built_in = b"kernel/net/packet/af_packet.ko\nkernel/drivers/pci/controller/pci-host-generic.ko\n"
    files = {
        "Makefile": b"include ../linux/Makefile\n",
        ".config": config.encode(),
        "include/config/kernel.release": f"{RELEASE}\n".encode(),
        "arch/arm64/boot/Image": image(),
        "modules.order": "".join(f"{before}{place}.{ending}\n" for place in places.values()).encode(),
        "modules.builtin": built_in,
        **{f"{place}.ko": module(name, srcversion="FFFF") for name, place in places.items()},
    }
    out = write(tmp_path / "out", files)
    payload = make_payload(E1000E, base, load_build(str(out)))
    assert payload.modules == {
        name: hashlib.sha256(loaded_part(module(name, srcversion="FFFF"))).hexdigest() for name in ("pktgen", "e1000e")
    }
    assert (tree_of(out) / "kernel/kernel/configs.ko").is_file()
    # A list that changed makes another build, even if no module was built again.
    (out / "modules.builtin").write_bytes(built_in + b"kernel/net/8021q/8021q.ko\n")
    assert "8021q" in (tree_of(out) / "modules.builtin").read_text()
    assert payload.image.sha256 == hashlib.sha256(image()).hexdigest()
    # Its configuration is read, too.
    (out / ".config").write_text(config.replace("CONFIG_NET_NS=y\n", ""))
    with pytest.raises(CapabilityError, match="was built without network namespaces"):
        make_payload(E1000E, base, load_build(str(out)))
    for file, text, message in (
        (
            "modules.order",
            "../../etc/passwd.o\n",
            r"modules.order: expected a module such as net/core/pktgen.o, got '\.\./",
        ),
        ("modules.order", "9" * 400 + "/e1000e.o\n", r"/9{400}/e1000e.ko is not built, but modules.order lists it"),
        (
            "include/config/kernel.release",
            "../6.1\n",
            r"release: expected a kernel release such as 6.12.25, got '\.\./6.1'",
        ),
    ):
        kept = (out / file).read_text()
        (out / file).write_text(text)
        with pytest.raises(ConfigError, match=message):
            load_build(str(out))
        (out / file).write_text(kept)
    (out / f"{places['e1000e']}.ko").unlink()
    with pytest.raises(ConfigError, match=r"e1000e.ko is not built, but modules.order lists it; run `make modules`$"):
        load_build(str(out))
    (out / "arch/arm64/boot/Image").unlink()
    with pytest.raises(ConfigError, match=r"out has no kernel image; expected arch/arm64/boot/Image, as `make Image "):
        load_build(str(out))


def pull_request(*built_in: str, **modules: bytes) -> dict[str, bytes]:
    """Return the artefact of a pull request of raspberrypi/linux."""
    folder = f"lib/modules/{RELEASE}"
    return {
        "boot/kernel8.img": gzip.compress(image()),
        **dict.fromkeys(("boot/bcm2711-rpi-4-b.dtb", "boot/overlays/eee.dtbo"), device_tree()),
        **{f"{folder}/kernel/drivers/{name}.ko.xz": lzma.compress(data) for name, data in modules.items()},
        f"{folder}/modules.builtin": "".join(f"kernel/drivers/{name}.ko\n" for name in built_in).encode(),
        f"{folder}/modules.dep": b"kernel/drivers/r8152.ko.xz: kernel/drivers/mii.ko.xz\n",
    }


@pytest.mark.parametrize("form", ["folder", "tar", "zip"])
def test_the_artefact_of_a_pull_request_has_all_that_its_boards_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    drivers = {name: module(name) for name in ("mii", "r8169", "realtek", "pktgen", "igb")}
    built_in = "usb/host/xhci-plat-hcd", "pci/controller/pcie-brcmstb", "net/usb/lan78xx", "net/phy/microchip"
    files = pull_request(*built_in, r8152=module("r8152", depends="mii"), **drivers)
    place = tmp_path / "bcm2711_build"
    if form == "folder":
        write(place, files)
    elif form == "tar":
        place.with_suffix(".tar").write_bytes(tar(files))
    else:
        with zipfile.ZipFile(place.with_suffix(".zip"), "w") as packing:
            packing.writestr("bcm2711_build.tar", tar(files))
    build = load_build(str(place if form == "folder" else place.with_suffix(f".{form}")))
    payload = make_payload(BOARDS["r8152"], build, None)
    assert [*payload.modules] == ["pktgen", "mii", "r8152"]
    assert (payload.image.data, payload.files["mii"]) == (image(), loaded_part(module("mii")))
    # No module depends on the driver of a PHY: the kernel finds it by an alias.
    assert [*make_payload(BOARDS["r8169"], build, None).modules] == ["pktgen", "realtek", "r8169"]
    assert [*make_payload(BOARDS["lan78xx"], build, None).modules] == ["pktgen"]
    with pytest.raises(UnfitBuildError, match=r"^build bcm2711_build.* has no driver macb$"):
        make_payload(MACB, build, None)


def test_a_board_needs_the_driver_of_its_bus(tmp_path: Path) -> None:
    """The defconfigs of Raspberry Pi have igb, and no driver for the PCI bridge of QEMU."""
    files = pull_request("usb/host/xhci-plat-hcd", igb=module("igb"), r8169=module("r8169"), r8152=module("r8152"))
    build = load_build(str(write(tmp_path / "bcm2711_build", files)))
    make_payload(BOARDS["r8152"], build, None)
    for name, driver in (("igb", "pci_host_generic"), ("r8169", "pcie_brcmstb")):
        with pytest.raises(UnfitBuildError, match=rf"^build bcm2711_build has no driver {driver}$") as raised:
            make_payload(BOARDS[name], build, None)
        assert raised.value.driver == driver, "the build has the driver of the NIC"
    # The board does not run, whatever else the kernel lacks.
    with pytest.raises(UnfitBuildError, match=r"^build bcm2711_build has no driver e1000e$"):
        make_payload(BOARDS["e1000e-slot"], build, None)


def test_a_build_that_lacks_what_a_driver_needs_is_a_mistake(tmp_path: Path) -> None:
    files = pull_request("usb/host/xhci-plat-hcd", r8152=module("r8152", depends="mii"))
    build = load_build(str(write(tmp_path / "bcm2711_build", files)))
    with pytest.raises(ConfigError, match=r"^r8152 needs mii, which build bcm2711_build lacks; add mii\.ko to the"):
        make_payload(BOARDS["r8152"], build, None)


def test_a_tree_must_say_which_drivers_are_built_in(tmp_path: Path) -> None:
    files = pull_request(pktgen=module("pktgen"))
    folder = write(tmp_path / "bcm2711_build", files)
    (folder / f"lib/modules/{RELEASE}/modules.builtin").unlink()
    with pytest.raises(ConfigError, match=rf"^build \S+ has neither a module macb nor the list .*/{RELEASE}/modules\."):
        make_payload(MACB, load_build(str(folder)), None)


def test_all_boards_share_the_image_of_a_build(base: Build) -> None:
    assert make_payload(E1000E, base, None).image is make_payload(VIRTIO, base, None).image


def test_settings_of_a_build_reach_the_kernel(base: Build, tmp_path: Path) -> None:
    text = """
        modules: e1000e.ko
        cmdline: init_on_free=1
        options: {e1000e: {debug: 16}, workqueue: {power_efficient: 1}}
        sysctls: {net.ipv4.tcp_sack: 0}
    """
    folder = write(tmp_path / "b", {"build.yaml": text.encode(), "e1000e.ko": module("e1000e")})
    payload = make_payload(E1000E, base, load_build(str(folder)))
    assert payload.cmdline.endswith(" init_on_free=1 workqueue.power_efficient=1")
    lines = script(payload.initramfs)
    assert "module /modules/e1000e.ko debug=16" in lines
    assert "write /proc/sys/net/ipv4/tcp_sack 0" in lines


@pytest.fixture
def two() -> ExactBoard:
    return replace(E1000E, machine=replace(E1000E.machine, processors=2))


@pytest.mark.parametrize(("rps", "mask"), [("1", "2"), ("0", "1"), ("all", "3"), ("off", "0"), ("'0x2'", "2")])
def test_rps_is_set_before_the_traffic(base: Build, tmp_path: Path, two: ExactBoard, rps: str, mask: str) -> None:
    build = load_build(str(write(tmp_path / "b", {"build.yaml": f"rps: {rps}".encode()})))
    lines = script(make_payload(two, base, build).initramfs)
    assert lines[lines.index("pair 02:00:00:00:00:01 02:00:00:00:00:02") + 1] == f"rps {mask}"
    assert not any(line.startswith("rps") for line in script(make_payload(two, base, None).initramfs))


def test_interrupts_move_before_the_traffic(base: Build, tmp_path: Path, two: ExactBoard) -> None:
    build = load_build(str(write(tmp_path / "b", {"build.yaml": b"irq: 1\nrps: 0"})))
    lines = script(make_payload(two, base, build).initramfs)
    begin = lines.index("pair 02:00:00:00:00:01 02:00:00:00:00:02") + 1
    assert lines[begin : begin + 2] == ["interrupts 2", "rps 1"]
    third = load_build(str(write(tmp_path / "2", {"build.yaml": b"irq: 2"})))
    with pytest.raises(ConfigError, match=r"^build 2 sets irq: 2, but the exact board e1000e has only the processors "):
        make_payload(two, base, third)


def test_interrupts_behind_the_bridge_of_a_raspberry_pi_4_do_not_move(tmp_path: Path) -> None:
    two = replace(R8169, machine=replace(R8169.machine, processors=2))
    base = build_of(tmp_path / "base", **{name: module(name) for name in ("pcie_brcmstb", "r8169", "pktgen")})
    build = load_build(str(write(tmp_path / "b", {"build.yaml": b"irq: 1"})))
    with pytest.raises(
        CapabilityError,
        match=r"^build b sets irq: 1, but the exact board r8169 has the PCI Express bridge of a Raspberry Pi 4, whose ",
    ):
        make_payload(two, base, build)
    build = load_build(str(write(tmp_path / "c", {"build.yaml": b"rps: 1"})))
    assert "rps 2" in script(make_payload(two, base, build).initramfs)


def test_a_board_that_cannot_steer_packets_is_one_sentence(base: Build, tmp_path: Path, two: ExactBoard) -> None:
    second, third = (
        load_build(str(write(tmp_path / name, {"build.yaml": f"rps: {name}".encode()}))) for name in ("1", "2")
    )
    with pytest.raises(
        CapabilityError,
        match=r"^build 1 sets rps: 1, but the exact board e1000e has one processor, which does all work; "
        r"name a lab file whose board has 'cores: 2' \(--lab\)$",
    ):
        make_payload(E1000E, base, second)
    with pytest.raises(ConfigError, match=r"^build 2 sets rps: 2, but the exact board e1000e has only the processors "):
        make_payload(two, base, third)
    with pytest.raises(CapabilityError, match=r"but the exact board e1000e unplugs its NIC, which loses this "):
        make_payload(replace(two, machine=replace(two.machine, slot="nic-slot")), base, second)


def test_rps_needs_a_kernel_that_steers_packets(base: Build, tmp_path: Path, two: ExactBoard) -> None:
    config = "".join(f"{name}=y\n" for name in NEEDED)
    (Path(base.of(BuildFileRole.KERNEL)[0].path).parent / f"config-{RELEASE}").write_text(config)
    make_payload(two, base, None)
    build = load_build(str(write(tmp_path / "b", {"build.yaml": b"rps: 1"})))
    with pytest.raises(CapabilityError, match=r"was built without packet steering \(CONFIG_RPS\); set these"):
        make_payload(two, base, build)


def test_a_meaningless_change_moves_what_surrounds_a_build_and_not_the_build(base: Build) -> None:
    payload = make_payload(E1000E, base, None)
    found = [payload.vary(number) for number in range(5)]
    assert found[0].initramfs == payload.initramfs
    assert len({one.initramfs for one in found}) == len({one.cmdline for one in found}) == 5
    assert len({len(one.initramfs) for one in found}) == 5
    assert {tuple(one.modules.items()) for one in found} == {tuple(payload.modules.items())}
    # The traffic and the order of the modules stay, except for the place of the sender of frames.
    lines = [script(one.initramfs) for one in found]
    assert (
        lines[0]
        == lines[2]
        == ["limit 300", *(f"module /modules/{name}.ko" for name in payload.modules), *lines[0][3:]]
    )
    assert lines[1] == lines[3] == [lines[0][0], lines[0][2], lines[0][1], *lines[0][3:]]
    assert payload.vary(3).initramfs == make_payload(E1000E, base, None).vary(3).initramfs


def test_a_module_is_padded_where_nothing_reads(base: Build) -> None:
    plain = loaded_part(module("e1000e"))
    assert plain in make_payload(E1000E, base, None).initramfs
    varied = make_payload(E1000E, base, None).vary(1).initramfs
    assert plain not in varied
    assert b"pinet.padding" in varied


@pytest.mark.parametrize("where", ["configuration", "command line"])
def test_a_kernel_that_needs_signatures_gets_its_modules_as_they_are(base: Build, tmp_path: Path, where: str) -> None:
    signed = module("e1000e") + b"~Module signature appended~\n"
    build = load_build(str(write(tmp_path / "b", {"e1000e.ko": signed, "build.yaml": b"modules: e1000e.ko"})))
    assert signed not in make_payload(E1000E, base, build).initramfs
    if where == "configuration":
        config = "".join(f"{name}=y\n" for name in (*NEEDED, "CONFIG_MODULE_SIG_FORCE"))
        (Path(base.of(BuildFileRole.KERNEL)[0].path).parent / f"config-{RELEASE}").write_text(config)
    else:
        text = b"modules: e1000e.ko\ncmdline: module.sig_enforce=1"
        build = load_build(str(write(tmp_path / "c", {"e1000e.ko": signed, "build.yaml": text})))
    payload = make_payload(E1000E, base, build)
    assert signed in payload.initramfs
    assert signed in payload.vary(2).initramfs


def test_without_pktgen_our_own_sender_sends_the_frames(tmp_path: Path) -> None:
    base = build_of(tmp_path, e1000e=module("e1000e"), af_packet=module("af_packet"))
    payload = make_payload(E1000E, base, None)
    assert payload.sender == "sender"
    assert "sender rx 1514 2500" in script(payload.initramfs)
    assert [*payload.modules] == ["af_packet", "e1000e"]


def test_features_have_the_names_of_the_kernel(base: Build, tmp_path: Path) -> None:
    text = b"features: {scatter-gather: on, tso: on, gro: off, tx-udp-segmentation: off}"
    build = load_build(str(write(tmp_path / "b", {"build.yaml": text})))
    lines = script(make_payload(E1000E, base, build).initramfs)
    begin = lines.index("distance 500") - 4
    assert lines[begin : begin + 4] == [
        "feature tx-scatter-gather* on",
        "feature tx-tcp*-segmentation on",
        "feature rx-gro off",
        "feature tx-udp-segmentation off",
    ]
    with pytest.raises(
        CapabilityError, match="sets features, but the exact board virtio-net-slot unplugs its NIC, which"
    ):
        make_payload(BOARDS["virtio-net-slot"], base, build)


def test_traffic_in_a_vlan_needs_its_module(tmp_path: Path) -> None:
    of_board = {name: module(name) for name in (*GENET.nic.modules, *GENET.nic.path)}
    own = {"8021q": module("8021q", depends="mrp"), "mrp": module("mrp"), "pktgen": module("pktgen")}
    base = build_of(tmp_path / "a", **of_board, **own)
    amounts = amounts_of(GENET, (7, 2))
    payload = make_payload(GENET, base, None, amounts=amounts)
    assert [*payload.modules] == [*GENET.nic.modules, "pktgen", "mrp", "8021q", *GENET.nic.path]
    lines = script(payload.initramfs)
    assert lines.count("vlan rx 60 64") == 3
    # The other build has no such module.
    without = make_payload(GENET, base, None, amounts=amounts, optional=["pktgen"])
    assert [*without.modules] == [*GENET.nic.modules, "pktgen", *GENET.nic.path]
    assert script(without.initramfs) == [
        line for line in lines if not line.startswith("vlan") and "8021q" not in line and "mrp" not in line
    ]


def load_file(path: Path, data: bytes) -> Build:
    return load_build(str(write(path.parent, {path.name: data}) / path.name))


def test_a_build_for_another_processor_is_a_mistake(base: Build, tmp_path: Path) -> None:
    foreign = load_file(tmp_path / "e1000e.ko", module("e1000e", machine=62))
    with pytest.raises(
        ConfigError,
        match=r"^build e1000e.ko is for x86_64, but exact boards are arm64; build it with ARCH=arm64 and CROSS_",
    ):
        make_payload(E1000E, base, foreign)


def test_a_board_cannot_judge_a_build_without_its_driver(base: Build, tmp_path: Path) -> None:
    with pytest.raises(UnfitBuildError, match=r"^build base has no driver macb$"):
        make_payload(MACB, base, None)
    names = ("lan78xx", "tg3", "r8169", "igc")
    other = load_build(",".join(str(write(tmp_path, {f"{n}.ko": module(n)}) / f"{n}.ko") for n in names))
    with pytest.raises(UnfitBuildError, match=r"^build lan78xx.ko\+.* changes no module of this board$") as raised:
        make_payload(E1000E, base, other)
    assert (raised.value.build, raised.value.driver) == (
        "a build that changes only igc, lan78xx, r8169 and 1 more",
        "e1000e",
    )


def test_an_image_without_modules_must_have_the_driver_built_in(base: Build, tmp_path: Path) -> None:
    lone = load_file(tmp_path / "Image", image())
    with pytest.raises(UnfitBuildError, match=r"^build Image has no driver e1000e$") as raised:
        make_payload(E1000E, base, lone)
    assert raised.value.build.startswith("a kernel without modules (Image,modules.tar.xz names both)")
    make_payload(E1000E, base, load_file(tmp_path / "b" / "Image", image() + b"\0e1000e\0"))
    # Modules beside it say nothing about what is built in.
    files = write(tmp_path / "c", {"Image": image() + b"\0virtio_net\0", "e1000e.ko": module("e1000e")})
    two = load_build(f"{files / 'Image'},{files / 'e1000e.ko'}")
    assert [*make_payload(E1000E, base, two).modules] == ["e1000e"]
    assert [*make_payload(VIRTIO, base, two).modules] == []
    with pytest.raises(UnfitBuildError, match=r" has no driver macb$"):
        make_payload(MACB, base, two)


@pytest.mark.parametrize(
    ("vermagic", "message"),
    [
        (OLD, f"is a module for kernel 6.1.0-1-arm64, but kernel {RELEASE} boots; build it with the headers of this"),
        (
            f"{RELEASE} SMP aarch64",
            f"has vermagic '{RELEASE} SMP aarch64', but the kernel that boots loads only modules",
        ),
    ],
)
def test_a_module_of_another_kernel_is_a_mistake(base: Build, tmp_path: Path, vermagic: str, message: str) -> None:
    path = tmp_path / "e1000e.ko"
    old = load_file(path, module("e1000e", vermagic=vermagic))
    for board in (E1000E, VIRTIO):
        with pytest.raises(ConfigError, match=f"^{re.escape(f'{path} {message}')}"):
            make_payload(board, base, old)


def test_the_traffic_program_was_built_from_its_source() -> None:
    guest = resources.files("pytest_pinet.exact").joinpath("guest")
    headers = sorted(file.name for file in guest.iterdir() if file.name.endswith(".h"))
    source = b"".join(guest.joinpath(name).read_bytes() for name in ("traffic.c", *headers))
    built_from = b"pinet-exact-source:" + hashlib.sha256(source).hexdigest().encode()
    assert built_from in traffic_program(), "run tools/exact-guest"


def test_a_board_with_a_slot_has_one_event_of_the_host_for_each_wait_of_the_guest(base: Build) -> None:
    board = BOARDS["virtio-net-slot"]
    payload = make_payload(board, base, None, amounts=amounts_of(board, (7, 2)))
    assert script(payload.initramfs)[-18:] == ["link tx 64 1"] * 15 + ["replug tx 64 1"] * 3
    assert [str(event) for event in payload.events] == ["link off", "link on"] * 15 + ["unplug", "plug in"] * 3
    assert make_payload(VIRTIO, base, None).events == ()


def test_a_board_with_a_slot_needs_a_kernel_with_hot_plug(base: Build, tmp_path: Path) -> None:
    config = "".join(f"{name}=y\n" for name in NEEDED)
    (Path(base.of(BuildFileRole.KERNEL)[0].path).parent / f"config-{RELEASE}").write_text(config)
    make_payload(VIRTIO, base, None)
    with pytest.raises(CapabilityError, match=r"devices that are plugged in \(CONFIG_HOTPLUG_PCI_PCIE\)"):
        make_payload(BOARDS["virtio-net-slot"], base, None)


def with_pages(folder: Path, pages_kib: int | None) -> Build:
    files = {"Image": image(pages_kib=pages_kib), **tree(RELEASE, e1000e=module("e1000e"))}
    return load_build(str(write(folder, files)))


@pytest.mark.parametrize(
    ("pages", "size", "machine", "processor"),
    [(None, 4, "virt", "cortex-a72"), (4, 4, "virt", "cortex-a72"), (16, 16, "virt-a76", "cortex-a76")],
)
def test_the_pages_of_a_kernel_choose_the_processor(
    tmp_path: Path, pages: int | None, size: int, machine: str, processor: str
) -> None:
    payload = make_payload(E1000E, with_pages(tmp_path / "b", pages), None)
    assert (payload.pages_kib, payload.board.machine.name, payload.board.machine.slot) == (size, machine, "")
    argv = arguments(payload.board, Path("kernel"), Path("initramfs"), payload.cmdline, 3)
    assert argv[argv.index("-cpu") + 1] == processor


def test_a_kernel_with_pages_of_64_kib_is_one_sentence(base: Build, tmp_path: Path) -> None:
    refused = (
        r" has pages of 64 KiB, but exact boards have pages of 4 or 16 KiB: build it with CONFIG_ARM64_4K_PAGES or "
    )
    with pytest.raises(CapabilityError, match=refused):
        make_payload(E1000E, base, with_pages(tmp_path / "b", 64))
