/*
 * Both NICs: the device under test, and its peer in a network namespace.
 *
 * SPDX-License-Identifier: MIT
 */

/* Index 0 is the device under test, 1 is its peer. */
static struct {
    char name[IFNAMSIZ];
    u8 mac[6];
    char mac_text[18];
    uint32_t address;
    const char *address_text;
    long namespace;
    int index;
} nics[2] = {{.address_text = "10.9.0.1"}, {.address_text = "10.9.0.2"}};

static void enter(int which)
{
    must(sys(setns, nics[which].namespace, CLONE_NEWNET), "the network namespace cannot be entered");
}

/* Calls `done` for each network interface of the present namespace until it returns 1. Returns 0 if it never does. */
static int any_interface(int which, long sock, int (*done)(int which, long sock, struct ifreq *request))
{
    static char text[8192];

    read_text("/proc/net/dev", text, sizeof(text));
    for (char *at = text; *at;) {
        struct ifreq request = {0};
        size_t n = 0;

        while (*at == ' ')
            at++;
        while (at[n] && at[n] != ':' && at[n] != '\n' && at[n] != ' ' && n < IFNAMSIZ - 1)
            n++;
        if (at[n] == ':') {
            memcpy(request.ifr_name, at, n);
            if (done(which, sock, &request))
                return 1;
        }
        while (*at && *at++ != '\n')
            ;
    }
    return 0;
}

/* Takes name and index of an interface with the MAC of the NIC. */
static int is_nic(int which, long sock, struct ifreq *request)
{
    int index;

    if (sys(ioctl, sock, SIOCGIFINDEX, request) != 0)
        return 0;
    index = request->ifr_ifindex;
    if (sys(ioctl, sock, SIOCGIFHWADDR, request) != 0)
        return 0;
    for (int i = 0; i < 6; i++)
        if ((u8)request->ifr_hwaddr.sa_data[i] != nics[which].mac[i])
            return 0;
    memcpy(nics[which].name, request->ifr_name, IFNAMSIZ);
    nics[which].index = index;
    return 1;
}

/* Interfaces have been opened up to the first index; the second one is the highest that there was. */
static int opened, newest;

/*
 * Opens an interface that is new and not in use, and closes it again. Each change is news of NICs, after which a window of
 * events looks again, so this must happen once.
 */
static int open_once(int which, long sock, struct ifreq *request)
{
    int index;

    (void)which;
    if (sys(ioctl, sock, SIOCGIFINDEX, request) != 0)
        return 0;
    index = request->ifr_ifindex;
    newest = index > newest ? index : newest;
    if (index <= opened || sys(ioctl, sock, SIOCGIFFLAGS, request) != 0 || request->ifr_flags & (IFF_UP | IFF_LOOPBACK))
        return 0;
    request->ifr_flags |= IFF_UP;
    if (sys(ioctl, sock, SIOCSIFFLAGS, request) == 0) {
        request->ifr_flags &= (short)~IFF_UP;
        sys(ioctl, sock, SIOCSIFFLAGS, request);
    }
    return 0;
}

/* Whether the driver reads the MAC from the NIC only when it is opened (ax88179_178a since Linux 6.6.16). */
static int opens_first;

/* Finds the name of the NIC with this MAC in the present namespace. */
static int find(int which, long sock)
{
    if (any_interface(which, sock, is_nic))
        return 1;
    if (!opens_first)
        return 0;
    any_interface(which, sock, open_once);
    opened = newest;
    return any_interface(which, sock, is_nic);
}

static u64 packets_of(int which, int sent)
{
    static char text[8192];
    size_t n = strlen(nics[which].name);

    read_text("/proc/net/dev", text, sizeof(text));
    for (char *at = text; *at;) {
        while (*at == ' ')
            at++;
        if (begins(at, nics[which].name) && at[n] == ':') {
            at += n + 1;
            /* Received octets, packets, and six more; then sent octets and packets. */
            for (int column = 0; column < (sent ? 9 : 1); column++) {
                while (*at == ' ')
                    at++;
                while (*at > ' ')
                    at++;
            }
            return number_in(at);
        }
        while (*at && *at++ != '\n')
            ;
    }
    fail("the NIC is gone", 0);
    return 0;
}

static struct sockaddr_in internet(uint32_t address, int port)
{
    struct sockaddr_in found = {.sin_family = 2};

    found.sin_addr.s_addr = address;
    found.sin_port = (uint16_t)(port >> 8 | port << 8);
    return found;
}

static struct ifreq request_for(int which)
{
    struct ifreq request = {0};

    memcpy(request.ifr_name, nics[which].name, IFNAMSIZ);
    return request;
}

static long link_index(int which, long sock)
{
    struct ifreq request = request_for(which);

    must(sys(ioctl, sock, SIOCGIFINDEX, &request), "the NIC has no index");
    return request.ifr_ifindex;
}

