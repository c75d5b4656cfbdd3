/*
 * Events: the link is switched off and on, or the NIC is unplugged and plugged in again.
 *
 * SPDX-License-Identifier: MIT
 */

/* No wait of an event takes longer. */
#define PATIENCE_S 30

static void set_patience(long sock, u64 ns)
{
    struct { long s, us; } time = {(long)(ns / SECOND), (long)(ns % SECOND / 1000)};

    must(sys(setsockopt, sock, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)), "a socket has no timeout");
}

/* The host does the next event of the board now. The clock was just read, so that it is exact while QEMU is stopped. */
static u64 event(void)
{
    u64 now = ticks();

    __asm__ volatile("hint #0x72" ::: "memory");
    return now;
}

/* Waits for a change of any NIC of this namespace. */
static void news(long netlink, const char *missing)
{
    static char text[8192];

    must(sys(recvfrom, netlink, text, sizeof(text), 0, 0, 0), missing);
}

static int is_running(long sock)
{
    return flags_of(0, sock) & IFF_RUNNING;
}

/* Sends echo requests of ICMP to the peer, one each 10 ms, until one is answered. */
static void ping(u64 octets)
{
    /* The type, 0, and the checksum: everything else is 0. */
    static u8 packet[1500] = {8, 0, 0xf7, 0xff}, answer[1600];
    struct sockaddr_in there = internet(nics[1].address, 0);
    long sock = must(sys(socket, 2, SOCK_RAW, 1 /* ICMP */), "no socket for the ping");
    int tries = 0;

    set_patience(sock, SECOND / 100);
    do {
        if (tries++ == PATIENCE_S * 100)
            fail("no ping was answered within 30 virtual seconds", 0);
        sys(sendto, sock, packet, octets, 0, &there, sizeof(there));
        /* An answer has type 0, behind the head of IP. */
    } while (sys(recvfrom, sock, answer, sizeof(answer), 0, 0, 0) < 28 || answer[20] != 0);
    sys(close, sock);
}

static void event_window(char **words)
{
    int replug = equal(words[0], "replug");
    struct netlink_address link_news = {.family = 16, .groups = 1 /* RTMGRP_LINK */};
    u64 octets = number_in(words[2]), start, end;
    long netlink, sock;

    enter(0);
    sock = udp_socket();
    netlink = netlink_socket();
    must(sys(bind, netlink, &link_news, sizeof(link_news)), "no news of NICs");
    set_patience(netlink, PATIENCE_S * SECOND);
    event();
    while (replug ? find(0, sock) : is_running(sock))
        news(netlink, replug ? "the NIC is there 30 virtual seconds after it was unplugged"
                             : "the carrier is there 30 virtual seconds after the link was switched off");
    /* The kernel empties a slot one second after the NIC is gone. */
    sleep_ns(3 * SECOND);
    next_interval(BULK_NS);
    begin_window();
    start = event();
    while (replug && !find(0, sock))
        news(netlink, "no driver has taken the NIC within 30 virtual seconds after it was plugged in");
    if (replug)
        configure(0);
    while (!is_running(sock))
        news(netlink, "no carrier within 30 virtual seconds");
    ping(octets);
    end = end_window();
    sys(close, netlink);
    sys(close, sock);
    let_arrive();
    window(words[0], words[1], 2 * octets, 1, ns_of(end - start));
}
