/*
 * Realtek RTL8153 (1 Gbit/s) and RTL8156B (2.5 Gbit/s, with chip=rtl8156b): adapters for USB 3, driver r8152.
 *
 * Source of the register facts: drivers/net/usb/r8152.c of Linux 6.1 and 6.12, whose names the registers have here.
 * Modelled: the registers of the USB unit (USB), of the network unit (PLA) and of the PHY (OCP), transfers of several
 * frames in both directions, checksums, TSO and VLAN tags of IPv4, the filters by address and by the multicast hash, the
 * link over the endpoint for interrupts, the counter of frames that were lost.
 * Not modelled: offloads of IPv6, firmware, the other counters, wake-on-LAN, EEE, pause frames, coalescing by time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "device.h"
#include "phy.h"
#include "usb.h"
#include "xhci.h"

/* The request reads and writes registers: the value is the address, the index the unit and the octets of a word. */
#define RTL8152_REQ_REGS 0x05
#define MCU_TYPE_PLA 0x0100u
#define UNIT_SIZE 0x10000u
#define BYTE_EN_WORD_SIZE 4
enum { USB_UNIT, PLA_UNIT, OCP_UNIT, UNITS };
/* PLA */
#define PLA_IDR 0xc000
#define PLA_RCR 0xc010
#define RCR_AAP 0x01
#define RCR_APM 0x02
#define RCR_AM 0x04
#define RCR_AB 0x08
#define PLA_RCR1 0xc012
#define OUTER_VLAN (1u << 7)
#define PLA_MAR 0xcd00
#define MULTICAST_HASH_SIZE 8
#define MULTICAST_HASH_SHIFT 26
#define PLA_BACKUP 0xd000
#define PLA_BOOT_CTRL 0xe004
#define AUTOLOAD_DONE 0x02
#define PLA_TCR0 0xe610
#define TCR0_TX_EMPTY 0x0800
#define PLA_TCR1 0xe612
#define VERSION_MASK 0x7cf0
#define PLA_CR 0xe813
#define CR_RST 0x10
#define CR_RE 0x08
#define CR_TE 0x04
#define PLA_OOB_CTRL 0xe84f
#define TXFIFO_EMPTY 0x20
#define RXFIFO_EMPTY 0x10
#define LINK_LIST_READY 0x02
#define PLA_CPCR 0xe854
#define CPCR_RX_VLAN 0x0040
#define PLA_MISC_1 0xe85a
#define RXDY_GATED_EN 0x0008
#define PLA_OCP_GPHY_BASE 0xe86c
#define PLA_TALLYCNT 0xe890
#define TALLY_RX_MISSED (PLA_TALLYCNT + 28)
#define PLA_PHYSTATUS 0xe908
#define PHY_2500BPS 0x0400
#define PHY_1000BPS 0x0010
#define LINK_STATUS 0x0002
#define FULL_DUP 0x0001
/* These addresses of PLA are a window to OCP. */
#define OCP_WINDOW 0xb000
#define OCP_WINDOW_MASK 0x0fff
/* USB */
#define USB_USB_CTRL 0xd406
#define RX_AGG_DISABLE 0x0010
#define USB_RX_EARLY_SIZE 0xd42e
#define USB_BMU_RESET 0xd4b0
#define BMU_RESET_EP_IN 0x01
#define BMU_RESET_EP_OUT 0x02
/* OCP */
#define OCP_BASE_MII 0xa400
#define OCP_MII_REGISTERS 16 /* of the PHY, by clause 22; behind them are others */
#define PHY_ID_RTL8153 0x001cc916u
#define OCP_PHY_STATUS 0xa420
#define PHY_STAT_LAN_ON 3
#define OCP_PHY_PATCH_STAT 0xb800
#define PATCH_READY 0x40
#define OCP_PHY_PATCH_CMD 0xb820
#define PATCH_REQUEST 0x10
/* The endpoint for interrupts. */
#define INTR_LINK 0x0004
#define INTR_SIZE 2

