/*
 * A USB host controller with two network adapters: the platform device "generic-xhci", whose registers are those of the
 * first NIC. make_nic() of each adapter calls plug_adapter().
 *
 * Source: eXtensible Host Controller Interface for USB, revision 1.2, whose names registers, TRBs and states have here.
 * Modelled: 8 slots, two ports for high and two for super speed, one interrupter with one event ring segment, rings with
 * links, short packets, stalls, and a device that is gone. A transfer ends at once if the adapter has data, or takes it.
 * Not modelled: streams, isochronous transfers, scratchpads, interrupt moderation, bandwidth, and all that needs time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#define XHCI_SIZE 0x4000u
#define XHCI_SLOTS 8
#define XHCI_ADAPTERS 2
/* For each adapter one port for high speed, and behind these one for super speed. */
#define XHCI_PORTS (2 * XHCI_ADAPTERS)
#define XHCI_ENDPOINTS 32
/* The registers, and where the parts lie that the capability registers announce. */
enum {
    CAPLENGTH = 0x00, /* and HCIVERSION */
    HCSPARAMS1 = 0x04,
    HCSPARAMS2 = 0x08,
    HCCPARAMS1 = 0x10,
    DBOFF = 0x14,
    RTSOFF = 0x18,
    OPERATIONAL = 0x40,
    USBCMD = OPERATIONAL + 0x00,
    USBSTS = OPERATIONAL + 0x04,
    PAGESIZE = OPERATIONAL + 0x08,
    CRCR = OPERATIONAL + 0x18,
    DCBAAP = OPERATIONAL + 0x30,
    PORTSC = OPERATIONAL + 0x400,
    PORT_SIZE = 0x10,
    XECP = 0x1000, /* the extended capabilities */
    SUPPORTED_PROTOCOL_SIZE = 0x10,
    DOORBELLS = 0x2000,
    RUNTIME = 0x3000,
    IMAN = RUNTIME + 0x20,
    ERSTSZ = RUNTIME + 0x28,
    ERSTBA = RUNTIME + 0x30,
    ERDP = RUNTIME + 0x38,
};
#define HCIVERSION_1_0 0x0100u
#define HCSPARAMS1_MAX_INTRS_SHIFT 8
#define HCSPARAMS1_MAX_PORTS_SHIFT 24
#define HCCPARAMS1_AC64 (1u << 0)
#define HCCPARAMS1_XECP_SHIFT 16
#define PAGESIZE_4K 1u
#define USBCMD_RS (1u << 0)
#define USBCMD_HCRST (1u << 1)
#define USBCMD_INTE (1u << 2)
#define USBSTS_HCH (1u << 0)
#define USBSTS_EINT (1u << 3)
#define USBSTS_PCD (1u << 4)
#define USBSTS_CLEARED_BY_1 0x41cu /* HSE, EINT, PCD, SRE */
#define CRCR_RCS (1u << 0)
#define CRCR_POINTER (~0x3full)
#define IMAN_IP (1u << 0)
#define IMAN_IE (1u << 1)
#define ERSTSZ_MASK 0xffffu
#define ERDP_EHB (1u << 3)
#define ERDP_POINTER (~0xfull)
#define PORTSC_CCS (1u << 0)
#define PORTSC_PED (1u << 1)
#define PORTSC_PR (1u << 4)
#define PORTSC_PLS_SHIFT 5
#define PORTSC_PLS (0xfu << PORTSC_PLS_SHIFT)
#define PORTSC_PP (1u << 9)
#define PORTSC_SPEED_SHIFT 10
#define PORTSC_LWS (1u << 16)
#define PORTSC_CSC (1u << 17)
#define PORTSC_WRC (1u << 19)
#define PORTSC_PRC (1u << 21)
#define PORTSC_CHANGES 0x00fe0000u /* CSC to CEC: a 1 clears them */
#define PORTSC_KEPT 0x0e00c000u    /* PIC, WCE, WDE, WOE */
#define PORTSC_WPR (1u << 31)
enum { PLS_U0 = 0, PLS_RX_DETECT = 5, PLS_POLLING = 7 };
/* A supported protocol capability: ID 2, the next one in words, the release; "USB "; its ports. */
#define PROTOCOL_ID 2u
#define PROTOCOL_NEXT_SHIFT 8
#define PROTOCOL_RELEASE_SHIFT 24
#define PROTOCOL_NAME 0x20425355u
#define PROTOCOL_PORTS_SHIFT 8

