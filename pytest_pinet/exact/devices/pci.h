/*
 * The PCI Express bridge of the BCM2711 (Compute Module 4) with one NIC behind it, driver pcie-brcmstb. Each NIC has a
 * bridge, so that two NICs share nothing.
 *
 * Source of the register facts: drivers/pci/controller/pcie-brcmstb.c and include/uapi/linux/pci_regs.h of Linux 6.1 and
 * 6.12, whose names the registers have here.
 * Modelled: the root port; behind it one function with one region of registers, which the kernel places; the way to its
 * configuration space by index and data; the link, which is up when no reset is asserted; one message as interrupt (MSI,
 * without a mask), which the bridge takes to a line of the GIC; bus mastering; PCI Express as far as the kernel needs it.
 * Not modelled: what a reset does, INTx, MSI-X, the windows (the device tree has the same address on both sides of them),
 * spread-spectrum clocks, power management, errors, ASPM.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
/* The registers of bridge n are at `at` + n * PLACE, the windows to the registers of the NICs are behind both. */
#define PCI_WINDOW_SIZE PLACE
#define PCI_CONFIG_SIZE 0x1000u
/* The configuration space of the root port comes first, then registers of the bridge. */
enum {
    BRCM_PCIE_CAP_REGS = 0x00ac,
    PCIE_MISC_MSI_BAR_CONFIG_LO = 0x4044, /* where messages go; the high half is behind it */
    PCIE_MISC_MSI_DATA_CONFIG = 0x404c, /* the value of a message, and above it the mask that compares it */
    PCIE_MISC_PCIE_STATUS = 0x4068,
    PCIE_MISC_REVISION = 0x406c,
    PCIE_MSI_INTR2_BASE = 0x4500,
    MSI_INT_STATUS = PCIE_MSI_INTR2_BASE,
    MSI_INT_CLR = PCIE_MSI_INTR2_BASE + 0x08,
    MSI_INT_MASK_STATUS = PCIE_MSI_INTR2_BASE + 0x0c,
    MSI_INT_MASK_SET = PCIE_MSI_INTR2_BASE + 0x10,
    MSI_INT_MASK_CLR = PCIE_MSI_INTR2_BASE + 0x14,
    EXT_CFG_DATA = 0x8000, /* the configuration space of one function */
    EXT_CFG_INDEX = 0x9000, /* says of which one, by its bus, device and function */
    PCIE_RGR1_SW_INIT_1 = 0x9210,
    BRIDGE_SIZE = 0x9310,
};
#define MSI_ENABLE 0x1u
#define PCIE_MISC_PCIE_STATUS_PCIE_PORT_MASK 0x80u
#define PCIE_MISC_PCIE_STATUS_LINK_MASK 0x30u /* DL_ACTIVE and PHYLINKUP */
#define BRCM_PCIE_HW_REV_33 0x0303u           /* the first one with 32 messages */
#define RGR1_SW_INIT_1_MASK 0x3u              /* INIT_GENERIC and PERST, the resets of the bridge and of the NIC */
#define PCIE_ECAM_BUS_SHIFT 20

#define PCI_VENDOR_ID 0x00
#define ROOT_PORT_BCM2711 0x271114e4u
#define PCI_COMMAND 0x04
#define PCI_COMMAND_MEMORY 0x2u
#define PCI_COMMAND_MASTER 0x4u
#define PCI_COMMAND_WRITABLE 0x0557u
#define PCI_STATUS 0x06
#define PCI_STATUS_CAP_LIST 0x10u
#define PCI_CLASS_REVISION 0x08
#define PCI_CLASS_NETWORK_ETHERNET 0x020000u
#define PCI_CLASS_BRIDGE_PCI_NORMAL 0x060400u
#define PCI_CACHE_LINE_SIZE 0x0c
#define PCI_HEADER_TYPE 0x0e
#define PCI_HEADER_TYPE_BRIDGE 1
#define PCI_BASE_ADDRESS_0 0x10
#define PCI_BASE_ADDRESS_MEM_TYPE_64 0x04u
#define PCI_PRIMARY_BUS 0x18 /* behind it: the secondary and the subordinate bus */
#define PCI_SECONDARY_BUS 0x19
#define PCI_MEMORY_BASE 0x20 /* and the limit behind it */
#define PCI_SUBSYSTEM_VENDOR_ID 0x2c
#define PCI_CAPABILITY_LIST 0x34
#define PCI_INTERRUPT_LINE 0x3c
#define PCI_BRIDGE_CONTROL 0x3e
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
#define PCI_EXP_VERSION_2 0x02u
#define PCI_EXP_TYPE_ENDPOINT 0x00u
#define PCI_EXP_TYPE_ROOT_PORT 0x40u
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
    u8 regs[BRIDGE_SIZE], writable[BRIDGE_SIZE]; /* each register keeps what is written to its writable bits */
    struct registers bridge, window;
    u64 window_at;
    struct pci_identity identity;
    void *line;
    bool asserted;
    u64 (*load)(void *device, u64 at, unsigned size);
    void (*store)(void *device, u64 at, u64 value, unsigned size);
    void *device;
};

