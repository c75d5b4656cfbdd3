/*
 * The windows of traffic: each sends one fixed amount and gives its result.
 *
 * SPDX-License-Identifier: MIT
 */

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
    first_interval(FRAME_NS);
    begin_window();
    for (u64 i = 0; i < wanted; i++) {
        must(sys(write, out, payload, size - HEADS), "a frame was not sent");
        next_interval(FRAME_NS);
        /* Also a frame that was late for an earlier interval, which another processor may have handled. */
        while (receive && arrived <= i && sys(recvfrom, in, payload, sizeof(payload), 0x40 /* MSG_DONTWAIT */, 0, 0) > 0)
            arrived++;
    }
    end_window();
    if (receive && !arrived)
        fail("no frame arrived", 0);
    check_distance(wanted);
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
    first_interval(interval);
    begin_window();
    for (u64 i = 0; i < wanted; i++) {
        start = ticks();
        whole(1, socks[client], octets);
        whole(0, socks[client], octets);
        time += ticks() - start;
        next_interval(interval);
    }
    end_window();
    check_distance(wanted);
    ended(child);
    for (int i = 0; i < 2; i++)
        sys(close, socks[i]);
    let_arrive();
    window(words[0], words[1], 2 * octets, wanted, ns_of(time));
}
