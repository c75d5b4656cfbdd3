/*
 * Broadcom GENET version 5: the Gigabit Ethernet of the BCM2711 (Raspberry Pi 4, 400, Compute Module 4), with a
 * BCM54213PE as its PHY.
 *
 * Source of the register facts: drivers/net/ethernet/broadcom/genet/bcmgenet.c and .h, drivers/net/mdio/mdio-bcm-unimac.c
 * and drivers/net/phy/bcm-phy-lib.c of Linux 6.1 and 6.6 (Raspberry Pi), whose names the registers have here.
 * Modelled: both interrupt controllers, all rings with their descriptors, the status block of 64 octets with checksums in
 * both directions, the filters by address (MDF) and by content (HFB), MDIO, the link as the PHY reports it.
 * Not modelled: wake-on-LAN, EEE, pause frames, MIB counters, coalescing (each frame is an interrupt), the priority of
 * rings, frames above the size of a buffer, the order of DMA.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "device.h"
#include "bcm54213pe.h"

#define GENET_SIZE 0x10000u
#define SYS_REV_CTRL 0x0000
#define SYS_REV_V5 0x06000000u
#define INTRL2_0 0x0200
#define INTRL2_1 0x0240
#define INTRL2_SIZE 0x40
enum {
    INTRL2_CPU_STAT = 0x00,
    INTRL2_CPU_SET = 0x04,
    INTRL2_CPU_CLEAR = 0x08,
    INTRL2_CPU_MASK_STATUS = 0x0c,
    INTRL2_CPU_MASK_SET = 0x10,
    INTRL2_CPU_MASK_CLEAR = 0x14,
};
/* Bits of INTRL2_0 belong to the default ring. Bits of INTRL2_1: n for sent, 16 + n for received frames of ring n. */
#define UMAC_IRQ_RXDMA_MBDONE (1u << 13)
#define UMAC_IRQ_TXDMA_MBDONE (1u << 16)
#define UMAC_IRQ1_RX_INTR_SHIFT 16
#define RBUF_CTRL 0x0300
#define RBUF_64B_EN (1u << 0)
#define RBUF_ALIGN_2B (1u << 1)
#define RBUF_CHK_CTRL 0x0314
#define RBUF_RXCHK_EN (1u << 0)
#define TBUF_CTRL 0x0600
#define TBUF_64B_EN (1u << 0)
#define UMAC_CMD 0x0808
#define CMD_TX_EN (1u << 0)
#define CMD_RX_EN (1u << 1)
#define CMD_PROMISC (1u << 4)
#define CMD_CRC_FWD (1u << 6)
#define UMAC_MAC0 0x080c
#define UMAC_MAC1 0x0810
#define UMAC_MDIO_CMD 0x0e14
#define MDIO_START_BUSY (1u << 29)
#define MDIO_READ_FAIL (1u << 28)
#define MDIO_WR (1u << 26)
#define MDIO_PMD_SHIFT 21
#define MDIO_REG_SHIFT 16
#define UMAC_MDF_CTRL 0x0e50
#define UMAC_MDF_ADDR 0x0e54
#define MAX_MDF_FILTER 17
#define RDMA 0x2000
#define TDMA 0x4000
#define DESCRIPTOR_SIZE 12
#define TOTAL_DESC 256
#define DMA_RINGS (TOTAL_DESC * DESCRIPTOR_SIZE)
#define DMA_RING_SIZE 0x40
#define DMA_CTRL 0x1044
#define DMA_EN (1u << 0)
#define DMA_RING_BUF_EN_SHIFT 1
#define DMA_STATUS 0x1048
#define DMA_DISABLED (1u << 0)
#define DMA_INDEX2RING_0 0x10b0
#define DESC_INDEX 16 /* the default ring */
/* Registers of a ring, in words. Both indexes are PROD and CONS for received frames, CONS and PROD for sent ones. */
enum { RING_POINTER = 0, RING_INDEX = 2, RING_OTHER_INDEX = 3, RING_BUF_SIZE = 4, RING_START = 5, RING_END = 7 };
#define DMA_RING_SIZE_SHIFT 16
#define DMA_INDEX_MASK 0xffffu
#define DMA_P_INDEX_DISCARD_CNT_SHIFT 16
#define DMA_BUFLENGTH_SHIFT 16
#define DMA_BUFLENGTH_MASK 0x0fffu
#define DMA_EOP 0x4000u
#define DMA_SOP 0x2000u
#define DMA_TX_DO_CSUM 0x0010u
#define DMA_RX_BRDCAST 0x0040u
#define DMA_RX_MULT 0x0020u
/* The status block in front of a frame: octets. */
#define STATUS_SIZE 64
#define STATUS_LENGTH 0
#define STATUS_RX_CSUM 8
#define STATUS_TX_CSUM_INFO 48
#define STATUS_TX_CSUM_LV (1u << 31)
#define STATUS_TX_CSUM_PROTO_UDP (1u << 15)
#define STATUS_TX_CSUM_START_SHIFT 16
#define STATUS_TX_CSUM_OFFSET_MASK 0x7fffu
#define ALIGNMENT 2
#define FRAME_CHECK 4
/* Filters by content: words of a filter are for two octets of the frame each, with one bit for each nibble that counts. */
#define HFB_FILTERS 0x8000
#define HFB_FILTER_SIZE 512
#define HFB_CTRL 0xfc00
#define HFB_EN (1u << 0)
#define HFB_FLT_ENABLE_V3PLUS 0xfc04 /* filters 32 to 47, then filters 0 to 31 */
#define HFB_FLT_LEN_V3PLUS 0xfc1c    /* the lengths of the last filters are first */
#define HFB_FILTER_CNT 48
#define HFB_NIBBLES_SHIFT 16

