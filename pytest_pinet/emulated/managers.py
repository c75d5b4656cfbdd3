"""What a card with systemd and the four network managers has beside the usual card. One of them runs on each board.

Each manager configures ``mgmt0``, which carries ssh, and ``eth0`` and ``wlan1`` with fixed addresses (``wlan1`` exists
after ``modprobe mac80211_hwsim``). Other NICs are left to the manager's defaults.
"""

from __future__ import annotations

PACKAGES = (
    *("dbus", "systemd", "systemd-sysv", "udev"),
    *("dhcpcd", "ifupdown", "network-manager", "hostapd", "iw", "wpasupplicant"),
)
# A Wi-Fi chip as the kernel simulates it, for an association that must not be lost.
MODULES = ("drivers/net/wireless/mac80211_hwsim.ko*", "drivers/net/bonding/*", "drivers/net/dummy.ko*", "fs/autofs/*")
MANAGEMENT, GATEWAY, TESTED, WIFI = "10.0.2.15/24", "10.0.2.2", "192.168.77.2/24", "192.168.88.2/24"
# Below this folder, each manager's files are at the path that they have on a board: the boot script copies them.
_SETTINGS = "usr/lib/pinet/managers"
_PROFILE = """\
[connection]
id={device}
uuid=11111111-2222-3333-4444-{number:012}
type=ethernet
interface-name={device}

[ipv4]
method=manual
address1={address}

[ipv6]
method=disabled
"""
_CONNECTIONS = "NetworkManager/system-connections"
_FILES = {
    f"NetworkManager/{_CONNECTIONS}/mgmt0.nmconnection": _PROFILE.format(
        device="mgmt0", number=1, address=f"{MANAGEMENT},{GATEWAY}"
    ),
    f"NetworkManager/{_CONNECTIONS}/eth0.nmconnection": _PROFILE.format(device="eth0", number=2, address=TESTED),
    f"NetworkManager/{_CONNECTIONS}/wlan1.nmconnection": _PROFILE.format(
        device="wlan1", number=3, address=WIFI
    ).replace("ethernet", "wifi")
    + "\n[wifi]\nmode=infrastructure\nssid=pinet\n",
    "systemd-networkd/systemd/network/10-mgmt0.network": (
        f"[Match]\nName=mgmt0\n[Network]\nAddress={MANAGEMENT}\nGateway={GATEWAY}\n"
    ),
    "systemd-networkd/systemd/network/20-eth0.network": f"[Match]\nName=eth0\n[Network]\nAddress={TESTED}\n",
    "systemd-networkd/systemd/network/20-wlan1.network": f"[Match]\nName=wlan1\n[Network]\nAddress={WIFI}\n",
    "systemd-networkd/systemd/network/30-others.network": "[Match]\nName=eth*\n[Network]\nDHCP=yes\n",
    "dhcpcd/dhcpcd.conf": (
        "duid\npersistent\nslaac private\nnohook wpa_supplicant\n"
        f"interface mgmt0\nstatic ip_address={MANAGEMENT}\nstatic routers={GATEWAY}\n"
        f"interface eth0\nstatic ip_address={TESTED}\ninterface wlan1\nstatic ip_address={WIFI}\n"
    ),
    "ifupdown/network/interfaces": (
        f"auto lo mgmt0 eth0\niface lo inet loopback\niface mgmt0 inet static\naddress {MANAGEMENT}\n"
        f"gateway {GATEWAY}\niface eth0 inet static\naddress {TESTED}\niface wlan1 inet static\naddress {WIFI}\n"
    ),
}
_BOOT_UNIT = """\
[Unit]
Description=Settings, NICs and ssh of an emulated board
DefaultDependencies=no
After=local-fs.target systemd-udev-trigger.service systemd-tmpfiles-setup.service dbus.socket
Before=network-pre.target
Wants=network-pre.target dbus.socket

[Service]
Type=oneshot
RemainAfterExit=yes
KillMode=process
ExecStart=/etc/init.d/boot
TimeoutStartSec=300
StandardOutput=journal+console
StandardError=journal+console
"""
_CONSOLE_UNIT = """\
[Unit]
Description=Login on the serial console
After=pinet-boot.service

[Service]
ExecStart=/usr/lib/pinet/console
Restart=always
RestartSec=0
KillMode=process
SendSIGHUP=yes
"""
_UNITS = "etc/systemd/system"
# The accounts that maintainer scripts would make.
ACCOUNTS = (
    "messagebus:x:101:101::/nonexistent:/usr/sbin/nologin\n"
    "systemd-network:x:102:102::/:/usr/sbin/nologin\n"
    "dhcpcd:x:103:65534::/usr/lib/dhcpcd:/bin/false\n"
)
GROUPS = "messagebus:x:101:\nsystemd-network:x:102:\nnetdev:x:104:\nsystemd-journal:x:105:\nshadow:x:42:\n"
FILES = {
    # An empty file: systemd writes an id of the board's own. Without the file it would enable all units.
    "etc/machine-id": "",
    # The initramfs of initramfs-tools mounts it read-only. For this entry, systemd makes it writable.
    "etc/fstab": "LABEL=rootfs / ext4 noatime 0 0\n",
    # dhcpcd's unit makes it writable, and does not start without it.
    "etc/resolv.conf": "",
    f"{_UNITS}/pinet-boot.service": _BOOT_UNIT,
    f"{_UNITS}/pinet-console.service": _CONSOLE_UNIT,
    **{f"{_SETTINGS}/{path}": text for path, text in _FILES.items()},
}
LINKS = {
    "var/run": "/run",
    "var/lock": "/run/lock",
    f"{_UNITS}/default.target": "/usr/lib/systemd/system/multi-user.target",
    f"{_UNITS}/multi-user.target.wants/pinet-boot.service": f"/{_UNITS}/pinet-boot.service",
    f"{_UNITS}/multi-user.target.wants/pinet-console.service": f"/{_UNITS}/pinet-console.service",
    f"{_UNITS}/serial-getty@.service": "/dev/null",
    f"{_UNITS}/getty-static.service": "/dev/null",
    # NetworkManager starts it by D-Bus.
    f"{_UNITS}/dbus-fi.w1.wpa_supplicant1.service": "/usr/lib/systemd/system/wpa_supplicant.service",
    # The boot script names the NICs.
    "etc/systemd/network/73-usb-net-by-mac.link": "/dev/null",
    "etc/systemd/network/99-default.link": "/dev/null",
}
# NetworkManager ignores profiles that others can read.
SECRET = (f"{_SETTINGS}/NetworkManager/{_CONNECTIONS}/",)
