/*
 * The cable between two NICs, what it does to a frame, and the offloads that models share: checksums and segmentation.
 *
 * Frames are Ethernet frames without the frame check sequence.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define MAC_SIZE 6
#define FRAME_LEAST 60
#define FRAME_MOST 2048
#define HELD_MOST 128
/* Of a frame: the type of its content, behind both addresses; in front of it there may be a VLAN tag. */
#define ETHERNET_TYPE 12
#define ETHERNET_HEAD 14
#define VLAN_TAG 4
#define TYPE_IPV4 0x0800
#define TYPE_VLAN 0x8100
/* Of IPv4 (RFC 791), TCP (RFC 9293) and UDP (RFC 768): places of fields within their heads. */
#define IPV4_LENGTH 2
#define IPV4_ID 4
#define IPV4_PROTOCOL 9
#define IPV4_CHECKSUM 10
#define IPV4_ADDRESSES 12
#define IPV4_HEAD 20
#define TCP_SEQUENCE 4
#define TCP_OFFSET 12
#define TCP_FLAGS 13
#define TCP_CHECKSUM 16
#define TCP_FIN_PUSH 0x09
#define TCP_HEAD 20
#define UDP_LENGTH 4
#define UDP_CHECKSUM 6
#define UDP_HEAD 8
enum { PROTOCOL_TCP = 6, PROTOCOL_UDP = 17 };

/*
 * What goes wrong with the frames that the device under test receives, as long as the host says so. The cable makes wrong
 * checksums and padding. A model makes the others, if its chip knows them.
 */
enum fault { FAULT_NONE, FAULT_CHECKSUM, FAULT_PADDING, FAULT_OVERRUN, FAULT_SHORT, FAULT_STALL };
static const char *const fault_names[] = {"none", "checksum", "padding", "overrun", "short", "stall"};

struct frame {
    size_t size;
    u8 octets[FRAME_MOST];
};

/* A model's device contains this. */
struct nic {
    u8 mac[MAC_SIZE]; /* of the chip, as a driver finds it */
    struct nic *peer;
    bool link;
    /* Takes one frame from the cable. The model may change the octets, and write up to FRAME_MOST. */
    void (*receive)(struct nic *nic, u8 *frame, size_t size);
    /* All frames have arrived that the host held back. NULL: receive() has told the driver. */
    void (*received)(struct nic *nic);
    /* Tells the driver that `link` has changed. NULL: the driver asks. */
    void (*link_changed)(struct nic *nic);
    /* Unplugs the NIC or plugs it in again, as if it had no power in between. NULL: it is part of the board. */
    void (*plug)(struct nic *nic, bool in);
    enum fault fault;
    unsigned frames_with_fault;
    /* Frames wait on the cable until the host releases all of them at once, so that a driver finds several. */
    bool holds;
    unsigned held;
    struct frame frames[HELD_MOST];
};

static inline bool is_multicast(const u8 *address)
{
    return address[0] & 1;
}

static inline bool is_broadcast(const u8 *address)
{
    return get32(address) == 0xffffffffu && get16(address + 4) == 0xffff;
}

/* The frame check of Ethernet, with its first bit as the highest: NICs filter multicasts by its upper bits. */
static inline u32 ethernet_crc(const u8 *at, size_t size)
{
    u32 crc = ~0u;

    for (size_t bit = 0; bit < 8 * size; bit++)
        crc = crc << 1 ^ ((crc >> 31 ^ (at[bit / 8] >> bit % 8 & 1u)) ? 0x04c11db7u : 0);
    return crc;
}

/* The sum of 16-bit words in the machine's order, folded, not inverted (RFC 1071). */
static inline u32 sum_of(const u8 *at, size_t size, u64 sum)
{
    for (; size > 1; at += 2, size -= 2)
        sum += get16(at);
    if (size)
        sum += *at;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (u32)sum;
}

/* Where IPv4 and its content begin; `protocol` is 0 if the frame, of ETHERNET_HEAD octets or more, is no whole packet. */
struct heads { size_t network, transport, end; u8 protocol; };

