/*
 * ASIX AX88772B: 100 Mbit/s at high speed of USB, driver asix, with the PHY driver ax88796b.
 *
 * Source of the register facts: drivers/net/usb/asix.h, asix_devices.c and asix_common.c, and drivers/net/phy/ax88796b.c of
 * Linux 6.1 and 6.12, whose names the commands and bits have here.
 * Modelled: received frames as one stream of octets that is cut at 2,048 octets, so that a frame, and the word in front of
 * it, may begin in one transfer and end in the next; sent frames behind such a word; the filters by address and by the
 * multicast hash; the address in the EEPROM; the embedded PHY, which the driver may use only after it asked for it; the
 * link over the endpoint for interrupts, once for each change. A frame that finds no memory is only lost.
 * Not modelled: checksums (the driver uses none of the chip), an external PHY, GPIO, power-down of the PHY, wake-on-LAN,
 * pause frames, gaps between frames, a changed EEPROM.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "device.h"
#include "phy.h"
#include "usb.h"
#include "xhci.h"

/* Requests. The value and the index are those of each command. */
enum {
    AX_CMD_SET_SW_MII = 0x06,
    AX_CMD_READ_MII_REG = 0x07,
    AX_CMD_WRITE_MII_REG = 0x08,
    AX_CMD_STATMNGSTS_REG = 0x09,
    AX_CMD_SET_HW_MII = 0x0a,
    AX_CMD_READ_EEPROM = 0x0b,
    AX_CMD_READ_RX_CTL = 0x0f,
    AX_CMD_WRITE_RX_CTL = 0x10,
    AX_CMD_READ_NODE_ID = 0x13, /* written, it is a gap between frames */
    AX_CMD_WRITE_NODE_ID = 0x14,
    AX_CMD_WRITE_MULTI_FILTER = 0x16,
    AX_CMD_READ_PHY_ID = 0x19,
    AX_CMD_READ_MEDIUM_STATUS = 0x1a,
    AX_CMD_WRITE_MEDIUM_MODE = 0x1b,
    AX_CMD_READ_MONITOR_MODE = 0x1c,
};
#define AX_AX88772B_CHIPCODE 0x20
#define AX_HOST_EN 0x01
#define AX_RX_CTL_SO 0x0080
#define AX_RX_CTL_AM 0x0010
#define AX_RX_CTL_AB 0x0008
#define AX_RX_CTL_AMALL 0x0002
#define AX_RX_CTL_PRO 0x0001
#define AX_MCAST_FILTER_SIZE 8
#define MULTICAST_HASH_SHIFT 26
#define AX_MEDIUM_RE 0x0100
/* The EEPROM, in words: the address begins at the fifth one. */
#define EEPROM_MAC 4u
#define EEPROM_EMPTY 0xffff
/* The PHY. The first address is that of an external one, which the chip does not have. */
#define AX_EMBD_PHY_ADDR 0x10
#define NO_PHY_ADDR 0xe0
#define NO_PHY 0xffff
#define PHY_ID_ASIX_AX88772A 0x003b1861u
#define BMCR_SPEED100 0x2000u
#define BMCR_FULLDPLX 0x0100u
/* The endpoint for interrupts: the octet with the link. */
#define INTERRUPT_SIZE 8
#define INTERRUPT_LINK 2
/*
 * In front of each frame, in both directions: its length, and the inverted length. A received frame begins at an even
 * octet of the stream.
 */
#define HEADER_SIZE 4
#define HEADER_LENGTH 0x7ffu
#define RX_ALIGN 2
#define RX_BURST 2048u /* AX_RX_CTL_MFB_2048, and rx_urb_size of the driver */

struct ax88772 {
    struct usb_adapter usb;
    bool software_mii;
    u16 rx_ctl, medium;
    u8 node_id[MAC_SIZE], multi_filter[AX_MCAST_FILTER_SIZE];
    u16 phy[PHY_REGISTERS];
    size_t given; /* octets of the first frame that waits, with its header, which the driver already has */
};

