/*
 * Microchip LAN7800, whose core is that of the LAN7515 of a Raspberry Pi 3B+: Gigabit Ethernet, at high speed of USB as
 * there, driver lan78xx, with the PHY driver microchip.
 *
 * Source of the register facts: drivers/net/usb/lan78xx.c and .h, drivers/net/phy/microchip.c and microchipphy.h of Linux
 * 6.1 and 6.12, whose names the registers have here.
 * Modelled: transfers of several frames in both directions, checksums in both directions (received: the sum of all
 * octets), LSO of IPv4, VLAN tags and the VLAN filter, the filters by address and by the multicast hash, the interrupt of
 * the PHY over the endpoint for interrupts, the counter of frames that were lost.
 * Not modelled: EEPROM and fuses (the chip knows its address), the other counters, offloads of IPv6, wake-on-LAN, EEE and
 * other registers of the PHY behind MMD (they read 0), pause frames, coalescing by time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "device.h"
#include "phy.h"
#include "usb.h"
#include "xhci.h"

enum { REQUEST_WRITE_REGISTER = 0xa0, REQUEST_READ_REGISTER = 0xa1, REQUEST_GET_STATS = 0xa2 };
#define REGISTERS_SIZE 0x2000u
#define ID_REV 0x000
#define ID_REV_LAN7800 0x78000002u
#define INT_STS 0x00c
#define HW_CFG 0x010
#define HW_CFG_MEF 0x00000010u
#define HW_CFG_RESETS 0x00000003u /* LRST, SRST */
#define PMT_CTL 0x014
#define PMT_CTL_READY 0x00000080u
#define PMT_CTL_PHY_RST 0x00000010u
#define DP_SEL 0x024
#define DP_SEL_DPRDY 0x80000000u
#define DP_SEL_RSEL_MASK 0x0fu
#define DP_SEL_RSEL_VLAN_DA 0x01u
#define DP_CMD 0x028
#define DP_CMD_WRITE 0x00000001u
#define DP_ADDR 0x02c
#define DP_DATA 0x030
/* The memory behind this port, in words: VLANs, then the multicast hash. */
#define VHF_VLAN_LEN 128
#define VHF_HASH_LEN 16
#define MULTICAST_HASH_SHIFT 23
#define VLAN_ID_MASK 0x0fffu
#define E2P_CMD 0x040
#define E2P_CMD_EPC_BUSY 0x80000000u
#define E2P_CMD_EPC_TIMEOUT 0x00000400u
#define E2P_DATA 0x044
#define E2P_DATA_NONE 0xffu
#define USB_CFG0 0x080
#define USB_CFG_BCE 0x00000020u
#define BURST_CAP 0x090
#define BURST_CAP_UNIT 512u /* a packet at high speed */
#define INT_EP_CTL 0x098
#define INT_EP_PHY_INT 0x00020000u
#define RFE_CTL 0x0b0
#define RFE_CTL_TCPUDP_COE 0x00001000u
#define RFE_CTL_BCAST_EN 0x00000400u
#define RFE_CTL_MCAST_EN 0x00000200u
#define RFE_CTL_UCAST_EN 0x00000100u
#define RFE_CTL_VLAN_STRIP 0x00000080u
#define RFE_CTL_VLAN_FILTER 0x00000020u
#define RFE_CTL_MCAST_HASH 0x00000008u
#define RFE_CTL_DA_PERFECT 0x00000002u
#define FCT_RX_CTL 0x0c0
#define FCT_TX_CTL 0x0c4
#define FCT_CTL_EN 0x80000000u
#define FCT_CTL_RST 0x40000000u
#define FCT_CTL_DIS 0x00100000u
#define MAC_CR 0x100
#define MAC_CR_RST 0x00000001u
#define MAC_RX 0x104
#define MAC_TX 0x108
#define MAC_DISABLED 0x00000002u
#define MAC_ENABLED 0x00000001u
#define RX_ADDRH 0x118
#define RX_ADDRL 0x11c
#define MII_ACC 0x120
#define MII_ACC_PHY_ADDR_SHIFT 11
#define MII_ACC_MIIRINDA_SHIFT 6
#define MII_ACC_MII_WRITE 0x00000002u
#define MII_ACC_MII_BUSY 0x00000001u
#define MII_DATA 0x124
#define MII_DATA_MASK 0xffffu
#define MAF_HI(index) (0x400 + 8 * (index))
#define MAF_LO(index) (0x404 + 8 * (index))
#define MAF_HI_VALID 0x80000000u
#define NUM_OF_MAF 33
/* The statistics: words. */
#define STATS_SIZE 188
#define STATS_RX_DROPPED_FRAMES 6

