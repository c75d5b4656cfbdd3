/*
 * Marvell (Aquantia) AQC107, revision B1: 10 Gigabit Ethernet on PCI Express (cards of the Compute Module 4 and the
 * Raspberry Pi 5), driver atlantic.
 *
 * Source of the register facts: drivers/net/ethernet/aquantia/atlantic of Linux 6.1 and 6.12, whose names the registers
 * have here.
 * Modelled: one ring in each direction, checksums and VLAN tags in both directions, large sends (LSO) of TCP and UDP over
 * IPv4, the filters by address and by VLAN, its interrupt as a message (MSI, with which the driver uses one ring and asks
 * for the link once a second), the firmware 3.1 as far as the driver talks to it, the counters of frames of its DMA, the
 * identity of the PHY.
 * Not modelled: large receives (LRO), which put frames together that come within 0.25 ms; several rings (MSI-X, RSS),
 * offloads of IPv6, frames above an MTU of 1,500, the moderation of interrupts, filters by content, PTP, MACsec,
 * wake-on-LAN, EEE, pause frames.
 * With one ring, the driver gives the kernel the address of a buffer as the hash of a frame, so GRO mixes up the order of
 * the segments of a connection, and TCP needs more instructions than with other drivers.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "device.h"
#include "pci.h"

#define AQC_SIZE 0x10000u
static const struct pci_identity aqc107 = {
    .vendor = 0x1d6a, .device = 0x07b1, .subsystem_vendor = 0x1d6a, .subsystem = 0x0001, .revision = 2,
    .bar = 0, .size = AQC_SIZE,
};
enum {
    HW_ATL_GLB_SOFT_RES = 0x0000,
    HW_ATL_MPI_FW_VERSION = 0x0018,
    HW_ATL_GLB_MIF_ID = 0x001c,
    HW_ATL_MIF_CMD = 0x0200,
    HW_ATL_MIF_ADDR = 0x0208,
    HW_ATL_MIF_VAL = 0x020c,
    HW_ATL_MDIO_IFACE_4 = 0x028c,
    HW_ATL_MDIO_IFACE_5 = 0x0290,
    HW_ATL_SCRATCHPAD_12 = 0x032c,
    HW_ATL_FW2X_MPI_RPC = 0x0334,
    HW_ATL_FW2X_MPI_MBOX = 0x0360,
    HW_ATL_FW2X_MPI_EFUSE = 0x0364,
    HW_ATL_FW2X_MPI_CONTROL = 0x0368,
    HW_ATL_FW2X_MPI_CONTROL2 = 0x036c,
    HW_ATL_FW2X_MPI_STATE = 0x0370,
    HW_ATL_FW2X_MPI_STATE2 = 0x0374,
    HW_ATL_GLB_CPU_SEM = 0x03a0, /* and the next ones */
    HW_ATL_GLB_CPU_SEM_LAST = 0x03ac,
    HW_ATL_MPI_DAISY_CHAIN_STATUS = 0x0704,
    HW_ATL_ITR_ISRLSW = 0x2000,
    HW_ATL_ITR_ISCRLSW = 0x2050,
    HW_ATL_ITR_IMSRLSW = 0x2060,
    HW_ATL_ITR_IMCRLSW = 0x2070,
    HW_ATL_ITR_IAMRLSW = 0x2090,
    HW_ATL_RPF_L2 = 0x5100,
    HW_ATL_RPFL2UC_DAF = 0x5110, /* 38 addresses: the low 32 bits, then the high ones with the permission */
    HW_ATL_RX_FLR_MCST_FLR_MSK = 0x5270,
    HW_ATL_RPF_VL = 0x5280,
    HW_ATL_RPF_VL_F = 0x5290, /* 16 VLANs */
    HW_ATL_RPF_RSS_KEY_ADDR = 0x54d0,
    HW_ATL_RPF_RSS_REDIR_ADDR = 0x54e0,
    HW_ATL_RPO = 0x5580,
    HW_ATL_RPB_RX = 0x5700,
    RDM_RX_DMA_DESC_CACHE_INIT_DONE = 0x5a10,
    HW_ATL_RX_DMA_DESC_BASE = 0x5b00, /* of ring 0; the high half is behind it */
    HW_ATL_RDM_DESCD = 0x5b08,
    HW_ATL_RDM_DESCDHD = 0x5b0c,
    HW_ATL_RX_DMA_DESC_TAIL_PTR = 0x5b10,
    HW_ATL_STATS_RX_DMA_GOOD_PKT = 0x6800,
    HW_ATL_RPB_RX_DMA_DROP_PKT_CNT = 0x6818,
    HW_ATL_TPB_TX_BUF = 0x7900,
    HW_ATL_TX_DMA_DESC_BASE = 0x7c00, /* of ring 0; the high half is behind it */
    HW_ATL_TDM_DESCD = 0x7c08,
    HW_ATL_TDM_DESCDHD = 0x7c0c,
    HW_ATL_TX_DMA_DESC_TAIL_PTR = 0x7c10,
    HW_ATL_STATS_TX_DMA_GOOD_PKT = 0x8800,
};
#define GLB_SOFT_RES 0x8000u
#define MIF_REVISION_B1 0x0au
#define MIF_READ 0x8000u
#define FLB_READY 0x10u /* of the daisy chain: the firmware has started from flash */
#define FW_VERSION 0x03010058u
#define RING0_CAUSE 0x1u
#define HW_ATL_RPFL2BC_EN 0x00000001u
#define HW_ATL_RPFL2PROMIS_MODE 0x00000008u
#define HW_ATL_RPFL2UC_ENF 0x80000000u
#define RPFL2UC_HIGH 0x0000ffffu
#define HW_ATL_B0_UCAST_FILTERS 38
#define HW_ATL_RPFL2MC_ACCEPT_ALL 0x00004000u
#define HW_ATL_RPF_VL_PROMIS_MODE 0x00000002u
#define HW_ATL_RPF_VL_EN_F 0x80000000u
#define HW_ATL_RPF_VL_ID_F 0x00000fffu
#define HW_ATL_VLAN_MAX_FILTERS 16
#define HW_ATL_RPF_RSS_KEY_WR_ENI 0x00000020u
#define HW_ATL_RPF_RSS_REDIR_WR_ENI 0x00000010u
#define HW_ATL_RPOL4CHK_EN 0x00000001u
#define HW_ATL_RPO_IPV4CHK_EN 0x00000002u
#define BUFFER_EN 0x00000001u /* of HW_ATL_RPB_RX and HW_ATL_TPB_TX_BUF */
/* Of HW_ATL_RDM_DESCD and HW_ATL_TDM_DESCD. */
#define DESCDEN 0x80000000u
#define DESCDLEN 0x00001ff8u /* in descriptors */
#define HW_ATL_RPO_DESCDVL_STRIP 0x20000000u

