"""Which network devices a root file system over NFS needs, also below an overlay."""

# Shell scripts. ``root`` is put before the paths. The first sets ``server`` to the address of the server: that of / as
# the kernel mounted it, else of nfsroot=; to ``unknown`` without an address, and to nothing without an NFS root.
_SERVER = (
    r"server=$(sed -n 's/^[^ ]* \/ nfs4* .*,addr=\([^, ]*\).*/\1/p' $root/proc/self/mounts);"
    r' [ -n "$server" ] || server=$(tr " " "\n" <$root/proc/cmdline | sed -n "s/^nfsroot=\([0-9.]*\):.*/\1/p;'
    r' s/^nfsroot=\/.*/unknown/p; s/^root=\/dev\/nfs$/unknown/p" | sort | head -n 1);'
)
# Sets ``nics`` to the devices of the route to the server; to all if the server is unknown.
NFS_ROOT = (
    f"{_SERVER} nics=;"
    r' [ -z "$server" ] || { nics=$(ip -o route get $server 2>/dev/null | sed -n "s/.* dev \([^ ]*\).*/\1/p");'
    " nics=${nics:-$(cd $root/sys/class/net && ls -d */ | tr -d /)}; }"
)
# Sets ``nfs`` to the filter of ss for the connections to the server; to nothing without an NFS root. Port 2049 is in no
# list of options.
NFS_CONNECTIONS = (
    f"{_SERVER} nfs=;"
    r' [ -z "$server" ] || { nfs=$(sed -n "s/^[^ ]* \/ nfs4* .*,port=\([0-9]*\).*/\1/p" $root/proc/self/mounts);'
    ' nfs="dport = :${nfs:-2049}"; case $server in unknown) ;; *:*) nfs="$nfs and dst [$server]" ;;'
    ' *) nfs="$nfs and dst $server" ;; esac; }'
)
