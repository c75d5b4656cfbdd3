/*
 * Intel I226-V: 2.5 Gigabit Ethernet on PCI Express (cards and HATs of the Compute Module 4 and the Raspberry Pi 5),
 * driver igc.
 *
 * Source of the register facts: drivers/net/ethernet/intel/igc of Linux 6.1 and 6.12, whose names the registers have here.
 * Modelled: one queue in each direction with advanced descriptors, checksums and VLAN tags in both directions, large sends
 * (TSO) of IPv4, hashes of received frames (RSS), the filters by address, its interrupt as a message (MSI, with which the
 * driver uses one queue), the flash, the counters of frames, the PHY with a link of 2.5 Gbit/s and its interrupt.
 * Not modelled: MSI-X with several queues, offloads of IPv6 and SCTP, frames above an MTU of 1,500, the moderation of
 * interrupts (EITR), filters by content, the clock of PTP, TSN, other counters, wake-on-LAN, EEE, pause frames.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "device.h"
#include "pci.h"
#include "phy.h"

#define IGC_SIZE 0x100000u
static const struct pci_identity i226 = {
    .vendor = 0x8086, .device = 0x125c, .subsystem_vendor = 0x8086, .subsystem = 0x0000, .revision = 4,
    .bar = 0, .size = IGC_SIZE,
};
enum {
    IGC_CTRL = 0x00000,
    IGC_STATUS = 0x00008,
    IGC_EECD = 0x00010,
    IGC_MDIC = 0x00020,
    IGC_RCTL = 0x00100,
    IGC_TCTL = 0x00400,
    IGC_I225_PHPM = 0x00e14,
    IGC_ICR = 0x01500,
    IGC_ICS = 0x01504,
    IGC_IMS = 0x01508,
    IGC_IMC = 0x0150c,
    IGC_IAM = 0x01510,
    /* Counters, which are 0 after they are read: all between the first and the last one. */
    IGC_CRCERRS = 0x04000,
    IGC_MPC = 0x04010,
    IGC_GPRC = 0x04074,
    IGC_GPTC = 0x04080,
    IGC_LENERRS = 0x04138,
    IGC_RXCSUM = 0x05000,
    IGC_MTA = 0x05200,
    IGC_RAL = 0x05400, /* 16 addresses, each with its high half behind it */
    IGC_MRQC = 0x05818,
    IGC_RSSRK = 0x05c80,
    /* Of queue 0. */
    IGC_RDBAL = 0x0c000,
    IGC_RDLEN = 0x0c008,
    IGC_RDH = 0x0c010,
    IGC_RDT = 0x0c018,
    IGC_RXDCTL = 0x0c028,
    IGC_TDBAL = 0x0e000,
    IGC_TDLEN = 0x0e008,
    IGC_TDH = 0x0e010,
    IGC_TDT = 0x0e018,
    IGC_TXDCTL = 0x0e028,
    IGC_EERD = 0x12014,
};
#define IGC_CTRL_GIO_MASTER_DISABLE 0x00000004u
#define IGC_CTRL_RST 0x04000000u
#define IGC_CTRL_VME 0x40000000u
/* Of a link of 2.5 Gbit/s, full duplex: FD, LU, SPEED_1000, SPEED_2500. */
#define IGC_STATUS_UP 0x00400083u
#define IGC_STATUS_GIO_MASTER_ENABLE 0x00080000u
/* IGC_EECD_AUTO_RD, FLASH_DETECTED_I225, FLUDONE_I225, and a size of 2,048 words. */
#define IGC_EECD_READY 0x04082a00u
#define IGC_NVM_RW_REG_DATA 16
#define IGC_NVM_RW_REG_DONE 2u
#define IGC_NVM_RW_ADDR_SHIFT 2
#define NVM_CHECKSUM_REG 0x3f
#define NVM_SUM 0xbabau
#define IGC_PHY_RST_COMP 0x0100u
#define IGC_RCTL_EN 0x00000002u
#define IGC_RCTL_UPE 0x00000008u
#define IGC_RCTL_MPE 0x00000010u
#define IGC_RCTL_BAM 0x00008000u
#define IGC_RCTL_MO_SHIFT 12
#define IGC_TCTL_EN 0x00000002u
#define IGC_QUEUE_ENABLE 0x02000000u /* of RXDCTL and TXDCTL */
#define IGC_ICR_TXDW (1u << 0)
#define IGC_ICR_LSC (1u << 2)
#define IGC_ICR_RXO (1u << 6)
#define IGC_ICR_RXT0 (1u << 7)
#define IGC_ICR_INT_ASSERTED (1u << 31)
#define IGC_RXCSUM_TUOFL 0x00000200u
#define IGC_RXCSUM_AFTER_RESET 0x00000300u
#define IGC_RAR_ENTRIES 16
#define IGC_RAH_RAH_MASK 0x0000ffffu
#define IGC_RAH_AV 0x80000000u
#define IGC_MTA_HASH_MASK 0xfffu
#define IGC_MRQC_ENABLE_RSS_MQ 0x2u
#define IGC_MRQC_ENABLE_MASK 0x7u
#define IGC_MRQC_RSS_FIELD_IPV4_TCP 0x00010000u
#define IGC_MRQC_RSS_FIELD_IPV4 0x00020000u
#define IGC_MRQC_RSS_FIELD_IPV4_UDP 0x00400000u
enum { IGC_RSS_TYPE_NO_HASH = 0, IGC_RSS_TYPE_HASH_TCP_IPV4 = 1, IGC_RSS_TYPE_HASH_IPV4 = 2, IGC_RSS_TYPE_HASH_UDP_IPV4 = 7 };
#define RSS_ADDRESSES 8
#define RSS_PORTS 4

