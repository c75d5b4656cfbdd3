#!/bin/sh
# PID 1 of a virtual board or switch, second half: starts it and keeps its console alive. It runs without the rights
# that node-init.sh needed, in the working directory and environment of node-init.sh.
set -u
trap '' INT QUIT TSTP HUP
# `poweroff` in a board. The kernel ends all other processes together with PID 1.
[ "$ROLE" = switch ] || trap 'exit 0' USR2

announce() { # patterns of the devices
    mkdir -p /run/lldpd
    # In the background, since no later step needs it. lldpd returns as soon as its daemon runs.
    lldpd -k -I "$1" -O /run/pinet/lldpd.conf >/var/log/lldpd.log 2>&1 &
}

ip link set lo up
# All connections come from one address. OpenSSH 9.8 and later would block it after a few failed ones.
/usr/sbin/sshd -f /run/pinet/sshd_config -E /var/log/sshd.log -o PerSourcePenalties=no 2>/dev/null ||
    /usr/sbin/sshd -f /run/pinet/sshd_config -E /var/log/sshd.log || cat /var/log/sshd.log
if [ "$ROLE" = switch ]; then
    announce "$PORTS"
    # There is no login on a switch's console. Sleep, and reap processes without a parent.
    while :; do sleep 3600 & wait; done
fi
for device in $DEVICES; do ip link set "$device" up; done
announce "$(echo "$DEVICES" | tr ' ' ,)"
cat bootlog-late
# Ask for a login name as agetty does. An empty name repeats the prompt, while login would ask for a password. agetty
# itself waits a second before its prompt (for modems), hence --skip-login.
cat > /run/pinet/ask-name <<'END'
#!/bin/sh
while [ -z "${name:-}" ]; do
    printf '%s login: ' "$(cat /etc/hostname)"
    read -r name || exit
done
exec login -- "$name"
END
chmod 755 /run/pinet/ask-name
while :; do
    # Open the console by path: when a login hangs up the terminal, inherited descriptors become useless.
    setsid -w -c agetty --skip-login --login-program /run/pinet/ask-name --local-line --noclear 115200 - vt100 \
        <>/dev/ttyAMA0 >&0 2>&0 &
    wait $!
    sleep 0.1
done
