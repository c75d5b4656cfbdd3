/*
 * ASIX AX88179: a Gigabit adapter for USB 3, driver ax88179_178a.
 *
 * Source of the register facts: drivers/net/usb/ax88179_178a.c of Linux 6.1 and 6.12, whose names the registers have here.
 * Modelled: the registers of the MAC and of the PHY, transfers of several frames to the driver, checksums in both
 * directions, TSO of IPv4, the filters by address and by the multicast hash, the link over the endpoint for interrupts,
 * frames that the chip lost.
 * Not modelled: EEPROM and fuses (both are empty), offloads of IPv6, VLAN filters (the driver uses none), wake-on-LAN,
 * EEE, pause frames, coalescing by time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "device.h"
#include "phy.h"
#include "usb.h"
#include "xhci.h"

/* Requests. The value is the register or the PHY, the index the size or the PHY's register. */
enum { AX_ACCESS_MAC = 0x01, AX_ACCESS_PHY = 0x02, AX_ACCESS_EEPROM = 0x04, AX_ACCESS_EFUS = 0x05 };
#define AX_ACCESS_FIFO 0x81 /* whether frames wait to be sent; the driver has only the number */
#define MAC_REGISTERS 0x100u
#define EMPTY_MEMORY 0xff
#define PHYSICAL_LINK_STATUS 0x02
#define AX_USB_SS 0x04
#define AX_SROM_CMD 0x0a
#define EEP_RD 0x04
#define EEP_BUSY 0x10
#define AX_RX_CTL 0x0b
#define AX_RX_CTL_START 0x0080
#define AX_RX_CTL_AM 0x0010
#define AX_RX_CTL_AB 0x0008
#define AX_RX_CTL_AMALL 0x0002
#define AX_RX_CTL_PRO 0x0001
#define AX_NODE_ID 0x10
#define AX_MULFLTARY 0x16
#define MULTICAST_HASH_SHIFT 26
#define AX_MEDIUM_STATUS_MODE 0x22
#define AX_MEDIUM_RECEIVE_EN 0x100
#define AX_RX_BULKIN_QCTRL 0x2e
#define BULKIN_SIZE (AX_RX_BULKIN_QCTRL + 3)
#define BULKIN_UNIT 1024u
#define AX_RXCOE_CTL 0x34
#define AX_TXCOE_CTL 0x35
#define AX_COE_TCP 0x02
#define AX_COE_UDP 0x04
/* The PHY */
#define PHY_ID_RTL8211 0x001cc916u
#define GMII_PHY_PHYSR 17
#define GMII_PHY_PHYSR_GIGA 0x8000
#define GMII_PHY_PHYSR_FULL 0x2000
#define GMII_PHY_PHYSR_LINK 0x0400
/* The endpoint for interrupts. */
#define INTERRUPT_SIZE 8
#define AX_INT_PPLS_LINK (1u << 16)
/* A sent frame has two words in front, the second one with the payload of one segment. */
#define TX_HEADER_SIZE 8
#define TX_LENGTH_MASK 0xfffffu
#define TX_MSS_MASK 0x7fffu
/*
 * Received frames have two octets in front, and fill words of 8 octets. Behind all frames there are two entries of 4
 * octets for each, the second one without use; then 4 octets without use, the number of entries and their place.
 */
#define RX_ALIGN 8
#define RX_PSEUDO_HEAD 2
#define RX_ENTRIES_SIZE 8
#define RX_TAIL_SIZE 8
#define RX_LENGTH_SHIFT 16
#define AX_RXHDR_L4_TYPE_UDP 4
#define AX_RXHDR_L4_TYPE_TCP 16
#define AX_RXHDR_L4CSUM_ERR 1
#define AX_RXHDR_DROP_ERR (1u << 31)

struct ax88179 {
    struct usb_adapter usb;
    u8 mac[MAC_REGISTERS];
    u16 phy[PHY_REGISTERS];
};

