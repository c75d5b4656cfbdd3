/*
 * SMSC LAN9514, the Ethernet of a Raspberry Pi 1, 2 and 3: 100 Mbit/s at high speed of USB, driver smsc95xx, with the PHY
 * driver smsc. The USB hub of the chip is left out.
 *
 * Source of the register facts: drivers/net/usb/smsc95xx.c and .h and drivers/net/phy/smsc.c of Linux 6.1 and 6.12, whose
 * names the registers have here.
 * Modelled: transfers of several frames in both directions, checksums in both directions (received: the sum of all
 * octets), the filters by address and by the multicast hash, the address in the EEPROM, the interrupt of the PHY over the
 * endpoint for interrupts. A frame that finds no memory is only lost.
 * Not modelled: wake-on-LAN, pause frames, coalescing by time, wrong checksums of very short frames (the driver avoids
 * them), the counters.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "device.h"
#include "phy.h"
#include "usb.h"
#include "xhci.h"

enum { REQUEST_WRITE_REGISTER = 0xa0, REQUEST_READ_REGISTER = 0xa1 };
#define REGISTERS_SIZE 0x200u
#define ID_REV 0x00
#define ID_REV_LAN9514 0xec000002u
#define INT_STS 0x08
#define RX_CFG 0x0c
#define RX_FIFO_FLUSH 0x00000001u
#define TX_CFG 0x10
#define TX_CFG_ON 0x00000004u
#define TX_CFG_FIFO_FLUSH 0x00000001u
#define HW_CFG 0x14
#define HW_CFG_RXDOFF_SHIFT 9
#define HW_CFG_RXDOFF_MASK 3u
#define HW_CFG_MEF 0x00000020u
#define HW_CFG_BCE 0x00000002u
#define HW_CFG_RESETS 0x00000009u /* LRST, SRST */
#define PM_CTRL 0x20
#define PM_CTL_DEV_RDY 0x00000080u
#define PM_CTL_PHY_RST 0x00000010u
#define E2P_CMD 0x30
#define E2P_CMD_BUSY 0x80000000u
#define E2P_CMD_MASK 0x70000000u
#define E2P_CMD_TIMEOUT 0x00000400u
#define E2P_CMD_ADDR 0x000001ffu
#define E2P_DATA 0x34
#define BURST_CAP 0x38
#define BURST_CAP_UNIT 512u /* a packet at high speed */
#define INT_EP_CTL 0x68
#define INT_EP_CTL_PHY_INT 0x00008000u
#define MAC_CR 0x100
#define MAC_CR_MCPAS 0x00080000u
#define MAC_CR_PRMS 0x00040000u
#define MAC_CR_HPFILT 0x00002000u
#define MAC_CR_BCAST 0x00000800u /* no broadcasts */
#define MAC_CR_TXEN 0x00000008u
#define MAC_CR_RXEN 0x00000004u
#define ADDRH 0x104
#define ADDRL 0x108
#define HASHH 0x10c
#define HASHL 0x110
#define MULTICAST_HASH_SHIFT 26
#define MII_ADDR 0x114
#define MII_ADDR_PHY_SHIFT 11
#define MII_ADDR_REGISTER_SHIFT 6
#define MII_WRITE 0x02u
#define MII_BUSY 0x01u
#define MII_DATA 0x118
#define MII_DATA_MASK 0xffffu
#define COE_CR 0x130
#define TX_COE_EN 0x00010000u
#define RX_COE_EN 0x00000001u
/* The EEPROM: a mark, then the address. */
#define EEPROM_MARK 0xa5
#define EEPROM_MAC_OFFSET 1
#define EEPROM_EMPTY 0xff

