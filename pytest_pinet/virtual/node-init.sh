#!/bin/sh
# PID 1 of a virtual board or switch, first half: creates its view of the machine, then drops the rights for that.
# Runs inside new mount, UTS, IPC and PID namespaces. Environment: ROLE (node or switch), NAME, CONSOLE (a pty of
# the node), DEVICES (network devices to bring up), CARD (the folder of its boot partition). The working directory
# holds the files of boot_files.py.
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
unset OLDPWD
trap '' INT QUIT TSTP HUP

[ "$ROLE" = switch ] || cat bootlog-early

# Mount the boot partition, whose files alone survive. It is mounted first, since /run or /tmp may hide the card later.
if [ "$ROLE" = node ]; then
    mount -t tmpfs -o mode=755,size=1m tmpfs /boot && mkdir /boot/firmware && mount --bind "$CARD" /boot/firmware
    mkdir /boot/mailbox && mount --bind mailbox /boot/mailbox
fi

# The machine's own view. The files are copied to /run first, because a mount on /tmp may hide the working directory.
mount -t tmpfs -o mode=755,size=16m tmpfs /run
mkdir -p /run/pinet /run/sshd /run/lock /run/dev
cp -R . "${0%/*}/node-boot.sh" /run/pinet
: > /run/utmp
cd /run/pinet || exit 1
if [ "$ROLE" = node ]; then mount --move /boot/mailbox mailbox && rmdir /boot/mailbox; fi
mount -t proc proc /proc
mount -t sysfs sysfs /sys
echo "$NAME" > /proc/sys/kernel/hostname
# Root in here may read all settings of the host (sysrq, core_pattern, interrupts), but change only the settings of its
# network namespace.
mount --bind /proc/sys/net /proc/sys/net
mount -o remount,bind,ro /proc
mount --bind /sys/devices/virtual/net /sys/devices/virtual/net
mount -o remount,bind,ro /sys
# No disks: only a few devices, its own terminals, and the serial line, which is a pty of the host.
# Bind mounts, because root in a user namespace is not permitted to make devices.
mount -t tmpfs -o mode=755,nosuid,size=16m tmpfs /run/dev
for device in null zero full random urandom tty; do
    : > /run/dev/$device
    mount --bind /dev/$device /run/dev/$device
done
(cd /dev && cp -a fd stdin stdout stderr /run/dev)
mkdir -m 1777 /run/dev/shm
mkdir /run/dev/pts
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts /run/dev/pts
ln -s pts/ptmx /run/dev/ptmx
if [ "$ROLE" = node ]; then
    : > /run/dev/ttyAMA0
    mount --bind "$CONSOLE" /run/dev/ttyAMA0
fi
mount --move /run/dev /dev
for dir in /tmp /var/tmp /root /var/log; do
    mount -t tmpfs -o mode=1777,size=256m tmpfs "$dir"
done
chmod 700 /root
if [ "$ROLE" = node ]; then
    mount --bind cmdline /proc/cmdline && mount -o remount,bind,ro /proc/cmdline
    # Only hosts with a device tree have this file, and it names the host.
    [ ! -e /proc/device-tree/model ] || mount --bind model /proc/device-tree/model
fi
chmod 755 /var/log
# Its own files of /etc. The kernel removes a mount on a single file as soon as the host replaces this file, as useradd
# and package managers do, so such mounts are only for machines whose kernel refuses an overlay here.
mount -t overlay -o lowerdir=/run/pinet/etc:/etc overlay /etc 2>/dev/null || (cd etc && find . -type f) |
    while read -r file; do [ ! -e "/etc/$file" ] || mount --bind "etc/$file" "/etc/$file"; done
cp root/.[a-z]* /root/
# The PHY: a veth always reports 10000 Mbit/s. These files hold the speed that the board's NIC negotiated.
for phy in phy/*; do
    device=${phy#phy/}
    [ -e "/sys/class/net/$device/speed" ] || continue
    mount --bind "$phy/speed" "/sys/class/net/$device/speed"
    mount --bind "$phy/duplex" "/sys/class/net/$device/duplex"
done
mount -o remount,bind,ro /

# Capabilities for ip, tc, nft, iperf3, sshd and login. Without sys_admin and mknod, no mount above can be undone and no
# disk device made. PID 1 must drop them too, because other processes could use them through PID 1.
users=chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+sys_chroot,+audit_write
network=net_admin,+net_raw,+net_bind_service,+net_broadcast
processes=ipc_lock,+sys_nice,+sys_resource,+sys_tty_config
exec setpriv --inh-caps=-all --bounding-set="-all,+$users,+$network,+$processes" sh /run/pinet/node-boot.sh
