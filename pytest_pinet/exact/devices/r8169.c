/*
 * Realtek RTL8125B: 2.5 Gigabit Ethernet on PCI Express (HATs of the Compute Module 4 and the Raspberry Pi 5), driver r8169.
 *
 * Source of the register facts: drivers/net/ethernet/realtek/r8169_main.c and drivers/net/phy/realtek.c of Linux 6.1 and
 * 6.12, whose names the registers have here.
 * Modelled: both rings, checksums and VLAN tags in both directions, large sends (LSO) of IPv4, the filters by address,
 * its interrupt as a message (MSI), the counter of lost frames, the PHY with a link of 2.5 Gbit/s and its interrupt.
 * Not modelled: INTx, MSI-X, offloads of IPv6, frames above an MTU of 1,500, coalescing, other counters, wake-on-LAN,
 * EEE, pause frames, ASPM, firmware (the driver goes on without it).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "device.h"
#include "pci.h"
#include "phy.h"

#define REGISTERS_SIZE 0x10000u
static const struct pci_identity rtl8125b = {
    .vendor = 0x10ec, .device = 0x8125, .subsystem_vendor = 0x10ec, .subsystem = 0x0123, .revision = 5,
    .bar = 2, .size = REGISTERS_SIZE,
};
enum {
    MAC0 = 0x00,
    MAR0 = 0x08,
    CounterAddrLow = 0x10,
    TxDescStartAddrLow = 0x20, /* the high half is behind it */
    ChipCmd = 0x37,
    IntrMask_8125 = 0x38,
    IntrStatus_8125 = 0x3c,
    TxConfig = 0x40,
    RxConfig = 0x44,
    EPHYAR = 0x80,
    TxPoll_8125 = 0x90,
    OCPDR = 0xb0,
    GPHY_OCP = 0xb8,
    MCU = 0xd3,
    CPlusCmd = 0xe0,
    IntrMitigate = 0xe2,
    RxDescAddrLow = 0xe4, /* the high half is behind it */
    MAC0_BKP = 0x19e0,
};
/* ChipCmd */
#define CmdReset 0x10u
#define CmdRxEnb 0x08u
#define CmdTxEnb 0x04u
/* IntrMask_8125, IntrStatus_8125 */
#define RxFIFOOver 0x0040u
#define LinkChg 0x0020u
#define RxOverflow 0x0010u /* no descriptor for a received frame */
#define TxOK 0x0004u
#define RxOK 0x0001u
/* TxConfig: its upper bits say which chip it is. */
#define XID_RTL8125B 0x64100000u
#define XID_MASK 0xfcf00000u
/* RxConfig */
#define RX_VLAN_8125 (3u << 22)
#define AcceptBroadcast 0x08u
#define AcceptMulticast 0x04u
#define AcceptMyPhys 0x02u
#define AcceptAllPhys 0x01u
#define MULTICAST_HASH_SHIFT 26
#define TXPOLL_NORMAL 0x1u
#define MCU_IDLE 0x32u          /* TX_EMPTY, RX_EMPTY, LINK_LIST_RDY */
#define MITIGATE_IDLE 0x0103u   /* both queues are empty */
#define RxChkSum (1u << 5)      /* of CPlusCmd */
/* CounterAddrLow: commands, and the place of a counter in what is written. */
#define CounterReset 0x1u
#define CounterDump 0x8u
#define COUNTERS_SIZE 64
#define COUNTERS_RX_MISSED 28
/* Windows to other registers, by their number. A bit starts the access. Of the PHY's, another bit says that it is done. */
#define ACCESS_FLAG 0x80000000u
#define OCP_SHIFT 15
#define OCP_MASK 0xfffeu
#define OCP_DATA 0xffffu

