/*
 * A PCI host bridge with one NIC behind it, as the driver pci-host-generic of Linux knows it: the configuration space
 * (ECAM) of one bus, and one window for the registers of the NIC. Each NIC has a bridge, so that two NICs share nothing.
 *
 * Source of the register facts: include/uapi/linux/pci_regs.h of Linux 6.1, whose names the registers have here.
 * Modelled: one function with one region of registers, which the kernel places, one message as interrupt (MSI, without
 * a mask), bus mastering, PCI Express as far as the kernel needs it to know an endpoint.
 * Not modelled: INTx, MSI-X (the bridge of the BCM2711 has none, either), root ports, power management, errors, ASPM.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
/* One bus has 256 functions. The configuration space of NIC n is at `at` + n * PLACE, the windows are behind both. */
#define PCI_CONFIG_SIZE 0x1000u
#define PCI_WINDOW_SIZE PLACE

#define PCI_VENDOR_ID 0x00
#define PCI_COMMAND 0x04
#define PCI_COMMAND_MEMORY 0x2u
#define PCI_COMMAND_MASTER 0x4u
#define PCI_COMMAND_WRITABLE 0x0557u
#define PCI_STATUS 0x06
#define PCI_STATUS_CAP_LIST 0x10u
#define PCI_CLASS_REVISION 0x08
#define PCI_CLASS_NETWORK_ETHERNET 0x020000u
#define PCI_CACHE_LINE_SIZE 0x0c
#define PCI_BASE_ADDRESS_0 0x10
#define PCI_BASE_ADDRESS_MEM_TYPE_64 0x04u
#define PCI_SUBSYSTEM_VENDOR_ID 0x2c
#define PCI_CAPABILITY_LIST 0x34
#define PCI_INTERRUPT_LINE 0x3c
/* The capabilities are where the RTL8125B has them. */
#define MSI_AT 0x50
#define PCI_CAP_ID_MSI 0x05
#define PCI_MSI_FLAGS 2
#define PCI_MSI_FLAGS_ENABLE 0x01u
#define PCI_MSI_FLAGS_64BIT 0x80u
#define PCI_MSI_ADDRESS_LO 4
#define PCI_MSI_DATA_64 12
#define EXPRESS_AT 0x70
#define PCI_CAP_ID_EXP 0x10
#define PCI_EXP_FLAGS 2
#define PCI_EXP_VERSION_2 0x02u /* and the type 0: an endpoint */
#define PCI_EXP_DEVCTL 8
#define PCI_EXP_LNKCAP 12
#define PCI_EXP_LNKSTA 18
#define PCI_EXP_5GT_X1 0x0012u /* one lane with 5 GT/s: 2.5 Gbit/s Ethernet needs no more */

struct pci_identity {
    u16 vendor, device, subsystem_vendor, subsystem;
    u8 revision;
    u8 bar; /* the number of the region of registers, and its size, a power of 2 */
    u32 size;
};

/* A model's device contains this. */
struct pci {
    u8 config[PCI_CONFIG_SIZE], writable[PCI_CONFIG_SIZE];
    struct registers ecam, window;
    u64 window_at;
    struct pci_identity identity;
    bool asserted;
    u64 (*load)(void *device, u64 at, unsigned size);
    void (*store)(void *device, u64 at, u64 value, unsigned size);
    void *device;
};

/* Whether the device may use the memory. A driver forbids it when it closes the NIC. */
static inline bool pci_is_master(const struct pci *pci)
{
    return pci->config[PCI_COMMAND] & PCI_COMMAND_MASTER;
}

/* Sends the message of the device when its interrupt becomes pending. */
static inline void pci_interrupt(struct pci *pci, bool pending)
{
    const u8 *msi = pci->config + MSI_AT;
    bool rises = pending && !pci->asserted;

    pci->asserted = pending;
    if (rises && pci_is_master(pci) && msi[PCI_MSI_FLAGS] & PCI_MSI_FLAGS_ENABLE) {
        u8 message[4] = {msi[PCI_MSI_DATA_64], msi[PCI_MSI_DATA_64 + 1]};

        dma_write(get64(msi + PCI_MSI_ADDRESS_LO), message, sizeof(message));
    }
}

static u64 pci_load_config(void *device, u64 at, unsigned size)
{
    struct pci *pci = device;
    u64 value = 0;

    for (unsigned i = 0; i < size; i++)
        value |= (u64)(at < PCI_CONFIG_SIZE ? pci->config[at + i] : 0xff) << 8 * i;
    return value;
}

