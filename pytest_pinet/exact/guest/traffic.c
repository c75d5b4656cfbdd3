/*
 * The only program of an exact board: init of its initramfs. It runs the commands of the file /script, one a line, and
 * writes results into its memory, where the host finds them (PAGE below). It needs no library, no device of its own and
 * no other program, so that the same instructions run in every boot.
 *
 *   limit S                  end with an error after S virtual seconds
 *   module PATH PARAMETERS   load a kernel module
 *   pair MAC MAC             find both NICs, move the second one to a network namespace, set addresses, wait for carrier
 *   counter                  count the instructions of the first processor with its own counter, too
 *   write PATH VALUE         set a parameter of the kernel, in both namespaces
 *   frame tx|rx SIZE N       send N frames of SIZE octets, each when the NIC has been idle for a while
 *   pktgen tx|rx SIZE N      send N frames of SIZE octets with the kernel's pktgen, at full load
 *   sender tx|rx SIZE N      send them with a packet socket
 *   tcp tx|rx OCTETS         send this many octets over TCP
 *   request tx|rx OCTETS N   send a request of so many octets and get an answer of the same size, N times, one after
 *                            the other and at even intervals
 *   bulk tx|rx OCTETS N      the same with many octets
 *   symbols                  list the kernel's functions
 *
 * Directions are those of the first NIC. Around each traffic there are two markers, instructions that do nothing and
 * that QEMU's plugin knows: `hint #0x70` begins a window, `hint #0x71` ends it.
 *
 * Build: see tools/exact-guest.
 *
 * SPDX-License-Identifier: MIT
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <asm/unistd.h>
#include <linux/if_packet.h>
#include <linux/in.h>
#include <linux/perf_event.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <linux/tcp.h>

/* The hash of this file: proves that the shipped binary was built from it. */
const char source_hash[] __attribute__((used)) = "pinet-exact-source:" SOURCE_HASH;

#define O_RDONLY 0
#define O_WRONLY 1
#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define SOCK_RAW 3
#define SOL_SOCKET 1
#define SO_REUSEADDR 2
#define SO_RCVBUF 8
#define SIGCHLD 17
#define POWER_OFF 0x4321fedc
#define SECOND 1000000000ull

typedef unsigned char u8;
typedef uint64_t u64;

/* The kernel's headers for these need those of a C library. */
#define IFNAMSIZ 16
#define IFF_UP 1
#define IFF_RUNNING 0x40
#define ETHTOOL_GDRVINFO 3
#define ATF_COM 2
#define ATF_PERM 4
struct sockaddr {
    uint16_t sa_family;
    char sa_data[14];
};
struct ifreq {
    char ifr_name[IFNAMSIZ];
    union {
        struct sockaddr ifr_addr, ifr_hwaddr;
        short ifr_flags;
        int ifr_ifindex;
        void *ifr_data;
        char whole[24];
    };
};
struct arpreq {
    struct sockaddr arp_pa, arp_ha;
    int arp_flags;
    struct sockaddr arp_netmask;
    char arp_dev[16];
};
struct ethtool_drvinfo {
    uint32_t cmd;
    char driver[32], more[160];
};