/* What the driver reads of the memory of the firmware, by its address: the mailbox, the fuses, the settings. */
#define FW_MEMORY 0x1000u
#define FW_MBOX 0x100u
#define MBOX_SETTING_ADDRESS 268
#define FW_EFUSE 0x400u
#define EFUSE_MAC (40 * 4) /* in two words of big endian */
#define FW_RPC 0x800u
#define FW_SETTINGS 0xc00u
#define FW2X_RATES 0x0f20u /* 10 G, 5 G, 2.5 G, 1 G, 100 M */
#define CAPS_HI_LINK_DROP (1u << 22)
/* The PHY is asked only who it is: registers 1.2 and 1.3, of an AQR107. */
#define PHY_ID_1 0x03a1u
#define PHY_ID_2 0xb4e4u
enum { MDIO_DEVID1 = 2, MDIO_DEVID2 = 3 };

/* Descriptors: an address and two words, or a context. */
#define DESCRIPTOR_SIZE 16
#define TX_CTL 8
#define TX_CTL2 12
#define HW_ATL_B0_TXD_CTL_DESC_TYPE_TXC 0x00000002u
#define HW_ATL_B0_TXD_CTL_DESC_TYPE 0x00000007u
#define HW_ATL_B0_TXD_CTL_BLEN 0x000ffff0u
#define HW_ATL_B0_TXD_CTL_BLEN_SHIFT 4
#define HW_ATL_B0_TXD_CTL_EOP 0x00200000u
#define HW_ATL_B0_TXD_CTL_CMD_VLAN (1u << 22)
#define HW_ATL_B0_TXD_CTL_CMD_TUCSO (1u << 25)
#define HW_ATL_B0_TXD_CTL_CMD_LSO (1u << 26)
#define HW_ATL_B0_TXD_CTL_CMD_WB (1u << 27)
#define HW_ATL_B0_TXC_CTL_VLAN_SHIFT 4
#define HW_ATL_B0_TXC_LEN2_MSSLEN_SHIFT 16
/* What is written back for a received frame. */
#define RXD_TYPE_OTHER 0x00e0u /* neither IPv4 nor IPv6, neither TCP nor UDP */
#define RXD_TYPE_IPV4_OTHER 0x0100u
#define RXD_TYPE_TCP 0x0000u
#define RXD_TYPE_UDP 0x0040u
#define RXD_TYPE_VLAN 0x0200u
#define RXD_TYPE_IPV4_CHECKED (1u << 19)
#define RXD_TYPE_L4_CHECKED (1u << 20)
#define RXD_STATUS 8
#define HW_ATL_B0_RXD_WB_STAT2_DD_EOP 0x0003u
#define HW_ATL_B0_RXD_WB_STAT2_TCPUPDERR 0x0010u
#define RXD_STATUS_L4_VALID 0x0020u
#define RXD_LENGTH 10
#define RXD_VLAN 14
#define LARGE_MOST 0x10100u