static void show_link(struct usb_adapter *a)
{
    struct ax88179 *ax = (struct ax88179 *)a;
    u8 message[INTERRUPT_SIZE] = {0};

    phy_show_link(ax->phy, a->nic.link);
    ax->phy[GMII_PHY_PHYSR] = a->nic.link ? GMII_PHY_PHYSR_GIGA | GMII_PHY_PHYSR_FULL | GMII_PHY_PHYSR_LINK : 0;
    put32(message, a->nic.link ? AX_INT_PPLS_LINK : 0);
    report(a, message, sizeof(message));
}

static void power_on_ax(struct usb_adapter *a)
{
    struct ax88179 *ax = (struct ax88179 *)a;

    memset(ax->mac, 0, sizeof(ax->mac));
    phy_power_on(ax->phy, PHY_ID_RTL8211, true, a->nic.link);
    ax->mac[PHYSICAL_LINK_STATUS] = AX_USB_SS;
    memcpy(ax->mac + AX_NODE_ID, a->nic.mac, MAC_SIZE);
    show_link(a);
}

static int access_phy(struct ax88179 *ax, unsigned number, bool is_in, u8 *data)
{
    if (is_in) {
        /* The registers behind the window are those of EEE, which this chip then has not. */
        put16(data, number == MII_MMD_DATA ? 0 : ax->phy[number]);
        return 2;
    }
    if (number != GMII_PHY_PHYSR)
        phy_write(ax->phy, number, get16(data));
    return 0;
}

static int request(struct usb_adapter *a, const u8 *setup, u8 *data)
{
    struct ax88179 *ax = (struct ax88179 *)a;
    u32 at = get16(setup + SETUP_VALUE), number = get16(setup + SETUP_INDEX), size = get16(setup + SETUP_LENGTH);
    bool is_in = setup[SETUP_REQUEST_TYPE] & USB_DIR_IN;

    switch (setup[SETUP_REQUEST]) {
    case AX_ACCESS_MAC:
        if (at + size > MAC_REGISTERS)
            return USB_STALL;
        if (is_in) {
            memcpy(data, ax->mac + at, size);
            return (int)size;
        }
        memcpy(ax->mac + at, data, size);
        ax->mac[AX_SROM_CMD] &= (u8)~(EEP_RD | EEP_BUSY);
        return 0;
    case AX_ACCESS_PHY:
        return access_phy(ax, number % PHY_REGISTERS, is_in, data);
    case AX_ACCESS_EEPROM:
    case AX_ACCESS_EFUS:
        memset(data, EMPTY_MEMORY, size);
        return is_in ? (int)size : 0;
    case AX_ACCESS_FIFO:
        memset(data, 0, size);
        return is_in ? (int)size : 0;
    }
    return is_in ? USB_STALL : 0;
}

static bool accepts(struct usb_adapter *a, const u8 *frame)
{
    const u8 *mac = ((struct ax88179 *)a)->mac;
    u32 filter = get16(mac + AX_RX_CTL), hash = ethernet_crc(frame, MAC_SIZE) >> MULTICAST_HASH_SHIFT;

    if (!(filter & AX_RX_CTL_START) || !(get16(mac + AX_MEDIUM_STATUS_MODE) & AX_MEDIUM_RECEIVE_EN))
        return false;
    if (filter & AX_RX_CTL_PRO)
        return true;
    if (is_broadcast(frame))
        return filter & AX_RX_CTL_AB;
    if (is_multicast(frame))
        return filter & AX_RX_CTL_AMALL || (filter & AX_RX_CTL_AM && mac[AX_MULFLTARY + hash / 8] >> hash % 8 & 1);
    return !memcmp(frame, mac + AX_NODE_ID, MAC_SIZE);
}

