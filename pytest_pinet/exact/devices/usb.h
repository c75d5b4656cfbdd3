/*
 * What models of USB network adapters share: descriptors, standard requests, and the frames that wait in the chip for a
 * transfer to the driver. xhci.h is the host controller to which an adapter is connected.
 *
 * Source: Universal Serial Bus 3.2 Specification, chapter 9, whose names the requests and fields have here.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

/* The setup packet of a control transfer: octets. */
#define SETUP_SIZE 8
enum { SETUP_REQUEST_TYPE = 0, SETUP_REQUEST = 1, SETUP_VALUE = 2, SETUP_INDEX = 4, SETUP_LENGTH = 6 };
#define USB_DIR_IN 0x80
#define USB_TYPE_MASK 0x60
#define USB_TYPE_STANDARD 0x00
#define USB_RECIP_MASK 0x1f
#define USB_RECIP_DEVICE 0x00
#define USB_RECIP_ENDPOINT 0x02
#define USB_SELF_POWERED 1
enum {
    USB_REQ_GET_STATUS = 0,
    USB_REQ_CLEAR_FEATURE = 1,
    USB_REQ_GET_DESCRIPTOR = 6,
    USB_REQ_GET_CONFIGURATION = 8,
    USB_REQ_SET_CONFIGURATION = 9,
    USB_REQ_SET_INTERFACE = 11,
};
#define USB_ENDPOINT_HALT 0
enum {
    USB_DT_DEVICE = 1,
    USB_DT_CONFIG = 2,
    USB_DT_STRING = 3,
    USB_DT_INTERFACE = 4,
    USB_DT_ENDPOINT = 5,
    USB_DT_BOS = 15,
    USB_DT_SS_ENDPOINT_COMP = 48,
};
#define USB_CLASS_VENDOR_SPEC 0xff
#define USB_ENDPOINT_XFER_BULK 2
#define USB_ENDPOINT_XFER_INT 3
#define USB_ENDPOINT_NUMBER_MASK 0x0f
#define USB_DT_DEVICE_SIZE 18
#define USB_DT_CONFIG_SIZE 9
#define USB_DT_INTERFACE_SIZE 9
#define USB_DT_ENDPOINT_SIZE 7
#define USB_DT_SS_EP_COMP_SIZE 6
/* Of a bulk endpoint, the octets of a packet. */
enum { BULK_PACKET_HIGH = 512, BULK_PACKET_SUPER = 1024 };
#define USB_LANGUAGE_ENGLISH 0x0409
/* Indices of strings. */
enum { STRING_LANGUAGES = 0, STRING_VENDOR = 1, STRING_PRODUCT = 2, STRING_SERIAL = 3, STRING_MAC = 4 };
/* What a request returns that the adapter does not know. */
#define USB_STALL (-1)

/* The numbers are those of xHCI (default speed IDs). */
enum usb_speed { USB_SPEED_HIGH = 3, USB_SPEED_SUPER = 4 };

#define ADAPTER_FRAMES 256
#define ADAPTER_REPORTS 4
#define ADAPTER_REPORT_MOST 16
struct usb_adapter;
struct xhci;

/* What differs between the adapters. */
struct usb_kind {
    const char *product;
    u16 vendor_id, product_id, release;
    enum usb_speed speed;
    u8 bulk_in, bulk_out, status_in; /* addresses of endpoints */
    u8 status_size, status_interval;
    u8 device_class;
    bool marks_lost; /* the chip gives a frame that it lost to the driver, as an error */
    /* The state of a chip that gets power. */
    void (*power_on)(struct usb_adapter *a);
    /* A request of the class or the vendor. Returns the number of octets in `data`, or USB_STALL. */
    int (*request)(struct usb_adapter *a, const u8 *setup, u8 *data);
    /* A transfer of the driver: one frame or several. The model may change the octets. */
    void (*send)(struct usb_adapter *a, u8 *data, size_t size);
    /* Whether the chip keeps a frame. */
    bool (*accepts)(struct usb_adapter *a, const u8 *frame);
    /* Puts waiting frames into a transfer to the driver, as many as the chip would. Returns the octets. */
    size_t (*pack)(struct usb_adapter *a, u8 *data, size_t room);
    /* The driver has begun to listen to the status endpoint. NULL: the chip says what waits. */
    void (*listens)(struct usb_adapter *a);
    /* nic.link has changed. */
    void (*link_changed)(struct usb_adapter *a);
    /* Writes the interfaces of the configuration. Returns the octets. NULL: one interface with all three endpoints. */
    size_t (*interfaces)(struct usb_adapter *a, u8 *at);
};

