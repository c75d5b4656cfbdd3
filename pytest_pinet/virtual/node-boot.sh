#!/bin/sh
# PID 1 of a virtual board or switch, second half: brings it up and keeps its console alive. Runs without the rights that
# node-init.sh needed, in its working directory and environment.
set -u
trap '' INT QUIT TSTP HUP

announce() { # patterns of the devices, more words for lldpd
    mkdir -p /run/lldpd
    # In the background: nobody waits for it, and it ends by itself as soon as its daemon stands.
    patterns=$1
    shift
    lldpd -k -I "$patterns" -O /run/pinet/lldpd.conf "$@" >/var/log/lldpd.log 2>&1 &
}

ip link set lo up
if [ "$ROLE" = switch ] && [ "$MANAGEMENT" = snmp ]; then
    # Nothing of the machine's own agent: neither its settings (-C) nor its state.
    MIBS="" SNMP_PERSISTENT_DIR=/run/pinet/snmp snmpd -C -c /run/pinet/snmpd.conf -r -p /run/pinet/snmpd.pid \
        -LF 4 /var/log/snmpd.log || cat /var/log/snmpd.log
    announce "$PORTS" -x -X "tcp:127.0.0.1:$AGENTX_PORT"
    while :; do sleep 3600 & wait; done
fi
# All connections come from one address; from OpenSSH 9.8 on a few failed ones would lock it out.
/usr/sbin/sshd -f /run/pinet/sshd_config -E /var/log/sshd.log -o PerSourcePenalties=no 2>/dev/null ||
    /usr/sbin/sshd -f /run/pinet/sshd_config -E /var/log/sshd.log || cat /var/log/sshd.log
if [ "$ROLE" = switch ]; then
    announce "$PORTS"
    # Nobody logs in at a switch's console: sleep, and reap what is left behind.
    while :; do sleep 3600 & wait; done
fi
for device in $DEVICES; do ip link set "$device" up; done
announce "$(echo "$DEVICES" | tr ' ' ,)"
cat bootlog-late
# As agetty does it: an empty line brings the prompt again, where login would ask for the password of nobody. agetty
# itself waits a second before it asks (for modems), hence --skip-login.
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
    # By path, not inherited: a login that hangs up the terminal makes old descriptors useless.
    setsid -w -c agetty --skip-login --login-program /run/pinet/ask-name --local-line --noclear 115200 - vt100 \
        <>/dev/ttyAMA0 >&0 2>&0
    sleep 0.1
done