/* The system calls of arm64. */
static long call(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;

    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
#define sys(name, ...) sys_(__NR_##name, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define sys_(number, a, b, c, d, e, f, ...) \
    call(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* The compiler may call these. */
void *memset(void *to, int value, size_t size)
{
    for (u8 *at = to; size--;)
        *at++ = (u8)value;
    return to;
}

void *memcpy(void *to, const void *from, size_t size)
{
    u8 *at = to;

    for (const u8 *source = from; size--;)
        *at++ = *source++;
    return to;
}

size_t strlen(const char *text)
{
    size_t n = 0;

    while (text[n])
        n++;
    return n;
}

static int equal(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static int begins(const char *text, const char *with)
{
    while (*with && *text == *with)
        text++, with++;
    return !*with;
}

static u64 number_in(const char *text)
{
    u64 value = 0;

    while (*text == ' ')
        text++;
    while (*text >= '0' && *text <= '9')
        value = value * 10 + (u64)(*text++ - '0');
    return value;
}

/* The formats %s, %d (u64) and %% only. */
static size_t format(char *to, size_t room, const char *text, va_list list)
{
    size_t n = 0;

    for (; *text && n + 1 < room; text++) {
        if (*text == '%' && text[1] == 's') {
            const char *word = va_arg(list, const char *);

            while (*word && n + 1 < room)
                to[n++] = *word++;
            text++;
        } else if (*text == '%' && text[1] == 'd') {
            u64 value = va_arg(list, u64);
            char digits[20];
            int count = 0;

            do
                digits[count++] = (char)('0' + value % 10);
            while ((value /= 10));
            while (count && n + 1 < room)
                to[n++] = digits[--count];
            text++;
        } else
            to[n++] = *text;
    }
    to[n] = 0;
    return n;
}

static void print(char *to, size_t room, const char *text, ...)
{
    va_list list;

    va_start(list, text);
    format(to, room, text, list);
    va_end(list);
}

/* Results: pages that begin with these words. The host searches the guest's memory for them. */
#define MAGIC_A 0x70696e65742d6578ull
#define MAGIC_B 0x6163742d70616765ull
#define PAGE_SIZE 4096
#define PAGES 3072
struct page {
    u64 magic[2];
    uint32_t number, size;
    char text[PAGE_SIZE - 24];
};
static struct page results[PAGES] __attribute__((aligned(PAGE_SIZE)));
static uint32_t page_number;

static void give(const char *text, size_t size);
static void fail(const char *what, long code);

static void result(const char *text, ...)
{
    char line[512];
    va_list list;

    va_start(list, text);
    give(line, format(line, sizeof(line), text, list));
    va_end(list);
}

static void give(const char *text, size_t size)
{
    while (size) {
        struct page *page = &results[page_number];
        size_t room = sizeof(page->text) - page->size, now = size < room ? size : room;

        if (!room) {
            if (++page_number == PAGES)
                fail("the results have more than 12 MiB", 0);
            continue;
        }
        page->number = page_number;
        memcpy(page->text + page->size, text, now);
        page->size += (uint32_t)now;
        page->magic[1] = MAGIC_B;
        page->magic[0] = MAGIC_A;
        text += now;
        size -= now;
    }
}

static char *doing; /* the present command: shared with the watchdog */

static void say(const char *text)
{
    sys(write, 1, text, strlen(text));
}

static void end(void)
{
    for (;;) {
        sys(reboot, 0xfee1dead, 0x28121969, POWER_OFF, 0);
        sys(sched_yield);
    }
}

/* Ends the board. The host reads this line on the console. */
static void fail(const char *what, long code)
{
    char line[512];

    print(line, sizeof(line), "exact-failed: %s: %s (errno %d)\n", doing, what, (u64)(code < 0 ? -code : 0));
    say(line);
    end();
}

static long must(long value, const char *what)
{
    if (value < 0)
        fail(what, value);
    return value;
}

static void sleep_ns(u64 ns)
{
    struct { long s, ns; } time = {(long)(ns / SECOND), (long)(ns % SECOND)};

    sys(nanosleep, &time, 0);
}

static u64 ticks(void)
{
    u64 value;

    __asm__ volatile("isb\n mrs %0, cntvct_el0" : "=r"(value)::"memory");
    return value;
}

static u64 frequency(void)
{
    u64 value;

    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(value));
    return value;
}

static u64 ns_of(u64 count)
{
    return count / frequency() * SECOND + count % frequency() * SECOND / frequency();
}

/*
 * Waits for the middle of the next interval of the clock that gives the kernel its ticks (CLOCK_MONOTONIC). With
 * intervals that fit between ticks, or ticks that fit between intervals, a tick always meets the same part of the work,
 * whatever ran before. The program does not sleep: the scheduler would have work then.
 */
static void next_interval(u64 interval)
{
    struct { long s, ns; } time;
    u64 start, past;

    sys(clock_gettime, 1 /* CLOCK_MONOTONIC */, &time);
    start = ticks();
    past = ((u64)time.s * SECOND + (u64)time.ns + interval / 2) % interval;
    while (ns_of(ticks() - start) < interval - past)
        ;
}

static long fork(void)
{
    return must(sys(clone, SIGCHLD, 0, 0, 0, 0), "a process cannot be made");
}

static void ended(long pid)
{
    sys(wait4, pid, 0, 0, 0);
}

/* Reads a file as text, at most `room` - 1 octets. */
static size_t read_text(const char *path, char *to, size_t room)
{
    long fd = sys(openat, -100, path, O_RDONLY, 0), n;
    size_t size = 0;

    to[0] = 0;
    if (fd < 0)
        return 0;
    while (size + 1 < room && (n = sys(read, fd, to + size, room - 1 - size)) > 0)
        size += (size_t)n;
    to[size] = 0;
    sys(close, fd);
    return size;
}

static void write_text(const char *path, const char *text)
{
    long fd = must(sys(openat, -100, path, O_WRONLY, 0), path);

    must(sys(write, fd, text, strlen(text)), text);
    sys(close, fd);
}

/* Namespaces and NICs. Index 0 is the device under test, 1 is its peer. */
static struct {
    char name[IFNAMSIZ];
    u8 mac[6];
    char mac_text[18];
    uint32_t address;
    const char *address_text;
    long namespace;
} nics[2] = {{.address_text = "10.9.0.1"}, {.address_text = "10.9.0.2"}};

static void enter(int which)
{
    must(sys(setns, nics[which].namespace, CLONE_NEWNET), "the network namespace cannot be entered");
}

/* Finds the name of the NIC with this MAC in the present namespace. */
static int find(int which, long sock)
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
            if (sys(ioctl, sock, SIOCGIFHWADDR, &request) == 0) {
                int same = 1;

                for (int i = 0; i < 6; i++)
                    same &= (u8)request.ifr_hwaddr.sa_data[i] == nics[which].mac[i];
                if (same) {
                    memcpy(nics[which].name, request.ifr_name, IFNAMSIZ);
                    return 1;
                }
            }
        }
        while (*at && *at++ != '\n')
            ;
    }
    return 0;
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
    struct sockaddr_nl {
        uint16_t family, pad;
        uint32_t pid, groups;
    } kernel = {.family = 16};
    long netlink = must(sys(socket, 16, SOCK_RAW, 0), "the kernel has no route netlink");

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

