/* SPDX-License-Identifier: Apache-2.0
 *
 * The code of the kernel: LLVM IR, PTX and machine code, each line with the
 * line of the machine-level program that it comes from.
 *
 * For that the locations of the ops become lines of the machine-level text, and
 * go through LLVM (debug locations), the PTX (`.loc`) and ptxas (line tables).
 * The texts are shown without these lines; else they are those of a compile.
 */
#include "lib/inspect/collect.h"

#include "codegen/nvptx/nvptx.h"
#include "lib/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

/* ---- Lines of the machine-level text as locations ---- */

/* Sets the location of each op to its line in `source`; with source 0 back to
 * what op->data keeps. */
static void relocate_region(tc_collection *c, tc_region *r, uint32_t source)
{
    tc_each_op (op, r) {
        if (source) {
            tc_loc *kept = tc_arena_new(c->arena, tc_loc);
            *kept = op->loc;
            op->data = kept;
            uint32_t line = tc_programs_line(&c->programs, op);
            op->loc = (tc_loc){source, line ? line : 1, 1, 0};
        } else {
            op->loc = *(tc_loc *)op->data;
        }
        for (unsigned i = 0; i < op->nregions; i++)
            relocate_region(c, op->regions[i], source);
    }
}

static void relocate(tc_collection *c, uint32_t source)
{
    relocate_region(c, c->f->body, source);
    if (c->f->grid)
        relocate_region(c, c->f->grid, source);
}

/* ---- An image, line by line ---- */

typedef struct image {
    tc_text text;    /* lines that are shown */
    tc_text machine; /* JSON: their machine-level lines, 0: none */
    tc_json_writer w;
} image;

static image new_image(tc_collection *c)
{
    image i = {.text.arena = c->arena, .machine.arena = c->arena};
    tc_text_add(&i.text, "");
    tc_text_add(&i.machine, "");
    return i;
}

static void add_line(image *i, const char *s, size_t n, unsigned machine)
{
    i->w.out = &i->machine;
    tc_text_addn(&i->text, s, n);
    tc_text_add(&i->text, "\n");
    tc_json_int(&i->w, NULL, machine);
}

static void write_image(tc_collection *c, const image *i, const char *name,
                        const char *title, const char *live)
{
    tc_json_writer *w = &c->w;
    tc_json_open(w, NULL, '{');
    tc_json_string(w, "name", name);
    tc_json_string(w, "title", title);
    tc_json_stringn(w, "text", i->text.data, i->text.len);
    tc_json_open(w, "machine", '[');
    tc_text_add(w->out, i->machine.data);
    tc_json_close(w, ']');
    if (live) {
        tc_json_open(w, "live", '[');
        tc_text_add(w->out, live);
        tc_json_close(w, ']');
    }
    tc_json_close(w, '}');
}

static const char *next_line(const char *s, size_t n)
{
    return s + n + (s[n] == '\n');
}

/* The text in [s, s + n) or NULL. */
static const char *find_in(const char *s, size_t n, const char *what)
{
    size_t m = strlen(what);
    for (size_t i = 0; i + m <= n; i++)
        if (memcmp(s + i, what, m) == 0)
            return s + i;
    return NULL;
}

/* ---- LLVM IR ---- */

/* `!12 = !DILocation(line: 47, ..)`: the lines by number of the node. */
static unsigned *read_locations(tc_collection *c, const char *text,
                                unsigned *count)
{
    unsigned n = 0;
    for (const char *s = text; *s; s = next_line(s, strcspn(s, "\n")))
        n += *s == '!';
    unsigned room = 2 * n + 64;
    unsigned *lines = tc_arena_array(c->arena, unsigned, room);
    memset(lines, 0, room * sizeof *lines);
    for (const char *s = text; *s; s = next_line(s, strcspn(s, "\n"))) {
        size_t len = strcspn(s, "\n");
        const char *at = *s == '!' ? find_in(s, len, "DILocation(line: ") : 0;
        unsigned long node = at ? strtoul(s + 1, NULL, 10) : room;
        if (node < room)
            lines[node] = (unsigned)strtoul(strchr(at, ':') + 1, NULL, 10);
    }
    *count = room;
    return lines;
}