/* The PHY. */
#define PHY_ID_LAN9514 0x0007c0c3u
#define PHY_MODE_CTRL_STS 17
enum { PHY_INT_SRC = 29, PHY_INT_MASK = 30, PHY_SPECIAL = 31 };
#define MODE_CTRL_STS_ENERGYON 0x0002u
#define PHY_INT_SRC_ENERGY_ON 0x0080u
#define PHY_INT_SRC_ANEG_COMP 0x0040u
#define PHY_INT_SRC_LINK_DOWN 0x0010u
#define PHY_SPECIAL_100FULL 0x1058 /* and negotiated */
/* In front of a sent frame: two words, and one more with the places of the checksum. */
#define TX_CMD_SIZE 8
#define TX_CHECKSUM_SIZE 4
#define TX_ALIGN 4
#define TX_CMD_A_BUF_SIZE 0x7ffu
#define TX_CMD_A_DATA_OFFSET 0x001f0000u /* octets between the commands and the frame */
#define TX_CMD_A_DATA_OFFSET_SHIFT 16
#define TX_CMD_B_CSUM_ENABLE 0x00004000u
/* In front of a received frame: one word. Behind it: its check sequence, and the sum of its octets. */
#define RX_STS_SIZE 4
#define RX_ALIGN 4
#define RX_FRAME_CHECK 4
#define RX_CHECKSUM_SIZE 2
#define RX_STS_FL_SHIFT 16
#define RX_STS_BF 0x00002000u
#define RX_STS_MF 0x00000400u
#define RX_STS_FT 0x00000020u

struct smsc95xx {
    struct usb_adapter usb;
    u32 regs[REGISTERS_SIZE / 4];
    u16 phy[PHY_REGISTERS];
    bool told; /* the interrupt that is pending in the PHY */
};

static void phy_interrupt(struct smsc95xx *s, u32 bits)
{
    u8 message[4];

    s->phy[PHY_INT_SRC] |= (u16)bits;
    if (!(s->phy[PHY_INT_SRC] & s->phy[PHY_INT_MASK]) || s->told || !(s->regs[INT_EP_CTL / 4] & INT_EP_CTL_PHY_INT))
        return;
    s->told = true;
    put32(message, INT_EP_CTL_PHY_INT);
    report(&s->usb, message, sizeof(message));
}

static void show_link(struct smsc95xx *s)
{
    phy_show_link(s->phy, s->usb.nic.link);
    s->phy[PHY_MODE_CTRL_STS] = s->usb.nic.link ? MODE_CTRL_STS_ENERGYON : 0;
    s->phy[PHY_SPECIAL] = s->usb.nic.link ? PHY_SPECIAL_100FULL : 0;
}

static void link_changed(struct usb_adapter *a)
{
    struct smsc95xx *s = (struct smsc95xx *)a;

    show_link(s);
    phy_interrupt(s, a->nic.link ? PHY_INT_SRC_ENERGY_ON | PHY_INT_SRC_ANEG_COMP : PHY_INT_SRC_LINK_DOWN);
}

static void power_on_smsc95xx(struct usb_adapter *a)
{
    struct smsc95xx *s = (struct smsc95xx *)a;

    memset(s->regs, 0, sizeof(s->regs));
    phy_power_on(s->phy, PHY_ID_LAN9514, false, a->nic.link);
    s->told = false;
    s->regs[ID_REV / 4] = ID_REV_LAN9514;
    s->regs[PM_CTRL / 4] = PM_CTL_DEV_RDY;
    show_link(s);
}

static u32 mii_read(struct smsc95xx *s, unsigned number)
{
    u16 value = s->phy[number];

    if (number == PHY_INT_SRC) {
        s->phy[PHY_INT_SRC] = 0;
        s->told = false;
    }
    return value;
}

static void mii_write(struct smsc95xx *s, unsigned number, u32 value)
{
    if (number == PHY_INT_SRC || number == PHY_SPECIAL)
        return;
    if (number == PHY_MODE_CTRL_STS)
        value = (value & ~MODE_CTRL_STS_ENERGYON) | (s->phy[number] & MODE_CTRL_STS_ENERGYON);
    if (phy_write(s->phy, number, value))
        s->phy[PHY_INT_SRC] |= PHY_INT_SRC_ENERGY_ON | PHY_INT_SRC_ANEG_COMP;
    phy_interrupt(s, 0);
}

