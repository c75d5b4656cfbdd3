"""Which network devices a root file system over NFS needs, also below an overlay."""

# A shell script. It sets ``nics`` to the devices of the route to the server; to all if the server is unknown, and to
# nothing without an NFS root. The server is that of / as the kernel mounted it, else of nfsroot=. ``root`` is put
# before the paths.
NFS_ROOT = (
    r"server=$(sed -n 's/^[^ ]* \/ nfs4* .*,addr=\([^, ]*\).*/\1/p' $root/proc/self/mounts);"
    r' [ -n "$server" ] || server=$(tr " " "\n" <$root/proc/cmdline | sed -n "s/^nfsroot=\([0-9.]*\):.*/\1/p;'
    r' s/^nfsroot=\/.*/unknown/p; s/^root=\/dev\/nfs$/unknown/p" | sort | head -n 1); nics=;'
    r' [ -z "$server" ] || { nics=$(ip -o route get $server 2>/dev/null | sed -n "s/.* dev \([^ ]*\).*/\1/p");'
    " nics=${nics:-$(cd $root/sys/class/net && ls -d */ | tr -d /)}; }"
)