static void show_link(struct usb_adapter *a)
{
    u8 message[INTERRUPT_SIZE] = {0};

    phy_show_link(((struct ax88772 *)a)->phy, a->nic.link);
    message[INTERRUPT_LINK] = a->nic.link;
    report(a, message, sizeof(message));
}

static void reset_phy(struct ax88772 *ax)
{
    phy_power_on(ax->phy, PHY_ID_ASIX_AX88772A, false, ax->usb.nic.link);
    ax->phy[MII_BMCR] |= BMCR_SPEED100 | BMCR_FULLDPLX;
}

static void power_on_ax88772(struct usb_adapter *a)
{
    struct ax88772 *ax = (struct ax88772 *)a;

    ax->software_mii = false;
    ax->rx_ctl = ax->medium = 0;
    memcpy(ax->node_id, a->nic.mac, MAC_SIZE);
    memset(ax->multi_filter, 0, sizeof(ax->multi_filter));
    ax->given = 0;
    reset_phy(ax);
}

static u32 eeprom_word(struct ax88772 *ax, u32 at)
{
    return at >= EEPROM_MAC && at < EEPROM_MAC + MAC_SIZE / 2 ? get16(ax->usb.nic.mac + 2 * (at - EEPROM_MAC))
                                                              : EEPROM_EMPTY;
}

static void write_phy(struct ax88772 *ax, unsigned number, u32 value)
{
    if (number == MII_BMCR && value & BMCR_RESET)
        reset_phy(ax);
    else
        phy_write(ax->phy, number, value);
}

/* A command that gives octets. */
static int give_octets(struct ax88772 *ax, u8 command, u32 value, u32 index, bool has_phy, u8 *data)
{
    switch (command) {
    case AX_CMD_READ_MII_REG:
        put16(data, has_phy ? ax->phy[index] : NO_PHY);
        return 2;
    case AX_CMD_STATMNGSTS_REG:
        data[0] = AX_AX88772B_CHIPCODE | (ax->software_mii ? AX_HOST_EN : 0);
        return 1;
    case AX_CMD_READ_EEPROM:
        put16(data, eeprom_word(ax, value));
        return 2;
    case AX_CMD_READ_RX_CTL:
        put16(data, ax->rx_ctl);
        return 2;
    case AX_CMD_READ_NODE_ID:
        memcpy(data, ax->node_id, MAC_SIZE);
        return MAC_SIZE;
    case AX_CMD_READ_PHY_ID:
        data[0] = NO_PHY_ADDR;
        data[1] = AX_EMBD_PHY_ADDR;
        return 2;
    case AX_CMD_READ_MEDIUM_STATUS:
        put16(data, ax->medium);
        return 2;
    case AX_CMD_READ_MONITOR_MODE:
        data[0] = 0;
        return 1;
    }
    return USB_STALL;
}

static int request(struct usb_adapter *a, const u8 *setup, u8 *data)
{
    struct ax88772 *ax = (struct ax88772 *)a;
    u32 value = get16(setup + SETUP_VALUE), index = get16(setup + SETUP_INDEX), size = get16(setup + SETUP_LENGTH);
    bool has_phy = ax->software_mii && value == AX_EMBD_PHY_ADDR && index < PHY_REGISTERS;

    if (setup[SETUP_REQUEST_TYPE] & USB_DIR_IN)
        return give_octets(ax, setup[SETUP_REQUEST], value, index, has_phy, data);
    switch (setup[SETUP_REQUEST]) {
    case AX_CMD_SET_SW_MII:
        ax->software_mii = true;
        break;
    case AX_CMD_SET_HW_MII:
        ax->software_mii = false;
        break;
    case AX_CMD_WRITE_MII_REG:
        if (has_phy && size == 2)
            write_phy(ax, index, get16(data));
        break;
    case AX_CMD_WRITE_RX_CTL:
        ax->rx_ctl = (u16)value;
        break;
    case AX_CMD_WRITE_NODE_ID:
        if (size == MAC_SIZE)
            memcpy(ax->node_id, data, MAC_SIZE);
        break;
    case AX_CMD_WRITE_MULTI_FILTER:
        if (size == AX_MCAST_FILTER_SIZE)
            memcpy(ax->multi_filter, data, AX_MCAST_FILTER_SIZE);
        break;
    case AX_CMD_WRITE_MEDIUM_MODE:
        ax->medium = (u16)value;
        break;
    }
    /* The others change nothing that the model has. */
    return 0;
}

