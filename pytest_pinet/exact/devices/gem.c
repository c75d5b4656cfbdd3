/*
 * Cadence GEM: the Gigabit Ethernet of the RP1 (Raspberry Pi 5, 500, Compute Module 5), with a BCM54213PE as its PHY.
 *
 * Source of the register facts: drivers/net/ethernet/cadence/macb.h and macb_main.c of Linux 6.1, 6.6 and 6.12 (also of
 * Raspberry Pi), whose names the registers have here. Of the RP1: revision 0x00070109, one queue, and timestamps, as the
 * driver reports them on a Raspberry Pi 5; interrupts that a read clears, as its pull requests say (raspberrypi/linux 7369);
 * addresses of 64 bits, since its memory begins above 4 GiB. That it has large sends is not published; other GEMs of
 * this age have them.
 * Modelled: one queue with descriptors of all four kinds, received frames in several buffers, checksums in both directions,
 * large sends of TCP, the filter by address with its hashes, MDIO, the link as the PHY reports it, counters that the driver
 * reads. A frame with a wrong checksum is counted and not stored.
 * Not modelled: the interrupt controller and the PCI Express of the RP1, further queues and their filters, the values of
 * timestamps, UFO, the frame check that the driver writes itself (it is taken off), moderation of interrupts, partial
 * store and forward, pause frames, wake-on-LAN, frames above FRAME_MOST, the order and the time of DMA.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "device.h"
#include "bcm54213pe.h"

#define GEM_SIZE 0x4000u
enum {
    NCR = 0x000,
    NCFGR = 0x004,
    NSR = 0x008,
    DMACFG = 0x010,
    TSR = 0x014,
    RBQP = 0x018,
    TBQP = 0x01c,
    RSR = 0x020,
    ISR = 0x024,
    IER = 0x028,
    IDR = 0x02c,
    IMR = 0x030,
    MAN = 0x034,
    JML = 0x048,
    HRB = 0x080,
    HRT = 0x084,
    SA1B = 0x088, /* four addresses, each with its bottom and its top */
    SA4T = 0x0a4,
    MID = 0x0fc,
    OCTTXL = 0x100, /* the first counter, and the last one */
    TXCNT = 0x108,
    OCTRXL = 0x150,
    RXCNT = 0x158,
    RXBROADCNT = 0x15c,
    RXMULTICNT = 0x160,
    RXOVRCNT = 0x188,
    RXRESERRCNT = 0x1a0,
    RXORCNT = 0x1a4,
    RXIPCCNT = 0x1a8,
    RXTCPCCNT = 0x1ac,
    RXUDPCCNT = 0x1b0,
    DCFG1 = 0x280,
    DCFG2 = 0x284,
    DCFG5 = 0x290,
    DCFG6 = 0x294,
    DCFG12 = 0x2ac,
    TBQPH = 0x4c8,
    RBQPH = 0x4d4,
};
#define ADDRESSES 4
/* NCR. The last three do something once, and read as 0. */
#define NCR_RE (1u << 2)
#define NCR_TE (1u << 3)
#define NCR_MPE (1u << 4)
#define NCR_CLRSTAT (1u << 5)
#define NCR_TSTART (1u << 9)
#define NCR_THALT (1u << 10)
/* NCFGR */
#define NCFGR_JFRAME (1u << 3)
#define NCFGR_CAF (1u << 4)
#define NCFGR_NBC (1u << 5)
#define NCFGR_MTI (1u << 6)
#define NCFGR_UNI (1u << 7)
#define NCFGR_BIG (1u << 8)
#define NCFGR_RBOF_SHIFT 14
#define NCFGR_RBOF 3u
#define NCFGR_DRFCS (1u << 17)
#define NCFGR_RXCOEN (1u << 24)
/* The longest frames with their frame check, without JFRAME. */
#define FRAME_USUAL 1518u
#define FRAME_BIG 1536u
#define JML_MASK 0x3fffu
#define JML_RESET 10240u
#define NSR_IDLE (1u << 2)
/* DMACFG */
#define DMACFG_TXCOEN (1u << 11)
#define DMACFG_RXBS_SHIFT 16
#define DMACFG_RXBS 0xffu
#define DMACFG_RXEXT (1u << 28)
#define DMACFG_TXEXT (1u << 29)
#define DMACFG_ADDR64 (1u << 30)
#define RX_BUFFER_MULTIPLE 64u
/* TSR, RSR */
#define TSR_UBR (1u << 0)
#define TSR_COMP (1u << 5)
#define RSR_BNA (1u << 0)
#define RSR_REC (1u << 1)
#define RSR_OVR (1u << 2)
/* ISR, IER, IDR, IMR */
#define INT_MFD (1u << 0)
#define INT_RCOMP (1u << 1)
#define INT_RXUBR (1u << 2)
#define INT_TXUBR (1u << 3)
#define INT_TCOMP (1u << 7)
#define INT_ROVR (1u << 10)
/* MAN, for clause 22 */
#define MAN_SOF_SHIFT 30
#define MAN_C22_SOF 1u
#define MAN_RW_SHIFT 28
#define MAN_C22_WRITE 1u
#define MAN_C22_READ 2u
#define MAN_PHYA_SHIFT 23
#define MAN_REGA_SHIFT 18
/* RBQP: the driver switches the queue off. */
#define QUEUE_DISABLE (1u << 0)
/* What the RP1 is: MID and DCFGs */
#define REVISION_RP1 0x00070109u
#define DCFG1_NO_PCS (1u << 0)
#define DCFG1_IRQCOR (1u << 23)
#define DCFG1_DBWDEF_128 (4u << 25)
#define DCFG2_PKT_BUFF (3u << 20) /* RX_PKT_BUFF, TX_PKT_BUFF */
#define DCFG5_TSU (1u << 8)
#define DCFG6_DAW64 (1u << 23)
#define DCFG6_PBUF_LSO (1u << 27)