/* The PHY. */
#define PHY_ID_LAN88XX 0x0007c132u
enum { LAN88XX_INT_MASK = 25, LAN88XX_INT_STS = 26, LAN88XX_EXT_PAGE_ACCESS = 31 };
#define INT_MASK_MDINTPIN_EN 0x8000u
#define INT_LINK_CHANGE 0x2000u
#define INT_AUTONEG_DONE 0x0400u
/* These registers exist once more on other pages. */
#define FIRST_PAGED 16
#define LAST_PAGED 30
/* In front of a sent frame: two words. */
#define TX_CMD_A_LSO 0x08000000u
#define TX_CMD_A_IPE 0x04000000u
#define TX_CMD_A_TPE 0x02000000u
#define TX_CMD_A_IVTG 0x01000000u
#define TX_CMD_A_LEN_MASK 0x000fffffu
#define TX_CMD_B_MSS_SHIFT 16
#define TX_CMD_B_MSS_MASK 0x3fffu
#define TX_CMD_B_VTAG_MASK 0xffffu
/* In front of a received frame: two words and two octets. */
#define RX_CMD_SIZE 10
#define RX_ALIGN 4
#define RX_FRAME_CHECK 4
#define RX_CMD_A_TCE 0x40000000u
#define RX_CMD_A_FVTG 0x00800000u
#define RX_CMD_A_ICSM 0x00004000u
#define RX_CMD_B_CSUM 6 /* its octets, in the order of the network */

struct lan78xx {
    struct usb_adapter usb;
    u32 regs[REGISTERS_SIZE / 4], vhf[VHF_VLAN_LEN + VHF_HASH_LEN];
    u16 phy[PHY_REGISTERS], paged[PHY_REGISTERS];
    bool told; /* the interrupt that is pending in the PHY */
};

static void phy_interrupt(struct lan78xx *l, u32 bits)
{
    u8 message[4];

    l->phy[LAN88XX_INT_STS] |= (u16)bits;
    if (!(l->phy[LAN88XX_INT_STS] & l->phy[LAN88XX_INT_MASK]) || l->told)
        return;
    if (!(l->phy[LAN88XX_INT_MASK] & INT_MASK_MDINTPIN_EN) || !(l->regs[INT_EP_CTL / 4] & INT_EP_PHY_INT))
        return;
    l->told = true;
    put32(message, INT_EP_PHY_INT);
    report(&l->usb, message, sizeof(message));
}

static void link_changed(struct usb_adapter *a)
{
    struct lan78xx *l = (struct lan78xx *)a;

    phy_show_link(l->phy, a->nic.link);
    phy_interrupt(l, INT_LINK_CHANGE);
}

static void power_on_lan78xx(struct usb_adapter *a)
{
    struct lan78xx *l = (struct lan78xx *)a;

    memset(l->regs, 0, sizeof(l->regs));
    memset(l->vhf, 0, sizeof(l->vhf));
    memset(l->paged, 0, sizeof(l->paged));
    phy_power_on(l->phy, PHY_ID_LAN88XX, true, a->nic.link);
    l->told = false;
    l->regs[ID_REV / 4] = ID_REV_LAN7800;
    l->regs[PMT_CTL / 4] = PMT_CTL_READY;
    l->regs[DP_SEL / 4] = DP_SEL_DPRDY;
    l->regs[RX_ADDRL / 4] = get32(a->nic.mac);
    l->regs[RX_ADDRH / 4] = get16(a->nic.mac + 4);
}

static u16 *phy_register(struct lan78xx *l, unsigned number)
{
    bool is_paged = l->phy[LAN88XX_EXT_PAGE_ACCESS] && number >= FIRST_PAGED && number <= LAST_PAGED;

    return is_paged ? &l->paged[number] : &l->phy[number];
}

static u32 mii_read(struct lan78xx *l, unsigned number)
{
    u16 *own = phy_register(l, number), value = number == MII_MMD_DATA ? 0 : *own;

    if (own == &l->phy[LAN88XX_INT_STS]) {
        *own = 0;
        l->told = false;
    }
    return value;
}

static void mii_write(struct lan78xx *l, unsigned number, u32 value)
{
    u16 *own = phy_register(l, number);

    if (own == &l->phy[LAN88XX_INT_STS])
        return;
    if (own != &l->phy[number])
        *own = (u16)value;
    else if (phy_write(l->phy, number, value))
        l->phy[LAN88XX_INT_STS] |= INT_LINK_CHANGE | INT_AUTONEG_DONE;
    phy_interrupt(l, 0);
}