/* Descriptors: two words of flags, and an address. The first word of both kinds is alike. */
#define DESCRIPTOR_SIZE 16
#define DESCRIPTOR_ADDRESS 8
#define DescOwn (1u << 31)
#define RingEnd (1u << 30)
#define FirstFrag (1u << 29)
#define LastFrag (1u << 28)
#define TX_LENGTH 0xffffu
#define TD1_GTSENV4 (1u << 26)
#define GTTCPHO_SHIFT 18 /* where TCP begins */
#define GTTCPHO_MAX 0x7fu
#define TCPHO_SHIFT 18
#define TCPHO_MAX 0x3ffu
#define TD1_TCP_CS (1u << 30)
#define TD1_UDP_CS (1u << 31)
#define TD1_MSS_SHIFT 18
#define TD_MSS_MAX 0x07ffu
#define TxVlanTag (1u << 17)
#define PID1 (1u << 18)
#define PID0 (1u << 17)
#define RxProtoUDP PID1
#define RxProtoTCP PID0
#define RxProtoIP (PID1 | PID0)
#define UDPFail (1u << 15)
#define TCPFail (1u << 14)
#define RxVlanTag (1u << 16)
#define FRAME_CHECK 4
#define LARGE_MOST 0x10100u

/* The PHY, by the numbers of its registers in the window: those of IEEE 802.3 clause 22 from OCP_STD_PHY_BASE on. */
#define OCP_STD_PHY_BASE 0xa400u
#define PHY_ID_RTL8125B 0x001cc840u
/* Of the pages 0xa43, 0xa5d and 0xa61: a register n of page p is 16 p + 2 (n - 16). */
#define PHY_SPEED 0xa434u /* RTLGEN_SPEED_MASK */
#define SPEED_2500FULL 0x0210u
#define PHY_LPA_2500 0xa5d6u
#define RTL_LPADV_2500FULL (1u << 5)
#define PHY_ABILITY 0xa616u
#define RTL_SUPPORTS_2500FULL (1u << 13)

struct r8169 {
    struct nic nic;
    struct pci pci;
    u8 regs[REGISTERS_SIZE], large[LARGE_MOST];
    u16 mac_ocp[OCP_MASK / 2 + 1], phy[OCP_MASK / 2 + 1];
    u32 rx, tx; /* the next descriptors */
    u16 missed;
};

static void interrupt(struct r8169 *r, u32 events)
{
    u32 status = get32(r->regs + IntrStatus_8125) | events;

    put32(r->regs + IntrStatus_8125, status);
    pci_interrupt(&r->pci, status & get32(r->regs + IntrMask_8125));
}

static bool passes_address_filter(const struct r8169 *r, const u8 *frame)
{
    u32 accept = get32(r->regs + RxConfig), hash;

    if (accept & AcceptAllPhys)
        return true;
    if (!is_multicast(frame))
        return accept & AcceptMyPhys && !memcmp(frame, r->regs + MAC0, MAC_SIZE);
    if (is_broadcast(frame))
        return accept & AcceptBroadcast;
    hash = ethernet_crc(frame, MAC_SIZE) >> MULTICAST_HASH_SHIFT;
    return accept & AcceptMulticast && r->regs[MAR0 + 7 - hash / 8] >> hash % 8 & 1;
}

/* What the chip says about the content of a frame and its checksum. */
static u32 content_of(const u8 *frame, size_t size)
{
    struct heads heads = heads_of(frame, size);
    bool right = has_right_checksum(frame, size);

    if (heads.protocol == PROTOCOL_TCP)
        return RxProtoTCP | (right ? 0 : TCPFail);
    if (heads.protocol == PROTOCOL_UDP)
        return RxProtoUDP | (right ? 0 : UDPFail);
    return heads.protocol ? RxProtoIP : 0;
}

