/*
 * Events: the link is switched off and on, or the NIC is unplugged and plugged in again.
 *
 * SPDX-License-Identifier: MIT
 */

/* No wait of an event takes longer. */
#define PATIENCE_S 30
/* What an event needs until a ping can be answered. */
enum { MUST_FIND = 1, MUST_SET_UP = 2 };

static void set_patience(long sock, u64 ns)
{
    struct { long s, us; } time = {(long)(ns / SECOND), (long)(ns % SECOND / 1000)};

    must(sys(setsockopt, sock, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)), "a socket has no timeout");
}

/* Waits for a change of any NIC of this namespace. Returns a negative number if there is none. */
static long news(long netlink)
{
    static char text[8192];

    return sys(recvfrom, netlink, text, sizeof(text), 0, 0, 0);
}

/* Sends echo requests of ICMP to the peer, one each 10 ms, until one is answered. Returns 0 if none can be sent. */
static int ping(u64 octets)
{
    /* The type, 0, and the checksum: everything else is 0. */
    static u8 packet[1500] = {8, 0, 0xf7, 0xff}, answer[1600];
    struct sockaddr_in there = internet(nics[1].address, 0);
    long sock = must(sys(socket, 2, SOCK_RAW, 1 /* ICMP */), "no socket for the ping");
    int tries = 0, sent;

    set_patience(sock, SECOND / 100);
    do {
        if (tries++ == PATIENCE_S * 100)
            fail("no ping was answered within 30 virtual seconds", 0);
        sent = works(sys(sendto, sock, packet, octets, 0, &there, sizeof(there)), "no ping can be sent");
        /* An answer has type 0, behind the head of IP. */
    } while (sent && (sys(recvfrom, sock, answer, sizeof(answer), 0, 0, 0) < 28 || answer[20] != 0));
    sys(close, sock);
    return sent;
}

static int has_carrier(long sock, long netlink)
{
    for (;;) {
        long flags = flags_of(0, sock);

        if (!works(flags, "the NIC is gone") || flags & IFF_RUNNING)
            return flags >= 0;
        must(news(netlink), "no carrier within 30 virtual seconds");
    }
}

/* Tries to use the NIC until a ping is answered. Returns 0 if a step has failed. `steps` are those that the event needs. */
static int answers(int steps, long sock, long netlink, u64 octets)
{
    if (steps & MUST_FIND && !works(find(0, sock) ? 0 : -ENODEV, "no driver has taken the NIC"))
        return 0;
    return (!(steps & MUST_SET_UP) || set_up(0, sock)) && has_carrier(sock, netlink) && ping(octets);
}

/*
 * Windows of events. A step that fails is no failure of the window, because the driver may let go of the NIC and take it
 * again: the steps begin again when there is news of NICs.
 */
static void event_window(char **words)
{
    int steps = equal(words[0], "replug") ? MUST_FIND | MUST_SET_UP : equal(words[0], "down-up") ? MUST_SET_UP : 0;
    struct netlink_address link_news = {.family = 16, .groups = 1 /* RTMGRP_LINK */};
    u64 octets = number_in(words[2]), start, end;
    long netlink, sock;

    enter(0);
    sock = udp_socket();
    netlink = netlink_socket();
    must(sys(bind, netlink, &link_news, sizeof(link_news)), "no news of NICs");
    set_patience(netlink, PATIENCE_S * SECOND);
    if (steps != MUST_SET_UP)
        event();
    while (steps & MUST_FIND && find(0, sock))
        must(news(netlink), "the NIC is there 30 virtual seconds after it was unplugged");
    while (!steps && must(flags_of(0, sock), "the NIC is gone") & IFF_RUNNING)
        must(news(netlink), "the carrier is there 30 virtual seconds after the link was switched off");
    /* The kernel empties a slot one second after the NIC is gone. */
    sleep_ns(3 * SECOND);
    next_interval(BULK_NS);
    begin_window();
    start = steps == MUST_SET_UP ? ticks() : event();
    if (steps == MUST_SET_UP && !set_flags(0, sock, 0, IFF_UP))
        fail(trouble.what, trouble.code);
    while (!answers(steps, sock, netlink, octets))
        if (news(netlink) < 0)
            fail(trouble.what, trouble.code);
    end = end_window();
    sys(close, netlink);
    sys(close, sock);
    let_arrive();
    window(words[0], words[1], 2 * octets, 1, ns_of(end - start));
}
