/*
 * What models of NICs for an unchanged QEMU are made of: registers, interrupts, DMA, and the cable between two NICs.
 *
 * A model is one file that includes this one and defines make_nic(). It is compiled to a plugin, which QEMU loads with
 * -plugin. A plugin may call all functions that QEMU's program exports; Debian's exports every one, because it is built
 * with --enable-modules (plugins/meson.build of QEMU). Only functions with the same prototype in QEMU 7.2 and 10.0 are
 * used; selftest.c proves them before the first boot. pytest_pinet/exact/device_models.py builds and checks models:
 *
 *   cc -shared -fPIC -pthread -O2 -Wall -Wextra -DAPI=1 -o genet.so genet.c      (-DAPI: see plugin/count.c)
 *   qemu-system-aarch64 -plugin ./genet.so,at=184549376,spi=176,mac0=...,mac1=...,control=7 -dtb ...
 *
 * The first NIC is the device under test, the second one its peer. NIC n has its registers at `at` + n * PLACE and its
 * interrupts from SPI `spi` + n * LINES on; the device tree says the same to the guest. `control` is a socket over which
 * the host changes the link or the NIC (see do_command). All functions of a model run with QEMU's lock held, in the
 * thread of the processor or while it stands still, so that everything happens at the same instruction in each boot.
 *
 * A plugin runs inside QEMU, whose licence is the GPL, version 2.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define PUBLIC __attribute__((visibility("default")))
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

PUBLIC int qemu_plugin_version = API;

/* ---- QEMU. Its structures are opaque, except for two: Notifier (qemu/notify.h) and MemoryRegionOps (exec/memory.h). */

struct notifier {
    void (*notify)(struct notifier *notifier, void *data);
    void *links[2];
};
struct region_operations {
    u64 (*read)(void *device, u64 at, unsigned size);
    void (*write)(void *device, u64 at, u64 value, unsigned size);
    void *with_attributes[2];
    int endianness;
    struct { unsigned least, most; bool unaligned; void *accepts; } valid;
    struct { unsigned least, most; bool unaligned; } implemented;
};
#define DEVICE_LITTLE_ENDIAN 2
/* MemoryRegion has 272 octets in QEMU 7.2 and 10.0. */
#define REGION_ROOM 4096

extern void qemu_add_machine_init_done_notifier(struct notifier *notifier);
extern void *get_system_memory(void);
extern void memory_region_init_io(void *region, void *owner, const struct region_operations *operations, void *device,
                                  const char *name, u64 size);
extern void memory_region_add_subregion(void *region, u64 at, void *sub);
extern void *object_resolve_path_type(const char *path, const char *type, bool *ambiguous);
extern void *qdev_get_gpio_in(void *device, int number);
extern void qemu_set_irq(void *irq, int level);
extern void cpu_physical_memory_rw(u64 at, void *data, u64 size, bool write);
extern void *qemu_get_aio_context(void);
extern void aio_bh_schedule_oneshot_full(void *context, void (*fn)(void *data), void *data, const char *name);

static inline void fatal(const char *why)
{
    fprintf(stderr, "\nexact-failed: plugin: %s\n", why);
    exit(1);
}

/* ---- The words behind the path of the plugin, as name=value. */

static struct { int count; char **words; } arguments;

/* Returns the value of a word, NULL if it is not given. */
static inline const char *argument(const char *name)
{
    size_t size = strlen(name);

    for (int i = 0; i < arguments.count; i++)
        if (!strncmp(arguments.words[i], name, size) && arguments.words[i][size] == '=')
            return arguments.words[i] + size + 1;
    return NULL;
}

static inline u64 number_argument(const char *name)
{
    const char *text = argument(name);

    if (!text)
        fatal("a word is missing behind the path of the plugin");
    return strtoull(text, NULL, 0);
}

/* ---- Registers, interrupts, DMA. */

/* Octets between the registers of both NICs, and the interrupt lines of each. */
#define PLACE 0x100000u
#define LINES 4
/* No model follows a ring of descriptors further at once: a broken driver may give a ring that has no end. */
#define DESCRIPTORS_MOST 65536u