/* Descriptors: an address and two words. What has been done stands in the same 16 octets. */
#define DESCRIPTOR_SIZE 16
#define TX_COMMAND 8
#define TX_STATUS 12
#define TX_LENGTH 0xffffu
#define IGC_ADVTXD_DTYP_MASK 0x00f00000u
#define IGC_ADVTXD_DTYP_CTXT 0x00200000u
#define IGC_ADVTXD_DCMD_EOP 0x01000000u
#define IGC_ADVTXD_DCMD_RS 0x08000000u
#define IGC_ADVTXD_DCMD_VLE 0x40000000u
#define IGC_ADVTXD_DCMD_TSE 0x80000000u
#define IGC_TXD_POPTS_TXSM 0x0200u
#define IGC_TXD_STAT_DD 0x00000001u
/* Of a context: the length of IP, of Ethernet in front of it, the VLAN tag; which protocol; the size of a segment. */
#define CONTEXT_IPLEN 0x1ffu
#define IGC_ADVTXD_MACLEN_SHIFT 9
#define CONTEXT_MACLEN 0x7fu
#define CONTEXT_VLAN_SHIFT 16
#define CONTEXT_COMMAND 8
#define IGC_ADVTXD_TUCMD_L4T_TCP 0x00000800u
#define CONTEXT_MSS 12
#define IGC_ADVTXD_MSS_SHIFT 16
#define RX_TYPE_IPV4 0x0010u
#define RX_TYPE_TCP 0x0100u
#define RX_TYPE_UDP 0x0200u
#define RX_RSS 4
#define RX_STATUS 8
#define RX_LENGTH 12
#define RX_VLAN 14
#define IGC_RXD_STAT_DD_EOP 0x03u
#define IGC_RXD_STAT_VP 0x08u
#define IGC_RXD_STAT_UDPCS 0x10u
#define IGC_RXD_STAT_TCPCS 0x20u
#define IGC_RXDEXT_STATERR_L4E 0x20000000u
#define LARGE_MOST 0x10100u

/* The PHY: registers of IEEE 802.3 clause 22, and those of clause 45 behind two of them. */
#define PHY_ID_I226 0x67c9dcc0u
#define IGC_MMDAC_FUNC_DATA 0x4000u
#define MMD_REGISTERS 256
#define IGC_MDIC_REG_SHIFT 16
#define IGC_MDIC_OP_WRITE 0x04000000u
#define IGC_MDIC_READY 0x10000000u

struct igc {
    struct nic nic;
    struct pci pci;
    u32 regs[IGC_SIZE / 4];
    u16 nvm[NVM_CHECKSUM_REG + 1];
    u16 phy[PHY_REGISTERS], mmd[PHY_REGISTERS][MMD_REGISTERS], mmd_address;
    u8 large[LARGE_MOST], context[DESCRIPTOR_SIZE];
};

static u32 *reg(struct igc *g, u32 at)
{
    return g->regs + at / 4;
}

/* The address of a descriptor. The high half of the ring's address is behind its low half. */
static u64 descriptor_at(struct igc *g, u32 ring, u32 number)
{
    return (*reg(g, ring) | (u64)*reg(g, ring + 4) << 32) + DESCRIPTOR_SIZE * (u64)number;
}

static void interrupt(struct igc *g, u32 causes)
{
    *reg(g, IGC_ICR) |= causes;
    pci_interrupt(&g->pci, *reg(g, IGC_ICR) & *reg(g, IGC_IMS));
}

