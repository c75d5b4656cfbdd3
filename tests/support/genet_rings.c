/*
 * A driver of two GENETs without a kernel, for both ways in which Linux uses the rings: until 6.14 the default ring, whose
 * interrupts are those of INTRL2_0; since then (and in stable kernels from 2025 on) ring 0, to which a filter without
 * content brings all frames, and INTRL2_1. It sends one frame over each ring and looks at the buffer, the indexes of both
 * rings, the interrupts and their lines. A link that is switched off carries no frame.
 */
#include MODEL
#include "fake_qemu.h"

#define FRAME_SIZE 100
#define SENT_AT RAM_AT
#define RECEIVED_AT (RAM_AT + 0x10000)
#define RING_SIZE 4
#define FIRST_DESCRIPTOR 128
#define TYPE_FOR_FILTER 0x88f7

struct layout {
    const char *name;
    unsigned ring;     /* of all frames */
    bool is_filtered;  /* a filter without content brings frames to this ring */
    unsigned line;     /* of its interrupts */
    u32 sent, received;
};

static void check(bool is_right, const struct layout *layout, const char *what)
{
    if (is_right)
        return;
    printf("%s: %s\n", layout->name, what);
    exit(1);
}

static void put(unsigned nic, u64 at, u32 value)
{
    u8 octets[4];

    put32(octets, value);
    cpu_physical_memory_rw(place_of(nic) + at, octets, sizeof(octets), true);
}

static u32 get(unsigned nic, u64 at)
{
    u8 octets[4];

    cpu_physical_memory_rw(place_of(nic) + at, octets, sizeof(octets), false);
    return get32(octets);
}

static u64 place_in(u64 dma, unsigned ring, unsigned word)
{
    return dma + DMA_RINGS + DMA_RING_SIZE * ring + 4 * word;
}

static u64 controller(unsigned line)
{
    return line ? INTRL2_1 : INTRL2_0;
}

static bool interrupts_on(unsigned nic, unsigned line)
{
    return interrupts[number_argument("spi") + nic * LINES + line];
}

/* Gives a ring four descriptors, whose first buffer is at `buffer`. */
static void open_ring(unsigned nic, u64 dma, unsigned ring, u64 buffer)
{
    u32 first = FIRST_DESCRIPTOR * DESCRIPTOR_SIZE / 4, end = first + RING_SIZE * DESCRIPTOR_SIZE / 4 - 1;
    u64 descriptor = dma + FIRST_DESCRIPTOR * DESCRIPTOR_SIZE;

    put(nic, dma + DMA_CTRL, 0);
    put(nic, place_in(dma, ring, RING_POINTER), first);
    put(nic, place_in(dma, ring, RING_START), first);
    put(nic, place_in(dma, ring, RING_END), end);
    put(nic, place_in(dma, ring, RING_BUF_SIZE), RING_SIZE << DMA_RING_SIZE_SHIFT | FRAME_MOST);
    put(nic, place_in(dma, ring, RING_INDEX), 0);
    put(nic, place_in(dma, ring, RING_OTHER_INDEX), 0);
    put(nic, descriptor + 4, (u32)buffer);
    put(nic, descriptor + 8, 0);
    put(nic, dma + DMA_CTRL, DMA_EN | 1u << (DMA_RING_BUF_EN_SHIFT + ring));
}

/* Lets a filter choose a ring: for frames of a type, or for all frames if the type is 0. */
static void filter(unsigned nic, unsigned number, unsigned ring, u32 type)
{
    u64 words = HFB_FILTERS + HFB_FILTER_SIZE * number, mapped = RDMA + DMA_INDEX2RING_0 + number / 8 * 4;
    u64 length = HFB_FLT_LEN_V3PLUS + (HFB_FILTER_CNT - 1 - number) / 4 * 4;

    put(nic, words + ETHERNET_TYPE / 2 * 4, type ? 0xfu << HFB_NIBBLES_SHIFT | type : 0);
    put(nic, length, get(nic, length) | (type ? ETHERNET_HEAD : 4u) << 8 * (number % 4));
    put(nic, mapped, get(nic, mapped) | ring << 4 * (number % 8));
    put(nic, HFB_FLT_ENABLE_V3PLUS + 4, get(nic, HFB_FLT_ENABLE_V3PLUS + 4) | 1u << number);
    put(nic, HFB_CTRL, HFB_EN);
}