struct registers {
    const char *name;
    u64 (*read)(void *device, u64 at, unsigned size);
    void (*write)(void *device, u64 at, u64 value, unsigned size);
    void *device;
    bool traced, busy;
    struct region_operations operations;
    _Alignas(64) u8 region[REGION_ROOM];
};

static inline u64 place_of(unsigned which)
{
    return number_argument("at") + (u64)which * PLACE;
}

/*
 * A broken driver may give the address of a register as that of a buffer. Then the DMA of a device would use registers of
 * the device while it handles another access, without end. Such an access does nothing.
 */
static inline u64 read_register(void *data, u64 at, unsigned size)
{
    struct registers *registers = data;
    u64 value;

    if (registers->busy)
        return ~(u64)0;
    registers->busy = true;
    value = registers->read(registers->device, at, size);
    registers->busy = false;
    if (registers->traced)
        fprintf(stderr, "%s: read %04llx/%u = %llx\n", registers->name, (unsigned long long)at, size,
                (unsigned long long)value);
    return value;
}

static inline void write_register(void *data, u64 at, u64 value, unsigned size)
{
    struct registers *registers = data;

    if (registers->traced)
        fprintf(stderr, "%s: write %04llx/%u = %llx\n", registers->name, (unsigned long long)at, size,
                (unsigned long long)value);
    if (registers->busy)
        return;
    registers->busy = true;
    registers->write(registers->device, at, value, size);
    registers->busy = false;
}

/*
 * Puts `size` octets of registers at a physical address. `read` and `write` get the octet within them and the size of the
 * access, which is `least` to `most` octets. With the word trace=1, each access is a line on the console.
 */
static inline void map_registers(struct registers *registers, const char *name, u64 at, u64 size, unsigned least,
                                 unsigned most, u64 (*read)(void *device, u64 at, unsigned size),
                                 void (*write)(void *device, u64 at, u64 value, unsigned size), void *device)
{
    *registers = (struct registers){
        .name = name,
        .read = read,
        .write = write,
        .device = device,
        .traced = argument("trace") != NULL,
        .operations = {
            .read = read_register,
            .write = write_register,
            .endianness = DEVICE_LITTLE_ENDIAN,
            .valid = {.least = least, .most = most},
            .implemented = {.least = least, .most = most},
        },
    };
    memory_region_init_io(registers->region, NULL, &registers->operations, registers, name, size);
    memory_region_add_subregion(get_system_memory(), at, registers->region);
}

/* Returns the interrupt line `line` of NIC `which`, which starts low. */
static inline void *interrupt_of(unsigned which, unsigned line)
{
    void *gic = object_resolve_path_type("", "arm_gic", NULL);

    if (!gic)
        fatal("the machine has no GICv2");
    return qdev_get_gpio_in(gic, (int)(number_argument("spi") + which * LINES + line));
}

static inline void set_interrupt(void *line, bool on)
{
    qemu_set_irq(line, on);
}

static inline void dma_read(u64 at, void *to, size_t size)
{
    cpu_physical_memory_rw(at, to, size, false);
}

static inline void dma_write(u64 at, const void *from, size_t size)
{
    cpu_physical_memory_rw(at, (void *)from, size, true);
}

/* ---- Numbers in memory: of devices (little endian), and of the network (big endian). */

static inline u32 get16(const u8 *at)
{
    return at[0] | (u32)at[1] << 8;
}

static inline u32 get32(const u8 *at)
{
    return get16(at) | get16(at + 2) << 16;
}

static inline u64 get64(const u8 *at)
{
    return get32(at) | (u64)get32(at + 4) << 32;
}

static inline void put16(u8 *at, u32 value)
{
    at[0] = (u8)value;
    at[1] = (u8)(value >> 8);
}

static inline void put32(u8 *at, u32 value)
{
    put16(at, value);
    put16(at + 2, value >> 16);
}

static inline void put64(u8 *at, u64 value)
{
    put32(at, (u32)value);
    put32(at + 4, (u32)(value >> 32));
}