static bool passes_address_filter(struct igc *g, const u8 *frame)
{
    u32 control = *reg(g, IGC_RCTL), hash, shift;
    static const u8 shifts[] = {4, 3, 2, 0};

    if (is_broadcast(frame) && control & IGC_RCTL_BAM)
        return true;
    if (control & (is_multicast(frame) ? IGC_RCTL_MPE : IGC_RCTL_UPE))
        return true;
    for (u32 i = 0; i < IGC_RAR_ENTRIES; i++) {
        u32 low = *reg(g, IGC_RAL + 8 * i), high = *reg(g, IGC_RAL + 8 * i + 4);

        if (high & IGC_RAH_AV && get32(frame) == low && get16(frame + 4) == (high & IGC_RAH_RAH_MASK))
            return true;
    }
    shift = shifts[control >> IGC_RCTL_MO_SHIFT & 3];
    hash = ((u32)frame[4] >> shift | (u32)frame[5] << (8 - shift)) & IGC_MTA_HASH_MASK;
    return is_multicast(frame) && *reg(g, IGC_MTA + hash / 32 * 4) >> hash % 32 & 1;
}

/* Returns the type of the hash (0: none), which is that of Toeplitz: Microsoft's specification of RSS. */
static u32 hash_frame(struct igc *g, const u8 *frame, struct heads heads, u32 *hash)
{
    u32 modes = *reg(g, IGC_MRQC), type = IGC_RSS_TYPE_HASH_IPV4, bits = 8 * RSS_ADDRESSES;
    u8 input[RSS_ADDRESSES + RSS_PORTS];
    u64 key = (u64)__builtin_bswap32(*reg(g, IGC_RSSRK)) << 32;

    if ((modes & IGC_MRQC_ENABLE_MASK) != IGC_MRQC_ENABLE_RSS_MQ || !heads.protocol)
        return IGC_RSS_TYPE_NO_HASH;
    if (heads.protocol == PROTOCOL_TCP && modes & IGC_MRQC_RSS_FIELD_IPV4_TCP)
        type = IGC_RSS_TYPE_HASH_TCP_IPV4;
    else if (heads.protocol == PROTOCOL_UDP && modes & IGC_MRQC_RSS_FIELD_IPV4_UDP)
        type = IGC_RSS_TYPE_HASH_UDP_IPV4;
    else if (!(modes & IGC_MRQC_RSS_FIELD_IPV4))
        return IGC_RSS_TYPE_NO_HASH;
    memcpy(input, frame + heads.network + IPV4_ADDRESSES, RSS_ADDRESSES);
    if (type != IGC_RSS_TYPE_HASH_IPV4) {
        memcpy(input + RSS_ADDRESSES, frame + heads.transport, RSS_PORTS);
        bits += 8 * RSS_PORTS;
    }
    *hash = 0;
    for (u32 i = 0; i < bits; i++, key <<= 1) {
        if (i % 32 == 0)
            key |= __builtin_bswap32(*reg(g, IGC_RSSRK + 4 * (i / 32 + 1)));
        if (input[i / 8] >> (7 - i % 8) & 1)
            *hash ^= (u32)(key >> 32);
    }
    return type;
}

static void receive(struct nic *nic, u8 *frame, size_t size)
{
    struct igc *g = (struct igc *)nic;
    u32 head = *reg(g, IGC_RDH), status = IGC_RXD_STAT_DD_EOP, type, hash = 0;
    u64 at = descriptor_at(g, IGC_RDBAL, head);
    struct heads heads = heads_of(frame, size);
    bool tcp = heads.protocol == PROTOCOL_TCP, udp = heads.protocol == PROTOCOL_UDP;
    u8 descriptor[DESCRIPTOR_SIZE], done[DESCRIPTOR_SIZE] = {0};

    if (!(*reg(g, IGC_RCTL) & IGC_RCTL_EN) || !(*reg(g, IGC_RXDCTL) & IGC_QUEUE_ENABLE) || !pci_is_master(&g->pci))
        return;
    if (!passes_address_filter(g, frame))
        return;
    if (head == *reg(g, IGC_RDT) || loses_frame(nic)) {
        ++*reg(g, IGC_MPC);
        interrupt(g, IGC_ICR_RXO);
        return;
    }
    type = hash_frame(g, frame, heads, &hash);
    put32(done, type | (heads.protocol ? RX_TYPE_IPV4 : 0) | (tcp ? RX_TYPE_TCP : 0) | (udp ? RX_TYPE_UDP : 0));
    put32(done + RX_RSS, hash);
    if ((tcp || udp) && *reg(g, IGC_RXCSUM) & IGC_RXCSUM_TUOFL) {
        status |= tcp ? IGC_RXD_STAT_TCPCS : IGC_RXD_STAT_UDPCS;
        status |= has_right_checksum(frame, size) ? 0 : IGC_RXDEXT_STATERR_L4E;
    }
    if (*reg(g, IGC_CTRL) & IGC_CTRL_VME && has_vlan_tag(frame, size)) {
        status |= IGC_RXD_STAT_VP;
        put16(done + RX_VLAN, take_vlan_tag(frame, &size));
    }
    put32(done + RX_STATUS, status);
    put16(done + RX_LENGTH, (u32)size);
    dma_read(at, descriptor, sizeof(descriptor));
    dma_write(get64(descriptor), frame, size);
    dma_write(at, done, sizeof(done));
    *reg(g, IGC_RDH) = (head + 1) * DESCRIPTOR_SIZE < *reg(g, IGC_RDLEN) ? head + 1 : 0;
    ++*reg(g, IGC_GPRC);
    interrupt(g, IGC_ICR_RXT0);
}