/* Transfer request blocks. */
#define TRB_SIZE 16
enum {
    TRB_SETUP_STAGE = 2,
    TRB_DATA_STAGE = 3,
    TRB_STATUS_STAGE = 4,
    TRB_LINK = 6,
    TRB_NO_OP = 8,
    TRB_ENABLE_SLOT = 9,
    TRB_DISABLE_SLOT = 10,
    TRB_ADDRESS_DEVICE = 11,
    TRB_CONFIGURE_ENDPOINT = 12,
    TRB_EVALUATE_CONTEXT = 13,
    TRB_RESET_ENDPOINT = 14,
    TRB_STOP_ENDPOINT = 15,
    TRB_SET_TR_DEQUEUE_POINTER = 16,
    TRB_RESET_DEVICE = 17,
    TRB_NO_OP_COMMAND = 23,
    TRB_TRANSFER_EVENT = 32,
    TRB_COMMAND_COMPLETION_EVENT = 33,
    TRB_PORT_STATUS_CHANGE_EVENT = 34,
};
enum {
    CC_SUCCESS = 1,
    CC_USB_TRANSACTION_ERROR = 4,
    CC_TRB_ERROR = 5,
    CC_STALL_ERROR = 6,
    CC_NO_SLOTS_AVAILABLE_ERROR = 9,
    CC_SLOT_NOT_ENABLED_ERROR = 11,
    CC_SHORT_PACKET = 13,
    CC_CONTEXT_STATE_ERROR = 19,
};
#define TRB_CYCLE (1u << 0)
#define TRB_TOGGLE_CYCLE (1u << 1)
#define TRB_INTERRUPT_ON_SHORT_PACKET (1u << 2)
#define TRB_CHAIN (1u << 4)
#define TRB_INTERRUPT_ON_COMPLETION (1u << 5)
#define TRB_IMMEDIATE_DATA (1u << 6)
#define TRB_BLOCK_SET_ADDRESS (1u << 9)
#define TRB_DECONFIGURE (1u << 9)
#define TRB_TYPE_SHIFT 10
#define TRB_TYPE_MASK 0x3f
#define TRB_ENDPOINT_SHIFT 16
#define TRB_ENDPOINT_MASK 0x1f
#define TRB_SLOT_SHIFT 24
#define TRB_LENGTH_MASK 0x1ffffu
#define TRB_POINTER (~0xfull)
#define TRB_PORT_SHIFT 24 /* in the parameter of an event */
#define COMPLETION_CODE_SHIFT 24

/* Contexts: 32 octets each. An input context has one more in front, with two words of flags. */
#define CONTEXT_SIZE 32u
#define CONTEXT_STATE_MASK 7u
#define CONTEXT_POINTER 8
#define CONTEXT_MAX_PACKET 4 /* of an endpoint: its second word */
#define SLOT_PORT 6          /* octets of a slot's context */
#define SLOT_STATE 12
#define SLOT_STATE_SHIFT 27
#define DCI_SLOT 0 /* device context index; of endpoint n: 2 n, and 1 more if it is for input */
#define DCI_CONTROL 1
enum { SLOT_DEFAULT = 1, SLOT_ADDRESSED = 2, SLOT_CONFIGURED = 3 };
enum { EP_DISABLED = 0, EP_RUNNING = 1, EP_HALTED = 2, EP_STOPPED = 3 };

/* The largest transfer that drivers of these adapters ask for is one large TCP segment. */
#define TRANSFER_MOST (1u << 17)
/* With FAULT_STALL, the endpoint stalls once in so many transfers. */
#define STALL_INTERVAL 16

struct trb {
    u64 parameter;
    u32 status, control;
};
struct xhci_ring {
    u64 at;
    u32 cycle, state;
    unsigned passed; /* TRBs, since the driver has put new ones */
};
struct xhci_slot {
    bool enabled;
    struct usb_adapter *adapter;
    struct xhci_ring rings[XHCI_ENDPOINTS];
    /* The control transfer that goes on: its setup packet, and its data stage with its place. */
    u8 setup[SETUP_SIZE];
    struct trb data;
    u64 data_at;
};
struct xhci {
    struct registers registers;
    void *irq;
    u32 regs[XHCI_SIZE / 4];
    struct xhci_slot slots[XHCI_SLOTS + 1];
    struct xhci_ring commands;
    struct { u64 at; u32 size, next, cycle; } events;
    struct usb_adapter *adapters[XHCI_ADAPTERS];
    u8 transfer[TRANSFER_MOST];
};

static inline u64 xhci_register64(struct xhci *x, u32 at)
{
    return x->regs[at / 4] | (u64)x->regs[at / 4 + 1] << 32;
}

static inline void xhci_interrupt(struct xhci *x)
{
    u32 wanted = IMAN_IP | IMAN_IE;

    set_interrupt(x->irq, (x->regs[IMAN / 4] & wanted) == wanted && x->regs[USBCMD / 4] & USBCMD_INTE);
}