struct netlink_address {
    uint16_t family, pad;
    uint32_t pid, groups;
};

static long netlink_socket(void)
{
    return must(sys(socket, 16, SOCK_RAW, 0), "the kernel has no route netlink");
}

static void move(int which, long sock)
{
    struct {
        struct nlmsghdr head;
        struct ifinfomsg info;
        struct rtattr attribute;
        uint32_t fd;
    } message = {0};
    struct {
        struct nlmsghdr head;
        int error;
        char more[256];
    } answer;
    struct netlink_address kernel = {.family = 16};
    long netlink = netlink_socket();

    message.head.nlmsg_len = sizeof(message);
    message.head.nlmsg_type = RTM_NEWLINK;
    message.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
    message.info.ifi_index = (int)link_index(which, sock);
    message.attribute.rta_len = sizeof(message.attribute) + sizeof(message.fd);
    message.attribute.rta_type = IFLA_NET_NS_FD;
    message.fd = (uint32_t)nics[which].namespace;
    must(sys(sendto, netlink, &message, sizeof(message), 0, &kernel, sizeof(kernel)), "netlink");
    must(sys(recvfrom, netlink, &answer, sizeof(answer), 0, 0, 0), "netlink");
    must(answer.error, "the NIC cannot be moved to a network namespace");
    sys(close, netlink);
}

static long udp_socket(void)
{
    return must(sys(socket, 2, SOCK_DGRAM, 0), "the kernel has no IPv4");
}

/* Returns a negative number if the NIC is gone. */
static long flags_of(int which, long sock)
{
    struct ifreq request = request_for(which);
    long code = sys(ioctl, sock, SIOCGIFFLAGS, &request);

    return code < 0 ? code : (uint16_t)request.ifr_flags;
}

/* Why a step that can be repeated had no success. */
static struct { const char *what; long code; } trouble;

static int works(long code, const char *what)
{
    trouble.what = what;
    trouble.code = code;
    return code >= 0;
}

/* An address and a MAC that nothing has: frames to them are work for the sender only. */
static uint32_t none_address = 0x0300090a;
#define NONE "02:00:00:00:00:99"
static const u8 none_mac[6] = {2, 0, 0, 0, 0, 0x99};

/* Without ARP in a window. */
static int add_neighbour(int which, long sock, uint32_t address, const u8 *mac)
{
    struct arpreq wanted = {.arp_flags = ATF_PERM | ATF_COM};
    struct sockaddr_in other = internet(address, 0);

    memcpy(&wanted.arp_pa, &other, sizeof(other));
    wanted.arp_ha.sa_family = 1;
    memcpy(wanted.arp_ha.sa_data, mac, 6);
    memcpy(wanted.arp_dev, nics[which].name, IFNAMSIZ);
    return works(sys(ioctl, sock, SIOCSARP, &wanted), "the NIC takes no neighbour");
}

static int set_flags(int which, long sock, int set, int clear)
{
    struct ifreq request = request_for(which);
    long flags = flags_of(which, sock);

    request.ifr_flags = (short)((flags | set) & ~clear);
    return works(flags, "the NIC is gone") &&
           works(sys(ioctl, sock, SIOCSIFFLAGS, &request),
                 set ? "the NIC cannot be set up" : "the NIC cannot be set down");
}

/* Sets the addresses of the NIC in the present namespace and opens it. Returns 0 if that fails: the NIC may be gone. */
static int set_up(int which, long sock)
{
    struct ifreq request = request_for(which), masked = request;
    struct sockaddr_in address = internet(nics[which].address, 0), mask = internet(0x00ffffff, 0);

    memcpy(&request.ifr_addr, &address, sizeof(address));
    memcpy(&masked.ifr_addr, &mask, sizeof(mask));
    return works(sys(ioctl, sock, SIOCSIFADDR, &request), "the NIC takes no address") &&
           works(sys(ioctl, sock, SIOCSIFNETMASK, &masked), "the NIC takes no netmask") &&
           set_flags(which, sock, IFF_UP, 0) &&
           add_neighbour(which, sock, nics[!which].address, nics[!which].mac) &&
           add_neighbour(which, sock, none_address, none_mac);
}

static void configure(int which)
{
    long sock;

    enter(which);
    sock = udp_socket();
    if (!set_up(which, sock))
        fail(trouble.what, trouble.code);
    sys(close, sock);
}

static void carrier(int which)
{
    long sock;

    enter(which);
    sock = udp_socket();
    for (int tries = 0; !(must(flags_of(which, sock), "the NIC is gone") & IFF_RUNNING); tries++) {
        if (tries == 3000)
            fail("no carrier within 30 virtual seconds", 0);
        sleep_ns(SECOND / 100);
    }
    sys(close, sock);
}