static void access_phy(struct lan78xx *l, u32 value)
{
    unsigned number = value >> MII_ACC_MIIRINDA_SHIFT & (PHY_REGISTERS - 1);
    bool is_there = (value >> MII_ACC_PHY_ADDR_SHIFT & 31) == PHY_ADDRESS;

    if (!(value & MII_ACC_MII_WRITE))
        l->regs[MII_DATA / 4] = is_there ? mii_read(l, number) : MII_DATA_MASK;
    else if (is_there)
        mii_write(l, number, l->regs[MII_DATA / 4] & MII_DATA_MASK);
}

/* A part that is disabled says so. */
static u32 with_state(u32 value, u32 enabled, u32 disabled)
{
    return (value & ~disabled) | (value & enabled ? 0 : disabled);
}

static void store_register(struct lan78xx *l, u32 at, u32 value)
{
    u32 *own = &l->regs[at / 4], data_port = l->regs[DP_ADDR / 4];

    switch (at) {
    case ID_REV: return;
    case INT_STS: value = *own & ~value; break;
    case HW_CFG: value &= ~HW_CFG_RESETS; break;
    case PMT_CTL: value = (value & ~PMT_CTL_PHY_RST) | PMT_CTL_READY; break;
    case DP_SEL: value |= DP_SEL_DPRDY; break;
    case DP_CMD:
        if (value & DP_CMD_WRITE && (l->regs[DP_SEL / 4] & DP_SEL_RSEL_MASK) == DP_SEL_RSEL_VLAN_DA &&
            data_port < COUNT(l->vhf))
            l->vhf[data_port] = l->regs[DP_DATA / 4];
        break;
    case E2P_CMD:
        l->regs[E2P_DATA / 4] = E2P_DATA_NONE;
        value &= ~(E2P_CMD_EPC_BUSY | E2P_CMD_EPC_TIMEOUT);
        break;
    case FCT_RX_CTL:
        if (value & FCT_CTL_RST)
            l->usb.waiting = 0;
        /* fall through */
    case FCT_TX_CTL: value = with_state(value & ~FCT_CTL_RST, FCT_CTL_EN, FCT_CTL_DIS); break;
    case MAC_CR: value &= ~MAC_CR_RST; break;
    case MAC_RX: case MAC_TX: value = with_state(value, MAC_ENABLED, MAC_DISABLED); break;
    case MII_ACC:
        access_phy(l, value);
        value &= ~MII_ACC_MII_BUSY;
    }
    *own = value;
    if (at == INT_EP_CTL)
        phy_interrupt(l, 0);
}

static int request(struct usb_adapter *a, const u8 *setup, u8 *data)
{
    struct lan78xx *l = (struct lan78xx *)a;
    u32 at = get16(setup + SETUP_INDEX) & ~3u;

    if (setup[SETUP_REQUEST] == REQUEST_GET_STATS) {
        memset(data, 0, STATS_SIZE);
        put32(data + 4 * STATS_RX_DROPPED_FRAMES, a->overruns);
        return STATS_SIZE;
    }
    if (at >= REGISTERS_SIZE)
        return USB_STALL;
    if (setup[SETUP_REQUEST] == REQUEST_READ_REGISTER) {
        put32(data, l->regs[at / 4]);
        return 4;
    }
    if (setup[SETUP_REQUEST] != REQUEST_WRITE_REGISTER)
        return USB_STALL;
    store_register(l, at, get32(data));
    return 0;
}

static bool passes_perfect_filter(struct lan78xx *l, const u8 *frame)
{
    for (unsigned i = 0; i < NUM_OF_MAF; i++) {
        u32 high = l->regs[MAF_HI(i) / 4];

        if (high & MAF_HI_VALID && (high & 0xffff) == get16(frame + 4) && l->regs[MAF_LO(i) / 4] == get32(frame))
            return true;
    }
    return false;
}

static bool passes_vlan_filter(struct lan78xx *l, const u8 *frame)
{
    u32 vlan = get_be16(frame + ETHERNET_HEAD) & VLAN_ID_MASK;

    if (!(l->regs[RFE_CTL / 4] & RFE_CTL_VLAN_FILTER) || get_be16(frame + ETHERNET_TYPE) != TYPE_VLAN)
        return true;
    return l->vhf[vlan / 32] >> vlan % 32 & 1;
}