/* Descriptors in front of frames: of sent frames two words, of received frames six. */
#define TX_LEN_MAX 0x3ffffu
#define GTSENDV4 (1u << 28)
#define GTTCPHO_SHIFT 18
#define GTTCPHO_MAX 0x7fu
#define UDP_CS (1u << 31)
#define TCP_CS (1u << 30)
#define MSS_SHIFT 17
#define MSS_MAX 0x7ffu
#define TCPHO_SHIFT 17
#define TCPHO_MAX 0x7ffu
#define TX_VLAN_TAG (1u << 16)
#define RX_DESC_SIZE 24
#define RX_ALIGN 8
#define RX_FRAME_CHECK 4
#define RD_UDP_CS (1u << 23)
#define RD_TCP_CS (1u << 22)
#define RD_IPV4_CS (1u << 19)
#define UDPF (1u << 22)
#define TCPF (1u << 21)
#define RX_VLAN_TAG (1u << 16)

/* What differs between the chips. */
struct rtl_chip {
    struct usb_kind kind;
    u16 version, speed;
    unsigned early_unit; /* octets in one unit of USB_RX_EARLY_SIZE */
    u16 vlan_register, vlan_bit;
};
struct rtl8152 {
    struct usb_adapter usb;
    const struct rtl_chip *chip;
    u8 units[UNITS][UNIT_SIZE];
    u16 mii[PHY_REGISTERS];
};

static void show_link(struct rtl8152 *r)
{
    u8 message[INTR_SIZE];

    put16(r->units[PLA_UNIT] + PLA_PHYSTATUS, r->usb.nic.link ? r->chip->speed : 0);
    phy_show_link(r->mii, r->usb.nic.link);
    memcpy(r->units[OCP_UNIT] + OCP_BASE_MII, r->mii, OCP_MII_REGISTERS * sizeof(*r->mii));
    put16(message, r->usb.nic.link ? INTR_LINK : 0);
    report(&r->usb, message, sizeof(message));
}

static void link_changed(struct usb_adapter *a)
{
    show_link((struct rtl8152 *)a);
}

/* What the chip changes by itself, or has ended as soon as the driver looks again. */
static void settle(struct rtl8152 *r)
{
    u8 *usb = r->units[USB_UNIT], *pla = r->units[PLA_UNIT], *ocp = r->units[OCP_UNIT];

    if (pla[PLA_CR] & CR_RST || !(usb[USB_BMU_RESET] & BMU_RESET_EP_IN))
        r->usb.waiting = 0;
    pla[PLA_CR] &= (u8)~CR_RST;
    pla[PLA_OOB_CTRL] |= TXFIFO_EMPTY | RXFIFO_EMPTY | LINK_LIST_READY;
    put16(pla + PLA_TCR0, get16(pla + PLA_TCR0) | TCR0_TX_EMPTY);
    put16(pla + PLA_TCR1, (get16(pla + PLA_TCR1) & ~VERSION_MASK) | r->chip->version);
    pla[PLA_BOOT_CTRL] |= AUTOLOAD_DONE;
    put16(pla + TALLY_RX_MISSED, r->usb.overruns);
    for (unsigned number = 0; number < OCP_MII_REGISTERS; number++)
        phy_write(r->mii, number, get16(ocp + OCP_BASE_MII + 2 * number));
    memcpy(ocp + OCP_BASE_MII, r->mii, OCP_MII_REGISTERS * sizeof(*r->mii));
    put16(ocp + OCP_PHY_STATUS, PHY_STAT_LAN_ON);
    ocp[OCP_PHY_PATCH_STAT] = ocp[OCP_PHY_PATCH_CMD] & PATCH_REQUEST ? PATCH_READY : 0;
}

