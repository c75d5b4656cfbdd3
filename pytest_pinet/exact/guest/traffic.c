/*
 * The only program of an exact board: init of its initramfs. It runs the commands of the file /script, one a line, and
 * writes results into its memory, where the host finds them (PAGE below). It needs no library, no device of its own and
 * no other program, so that the same instructions run in every boot.
 *
 *   limit S                  end with an error after S virtual seconds
 *   module PATH PARAMETERS   load a kernel module
 *   pair MAC MAC             find both NICs, move the second one to a network namespace, set addresses, wait for carrier
 *   counter                  count the instructions of the first processor with its own counter, too
 *   interrupts MASK          let a processor of this mask handle the interrupts
 *   rps MASK                 let the processors of this mask handle what the first NIC receives (RPS)
 *   write PATH VALUE         set a parameter of the kernel, in both namespaces
 *   feature NAME on|off      switch a feature of the first NIC; `*` in its name stands for any text
 *   distance US              send single frames at this distance in microseconds, which must fit between the kernel's
 *                            ticks; requests at 4 times, large requests at 16 times this distance
 *   frame tx|rx SIZE N       send N frames of SIZE octets, each when the NIC has been idle for a while
 *   fault-NAME rx SIZE N     the same, while the host lets this fault happen to received frames
 *   vlan tx|rx SIZE N        the same in a VLAN
 *   batch tx|rx SIZE N       send N times 32 frames at once; the host holds received ones until all have come
 *   multicast rx SIZE N      join a group, receive one of its frames and none of another group, and leave it, N times
 *   pktgen tx|rx SIZE N      send N frames of SIZE octets with the kernel's pktgen, at full load
 *   sender tx|rx SIZE N      send them with a packet socket
 *   tcp tx|rx OCTETS         send this many octets over TCP
 *   request tx|rx OCTETS N   send a request of so many octets and get an answer of the same size, N times, one after
 *                            the other and at even intervals
 *   bulk tx|rx OCTETS N      the same with many octets
 *   link tx OCTETS 1         wait until the host has switched the link of the first NIC off; when the host has switched it
 *                            on again, measure the time until a ping of so many octets is answered
 *   replug tx OCTETS 1       the same with the NIC itself, which the host unplugs and plugs in again
 *   down-up tx OCTETS 1      close the first NIC, open it again, and measure the time until a ping is answered
 *   symbols                  list the kernel's functions
 *
 * Directions are those of the first NIC. Around each traffic there are two markers, instructions that do nothing and
 * that QEMU's plugin knows: `hint #0x70` begins a window, `hint #0x71` ends it. At `hint #0x72` the plugin stops the guest
 * while the host changes the link or the NIC, so that this happens between the same two instructions in every boot.
 *
 * Build: see tools/exact-guest.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base.h"
#include "nics.h"
#include "windows.h"
#include "events.h"

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
    else if (equal(words[0], "interrupts"))
        interrupts(words);
    else if (equal(words[0], "rps"))
        rps(words);
    else if (equal(words[0], "write"))
        set(words);
    else if (equal(words[0], "feature"))
        feature(words);
    else if (equal(words[0], "distance"))
        distance_ns = number_in(words[1]) * 1000;
    else if (equal(words[0], "frame") || begins(words[0], "fault-"))
        frame(words);
    else if (equal(words[0], "batch"))
        batch(words);
    else if (equal(words[0], "vlan"))
        vlan(words);
    else if (equal(words[0], "multicast"))
        multicast(words);
    else if (equal(words[0], "pktgen"))
        pktgen(words);
    else if (equal(words[0], "sender"))
        sender(words);
    else if (equal(words[0], "tcp"))
        tcp(words);
    else if (equal(words[0], "request") || equal(words[0], "bulk"))
        request(words);
    else if (equal(words[0], "link") || equal(words[0], "replug") || equal(words[0], "down-up"))
        event_window(words);
    else if (equal(words[0], "symbols"))
        symbols();
    else
        fail("unknown command", 0);
}

void start(void)
{
    static char script[16384], banner[512];
    char *at = script;
    long first = 1;

    sys(mount, "proc", "/proc", "proc", 0, 0);
    sys(mount, "sysfs", "/sys", "sysfs", 0, 0);
    doing = (char *)sys(mmap, 0, PAGE_SIZE, 3, 0x21 /* shared, anonymous */, -1, 0);
    memcpy(doing, "start", 6);
    say("exact-begin\n");
    /* Else the scheduler chooses, and a word on the kernel's command line may change what it chooses. */
    must(sys(sched_setaffinity, 0, sizeof(first), &first), "the program cannot choose its processor");
    seed();
    if (!read_text("/proc/version", banner, sizeof(banner)))
        fail("the kernel has no /proc (CONFIG_PROC_FS)", 0);
    result("banner %s", banner);
    if (read_text("/script", script, sizeof(script)) == sizeof(script) - 1)
        fail("the script has more than 16 KiB", 0);
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
