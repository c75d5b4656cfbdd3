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

/* The host does the next event of the board now. The clock was just read, so that it is exact while QEMU is stopped. */
static u64 event(void)
{
    u64 now = ticks();

    __asm__ volatile("hint #0x72" ::: "memory");
    return now;
}

static void window(const char *traffic, const char *direction, u64 octets, u64 packets, u64 ns)
{
    char counted_text[24] = "-";

    if (counter >= 0)
        print(counted_text, sizeof(counted_text), "%d", counted);
    result("window %s %s %d %d %d %s\n", traffic, direction, octets, packets, ns, counted_text);
}

/*
 * The frames that have arrived since `before`, at most those that were sent: a driver's counter may also show frames of an
 * earlier window, and it may be late, since atlantic asks its firmware once a second.
 */
static u64 arrived_since(u64 before, u64 sent)
{
    u64 arrived = packets_of(0, 0) - before;

    for (int i = 0; arrived < sent && i < 30; i++) {
        sleep_ns(SECOND / 10);
        arrived = packets_of(0, 0) - before;
    }
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

/* A VLAN, and what its addresses have in place of a 0. */
#define VLAN_NUMBER 5
#define VLAN_ADDRESS (VLAN_NUMBER << 16)
/* Multicast groups of one link (224.0.0.200 and 201): for these, the kernel can be set to send no IGMP. */
#define GROUP 0xc80000e0
#define OTHER_GROUP 0xc90000e0
/* lan78xx writes 160 registers of its adapter when a group is joined, which takes 28 ms. */
#define FILTER_NS (SECOND / 25)

/* Frames have 46 to 1514 octets, of which these are heads of Ethernet, IP and UDP. */
#define HEADS 42

/*
 * One frame at a time. The driver is idle before each frame, so there is one way only in which it can handle the frame,
 * whatever the time that other code takes. With a fault, frames may be lost.
 */
static void frame(char **words)
{
    int receive = equal(words[1], "rx"), fault = begins(words[0], "fault-");
    u64 size = number_in(words[2]), wanted = number_in(words[3]), arrived = 0;
    static char payload[1600];
    struct sockaddr_in here = internet(nics[0].address, 9), there = internet(none_address, 9);
    long in, out;

    enter(0);
    in = udp_socket();
    must(sys(bind, in, &here, sizeof(here)), "no socket for the frames");
    enter(receive);
    out = udp_socket();
    must(sys(connect, out, receive ? &here : &there, sizeof(there)), "no socket for the frames");
    enter(0);
    if (fault)
        event();
    first_interval(FRAME_NS);
    begin_window();
    for (u64 i = 0; i < wanted; i++) {
        must(sys(write, out, payload, size - HEADS), "a frame was not sent");
        next_interval(FRAME_NS);
        /* Also a frame that was late for an earlier interval, which another processor may have handled. */
        while (receive && arrived <= i && sys(recvfrom, in, payload, sizeof(payload), MSG_DONTWAIT, 0, 0) > 0)
            arrived++;
    }
    end_window();
    if (fault)
        event();
    else if (receive && !arrived)
        fail("no frame arrived", 0);
    check_distance(wanted);
    sys(close, in);
    sys(close, out);
    /* No time: the program waited. */
    window(words[0], words[1], size, receive && !fault ? arrived : wanted, 0);
}

/* Frames that are sent, or that arrive, before the driver handles the first one of them. */
#define BATCH 32

/*
 * Several frames at once. One datagram is cut into frames by the kernel, behind all queues, so that the driver gets them
 * together (xmit_more), if the NIC writes checksums. Received frames wait on the cable until the host releases them. The
 * socket takes large datagrams, so that GRO works.
 */
static void batch(char **words)
{
    int receive = equal(words[1], "rx"), on = 1, room = 1 << 20, segment = (int)(number_in(words[2]) - HEADS);
    u64 octets = number_in(words[2]) - HEADS, wanted = number_in(words[3]), arrived = 0;
    static char payload[65536];
    struct sockaddr_in here = internet(nics[0].address, 9), there = internet(none_address, 9);
    long in, out, n;
    int at_once;

    enter(0);
    in = udp_socket();
    sys(setsockopt, in, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    sys(setsockopt, in, IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
    must(sys(bind, in, &here, sizeof(here)), "no socket for the frames");
    enter(receive);
    out = udp_socket();
    sys(setsockopt, out, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    must(sys(connect, out, receive ? &here : &there, sizeof(there)), "no socket for the frames");
    enter(0);
    at_once = sys(setsockopt, out, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)) == 0 &&
              sys(write, out, payload, BATCH * octets) > 0;
    segment = 0;
    if (!at_once)
        sys(setsockopt, out, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment));
    let_arrive();
    while (sys(recvfrom, in, payload, sizeof(payload), MSG_DONTWAIT, 0, 0) > 0)
        ;
    first_interval(BULK_NS);
    begin_window();
    for (u64 i = 0; i < wanted; i++) {
        if (receive)
            event();
        for (int sent = 0; sent < BATCH; sent += at_once ? BATCH : 1)
            must(sys(write, out, payload, at_once ? BATCH * octets : octets), "a frame was not sent");
        next_interval(BULK_NS);
        if (!receive)
            continue;
        event();
        next_interval(BULK_NS);
        while ((n = sys(recvfrom, in, payload, sizeof(payload), MSG_DONTWAIT, 0, 0)) > 0)
            arrived += (u64)n / octets;
    }
    end_window();
    if (receive && !arrived)
        fail("no frame arrived", 0);
    check_distance(receive ? 2 * wanted : wanted);
    sys(close, in);
    sys(close, out);
    window(words[0], words[1], octets + HEADS, receive ? arrived : wanted * BATCH, 0);
}

/* Adds a VLAN to both NICs, whose interfaces take their place, or removes it again. */
static void set_vlan(int add)
{
    static char names[2][IFNAMSIZ];

    none_address ^= VLAN_ADDRESS;
    for (int which = 0; which < 2; which++) {
        struct vlan_ioctl_args args = {.cmd = add ? ADD_VLAN_CMD : DEL_VLAN_CMD, .u.VID = VLAN_NUMBER};
        long sock;

        enter(which);
        sock = udp_socket();
        memcpy(args.device1, nics[which].name, IFNAMSIZ);
        must(sys(ioctl, sock, SIOCSIFVLAN, &args), add ? "the NIC takes no VLAN" : "the VLAN cannot be removed");
        sys(close, sock);
        nics[which].address ^= VLAN_ADDRESS;
        if (add) {
            memcpy(names[which], nics[which].name, IFNAMSIZ);
            print(nics[which].name, IFNAMSIZ, "%s.%d", names[which], (u64)VLAN_NUMBER);
        } else
            memcpy(nics[which].name, names[which], IFNAMSIZ);
    }
}

/* Single frames in a VLAN. */
static void vlan(char **words)
{
    set_vlan(1);
    for (int which = 0; which < 2; which++)
        configure(which);
    for (int which = 0; which < 2; which++)
        carrier(which);
    settle();
    frame(words);
    set_vlan(0);
    settle();
}

/*
 * Joins a group and leaves it again, between single frames of the peer: one to the group, and one to another group, which
 * the filter of the NIC must drop.
 */
static void multicast(char **words)
{
    u64 octets = number_in(words[2]) - HEADS, wanted = number_in(words[3]), arrived = 0, before;
    static char payload[1600];
    struct sockaddr_in all = internet(0, 9), group = internet(GROUP, 9), other = internet(OTHER_GROUP, 9);
    struct ip_mreqn member = {.imr_multiaddr.s_addr = GROUP}, from = {0};
    long in, out, reports;

    enter(1);
    out = udp_socket();
    from.imr_ifindex = (int)link_index(1, out);
    must(sys(setsockopt, out, IPPROTO_IP, IP_MULTICAST_IF, &from, sizeof(from)), "no socket for the frames");
    enter(0);
    /* Without reports of IGMP, which the kernel would send at random times. A kernel without this file sends none. */
    reports = sys(openat, -100, "/proc/sys/net/ipv4/igmp_link_local_mcast_reports", O_WRONLY, 0);
    if (reports >= 0) {
        sys(write, reports, "0", 1);
        sys(close, reports);
    }
    in = udp_socket();
    member.imr_ifindex = (int)link_index(0, in);
    must(sys(bind, in, &all, sizeof(all)), "no socket for the frames");
    before = packets_of(0, 0);
    first_interval(REQUEST_NS);
    begin_window();
    for (u64 i = 0; i < wanted; i++) {
        must(sys(setsockopt, in, IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof(member)), "the group cannot be joined");
        pause_ns(FILTER_NS);
        next_interval(REQUEST_NS);
        must(sys(sendto, out, payload, octets, 0, &group, sizeof(group)), "a frame was not sent");
        next_interval(FRAME_NS);
        must(sys(sendto, out, payload, octets, 0, &other, sizeof(other)), "a frame was not sent");
        next_interval(FRAME_NS);
        while (sys(recvfrom, in, payload, sizeof(payload), MSG_DONTWAIT, 0, 0) > 0)
            arrived++;
        must(sys(setsockopt, in, IPPROTO_IP, IP_DROP_MEMBERSHIP, &member, sizeof(member)), "the group cannot be left");
        pause_ns(FILTER_NS);
        next_interval(REQUEST_NS);
    }
    end_window();
    if (!arrived)
        fail("no frame of a joined multicast group arrived", 0);
    if (packets_of(0, 0) - before > arrived)
        fail("frames of a multicast group that was not joined arrived", 0);
    check_distance(4 * wanted);
    sys(close, in);
    sys(close, out);
    window(words[0], words[1], octets + HEADS, arrived, 0);
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
    window("pktgen", words[1], size, receive ? arrived_since(before, sent) : sent, ns);
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
    window("sender", words[1], size, receive ? arrived_since(sent, before) : before, ns_of(ns));
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