static bool accepts(struct usb_adapter *a, const u8 *frame)
{
    struct lan78xx *l = (struct lan78xx *)a;
    u32 filter = l->regs[RFE_CTL / 4], hash = ethernet_crc(frame, MAC_SIZE) >> MULTICAST_HASH_SHIFT;

    if (!(l->regs[MAC_RX / 4] & MAC_ENABLED) || !(l->regs[FCT_RX_CTL / 4] & FCT_CTL_EN))
        return false;
    if (!passes_vlan_filter(l, frame))
        return false;
    if (is_broadcast(frame))
        return filter & RFE_CTL_BCAST_EN;
    if (filter & RFE_CTL_DA_PERFECT && passes_perfect_filter(l, frame))
        return true;
    if (!is_multicast(frame))
        return filter & RFE_CTL_UCAST_EN;
    if (filter & RFE_CTL_MCAST_HASH && l->vhf[VHF_VLAN_LEN + hash / 32] >> hash % 32 & 1)
        return true;
    return filter & RFE_CTL_MCAST_EN;
}

/* Sends one frame or one large segment, which has its two words in front. */
static void send_described(struct usb_adapter *a, u8 *frame, size_t size, u32 command_a, u32 command_b)
{
    struct lan78xx *l = (struct lan78xx *)a;

    if (!(l->regs[MAC_TX / 4] & MAC_ENABLED) || !(l->regs[FCT_TX_CTL / 4] & FCT_CTL_EN))
        return;
    if (command_a & (TX_CMD_A_IPE | TX_CMD_A_TPE) && !(command_a & TX_CMD_A_LSO))
        find_and_put_checksum(frame, size);
    if (command_a & TX_CMD_A_IVTG) {
        frame = with_vlan_tag(frame, command_b & TX_CMD_B_VTAG_MASK);
        size += VLAN_TAG;
    }
    if (command_a & TX_CMD_A_LSO)
        send_segments(&a->nic, frame, size, command_b >> TX_CMD_B_MSS_SHIFT & TX_CMD_B_MSS_MASK);
    else
        send_from_transfer(a, frame, size);
}

static void send_transfer(struct usb_adapter *a, u8 *data, size_t size)
{
    send_each(a, data, size, TX_CMD_A_LEN_MASK, send_described);
}

static void describe(struct lan78xx *l, struct frame *frame, u8 *commands)
{
    u32 filter = l->regs[RFE_CTL / 4], command_a = 0, command_b = 0, sum = 0;

    if (has_vlan_tag(frame->octets, frame->size)) {
        command_a |= RX_CMD_A_FVTG;
        if (filter & RFE_CTL_VLAN_STRIP)
            command_b = take_vlan_tag(frame->octets, &frame->size);
    }
    if (filter & RFE_CTL_TCPUDP_COE) {
        /* Of all octets behind the head, also of the padding. */
        sum = sum_of(frame->octets + ETHERNET_HEAD, frame->size - ETHERNET_HEAD, 0);
        if (checksum_place(heads_of(frame->octets, frame->size)) && !has_right_checksum(frame->octets, frame->size))
            command_a |= RX_CMD_A_TCE;
    } else
        command_a |= RX_CMD_A_ICSM;
    put32(commands, command_a | (u32)(frame->size + RX_FRAME_CHECK));
    put32(commands + 4, command_b);
    put_be16(commands + RX_CMD_B_CSUM, sum);
    put16(commands + 8, 0);
}

static size_t pack(struct usb_adapter *a, u8 *data, size_t room)
{
    struct lan78xx *l = (struct lan78xx *)a;
    size_t cap = (l->regs[BURST_CAP / 4] & 0xff) * BURST_CAP_UNIT, used = 0;
    struct frame *frame;

    if (l->regs[USB_CFG0 / 4] & USB_CFG_BCE && cap && cap < room)
        room = cap;
    while ((frame = next_frame(a))) {
        size_t begin = rounded_up(used, RX_ALIGN);

        if (begin + RX_CMD_SIZE + frame->size + RX_FRAME_CHECK > room)
            break;
        memset(data + used, 0, begin - used);
        describe(l, frame, data + begin);
        used = begin + RX_CMD_SIZE + put_frame(a, data + begin + RX_CMD_SIZE, RX_FRAME_CHECK);
        if (!(l->regs[HW_CFG / 4] & HW_CFG_MEF))
            break;
    }
    return used;
}

static struct nic *make_nic(unsigned which)
{
    static const struct usb_kind kind = {
        .product = "LAN7800", .vendor_id = 0x0424, .product_id = 0x7800, .release = 0x0300, .speed = USB_SPEED_HIGH,
        .bulk_in = USB_DIR_IN | 1, .bulk_out = 2, .status_in = USB_DIR_IN | 3, .status_size = 16, .status_interval = 4,
        .power_on = power_on_lan78xx, .request = request, .send = send_transfer, .accepts = accepts, .pack = pack,
        .link_changed = link_changed,
    };
    struct lan78xx *l = new_nic(which, sizeof(*l));

    return plug_adapter(which, &l->usb, &kind);
}