static inline struct heads heads_of(const u8 *frame, size_t size)
{
    struct heads found = {.network = ETHERNET_HEAD};
    u32 type = get_be16(frame + ETHERNET_TYPE);

    if (type == TYPE_VLAN && size >= ETHERNET_HEAD + VLAN_TAG) {
        type = get_be16(frame + ETHERNET_TYPE + VLAN_TAG);
        found.network += VLAN_TAG;
    }
    if (type != TYPE_IPV4 || size < found.network + IPV4_HEAD)
        return found;
    found.transport = found.network + (frame[found.network] & 15) * 4u;
    found.end = found.network + get_be16(frame + found.network + IPV4_LENGTH);
    if (found.transport < found.network + IPV4_HEAD)
        return found;
    if (found.end <= size && found.transport <= found.end)
        found.protocol = frame[found.network + IPV4_PROTOCOL];
    return found;
}

/* Writes the checksum of all octets from `start` on to `place`, as a NIC does that is told where. */
static inline void put_checksum(u8 *frame, size_t size, size_t start, size_t place)
{
    if (start <= size && place + 2 <= size)
        put16(frame + place, ~sum_of(frame + start, size - start, 0) & 0xffff);
}

/* The place of the checksum of TCP or UDP in a frame; 0: it has none. */
static inline size_t checksum_place(struct heads heads)
{
    size_t place = heads.protocol == PROTOCOL_TCP ? TCP_CHECKSUM : heads.protocol == PROTOCOL_UDP ? UDP_CHECKSUM : 0;

    return place && heads.transport + place + 2 <= heads.end ? heads.transport + place : 0;
}

/* Writes the checksum of TCP or UDP of an IPv4 packet, with its pseudo head, as a NIC does that finds it itself. */
static inline void find_and_put_checksum(u8 *frame, size_t size)
{
    struct heads heads = heads_of(frame, size);
    size_t place = checksum_place(heads), length = heads.end - heads.transport;
    u8 pseudo[4] = {0, heads.protocol};
    u32 sum;

    if (!place)
        return;
    put_be16(pseudo + 2, (u32)length);
    put16(frame + place, 0);
    sum = sum_of(pseudo, sizeof(pseudo), sum_of(frame + heads.network + IPV4_ADDRESSES, 8, 0));
    sum = ~sum_of(frame + heads.transport, length, sum) & 0xffff;
    put16(frame + place, sum ? sum : 0xffff);
}

/* Whether the checksum of an IPv4 packet with TCP or UDP is right. In UDP, 0 means that there is none (RFC 768). */
static inline bool has_right_checksum(const u8 *frame, size_t size)
{
    struct heads heads = heads_of(frame, size);
    size_t place = checksum_place(heads);
    u8 pseudo[4] = {0, heads.protocol};

    if (!place)
        return false;
    if (heads.protocol == PROTOCOL_UDP && !get16(frame + place))
        return true;
    put_be16(pseudo + 2, (u32)(heads.end - heads.transport));
    return sum_of(frame + heads.transport, heads.end - heads.transport,
                  sum_of(pseudo, sizeof(pseudo), sum_of(frame + heads.network + IPV4_ADDRESSES, 8, 0))) == 0xffff;
}

/* ---- A VLAN tag (IEEE 802.1Q), which drivers give and get beside the frame. */

static inline bool has_vlan_tag(const u8 *frame, size_t size)
{
    return size > ETHERNET_HEAD + VLAN_TAG && get_be16(frame + ETHERNET_TYPE) == TYPE_VLAN;
}

/* Takes the tag out of a frame and returns it. */
static inline u32 take_vlan_tag(u8 *frame, size_t *size)
{
    u32 tag = get_be16(frame + ETHERNET_HEAD);

    *size -= VLAN_TAG;
    memmove(frame + ETHERNET_TYPE, frame + ETHERNET_TYPE + VLAN_TAG, *size - ETHERNET_TYPE);
    return tag;
}