/* ---- Events. */

static inline void put_event(struct xhci *x, u64 parameter, u32 status, u32 type, u32 control)
{
    struct trb trb = {parameter, status, control | type << TRB_TYPE_SHIFT | x->events.cycle};

    if (!x->events.size)
        return;
    dma_write(x->events.at + TRB_SIZE * x->events.next, &trb, sizeof(trb));
    if (++x->events.next == x->events.size) {
        x->events.next = 0;
        x->events.cycle ^= TRB_CYCLE;
    }
    if (x->events.at + TRB_SIZE * x->events.next == (xhci_register64(x, ERDP) & ERDP_POINTER))
        fatal("the event ring of the xHCI is full");
    x->regs[IMAN / 4] |= IMAN_IP;
    x->regs[USBSTS / 4] |= USBSTS_EINT;
    xhci_interrupt(x);
}

static inline void end_transfer(struct xhci *x, unsigned slot, unsigned dci, u64 trb, u32 rest, u32 code)
{
    put_event(x, trb, rest | code << COMPLETION_CODE_SHIFT, TRB_TRANSFER_EVENT,
              slot << TRB_SLOT_SHIFT | dci << TRB_ENDPOINT_SHIFT);
}

static inline u32 *xhci_port(struct xhci *x, unsigned port)
{
    return &x->regs[(PORTSC + PORT_SIZE * port) / 4];
}

static inline void port_changed(struct xhci *x, unsigned port)
{
    if (!(x->regs[USBCMD / 4] & USBCMD_RS))
        return;
    x->regs[USBSTS / 4] |= USBSTS_PCD;
    put_event(x, (u64)(port + 1) << TRB_PORT_SHIFT, CC_SUCCESS << COMPLETION_CODE_SHIFT,
              TRB_PORT_STATUS_CHANGE_EVENT, 0);
}

/* ---- Rings and contexts. */

static inline u32 type_of(const struct trb *trb)
{
    return trb->control >> TRB_TYPE_SHIFT & TRB_TYPE_MASK;
}

/*
 * Reads the next TRB of a ring, behind links and what the driver has cancelled. Returns false if the driver has put no
 * more. A ring of a broken driver may have no end, as a link to itself.
 */
static inline bool next_trb(struct xhci_ring *ring, struct trb *trb)
{
    for (;;) {
        dma_read(ring->at, trb, sizeof(*trb));
        if ((trb->control & TRB_CYCLE) != ring->cycle)
            return false;
        if (++ring->passed > DESCRIPTORS_MOST)
            fatal("a ring of the xHCI has no end");
        if (type_of(trb) == TRB_LINK) {
            if (trb->control & TRB_TOGGLE_CYCLE)
                ring->cycle ^= TRB_CYCLE;
            ring->at = trb->parameter & TRB_POINTER;
        } else if (type_of(trb) == TRB_NO_OP)
            ring->at += TRB_SIZE;
        else
            return true;
    }
}

static inline u64 context_of(struct xhci *x, unsigned slot, unsigned dci)
{
    u64 at = 0;

    dma_read(xhci_register64(x, DCBAAP) + sizeof(at) * slot, &at, sizeof(at));
    return at + CONTEXT_SIZE * dci;
}

/* Writes the state of an endpoint and its place in the ring for the driver. */
static inline void save_endpoint(struct xhci *x, unsigned slot, unsigned dci)
{
    struct xhci_ring *ring = &x->slots[slot].rings[dci];
    u64 at = context_of(x, slot, dci), place = ring->at | ring->cycle;
    u32 state;

    dma_read(at, &state, sizeof(state));
    state = (state & ~CONTEXT_STATE_MASK) | ring->state;
    dma_write(at, &state, sizeof(state));
    dma_write(at + CONTEXT_POINTER, &place, sizeof(place));
}

static inline void set_endpoint(struct xhci *x, unsigned slot, unsigned dci, u32 state)
{
    x->slots[slot].rings[dci].state = state;
    save_endpoint(x, slot, dci);
}

static inline void set_slot_state(struct xhci *x, unsigned slot, u32 state)
{
    u32 word = state << SLOT_STATE_SHIFT | (state > SLOT_DEFAULT ? slot : 0);

    dma_write(context_of(x, slot, DCI_SLOT) + SLOT_STATE, &word, sizeof(word));
}

/* Takes over an endpoint of an input context. */
static inline void take_endpoint(struct xhci *x, unsigned slot, unsigned dci, u64 input)
{
    u8 context[CONTEXT_SIZE];
    u64 place;

    dma_read(input + CONTEXT_SIZE * (dci + 1), context, sizeof(context));
    dma_write(context_of(x, slot, dci), context, sizeof(context));
    place = get64(context + CONTEXT_POINTER);
    x->slots[slot].rings[dci] = (struct xhci_ring){.at = place & TRB_POINTER, .cycle = place & TRB_CYCLE};
    set_endpoint(x, slot, dci, EP_RUNNING);
}