static void pci_store_config(void *device, u64 at, u64 value, unsigned size)
{
    struct pci *pci = device;

    for (unsigned i = 0; i < size && at < PCI_CONFIG_SIZE; i++) {
        u8 mask = pci->writable[at + i];

        pci->config[at + i] = (u8)((pci->config[at + i] & ~mask) | (value >> 8 * i & mask));
    }
}

/* The octet of the registers of the device at a place in the window; at least its size: there is no register. */
static inline u64 pci_register_at(const struct pci *pci, u64 at)
{
    u64 base = get64(pci->config + PCI_BASE_ADDRESS_0 + 4 * pci->identity.bar) & ~(u64)(pci->identity.size - 1);

    return pci->config[PCI_COMMAND] & PCI_COMMAND_MEMORY ? pci->window_at + at - base : pci->identity.size;
}

static u64 pci_load(void *device, u64 at, unsigned size)
{
    struct pci *pci = device;
    u64 place = pci_register_at(pci, at);

    return place < pci->identity.size ? pci->load(pci->device, place, size) : ~(u64)0;
}

static void pci_store(void *device, u64 at, u64 value, unsigned size)
{
    struct pci *pci = device;
    u64 place = pci_register_at(pci, at);

    if (place < pci->identity.size)
        pci->store(pci->device, place, value, size);
}

static inline u8 *add_capability(struct pci *pci, u8 at, u8 id)
{
    pci->config[at] = id;
    pci->config[at + 1] = pci->config[PCI_CAPABILITY_LIST];
    pci->config[PCI_CAPABILITY_LIST] = at;
    return pci->config + at;
}

/* Puts NIC `which` behind its bridge. `load` and `store` are for its registers. */
static inline void make_pci(struct pci *pci, unsigned which, const struct pci_identity *identity,
                            u64 (*load)(void *device, u64 at, unsigned size),
                            void (*store)(void *device, u64 at, u64 value, unsigned size), void *device)
{
    u8 *bar = pci->config + PCI_BASE_ADDRESS_0 + 4 * identity->bar;

    pci->identity = *identity;
    pci->load = load;
    pci->store = store;
    pci->device = device;
    put32(pci->config + PCI_VENDOR_ID, identity->vendor | (u32)identity->device << 16);
    put32(pci->config + PCI_CLASS_REVISION, PCI_CLASS_NETWORK_ETHERNET << 8 | identity->revision);
    put32(pci->config + PCI_SUBSYSTEM_VENDOR_ID, identity->subsystem_vendor | (u32)identity->subsystem << 16);
    put16(pci->config + PCI_STATUS, PCI_STATUS_CAP_LIST);
    bar[0] = PCI_BASE_ADDRESS_MEM_TYPE_64;
    add_capability(pci, EXPRESS_AT, PCI_CAP_ID_EXP)[PCI_EXP_FLAGS] = PCI_EXP_VERSION_2;
    put32(pci->config + EXPRESS_AT + PCI_EXP_LNKCAP, PCI_EXP_5GT_X1);
    put16(pci->config + EXPRESS_AT + PCI_EXP_LNKSTA, PCI_EXP_5GT_X1);
    add_capability(pci, MSI_AT, PCI_CAP_ID_MSI)[PCI_MSI_FLAGS] = PCI_MSI_FLAGS_64BIT;

    put16(pci->writable + PCI_COMMAND, PCI_COMMAND_WRITABLE);
    pci->writable[PCI_CACHE_LINE_SIZE] = pci->writable[PCI_INTERRUPT_LINE] = 0xff;
    put64(pci->writable + PCI_BASE_ADDRESS_0 + 4 * identity->bar, ~(u64)(identity->size - 1));
    pci->writable[MSI_AT + PCI_MSI_FLAGS] = PCI_MSI_FLAGS_ENABLE;
    put64(pci->writable + MSI_AT + PCI_MSI_ADDRESS_LO, ~(u64)3);
    put16(pci->writable + MSI_AT + PCI_MSI_DATA_64, 0xffff);
    put16(pci->writable + EXPRESS_AT + PCI_EXP_DEVCTL, 0xffff);

    pci->window_at = place_of(2 + which);
    map_registers(&pci->ecam, "pinet-ecam", place_of(which), PLACE, 1, 4, pci_load_config, pci_store_config, pci);
    map_registers(&pci->window, "pinet-pci", pci->window_at, PCI_WINDOW_SIZE, 1, 4, pci_load, pci_store, pci);
}