struct aqc {
    struct nic nic;
    struct pci pci;
    u32 regs[AQC_SIZE / 4], mask;
    u8 memory[FW_MEMORY], large[LARGE_MOST], context[DESCRIPTOR_SIZE];
};

static u32 *reg(struct aqc *a, u32 at)
{
    return a->regs + at / 4;
}

/* The address of a descriptor. The high half of the ring's address is behind its low half. */
static u64 descriptor_at(struct aqc *a, u32 ring, u32 number)
{
    return (*reg(a, ring) | (u64)*reg(a, ring + 4) << 32) + DESCRIPTOR_SIZE * (u64)number;
}

static u32 next_descriptor(u32 ring, u32 number)
{
    return number + 1 < (ring & DESCDLEN) ? number + 1 : 0;
}

/* The message clears its cause, and masks it until the driver has done its work. */
static void interrupt(struct aqc *a, u32 causes)
{
    u32 *status = reg(a, HW_ATL_ITR_ISRLSW), pending;

    *status |= causes;
    pending = *status & a->mask;
    if (!pending)
        return;
    *status &= ~pending;
    a->mask &= ~(pending & *reg(a, HW_ATL_ITR_IAMRLSW));
    pci_interrupt(&a->pci, true);
    pci_interrupt(&a->pci, false);
}

static bool passes_address_filter(struct aqc *a, const u8 *frame)
{
    u32 control = *reg(a, HW_ATL_RPF_L2), high = get_be16(frame), low = get_be16(frame + 2) << 16 | get_be16(frame + 4);

    if (control & HW_ATL_RPFL2PROMIS_MODE || (is_broadcast(frame) && control & HW_ATL_RPFL2BC_EN))
        return true;
    if (is_multicast(frame) && *reg(a, HW_ATL_RX_FLR_MCST_FLR_MSK) & HW_ATL_RPFL2MC_ACCEPT_ALL)
        return true;
    for (u32 at = HW_ATL_RPFL2UC_DAF; at < HW_ATL_RPFL2UC_DAF + 8 * HW_ATL_B0_UCAST_FILTERS; at += 8)
        if (*reg(a, at + 4) & HW_ATL_RPFL2UC_ENF && (*reg(a, at + 4) & RPFL2UC_HIGH) == high && *reg(a, at) == low)
            return true;
    return false;
}

static bool passes_vlan_filter(struct aqc *a, const u8 *frame)
{
    if (get_be16(frame + ETHERNET_TYPE) != TYPE_VLAN || *reg(a, HW_ATL_RPF_VL) & HW_ATL_RPF_VL_PROMIS_MODE)
        return true;
    for (u32 i = 0; i < HW_ATL_VLAN_MAX_FILTERS; i++) {
        u32 filter = *reg(a, HW_ATL_RPF_VL_F + 4 * i);

        if (filter & HW_ATL_RPF_VL_EN_F && !((filter ^ get_be16(frame + ETHERNET_HEAD)) & HW_ATL_RPF_VL_ID_F))
            return true;
    }
    return false;
}

/* Counts a frame: the octets are behind the frames. */
static void count(struct aqc *a, u32 counter, size_t size)
{
    ++*reg(a, counter);
    *reg(a, counter + 8) += (u32)size;
}