static void add_llvm(tc_collection *c, const char *text)
{
    image i = new_image(c);
    unsigned count, *lines = read_locations(c, text, &count);
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, "\n");
        const char *dbg = find_in(s, n, ", !dbg !");
        unsigned long node = dbg ? strtoul(dbg + 8, NULL, 10) : count;
        if (*s != '!') /* not the nodes themselves */
            add_line(&i, s, dbg ? (size_t)(dbg - s) : n,
                     node < count ? lines[node] : 0);
        s = next_line(s, n);
    }
    write_image(c, &i, "llvm", "LLVM IR", NULL);
}

/* ---- PTX ---- */

static bool is_noise(const char *s, size_t n)
{
    while (n && (*s == '\t' || *s == ' ')) {
        s++;
        n--;
    }
    return (n > 5 && memcmp(s, ".file", 5) == 0) ||
           (n > 6 && memcmp(s, "$L__tmp", 6) == 0) ||
           (n > 12 && memcmp(s, "$L__func_beg", 12) == 0) ||
           (n > 12 && memcmp(s, "$L__func_end", 12) == 0);
}

/* ".loc 1 47 1": 47 */
static bool read_loc(const char *s, size_t n, unsigned *line)
{
    const char *at = find_in(s, n, "\t.loc\t");
    if (!at)
        return false;
    at += 6;
    at += strspn(at, "0123456789");
    *line = (unsigned)strtoul(at, NULL, 10);
    return true;
}

static void add_ptx(tc_collection *c, const char *text)
{
    image i = new_image(c);
    unsigned line = 0;
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, "\n");
        if (!read_loc(s, n, &line) && !is_noise(s, n)) {
            bool is_code = n > 1 && *s == '\t' && s[1] != '.';
            add_line(&i, s, n, is_code ? line : 0);
        }
        s = next_line(s, n);
    }
    write_image(c, &i, "ptx", "PTX", NULL);
}

/* ---- Machine code ---- */

/* "Used 168 registers", "12 bytes spill stores". */
static unsigned number_before(const char *said, const char *words)
{
    const char *at = strstr(said, words);
    if (!at)
        return 0;
    while (at > said && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return (unsigned)strtoul(at, NULL, 10);
}

static void read_assembler(tc_assembled *a, const char *said)
{
    a->known = true;
    a->registers = number_before(said, " registers");
    a->spill_stores = number_before(said, " bytes spill stores");
    a->spill_loads = number_before(said, " bytes spill loads");
    a->stack = number_before(said, " bytes stack frame");
}

/* The address in a comment at the line's begin; false: the line is no
 * instruction. */
static bool read_address(const char *s, size_t n, unsigned long *address)
{
    const char *at = find_in(s, n < 24 ? n : 24, "/*");
    if (!at)
        return false;
    *address = strtoul(at + 2, NULL, 16);
    return true;
}

/* The registers that live at each instruction, by address / 16. */
static unsigned *read_live(tc_collection *c, const char *text, unsigned *count)
{
    unsigned n = 1;
    for (const char *s = text; *s; s = next_line(s, strcspn(s, "\n")))
        n++;
    unsigned *live = tc_arena_array(c->arena, unsigned, n);
    memset(live, 0, n * sizeof *live);
    for (const char *s = text; *s; s = next_line(s, strcspn(s, "\n"))) {
        size_t len = strcspn(s, "\n");
        unsigned long address;
        const char *at = find_in(s, len, "// |");
        if (at && read_address(s, len, &address) && address / 16 < n)
            live[address / 16] = (unsigned)strtoul(at + 4, NULL, 10);
    }
    *count = n;
    return live;
}

static size_t without_blanks(const char *s, size_t n)
{
    while (n && (s[n - 1] == ' ' || s[n - 1] == '\t'))
        n--;
    return n;
}

/* `text`: of nvdisasm -g; `ranges`: of nvdisasm -plr, or NULL. */
static void add_sass(tc_collection *c, const char *text, const char *ranges)
{
    image i = new_image(c);
    unsigned line = 0, count = 0;
    unsigned *live = ranges ? read_live(c, ranges, &count) : NULL;
    tc_text counts = {.arena = c->arena};
    tc_json_writer w = {.out = &counts};
    tc_text_add(&counts, "");
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, "\n");
        unsigned long address = 0;
        const char *mark = find_in(s, n, "//## File");
        const char *at = mark ? find_in(s, n, ", line ") : NULL;
        bool is_code = !mark && read_address(s, n, &address);
        if (at)
            line = (unsigned)strtoul(at + 7, NULL, 10);
        if (is_code || (!mark && *s == '.')) {
            add_line(&i, s, without_blanks(s, n), is_code ? line : 0);
            tc_json_int(&w, NULL,
                        is_code && address / 16 < count ? live[address / 16]
                                                        : 0);
        }
        s = next_line(s, n);
    }
    write_image(c, &i, "sass", "SASS", live ? counts.data : NULL);
}