/* Descriptors: address, control; with ADDR64 two more words, with RXEXT or TXEXT two words for a timestamp. */
#define DESCRIPTOR_SIZE 8u
#define DESCRIPTOR_MOST 24u
#define DESCRIPTOR_CONTROL 4
#define DESCRIPTOR_HIGH 8
#define RX_USED (1u << 0)
#define RX_WRAP (1u << 1)
#define RX_ADDRESS (~3u) /* also of the places of descriptors */
#define RX_ADDRESS_EXT (~7u) /* with RXEXT, bit 2 says that there is a timestamp */
#define RX_SOF (1u << 14)
#define RX_EOF (1u << 15)
#define RX_VLAN_TAG (1u << 21)
#define RX_CSUM_SHIFT 22
enum { RX_CSUM_NONE, RX_CSUM_IP_ONLY, RX_CSUM_IP_TCP, RX_CSUM_IP_UDP };
#define RX_SA_SHIFT 25
#define RX_SA_MATCH (1u << 27)
#define RX_UHASH_MATCH (1u << 29)
#define RX_MHASH_MATCH (1u << 30)
#define RX_BROADCAST (1u << 31)
#define TX_FRMLEN 0x3fffu
#define TX_LAST (1u << 15)
#define TX_NOCRC (1u << 16) /* of the first descriptor */
#define TX_LSO_SHIFT 17     /* of the first descriptor */
#define TX_LSO 3u
#define TX_LSO_TSO 2u
#define TX_MSS_SHIFT 16     /* of all others */
#define TX_MSS 0x3fffu
#define TX_WRAP (1u << 30)
#define TX_USED (1u << 31)
#define FRAME_CHECK 4
#define LARGE_MOST 0x10100u

struct gem {
    struct nic nic;
    struct registers registers;
    void *irq;
    u32 regs[GEM_SIZE / 4];
    bool active[ADDRESSES]; /* the address is complete */
    u32 rx, tx;             /* the low words of the places of the next descriptors */
    u8 large[LARGE_MOST];
    struct bcm_phy phy;
};

static void set_line(struct gem *g)
{
    set_interrupt(g->irq, (g->regs[ISR / 4] & ~g->regs[IMR / 4]) != 0);
}

/* What is masked is lost: the driver looks at its descriptors when it enables an interrupt again. */
static void interrupt(struct gem *g, u32 events)
{
    g->regs[ISR / 4] |= events & ~g->regs[IMR / 4];
    set_line(g);
}

static u32 descriptor_size(const struct gem *g, u32 extended)
{
    u32 config = g->regs[DMACFG / 4];

    return DESCRIPTOR_SIZE * (1 + !!(config & DMACFG_ADDR64) + !!(config & extended));
}

static u64 high_word(const struct gem *g, u32 value)
{
    return g->regs[DMACFG / 4] & DMACFG_ADDR64 ? (u64)value << 32 : 0;
}

