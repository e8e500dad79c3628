/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver that records what it is asked and fails when told to. The shared
 * object exports `fake_cuda`, through which a test sets and reads it. Memory on
 * its devices is the host's, launches run nothing.
 */
#ifndef TEST_FAKE_CUDA_H
#define TEST_FAKE_CUDA_H

#include <stddef.h>

enum { FAKE_DEVICES = 4, FAKE_BYTES = 4096, FAKE_BLOCKS = 64 };

typedef struct fake_cuda_state {
    /* What it is. */
    int devices, driver, major, minor, shared_optin;
    /* What it answers; 0: success. */
    int init, link, load, launch, alloc, synchronize, capturing;
    const char *log;        /* errors of the assembler */
    const char *info;       /* what it says of what it accepts, when it links */
    const char *whole_info; /* and when it loads PTX */
    int encode;             /* of tensor maps */
    int graph, graph_set;   /* of graphs that are made, and given others */
    unsigned long long epoch; /* added to a stream's handle, its number */
    unsigned long long age;   /* added to a context's number: it is another */
    int registers, local_bytes, static_shared, max_threads;
    /* The sizes of a launch's parameters, so that it can copy them. */
    int nsizes;
    unsigned char sizes[256];

    /* Of all calls but those that give something back, the one that fails,
     * counted from 1 while this is not 0. */
    int fail_at, calls;

    /* What it was asked: how often. made, dropped: links, streams, events,
     * graphs; lost: contexts that could not be made current, or told. launches:
     * graphs' too; early: of those, by attribute. */
    int inits, retains, pushes, pops, links, loads, unloads, launches, allocs,
        frees, synchronizes, encodes, sets, made, dropped, lost, graph_launches,
        graph_sets, early;
    /* Of the last of them. */
    unsigned grid[3], block[3], shared;
    void *stream;
    unsigned set_width; /* bytes that were repeated, how often, where */
    size_t set_count;
    void *set_stream;
    size_t nbytes;
    unsigned char bytes[FAKE_BYTES];
    unsigned target;         /* that was assembled for; 0: the device's */
    int dynamic_shared;      /* that was asked for */
    char ptx[1 << 16];       /* that was linked */
    char entry[128];         /* that was looked for */
    int current;             /* the device of the last launch's context */
    unsigned long long last; /* address of the last allocation */
} fake_cuda_state;

/* A tensor map as this driver makes it: what it was made of. */
typedef struct fake_map {
    unsigned long long address, sizes[5], strides[4];
    unsigned box[5];
    unsigned char type, rank, interleave, swizzle, promotion, fill, pad[22];
} fake_map;

/* Back to a driver with one good device. Contexts stay. */
typedef void fake_cuda_reset_fn(void);
/* Makes a context other than the primary one current; NULL: none. */
typedef void *fake_cuda_use_fn(int device, int is_primary);

#endif