/* Whether the device may use the memory. A driver forbids it when it closes the NIC. */
static inline bool pci_is_master(const struct pci *pci)
{
    return pci->regs[EXT_CFG_DATA + PCI_COMMAND] & PCI_COMMAND_MASTER;
}

static void show_messages(const struct pci *pci)
{
    set_interrupt(pci->line, get32(pci->regs + MSI_INT_STATUS) & ~get32(pci->regs + MSI_INT_MASK_STATUS));
}

/* The bridge takes messages with the address and the upper bits of the value that the kernel gave the bridge. */
static void take_message(struct pci *pci, u64 address, u32 value)
{
    u64 target = get64(pci->regs + PCIE_MISC_MSI_BAR_CONFIG_LO);
    u32 match = get32(pci->regs + PCIE_MISC_MSI_DATA_CONFIG), mask = match >> 16;

    if (target != (address | MSI_ENABLE) || (value ^ match) & mask)
        return;
    put32(pci->regs + MSI_INT_STATUS, get32(pci->regs + MSI_INT_STATUS) | 1u << (value & ~mask) % 32);
    show_messages(pci);
}

/* Sends the message of the device when its interrupt becomes pending. */
static inline void pci_interrupt(struct pci *pci, bool pending)
{
    const u8 *msi = pci->regs + EXT_CFG_DATA + MSI_AT;
    bool rises = pending && !pci->asserted;

    pci->asserted = pending;
    if (rises && pci_is_master(pci) && msi[PCI_MSI_FLAGS] & PCI_MSI_FLAGS_ENABLE)
        take_message(pci, get64(msi + PCI_MSI_ADDRESS_LO), get16(msi + PCI_MSI_DATA_64));
}

/* Behind the root port is one device with one function. No other one has a configuration space. */
static bool is_nowhere(const struct pci *pci, u64 at)
{
    return at >= EXT_CFG_DATA && at < EXT_CFG_DATA + PCI_CONFIG_SIZE &&
           get32(pci->regs + EXT_CFG_INDEX) != (u32)pci->regs[PCI_SECONDARY_BUS] << PCIE_ECAM_BUS_SHIFT;
}

static u64 pci_load_bridge(void *device, u64 at, unsigned size)
{
    struct pci *pci = device;
    bool is_reset = pci->regs[PCIE_RGR1_SW_INIT_1] & RGR1_SW_INIT_1_MASK;
    u64 value = 0;

    if (is_nowhere(pci, at))
        return ~(u64)0;
    pci->regs[PCIE_MISC_PCIE_STATUS] =
        PCIE_MISC_PCIE_STATUS_PCIE_PORT_MASK | (is_reset ? 0 : PCIE_MISC_PCIE_STATUS_LINK_MASK);
    for (unsigned i = 0; i < size; i++)
        value |= (u64)pci->regs[at + i] << 8 * i;
    return value;
}

static void pci_store_bridge(void *device, u64 at, u64 value, unsigned size)
{
    struct pci *pci = device;
    u8 *status = pci->regs + MSI_INT_STATUS, *mask = pci->regs + MSI_INT_MASK_STATUS;

    if (is_nowhere(pci, at))
        return;
    for (unsigned i = 0; i < size; i++) {
        u8 bits = pci->writable[at + i];

        pci->regs[at + i] = (u8)((pci->regs[at + i] & ~bits) | (value >> 8 * i & bits));
    }
    switch (at) {
    case MSI_INT_CLR: put32(status, get32(status) & ~(u32)value); break;
    case MSI_INT_MASK_SET: put32(mask, get32(mask) | (u32)value); break;
    case MSI_INT_MASK_CLR: put32(mask, get32(mask) & ~(u32)value); break;
    default: return;
    }
    show_messages(pci);
}