/* ---- Transfers. */

/* Ends the transfer that is next with an error. The driver resets the endpoint. */
static inline void fail_transfer(struct xhci *x, unsigned slot, unsigned dci, u32 code)
{
    struct xhci_ring *ring = &x->slots[slot].rings[dci];
    struct trb trb;

    if (ring->state != EP_RUNNING || !next_trb(ring, &trb))
        return;
    set_endpoint(x, slot, dci, EP_HALTED);
    end_transfer(x, slot, dci, ring->at, trb.status & TRB_LENGTH_MASK, code);
}

/* Does a control transfer, whose status stage is `last`. Returns false if the adapter stalls. */
static inline bool end_control(struct xhci *x, unsigned slot, const struct trb *last)
{
    struct xhci_slot *s = &x->slots[slot];
    bool is_in = s->setup[SETUP_REQUEST_TYPE] & USB_DIR_IN;
    u32 size = s->data.status & TRB_LENGTH_MASK;
    u64 at = s->rings[DCI_CONTROL].at;
    int answer;

    if (s->data.control & TRB_IMMEDIATE_DATA)
        put64(x->transfer, s->data.parameter);
    else if (!is_in)
        dma_read(s->data.parameter, x->transfer, size);
    answer = usb_control(s->adapter, s->setup, x->transfer);
    if (answer == USB_STALL) {
        set_endpoint(x, slot, DCI_CONTROL, EP_HALTED);
        end_transfer(x, slot, DCI_CONTROL, size ? s->data_at : at, size, CC_STALL_ERROR);
        return false;
    }
    if (is_in) {
        u32 given = (u32)answer < size ? (u32)answer : size;

        dma_write(s->data.parameter, x->transfer, given);
        if (given < size && s->data.control & TRB_INTERRUPT_ON_SHORT_PACKET)
            end_transfer(x, slot, DCI_CONTROL, s->data_at, size - given, CC_SHORT_PACKET);
    }
    if (last->control & TRB_INTERRUPT_ON_COMPLETION)
        end_transfer(x, slot, DCI_CONTROL, at, 0, CC_SUCCESS);
    return true;
}

static inline void run_control_ring(struct xhci *x, unsigned slot)
{
    struct xhci_slot *s = &x->slots[slot];
    struct xhci_ring *ring = &s->rings[DCI_CONTROL];
    struct trb trb;

    while (next_trb(ring, &trb)) {
        switch (type_of(&trb)) {
        case TRB_SETUP_STAGE:
            put64(s->setup, trb.parameter);
            s->data = (struct trb){0};
            break;
        case TRB_DATA_STAGE:
            s->data = trb;
            s->data_at = ring->at;
            break;
        case TRB_STATUS_STAGE:
            if (!end_control(x, slot, &trb))
                return;
        }
        ring->at += TRB_SIZE;
    }
}

/* What the driver sends. */
static inline void run_out_ring(struct xhci *x, unsigned slot, unsigned dci)
{
    struct usb_adapter *a = x->slots[slot].adapter;
    struct xhci_ring *ring = &x->slots[slot].rings[dci];
    struct trb trb;
    u32 size = 0;

    while (next_trb(ring, &trb)) {
        u32 length = trb.status & TRB_LENGTH_MASK;
        u64 at = ring->at;

        if (size + length > TRANSFER_MOST)
            fatal("a transfer to a USB adapter is larger than the model takes");
        if (trb.control & TRB_IMMEDIATE_DATA)
            memcpy(x->transfer + size, &trb.parameter, length < 8 ? length : 8);
        else
            dma_read(trb.parameter, x->transfer + size, length);
        size += length;
        ring->at += TRB_SIZE;
        if (trb.control & TRB_CHAIN)
            continue;
        if (size)
            a->kind->send(a, x->transfer, size);
        if (trb.control & TRB_INTERRUPT_ON_COMPLETION)
            end_transfer(x, slot, dci, at, 0, CC_SUCCESS);
        size = 0;
    }
}

/* The room in the next transfer to the driver. 0: the driver waits for none. */
static inline size_t room_in(const struct xhci_ring *ring)
{
    struct xhci_ring ahead = *ring;
    struct trb trb;
    size_t room = 0;

    while (ring->state == EP_RUNNING && next_trb(&ahead, &trb)) {
        room += trb.status & TRB_LENGTH_MASK;
        ahead.at += TRB_SIZE;
        if (!(trb.control & TRB_CHAIN))
            return room < TRANSFER_MOST ? room : TRANSFER_MOST;
    }
    return 0;
}