static void receive(struct nic *nic, u8 *frame, size_t size)
{
    struct r8169 *r = (struct r8169 *)nic;
    u64 at = get64(r->regs + RxDescAddrLow) + DESCRIPTOR_SIZE * r->rx;
    u8 descriptor[DESCRIPTOR_SIZE];
    u32 flags, content = 0, tag = 0;

    if (!(r->regs[ChipCmd] & CmdRxEnb) || !pci_is_master(&r->pci) || !passes_address_filter(r, frame))
        return;
    dma_read(at, descriptor, sizeof(descriptor));
    flags = get32(descriptor);
    if (!(flags & DescOwn) || loses_frame(nic)) {
        r->missed++;
        interrupt(r, RxOverflow | RxFIFOOver);
        return;
    }
    if (get16(r->regs + CPlusCmd) & RxChkSum)
        content = content_of(frame, size);
    if (get32(r->regs + RxConfig) & RX_VLAN_8125 && has_vlan_tag(frame, size))
        tag = RxVlanTag | swapped(take_vlan_tag(frame, &size));
    dma_write(get64(descriptor + DESCRIPTOR_ADDRESS), frame, size);
    put32(descriptor, (flags & RingEnd) | FirstFrag | LastFrag | content | (u32)(size + FRAME_CHECK));
    put32(descriptor + 4, tag);
    dma_write(at, descriptor, DESCRIPTOR_ADDRESS);
    r->rx = flags & RingEnd ? 0 : r->rx + 1;
    interrupt(r, RxOK);
}

static void send(struct r8169 *r, size_t size, u32 flags, u32 offloads)
{
    u8 *frame = r->large;
    size_t transport;

    if (size < ETHERNET_HEAD || size + VLAN_TAG > LARGE_MOST)
        return;
    transport = heads_of(frame, size).transport;
    /* A checksum at another place than that of the descriptor would be wrong. */
    if (!(flags & TD1_GTSENV4) && offloads & (TD1_TCP_CS | TD1_UDP_CS) &&
        (offloads >> TCPHO_SHIFT & TCPHO_MAX) == transport)
        find_and_put_checksum(frame, size);
    if (offloads & TxVlanTag)
        put_vlan_tag(frame, &size, swapped(offloads));
    if (!(flags & TD1_GTSENV4))
        send_frame(&r->nic, frame, size);
    else if ((flags >> GTTCPHO_SHIFT & GTTCPHO_MAX) == transport)
        send_segments(&r->nic, frame, size, offloads >> TD1_MSS_SHIFT & TD_MSS_MAX);
}

static void transmit(struct r8169 *r)
{
    u64 ring = get64(r->regs + TxDescStartAddrLow);
    u32 first = 0, offloads = 0;
    size_t size = 0;
    bool any = false;

    if (!(r->regs[ChipCmd] & CmdTxEnb) || !pci_is_master(&r->pci))
        return;
    for (unsigned count = 0; count < DESCRIPTORS_MOST; count++) {
        u64 at = ring + DESCRIPTOR_SIZE * r->tx;
        u8 descriptor[DESCRIPTOR_SIZE];
        u32 flags;
        size_t now;

        dma_read(at, descriptor, sizeof(descriptor));
        flags = get32(descriptor);
        if (!(flags & DescOwn))
            break;
        if (flags & FirstFrag)
            size = 0, first = flags, offloads = get32(descriptor + 4);
        now = flags & TX_LENGTH;
        if (size + now <= LARGE_MOST)
            dma_read(get64(descriptor + DESCRIPTOR_ADDRESS), r->large + size, now);
        size += now;
        put32(descriptor, flags & ~DescOwn);
        dma_write(at, descriptor, 4);
        r->tx = flags & RingEnd ? 0 : r->tx + 1;
        if (flags & LastFrag)
            send(r, size, first, offloads);
        any = true;
    }
    if (any)
        interrupt(r, TxOK);
}

static void write_phy(struct r8169 *r, u32 number, u32 value)
{
    u32 mii = (number - OCP_STD_PHY_BASE) / 2;

    if (mii >= PHY_REGISTERS)
        r->phy[number / 2] = (u16)value;
    else if (phy_write(r->phy + OCP_STD_PHY_BASE / 2, mii, value))
        interrupt(r, LinkChg);
}