struct genet {
    struct nic nic;
    struct registers registers;
    void *irq[2];
    u32 regs[GENET_SIZE / 4], status[2], mask[2];
    struct bcm_phy phy;
};

static u32 *ring_of(struct genet *g, u32 dma, unsigned number)
{
    return g->regs + (dma + DMA_RINGS + DMA_RING_SIZE * number) / 4;
}

static void interrupt(struct genet *g, int line, u32 bits)
{
    g->status[line] |= bits;
    set_interrupt(g->irq[line], (g->status[line] & ~g->mask[line]) != 0);
}

/* Drivers until Linux 6.14 use the default ring, newer ones (and stable kernels from 2025 on) ring 0. */
static void ring_done(struct genet *g, unsigned number, unsigned shift, u32 of_default)
{
    if (number == DESC_INDEX)
        interrupt(g, 0, of_default);
    else
        interrupt(g, 1, 1u << (shift + number));
}

static bool passes_address_filter(struct genet *g, const u8 *frame)
{
    u32 enabled = g->regs[UMAC_MDF_CTRL / 4];

    if (g->regs[UMAC_CMD / 4] & CMD_PROMISC)
        return true;
    for (unsigned i = 0; i < MAX_MDF_FILTER; i++) {
        const u32 *address = g->regs + UMAC_MDF_ADDR / 4 + 2 * i;
        u8 own[MAC_SIZE] = {(u8)(address[0] >> 8), (u8)address[0],         (u8)(address[1] >> 24),
                            (u8)(address[1] >> 16), (u8)(address[1] >> 8), (u8)address[1]};

        if (enabled >> (MAX_MDF_FILTER - 1 - i) & 1 && !memcmp(frame, own, MAC_SIZE))
            return true;
    }
    return false;
}

static bool matches(struct genet *g, unsigned filter, const u8 *frame, size_t size)
{
    u32 length = g->regs[(HFB_FLT_LEN_V3PLUS + (HFB_FILTER_CNT - 1 - filter) / 4 * 4) / 4] >> 8 * (filter % 4) & 0xff;

    if (!length || length > size)
        return false;
    for (u32 i = 0; i < length / 2; i++) {
        u32 word = g->regs[(HFB_FILTERS + HFB_FILTER_SIZE * filter) / 4 + i], mask = 0;

        for (unsigned nibble = 0; nibble < 4; nibble++)
            mask |= word >> (HFB_NIBBLES_SHIFT + nibble) & 1 ? 0xfu << 4 * nibble : 0;
        if ((word ^ get_be16(frame + 2 * i)) & mask)
            return false;
    }
    return true;
}

/* The ring that a filter by content chooses for a frame. */
static unsigned receive_ring(struct genet *g, const u8 *frame, size_t size)
{
    for (unsigned filter = HFB_FILTER_CNT; g->regs[HFB_CTRL / 4] & HFB_EN && filter--;) {
        u32 enabled = g->regs[HFB_FLT_ENABLE_V3PLUS / 4 + (filter < 32)];

        if (enabled >> filter % 32 & 1 && matches(g, filter, frame, size))
            return g->regs[(RDMA + DMA_INDEX2RING_0) / 4 + filter / 8] >> 4 * (filter % 8) & 0xf;
    }
    return DESC_INDEX;
}