/* Ends the next transfer to the driver with these octets. */
static inline void give(struct xhci *x, unsigned slot, unsigned dci, const u8 *data, size_t size)
{
    struct xhci_ring *ring = &x->slots[slot].rings[dci];
    bool is_short = false;
    struct trb trb;

    while (next_trb(ring, &trb)) {
        u32 length = trb.status & TRB_LENGTH_MASK, now = size < length ? (u32)size : length;
        u64 at = ring->at;

        dma_write(trb.parameter, data, now);
        data += now;
        size -= now;
        ring->at += TRB_SIZE;
        if (!is_short && now < length && trb.control & (TRB_INTERRUPT_ON_SHORT_PACKET | TRB_INTERRUPT_ON_COMPLETION)) {
            end_transfer(x, slot, dci, at, length - now, CC_SHORT_PACKET);
            is_short = true;
        } else if (!is_short && trb.control & TRB_INTERRUPT_ON_COMPLETION)
            end_transfer(x, slot, dci, at, 0, CC_SUCCESS);
        if (!(trb.control & TRB_CHAIN))
            return;
    }
}

static inline unsigned dci_of(u8 address)
{
    return 2u * (address & USB_ENDPOINT_NUMBER_MASK) + (address & USB_DIR_IN ? 1 : 0);
}

/* Gives frames that wait in an adapter to transfers that wait for them. */
static inline void deliver_frames(struct xhci *x, unsigned slot, struct usb_adapter *a)
{
    unsigned dci = dci_of(a->kind->bulk_in);
    size_t room;

    while (a->waiting && (room = room_in(&x->slots[slot].rings[dci]))) {
        size_t size;

        if (a->nic.fault == FAULT_STALL && a->nic.frames_with_fault++ % STALL_INTERVAL == 0)
            a->halted = true;
        if (a->halted) {
            fail_transfer(x, slot, dci, CC_STALL_ERROR);
            return;
        }
        size = a->kind->pack(a, x->transfer, room);
        if (!size) {
            /* A frame that no transfer of this driver has room for. */
            drop_frame(a);
            continue;
        }
        if (a->nic.fault == FAULT_SHORT && a->nic.frames_with_fault++ % 2 == 0)
            size -= size / 4;
        give(x, slot, dci, x->transfer, size);
    }
}

/* Everything that the adapters have for the driver. */
static inline void deliver(struct xhci *x)
{
    for (unsigned slot = 1; slot <= XHCI_SLOTS; slot++) {
        struct usb_adapter *a = x->slots[slot].adapter;
        unsigned dci;

        if (!x->slots[slot].enabled || !a || !a->plugged)
            continue;
        deliver_frames(x, slot, a);
        dci = dci_of(a->kind->status_in);
        while (a->reports && room_in(&x->slots[slot].rings[dci])) {
            give(x, slot, dci, a->report[0].octets, a->report[0].size);
            memmove(a->report, a->report + 1, --a->reports * sizeof(*a->report));
        }
    }
}

static inline void ring_doorbell(struct xhci *x, unsigned slot, unsigned dci)
{
    struct xhci_slot *s = &x->slots[slot];
    struct usb_adapter *a = s->adapter;

    if (!s->enabled || !a || dci < DCI_CONTROL || dci >= XHCI_ENDPOINTS || !(x->regs[USBCMD / 4] & USBCMD_RS))
        return;
    s->rings[dci].passed = 0;
    if (s->rings[dci].state == EP_STOPPED)
        set_endpoint(x, slot, dci, EP_RUNNING);
    if (s->rings[dci].state != EP_RUNNING)
        return;
    if (!a->plugged)
        fail_transfer(x, slot, dci, CC_USB_TRANSACTION_ERROR);
    else if (dci == DCI_CONTROL)
        run_control_ring(x, slot);
    else if (!(dci & 1))
        run_out_ring(x, slot, dci);
    else if (dci == dci_of(a->kind->status_in) && !a->listening) {
        a->listening = true;
        if (a->kind->listens) {
            a->reports = 0;
            a->kind->listens(a);
        }
    }
    deliver(x);
}

/* ---- Commands. */

/* Returns the completion code. */
static inline u32 address_device(struct xhci *x, unsigned slot, u64 input, bool is_blocked)
{
    u8 context[CONTEXT_SIZE];

    dma_read(input + CONTEXT_SIZE, context, sizeof(context));
    dma_write(context_of(x, slot, DCI_SLOT), context, sizeof(context));
    x->slots[slot].adapter = x->adapters[(context[SLOT_PORT] - 1u) % XHCI_ADAPTERS];
    take_endpoint(x, slot, DCI_CONTROL, input);
    if (!is_blocked && !x->slots[slot].adapter->plugged)
        return CC_USB_TRANSACTION_ERROR;
    set_slot_state(x, slot, is_blocked ? SLOT_DEFAULT : SLOT_ADDRESSED);
    return CC_SUCCESS;
}