static void send(struct igc *g, size_t size, u32 command, u32 options)
{
    u32 lengths = get32(g->context), network = lengths >> IGC_ADVTXD_MACLEN_SHIFT & CONTEXT_MACLEN;
    u32 transport = network + (lengths & CONTEXT_IPLEN);
    bool tcp = get32(g->context + CONTEXT_COMMAND) & IGC_ADVTXD_TUCMD_L4T_TCP;
    u8 *frame = g->large;

    if (size < ETHERNET_HEAD || size + VLAN_TAG > LARGE_MOST)
        return;
    ++*reg(g, IGC_GPTC);
    if (command & IGC_ADVTXD_DCMD_TSE)
        /* The driver leaves the length out, since each segment has another one. */
        put_be16(frame + network + IPV4_LENGTH, (u32)size - network);
    else if (options & IGC_TXD_POPTS_TXSM) {
        u32 place = transport + (tcp ? TCP_CHECKSUM : UDP_CHECKSUM);

        put_checksum(frame, size, transport, place);
        /* In UDP, 0 means that there is no checksum. */
        if (!tcp && place + 2 <= size && !get16(frame + place))
            put16(frame + place, 0xffff);
    }
    if (command & IGC_ADVTXD_DCMD_VLE)
        put_vlan_tag(frame, &size, lengths >> CONTEXT_VLAN_SHIFT);
    if (command & IGC_ADVTXD_DCMD_TSE)
        send_segments(&g->nic, frame, size, get32(g->context + CONTEXT_MSS) >> IGC_ADVTXD_MSS_SHIFT);
    else
        send_frame(&g->nic, frame, size);
}

static void transmit(struct igc *g)
{
    u32 *head = reg(g, IGC_TDH), options = 0;
    size_t size = 0;

    if (!(*reg(g, IGC_TCTL) & IGC_TCTL_EN) || !(*reg(g, IGC_TXDCTL) & IGC_QUEUE_ENABLE) || !pci_is_master(&g->pci))
        return;
    for (unsigned count = 0; *head != *reg(g, IGC_TDT) && count < DESCRIPTORS_MOST; count++) {
        u64 at = descriptor_at(g, IGC_TDBAL, *head);
        u8 descriptor[DESCRIPTOR_SIZE];
        u32 command;

        dma_read(at, descriptor, sizeof(descriptor));
        command = get32(descriptor + TX_COMMAND);
        *head = (*head + 1) * DESCRIPTOR_SIZE < *reg(g, IGC_TDLEN) ? *head + 1 : 0;
        if ((command & IGC_ADVTXD_DTYP_MASK) == IGC_ADVTXD_DTYP_CTXT) {
            memcpy(g->context, descriptor, sizeof(descriptor));
            continue;
        }
        if (!size)
            options = get32(descriptor + TX_STATUS);
        if (size + (command & TX_LENGTH) <= LARGE_MOST)
            dma_read(get64(descriptor), g->large + size, command & TX_LENGTH);
        size += command & TX_LENGTH;
        if (command & IGC_ADVTXD_DCMD_EOP) {
            send(g, size, command, options);
            size = 0;
        }
        if (command & IGC_ADVTXD_DCMD_RS) {
            put32(descriptor, IGC_TXD_STAT_DD);
            dma_write(at + TX_STATUS, descriptor, 4);
            interrupt(g, IGC_ICR_TXDW);
        }
    }
}

