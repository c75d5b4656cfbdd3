#!/bin/sh
# PID 1 of a virtual board or switch: makes its view of the machine, brings it up and keeps its console alive.
# Runs inside fresh mount, UTS, IPC and PID namespaces. Environment: ROLE (node or switch), NAME, CONSOLE (a pty of
# the node), DEVICES (network devices to bring up). The working directory holds the files of boot_files.py.
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
unset OLDPWD
trap '' INT QUIT TSTP HUP

say() { [ "$ROLE" = switch ] || printf '%s\n' "$1"; }

[ "$ROLE" = switch ] || cat bootlog-early

# Own view of the machine. /run comes first and takes the files along: the working directory may vanish under /tmp.
mount -t tmpfs -o mode=755,size=16m tmpfs /run
mkdir -p /run/pinet /run/sshd /run/lock
cp -R . /run/pinet
: > /run/utmp
cd /run/pinet || exit 1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
echo "$NAME" > /proc/sys/kernel/hostname
for dir in /tmp /var/tmp /root /var/log; do
    mount -t tmpfs -o mode=1777,size=256m tmpfs "$dir"
done
chmod 700 /root
chmod 755 /var/log
for file in hostname hosts passwd group shadow issue motd login.defs pam.d/login default/locale environment; do
    if [ -e "etc/$file" ] && [ -e "/etc/$file" ]; then mount --bind "etc/$file" "/etc/$file"; fi
done
cp root/.[a-z]* /root/
# The PHY: a veth always says 10000 Mbit/s. What the board's NIC negotiated stands in these files.
for phy in phy/*; do
    device=${phy#phy/}
    [ -e "/sys/class/net/$device/speed" ] || continue
    mount --bind "$phy/speed" "/sys/class/net/$device/speed"
    mount --bind "$phy/duplex" "/sys/class/net/$device/duplex"
done
mount -o remount,bind,ro /

ip link set lo up
# All connections come from one address; from OpenSSH 9.8 on a few failed ones would lock it out.
/usr/sbin/sshd -f /run/pinet/sshd_config -E /var/log/sshd.log -o PerSourcePenalties=no 2>/dev/null ||
    /usr/sbin/sshd -f /run/pinet/sshd_config -E /var/log/sshd.log || cat /var/log/sshd.log
if [ "$ROLE" = switch ]; then
    # Nobody logs in at a switch's console: sleep, and reap what is left behind.
    while :; do sleep 3600 & wait; done
fi
for device in $DEVICES; do ip link set "$device" up; done
cat bootlog-late
while :; do
    # By path, not inherited: a login that hangs up the terminal makes old descriptors useless. --skip-login because
    # agetty waits a second before it asks for a name itself (for modems); login does not.
    setsid -w -c agetty --skip-login --local-line --noclear 115200 - vt100 <>"$CONSOLE" >&0 2>&0
    sleep 0.1
done