static bool accepts(struct usb_adapter *a, const u8 *frame)
{
    const struct ax88772 *ax = (struct ax88772 *)a;
    u32 hash = ethernet_crc(frame, MAC_SIZE) >> MULTICAST_HASH_SHIFT;

    if (!(ax->rx_ctl & AX_RX_CTL_SO) || !(ax->medium & AX_MEDIUM_RE))
        return false;
    if (ax->rx_ctl & AX_RX_CTL_PRO)
        return true;
    if (is_broadcast(frame))
        return ax->rx_ctl & AX_RX_CTL_AB;
    if (is_multicast(frame))
        return ax->rx_ctl & AX_RX_CTL_AMALL
            || (ax->rx_ctl & AX_RX_CTL_AM && ax->multi_filter[hash / 8] >> hash % 8 & 1);
    return !memcmp(frame, ax->node_id, MAC_SIZE);
}

/*
 * The driver sends one frame in a transfer. If that would fill its last packet, it adds a header without a frame. A wrong
 * header ends the transfer.
 */
static void send_transfer(struct usb_adapter *a, u8 *data, size_t size)
{
    size_t length;

    if (size < HEADER_SIZE + ETHERNET_HEAD)
        return;
    length = get16(data) & HEADER_LENGTH;
    if (length == (~get16(data + 2) & HEADER_LENGTH) && length >= ETHERNET_HEAD && HEADER_SIZE + length <= size)
        send_from_transfer(a, data + HEADER_SIZE, length);
}

/* Gives the next octets of the stream. */
static size_t pack(struct usb_adapter *a, u8 *data, size_t room)
{
    struct ax88772 *ax = (struct ax88772 *)a;
    size_t most = room < RX_BURST ? room : RX_BURST, used = 0;
    const struct frame *frame;

    while (used < most && (frame = next_frame(a))) {
        u8 whole[HEADER_SIZE + FRAME_MOST + RX_ALIGN] = {0};
        size_t size = HEADER_SIZE + rounded_up(frame->size, RX_ALIGN), now;
        u32 length = frame->size & HEADER_LENGTH;

        put32(whole, length | ~length << 16);
        memcpy(whole + HEADER_SIZE, frame->octets, frame->size);
        now = size - ax->given < most - used ? size - ax->given : most - used;
        memcpy(data + used, whole + ax->given, now);
        used += now;
        ax->given += now;
        if (ax->given == size) {
            ax->given = 0;
            drop_frame(a);
        }
    }
    return used;
}

static struct nic *make_nic(unsigned which)
{
    static const struct usb_kind kind = {
        .product = "AX88772B", .vendor_id = 0x0b95, .product_id = 0x772b, .release = 0x0001, .speed = USB_SPEED_HIGH,
        .bulk_in = USB_DIR_IN | 2, .bulk_out = 3, .status_in = USB_DIR_IN | 1, .status_size = INTERRUPT_SIZE,
        .status_interval = 11, .power_on = power_on_ax88772, .request = request, .send = send_transfer,
        .accepts = accepts, .pack = pack, .listens = show_link, .link_changed = show_link,
    };
    struct ax88772 *ax = new_nic(which, sizeof(*ax));

    return plug_adapter(which, &ax->usb, &kind);
}