static void mac_of(int which, const char *text)
{
    memcpy(nics[which].mac_text, text, 17);
    for (int i = 0; i < 6; i++) {
        int value = 0;

        for (int j = 0; j < 2; j++) {
            char digit = text[3 * i + j];

            value = value * 16 + (digit <= '9' ? digit - '0' : (digit | 32) - 'a' + 10);
        }
        nics[which].mac[i] = (u8)value;
    }
    nics[which].address = 0x0000090a | (uint32_t)(which + 1) << 24;
}

/* The time that all processors worked, in hundredths of a second: the first three numbers of /proc/stat. */
static u64 worked(void)
{
    static char text[8192];
    char *at = text;
    u64 sum = 0;

    read_text("/proc/stat", text, sizeof(text));
    for (int column = 0; column < 3; column++) {
        while (*at > ' ')
            at++;
        while (*at == ' ')
            at++;
        sum += number_in(at);
    }
    return sum;
}

/* Waits for a second in which the kernel does nothing. After its start, a kernel may test its cryptography for seconds. */
static void settle(void)
{
    for (int tries = 0; tries < 60; tries++) {
        u64 before = worked();

        sleep_ns(SECOND);
        if (worked() - before <= 2)
            return;
    }
}

/*
 * Lets the threads for soft interrupts run before all others. If such a thread waits for its turn behind pktgen's, the
 * kernel handles no received frame in between, and how many frames then come at once depends on the scheduler.
 */
static void softirqs_first(void)
{
    int priority = 1, found = 0;

    for (u64 pid = 2; pid < 200; pid++) {
        char path[32], name[32];

        print(path, sizeof(path), "/proc/%d/comm", pid);
        read_text(path, name, sizeof(name));
        if (begins(name, "ksoftirqd/"))
            found += sys(sched_setscheduler, pid, 1 /* SCHED_FIFO */, &priority) == 0;
    }
    if (!found)
        fail("the kernel has no thread ksoftirqd", 0);
}

/*
 * Sends everything over the first queue. A NIC with several queues (macb) otherwise chooses one by a random hash of each
 * connection, and its driver may handle them in different ways. NICs with one queue refuse.
 */
static void first_queue(int which)
{
    for (u64 queue = 0; queue < 8; queue++) {
        char path[80];
        long fd;

        print(path, sizeof(path), "/sys/class/net/%s/queues/tx-%d/xps_cpus", nics[which].name, queue);
        fd = sys(openat, -100, path, O_WRONLY, 0);
        if (fd < 0)
            return;
        sys(write, fd, queue ? "0" : "1", 1);
        sys(close, fd);
    }
}

static long ethtool(void *data)
{
    struct ifreq request = request_for(0);
    long sock, code;

    enter(0);
    sock = udp_socket();
    request.ifr_data = data;
    code = sys(ioctl, sock, SIOCETHTOOL, &request);
    sys(close, sock);
    return code;
}

/* Whether a name is this pattern, which may have one `*`. */
static int matches(const char *name, const char *pattern)
{
    size_t size = strlen(name), before = 0, after;

    while (pattern[before] && pattern[before] != '*')
        before++;
    if (!pattern[before])
        return equal(name, pattern);
    after = strlen(pattern + before + 1);
    for (size_t n = 0; n < before; n++)
        if (name[n] != pattern[n])
            return 0;
    return size >= before + after && equal(name + size - after, pattern + before + 1);
}

/* Switches features of the NIC under test on or off, as `ethtool -K` does, and reads them back. */
static void feature(char **words)
{
    static struct ethtool_names names = {.cmd = ETHTOOL_GSTRINGS, .set = ETH_SS_FEATURES};
    static struct ethtool_features now = {.cmd = ETHTOOL_GFEATURES};
    static struct ethtool_wanted_features wanted = {.cmd = ETHTOOL_SFEATURES};
    struct ethtool_set_info info = {.cmd = ETHTOOL_GSSET_INFO, .sets = 1 << ETH_SS_FEATURES};
    int on = equal(words[2], "on"), known = 0, active = 0;

    must(ethtool(&info), "the kernel has no list of features");
    names.count = info.count;
    now.blocks = wanted.blocks = (info.count + 31) / 32;
    if (now.blocks > FEATURE_BLOCKS)
        fail("the kernel has too many features", 0);
    must(ethtool(&names), "the kernel has no list of features");
    must(ethtool(&now), "the features of the NIC cannot be read");
    memset(wanted.at, 0, sizeof(wanted.at));
    for (uint32_t i = 0; i < info.count; i++) {
        uint32_t bit = 1u << i % 32;

        if (!matches(names.names[i], words[1]))
            continue;
        known = 1;
        if (!(now.at[i / 32].available & ~now.at[i / 32].never_changed & bit))
            continue;
        wanted.at[i / 32].valid |= bit;
        wanted.at[i / 32].requested |= on ? bit : 0;
    }
    if (!known)
        fail("the kernel knows no such feature", 0);
    must(ethtool(&wanted), "the NIC refuses the feature");
    must(ethtool(&now), "the features of the NIC cannot be read");
    for (uint32_t i = 0; i < info.count; i++)
        active |= matches(names.names[i], words[1]) && now.at[i / 32].active >> i % 32 & 1;
    if (active != on)
        fail(on ? "the NIC leaves the feature off; tso needs sg, and sg needs tx" : "the NIC leaves the feature on", 0);
    /* Some drivers begin again with other features. */
    carrier(0);
    settle();
}

