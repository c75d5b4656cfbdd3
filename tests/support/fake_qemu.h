/*
 * What a device model needs of QEMU, so that a test can be its driver without QEMU: memory, flash, registers, interrupts.
 * A program includes the model first. Built with the sanitizers of the compiler:
 *
 *   cc -fsanitize=address,undefined -DAPI=1 -DMODEL='"genet.c"' -I pytest_pinet/exact/devices PROGRAM.c
 */
#define RAM_AT 0x40000000u
#define RAM_SIZE 0x100000u
/* QEMU's virt machine has flash here. All of it is 1. */
#define FLASH_AT 0x04000000u
#define FLASH_SIZE 0x04000000u
#define INTERRUPTS 256

static u8 ram[RAM_SIZE];
static bool interrupts[INTERRUPTS];
static struct notifier *done;
static struct { u64 at, size; const struct region_operations *operations; void *device, *region; } regions[8];
static unsigned region_count;

void qemu_add_machine_init_done_notifier(struct notifier *notifier) { done = notifier; }
void *get_system_memory(void) { return ram; }
void *object_resolve_path_type(const char *path, const char *type, bool *ambiguous)
{
    (void)path, (void)type, (void)ambiguous;
    return ram;
}
void *qdev_get_gpio_in(void *device, int number)
{
    (void)device;
    return &interrupts[number];
}
void qemu_set_irq(void *irq, int level) { *(bool *)irq = level; }
void *qemu_get_aio_context(void) { return NULL; }
void aio_bh_schedule_oneshot_full(void *context, void (*fn)(void *data), void *data, const char *name)
{
    (void)context, (void)fn, (void)data, (void)name;
}

void memory_region_init_io(void *region, void *owner, const struct region_operations *operations, void *device,
                           const char *name, u64 size)
{
    (void)owner, (void)name;
    regions[region_count].region = region;
    regions[region_count].operations = operations;
    regions[region_count].device = device;
    regions[region_count++].size = size;
}

void memory_region_add_subregion(void *region, u64 at, void *sub)
{
    (void)region, (void)sub;
    regions[region_count - 1].at = at;
}

static void access_region(unsigned number, u64 place, u8 *data, bool write)
{
    unsigned size = regions[number].operations->valid.most;
    u64 value = 0;

    place -= place % size;
    if (write) {
        memcpy(&value, data, size);
        regions[number].operations->write(regions[number].device, place, value, size);
    } else {
        value = regions[number].operations->read(regions[number].device, place, size);
        memcpy(data, &value, size);
    }
}

void cpu_physical_memory_rw(u64 at, void *data, u64 size, bool write)
{
    u8 *octets = data;

    for (unsigned i = 0; i < region_count; i++)
        if (at >= regions[i].at && at < regions[i].at + regions[i].size && size >= 4) {
            access_region(i, at - regions[i].at, octets, write);
            return;
        }
    for (u64 i = 0; i < size; i++) {
        bool is_ram = at + i >= RAM_AT && at + i < RAM_AT + RAM_SIZE;

        if (write && is_ram)
            ram[at + i - RAM_AT] = octets[i];
        else if (!write)
            octets[i] = is_ram ? ram[at + i - RAM_AT] : at + i >= FLASH_AT && at + i < FLASH_AT + FLASH_SIZE ? 0xff : 0;
    }
}

/* Makes both NICs, as QEMU does when its machine is ready. */
static inline void start_model(void)
{
    static char *words[] = {"at=184549376", "spi=176", "mac0=02:00:00:00:00:01", "mac1=02:00:00:00:00:02"};

    qemu_plugin_install(0, NULL, COUNT(words), words);
    done->notify(done, NULL);
}
