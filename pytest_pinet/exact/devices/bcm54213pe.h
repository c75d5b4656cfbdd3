/*
 * Broadcom BCM54213PE: the Gigabit PHY of Raspberry Pi 4 and 5, behind the MDIO of two kinds of MACs.
 *
 * Source of the register facts: drivers/net/phy/bcm-phy-lib.c and include/linux/brcmphy.h of Linux, whose names the registers
 * have here. Modelled beside phy.h: the windows to further registers, which keep what is written.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "phy.h"

#define PHY_ID_BCM54213PE 0x600d84a2u
/* MII_BCM54XX_SHD: bit 15 writes, bits 14-10 choose. MII_BCM54XX_EXP_DATA behind MII_BCM54XX_EXP_SEL. */
enum { BCM54XX_EXP_DATA = 0x15, BCM54XX_EXP_SEL = 0x17, BCM54XX_AUX_CTL = 0x18, BCM54XX_SHD = 0x1c };
#define SHADOW_WRITE 0x8000u
#define SHADOW_SHIFT 10
#define SHADOW_DATA 0x03ffu
#define AUX_SELECT 0x0007u
#define AUX_READ_SHIFT 12

struct bcm_phy {
    u16 mii[PHY_REGISTERS], shadow[32], auxiliary[8], expansion[256];
};

static inline void bcm_phy_power_on(struct bcm_phy *phy)
{
    phy_power_on(phy->mii, PHY_ID_BCM54213PE, true, true);
}

static inline u32 bcm_phy_read(struct bcm_phy *phy, unsigned number)
{
    u32 own = phy->mii[number];

    switch (number) {
    case BCM54XX_EXP_DATA: return phy->expansion[phy->mii[BCM54XX_EXP_SEL] & 0xff];
    case BCM54XX_AUX_CTL: return phy->auxiliary[own >> AUX_READ_SHIFT & AUX_SELECT];
    case BCM54XX_SHD: return (own & ~SHADOW_DATA) | phy->shadow[own >> SHADOW_SHIFT & 31];
    default: return own;
    }
}

static inline void bcm_phy_write(struct bcm_phy *phy, unsigned number, u32 value)
{
    phy_write(phy->mii, number, value);
    if (number == BCM54XX_EXP_DATA)
        phy->expansion[phy->mii[BCM54XX_EXP_SEL] & 0xff] = (u16)value;
    if (number == BCM54XX_AUX_CTL)
        phy->auxiliary[value & AUX_SELECT] = (u16)value;
    if (number == BCM54XX_SHD && value & SHADOW_WRITE)
        phy->shadow[value >> SHADOW_SHIFT & 31] = value & SHADOW_DATA;
}