/* The bit of an address in the hash: each bit of the number is the sum of every sixth bit. */
static bool is_in_hash(const struct gem *g, const u8 *address)
{
    unsigned number = 0;

    for (unsigned bit = 0; bit < 8 * MAC_SIZE; bit++)
        number ^= (address[bit / 8] >> bit % 8 & 1u) << bit % 6;
    return g->regs[(number < 32 ? HRB : HRT) / 4] >> number % 32 & 1;
}

/* Returns whether a frame is for this NIC, and adds to `flags` why. */
static bool passes_address_filter(const struct gem *g, const u8 *frame, u32 *flags)
{
    u32 config = g->regs[NCFGR / 4];
    bool passes = config & NCFGR_CAF;

    if (is_broadcast(frame)) {
        *flags |= RX_BROADCAST;
        return passes || !(config & NCFGR_NBC);
    }
    for (u32 i = 0; i < ADDRESSES; i++) {
        const u32 *address = g->regs + SA1B / 4 + 2 * i;

        if (g->active[i] && get32(frame) == address[0] && get16(frame + 4) == (address[1] & 0xffff)) {
            *flags |= RX_SA_MATCH | i << RX_SA_SHIFT;
            return true;
        }
    }
    if (config & (is_multicast(frame) ? NCFGR_MTI : NCFGR_UNI) && is_in_hash(g, frame)) {
        *flags |= is_multicast(frame) ? RX_MHASH_MATCH : RX_UHASH_MATCH;
        return true;
    }
    return passes;
}

static bool is_too_long(const struct gem *g, const u8 *frame, size_t size)
{
    u32 config = g->regs[NCFGR / 4], tag = has_vlan_tag(frame, size) ? VLAN_TAG : 0;
    u32 most = config & NCFGR_BIG ? FRAME_BIG : FRAME_USUAL + tag;

    return size + FRAME_CHECK > (config & NCFGR_JFRAME ? g->regs[JML / 4] & JML_MASK : most);
}

/* Returns what the chip says about the checksums of a frame. Counts a wrong one, and sets `wrong`. */
static u32 checked(struct gem *g, const u8 *frame, size_t size, bool *wrong)
{
    struct heads heads = heads_of(frame, size);
    bool udp = heads.protocol == PROTOCOL_UDP;
    size_t place = checksum_place(heads);

    if (!heads.protocol)
        return RX_CSUM_NONE;
    if (sum_of(frame + heads.network, heads.transport - heads.network, 0) != 0xffff) {
        g->regs[RXIPCCNT / 4]++;
        *wrong = true;
    } else if (place && !has_right_checksum(frame, size)) {
        g->regs[(udp ? RXUDPCCNT : RXTCPCCNT) / 4]++;
        *wrong = true;
    }
    /* A datagram without a checksum is not checked. */
    if (!place || (udp && !get16(frame + place)))
        return RX_CSUM_IP_ONLY;
    return udp ? RX_CSUM_IP_UDP : RX_CSUM_IP_TCP;
}

/* Stores a frame in as many buffers as it needs. Returns whether the driver had enough. */
static bool store_frame(struct gem *g, const u8 *frame, size_t size, u32 flags)
{
    u32 config = g->regs[DMACFG / 4], offset = g->regs[NCFGR / 4] >> NCFGR_RBOF_SHIFT & NCFGR_RBOF;
    u32 room = (config >> DMACFG_RXBS_SHIFT & DMACFG_RXBS) * RX_BUFFER_MULTIPLE;
    u32 mask = config & DMACFG_RXEXT ? RX_ADDRESS_EXT : RX_ADDRESS, step = descriptor_size(g, DMACFG_RXEXT);

    if (room <= offset || g->regs[RBQP / 4] & QUEUE_DISABLE)
        return false;
    for (size_t at = 0; at < size; offset = 0) {
        u64 place = g->rx | high_word(g, g->regs[RBQPH / 4]);
        size_t now = size - at < room - offset ? size - at : room - offset;
        u8 descriptor[DESCRIPTOR_MOST] = {0};
        u32 low, control = flags;

        dma_read(place, descriptor, step);
        low = get32(descriptor);
        if (low & RX_USED) {
            g->regs[RSR / 4] |= RSR_BNA;
            interrupt(g, INT_RXUBR);
            return false;
        }
        dma_write(((low & mask) | high_word(g, get32(descriptor + DESCRIPTOR_HIGH))) + offset, frame + at, now);
        control |= at ? 0 : RX_SOF;
        at += now;
        control |= at < size ? 0 : RX_EOF | (u32)size;
        put32(descriptor, low | RX_USED);
        put32(descriptor + DESCRIPTOR_CONTROL, control);
        dma_write(place, descriptor, DESCRIPTOR_SIZE);
        g->rx = low & RX_WRAP ? g->regs[RBQP / 4] & RX_ADDRESS : g->rx + step;
    }
    return true;
}