static void power_on_rtl(struct usb_adapter *a)
{
    struct rtl8152 *r = (struct rtl8152 *)a;

    memset(r->units, 0, sizeof(r->units));
    r->units[USB_UNIT][USB_BMU_RESET] = BMU_RESET_EP_IN | BMU_RESET_EP_OUT;
    phy_power_on(r->mii, PHY_ID_RTL8153, true, a->nic.link);
    memcpy(r->units[PLA_UNIT] + PLA_IDR, a->nic.mac, MAC_SIZE);
    memcpy(r->units[PLA_UNIT] + PLA_BACKUP, a->nic.mac, MAC_SIZE);
    show_link(r);
    settle(r);
}

static u8 *place(struct rtl8152 *r, unsigned unit, u32 at)
{
    u32 base = get16(r->units[PLA_UNIT] + PLA_OCP_GPHY_BASE) & ~OCP_WINDOW_MASK;

    if (unit == PLA_UNIT && (at & ~OCP_WINDOW_MASK) == OCP_WINDOW)
        return r->units[OCP_UNIT] + (base | (at & OCP_WINDOW_MASK));
    return r->units[unit] + at;
}

static int request(struct usb_adapter *a, const u8 *setup, u8 *data)
{
    struct rtl8152 *r = (struct rtl8152 *)a;
    u32 at = get16(setup + SETUP_VALUE), index = get16(setup + SETUP_INDEX), size = get16(setup + SETUP_LENGTH);
    unsigned unit = index & MCU_TYPE_PLA ? PLA_UNIT : USB_UNIT;

    if (setup[SETUP_REQUEST] != RTL8152_REQ_REGS || at + size > UNIT_SIZE)
        return USB_STALL;
    if (setup[SETUP_REQUEST_TYPE] & USB_DIR_IN) {
        settle(r);
        for (u32 i = 0; i < size; i++)
            data[i] = *place(r, unit, at + i);
        return (int)size;
    }
    /* The low bits of the index choose the octets of a word. */
    for (u32 i = 0; i < size; i++)
        if (size > BYTE_EN_WORD_SIZE || index >> i & 1)
            *place(r, unit, at + i) = data[i];
    settle(r);
    return 0;
}

static bool accepts(struct usb_adapter *a, const u8 *frame)
{
    const u8 *pla = ((struct rtl8152 *)a)->units[PLA_UNIT];
    u32 filter = get32(pla + PLA_RCR), hash = ethernet_crc(frame, MAC_SIZE) >> MULTICAST_HASH_SHIFT;

    if (!(pla[PLA_CR] & CR_RE) || get16(pla + PLA_MISC_1) & RXDY_GATED_EN)
        return false;
    if (filter & RCR_AAP)
        return true;
    if (is_broadcast(frame))
        return filter & RCR_AB;
    if (is_multicast(frame))
        return filter & RCR_AM && pla[PLA_MAR + MULTICAST_HASH_SIZE - 1 - hash / 8] >> hash % 8 & 1;
    return filter & RCR_APM && !memcmp(frame, pla + PLA_IDR, MAC_SIZE);
}

/* Sends one frame or one large segment, which has its descriptor in front. */
static void send_described(struct usb_adapter *a, u8 *frame, size_t size, u32 opts1, u32 opts2)
{
    size_t transport = heads_of(frame, size).transport;

    if (!(((struct rtl8152 *)a)->units[PLA_UNIT][PLA_CR] & CR_TE))
        return;
    /* A checksum at another place than that of the descriptor would be wrong. */
    if (!(opts1 & GTSENDV4) && opts2 & (UDP_CS | TCP_CS) && (opts2 >> TCPHO_SHIFT & TCPHO_MAX) == transport)
        find_and_put_checksum(frame, size);
    if (opts2 & TX_VLAN_TAG) {
        frame = with_vlan_tag(frame, swapped(opts2));
        size += VLAN_TAG;
    }
    if (!(opts1 & GTSENDV4))
        send_from_transfer(a, frame, size);
    else if ((opts1 >> GTTCPHO_SHIFT & GTTCPHO_MAX) == transport)
        send_segments(&a->nic, frame, size, opts2 >> MSS_SHIFT & MSS_MAX);
}

