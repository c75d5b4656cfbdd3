/*
 * A plugin of QEMU that counts the executed instructions of an arm64 guest, by address.
 *
 * The guest marks a window with two instructions that do nothing: `hint #0x70` sets all counts to 0, `hint #0x71` writes
 * them. pytest_pinet/exact/plugin.py builds this file when it is first needed:
 *
 *   cc -shared -fPIC -O2 -DAPI=1 -o count.so count.c      (-DAPI=4 for QEMU 9.2 and later)
 *   qemu-system-aarch64 -plugin ./count.so,out=counts -icount shift=4 ...
 *
 * Output, in the machine's byte order, for each window: "SNAP", number of entries n (uint64), then n times { address
 * (uint64), executed (uint64) }.
 *
 * The interface of QEMU's plugins is declared here, so that neither its header nor glib is needed. From version 3 of the
 * interface on, each virtual processor has its own counts, which are added up here. Before, all have the same counts
 * (with -icount, one thread runs all processors, so that no count is lost).
 *
 * A plugin runs inside QEMU, whose licence is the GPL, version 2.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))
#define PAGES 16384 /* a power of 2: 64 MiB of code, 128 MiB of counters, taken as they are used */
#define WORDS 1024  /* instructions of a page of 4 KiB */
#define SIZE ((size_t)PAGES * WORDS * sizeof(uint64_t))

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
extern void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op, void *at, uint64_t add);
#else
struct cell { struct qemu_plugin_scoreboard *board; size_t offset; };
extern size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t size);
extern struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t size);
extern void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *board, unsigned cpu);
extern void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *insn, int op,
                                                                struct cell cell, uint64_t add);
extern int qemu_plugin_num_vcpus(void);
static struct qemu_plugin_scoreboard *board;
#endif

PUBLIC int qemu_plugin_version = API;

static uint64_t pages[PAGES]; /* address >> 12, plus 1; 0: free */
static uint64_t *counts;      /* [PAGES][WORDS] */
static FILE *out;

/* Returns the counts of a processor, or NULL. */
static uint64_t *counts_of(int cpu)
{
#if API < 3
    return cpu ? NULL : counts;
#else
    return cpu < qemu_plugin_num_vcpus() ? qemu_plugin_scoreboard_find(board, (unsigned)cpu) : NULL;
#endif
}

static size_t cell_of(uint64_t address)
{
    uint64_t page = (address >> 12) + 1;
    size_t slot = (page * 0x9E3779B97F4A7C15u) >> 50;

    for (size_t tries = 0; tries < PAGES; tries++, slot = (slot + 1) % PAGES) {
        if (!pages[slot])
            pages[slot] = page;
        if (pages[slot] == page)
            return slot * WORDS + (address & 0xfff) / 4;
    }
    fprintf(stderr, "exact-failed: the guest ran more than %d pages of code\n", PAGES);
    exit(1);
}

/* Takes the count of a cell from all processors, and sets it to 0. */
static uint64_t take(size_t cell)
{
    uint64_t sum = 0, *own;

    for (int cpu = 0; (own = counts_of(cpu)); cpu++) {
        sum += own[cell];
        own[cell] = 0;
    }
    return sum;
}

static void begin(unsigned cpu, void *data)
{
    (void)cpu, (void)data;
    for (size_t p = 0; p < PAGES; p++)
        for (size_t i = 0; pages[p] && i < WORDS; i++)
            take(p * WORDS + i);
}

static void end(unsigned cpu, void *data)
{
    static uint64_t entries[WORDS][2];
    uint64_t n = 0;
    long at;

    (void)cpu, (void)data;
    fwrite("SNAP", 4, 1, out);
    at = ftell(out);
    fwrite(&n, sizeof(n), 1, out);
    for (size_t p = 0; p < PAGES; p++) {
        size_t found = 0;

        for (size_t i = 0; pages[p] && i < WORDS; i++) {
            uint64_t count = take(p * WORDS + i);

            if (!count)
                continue;
            entries[found][0] = ((pages[p] - 1) << 12) + i * 4;
            entries[found++][1] = count;
        }
        fwrite(entries, sizeof(entries[0]), found, out);
        n += found;
    }
    fseek(out, at, SEEK_SET);
    fwrite(&n, sizeof(n), 1, out);
    fseek(out, 0, SEEK_END);
    if (fflush(out) || ferror(out)) {
        fprintf(stderr, "exact-failed: the counts cannot be written\n");
        exit(1);
    }
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        size_t cell = cell_of(qemu_plugin_insn_vaddr(insn));
        uint32_t word = 0;

#if API < 3
        memcpy(&word, qemu_plugin_insn_data(insn), 4);
        qemu_plugin_register_vcpu_insn_exec_inline(insn, 0 /* add */, &counts[cell], 1);
#else
        qemu_plugin_insn_data(insn, &word, 4);
        qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, 0, (struct cell){board, cell * sizeof(*counts)}, 1);
#endif
        if (word == 0xd5032e1f) /* hint #0x70 */
            qemu_plugin_register_vcpu_insn_exec_cb(insn, begin, 0, NULL);
        if (word == 0xd5032e3f) /* hint #0x71 */
            qemu_plugin_register_vcpu_insn_exec_cb(insn, end, 0, NULL);
    }
}

PUBLIC int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    const char *path = "counts";

    for (int i = 0; i < argc; i++)
        if (!strncmp(argv[i], "out=", 4))
            path = argv[i] + 4;
    out = fopen(path, "wb");
#if API < 3
    counts = calloc(1, SIZE);
    if (!counts)
        return -1;
#else
    board = qemu_plugin_scoreboard_new(SIZE);
#endif
    if (!out) {
        fprintf(stderr, "exact-failed: the counts cannot be written\n");
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