static void receive(struct nic *nic, u8 *frame, size_t size)
{
    struct gem *g = (struct gem *)nic;
    u32 flags = has_vlan_tag(frame, size) ? RX_VLAN_TAG : 0;
    bool wrong = false;

    if (!(g->regs[NCR / 4] & NCR_RE) || !passes_address_filter(g, frame, &flags))
        return;
    if (is_too_long(g, frame, size)) {
        g->regs[RXOVRCNT / 4]++;
        return;
    }
    if (loses_frame(nic)) {
        g->regs[RXORCNT / 4]++;
        g->regs[RSR / 4] |= RSR_OVR;
        interrupt(g, INT_ROVR);
        return;
    }
    if (g->regs[NCFGR / 4] & NCFGR_RXCOEN)
        flags |= checked(g, frame, size, &wrong) << RX_CSUM_SHIFT;
    if (wrong)
        return;
    if (!(g->regs[NCFGR / 4] & NCFGR_DRFCS)) {
        size = size < FRAME_MOST - FRAME_CHECK ? size : FRAME_MOST - FRAME_CHECK;
        memset(frame + size, 0, FRAME_CHECK);
        size += FRAME_CHECK;
    }
    if (!store_frame(g, frame, size, flags)) {
        g->regs[RXRESERRCNT / 4]++;
        return;
    }
    g->regs[RXCNT / 4]++;
    g->regs[OCTRXL / 4] += (u32)size;
    if (is_multicast(frame))
        g->regs[(flags & RX_BROADCAST ? RXBROADCNT : RXMULTICNT) / 4]++;
    g->regs[RSR / 4] |= RSR_REC;
    interrupt(g, INT_RCOMP);
}

/* `first` and `second` are the control words of the first descriptors of a frame. */
static void send(struct gem *g, size_t size, u32 first, u32 second)
{
    bool has_frame_check = first & TX_NOCRC, computes = g->regs[DMACFG / 4] & DMACFG_TXCOEN;

    size -= has_frame_check && size > FRAME_CHECK ? FRAME_CHECK : 0;
    if (size < ETHERNET_HEAD || size + VLAN_TAG > LARGE_MOST)
        return;
    g->regs[TXCNT / 4]++;
    g->regs[OCTTXL / 4] += (u32)size;
    if ((first >> TX_LSO_SHIFT & TX_LSO) == TX_LSO_TSO) {
        send_segments(&g->nic, g->large, size, second >> TX_MSS_SHIFT & TX_MSS);
        return;
    }
    if (computes && !has_frame_check)
        find_and_put_checksum(g->large, size);
    send_frame(&g->nic, g->large, size);
}

static void transmit(struct gem *g)
{
    u32 step = descriptor_size(g, DMACFG_TXEXT), first = 0, second = 0, events = INT_TXUBR;
    u64 first_place = 0, upper = high_word(g, g->regs[TBQPH / 4]);
    unsigned buffers = 0;
    size_t size = 0;

    for (unsigned count = 0; count < DESCRIPTORS_MOST; count++) {
        u64 place = g->tx | upper;
        u8 descriptor[DESCRIPTOR_MOST] = {0};
        size_t now;
        u32 control;

        dma_read(place, descriptor, step);
        control = get32(descriptor + DESCRIPTOR_CONTROL);
        if (control & TX_USED)
            break;
        if (!buffers)
            size = 0, first = control, first_place = place;
        if (buffers == 1)
            second = control;
        buffers++;
        now = control & TX_FRMLEN;
        if (size + now <= LARGE_MOST)
            dma_read(get32(descriptor) | high_word(g, get32(descriptor + DESCRIPTOR_HIGH)), g->large + size, now);
        size += now;
        g->tx = control & TX_WRAP ? g->regs[TBQP / 4] & RX_ADDRESS : g->tx + step;
        if (!(control & TX_LAST))
            continue;
        send(g, size, first, second);
        /* Only the first descriptor of a frame says that the frame is done. */
        put32(descriptor, first | TX_USED);
        dma_write(first_place + DESCRIPTOR_CONTROL, descriptor, 4);
        buffers = 0;
        second = 0;
        events |= INT_TCOMP;
    }
    g->regs[TSR / 4] |= TSR_UBR | (events & INT_TCOMP ? TSR_COMP : 0);
    interrupt(g, events);
}