static void send_transfer(struct usb_adapter *a, u8 *data, size_t size)
{
    send_each(a, data, size, TX_LEN_MAX, send_described);
}

static void describe(struct rtl8152 *r, struct frame *frame, u8 *descriptor)
{
    struct heads heads = heads_of(frame->octets, frame->size);
    bool is_right = has_right_checksum(frame->octets, frame->size);
    u32 opts2 = heads.protocol ? RD_IPV4_CS : 0, opts3 = 0;

    if (heads.protocol == PROTOCOL_TCP) {
        opts2 |= RD_TCP_CS;
        opts3 |= is_right ? 0 : TCPF;
    }
    if (heads.protocol == PROTOCOL_UDP) {
        opts2 |= RD_UDP_CS;
        opts3 |= is_right ? 0 : UDPF;
    }
    if (has_vlan_tag(frame->octets, frame->size) && get16(r->units[PLA_UNIT] + r->chip->vlan_register) & r->chip->vlan_bit)
        opts2 |= RX_VLAN_TAG | swapped(take_vlan_tag(frame->octets, &frame->size));
    memset(descriptor, 0, RX_DESC_SIZE);
    put32(descriptor, (u32)frame->size + RX_FRAME_CHECK);
    put32(descriptor + 4, opts2);
    put32(descriptor + 8, opts3);
}

/* The chip ends a transfer when it has so many octets that there may be no room for one more frame. */
static size_t pack(struct usb_adapter *a, u8 *data, size_t room)
{
    struct rtl8152 *r = (struct rtl8152 *)a;
    const u8 *usb = r->units[USB_UNIT];
    size_t enough = get16(usb + USB_RX_EARLY_SIZE) * r->chip->early_unit, used = 0;
    struct frame *frame;

    while ((frame = next_frame(a))) {
        size_t begin = rounded_up(used, RX_ALIGN);

        if (begin + RX_DESC_SIZE + frame->size + RX_FRAME_CHECK > room)
            break;
        memset(data + used, 0, begin - used);
        describe(r, frame, data + begin);
        used = begin + RX_DESC_SIZE + put_frame(a, data + begin + RX_DESC_SIZE, RX_FRAME_CHECK);
        if (used >= enough || get16(usb + USB_USB_CTRL) & RX_AGG_DISABLE)
            break;
    }
    return used;
}

#define RTL_KIND(name, id, number)                                                                                     \
    {                                                                                                                  \
        .product = name, .vendor_id = 0x0bda, .product_id = id, .release = number, .speed = USB_SPEED_SUPER,           \
        .bulk_in = USB_DIR_IN | 1, .bulk_out = 2, .status_in = USB_DIR_IN | 3,                      \
        .status_size = INTR_SIZE, .status_interval = 8, .power_on = power_on_rtl, .request = request,                  \
        .send = send_transfer, .accepts = accepts, .pack = pack, .listens = link_changed,                              \
        .link_changed = link_changed,                                                                                  \
    }

static struct nic *make_nic(unsigned which)
{
    static const struct rtl_chip chips[] = {
        {RTL_KIND("RTL8153", 0x8153, 0x3100), 0x5c30, PHY_1000BPS | LINK_STATUS | FULL_DUP, 4, PLA_CPCR, CPCR_RX_VLAN},
        {RTL_KIND("RTL8156B", 0x8156, 0x3104), 0x7410, PHY_2500BPS | LINK_STATUS | FULL_DUP, 8, PLA_RCR1, OUTER_VLAN},
    };
    const char *chip = argument("chip");
    struct rtl8152 *r = new_nic(which, sizeof(*r));

    r->chip = &chips[chip && !strcmp(chip, "rtl8156b")];
    return plug_adapter(which, &r->usb, &r->chip->kind);
}