/* The octet of the registers of the device at a place in the window; at least its size: there is no register. */
static inline u64 pci_register_at(const struct pci *pci, u64 at)
{
    const u8 *config = pci->regs + EXT_CFG_DATA;
    u64 base = get64(config + PCI_BASE_ADDRESS_0 + 4 * pci->identity.bar) & ~(u64)(pci->identity.size - 1);

    return config[PCI_COMMAND] & PCI_COMMAND_MEMORY ? pci->window_at + at - base : pci->identity.size;
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

static inline u8 *add_capability(u8 *config, u8 at, u8 id)
{
    config[at] = id;
    config[at + 1] = config[PCI_CAPABILITY_LIST];
    config[PCI_CAPABILITY_LIST] = at;
    put16(config + PCI_STATUS, PCI_STATUS_CAP_LIST);
    return config + at;
}

/* A configuration space, of which only few bits can be written, with a capability of PCI Express. */
static void make_function(struct pci *pci, u32 begin, u32 class_and_revision, u8 express_at, u32 type)
{
    u8 *config = pci->regs + begin, *writable = pci->writable + begin;
    u8 *capability = add_capability(config, express_at, PCI_CAP_ID_EXP);

    memset(writable, 0, PCI_CONFIG_SIZE);
    put32(config + PCI_CLASS_REVISION, class_and_revision);
    put16(capability + PCI_EXP_FLAGS, type | PCI_EXP_VERSION_2);
    put32(capability + PCI_EXP_LNKCAP, PCI_EXP_5GT_X1);
    put16(capability + PCI_EXP_LNKSTA, PCI_EXP_5GT_X1);
    put16(writable + PCI_COMMAND, PCI_COMMAND_WRITABLE);
    writable[PCI_CACHE_LINE_SIZE] = writable[PCI_INTERRUPT_LINE] = 0xff;
    put16(writable + express_at + PCI_EXP_DEVCTL, 0xffff);
}

static void make_root_port(struct pci *pci)
{
    make_function(pci, 0, PCI_CLASS_BRIDGE_PCI_NORMAL << 8, BRCM_PCIE_CAP_REGS, PCI_EXP_TYPE_ROOT_PORT);
    put32(pci->regs + PCI_VENDOR_ID, ROOT_PORT_BCM2711);
    pci->regs[PCI_HEADER_TYPE] = PCI_HEADER_TYPE_BRIDGE;
    put32(pci->writable + PCI_PRIMARY_BUS, 0xffffff);
    put32(pci->writable + PCI_MEMORY_BASE, 0xfff0fff0);
    put16(pci->writable + PCI_BRIDGE_CONTROL, 0xffff);
}

static void make_card(struct pci *pci)
{
    const struct pci_identity *identity = &pci->identity;
    u8 *config = pci->regs + EXT_CFG_DATA, *writable = pci->writable + EXT_CFG_DATA;
    u32 bar = PCI_BASE_ADDRESS_0 + 4 * identity->bar, class = PCI_CLASS_NETWORK_ETHERNET << 8;

    make_function(pci, EXT_CFG_DATA, class | identity->revision, EXPRESS_AT, PCI_EXP_TYPE_ENDPOINT);
    put32(config + PCI_VENDOR_ID, identity->vendor | (u32)identity->device << 16);
    put32(config + PCI_SUBSYSTEM_VENDOR_ID, identity->subsystem_vendor | (u32)identity->subsystem << 16);
    config[bar] = PCI_BASE_ADDRESS_MEM_TYPE_64;
    put64(writable + bar, ~(u64)(identity->size - 1));
    add_capability(config, MSI_AT, PCI_CAP_ID_MSI)[PCI_MSI_FLAGS] = PCI_MSI_FLAGS_64BIT;
    writable[MSI_AT + PCI_MSI_FLAGS] = PCI_MSI_FLAGS_ENABLE;
    put64(writable + MSI_AT + PCI_MSI_ADDRESS_LO, ~(u64)3);
    put16(writable + MSI_AT + PCI_MSI_DATA_64, 0xffff);
}

/* Puts NIC `which` behind its bridge. `load` and `store` are for its registers. */
static inline void make_pci(struct pci *pci, unsigned which, const struct pci_identity *identity,
                            u64 (*load)(void *device, u64 at, unsigned size),
                            void (*store)(void *device, u64 at, u64 value, unsigned size), void *device)
{
    pci->identity = *identity;
    pci->load = load;
    pci->store = store;
    pci->device = device;
    pci->line = interrupt_of(which, 1);
    memset(pci->writable, 0xff, sizeof(pci->writable));
    make_root_port(pci);
    make_card(pci);
    put32(pci->regs + PCIE_MISC_REVISION, BRCM_PCIE_HW_REV_33);
    put32(pci->regs + MSI_INT_MASK_STATUS, ~0u);
    /* Only messages set these. */
    put32(pci->writable + MSI_INT_STATUS, 0);
    put32(pci->writable + MSI_INT_MASK_STATUS, 0);

    pci->window_at = place_of(2 + which);
    map_registers(&pci->bridge, "pinet-bridge", place_of(which), BRIDGE_SIZE, 1, 4, pci_load_bridge, pci_store_bridge,
                  pci);
    map_registers(&pci->window, "pinet-pci", pci->window_at, PCI_WINDOW_SIZE, 1, 4, pci_load, pci_store, pci);
}