static void receive(struct nic *nic, u8 *frame, size_t size)
{
    struct aqc *a = (struct aqc *)nic;
    u32 ring = *reg(a, HW_ATL_RDM_DESCD), head = *reg(a, HW_ATL_RDM_DESCDHD), checks = *reg(a, HW_ATL_RPO);
    u64 at = descriptor_at(a, HW_ATL_RX_DMA_DESC_BASE, head);
    struct heads heads = heads_of(frame, size);
    bool l4 = heads.protocol == PROTOCOL_TCP || heads.protocol == PROTOCOL_UDP;
    u32 type = !heads.protocol ? RXD_TYPE_OTHER : RXD_TYPE_IPV4_OTHER, status = HW_ATL_B0_RXD_WB_STAT2_DD_EOP;
    u8 descriptor[DESCRIPTOR_SIZE], done[DESCRIPTOR_SIZE] = {0};

    if (!(*reg(a, HW_ATL_RPB_RX) & BUFFER_EN) || !(ring & DESCDEN) || !pci_is_master(&a->pci))
        return;
    if (!passes_address_filter(a, frame) || !passes_vlan_filter(a, frame))
        return;
    if (head == *reg(a, HW_ATL_RX_DMA_DESC_TAIL_PTR) || loses_frame(nic)) {
        ++*reg(a, HW_ATL_RPB_RX_DMA_DROP_PKT_CNT);
        return;
    }
    if (l4)
        type = heads.protocol == PROTOCOL_TCP ? RXD_TYPE_TCP : RXD_TYPE_UDP;
    type |= checks & HW_ATL_RPO_IPV4CHK_EN ? RXD_TYPE_IPV4_CHECKED : 0;
    type |= checks & HW_ATL_RPOL4CHK_EN ? RXD_TYPE_L4_CHECKED : 0;
    if (l4 && checks & HW_ATL_RPOL4CHK_EN)
        status |= has_right_checksum(frame, size) ? RXD_STATUS_L4_VALID : HW_ATL_B0_RXD_WB_STAT2_TCPUPDERR;
    if (has_vlan_tag(frame, size) && ring & HW_ATL_RPO_DESCDVL_STRIP) {
        type |= RXD_TYPE_VLAN;
        put16(done + RXD_VLAN, take_vlan_tag(frame, &size));
    }
    put32(done, type);
    put16(done + RXD_STATUS, status);
    put16(done + RXD_LENGTH, (u32)size);
    dma_read(at, descriptor, sizeof(descriptor));
    dma_write(get64(descriptor), frame, size);
    dma_write(at, done, sizeof(done));
    *reg(a, HW_ATL_RDM_DESCDHD) = next_descriptor(ring, head);
    count(a, HW_ATL_STATS_RX_DMA_GOOD_PKT, size);
    interrupt(a, RING0_CAUSE);
}

static void send(struct aqc *a, size_t size, u32 control)
{
    u32 context = get32(a->context + TX_CTL);
    u8 *frame = a->large;

    if (size < ETHERNET_HEAD || size + VLAN_TAG > LARGE_MOST)
        return;
    count(a, HW_ATL_STATS_TX_DMA_GOOD_PKT, size);
    if (control & HW_ATL_B0_TXD_CTL_CMD_VLAN)
        put_vlan_tag(frame, &size, context >> HW_ATL_B0_TXC_CTL_VLAN_SHIFT);
    if (control & HW_ATL_B0_TXD_CTL_CMD_LSO) {
        send_segments(&a->nic, frame, size, get32(a->context + TX_CTL2) >> HW_ATL_B0_TXC_LEN2_MSSLEN_SHIFT);
        return;
    }
    if (control & HW_ATL_B0_TXD_CTL_CMD_TUCSO)
        find_and_put_checksum(frame, size);
    send_frame(&a->nic, frame, size);
}

static void transmit(struct aqc *a)
{
    u32 ring = *reg(a, HW_ATL_TDM_DESCD), *head = reg(a, HW_ATL_TDM_DESCDHD), first = 0;
    size_t size = 0;

    if (!(*reg(a, HW_ATL_TPB_TX_BUF) & BUFFER_EN) || !(ring & DESCDEN) || !pci_is_master(&a->pci))
        return;
    for (unsigned n = 0; *head != *reg(a, HW_ATL_TX_DMA_DESC_TAIL_PTR) && n < DESCRIPTORS_MOST; n++) {
        u8 descriptor[DESCRIPTOR_SIZE];
        u32 control, now;

        dma_read(descriptor_at(a, HW_ATL_TX_DMA_DESC_BASE, *head), descriptor, sizeof(descriptor));
        control = get32(descriptor + TX_CTL);
        *head = next_descriptor(ring, *head);
        if ((control & HW_ATL_B0_TXD_CTL_DESC_TYPE) == HW_ATL_B0_TXD_CTL_DESC_TYPE_TXC) {
            memcpy(a->context, descriptor, sizeof(descriptor));
            continue;
        }
        if (!size)
            first = control;
        now = (control & HW_ATL_B0_TXD_CTL_BLEN) >> HW_ATL_B0_TXD_CTL_BLEN_SHIFT;
        if (size + now <= LARGE_MOST)
            dma_read(get64(descriptor), a->large + size, now);
        size += now;
        if (control & HW_ATL_B0_TXD_CTL_EOP) {
            send(a, size, first);
            size = 0;
        }
        if (control & HW_ATL_B0_TXD_CTL_CMD_WB)
            interrupt(a, RING0_CAUSE);
    }
}