static void open_nics(void)
{
    for (unsigned nic = 0; nic < 2; nic++) {
        put(nic, UMAC_CMD, CMD_TX_EN | CMD_RX_EN | CMD_PROMISC);
        put(nic, HFB_CTRL, 0);
        put(nic, HFB_FLT_ENABLE_V3PLUS + 4, 0);
        for (unsigned line = 0; line < 2; line++) {
            put(nic, controller(line) + INTRL2_CPU_MASK_CLEAR, ~0u);
            put(nic, controller(line) + INTRL2_CPU_CLEAR, ~0u);
        }
    }
}

/* Sends one frame of this type from the first NIC, whose send ring is `from`. `to` of the second one has `come` frames. */
static void send_frames(const struct layout *layout, unsigned from, unsigned to, u32 type, u32 come)
{
    u8 *sent = ram + SENT_AT - RAM_AT, *received = ram + RECEIVED_AT - RAM_AT;

    memset(sent, 0x5a, FRAME_SIZE);
    put_be16(sent + ETHERNET_TYPE, type);
    memset(received, 0, FRAME_SIZE);
    open_ring(0, TDMA, from, SENT_AT);
    open_ring(1, RDMA, to, RECEIVED_AT);
    put(0, TDMA + FIRST_DESCRIPTOR * DESCRIPTOR_SIZE, FRAME_SIZE << DMA_BUFLENGTH_SHIFT | DMA_SOP | DMA_EOP);
    put(0, place_in(TDMA, from, RING_OTHER_INDEX), 1);
    check(get(0, place_in(TDMA, from, RING_INDEX)) == 1, layout, "the frame was not taken");
    check(get(1, place_in(RDMA, to, RING_INDEX)) == come, layout, "the receive ring has another number of frames");
    check(!come || !memcmp(sent, received, FRAME_SIZE), layout, "the frame has changed");
}

static void send_one(const struct layout *layout, unsigned from, unsigned to, u32 type)
{
    send_frames(layout, from, to, type, 1);
}

/* Exactly these interrupts are on, until the driver has seen them. */
static void check_interrupts(const struct layout *layout, unsigned nic, unsigned line, u32 bits)
{
    check(get(nic, controller(line) + INTRL2_CPU_STAT) == bits, layout, "another interrupt than that of the ring");
    check(get(nic, controller(!line) + INTRL2_CPU_STAT) == 0, layout, "an interrupt of the other controller");
    check(interrupts_on(nic, line) && !interrupts_on(nic, !line), layout, "the line of the interrupt is off");
    put(nic, controller(line) + INTRL2_CPU_CLEAR, bits);
    check(!interrupts_on(nic, line), layout, "the line of the interrupt stays on");
}

int main(void)
{
    static const struct layout layouts[] = {
        {"default ring", DESC_INDEX, false, 0, 1u << 16, 1u << 13},
        {"ring 0", 0, true, 1, 1u << 0, 1u << 16},
    };

    start_model();
    for (unsigned i = 0; i < COUNT(layouts); i++) {
        const struct layout *l = &layouts[i];

        open_nics();
        if (l->is_filtered)
            filter(1, 0, 0, 0);
        send_one(l, l->ring, l->ring, TYPE_IPV4);
        check_interrupts(l, 0, l->line, l->sent);
        check_interrupts(l, 1, l->line, l->received);
        /* A further queue, and a filter by type: rings of their own in both layouts. */
        filter(1, 5, 3, TYPE_FOR_FILTER);
        send_one(l, 2, 3, TYPE_FOR_FILTER);
        check_interrupts(l, 0, 1, 1u << 2);
        check_interrupts(l, 1, 1, 1u << (16 + 3));
        check(!strcmp(do_command("link off"), "ok"), l, "the link is not switched off");
        send_frames(l, l->ring, l->ring, TYPE_IPV4, 0);
        do_command("link on");
        send_one(l, l->ring, l->ring, TYPE_IPV4);
    }
    puts("both layouts work");
    return 0;
}