/* A register of the PHY, which may be a window to others. */
static u16 *phy_register(struct igc *g, u32 number)
{
    u16 access = g->phy[MII_MMD_CTRL];

    if (number != MII_MMD_DATA)
        return &g->phy[number];
    if (!(access & IGC_MMDAC_FUNC_DATA))
        return &g->mmd_address;
    return &g->mmd[access % PHY_REGISTERS][g->mmd_address % MMD_REGISTERS];
}

/* Returns the command as it is read back. */
static u32 mdio(struct igc *g, u32 command)
{
    u32 number = command >> IGC_MDIC_REG_SHIFT & (PHY_REGISTERS - 1);

    if (!(command & IGC_MDIC_OP_WRITE))
        return (command & 0xffff0000) | *phy_register(g, number) | IGC_MDIC_READY;
    if (number == MII_MMD_DATA)
        *phy_register(g, number) = (u16)command;
    else if (phy_write(g->phy, number, command & 0xffff))
        interrupt(g, IGC_ICR_LSC);
    return command | IGC_MDIC_READY;
}

static void link_changed(struct nic *nic)
{
    struct igc *g = (struct igc *)nic;

    phy_show_link(g->phy, nic->link);
    interrupt(g, IGC_ICR_LSC);
}

static void reset(struct igc *g)
{
    memset(g->regs, 0, sizeof(g->regs));
    *reg(g, IGC_RAL) = get32(g->nic.mac);
    *reg(g, IGC_RAL + 4) = get16(g->nic.mac + 4) | IGC_RAH_AV;
    *reg(g, IGC_RXCSUM) = IGC_RXCSUM_AFTER_RESET;
    interrupt(g, 0);
}

static u64 load(void *device, u64 at, unsigned size)
{
    struct igc *g = device;
    u32 value = g->regs[at / 4];

    (void)size;
    if (at >= IGC_CRCERRS && at <= IGC_LENERRS)
        g->regs[at / 4] = 0;
    switch (at) {
    case IGC_STATUS:
        value = g->nic.link ? IGC_STATUS_UP : 0;
        return value | (*reg(g, IGC_CTRL) & IGC_CTRL_GIO_MASTER_DISABLE ? 0 : IGC_STATUS_GIO_MASTER_ENABLE);
    case IGC_EECD: return IGC_EECD_READY;
    case IGC_I225_PHPM: return value | IGC_PHY_RST_COMP;
    case IGC_ICR:
        /* It is cleared, and what the driver has chosen is masked until it is allowed again. */
        if (value & *reg(g, IGC_IMS)) {
            value |= IGC_ICR_INT_ASSERTED;
            *reg(g, IGC_IMS) &= ~*reg(g, IGC_IAM);
        }
        *reg(g, IGC_ICR) = 0;
        interrupt(g, 0);
        return value;
    }
    return value;
}

static void store(void *device, u64 at, u64 value, unsigned size)
{
    struct igc *g = device;
    u32 one = (u32)value, word = one >> IGC_NVM_RW_ADDR_SHIFT;

    (void)size;
    switch (at) {
    case IGC_CTRL:
        if (one & IGC_CTRL_RST)
            reset(g);
        *reg(g, IGC_CTRL) = one & ~IGC_CTRL_RST;
        return;
    case IGC_ICS: interrupt(g, one); return;
    case IGC_IMS:
        *reg(g, IGC_IMS) |= one;
        interrupt(g, 0);
        return;
    case IGC_IMC:
        *reg(g, IGC_IMS) &= ~one;
        interrupt(g, 0);
        return;
    case IGC_MDIC: one = mdio(g, one); break;
    case IGC_EERD:
        one = (u32)(word < COUNT(g->nvm) ? g->nvm[word] : 0xffff) << IGC_NVM_RW_REG_DATA;
        one |= IGC_NVM_RW_REG_DONE;
        break;
    }
    g->regs[at / 4] = one;
    if (at == IGC_TDT)
        transmit(g);
}

static struct nic *make_nic(unsigned which)
{
    struct igc *g = new_nic(which, sizeof(*g));
    u32 sum = 0;

    g->nic.receive = receive;
    g->nic.link_changed = link_changed;
    memcpy(g->nvm, g->nic.mac, MAC_SIZE);
    for (unsigned i = 0; i < NVM_CHECKSUM_REG; i++)
        sum += g->nvm[i];
    g->nvm[NVM_CHECKSUM_REG] = (u16)(NVM_SUM - sum);
    phy_power_on(g->phy, PHY_ID_I226, true, true);
    make_pci(&g->pci, which, &i226, load, store, g);
    reset(g);
    return &g->nic;
}