/* The driver sends one frame or one large segment in a transfer. */
static void send_transfer(struct usb_adapter *a, u8 *data, size_t size)
{
    const u8 *mac = ((struct ax88179 *)a)->mac;
    size_t length = get32(data) & TX_LENGTH_MASK, mss = get32(data + 4) & TX_MSS_MASK;
    u8 *frame = data + TX_HEADER_SIZE, protocol;

    if (size < TX_HEADER_SIZE + ETHERNET_HEAD || length < ETHERNET_HEAD || TX_HEADER_SIZE + length > size)
        return;
    if (mss) {
        send_segments(&a->nic, frame, length, mss);
        return;
    }
    protocol = heads_of(frame, length).protocol;
    if (mac[AX_TXCOE_CTL] & (protocol == PROTOCOL_TCP ? AX_COE_TCP : protocol == PROTOCOL_UDP ? AX_COE_UDP : 0))
        find_and_put_checksum(frame, length);
    send_from_transfer(a, frame, length);
}

/* The entry of the first frame that waits. */
static u32 entry_of(struct usb_adapter *a, const struct frame *frame)
{
    u8 protocol = heads_of(frame->octets, frame->size).protocol, checked = ((struct ax88179 *)a)->mac[AX_RXCOE_CTL];
    u32 entry = (u32)(RX_PSEUDO_HEAD + frame->size) << RX_LENGTH_SHIFT, type = 0;

    if (protocol == PROTOCOL_TCP && checked & AX_COE_TCP)
        type = AX_RXHDR_L4_TYPE_TCP;
    if (protocol == PROTOCOL_UDP && checked & AX_COE_UDP)
        type = AX_RXHDR_L4_TYPE_UDP;
    if (type && !has_right_checksum(frame->octets, frame->size))
        type |= AX_RXHDR_L4CSUM_ERR;
    return entry | type | (is_lost(a) ? AX_RXHDR_DROP_ERR : 0);
}

static size_t pack(struct usb_adapter *a, u8 *data, size_t room)
{
    size_t enough = ((struct ax88179 *)a)->mac[BULKIN_SIZE] * BULKIN_UNIT, used = 0, count = 0;
    u8 entries[ADAPTER_FRAMES * RX_ENTRIES_SIZE];
    struct frame *frame;

    while ((frame = next_frame(a))) {
        size_t whole = rounded_up(RX_PSEUDO_HEAD + frame->size, RX_ALIGN);

        if (used + whole + RX_ENTRIES_SIZE * (count + 1) + RX_TAIL_SIZE > room)
            break;
        memset(data + used, 0, whole);
        memcpy(data + used + RX_PSEUDO_HEAD, frame->octets, frame->size);
        put32(entries + RX_ENTRIES_SIZE * count, entry_of(a, frame));
        put32(entries + RX_ENTRIES_SIZE * count++ + 4, AX_RXHDR_DROP_ERR);
        used += whole;
        drop_frame(a);
        if (used >= enough)
            break;
    }
    if (!count)
        return 0;
    memcpy(data + used, entries, RX_ENTRIES_SIZE * count);
    put32(data + used + RX_ENTRIES_SIZE * count, 0);
    put32(data + used + RX_ENTRIES_SIZE * count + 4, (u32)used << 16 | (u32)(2 * count));
    return used + RX_ENTRIES_SIZE * count + RX_TAIL_SIZE;
}

static struct nic *make_nic(unsigned which)
{
    static const struct usb_kind kind = {
        .product = "AX88179", .vendor_id = 0x0b95, .product_id = 0x1790, .release = 0x0100, .speed = USB_SPEED_SUPER,
        .bulk_in = USB_DIR_IN | 2, .bulk_out = 3, .status_in = USB_DIR_IN | 1, .status_size = INTERRUPT_SIZE,
        .status_interval = 11, .marks_lost = true, .power_on = power_on_ax, .request = request, .send = send_transfer,
        .accepts = accepts, .pack = pack, .listens = show_link, .link_changed = show_link,
    };
    struct ax88179 *ax = new_nic(which, sizeof(*ax));

    return plug_adapter(which, &ax->usb, &kind);
}