static inline void configure_endpoints(struct xhci *x, unsigned slot, u64 input, bool is_undone)
{
    struct usb_adapter *a = x->slots[slot].adapter;
    u32 drop_add[2], first;

    dma_read(input, drop_add, sizeof(drop_add));
    for (unsigned dci = DCI_CONTROL + 1; dci < XHCI_ENDPOINTS; dci++) {
        if (drop_add[0] >> dci & 1 || is_undone)
            x->slots[slot].rings[dci].state = EP_DISABLED;
        if (drop_add[1] >> dci & 1 && !is_undone)
            take_endpoint(x, slot, dci, input);
        if (dci == dci_of(a->kind->status_in) && x->slots[slot].rings[dci].state == EP_DISABLED)
            a->listening = false;
    }
    if (!is_undone) {
        dma_read(input + CONTEXT_SIZE, &first, sizeof(first));
        dma_write(context_of(x, slot, DCI_SLOT), &first, sizeof(first));
    }
    set_slot_state(x, slot, is_undone ? SLOT_ADDRESSED : SLOT_CONFIGURED);
}

/* The driver may correct the size of packets of the first endpoint, when it has read the device descriptor. */
static inline void evaluate_context(struct xhci *x, unsigned slot, u64 input)
{
    u32 drop_add[2], word;

    dma_read(input, drop_add, sizeof(drop_add));
    if (!(drop_add[1] >> DCI_CONTROL & 1))
        return;
    dma_read(input + CONTEXT_SIZE * (DCI_CONTROL + 1) + CONTEXT_MAX_PACKET, &word, sizeof(word));
    dma_write(context_of(x, slot, DCI_CONTROL) + CONTEXT_MAX_PACKET, &word, sizeof(word));
}

static inline u32 stop_endpoint(struct xhci *x, unsigned slot, unsigned dci, u32 from)
{
    struct usb_adapter *a = x->slots[slot].adapter;

    if (x->slots[slot].rings[dci].state != from)
        return CC_CONTEXT_STATE_ERROR;
    set_endpoint(x, slot, dci, EP_STOPPED);
    if (dci == dci_of(a->kind->status_in))
        a->listening = false;
    return CC_SUCCESS;
}

static inline unsigned enable_slot(struct xhci *x)
{
    for (unsigned slot = 1; slot <= XHCI_SLOTS; slot++)
        if (!x->slots[slot].enabled) {
            x->slots[slot] = (struct xhci_slot){.enabled = true};
            return slot;
        }
    return 0;
}

static inline u32 do_trb_command(struct xhci *x, const struct trb *trb, unsigned *slot)
{
    unsigned dci = trb->control >> TRB_ENDPOINT_SHIFT & TRB_ENDPOINT_MASK;
    u64 input = trb->parameter & TRB_POINTER;
    u32 type = type_of(trb);
    struct xhci_slot *s = &x->slots[*slot];

    if (type == TRB_NO_OP_COMMAND)
        return CC_SUCCESS;
    if (type == TRB_ENABLE_SLOT) {
        *slot = enable_slot(x);
        return *slot ? CC_SUCCESS : CC_NO_SLOTS_AVAILABLE_ERROR;
    }
    if (!s->enabled)
        return CC_SLOT_NOT_ENABLED_ERROR;
    if (type == TRB_ADDRESS_DEVICE)
        return address_device(x, *slot, input, trb->control & TRB_BLOCK_SET_ADDRESS);
    if (type == TRB_DISABLE_SLOT)
        s->enabled = false;
    else if (!s->adapter)
        return CC_CONTEXT_STATE_ERROR;
    switch (type) {
    case TRB_DISABLE_SLOT:
        return CC_SUCCESS;
    case TRB_CONFIGURE_ENDPOINT:
        configure_endpoints(x, *slot, input, trb->control & TRB_DECONFIGURE);
        return CC_SUCCESS;
    case TRB_EVALUATE_CONTEXT:
        evaluate_context(x, *slot, input);
        return CC_SUCCESS;
    case TRB_RESET_ENDPOINT:
        return stop_endpoint(x, *slot, dci, EP_HALTED);
    case TRB_STOP_ENDPOINT:
        return stop_endpoint(x, *slot, dci, EP_RUNNING);
    case TRB_SET_TR_DEQUEUE_POINTER:
        s->rings[dci].at = input;
        s->rings[dci].cycle = trb->parameter & TRB_CYCLE;
        save_endpoint(x, *slot, dci);
        return CC_SUCCESS;
    case TRB_RESET_DEVICE:
        for (dci = DCI_CONTROL + 1; dci < XHCI_ENDPOINTS; dci++)
            s->rings[dci].state = EP_DISABLED;
        s->adapter->listening = s->adapter->halted = false;
        set_slot_state(x, *slot, SLOT_DEFAULT);
        return CC_SUCCESS;
    }
    return CC_TRB_ERROR;
}

