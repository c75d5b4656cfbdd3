/*
 * What a C library would give: system calls, text, time, files. Also the results for the host, and how the board ends.
 *
 * SPDX-License-Identifier: MIT
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <asm/unistd.h>
#include <linux/if_packet.h>
#include <linux/if_vlan.h>
#include <linux/in.h>
#include <linux/perf_event.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <linux/udp.h>

/* The hash of all files of the source: proves that the shipped binary was built from them. */
const char source_hash[] __attribute__((used)) = "pinet-exact-source:" SOURCE_HASH;

#define O_RDONLY 0
#define O_WRONLY 1
#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define SOCK_RAW 3
#define SOL_SOCKET 1
#define SO_REUSEADDR 2
#define SO_SNDBUF 7
#define SO_RCVBUF 8
#define SO_RCVTIMEO 20
#define MSG_DONTWAIT 0x40
#define SIGCHLD 17
#define POWER_OFF 0x4321fedc
#define SECOND 1000000000ull

typedef unsigned char u8;
typedef uint64_t u64;

/* The kernel's headers for these need those of a C library. */
#define IFNAMSIZ 16
#define IFF_UP 1
#define IFF_LOOPBACK 8
#define IFF_RUNNING 0x40
#define ETHTOOL_GDRVINFO 3
#define ETHTOOL_GSTRINGS 0x1b
#define ETHTOOL_GSSET_INFO 0x37
#define ETHTOOL_GFEATURES 0x3a
#define ETHTOOL_SFEATURES 0x3b
#define ETH_SS_FEATURES 4
#define ETH_GSTRING_LEN 32
#define ATF_COM 2
#define ENODEV 19
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

/* Features are bits of blocks of 32 bits. */
#define FEATURE_BLOCKS 8
struct ethtool_names {
    uint32_t cmd, set, count;
    char names[32 * FEATURE_BLOCKS][ETH_GSTRING_LEN];
};
struct ethtool_set_info {
    uint32_t cmd, reserved;
    uint64_t sets;
    uint32_t count;
};
struct ethtool_features {
    uint32_t cmd, blocks;
    struct { uint32_t available, requested, active, never_changed; } at[FEATURE_BLOCKS];
};
struct ethtool_wanted_features {
    uint32_t cmd, blocks;
    struct { uint32_t valid, requested; } at[FEATURE_BLOCKS];
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

/* The formats %s and %d (u64) only. */
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

/* The distance of single frames; requests and large requests have multiples of it. */
static u64 distance_ns = SECOND / 2000;
#define FRAME_NS distance_ns
#define REQUEST_NS (4 * distance_ns)
#define BULK_NS (16 * distance_ns)

/* How often the kernel still worked when the next interval began, and when the last one began. */
static u64 late, interval_began;

/*
 * Waits for the next interval of the clock that gives the kernel its ticks (CLOCK_MONOTONIC). With intervals that fit
 * between ticks, or ticks that fit between intervals, a tick always meets the same part of the work, whatever ran before.
 * An interval begins half a distance of frames after the place of a tick, which so meets an idle kernel. The program does
 * not sleep: the scheduler would have work then. QEMU executes two processors in turn, and `yield` ends a turn: else a
 * processor that this program does not use would handle a frame only milliseconds later. QEMU needs time for `yield`, so it
 * is not in each pass.
 */
static void next_interval(u64 interval)
{
    struct { long s, ns; } time;
    u64 start, rest, passed;
    int overran;

    sys(clock_gettime, 1 /* CLOCK_MONOTONIC */, &time);
    start = ticks();
    rest = interval - ((u64)time.s * SECOND + (u64)time.ns + interval - distance_ns / 2) % interval;
    overran = ns_of(start - interval_began) > interval;
    for (int pass = 1; (passed = ns_of(ticks() - start)) < rest; pass++)
        if (pass % 64 == 0)
            __asm__ volatile("yield");
    /* A pass is short, unless the kernel works in between. */
    late += overran || passed - rest > interval / 64;
    interval_began = start + rest * frequency() / SECOND;
}

/* Waits for the first interval of a window. */
static void first_interval(u64 interval)
{
    next_interval(interval);
    late = 0;
}

/* Sleeps within a window. */
static void pause_ns(u64 ns)
{
    sleep_ns(ns);
    interval_began = ticks();
}

/*
 * Ends the board if work of one interval went on in the next one: then frames did not come one by one. Timers of drivers
 * work, too: lan78xx reads statistics and asks its PHY each second, which together meet up to two intervals of a short
 * window. The middle of three turns leaves them out.
 */
#define OTHER_WORK 2
static void check_distance(u64 intervals)
{
    char text[160];

    if (late <= intervals / 4 + OTHER_WORK)
        return;
    print(text, sizeof(text), "the kernel still worked at the begin of %d of %d intervals, so traffic did not come one by one",
          late, intervals);
    fail(text, 0);
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