static inline u16 swapped(u32 value)
{
    return (u16)(value << 8 | (value >> 8 & 0xff));
}

static inline u32 get_be16(const u8 *at)
{
    return (u32)at[0] << 8 | at[1];
}

static inline void put_be16(u8 *at, u32 value)
{
    at[0] = (u8)(value >> 8);
    at[1] = (u8)value;
}

#include "cable.h"

/* ---- What a model defines: one NIC of two. Both exist for as long as QEMU runs. */

static struct nic *make_nic(unsigned which);

/* Returns a device that begins with a struct nic. All is 0, except for the address of NIC `which`, and its link. */
static inline void *new_nic(unsigned which, size_t size)
{
    const char *text = argument(which ? "mac1" : "mac0");
    struct nic *nic = calloc(1, size);

    if (!nic)
        fatal("out of memory");
    for (int i = 0; i < MAC_SIZE && text; i++)
        nic->mac[i] = (u8)strtoul(text + 3 * i, NULL, 16);
    nic->link = true;
    return nic;
}

/* ---- Commands of the host, one line each. The answer is "ok", or a sentence. */

static struct nic *nics[2];
static struct { int socket; sem_t done; char line[64]; const char *answer; } control;

static inline const char *do_command(const char *command)
{
    struct nic *nic = nics[0];
    bool on = !strcmp(command, "link on");

    if (on || !strcmp(command, "link off")) {
        nic->link = on;
        if (nic->link_changed)
            nic->link_changed(nic);
        return "ok";
    }
    on = !strcmp(command, "plug in");
    if (on || !strcmp(command, "unplug")) {
        if (!nic->plug)
            return "this NIC cannot be unplugged";
        nic->plug(nic, on);
        return "ok";
    }
    if (!strcmp(command, "hold frames")) {
        nic->holds = true;
        return "ok";
    }
    if (!strcmp(command, "release frames")) {
        release_frames(nic);
        return "ok";
    }
    if (!strncmp(command, "fault ", 6)) {
        for (unsigned i = 0; i < COUNT(fault_names); i++)
            if (!strcmp(command + 6, fault_names[i])) {
                nic->fault = (enum fault)i;
                nic->frames_with_fault = 0;
                return "ok";
            }
    }
    return "the model does not know this command";
}

static inline void in_main_loop(void *data)
{
    (void)data;
    control.answer = do_command(control.line);
    sem_post(&control.done);
}

static inline void *read_commands(void *data)
{
    size_t have = 0;

    while (read(control.socket, control.line + have, 1) == 1) {
        if (control.line[have] != '\n') {
            if (++have == sizeof(control.line))
                fatal("a command of the host is too long");
            continue;
        }
        control.line[have] = 0;
        have = 0;
        /* QEMU's main loop holds the lock, while the processor stands still. */
        aio_bh_schedule_oneshot_full(qemu_get_aio_context(), in_main_loop, NULL, "pinet");
        while (sem_wait(&control.done))
            ;
        if (dprintf(control.socket, "%s\n", control.answer) < 0)
            break;
    }
    return data;
}

static inline void machine_done(struct notifier *notifier, void *data)
{
    pthread_t thread;
    sigset_t all, before;

    (void)notifier, (void)data;
    for (unsigned which = 0; which < 2; which++)
        nics[which] = make_nic(which);
    nics[0]->peer = nics[1];
    nics[1]->peer = nics[0];
    if (!argument("control"))
        return;
    control.socket = (int)number_argument("control");
    sem_init(&control.done, 0, 0);
    /* QEMU's own threads handle signals. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, read_commands, NULL))
        fatal("no thread can be made");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

PUBLIC int qemu_plugin_install(u64 id, const void *info, int argc, char **argv)
{
    static struct notifier notifier = {.notify = machine_done};

    (void)id, (void)info;
    /* QEMU frees the words later. */
    arguments.words = calloc((size_t)argc + 1, sizeof(char *));
    for (int i = 0; i < argc; i++)
        arguments.words[arguments.count++] = strdup(argv[i]);
    qemu_add_machine_init_done_notifier(&notifier);
    return 0;
}