static inline void run_command_ring(struct xhci *x)
{
    struct trb trb;

    x->commands.passed = 0;
    while (next_trb(&x->commands, &trb)) {
        unsigned slot = trb.control >> TRB_SLOT_SHIFT;
        u64 at = x->commands.at;
        u32 code = CC_SLOT_NOT_ENABLED_ERROR;

        x->commands.at += TRB_SIZE;
        if (slot <= XHCI_SLOTS)
            code = do_trb_command(x, &trb, &slot);
        put_event(x, at, code << COMPLETION_CODE_SHIFT, TRB_COMMAND_COMPLETION_EVENT, slot << TRB_SLOT_SHIFT);
    }
}

/* ---- Ports and registers. */

static inline u32 port_state(const struct usb_adapter *a)
{
    u32 state = PORTSC_PP | PORTSC_CSC;

    if (!a->plugged)
        return state | PLS_RX_DETECT << PORTSC_PLS_SHIFT;
    state |= PORTSC_CCS | (u32)a->kind->speed << PORTSC_SPEED_SHIFT;
    /* A port for super speed trains its link by itself; a port for high speed waits for a reset. */
    return state | (a->kind->speed == USB_SPEED_SUPER ? PORTSC_PED | PLS_U0 << PORTSC_PLS_SHIFT
                                                      : PLS_POLLING << PORTSC_PLS_SHIFT);
}

static inline void reset_xhci(struct xhci *x)
{
    const u32 first[][2] = {
        {CAPLENGTH, OPERATIONAL | HCIVERSION_1_0 << 16},
        {HCSPARAMS1, XHCI_SLOTS | 1u << HCSPARAMS1_MAX_INTRS_SHIFT | XHCI_PORTS << HCSPARAMS1_MAX_PORTS_SHIFT},
        {HCSPARAMS2, 0}, /* one segment of the event ring */
        {HCCPARAMS1, HCCPARAMS1_AC64 | XECP / 4 << HCCPARAMS1_XECP_SHIFT},
        {DBOFF, DOORBELLS},
        {RTSOFF, RUNTIME},
        {USBSTS, USBSTS_HCH},
        {PAGESIZE, PAGESIZE_4K},
    };

    memset(x->regs, 0, sizeof(x->regs));
    memset(x->slots, 0, sizeof(x->slots));
    x->events.size = 0;
    for (unsigned i = 0; i < COUNT(first); i++)
        x->regs[first[i][0] / 4] = first[i][1];
    for (unsigned i = 0; i < 2; i++) {
        u32 *protocol = &x->regs[(XECP + SUPPORTED_PROTOCOL_SIZE * i) / 4];
        u32 next = i == 0 ? SUPPORTED_PROTOCOL_SIZE / 4 : 0;

        protocol[0] = PROTOCOL_ID | next << PROTOCOL_NEXT_SHIFT | (2 + i) << PROTOCOL_RELEASE_SHIFT;
        protocol[1] = PROTOCOL_NAME;
        protocol[2] = (XHCI_ADAPTERS * i + 1) | XHCI_ADAPTERS << PROTOCOL_PORTS_SHIFT;
    }
    for (unsigned port = 0; port < XHCI_PORTS; port++)
        *xhci_port(x, port) = PORTSC_PP | PLS_RX_DETECT << PORTSC_PLS_SHIFT;
    for (unsigned i = 0; i < XHCI_ADAPTERS; i++)
        if (x->adapters[i] && x->adapters[i]->plugged)
            *xhci_port(x, x->adapters[i]->port) = port_state(x->adapters[i]);
}

static inline void write_port(struct xhci *x, unsigned port, u32 value)
{
    u32 *portsc = xhci_port(x, port);

    *portsc &= ~(value & PORTSC_CHANGES);
    if (value & PORTSC_PED)
        *portsc &= ~PORTSC_PED;
    if (value & PORTSC_LWS)
        *portsc = (*portsc & ~PORTSC_PLS) | (value & PORTSC_PLS);
    *portsc = (*portsc & ~PORTSC_KEPT) | (value & PORTSC_KEPT);
    if (value & (PORTSC_PR | PORTSC_WPR) && *portsc & PORTSC_CCS) {
        *portsc = (*portsc & ~PORTSC_PLS) | PORTSC_PED | PORTSC_PRC | (value & PORTSC_WPR ? PORTSC_WRC : 0);
        port_changed(x, port);
    }
}