/* The best rate that the driver allows, if there is a link. */
static u32 link_state(struct aqc *a)
{
    u32 rates = *reg(a, HW_ATL_FW2X_MPI_CONTROL) & FW2X_RATES;

    if (!a->nic.link || !rates || *reg(a, HW_ATL_FW2X_MPI_CONTROL2) & CAPS_HI_LINK_DROP)
        return 0;
    return 1u << (31 - __builtin_clz(rates));
}

static u64 load(void *device, u64 at, unsigned size)
{
    struct aqc *a = device;

    (void)size;
    switch (at) {
    case HW_ATL_MPI_FW_VERSION: return FW_VERSION;
    case HW_ATL_GLB_MIF_ID: return MIF_REVISION_B1;
    case HW_ATL_MDIO_IFACE_5:
        return *reg(a, HW_ATL_MDIO_IFACE_4) == MDIO_DEVID1   ? PHY_ID_1
               : *reg(a, HW_ATL_MDIO_IFACE_4) == MDIO_DEVID2 ? PHY_ID_2
                                                             : 0;
    case HW_ATL_SCRATCHPAD_12: return 0; /* the firmware has taken what the driver wrote */
    case HW_ATL_FW2X_MPI_RPC: return FW_RPC;
    case HW_ATL_FW2X_MPI_MBOX: return FW_MBOX;
    case HW_ATL_FW2X_MPI_EFUSE: return FW_EFUSE;
    case HW_ATL_FW2X_MPI_STATE: return link_state(a);
    case HW_ATL_FW2X_MPI_STATE2: return *reg(a, HW_ATL_FW2X_MPI_CONTROL2);
    case HW_ATL_MPI_DAISY_CHAIN_STATUS: return FLB_READY;
    case RDM_RX_DMA_DESC_CACHE_INIT_DONE: return 1;
    }
    if (at >= HW_ATL_GLB_CPU_SEM && at <= HW_ATL_GLB_CPU_SEM_LAST)
        return 1; /* the semaphore is the driver's */
    return a->regs[at / 4];
}

static void store(void *device, u64 at, u64 value, unsigned size)
{
    struct aqc *a = device;
    u32 one = (u32)value;

    (void)size;
    switch (at) {
    case HW_ATL_GLB_SOFT_RES:
        if (one & GLB_SOFT_RES)
            memset(a->regs, 0, sizeof(a->regs)), a->mask = 0;
        return;
    case HW_ATL_MIF_CMD:
        if (one & MIF_READ) {
            *reg(a, HW_ATL_MIF_VAL) = get32(a->memory + *reg(a, HW_ATL_MIF_ADDR) % FW_MEMORY / 4 * 4);
            *reg(a, HW_ATL_MIF_ADDR) += 4;
        }
        return;
    case HW_ATL_ITR_ISRLSW: return;
    case HW_ATL_ITR_ISCRLSW: *reg(a, HW_ATL_ITR_ISRLSW) &= ~one; return;
    case HW_ATL_ITR_IMSRLSW:
        a->mask |= one;
        interrupt(a, 0);
        return;
    case HW_ATL_ITR_IMCRLSW: a->mask &= ~one; return;
    case HW_ATL_RPF_RSS_KEY_ADDR: one &= ~HW_ATL_RPF_RSS_KEY_WR_ENI; break;
    case HW_ATL_RPF_RSS_REDIR_ADDR: one &= ~HW_ATL_RPF_RSS_REDIR_WR_ENI; break;
    case HW_ATL_RDM_DESCDHD:
    case HW_ATL_TDM_DESCDHD: return;
    }
    a->regs[at / 4] = one;
    if (at == HW_ATL_TX_DMA_DESC_TAIL_PTR)
        transmit(a);
}

static struct nic *make_nic(unsigned which)
{
    struct aqc *a = new_nic(which, sizeof(*a));

    a->nic.receive = receive;
    for (unsigned i = 0; i < MAC_SIZE; i++)
        a->memory[FW_EFUSE + EFUSE_MAC + (i ^ 3)] = a->nic.mac[i];
    put32(a->memory + FW_MBOX + MBOX_SETTING_ADDRESS, FW_SETTINGS);
    make_pci(&a->pci, which, &aqc107, load, store, a);
    return &a->nic;
}