/* Without NVIDIA's programs there is no machine code, and no error. */
static void assemble(tc_collection *c, const char *ptx)
{
    static const char *const with_lines[] = {"-g", "-c", NULL};
    static const char *const with_ranges[] = {"-plr", "-lrm=count", "-c"};
    char said[8192];
    void *cubin;
    size_t size;
    char *ptxas = tc_find_program("ptxas", c->job->owner->ptxas);
    if (!ptxas)
        return;
    tilec_status s = tc_assemble(ptxas, c->target->cpu, c->f->ptxas_level, ptx,
                                 &cubin, &size, said, sizeof said, NULL);
    free(ptxas);
    if (s != TILEC_OK)
        return;
    read_assembler(&c->assembled, said);
    char *text = tc_nvdisasm(cubin, size, with_lines);
    char *ranges = text ? tc_nvdisasm(cubin, size, with_ranges) : NULL;
    const char *kept = text ? tc_arena_string(c->arena, text) : NULL;
    const char *kept_ranges = ranges ? tc_arena_string(c->arena, ranges) : NULL;
    free(text);
    free(ranges);
    free(cubin);
    if (kept)
        add_sass(c, kept, kept_ranges);
}

/* ---- All of it ---- */

/* In the arena, so that nothing is lost when memory runs out. */
static const char *take(tc_collection *c, char *text)
{
    c->job->foreign = text;
    const char *kept = tc_arena_string(c->arena, text);
    c->job->foreign = NULL;
    free(text);
    return kept;
}

/* LLVM IR and PTX with lines of the machine-level text. */
static bool compile(tc_collection *c, const char **llvm, const char **ptx)
{
    tc_nvptx_code code = {0};
    char *text = tc_nvptx_llvm(c->job->module, c->target, "llvm");
    if (!text)
        return false;
    *llvm = take(c, text);
    if (!tc_nvptx_compile(c->job->module, c->target, &code))
        return false;
    *ptx = take(c, code.ptx);
    c->threads = code.threads;
    return true;
}

bool tc_inspect_code(tc_collection *c)
{
    const char *llvm, *ptx, *machine = c->programs.newest;
    tc_loc own = c->f->loc;
    uint32_t source =
        tc_source_add(c->job->cx, "machine level", machine, strlen(machine));
    relocate(c, source);
    c->f->loc = (tc_loc){source, 1, 1, 0};
    if (!compile(c, &llvm, &ptx))
        return false;
    c->f->loc = own;
    relocate(c, 0);
    tc_json_open(&c->w, "images", '[');
    add_llvm(c, llvm);
    add_ptx(c, ptx);
    assemble(c, ptx);
    tc_json_close(&c->w, ']');
    return true;
}