/* The descriptor at the pointer of a ring, which a driver may have set to anything. */
static u32 *descriptor_of(struct genet *g, u32 dma, const u32 *ring)
{
    return g->regs + dma / 4 + ring[RING_POINTER] % (TOTAL_DESC * DESCRIPTOR_SIZE / 4);
}

static void next_descriptor(u32 *ring)
{
    ring[RING_POINTER] += DESCRIPTOR_SIZE / 4;
    if (ring[RING_POINTER] > ring[RING_END])
        ring[RING_POINTER] = ring[RING_START];
}

static void receive(struct nic *nic, u8 *frame, size_t size)
{
    struct genet *g = (struct genet *)nic;
    u32 command = g->regs[UMAC_CMD / 4], control = g->regs[(RDMA + DMA_CTRL) / 4];
    unsigned number = receive_ring(g, frame, size);
    u32 *ring = ring_of(g, RDMA, number), produced = ring[RING_INDEX] & DMA_INDEX_MASK, flags, *descriptor;
    size_t head = g->regs[RBUF_CTRL / 4] & RBUF_64B_EN ? STATUS_SIZE : 0;
    u8 buffer[STATUS_SIZE + ALIGNMENT + FRAME_MOST + FRAME_CHECK] = {0};

    if (!(command & CMD_RX_EN) || !(control & DMA_EN) || !(control >> (DMA_RING_BUF_EN_SHIFT + number) & 1))
        return;
    if (!passes_address_filter(g, frame))
        return;
    if (((produced - ring[RING_OTHER_INDEX]) & DMA_INDEX_MASK) >= ring[RING_BUF_SIZE] >> DMA_RING_SIZE_SHIFT ||
        loses_frame(nic)) {
        ring[RING_INDEX] += 1u << DMA_P_INDEX_DISCARD_CNT_SHIFT;
        return;
    }
    descriptor = descriptor_of(g, RDMA, ring);
    if (head && g->regs[RBUF_CHK_CTRL / 4] & RBUF_RXCHK_EN)
        put_be16(buffer + STATUS_RX_CSUM, sum_of(frame + ETHERNET_HEAD, size - ETHERNET_HEAD, 0));
    if (g->regs[RBUF_CTRL / 4] & RBUF_ALIGN_2B)
        head += ALIGNMENT;
    memcpy(buffer + head, frame, size);
    size += head + (command & CMD_CRC_FWD ? FRAME_CHECK : 0);
    flags = !is_multicast(frame) ? 0 : frame[0] == 0xff ? DMA_RX_BRDCAST : DMA_RX_MULT;
    descriptor[0] = (u32)size << DMA_BUFLENGTH_SHIFT | DMA_SOP | DMA_EOP | flags;
    if (head >= STATUS_SIZE)
        put32(buffer + STATUS_LENGTH, descriptor[0]);
    dma_write(descriptor[1] | (u64)descriptor[2] << 32, buffer, size);
    next_descriptor(ring);
    ring[RING_INDEX] = (ring[RING_INDEX] & ~DMA_INDEX_MASK) | ((produced + 1) & DMA_INDEX_MASK);
    ring_done(g, number, UMAC_IRQ1_RX_INTR_SHIFT, UMAC_IRQ_RXDMA_MBDONE);
}

static void send(struct genet *g, u8 *data, size_t size, u32 flags)
{
    size_t head = g->regs[TBUF_CTRL / 4] & TBUF_64B_EN ? STATUS_SIZE : 0;
    u32 info = head ? get32(data + STATUS_TX_CSUM_INFO) : 0;
    u8 *frame = data + head;

    if (size < head + ETHERNET_HEAD || !(g->regs[UMAC_CMD / 4] & CMD_TX_EN))
        return;
    size -= head;
    if (flags & DMA_TX_DO_CSUM && info & STATUS_TX_CSUM_LV) {
        u32 place = info & STATUS_TX_CSUM_OFFSET_MASK;

        put_checksum(frame, size, info >> STATUS_TX_CSUM_START_SHIFT & STATUS_TX_CSUM_OFFSET_MASK, place);
        /* In UDP, 0 means that there is no checksum. */
        if (info & STATUS_TX_CSUM_PROTO_UDP && place + 2 <= size && !get16(frame + place))
            put16(frame + place, 0xffff);
    }
    send_frame(&g->nic, frame, size);
}

