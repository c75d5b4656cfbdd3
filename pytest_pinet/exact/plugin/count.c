/*
 * A plugin of QEMU that counts the executed instructions of an arm64 guest, by address.
 *
 * It counts pieces. A piece is a sequence of instructions of which either none or all are begun: it ends where its
 * translation block ends, or with an instruction that can leave the block (a memory access may fault, or be one of
 * a device, and an instruction of the class "system" may trap). It belongs to the function of its first instruction. One
 * addition for each piece takes less time than one for each instruction.
 *
 * The guest marks a window with two instructions that do nothing: `hint #0x70` sets all counts to 0, `hint #0x71` writes
 * them. At `hint #0x72` the plugin writes one octet to the socket with the descriptor `hold`, and the guest stops until
 * the host has answered with one. If the guest executes `patience` instructions without a marker and without any code
 * that it has not executed before, it hangs, and the plugin ends QEMU. With interrupts disabled, the guest itself cannot.
 * pytest_pinet/exact/qemu.py builds this file when it is first needed:
 *
 *   cc -shared -fPIC -pthread -O2 -DAPI=1 -o count.so count.c    (-DAPI=2 for QEMU 9.0, 3 for 9.1, 4 for 9.2 and later)
 *   qemu-system-aarch64 -plugin ./count.so,out=counts,hold=7,patience=3750000000 -icount shift=4 ...
 *
 * Output, in the machine's byte order, for each window: "SNAP"; the number of pieces that are new since the last window
 * (uint64), then the address of each (uint64); the number of pieces that were executed (uint64), then for each its number,
 * from 0 on, and how many of its instructions were executed (uint64 each).
 *
 * The interface of QEMU's plugins is declared here, so that neither its header nor glib is needed. From version 3 of the
 * interface on, each virtual processor has its own counts, which are added up here. Before, all have the same counts
 * (with -icount, one thread runs all processors, so that no count is lost).
 *
 * A plugin runs inside QEMU, whose licence is the GPL, version 2.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define PAGES 16384  /* a power of 2: 64 MiB of code */
#define WORDS 1024   /* instructions of a page of 4 KiB */
#define CELLS 65536  /* of a chunk; each piece takes one cell */
#define CHUNKS 256

struct qemu_plugin_tb;
struct qemu_plugin_insn;
extern void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*fn)(uint64_t id, struct qemu_plugin_tb *tb));
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, void (*fn)(unsigned cpu, void *data),
                                                   int flags, void *data);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
#if API < 3
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
#else
extern size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t size);
#endif
#if API < 2
extern void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op, void *at, uint64_t add);
#else
struct cell { struct qemu_plugin_scoreboard *board; size_t offset; };
extern struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t size);
extern void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *board, unsigned cpu);
extern void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *insn, int op,
                                                                struct cell cell, uint64_t add);
extern int qemu_plugin_num_vcpus(void);
#endif

PUBLIC int qemu_plugin_version = API;

struct piece {
    uint64_t address;
    uint32_t length; /* in instructions */
    uint32_t next;   /* the number of another piece that begins with the same instruction, plus 1; 0: none */
};

static uint64_t pages[PAGES];        /* address >> 12, plus 1; 0: free */
static uint32_t *cells_of[PAGES];    /* of each page, by instruction: a piece that begins there, as in `next` */
static struct piece *pieces[CHUNKS]; /* of the cells */
static uint32_t cells;               /* in use */
static FILE *out;
static int hold = -1;
static unsigned markers; /* that were executed */
static uint64_t patience;

#if API < 2
static uint64_t *chunks[CHUNKS];
#else
/* QEMU reserves 16 processors in a scoreboard and clears all of it. Therefore, cells are made as they are needed. */
static struct qemu_plugin_scoreboard *chunks[CHUNKS];
#endif

static void stop(const char *why)
{
    fprintf(stderr, "exact-failed: plugin: %s\n", why);
    exit(1);
}

static struct piece *piece_of(uint32_t cell)
{
    return &pieces[cell / CELLS][cell % CELLS];
}

