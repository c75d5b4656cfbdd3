/*
 * A USB gadget with the Ethernet Control Model (CDC ECM), as Linux on a Raspberry Pi Zero, or a phone: driver cdc_ether.
 *
 * Source: Universal Serial Bus Class Definitions for Communications Devices 1.2, its subclass specification for Ethernet
 * devices (ECM 1.2), whose names the requests have here, and how Linux's own gadget (drivers/usb/gadget/function/f_ecm.c)
 * answers them.
 * Modelled: both interfaces with their functional descriptors, the address in a string, the packet filter, notifications
 * of the connection and of its speed. Each transfer is one frame, as in the standard.
 * Not modelled: statistics, filters by a list of multicast addresses (Linux's gadget has none), power management.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "device.h"
#include "usb.h"
#include "xhci.h"

#define USB_CLASS_COMM 0x02
#define USB_CDC_SUBCLASS_ETHERNET 0x06
#define USB_CLASS_CDC_DATA 0x0a
/* Functional descriptors. */
#define CS_INTERFACE 0x24
enum { USB_CDC_HEADER_TYPE = 0x00, USB_CDC_UNION_TYPE = 0x06, USB_CDC_ETHERNET_TYPE = 0x0f };
#define MAX_SEGMENT_SIZE 1514
enum { CONTROL_INTERFACE = 0, DATA_INTERFACE = 1 };
#define USB_CDC_SET_ETHERNET_PACKET_FILTER 0x43
enum {
    PACKET_TYPE_PROMISCUOUS = 1 << 0,
    PACKET_TYPE_ALL_MULTICAST = 1 << 1,
    PACKET_TYPE_DIRECTED = 1 << 2,
    PACKET_TYPE_BROADCAST = 1 << 3,
};
/* Notifications: a head like that of a request, and the speeds to and from the host. */
#define NOTIFICATION_TYPE 0xa1 /* from an interface, of its class */
#define NOTIFICATION_SIZE 8
enum { USB_CDC_NOTIFY_NETWORK_CONNECTION = 0x00, USB_CDC_NOTIFY_SPEED_CHANGE = 0x2a };
#define SPEEDS_SIZE 8
#define BITS_PER_SECOND 425984000u /* as Linux's gadget says at high speed: 13 packets of 512 octets in 125 us */

struct cdc {
    struct usb_adapter usb;
    u32 filter;
};

static void notify(struct usb_adapter *a, u8 what, u32 value, size_t more)
{
    u8 message[NOTIFICATION_SIZE + SPEEDS_SIZE] = {NOTIFICATION_TYPE, what};

    put16(message + SETUP_VALUE, value);
    put16(message + SETUP_INDEX, CONTROL_INTERFACE);
    put16(message + SETUP_LENGTH, (u32)more);
    put32(message + NOTIFICATION_SIZE, a->nic.link ? BITS_PER_SECOND : 0);
    put32(message + NOTIFICATION_SIZE + 4, a->nic.link ? BITS_PER_SECOND : 0);
    report(a, message, NOTIFICATION_SIZE + more);
}

static void show_link(struct usb_adapter *a)
{
    notify(a, USB_CDC_NOTIFY_NETWORK_CONNECTION, a->nic.link, 0);
    notify(a, USB_CDC_NOTIFY_SPEED_CHANGE, 0, SPEEDS_SIZE);
}

static void power_on_cdc(struct usb_adapter *a)
{
    ((struct cdc *)a)->filter = PACKET_TYPE_DIRECTED | PACKET_TYPE_BROADCAST;
}

static size_t interfaces(struct usb_adapter *a, u8 *at)
{
    static const u8 functional[] = {
        5, CS_INTERFACE, USB_CDC_HEADER_TYPE, 0x10, 0x01, /* release 1.10 */
        5, CS_INTERFACE, USB_CDC_UNION_TYPE, CONTROL_INTERFACE, DATA_INTERFACE,
        13, CS_INTERFACE, USB_CDC_ETHERNET_TYPE, STRING_MAC, 0, 0, 0, 0, /* no statistics */
        (u8)MAX_SEGMENT_SIZE, MAX_SEGMENT_SIZE >> 8, 0, 0, 0, /* no filters */
    };
    size_t size = put_interface(at, CONTROL_INTERFACE, 0, 1, USB_CLASS_COMM, USB_CDC_SUBCLASS_ETHERNET);

    memcpy(at + size, functional, sizeof(functional));
    size += sizeof(functional);
    size += put_endpoint(a, at + size, a->kind->status_in);
    /* Data flow in the second alternate setting. */
    size += put_interface(at + size, DATA_INTERFACE, 0, 0, USB_CLASS_CDC_DATA, 0);
    size += put_interface(at + size, DATA_INTERFACE, 1, 2, USB_CLASS_CDC_DATA, 0);
    size += put_endpoint(a, at + size, a->kind->bulk_in);
    return size + put_endpoint(a, at + size, a->kind->bulk_out);
}

static int request(struct usb_adapter *a, const u8 *setup, u8 *data)
{
    (void)data;
    if (setup[SETUP_REQUEST] != USB_CDC_SET_ETHERNET_PACKET_FILTER)
        return USB_STALL;
    ((struct cdc *)a)->filter = get16(setup + SETUP_VALUE);
    return 0;
}

static bool accepts(struct usb_adapter *a, const u8 *frame)
{
    u32 filter = ((struct cdc *)a)->filter;

    if (filter & PACKET_TYPE_PROMISCUOUS)
        return true;
    if (is_broadcast(frame))
        return filter & PACKET_TYPE_BROADCAST;
    if (is_multicast(frame))
        return filter & PACKET_TYPE_ALL_MULTICAST;
    return filter & PACKET_TYPE_DIRECTED && !memcmp(frame, a->nic.mac, MAC_SIZE);
}

static void send_transfer(struct usb_adapter *a, u8 *data, size_t size)
{
    /* The driver adds one octet to a frame that would fill its last packet. */
    if (size <= MAX_SEGMENT_SIZE + VLAN_TAG)
        send_from_transfer(a, data, size);
}

static size_t pack(struct usb_adapter *a, u8 *data, size_t room)
{
    struct frame *frame = next_frame(a);
    size_t size = frame->size;

    if (size > room)
        return 0;
    memcpy(data, frame->octets, size);
    drop_frame(a);
    return size;
}

static struct nic *make_nic(unsigned which)
{
    static const struct usb_kind kind = {
        .product = "CDC Ethernet Gadget", .vendor_id = 0x0525, .product_id = 0xa4a1, .release = 0x0510,
        .speed = USB_SPEED_HIGH, .device_class = USB_CLASS_COMM, .bulk_in = USB_DIR_IN | 1, .bulk_out = 1,
        .status_in = USB_DIR_IN | 2, .status_size = ADAPTER_REPORT_MOST, .status_interval = 9, .power_on = power_on_cdc,
        .request = request, .send = send_transfer, .accepts = accepts, .pack = pack, .listens = show_link,
        .link_changed = show_link, .interfaces = interfaces,
    };
    struct cdc *cdc = new_nic(which, sizeof(*cdc));

    return plug_adapter(which, &cdc->usb, &kind);
}