static void transmit(struct genet *g, unsigned number)
{
    u32 *ring = ring_of(g, TDMA, number), flags = 0;
    u8 data[STATUS_SIZE + FRAME_MOST];
    size_t size = 0;
    bool any = false;

    if (!(g->regs[(TDMA + DMA_CTRL) / 4] >> (DMA_RING_BUF_EN_SHIFT + number) & 1))
        return;
    while ((ring[RING_INDEX] ^ ring[RING_OTHER_INDEX]) & DMA_INDEX_MASK) {
        u32 *descriptor = descriptor_of(g, TDMA, ring), one = descriptor[0];
        size_t now = one >> DMA_BUFLENGTH_SHIFT & DMA_BUFLENGTH_MASK;

        if (one & DMA_SOP)
            size = 0, flags = one;
        if (size + now > sizeof(data))
            now = 0;
        dma_read(descriptor[1] | (u64)descriptor[2] << 32, data + size, now);
        size += now;
        next_descriptor(ring);
        ring[RING_INDEX] = (ring[RING_INDEX] + 1) & DMA_INDEX_MASK;
        if (one & DMA_EOP) {
            send(g, data, size, flags);
            any = true;
        }
    }
    if (any)
        ring_done(g, number, 0, UMAC_IRQ_TXDMA_MBDONE);
}

/* Returns the command as it is read back. */
static u32 mdio(struct genet *g, u32 command)
{
    unsigned number = command >> MDIO_REG_SHIFT & 31;
    bool there = (command >> MDIO_PMD_SHIFT & 31) == PHY_ADDRESS;

    if (!(command & MDIO_START_BUSY))
        return command;
    command &= ~(MDIO_START_BUSY | MDIO_READ_FAIL);
    if (!(command & MDIO_WR))
        return (command & 0xffff0000) | (there ? bcm_phy_read(&g->phy, number) : 0xffff);
    if (there)
        bcm_phy_write(&g->phy, number, command & 0xffff);
    return command;
}

/* The driver has no interrupt for it: phylib asks the PHY once a second. */
static void link_changed(struct nic *nic)
{
    phy_show_link(((struct genet *)nic)->phy.mii, nic->link);
}

static u64 load(void *device, u64 at, unsigned size)
{
    struct genet *g = device;
    int line = at >= INTRL2_1;

    (void)size;
    if (at == INTRL2_0 + INTRL2_CPU_STAT || at == INTRL2_1 + INTRL2_CPU_STAT)
        return g->status[line];
    if (at == INTRL2_0 + INTRL2_CPU_MASK_STATUS || at == INTRL2_1 + INTRL2_CPU_MASK_STATUS)
        return g->mask[line];
    if (at == RDMA + DMA_STATUS || at == TDMA + DMA_STATUS)
        return g->regs[(at - DMA_STATUS + DMA_CTRL) / 4] & DMA_EN ? 0 : DMA_DISABLED;
    return g->regs[at / 4];
}

static void store_interrupt(struct genet *g, int line, u64 at, u32 value)
{
    switch (at) {
    case INTRL2_CPU_SET: g->status[line] |= value; break;
    case INTRL2_CPU_CLEAR: g->status[line] &= ~value; break;
    case INTRL2_CPU_MASK_SET: g->mask[line] |= value; break;
    case INTRL2_CPU_MASK_CLEAR: g->mask[line] &= ~value; break;
    }
    interrupt(g, line, 0);
}

static void store(void *device, u64 at, u64 value, unsigned size)
{
    struct genet *g = device;
    u32 one = (u32)value;

    (void)size;
    if (at >= INTRL2_0 && at < INTRL2_1 + INTRL2_SIZE) {
        store_interrupt(g, at >= INTRL2_1, at % INTRL2_SIZE, one);
        return;
    }
    if (at == UMAC_MDIO_CMD)
        one = mdio(g, one);
    if (at == SYS_REV_CTRL)
        return;
    g->regs[at / 4] = one;
    if (at >= TDMA + DMA_RINGS && at < TDMA + DMA_RINGS + (DESC_INDEX + 1) * DMA_RING_SIZE &&
        at % DMA_RING_SIZE / 4 == RING_OTHER_INDEX && g->regs[(TDMA + DMA_CTRL) / 4] & DMA_EN)
        transmit(g, (unsigned)(at - TDMA - DMA_RINGS) / DMA_RING_SIZE);
}

static struct nic *make_nic(unsigned which)
{
    struct genet *g = new_nic(which, sizeof(*g));

    g->nic.receive = receive;
    g->nic.link_changed = link_changed;
    g->regs[SYS_REV_CTRL / 4] = SYS_REV_V5;
    g->mask[0] = g->mask[1] = ~0u;
    bcm_phy_power_on(&g->phy);
    for (unsigned line = 0; line < 2; line++)
        g->irq[line] = interrupt_of(which, line);
    map_registers(&g->registers, "genet", place_of(which), GENET_SIZE, 4, 4, load, store, g);
    return &g->nic;
}