/* Moves the interrupts of both NICs, and all others that the kernel can move. */
static void interrupts(char **words)
{
    u64 moved = 0;

    for (u64 number = 0; number < 1024; number++) {
        char path[40];
        long fd;

        print(path, sizeof(path), "/proc/irq/%d/smp_affinity", number);
        fd = sys(openat, -100, path, O_WRONLY, 0);
        if (fd < 0)
            continue;
        /* The kernel refuses it for interrupts that belong to a processor, such as its timer. */
        moved += sys(write, fd, words[1], strlen(words[1])) > 0;
        sys(close, fd);
    }
    if (!moved)
        fail("the kernel moves no interrupt", 0);
}

/* Sets RPS of each receive queue of the NIC under test, and reads it back. */
static void rps(char **words)
{
    char path[80], now[80], *at = now;
    u64 queue = 0;
    long fd;

    for (;; queue++) {
        print(path, sizeof(path), "/sys/class/net/%s/queues/rx-%d/rps_cpus", nics[0].name, queue);
        fd = sys(openat, -100, path, O_WRONLY, 0);
        if (fd < 0)
            break;
        must(sys(write, fd, words[1], strlen(words[1])), "the kernel refuses the mask");
        sys(close, fd);
        /* 00000000,00000002 */
        for (read_text(path, now, sizeof(now)), at = now; (*at == '0' || *at == ',') && at[1] > ' ';)
            at++;
        if (!begins(at, words[1]) || at[strlen(words[1])] > ' ')
            fail("the kernel has set another mask", 0);
    }
    if (!queue)
        fail("the kernel has no packet steering (CONFIG_RPS)", 0);
}

/*
 * Finds both NICs when the kernel has nothing to do. A NIC that no interface has then is one whose driver reads its MAC only
 * when it is opened. Some drivers let go of a NIC and take it again (r8152 binds, sets its configuration and binds again), so
 * both must be the same interfaces twice.
 */
static void find_both(long sock)
{
    int indexes[2] = {0}, same = 0;

    for (int rounds = 0; !same && rounds < 10; rounds++) {
        same = 1;
        settle();
        for (int which = 0; which < 2; which++) {
            int index = find(which, sock) ? nics[which].index : 0;

            opens_first |= !index;
            same &= index && index == indexes[which];
            indexes[which] = index;
        }
    }
    if (!indexes[0] || !indexes[1])
        fail("no driver has taken the NIC after the kernel was idle ten times", 0);
    if (!same)
        fail("the driver takes the NIC again and again", 0);
}

static void pair(char **words)
{
    long sock = udp_socket();
    struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq request;

    nics[0].namespace = must(sys(openat, -100, "/proc/self/ns/net", O_RDONLY, 0),
                             "the kernel has no network namespaces (CONFIG_NET_NS)");
    must(sys(unshare, CLONE_NEWNET), "the kernel has no network namespaces (CONFIG_NET_NS)");
    nics[1].namespace = must(sys(openat, -100, "/proc/self/ns/net", O_RDONLY, 0), "no network namespace");
    enter(0);
    mac_of(0, words[1]);
    mac_of(1, words[2]);
    find_both(sock);
    request = request_for(0);
    request.ifr_data = (void *)&driver;
    if (sys(ioctl, sock, SIOCETHTOOL, &request) == 0)
        result("driver %s\n", driver.driver);
    first_queue(0);
    first_queue(1);
    move(1, sock);
    configure(0);
    configure(1);
    carrier(0);
    carrier(1);
    enter(0);
    sys(close, sock);
    softirqs_first();
    settle();
}

/*
 * Gives the kernel's random numbers their first seed, as the disk and the network of a real machine do. Without a seed,
 * each number takes 18,000 instructions, more than the whole way of a packet. The seed is the same in each boot.
 */
static void seed(void)
{
    struct { int bits, size; char text[32]; } entropy = {256, 32, "pinet: the same in each boot"};
    long fd = sys(openat, -100, "/dev/random", O_WRONLY, 0);

    if (fd >= 0) {
        sys(ioctl, fd, 0x40085203 /* RNDADDENTROPY */, &entropy);
        sys(close, fd);
    }
}
