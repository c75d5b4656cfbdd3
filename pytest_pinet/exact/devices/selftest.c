/*
 * Proves, before any boot, that this QEMU has all that device.h needs: the functions, the layout of both structures, and
 * what they do. No processor runs. A right QEMU prints the last line of this file within a second; a wrong one ends with
 * a signal, or prints another line.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "device.h"

/* A register that counts what was read and keeps what was written, both of one size only. */
#define SELF_SIZE 0x1000u
#define SELF_READ 0x10
#define SELF_WRITTEN 0x14
#define READ_VALUE 0x70696e65u
#define WRITTEN_VALUE 0x74657374u
#define DMA_VALUE 0x0123456789abcdefull
/* QEMU's machine "virt": its memory begins here, and its GICv2. The register is in the specification of the GICv2. */
#define VIRT_MEMORY 0x40000000u
#define VIRT_GICD 0x08000000u
#define GICD_ISPENDR 0x200
#define FIRST_SPI 32

struct self {
    struct nic nic;
    struct registers registers;
    void *irq;
    u64 at;
    u32 written;
};
static struct self *under_test;

static u64 load(void *device, u64 at, unsigned size)
{
    return device == under_test && at == SELF_READ && size == 4 ? READ_VALUE : 0;
}

static void store(void *device, u64 at, u64 value, unsigned size)
{
    struct self *self = device;

    if (self == under_test && at == SELF_WRITTEN && size == 4)
        self->written = (u32)value;
}

static bool is_pending(struct self *self, bool wanted)
{
    u32 line = FIRST_SPI + (u32)number_argument("spi"), pending = 0;

    set_interrupt(self->irq, wanted);
    dma_read(VIRT_GICD + GICD_ISPENDR + line / 32 * 4, &pending, sizeof(pending));
    return (pending >> line % 32 & 1) == wanted;
}

static const char *proved(struct self *self)
{
    u32 word = 0, written = WRITTEN_VALUE;
    u64 memory = 0, wanted = DMA_VALUE;

    dma_read(self->at + SELF_READ, &word, sizeof(word));
    if (word != READ_VALUE)
        return "a register cannot be read";
    dma_write(self->at + SELF_WRITTEN, &written, sizeof(written));
    if (self->written != WRITTEN_VALUE)
        return "a register cannot be written";
    dma_write(VIRT_MEMORY, &wanted, sizeof(wanted));
    dma_read(VIRT_MEMORY, &memory, sizeof(memory));
    if (memory != wanted)
        return "the memory cannot be written";
    if (!is_pending(self, true) || !is_pending(self, false))
        return "an interrupt does not arrive";
    return "proved";
}

/* QEMU's main loop has come this far, and holds its lock. */
static void in_loop(void *data)
{
    printf("pinet-selftest: %s\n", proved(data));
    fflush(stdout);
    _exit(0);
}

static struct nic *make_nic(unsigned which)
{
    struct self *self = new_nic(which, sizeof(*self));

    if (which == 0) {
        under_test = self;
        self->at = place_of(which);
        self->irq = interrupt_of(which, 0);
        map_registers(&self->registers, "pinet-selftest", self->at, SELF_SIZE, 4, 4, load, store, self);
        aio_bh_schedule_oneshot_full(qemu_get_aio_context(), in_loop, self, "pinet-selftest");
    }
    return &self->nic;
}