/* Puts a tag into a frame that has VLAN_TAG octets of room behind. */
static inline void put_vlan_tag(u8 *frame, size_t *size, u32 tag)
{
    memmove(frame + ETHERNET_TYPE + VLAN_TAG, frame + ETHERNET_TYPE, *size - ETHERNET_TYPE);
    put_be16(frame + ETHERNET_TYPE, TYPE_VLAN);
    put_be16(frame + ETHERNET_HEAD, tag);
    *size += VLAN_TAG;
}

/* ---- Frames on the cable. */

/* Whether the chip loses this frame because the host wants an overrun: every second one. */
static inline bool loses_frame(struct nic *nic)
{
    return nic->fault == FAULT_OVERRUN && nic->frames_with_fault++ % 2 == 0;
}

static inline void release_frames(struct nic *nic)
{
    unsigned held = nic->held;

    nic->holds = false;
    nic->held = 0;
    for (unsigned i = 0; i < held; i++)
        nic->receive(nic, nic->frames[i].octets, nic->frames[i].size);
    if (nic->received)
        nic->received(nic);
}

/* Sends one frame over the cable. The octets behind `size` are overwritten, up to FRAME_LEAST. */
static inline void send_frame(struct nic *from, u8 *frame, size_t size)
{
    struct nic *to = from->peer;
    size_t place;

    if (!from->link || !to->link || size > FRAME_MOST || size < ETHERNET_HEAD)
        return;
    place = to->fault == FAULT_CHECKSUM ? checksum_place(heads_of(frame, size)) : 0;
    if (place)
        frame[place] ^= 0xff;
    if (size < FRAME_LEAST) {
        memset(frame + size, 0, FRAME_LEAST - size);
        size = FRAME_LEAST;
    }
    /* The standard (IEEE 802.3, 4.2.3.3) says nothing about the octets of the padding; most drivers and NICs send 0. */
    if (to->fault == FAULT_PADDING) {
        size_t end = heads_of(frame, size).end;

        if (end && end < size)
            memset(frame + end, 0xa5, size - end);
    }
    if (to->holds && to->held < HELD_MOST) {
        to->frames[to->held].size = size;
        memcpy(to->frames[to->held++].octets, frame, size);
        return;
    }
    to->receive(to, frame, size);
}

/* Sends a large TCP segment or UDP datagram as frames of at most `mss` octets of payload, with right heads. */
static inline void send_segments(struct nic *from, const u8 *large, size_t size, size_t mss)
{
    struct heads heads = heads_of(large, size);
    bool tcp = heads.protocol == PROTOCOL_TCP;
    size_t least = tcp ? TCP_HEAD : UDP_HEAD, head, payload, at = 0;

    if ((!tcp && heads.protocol != PROTOCOL_UDP) || !mss || heads.transport + least > size)
        return;
    head = heads.transport + (tcp ? (large[heads.transport + TCP_OFFSET] >> 4) * 4u : UDP_HEAD);
    if (head < heads.transport + least || head > size || head + mss > FRAME_MOST)
        return;
    for (payload = size - head; at < payload; at += mss) {
        size_t now = payload - at < mss ? payload - at : mss;
        u8 frame[FRAME_MOST], *network = frame + heads.network, *transport = frame + heads.transport;

        memcpy(frame, large, head);
        memcpy(frame + head, large + head + at, now);
        put_be16(network + IPV4_LENGTH, (u32)(head - heads.network + now));
        put_be16(network + IPV4_ID, get_be16(network + IPV4_ID) + (u32)(at / mss));
        put16(network + IPV4_CHECKSUM, 0);
        put16(network + IPV4_CHECKSUM, ~sum_of(network, heads.transport - heads.network, 0) & 0xffff);
        if (tcp) {
            u8 *number = transport + TCP_SEQUENCE;
            u32 sequence = (get_be16(number) << 16 | get_be16(number + 2)) + (u32)at;

            put_be16(number, sequence >> 16);
            put_be16(number + 2, sequence);
            if (at + now < payload)
                transport[TCP_FLAGS] &= (u8)~TCP_FIN_PUSH;
        } else {
            put_be16(transport + UDP_LENGTH, (u32)(UDP_HEAD + now));
        }
        find_and_put_checksum(frame, head + now);
        send_frame(from, frame, head + now);
    }
}