/* Returns the counts of a processor in a chunk, or NULL if there is no such processor. */
static uint64_t *counts_of(int cpu, size_t chunk)
{
#if API < 2
    return cpu ? NULL : chunks[chunk];
#else
    return cpu < qemu_plugin_num_vcpus() ? qemu_plugin_scoreboard_find(chunks[chunk], (unsigned)cpu) : NULL;
#endif
}

/* Returns all instructions that were executed since the begin of the window. */
static uint64_t executed(uint32_t known)
{
    uint64_t sum = 0, *own;

    for (uint32_t first = 0; first < known; first += CELLS)
        for (int cpu = 0; (own = counts_of(cpu, first / CELLS)); cpu++)
            for (uint32_t i = 0; i < CELLS && first + i < known; i++)
                sum += own[i] * piece_of(first + i)->length;
    return sum;
}

/* Ends QEMU if the guest hangs. This thread only reads, so that it changes nothing in the guest. */
static void *watch(void *data)
{
    uint64_t before = 0, since = 0;
    uint32_t known = 0;
    unsigned seen = 0;

    for (;;) {
        uint32_t cells_now = __atomic_load_n(&cells, __ATOMIC_ACQUIRE);
        unsigned markers_now = __atomic_load_n(&markers, __ATOMIC_ACQUIRE);
        uint64_t now = executed(cells_now);

        if (cells_now != known || markers_now != seen)
            since = 0;
        else if (now > before)
            since += now - before;
        before = now;
        known = cells_now;
        seen = markers_now;
        if (since > patience) {
            fprintf(stderr, "\nexact-failed: hang: no new code\n");
            _exit(1);
        }
        sleep(1);
    }
    return data;
}

static uint32_t new_cell(uint64_t address, uint32_t length, uint32_t next)
{
    size_t chunk = cells / CELLS;

    if (chunk == CHUNKS)
        stop("the guest ran too many instructions");
    if (!pieces[chunk]) {
        pieces[chunk] = calloc(CELLS, sizeof(struct piece));
#if API < 2
        chunks[chunk] = calloc(CELLS, sizeof(uint64_t));
#else
        chunks[chunk] = qemu_plugin_scoreboard_new(CELLS * sizeof(uint64_t));
#endif
        if (!pieces[chunk] || !chunks[chunk])
            stop("out of memory");
    }
    pieces[chunk][cells % CELLS] = (struct piece){address, length, next};
    return __atomic_fetch_add(&cells, 1, __ATOMIC_RELEASE);
}

/* Returns the cell of a piece. */
static uint32_t cell_of(uint64_t address, uint32_t length)
{
    uint64_t page = (address >> 12) + 1;
    size_t slot = (page * 0x9E3779B97F4A7C15u) >> 50;

    for (size_t tries = 0; tries < PAGES; tries++, slot = (slot + 1) % PAGES) {
        uint32_t *first;

        if (!pages[slot]) {
            pages[slot] = page;
            cells_of[slot] = calloc(WORDS, sizeof(uint32_t));
            if (!cells_of[slot])
                stop("out of memory");
        }
        if (pages[slot] != page)
            continue;
        first = &cells_of[slot][(address & 0xfff) / 4];
        for (uint32_t cell = *first; cell; cell = piece_of(cell - 1)->next)
            if (piece_of(cell - 1)->length == length)
                return cell - 1;
        *first = new_cell(address, length, *first) + 1;
        return *first - 1;
    }
    stop("the guest ran too many pages of code");
    return 0;
}

/* Takes the count of a cell from all processors, and sets it to 0. */
static uint64_t take(uint32_t cell)
{
    uint64_t sum = 0, *own;

    for (int cpu = 0; (own = counts_of(cpu, cell / CELLS)); cpu++) {
        sum += own[cell % CELLS];
        own[cell % CELLS] = 0;
    }
    return sum;
}

static void begin(unsigned cpu, void *data)
{
    (void)cpu, (void)data;
    __atomic_fetch_add(&markers, 1, __ATOMIC_RELEASE);
    for (uint32_t cell = 0; cell < cells; cell++)
        take(cell);
}