/* A model's device begins with this. */
struct usb_adapter {
    struct nic nic;
    const struct usb_kind *kind;
    struct xhci *host;
    unsigned which, port;
    bool plugged, listening, halted; /* halted: the endpoint for received frames, until the driver clears it */
    u32 overruns;
    unsigned first, waiting;
    struct frame frames[ADAPTER_FRAMES];
    bool lost[ADAPTER_FRAMES];
    unsigned reports;
    struct { size_t size; u8 octets[ADAPTER_REPORT_MOST]; } report[ADAPTER_REPORTS];
};

/* Gives the driver some octets over the status endpoint, as soon as it listens, in one transfer. */
static inline void report(struct usb_adapter *a, const u8 *octets, size_t size)
{
    if (a->reports == ADAPTER_REPORTS)
        a->reports--;
    memcpy(a->report[a->reports].octets, octets, size);
    a->report[a->reports++].size = size;
}

/* The first frame that waits. The model may change it. NULL: none does. */
static inline struct frame *next_frame(struct usb_adapter *a)
{
    return a->waiting ? &a->frames[a->first] : NULL;
}

/* Whether the first frame that waits did not fit into the chip's memory. */
static inline bool is_lost(struct usb_adapter *a)
{
    return a->lost[a->first];
}

static inline void drop_frame(struct usb_adapter *a)
{
    a->first = (a->first + 1) % ADAPTER_FRAMES;
    a->waiting--;
}

static inline void receive_frame(struct nic *nic, u8 *octets, size_t size)
{
    struct usb_adapter *a = (struct usb_adapter *)nic;
    unsigned place = (a->first + a->waiting) % ADAPTER_FRAMES;
    bool is_full = a->waiting == ADAPTER_FRAMES;
    bool is_overrun;

    if (!a->plugged || !a->kind->accepts(a, octets))
        return;
    is_overrun = is_full || loses_frame(nic);
    a->overruns += is_overrun;
    if (is_full || (is_overrun && !a->kind->marks_lost))
        return;
    memcpy(a->frames[place].octets, octets, size);
    a->frames[place].size = size;
    a->lost[place] = is_overrun;
    a->waiting++;
}

/* Sends a frame out of a transfer, whose octets behind the frame stay as they are. */
static inline void send_from_transfer(struct usb_adapter *a, const u8 *frame, size_t size)
{
    u8 copy[FRAME_MOST];

    if (size > sizeof(copy))
        return;
    memcpy(copy, frame, size);
    send_frame(&a->nic, copy, size);
}

static inline size_t rounded_up(size_t size, size_t to)
{
    return (size + to - 1) / to * to;
}

/* Puts a tag into a frame that has VLAN_TAG octets of room in front. Returns where the frame begins now. */
static inline u8 *with_vlan_tag(u8 *frame, u32 tag)
{
    memmove(frame - VLAN_TAG, frame, ETHERNET_TYPE);
    frame -= VLAN_TAG;
    put_be16(frame + ETHERNET_TYPE, TYPE_VLAN);
    put_be16(frame + ETHERNET_TYPE + 2, tag);
    return frame;
}

/*
 * Gives send() each frame of a transfer that has frames behind two words each, aligned to 4 octets. The mask is for the
 * length in the first word.
 */
