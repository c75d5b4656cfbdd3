/*
 * A driver that does everything wrong, for one device model without QEMU: it writes random values to random registers, and
 * the memory has random descriptors. The model may do anything, but it must stay inside of its buffers and come to an end.
 */
#include <setjmp.h>
#include <stdlib.h>

/* A model may also give up (fatal of device.h). */
static jmp_buf given_up;
#define exit(code) longjmp(given_up, code)
#include MODEL
#include "fake_qemu.h"

#define ROUNDS 2000

static u64 random_state = 0x70696e6574ull;

static u32 any(u32 below)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (u32)(random_state >> 33) % below;
}

/* Mostly in the memory, also flash, and registers of the device itself. */
static u64 any_address(void)
{
    u32 where = any(16);

    if (where == 0)
        return FLASH_AT + any(FLASH_SIZE);
    if (where == 1)
        return regions[any(region_count)].at + (any(0x10000) & ~3u);
    return RAM_AT + (any(RAM_SIZE) & ~15u);
}

static u32 any_value(void)
{
    switch (any(8)) {
    case 0: case 1: return ~0u;
    case 2: return any(64);
    case 3: return 0;
    case 4: case 5: return (u32)any_address();
    default: return any(1u << 31) << 1 | any(2);
    }
}

/* Descriptors and heads of frames, in which each field may have any value. */
static void fill(u8 *to, size_t size)
{
    static const u8 head[] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 60, 0, 0, 0, 0, 64, PROTOCOL_TCP};

    for (size_t i = 0; i + 4 <= size; i += 4)
        put32(to + i, any_value());
    for (unsigned i = 0; i < 64; i++) {
        size_t place = any((u32)(size - sizeof(head)));

        memcpy(to + place, head, sizeof(head));
        to[place + 14 + any(10)] = (u8)any(256);
    }
}

static void write_anywhere(void)
{
    unsigned number = any(region_count);
    u64 place = any((u32)regions[number].size);
    u8 value[4];

    put32(value, any_value());
    access_region(number, place, value, any(4) != 0);
}

static void do_any_command(void)
{
    static const char *const commands[] = {
        "link on", "link on", "link off", "plug in", "plug in", "unplug", "hold frames", "release frames",
        "fault none", "fault checksum", "fault padding", "fault overrun", "fault short", "fault stall",
    };

    do_command(commands[any(COUNT(commands))]);
}

#ifdef PCI_CONFIG_SIZE
/* The kernel gives the device its place, lets it use the memory, and says where its messages go. */
static void prepare(void)
{
    for (unsigned i = 0; i < region_count; i += 2) {
        const struct pci *pci = ((struct registers *)regions[i].device)->device;
        u32 bar = EXT_CFG_DATA + PCI_BASE_ADDRESS_0 + 4 * pci->identity.bar, message = any_value() & ~3u;
        u32 values[][2] = {
            {PCI_PRIMARY_BUS, 0x10100},
            {EXT_CFG_INDEX, 1u << PCIE_ECAM_BUS_SHIFT},
            {bar, (u32)regions[i + 1].at},
            {bar + 4, 0},
            {EXT_CFG_DATA + PCI_COMMAND, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER},
            {EXT_CFG_DATA + MSI_AT, PCI_MSI_FLAGS_ENABLE << 16},
            {EXT_CFG_DATA + MSI_AT + PCI_MSI_ADDRESS_LO, message},
            {EXT_CFG_DATA + MSI_AT + PCI_MSI_ADDRESS_LO + 4, 0},
            {PCIE_MISC_MSI_BAR_CONFIG_LO, message | MSI_ENABLE},
            {PCIE_MISC_MSI_BAR_CONFIG_LO + 4, 0},
            {PCIE_MISC_MSI_DATA_CONFIG, any_value() & 0xffff},
        };

        for (unsigned n = 0; n < COUNT(values); n++)
            regions[i].operations->write(regions[i].device, values[n][0], values[n][1], 4);
    }
}
#else
static void prepare(void) {}
#endif

/* Writes all registers once, so that those that enable something meet by chance. */
static void write_everywhere(void)
{
    for (unsigned i = 0; i < region_count; i++) {
        prepare();
        for (u64 place = 0; place < regions[i].size; place += 4) {
            u8 value[4];

            put32(value, any_value());
            access_region(i, place, value, true);
        }
    }
    prepare();
}

#ifdef XHCI_SIZE
/* What the host controller gives to an adapter: requests, and transfers of any size at the end of their buffer. */
static void use_adapter(void)
{
    struct usb_adapter *a = (struct usb_adapter *)nics[any(2)];
    u8 *transfer = a->host->transfer, setup[SETUP_SIZE];
    size_t size = 1 + any(any(2) ? 64 : 4096), room = 1 + any(any(2) ? 4096 : TRANSFER_MOST);

    put32(setup, any_value());
    put32(setup + 4, any_value());
    setup[SETUP_REQUEST_TYPE] = any(2) ? 0xc0 : any(2) ? 0x40 : (u8)any(256);
    if (any(4))
        setup[SETUP_REQUEST] = (u8)(any(2) ? any(16) : 0xa0 + any(4));
    fill(transfer + TRANSFER_MOST - 4096, 4096);
    usb_control(a, setup, transfer);
    fill(transfer + TRANSFER_MOST - 4096, 4096);
    a->kind->send(a, transfer + TRANSFER_MOST - size, size);
    /* The adapter has no room in front of the first frame but that of its head. */
    while (a->waiting && any(4)) {
        u8 *data = malloc(room);
        size_t used = a->kind->pack(a, data, room);

        if (used > room)
            abort();
        free(data);
        if (!used)
            drop_frame(a);
    }
}
#else
static void use_adapter(void) {}
#endif

int main(void)
{
    /* Not a register of the processor, which longjmp() may set back. */
    static int round;

    alarm(60);
    start_model();
    for (; round < ROUNDS; round++) {
        if (setjmp(given_up))
            for (unsigned i = 0; i < region_count; i++)
                ((struct registers *)regions[i].device)->busy = false;
        if (round % 128 == 0) {
            fill(ram, sizeof(ram));
            write_everywhere();
        }
        for (unsigned i = 0; i < 64; i++)
            write_anywhere();
        do_any_command();
        use_adapter();
        for (int i = 0; i < 4; i++) {
            u8 frame[FRAME_MOST];

            fill(frame, sizeof(frame));
            send_frame(nics[any(2)], frame, ETHERNET_HEAD + any(FRAME_MOST));
        }
    }
    puts("inside of all buffers");
    return 0;
}