static int flags_of(int which, long sock)
{
    struct ifreq request = request_for(which);

    must(sys(ioctl, sock, SIOCGIFFLAGS, &request), "the NIC is gone");
    return request.ifr_flags;
}

/* An address and a MAC that nothing has: frames to them are work for the sender only. */
#define NONE_ADDRESS 0x0300090a
#define NONE "02:00:00:00:00:99"
static const u8 none_mac[6] = {2, 0, 0, 0, 0, 0x99};

/* Without ARP in a window. */
static void neighbour(int which, long sock, uint32_t address, const u8 *mac)
{
    struct arpreq wanted = {.arp_flags = ATF_PERM | ATF_COM};
    struct sockaddr_in other = internet(address, 0);

    memcpy(&wanted.arp_pa, &other, sizeof(other));
    wanted.arp_ha.sa_family = 1;
    memcpy(wanted.arp_ha.sa_data, mac, 6);
    memcpy(wanted.arp_dev, nics[which].name, IFNAMSIZ);
    must(sys(ioctl, sock, SIOCSARP, &wanted), "the NIC takes no neighbour");
}

static void configure(int which)
{
    long sock;
    struct ifreq request;
    struct sockaddr_in address = internet(nics[which].address, 0), mask = internet(0x00ffffff, 0);

    enter(which);
    sock = udp_socket();
    request = request_for(which);
    memcpy(&request.ifr_addr, &address, sizeof(address));
    must(sys(ioctl, sock, SIOCSIFADDR, &request), "the NIC takes no address");
    memcpy(&request.ifr_addr, &mask, sizeof(mask));
    must(sys(ioctl, sock, SIOCSIFNETMASK, &request), "the NIC takes no netmask");
    request.ifr_flags = (short)(flags_of(which, sock) | IFF_UP);
    must(sys(ioctl, sock, SIOCSIFFLAGS, &request), "the NIC cannot be set up");
    neighbour(which, sock, nics[!which].address, nics[!which].mac);
    neighbour(which, sock, NONE_ADDRESS, none_mac);
    sys(close, sock);
}