#define WORDS_SIZE 8
#define WORDS_ALIGN 4
static inline void send_each(struct usb_adapter *a, u8 *data, size_t size, u32 length_mask,
                             void (*send)(struct usb_adapter *a, u8 *frame, size_t size, u32 first, u32 second))
{
    while (size >= WORDS_SIZE + ETHERNET_HEAD) {
        u32 first = get32(data);
        size_t length = first & length_mask, step = rounded_up(WORDS_SIZE + length, WORDS_ALIGN);

        if (length < ETHERNET_HEAD || WORDS_SIZE + length > size)
            return;
        send(a, data + WORDS_SIZE, length, first, get32(data + 4));
        if (step >= size)
            return;
        data += step;
        size -= step;
    }
}

/* Copies the first frame that waits to `at`, with `tail` octets of 0 behind. Returns the octets of both. */
static inline size_t put_frame(struct usb_adapter *a, u8 *at, size_t tail)
{
    const struct frame *frame = next_frame(a);
    size_t size = frame->size;

    memcpy(at, frame->octets, size);
    memset(at + size, 0, tail);
    drop_frame(a);
    return size + tail;
}

/* ---- Descriptors. */

static inline size_t put_interface(u8 *at, u8 number, u8 alternate, u8 endpoints, u8 class, u8 subclass)
{
    const u8 octets[USB_DT_INTERFACE_SIZE] = {
        USB_DT_INTERFACE_SIZE, USB_DT_INTERFACE, number, alternate, endpoints, class, subclass,
    };

    memcpy(at, octets, sizeof(octets));
    return sizeof(octets);
}

/* Writes the descriptor of an endpoint, and of its companion if the adapter has super speed. */
static inline size_t put_endpoint(struct usb_adapter *a, u8 *at, u8 address)
{
    const struct usb_kind *k = a->kind;
    bool is_status = address == k->status_in, is_super = k->speed == USB_SPEED_SUPER;
    u16 size = is_status ? k->status_size : is_super ? BULK_PACKET_SUPER : BULK_PACKET_HIGH;
    const u8 octets[] = {
        USB_DT_ENDPOINT_SIZE, USB_DT_ENDPOINT, address, is_status ? USB_ENDPOINT_XFER_INT : USB_ENDPOINT_XFER_BULK,
        (u8)size, (u8)(size >> 8), is_status ? k->status_interval : 0,
        /* Bursts of four packets; an endpoint for interrupts has no bursts, and says how much it gives at once. */
        USB_DT_SS_EP_COMP_SIZE, USB_DT_SS_ENDPOINT_COMP, is_status ? 0 : 3, 0, is_status ? k->status_size : 0, 0,
    };
    size_t length = is_super ? sizeof(octets) : USB_DT_ENDPOINT_SIZE;

    memcpy(at, octets, length);
    return length;
}

static inline int device_descriptor(struct usb_adapter *a, u8 *data)
{
    const struct usb_kind *k = a->kind;
    bool is_super = k->speed == USB_SPEED_SUPER;
    /* Release 2.0 or 3.0. The first endpoint has packets of 64 octets, or 2 to the power of 9. */
    const u8 octets[USB_DT_DEVICE_SIZE] = {
        USB_DT_DEVICE_SIZE, USB_DT_DEVICE, 0, is_super ? 3 : 2, k->device_class, 0, 0, is_super ? 9 : 64,
        (u8)k->vendor_id, (u8)(k->vendor_id >> 8), (u8)k->product_id, (u8)(k->product_id >> 8),
        (u8)k->release, (u8)(k->release >> 8), STRING_VENDOR, STRING_PRODUCT, STRING_SERIAL, 1,
    };

    memcpy(data, octets, sizeof(octets));
    return sizeof(octets);
}

static inline size_t vendor_interface(struct usb_adapter *a, u8 *at)
{
    size_t size = put_interface(at, 0, 0, 3, USB_CLASS_VENDOR_SPEC, USB_CLASS_VENDOR_SPEC);

    size += put_endpoint(a, at + size, a->kind->bulk_in);
    size += put_endpoint(a, at + size, a->kind->bulk_out);
    return size + put_endpoint(a, at + size, a->kind->status_in);
}

