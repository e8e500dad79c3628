/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of the inspector: one JSON document for a compile, see
 * docs/inspector.md. A file here writes some members of it.
 */
#ifndef TC_INSPECT_COLLECT_H
#define TC_INSPECT_COLLECT_H

#include "lib/inspect/programs.h"
#include "lib/program/compile.h"
#include "passes/report/inspect.h"

enum { TC_INSPECT_VERSION = 1, TC_MOST_INSPECTED_LAYOUTS = 256 };

/* What the assembler said of the kernel; known: there was one. */
typedef struct tc_assembled {
    bool known;
    unsigned registers, spill_stores, spill_loads, stack;
} tc_assembled;

typedef struct tc_collection {
    tc_job *job;
    tc_arena *arena;
    const tc_target *target;
    tc_func *f;
    tc_pass_env env;
    tc_programs programs;
    tc_inspection seen;
    tc_assembled assembled;
    unsigned threads;        /* of a block */
    unsigned peak_registers; /* of tiles that live at once, by their layouts */
    tc_loc peak_place;
    tc_json_writer w;
    /* Layouts, each once; bits of the elements that they are of. */
    unsigned nlayouts, bits_of[TC_MOST_INSPECTED_LAYOUTS];
    const tc_layout *layouts[TC_MOST_INSPECTED_LAYOUTS];
} tc_collection;

/* ---- collect.c ---- */

/* The kernel of the request, for a GPU. */
bool tc_inspect_choose(tc_job *job, const tc_target **target, tc_func **f,
                       tc_bound *bound) TC_MUST_CHECK;

/* ---- layouts.c ---- */

/* The number of a layout in the list `layouts`; -1: there is none, or no more
 * room. */
int tc_inspect_layout(tc_collection *c, const tc_layout *l, unsigned bits);
/* `buffers`, `tiles`, `registers`. */
void tc_inspect_values(tc_collection *c);
/* `layouts`: after all that names one. */
void tc_inspect_layouts(tc_collection *c);

/* ---- tables.c ---- */

/* `hot`, `loads`, `products`. */
void tc_inspect_tables(tc_collection *c);
/* A place as line, column and file of the document. */
void tc_inspect_place(tc_collection *c, tc_loc loc);

/* ---- findings.c ---- */

/* `findings`: what makes the kernel slow, the gravest first. */
void tc_inspect_findings(tc_collection *c);

/* ---- code.c ---- */

/* `images`: LLVM IR, PTX, machine code. False: reported. */
bool tc_inspect_code(tc_collection *c) TC_MUST_CHECK;

#endif