static void carrier(int which)
{
    long sock;

    enter(which);
    sock = udp_socket();
    for (int tries = 0; !(flags_of(which, sock) & IFF_RUNNING); tries++) {
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
    for (int which = 0; which < 2; which++) {
        mac_of(which, words[1 + which]);
        for (int tries = 0; !find(which, sock); tries++) {
            if (tries == 1000)
                fail("no driver has taken the NIC within 10 virtual seconds", 0);
            sleep_ns(SECOND / 100);
        }
    }
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

/* Windows. */
static long counter = -1; /* instructions in kernel mode, if the processor counts them */
static u64 counted;

static void open_counter(void)
{
    struct perf_event_attr wanted = {0};

    wanted.size = PERF_ATTR_SIZE_VER0;
    wanted.type = PERF_TYPE_HARDWARE;
    wanted.config = PERF_COUNT_HW_INSTRUCTIONS;
    wanted.exclude_user = 1;
    counter = sys(perf_event_open, &wanted, -1, 0, -1, 0);
}

static u64 count(void)
{
    u64 value = 0;

    if (counter >= 0)
        sys(read, counter, &value, sizeof(value));
    return value;
}

static u64 begin_window(void)
{
    counted = count();
    __asm__ volatile("hint #0x70" ::: "memory");
    return ticks();
}

static u64 end_window(void)
{
    u64 now = ticks();

    __asm__ volatile("hint #0x71" ::: "memory");
    counted = count() - counted;
    return now;
}

static void window(const char *traffic, const char *direction, u64 octets, u64 packets, u64 ns)
{
    char counted_text[24] = "-";

    if (counter >= 0)
        print(counted_text, sizeof(counted_text), "%d", counted);
    result("window %s %s %d %d %d %s\n", traffic, direction, octets, packets, ns, counted_text);
}

/* The intervals of single frames and of single requests: longer than the work. */
#define FRAME_NS (SECOND / 2000)
#define REQUEST_NS (SECOND / 500)
#define BULK_NS (SECOND / 125)

/* Counters that a driver reads from its NIC may also show frames of an earlier window. */
static u64 at_most(u64 arrived, u64 sent)
{
    return arrived < sent ? arrived : sent;
}

/* Packets that nothing in the guest or on the link can wait for have arrived after this time. */
static void let_arrive(void)
{
    sleep_ns(SECOND / 100);
}

/* A socket at which the frames of a sender end: its buffer is soon full. */
static long sink(int which)
{
    struct sockaddr_in address = internet(nics[which].address, 9);
    long sock;
    int least = 0;

    enter(which);
    sock = udp_socket();
    sys(setsockopt, sock, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least));
    must(sys(bind, sock, &address, sizeof(address)), "no socket for the frames");
    enter(0);
    return sock;
}

/* Frames have 60 to 1514 octets, of which these are heads of Ethernet, IP and UDP. */
#define HEADS 42

/*
 * One frame at a time. The driver is idle before each frame, so there is one way only in which it can handle the frame,
 * whatever the time that other code takes.
 */
static void frame(char **words)
{
    int receive = equal(words[1], "rx");
    u64 size = number_in(words[2]), wanted = number_in(words[3]), arrived = 0;
    static char payload[1600];
    struct sockaddr_in here = internet(nics[0].address, 9), there = internet(NONE_ADDRESS, 9);
    long in, out;

    enter(0);
    in = udp_socket();
    must(sys(bind, in, &here, sizeof(here)), "no socket for the frames");
    enter(receive);
    out = udp_socket();
    must(sys(connect, out, receive ? &here : &there, sizeof(there)), "no socket for the frames");
    enter(0);
    next_interval(FRAME_NS);
    begin_window();
    for (u64 i = 0; i < wanted; i++) {
        must(sys(write, out, payload, size - HEADS), "a frame was not sent");
        next_interval(FRAME_NS);
        if (receive)
            arrived += sys(recvfrom, in, payload, sizeof(payload), 0x40 /* MSG_DONTWAIT */, 0, 0) > 0;
    }
    end_window();
    if (receive && !arrived)
        fail("no frame arrived", 0);
    sys(close, in);
    sys(close, out);
    /* No time: the program waited. */
    window("frame", words[1], size, receive ? arrived : wanted, 0);
}

static void pktgen(char **words)
{
    int receive = equal(words[1], "rx");
    u64 size = number_in(words[2]), wanted = number_in(words[3]), before, ns, sent;
    static char text[8192];
    char path[64], *at;
    long sock = receive ? sink(0) : -1;

    before = packets_of(0, 0);
    enter(receive);
    print(path, sizeof(path), "/proc/net/pktgen/%s", nics[receive].name);
    write_text("/proc/net/pktgen/kpktgend_0", "rem_device_all\n");
    print(text, sizeof(text), "add_device %s\n", nics[receive].name);
    write_text("/proc/net/pktgen/kpktgend_0", text);
    print(text, sizeof(text), "count %d\n", wanted);
    write_text(path, text);
    print(text, sizeof(text), "pkt_size %d\n", size);
    write_text(path, text);
    write_text(path, "clone_skb 0\n");
    write_text(path, "delay 0\n");
    print(text, sizeof(text), "dst_mac %s\n", receive ? nics[0].mac_text : NONE);
    write_text(path, text);
    print(text, sizeof(text), "dst_min %s\n", nics[!receive].address_text);
    write_text(path, text);
    begin_window();
    write_text("/proc/net/pktgen/pgctrl", "start\n");
    let_arrive();
    end_window();
    read_text(path, text, sizeof(text));
    /* Result: OK: 1460774(c1460774+d0) usec, 20000 (60byte,0frags) */
    for (at = text; *at && !begins(at, "OK: "); at++)
        ;
    if (!*at)
        fail("pktgen has no result", 0);
    ns = number_in(at + 4) * 1000;
    while (*at && !begins(at, "usec, "))
        at++;
    if (!*at)
        fail("pktgen has no result", 0);
    sent = number_in(at + 6);
    enter(0);
    if (receive)
        sys(close, sock);
    window("pktgen", words[1], size, receive ? at_most(packets_of(0, 0) - before, sent) : sent, ns);
}

static uint16_t big(uint32_t value)
{
    return (uint16_t)((value >> 8 & 0xff) | (value & 0xff) << 8);
}

static void sender(char **words)
{
    int receive = equal(words[1], "rx");
    u64 size = number_in(words[2]), wanted = number_in(words[3]), before, start, ns, sent;
    static u8 frame[1600];
    struct sockaddr_ll link = {.sll_family = 17};
    long sock = receive ? sink(0) : -1, raw;
    uint32_t sum = 0;

    if (size < 60 || size > 1514)
        fail("frames have 60 to 1514 octets", 0);
    enter(receive);
    raw = must(sys(socket, 17, SOCK_RAW, 0), "the kernel has no packet sockets (CONFIG_PACKET)");
    link.sll_ifindex = (int)link_index(receive, raw);
    must(sys(bind, raw, &link, sizeof(link)), "no packet socket");
    memset(frame, 0, sizeof(frame));
    memcpy(frame, "\x02\0\0\0\0\x99", 6);
    if (receive)
        memcpy(frame, nics[0].mac, 6);
    memcpy(frame + 6, nics[receive].mac, 6);
    frame[12] = 8;
    frame[14] = 0x45;
    *(uint16_t *)(frame + 16) = big((uint32_t)size - 14);
    frame[22] = 64;
    frame[23] = 17;
    memcpy(frame + 26, &nics[receive].address, 4);
    memcpy(frame + 30, &nics[!receive].address, 4);
    for (int i = 14; i < 34; i += 2)
        sum += (uint32_t)frame[i] << 8 | frame[i + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    *(uint16_t *)(frame + 24) = big(~(sum + (sum >> 16)) & 0xffff);
    *(uint16_t *)(frame + 34) = *(uint16_t *)(frame + 36) = big(9);
    *(uint16_t *)(frame + 38) = big((uint32_t)size - 34);
    before = packets_of(receive, 1);
    enter(0);
    sent = packets_of(0, 0);
    enter(receive);
    start = begin_window();
    for (u64 i = 0; i < wanted; i++)
        must(sys(sendto, raw, frame, size, 0, 0, 0), "a frame was not sent");
    ns = ticks() - start;
    let_arrive();
    end_window();
    sys(close, raw);
    before = packets_of(receive, 1) - before;
    enter(0);
    if (receive)
        sys(close, sock);
    window("sender", words[1], size, receive ? at_most(packets_of(0, 0) - sent, before) : before, ns_of(ns));
}

/* A connection between both ends. The client has index `client`. Returns the sockets by index. */
static void connected(int client, long *socks)
{
    static int port = 5000;
    struct sockaddr_in here = internet(nics[client].address, ++port), there = internet(nics[!client].address, port);
    long listening;
    int one = 1;

    enter(!client);
    listening = must(sys(socket, 2, SOCK_STREAM, 0), "no TCP socket");
    must(sys(bind, listening, &there, sizeof(there)), "no TCP address");
    must(sys(listen, listening, 1), "no TCP server");
    enter(client);
    socks[client] = must(sys(socket, 2, SOCK_STREAM, 0), "no TCP socket");
    must(sys(bind, socks[client], &here, sizeof(here)), "no TCP address");
    must(sys(connect, socks[client], &there, sizeof(there)), "no TCP connection");
    socks[!client] = must(sys(accept, listening, 0, 0), "no TCP connection");
    for (int i = 0; i < 2; i++)
        sys(setsockopt, socks[i], 6, TCP_NODELAY, &one, sizeof(one));
    sys(close, listening);
    enter(0);
}

static void whole(int sending, long sock, u64 octets)
{
    static char chunk[65536];

    while (octets) {
        size_t now = octets < sizeof(chunk) ? octets : sizeof(chunk);
        long n = sending ? sys(write, sock, chunk, now) : sys(read, sock, chunk, now);

        if (n <= 0)
            fail("the TCP connection has ended", n);
        octets -= (u64)n;
    }
}

/* The payload of a full TCP segment. Packets of TCP are counted in these, because drivers count them differently. */
#define SEGMENT 1448

static void tcp(char **words)
{
    int receive = equal(words[1], "rx"), ways[2];
    u64 octets = number_in(words[2]), start;
    long socks[2], child;
    char done;

    connected(receive, socks);
    must(sys(pipe2, ways, 0), "no pipe");
    child = fork();
    if (!child) {
        whole(0, socks[!receive], octets);
        sys(write, ways[1], "", 1);
        sys(exit_group, 0);
    }
    let_arrive();
    start = begin_window();
    whole(1, socks[receive], octets);
    sys(read, ways[0], &done, 1);
    start = end_window() - start;
    ended(child);
    let_arrive();
    for (int i = 0; i < 2; i++) {
        sys(close, ways[i]);
        sys(close, socks[i]);
    }
    let_arrive();
    window("tcp", words[1], octets, (octets + SEGMENT - 1) / SEGMENT, ns_of(start));
}

static void request(char **words)
{
    int client = equal(words[1], "rx");
    u64 octets = number_in(words[2]), wanted = number_in(words[3]), start, time = 0;
    u64 interval = equal(words[0], "bulk") ? BULK_NS : REQUEST_NS;
    long socks[2], child;

    connected(client, socks);
    child = fork();
    if (!child) {
        for (u64 i = 0; i < wanted; i++) {
            whole(0, socks[!client], octets);
            whole(1, socks[!client], octets);
        }
        sys(exit_group, 0);
    }
    let_arrive();
    next_interval(interval);
    begin_window();
    for (u64 i = 0; i < wanted; i++) {
        start = ticks();
        whole(1, socks[client], octets);
        whole(0, socks[client], octets);
        time += ticks() - start;
        next_interval(interval);
    }
    end_window();
    ended(child);
    for (int i = 0; i < 2; i++)
        sys(close, socks[i]);
    let_arrive();
    window(words[0], words[1], 2 * octets, wanted, ns_of(time));
}

/* Gives the lines of /proc/kallsyms that are functions, without their type: "ffff800008000000 _text\n". */
static void symbols(void)
{
    static char text[65536 + 1];
    size_t kept = 0;
    long fd = must(sys(openat, -100, "/proc/kallsyms", O_RDONLY, 0), "the kernel has no /proc/kallsyms"), n;

    result("symbols\n");
    while ((n = sys(read, fd, text + kept, sizeof(text) - 1 - kept)) > 0) {
        char *at = text;

        kept += (size_t)n;
        text[kept] = 0;
        for (;;) {
            size_t size = 0;

            while (at[size] && at[size] != '\n')
                size++;
            if (!at[size])
                break;
            size++;
            if (size > 20 && ((at[17] | 32) == 't' || (at[17] | 32) == 'w')) {
                give(at, 17);
                give(at + 19, size - 19);
            }
            at += size;
        }
        kept -= (size_t)(at - text);
        memcpy(text, at, kept);
    }
    sys(close, fd);
}

static void load(char *path, char *parameters)
{
    long fd = must(sys(openat, -100, path, O_RDONLY, 0), "no such module"), code;

    code = sys(finit_module, fd, parameters, 0);
    if (code < 0 && code != -17) /* EEXIST: built into the kernel */
        fail("the kernel refuses the module", code);
    sys(close, fd);
}

static void set(char **words)
{
    for (int which = 1; which >= 0; which--) {
        long fd;

        enter(which);
        fd = sys(openat, -100, words[1], O_WRONLY, 0);
        /* Some parameters exist only in the first namespace. */
        if (which == 0)
            must(fd, "no such parameter");
        if (fd >= 0)
            must(sys(write, fd, words[2], strlen(words[2])), "the kernel refuses the value");
        if (fd >= 0)
            sys(close, fd);
    }
}

/* Ends the board when it takes too long in virtual time, also while a command waits. */
static void limit(char **words)
{
    char text[64];

    if (fork())
        return;
    sleep_ns(number_in(words[1]) * SECOND);
    print(text, sizeof(text), "no end within %s virtual seconds", words[1]);
    fail(text, 0);
}

static void run(char *line)
{
    char *words[5] = {0}, *at = line;

    memset(doing, 0, PAGE_SIZE);
    memcpy(doing, line, strlen(line) < 200 ? strlen(line) : 200);
    for (int i = 0; i < 5; i++) {
        words[i] = at;
        /* The parameters of a module are one word, and so is a value. */
        while (*at && (*at != ' ' || (i == 2 && (equal(words[0], "module") || equal(words[0], "write")))))
            at++;
        if (*at)
            *at++ = 0;
    }
    if (equal(words[0], "limit"))
        limit(words);
    else if (equal(words[0], "module"))
        load(words[1], words[2]);
    else if (equal(words[0], "counter"))
        open_counter();
    else if (equal(words[0], "pair"))
        pair(words);
    else if (equal(words[0], "write"))
        set(words);
    else if (equal(words[0], "frame"))
        frame(words);
    else if (equal(words[0], "pktgen"))
        pktgen(words);
    else if (equal(words[0], "sender"))
        sender(words);
    else if (equal(words[0], "tcp"))
        tcp(words);
    else if (equal(words[0], "request") || equal(words[0], "bulk"))
        request(words);
    else if (equal(words[0], "symbols"))
        symbols();
    else
        fail("unknown command", 0);
}

void start(void)
{
    static char script[16384], banner[512];
    char *at = script;

    sys(mount, "proc", "/proc", "proc", 0, 0);
    sys(mount, "sysfs", "/sys", "sysfs", 0, 0);
    doing = (char *)sys(mmap, 0, PAGE_SIZE, 3, 0x21 /* shared, anonymous */, -1, 0);
    memcpy(doing, "start", 6);
    say("exact-begin\n");
    seed();
    if (!read_text("/proc/version", banner, sizeof(banner)))
        fail("the kernel has no /proc (CONFIG_PROC_FS)", 0);
    result("banner %s", banner);
    read_text("/script", script, sizeof(script));
    while (*at) {
        char *line = at;

        while (*at && *at != '\n')
            at++;
        if (*at)
            *at++ = 0;
        if (*line)
            run(line);
    }
    result("end\n");
    say("exact-end\n");
    end();
}

__asm__(".global _start\n_start:\n bl start\n");