static inline void take_event_ring(struct xhci *x)
{
    struct { u64 at; u32 size, reserved; } segment;

    dma_read(xhci_register64(x, ERSTBA), &segment, sizeof(segment));
    x->events.at = segment.at;
    x->events.size = segment.size & ERSTSZ_MASK;
    x->events.next = 0;
    x->events.cycle = TRB_CYCLE;
}

static inline u64 xhci_load(void *device, u64 at, unsigned size)
{
    struct xhci *x = device;

    (void)size;
    return x->regs[at / 4];
}

static inline void xhci_store(void *device, u64 at, u64 value64, unsigned size)
{
    struct xhci *x = device;
    u32 value = (u32)value64, *own = &x->regs[at / 4];

    (void)size;
    if (at >= PORTSC && at < PORTSC + PORT_SIZE * XHCI_PORTS) {
        if (at % PORT_SIZE == 0)
            write_port(x, (unsigned)(at - PORTSC) / PORT_SIZE, value);
        return;
    }
    if (at >= DOORBELLS && at <= DOORBELLS + 4 * XHCI_SLOTS) {
        if (at == DOORBELLS)
            run_command_ring(x);
        else
            ring_doorbell(x, (unsigned)(at - DOORBELLS) / 4, value & 0xff);
        return;
    }
    switch (at) {
    case USBCMD:
        if (value & USBCMD_HCRST) {
            reset_xhci(x);
            break;
        }
        *own = value;
        x->regs[USBSTS / 4] = (x->regs[USBSTS / 4] & ~USBSTS_HCH) | (value & USBCMD_RS ? 0 : USBSTS_HCH);
        break;
    case USBSTS: *own &= ~(value & USBSTS_CLEARED_BY_1); break;
    case IMAN: *own = (*own & ~value & IMAN_IP) | (value & IMAN_IE); break;
    case ERDP: *own = value & ~ERDP_EHB; break;
    default:
        if (at < OPERATIONAL || (at >= XECP && at < RUNTIME))
            return;
        *own = value;
        /* The driver writes the lower half of an address first. */
        if (at == CRCR + 4)
            x->commands = (struct xhci_ring){.at = xhci_register64(x, CRCR) & CRCR_POINTER,
                                             .cycle = x->regs[CRCR / 4] & CRCR_RCS};
        if (at == ERSTBA + 4)
            take_event_ring(x);
    }
    xhci_interrupt(x);
}

/* ---- Adapters. */

static inline void adapter_received(struct nic *nic)
{
    deliver(((struct usb_adapter *)nic)->host);
}

static inline void adapter_link_changed(struct nic *nic)
{
    struct usb_adapter *a = (struct usb_adapter *)nic;

    a->kind->link_changed(a);
    deliver(a->host);
}

static inline void power_on(struct usb_adapter *a)
{
    a->plugged = true;
    a->listening = a->halted = false;
    a->first = a->waiting = 0;
    a->overruns = 0;
    a->reports = 0;
    a->kind->power_on(a);
}

static inline void plug(struct nic *nic, bool in)
{
    struct usb_adapter *a = (struct usb_adapter *)nic;
    u32 *portsc = xhci_port(a->host, a->port), kept = *portsc & PORTSC_KEPT;

    a->plugged = false;
    if (in)
        power_on(a);
    *portsc = kept | port_state(a);
    port_changed(a->host, a->port);
}

static inline struct xhci *make_xhci(void)
{
    struct xhci *x = calloc(1, sizeof(*x));

    if (!x)
        fatal("out of memory");
    x->irq = interrupt_of(0, 0);
    map_registers(&x->registers, "pinet-xhci", place_of(0), XHCI_SIZE, 4, 4, xhci_load, xhci_store, x);
    return x;
}

/* Connects an adapter, whose memory is cleared, with the host controller of both. */
static inline struct nic *plug_adapter(unsigned which, struct usb_adapter *a, const struct usb_kind *kind)
{
    a->host = which ? ((struct usb_adapter *)nics[0])->host : make_xhci();
    a->kind = kind;
    a->which = which;
    a->port = which + (kind->speed == USB_SPEED_SUPER ? XHCI_ADAPTERS : 0);
    a->nic.receive = receive_frame;
    a->nic.received = adapter_received;
    a->nic.link_changed = adapter_link_changed;
    a->nic.plug = plug;
    power_on(a);
    a->host->adapters[which] = a;
    reset_xhci(a->host);
    return &a->nic;
}