static void put(uint64_t value)
{
    fwrite(&value, sizeof(value), 1, out);
}

static void end(unsigned cpu, void *data)
{
    static uint32_t written;
    uint64_t n = 0;
    long at;

    (void)cpu, (void)data;
    __atomic_fetch_add(&markers, 1, __ATOMIC_RELEASE);
    fwrite("SNAP", 4, 1, out);
    put(cells - written);
    for (; written < cells; written++)
        put(piece_of(written)->address);
    at = ftell(out);
    put(n);
    for (uint32_t cell = 0; cell < cells; cell++) {
        uint64_t entry[2] = {cell, take(cell) * piece_of(cell)->length};

        if (entry[1]) {
            fwrite(entry, sizeof(entry), 1, out);
            n++;
        }
    }
    fseek(out, at, SEEK_SET);
    put(n);
    fseek(out, 0, SEEK_END);
    if (fflush(out) || ferror(out))
        stop("the counts cannot be written");
}

static void held(unsigned cpu, void *data)
{
    char octet = 0;

    (void)cpu, (void)data;
    __atomic_fetch_add(&markers, 1, __ATOMIC_RELEASE);
    if (hold >= 0 && (write(hold, &octet, 1) != 1 || read(hold, &octet, 1) != 1))
        stop("the host does not answer");
}

static uint32_t word_of(const struct qemu_plugin_insn *insn)
{
    uint32_t word = 0;

#if API < 3
    memcpy(&word, qemu_plugin_insn_data(insn), 4);
#else
    qemu_plugin_insn_data(insn, &word, 4);
#endif
    return word;
}

/* Returns whether the next instruction of the block may not be executed: Arm Architecture Reference Manual, C4.1. */
static int may_leave(uint32_t word)
{
    int loads_or_stores = (word & 0x0a000000) == 0x08000000, is_system = word >> 24 == 0xd5;

    return loads_or_stores || is_system;
}

static void count_piece(struct qemu_plugin_insn *first, uint32_t length)
{
    uint32_t cell = cell_of(qemu_plugin_insn_vaddr(first), length);
    size_t chunk = cell / CELLS, place = cell % CELLS;

#if API < 2
    qemu_plugin_register_vcpu_insn_exec_inline(first, 0 /* add */, &chunks[chunk][place], 1);
#else
    qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
        first, 0, (struct cell){chunks[chunk], place * sizeof(uint64_t)}, 1);
#endif
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
    size_t all = qemu_plugin_tb_n_insns(tb), first = 0;

    (void)id;
    for (size_t i = 0; i < all; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint32_t word = word_of(insn);

        if (i + 1 == all || may_leave(word)) {
            count_piece(qemu_plugin_tb_get_insn(tb, first), i + 1 - first);
            first = i + 1;
        }
        if (word == 0xd5032e1f) /* hint #0x70 */
            qemu_plugin_register_vcpu_insn_exec_cb(insn, begin, 0, NULL);
        if (word == 0xd5032e3f) /* hint #0x71 */
            qemu_plugin_register_vcpu_insn_exec_cb(insn, end, 0, NULL);
        if (word == 0xd5032e5f) /* hint #0x72 */
            qemu_plugin_register_vcpu_insn_exec_cb(insn, held, 0, NULL);
    }
}

PUBLIC int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    const char *path = "counts";
    pthread_t thread;
    sigset_t all, before;

    (void)info;
    for (int i = 0; i < argc; i++) {
        if (!strncmp(argv[i], "out=", 4))
            path = argv[i] + 4;
        if (!strncmp(argv[i], "hold=", 5))
            hold = atoi(argv[i] + 5);
        if (!strncmp(argv[i], "patience=", 9))
            patience = strtoull(argv[i] + 9, NULL, 10);
    }
    out = fopen(path, "wb");
    if (!out)
        stop("the counts cannot be written");
    /* QEMU's own threads handle signals. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (patience && pthread_create(&thread, NULL, watch, NULL))
        stop("no thread can be made");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
