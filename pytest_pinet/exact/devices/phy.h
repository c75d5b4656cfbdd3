/*
 * A PHY with the registers of IEEE 802.3, clause 22, as models have one for their drivers. Its link partner can do all
 * that it can do itself, and negotiation has ended as soon as it was asked for.
 *
 * The registers have the names of include/uapi/linux/mii.h of Linux.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
enum {
    MII_BMCR = 0,
    MII_BMSR = 1,
    MII_PHYSID1 = 2,
    MII_PHYSID2 = 3,
    MII_ADVERTISE = 4,
    MII_LPA = 5,
    MII_EXPANSION = 6,
    MII_CTRL1000 = 9,
    MII_STAT1000 = 10,
    MII_MMD_CTRL = 13,
    MII_MMD_DATA = 14,
    MII_ESTATUS = 15,
    PHY_REGISTERS = 32,
};
/* The address of the PHY on the bus of its MAC, in all models. */
#define PHY_ADDRESS 1
#define BMCR_ANENABLE 0x1000u
#define BMCR_RESET 0x8000u
#define BMCR_ANRESTART 0x0200u
#define BMSR_100_AND_10 0x7800u /* 100BASE-TX and 10BASE-T, half and full duplex */
#define BMSR_ESTATEN 0x0100u
#define BMSR_NO_PREAMBLE 0x0040u
#define BMSR_ANEGCOMPLETE 0x0020u
#define BMSR_ANEGCAPABLE 0x0008u
#define BMSR_LSTATUS 0x0004u
#define BMSR_ERCAP 0x0001u
#define ADVERTISE_ALL_AND_PAUSE 0x0de1u
#define LPA_LPACK 0x4000u
#define LPA_NPAGE 0x8000u
#define EXPANSION_ALL 0x000du
#define CTRL1000_FULL 0x0200u
#define STAT1000_FULL_AND_BOTH_OK 0x3800u
#define ESTATUS_1000_TFULL 0x2000u

static inline void phy_show_link(u16 *mii, bool link)
{
    bool is_gigabit = mii[MII_ESTATUS];

    mii[MII_BMSR] = BMSR_100_AND_10 | BMSR_NO_PREAMBLE | BMSR_ANEGCAPABLE | BMSR_ERCAP;
    mii[MII_BMSR] |= is_gigabit ? BMSR_ESTATEN : 0;
    mii[MII_BMSR] |= link ? BMSR_ANEGCOMPLETE | BMSR_LSTATUS : 0;
    mii[MII_LPA] = link ? ADVERTISE_ALL_AND_PAUSE | LPA_LPACK | (is_gigabit ? LPA_NPAGE : 0) : 0;
    mii[MII_STAT1000] = link && is_gigabit ? STAT1000_FULL_AND_BOTH_OK : 0;
}

/* Gives the registers their values after a reset. `id` are the registers 2 and 3. */
static inline void phy_power_on(u16 *mii, u32 id, bool is_gigabit, bool link)
{
    memset(mii, 0, PHY_REGISTERS * sizeof(*mii));
    mii[MII_BMCR] = BMCR_ANENABLE;
    mii[MII_PHYSID1] = (u16)(id >> 16);
    mii[MII_PHYSID2] = (u16)id;
    mii[MII_ADVERTISE] = ADVERTISE_ALL_AND_PAUSE;
    mii[MII_EXPANSION] = EXPANSION_ALL;
    mii[MII_CTRL1000] = is_gigabit ? CTRL1000_FULL : 0;
    mii[MII_ESTATUS] = is_gigabit ? ESTATUS_1000_TFULL : 0;
    phy_show_link(mii, link);
}

/* Writes a register that a driver may change. Returns whether a reset or a negotiation was asked for. */
static inline bool phy_write(u16 *mii, unsigned number, u32 value)
{
    switch (number) {
    case MII_BMSR: case MII_PHYSID1: case MII_PHYSID2: case MII_LPA: case MII_STAT1000: case MII_ESTATUS: return false;
    case MII_BMCR: mii[MII_BMCR] = (u16)(value & ~(BMCR_RESET | BMCR_ANRESTART)); break;
    default: mii[number] = (u16)value;
    }
    return number == MII_BMCR && value & (BMCR_RESET | BMCR_ANRESTART);
}