static void access_phy(struct smsc95xx *s, u32 value)
{
    unsigned number = value >> MII_ADDR_REGISTER_SHIFT & (PHY_REGISTERS - 1);
    bool is_there = (value >> MII_ADDR_PHY_SHIFT & 31) == PHY_ADDRESS;

    if (!(value & MII_WRITE))
        s->regs[MII_DATA / 4] = is_there ? mii_read(s, number) : MII_DATA_MASK;
    else if (is_there)
        mii_write(s, number, s->regs[MII_DATA / 4] & MII_DATA_MASK);
}

static u8 eeprom_octet(struct smsc95xx *s, u32 at)
{
    if (at == 0)
        return EEPROM_MARK;
    return at < EEPROM_MAC_OFFSET + MAC_SIZE ? s->usb.nic.mac[at - EEPROM_MAC_OFFSET] : EEPROM_EMPTY;
}

static void store_register(struct smsc95xx *s, u32 at, u32 value)
{
    u32 *own = &s->regs[at / 4];

    switch (at) {
    case ID_REV: return;
    case INT_STS: value = *own & ~value; break;
    case RX_CFG:
        if (value & RX_FIFO_FLUSH)
            s->usb.waiting = 0;
        value &= ~RX_FIFO_FLUSH;
        break;
    case TX_CFG: value &= ~TX_CFG_FIFO_FLUSH; break;
    case HW_CFG: value &= ~HW_CFG_RESETS; break;
    case PM_CTRL: value = (value & ~PM_CTL_PHY_RST) | PM_CTL_DEV_RDY; break;
    case E2P_CMD:
        if (!(value & E2P_CMD_MASK))
            s->regs[E2P_DATA / 4] = eeprom_octet(s, value & E2P_CMD_ADDR);
        value &= ~(E2P_CMD_BUSY | E2P_CMD_TIMEOUT);
        break;
    case MII_ADDR:
        access_phy(s, value);
        value &= ~MII_BUSY;
    }
    *own = value;
    if (at == INT_EP_CTL)
        phy_interrupt(s, 0);
}

static int request(struct usb_adapter *a, const u8 *setup, u8 *data)
{
    struct smsc95xx *s = (struct smsc95xx *)a;
    u32 at = get16(setup + SETUP_INDEX) & ~3u;

    if (at >= REGISTERS_SIZE)
        return USB_STALL;
    if (setup[SETUP_REQUEST] == REQUEST_READ_REGISTER) {
        put32(data, s->regs[at / 4]);
        return 4;
    }
    if (setup[SETUP_REQUEST] != REQUEST_WRITE_REGISTER)
        return USB_STALL;
    store_register(s, at, get32(data));
    return 0;
}

static bool accepts(struct usb_adapter *a, const u8 *frame)
{
    const u32 *regs = ((struct smsc95xx *)a)->regs;
    u32 filter = regs[MAC_CR / 4], hash = ethernet_crc(frame, MAC_SIZE) >> MULTICAST_HASH_SHIFT;

    if (!(filter & MAC_CR_RXEN))
        return false;
    if (filter & MAC_CR_PRMS)
        return true;
    if (is_broadcast(frame))
        return !(filter & MAC_CR_BCAST);
    if (is_multicast(frame) && filter & MAC_CR_HPFILT)
        return regs[(hash & 32 ? HASHH : HASHL) / 4] >> hash % 32 & 1;
    if (is_multicast(frame))
        return filter & MAC_CR_MCPAS;
    return get32(frame) == regs[ADDRL / 4] && get16(frame + 4) == (regs[ADDRH / 4] & 0xffff);
}