static inline int configuration_descriptor(struct usb_adapter *a, u8 *data)
{
    const struct usb_kind *k = a->kind;
    /* Value 1, no name, wakes its host, 100 mA. */
    u8 interfaces = k->interfaces ? 2 : 1;
    const u8 octets[USB_DT_CONFIG_SIZE] = {USB_DT_CONFIG_SIZE, USB_DT_CONFIG, 0, 0, interfaces, 1, 0, 0xa0, 50};
    size_t size = sizeof(octets);

    memcpy(data, octets, size);
    size += k->interfaces ? k->interfaces(a, data + size) : vendor_interface(a, data + size);
    put16(data + 2, (u32)size);
    return (int)size;
}

static inline int string_descriptor(struct usb_adapter *a, unsigned index, u8 *data)
{
    char text[3 * MAC_SIZE];
    const u8 *mac = a->nic.mac;

    data[1] = USB_DT_STRING;
    if (index == STRING_LANGUAGES) {
        put16(data + 2, USB_LANGUAGE_ENGLISH);
        return data[0] = 4;
    }
    snprintf(text, sizeof(text), "%02X%02X%02X%02X%02X%02X", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
    if (index == STRING_SERIAL)
        snprintf(text, sizeof(text), "%u", a->which + 1);
    {
        const char *string = index == STRING_VENDOR ? "pinet" : index == STRING_PRODUCT ? a->kind->product : text;
        size_t length = strlen(string);

        for (size_t i = 0; i < length; i++)
            put16(data + 2 + 2 * i, (u8)string[i]);
        return data[0] = (u8)(2 + 2 * length);
    }
}

/* The binary object store: one capability, of a device with super speed, which works from high speed on. */
static inline int bos_descriptor(u8 *data)
{
    static const u8 octets[] = {5, USB_DT_BOS, 15, 0, 1, 10, 16, 3, 0, 0x0e, 0, 1, 0, 0, 0};

    memcpy(data, octets, sizeof(octets));
    return sizeof(octets);
}

static inline int descriptor(struct usb_adapter *a, unsigned type, unsigned index, u8 *data)
{
    if (type == USB_DT_DEVICE)
        return device_descriptor(a, data);
    if (type == USB_DT_CONFIG)
        return configuration_descriptor(a, data);
    if (type == USB_DT_STRING)
        return string_descriptor(a, index, data);
    if (type == USB_DT_BOS && a->kind->speed == USB_SPEED_SUPER)
        return bos_descriptor(data);
    return USB_STALL;
}

/* Does a control transfer. Returns the number of octets in `data`, or USB_STALL. */
static inline int usb_control(struct usb_adapter *a, const u8 *setup, u8 *data)
{
    u8 kind = setup[SETUP_REQUEST_TYPE];
    bool is_bulk_in = (kind & USB_RECIP_MASK) == USB_RECIP_ENDPOINT && setup[SETUP_INDEX] == a->kind->bulk_in;

    if ((kind & USB_TYPE_MASK) != USB_TYPE_STANDARD)
        return a->kind->request(a, setup, data);
    switch (setup[SETUP_REQUEST]) {
    case USB_REQ_GET_DESCRIPTOR:
        return descriptor(a, setup[SETUP_VALUE + 1], setup[SETUP_VALUE], data);
    case USB_REQ_GET_STATUS:
        put16(data, is_bulk_in ? a->halted : (kind & USB_RECIP_MASK) == USB_RECIP_DEVICE ? USB_SELF_POWERED : 0);
        return 2;
    case USB_REQ_GET_CONFIGURATION:
        data[0] = 1;
        return 1;
    case USB_REQ_CLEAR_FEATURE:
        if (is_bulk_in && get16(setup + SETUP_VALUE) == USB_ENDPOINT_HALT)
            a->halted = false;
        return 0;
    case USB_REQ_SET_CONFIGURATION:
    case USB_REQ_SET_INTERFACE:
        a->halted = false;
        return 0;
    }
    return kind & USB_DIR_IN ? USB_STALL : 0;
}