static void link_changed(struct nic *nic)
{
    struct r8169 *r = (struct r8169 *)nic;

    phy_show_link(r->phy + OCP_STD_PHY_BASE / 2, nic->link);
    r->phy[PHY_LPA_2500 / 2] = nic->link ? RTL_LPADV_2500FULL : 0;
    interrupt(r, LinkChg);
}

static void reset(struct r8169 *r)
{
    r->rx = r->tx = 0;
    put32(r->regs + IntrMask_8125, 0);
    put32(r->regs + IntrStatus_8125, 0);
    interrupt(r, 0);
}

static void count(struct r8169 *r, u32 command)
{
    u8 counters[COUNTERS_SIZE] = {0};

    if (command & CounterReset)
        r->missed = 0;
    put16(counters + COUNTERS_RX_MISSED, r->missed);
    if (command & CounterDump && pci_is_master(&r->pci))
        dma_write(get64(r->regs + CounterAddrLow) & ~(u64)(COUNTERS_SIZE - 1), counters, sizeof(counters));
}

static u64 load(void *device, u64 at, unsigned size)
{
    struct r8169 *r = device;
    u64 value = 0;

    for (unsigned i = 0; i < size; i++)
        value |= (u64)r->regs[at + i] << 8 * i;
    return at == MCU ? value | MCU_IDLE : at == IntrMitigate ? value | MITIGATE_IDLE : value;
}

static void store(void *device, u64 at, u64 value, unsigned size)
{
    struct r8169 *r = device;
    u32 one = (u32)value, number = one >> OCP_SHIFT & OCP_MASK, events = get32(r->regs + IntrStatus_8125);

    switch (at) {
    case IntrStatus_8125: one = events & ~one; break;
    case TxConfig: one = (one & ~XID_MASK) | XID_RTL8125B; break;
    case EPHYAR: one ^= ACCESS_FLAG; break;
    case OCPDR:
        if (one & ACCESS_FLAG)
            r->mac_ocp[number / 2] = (u16)one;
        one = (one & ~OCP_DATA) | r->mac_ocp[number / 2];
        break;
    case GPHY_OCP:
        if (one & ACCESS_FLAG)
            write_phy(r, number, one & OCP_DATA);
        else
            one = (one & ~OCP_DATA) | r->phy[number / 2];
        one ^= ACCESS_FLAG;
        break;
    }
    for (unsigned i = 0; i < size; i++)
        r->regs[at + i] = (u8)(one >> 8 * i);
    switch (at) {
    case ChipCmd:
        if (one & CmdReset)
            reset(r);
        r->regs[ChipCmd] &= (u8)~CmdReset;
        break;
    case CounterAddrLow:
        count(r, one);
        r->regs[CounterAddrLow] &= (u8)~(CounterReset | CounterDump);
        break;
    case IntrMask_8125:
    case IntrStatus_8125: interrupt(r, 0); break;
    case TxPoll_8125:
        if (one & TXPOLL_NORMAL)
            transmit(r);
        break;
    }
}

static struct nic *make_nic(unsigned which)
{
    struct r8169 *r = new_nic(which, sizeof(*r));

    r->nic.receive = receive;
    r->nic.link_changed = link_changed;
    memcpy(r->regs + MAC0, r->nic.mac, MAC_SIZE);
    memcpy(r->regs + MAC0_BKP, r->nic.mac, MAC_SIZE);
    put32(r->regs + TxConfig, XID_RTL8125B);
    phy_power_on(r->phy + OCP_STD_PHY_BASE / 2, PHY_ID_RTL8125B, true, true);
    r->phy[PHY_SPEED / 2] = SPEED_2500FULL;
    r->phy[PHY_LPA_2500 / 2] = RTL_LPADV_2500FULL;
    r->phy[PHY_ABILITY / 2] = RTL_SUPPORTS_2500FULL;
    make_pci(&r->pci, which, &rtl8125b, load, store, r);
    return &r->nic;
}
