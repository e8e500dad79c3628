/* SPDX-License-Identifier: Apache-2.0
 *
 * `tilec profile`: measured durations of the sections of each warp role.
 *
 *   measure.c     the kernel with and without marks on the GPU
 *   record.c      rings of records as a file, and their table of marks
 *   decode.c      rings to events
 *   statistics.c  steps of loops, medians of sections
 *   show.c        the table
 *   timeline.c    JSON (docs/profile.md)
 *   trace.c       JSON for Perfetto and chrome://tracing
 *   command.c     the command line
 */
#ifndef TOOL_PROFILE_H
#define TOOL_PROFILE_H

#include "codegen/nvptx/nvptx.h"
#include "tools/common/commands.h"

/* ---- The table of marks (record.c) ---- */

enum { NAME_ROOM = 96, MOST_WRITERS = 32 };

typedef struct profile_writer {
    char role[16];
    unsigned group;
} profile_writer;

typedef struct profile_loop {
    char role[16], name[NAME_ROOM];
    int parent; /* -1: none */
    unsigned line, column;
} profile_loop;

typedef struct profile_mark {
    char role[16], kind[16], name[NAME_ROOM];
    int loop; /* -1: none */
    unsigned branches, line, column;
    double model; /* cycles; below 0: the model has none */
} profile_mark;

/* marks[i] has number i + 1. */
typedef struct profile_table {
    char kernel[NAME_ROOM], target[16];
    unsigned nwriters, nloops, nmarks;
    profile_writer writers[MOST_WRITERS];
    profile_loop *loops;
    profile_mark *marks;
} profile_table;

/* ---- Recorded rings (record.c) ---- */

typedef struct profile_ring {
    uint32_t program, writer;
    tc_profile_head head;
    const tc_profile_record *records;
} profile_ring;

typedef struct recording {
    profile_table table;
    char *marks; /* the table's JSON */
    char device[96], workload[400];
    double us, us_marked; /* of a launch; 0: not measured */
    bool same;            /* results with marks are those without */
    unsigned records;     /* of a ring */
    size_t nrings;
    profile_ring *rings;
    void *memory; /* that the records are in */
} recording;

/* Of what a GPU left: takes `marks` and `data`. Exit codes; recording_free in
 * any case. */
int recording_take(recording *r, const tc_profile_shape *shape, char *marks,
                   void *data);
int recording_read(recording *r, const char *path);
/* Rings of the first `programs` that have any. */
int recording_write(const recording *r, const char *path, unsigned programs);
void recording_free(recording *r);

/* ---- Events (decode.c) ---- */

typedef struct profile_event {
    uint64_t at;   /* cycles since the ring's begin */
    unsigned mark; /* its number */
} profile_event;

/* The events of a ring, oldest first, malloc'd in *out; their number, -1: said
 * what is wrong with the ring. */
long decode_ring(const recording *r, const profile_ring *ring,
                 profile_event **out);
/* Of the multiprocessors; 0: not known. */
double decode_mhz(const recording *r);
/* Is the loop `inner` that one, or in it? */
bool loop_contains(const profile_table *t, int loop, int inner);

/* ---- Statistics (statistics.c) ---- */

typedef struct spread {
    size_t n;
    double sum, median, p10, p90;
} spread;

typedef struct profile_statistics {
    spread *sections; /* by mark: cycles up to the role's next mark */
    spread *steps;    /* by loop: cycles of a step */
    double *own;      /* by loop: cycles of its own sections */
    size_t programs;
    double mhz;
    int hot;  /* the innermost loop that takes longest; -1: none */
    int most; /* the mark of it that differs most from the model; 0: none */
} profile_statistics;
/* Exit code; free with statistics_free in any case. */
int statistics_make(const recording *r, profile_statistics *out);
void statistics_free(profile_statistics *s);
/* The cycles that the model gives to a step of the loop; below 0: none. */
double statistics_model(const recording *r, int loop);
/* A mark's part of its loop's cycles, 0 to 1. */
double statistics_share(const recording *r, const profile_statistics *s,
                        unsigned mark);
/* The mark with which a step of the loop begins; 0: none. */
unsigned step_mark(const profile_table *t, int loop);

/* ---- Results ---- */

/* "wait full.k" */
typedef struct section_text {
    char text[NAME_ROOM + 16];
} section_text;
section_text section_name(const profile_mark *m);

void show_profile(const recording *r, const profile_statistics *s);
int print_timeline(const recording *r, const profile_statistics *s);
int write_trace(const recording *r, const profile_statistics *s,
                const char *path, unsigned programs);

/* ---- Measuring (measure.c) ---- */

/* records: of a ring; runs: timed launches of each version. */
int measure_profile(const tool_args *args, unsigned records, unsigned runs,
                    recording *out);

#endif