/* Sends one frame, which has the places of its checksum in front if the command says so. */
static void send_described(struct usb_adapter *a, u8 *frame, size_t size, u32 command_b)
{
    const u32 *regs = ((struct smsc95xx *)a)->regs;

    if (!(regs[TX_CFG / 4] & TX_CFG_ON) || !(regs[MAC_CR / 4] & MAC_CR_TXEN))
        return;
    if (command_b & TX_CMD_B_CSUM_ENABLE) {
        u32 start = get16(frame), place = get16(frame + 2);

        if (size < TX_CHECKSUM_SIZE + ETHERNET_HEAD)
            return;
        frame += TX_CHECKSUM_SIZE;
        size -= TX_CHECKSUM_SIZE;
        if (regs[COE_CR / 4] & TX_COE_EN)
            put_checksum(frame, size, start, place);
    }
    send_from_transfer(a, frame, size);
}

static void send_transfer(struct usb_adapter *a, u8 *data, size_t size)
{
    while (size >= TX_CMD_SIZE + ETHERNET_HEAD) {
        u32 command_a = get32(data);
        size_t begin = TX_CMD_SIZE + ((command_a & TX_CMD_A_DATA_OFFSET) >> TX_CMD_A_DATA_OFFSET_SHIFT);
        size_t length = command_a & TX_CMD_A_BUF_SIZE, step = rounded_up(begin + length, TX_ALIGN);

        if (length < ETHERNET_HEAD || begin + length > size)
            return;
        send_described(a, data + begin, length, get32(data + 4));
        if (step >= size)
            return;
        data += step;
        size -= step;
    }
}

static size_t pack(struct usb_adapter *a, u8 *data, size_t room)
{
    const u32 *regs = ((struct smsc95xx *)a)->regs;
    size_t head = RX_STS_SIZE + (regs[HW_CFG / 4] >> HW_CFG_RXDOFF_SHIFT & HW_CFG_RXDOFF_MASK), used = 0;
    size_t cap = (regs[BURST_CAP / 4] & 0xff) * BURST_CAP_UNIT;
    bool has_sum = regs[COE_CR / 4] & RX_COE_EN;
    struct frame *frame;

    if (regs[HW_CFG / 4] & HW_CFG_BCE && cap && cap < room)
        room = cap;
    while ((frame = next_frame(a))) {
        size_t begin = rounded_up(used, RX_ALIGN), tail = RX_FRAME_CHECK + (has_sum ? RX_CHECKSUM_SIZE : 0);
        u32 kind = is_broadcast(frame->octets) ? RX_STS_BF : is_multicast(frame->octets) ? RX_STS_MF : 0;
        u32 sum = sum_of(frame->octets + ETHERNET_HEAD, frame->size - ETHERNET_HEAD, 0);

        if (begin + head + frame->size + tail > room)
            break;
        memset(data + used, 0, begin + head - used);
        put32(data + begin, (u32)(frame->size + tail) << RX_STS_FL_SHIFT | kind | RX_STS_FT);
        used = begin + head + put_frame(a, data + begin + head, tail);
        if (has_sum)
            put16(data + used - RX_CHECKSUM_SIZE, sum);
        if (!(regs[HW_CFG / 4] & HW_CFG_MEF))
            break;
    }
    return used;
}

static struct nic *make_nic(unsigned which)
{
    static const struct usb_kind kind = {
        .product = "LAN9514", .vendor_id = 0x0424, .product_id = 0xec00, .release = 0x0200, .speed = USB_SPEED_HIGH,
        .bulk_in = USB_DIR_IN | 1, .bulk_out = 2, .status_in = USB_DIR_IN | 3, .status_size = 16, .status_interval = 4,
        .power_on = power_on_smsc95xx, .request = request, .send = send_transfer, .accepts = accepts, .pack = pack,
        .link_changed = link_changed,
    };
    struct smsc95xx *s = new_nic(which, sizeof(*s));

    return plug_adapter(which, &s->usb, &kind);
}