/* Returns the command as it is read back. Clause 45 is answered as by a PHY that is not there. */
static u32 mdio(struct gem *g, u32 command)
{
    bool c22 = command >> MAN_SOF_SHIFT == MAN_C22_SOF && (command >> MAN_PHYA_SHIFT & 31) == PHY_ADDRESS;
    u32 way = command >> MAN_RW_SHIFT & 3;
    unsigned number = command >> MAN_REGA_SHIFT & 31;

    if (!(g->regs[NCR / 4] & NCR_MPE))
        return command;
    if (c22 && way == MAN_C22_WRITE)
        bcm_phy_write(&g->phy, number, command & 0xffff);
    else if (way & MAN_C22_READ)
        command = (command & 0xffff0000) | (c22 ? bcm_phy_read(&g->phy, number) : 0xffff);
    interrupt(g, INT_MFD);
    return command;
}

/* The driver has no interrupt for it: phylib asks the PHY once a second. */
static void link_changed(struct nic *nic)
{
    phy_show_link(((struct gem *)nic)->phy.mii, nic->link);
}

static u64 load(void *device, u64 at, unsigned size)
{
    struct gem *g = device;
    u32 value = g->regs[at / 4];

    (void)size;
    switch (at) {
    case NSR: return NSR_IDLE;
    case RBQP: return g->rx;
    case TBQP: return g->tx;
    }
    if (at == ISR || (at >= OCTTXL && at <= RXUDPCCNT)) {
        g->regs[at / 4] = 0;
        set_line(g);
    }
    return value;
}

static void set_control(struct gem *g, u32 value)
{
    g->regs[NCR / 4] = value & ~(NCR_CLRSTAT | NCR_TSTART | NCR_THALT);
    if (value & NCR_CLRSTAT)
        memset(g->regs + OCTTXL / 4, 0, RXUDPCCNT + 4 - OCTTXL);
    if (!(value & NCR_TE))
        g->tx = g->regs[TBQP / 4] & RX_ADDRESS;
    else if (value & NCR_TSTART)
        transmit(g);
}

static void store(void *device, u64 at, u64 value, unsigned size)
{
    struct gem *g = device;
    u32 one = (u32)value;

    (void)size;
    if ((at >= OCTTXL && at <= RXUDPCCNT) || (at >= DCFG1 && at <= DCFG12))
        return;
    if (at >= SA1B && at <= SA4T)
        g->active[(at - SA1B) / 8] = (at - SA1B) % 8;
    switch (at) {
    case MID: case NSR: case ISR: case IMR: return;
    case NCR: set_control(g, one); return;
    case TSR: case RSR: g->regs[at / 4] &= ~one; return;
    case IER: g->regs[IMR / 4] &= ~one; set_line(g); return;
    case IDR: g->regs[IMR / 4] |= one; set_line(g); return;
    case MAN: one = mdio(g, one); break;
    case RBQP: g->rx = one & RX_ADDRESS; break;
    case TBQP: g->tx = one & RX_ADDRESS; break;
    }
    g->regs[at / 4] = one;
}

static struct nic *make_nic(unsigned which)
{
    struct gem *g = new_nic(which, sizeof(*g));

    g->nic.receive = receive;
    g->nic.link_changed = link_changed;
    g->regs[IMR / 4] = ~0u;
    g->regs[JML / 4] = JML_RESET;
    g->regs[MID / 4] = REVISION_RP1;
    g->regs[DCFG1 / 4] = DCFG1_NO_PCS | DCFG1_IRQCOR | DCFG1_DBWDEF_128;
    g->regs[DCFG2 / 4] = DCFG2_PKT_BUFF;
    g->regs[DCFG5 / 4] = DCFG5_TSU;
    g->regs[DCFG6 / 4] = DCFG6_DAW64 | DCFG6_PBUF_LSO;
    bcm_phy_power_on(&g->phy);
    g->irq = interrupt_of(which, 0);
    map_registers(&g->registers, "gem", place_of(which), GEM_SIZE, 4, 4, load, store, g);
    return &g->nic;
}
