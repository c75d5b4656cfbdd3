"""The plugin without QEMU: a program in its place translates code, and adds to the counts as a guest would."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from pytest_pinet.exact.qemu import plugin_source
from pytest_pinet.exact.results import read_counts

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
TIMEOUT_S = 60.0
# 40,000 instructions a second, for at most five seconds.
QEMU = """
#include <signal.h>
#include "count.c"

struct qemu_plugin_insn { uint64_t address; uint32_t word; };
struct qemu_plugin_tb { size_t length; struct qemu_plugin_insn insns[8]; };

static void (*translate)(uint64_t id, struct qemu_plugin_tb *tb);
static void (*marker)(unsigned cpu, void *data);
static uint64_t *count; /* of the last piece */

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*fn)(uint64_t, struct qemu_plugin_tb *))
{ translate = fn; }
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, void (*fn)(unsigned, void *), int flags,
                                            void *data) { marker = fn; }
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb) { return tb->length; }
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index)
{ return (struct qemu_plugin_insn *)&tb->insns[index]; }
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn) { return insn->address; }
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn) { return &insn->word; }
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op, void *at, uint64_t add)
{ count = at; *count += 1; }

static void handle(int signal) { write(1, "handled\\n", 8); }

/* Whether only this thread can handle a signal. */
static int signals_stay(void)
{
    sigset_t set, now;

    pthread_sigmask(SIG_SETMASK, NULL, &now);
    signal(SIGUSR1, handle);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    kill(getpid(), SIGUSR1);
    usleep(200000);
    sigpending(&set);
    return !sigismember(&now, SIGUSR1) && sigismember(&set, SIGUSR1);
}

/* Each block is executed once: each piece adds 1 when it is translated. */
static int write_pieces(void)
{
    struct qemu_plugin_tb whole = {6, {
        {0x1000, 0x91000400 /* add x0, x0, #1 */}, {0x1004, 0xf9400001 /* ldr x1, [x0] */},
        {0x1008, 0x91000400}, {0x100c, 0xd53be040 /* mrs x0, cntvct_el0 */},
        {0x1010, 0x91000400}, {0x1014, 0xd65f03c0 /* ret */}}};
    struct qemu_plugin_tb cut = {1, {{0x1010, 0x91000400}}};

    translate(1, &whole);
    end(0, 0);
    translate(1, &cut);
    translate(1, &whole);
    end(0, 0);
    return 0;
}

int main(int argc, char **argv)
{
    char *words[] = {"out=counts", "patience=50000"};
    struct qemu_plugin_tb tb = {1, {{0x1000, 0xd5032e1f /* the marker of a begin */}}};

    qemu_plugin_install(1, 0, 2, words);
    if (!strcmp(argv[1], "pieces"))
        return write_pieces();
    if (!strcmp(argv[1], "signal"))
        return puts(signals_stay() ? "pending" : "not pending") < 0;
    translate(1, &tb);
    for (int i = 0; i < 50; i++, usleep(100000)) {
        *count += 4000;
        if (!strcmp(argv[1], "marker"))
            marker(0, 0);
        tb.insns[0].address += strcmp(argv[1], "new code") ? 0 : 4;
        translate(1, &tb);
    }
    puts("alive");
    fflush(stdout);
    _exit(0);
}
"""


@pytest.mark.parametrize(
    ("guest", "code", "text"),
    [("hang", 1, "\nexact-failed: hang: no new code\n"), ("new code", 0, "alive\n"), ("marker", 0, "alive\n")],
)
def test_a_guest_that_only_repeats_its_code_is_ended(tmp_path: Path, guest: str, code: int, text: str) -> None:
    assert run(tmp_path, guest) == (code, text)


def test_the_thread_of_the_plugin_handles_no_signals(tmp_path: Path) -> None:
    assert run(tmp_path, "signal") == (0, "pending\n")


def test_a_piece_ends_where_its_block_can_be_left(tmp_path: Path) -> None:
    run(tmp_path, "pieces")
    counts = read_counts((tmp_path / "counts").read_bytes())
    # The last two instructions, and the first one of them in a block that was cut.
    assert counts.pieces == [0x1000, 0x1008, 0x1010, 0x1010]
    pairs = [[struct.unpack_from("=QQ", window, at) for at in range(0, len(window), 16)] for window in counts.windows]
    assert pairs == [[(0, 2), (1, 2), (2, 2)], [(0, 2), (1, 2), (2, 2), (3, 1)]]


def run(tmp_path: Path, guest: str) -> tuple[int, str]:
    (tmp_path / "count.c").write_bytes(plugin_source())
    (tmp_path / "qemu.c").write_text(QEMU)
    program = tmp_path / "qemu"
    argv = ["cc", "-pthread", "-O2", "-DAPI=1", "-o", str(program), str(tmp_path / "qemu.c")]
    subprocess.run(argv, check=True, timeout=TIMEOUT_S)
    done = subprocess.run(
        [program, guest], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    return done.returncode, done.stdout + done.stderr
