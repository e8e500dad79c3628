/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings as a file:
 *
 *   tilec-profile 1 BYTES\n   of the JSON object that follows
 *   {"device": .., "workload": .., "us": .., "us_marked": .., "same": true,
 *    "records": 2048, "rings": 396, "table": {..}}
 *   of each ring its program and writer (u32), its tc_profile_head, and its
 *   records, as the device wrote them
 */
#include "tools/profile/profile.h"

#include "lib/files/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char format[] = "tilec-profile 1 ";

/* ---- The table ---- */

static const cJSON *member(const cJSON *j, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(j, name);
}

static void copy_text(char *to, size_t room, const cJSON *j, const char *name)
{
    const char *text = cJSON_GetStringValue(member(j, name));
    snprintf(to, room, "%s", text ? text : "");
}

static double number(const cJSON *j, const char *name, double without)
{
    const cJSON *n = member(j, name);
    return cJSON_IsNumber(n) ? n->valuedouble : without;
}

static unsigned place(const cJSON *j, const char *name)
{
    double n = number(j, name, 0);
    return n > 0 && n < 1e9 ? (unsigned)n : 0;
}

/* An index of a list of n; -1: none. */
static int index_of(const cJSON *j, const char *name, unsigned n)
{
    double i = number(j, name, -1);
    return i >= 0 && i < n ? (int)i : -1;
}

static bool read_writers(const cJSON *list, profile_table *t)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (t->nwriters == MOST_WRITERS)
            return false;
        profile_writer *w = &t->writers[t->nwriters++];
        copy_text(w->role, sizeof w->role, item, "role");
        w->group = place(item, "group");
    }
    return t->nwriters > 0;
}

static void read_loops(const cJSON *list, profile_table *t)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        profile_loop *l = &t->loops[t->nloops];
        copy_text(l->role, sizeof l->role, item, "role");
        copy_text(l->name, sizeof l->name, item, "name");
        l->parent = index_of(item, "parent", t->nloops);
        l->line = place(item, "line");
        l->column = place(item, "column");
        t->nloops++;
    }
}

static bool read_marks(const cJSON *list, profile_table *t)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        profile_mark *m = &t->marks[t->nmarks++];
        if (number(item, "number", 0) != t->nmarks)
            return false;
        copy_text(m->role, sizeof m->role, item, "role");
        copy_text(m->kind, sizeof m->kind, item, "kind");
        copy_text(m->name, sizeof m->name, item, "name");
        m->loop = index_of(item, "loop", t->nloops);
        m->branches = place(item, "branches");
        m->line = place(item, "line");
        m->column = place(item, "column");
        m->model = -1;
    }
    return t->nmarks > 0;
}

static void read_model(const cJSON *model, profile_table *t)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, member(model, "sections"))
    {
        unsigned mark = place(item, "mark");
        if (mark && mark <= t->nmarks)
            t->marks[mark - 1].model = number(item, "model", -1);
    }
}

static bool read_table(const cJSON *j, profile_table *t)
{
    const cJSON *loops = member(j, "loops"), *marks = member(j, "marks");
    t->loops = calloc((size_t)cJSON_GetArraySize(loops) + 1, sizeof *t->loops);
    t->marks = calloc((size_t)cJSON_GetArraySize(marks) + 1, sizeof *t->marks);
    if (!t->loops || !t->marks || !read_writers(member(j, "writers"), t))
        return false;
    copy_text(t->kernel, sizeof t->kernel, j, "kernel");
    copy_text(t->target, sizeof t->target, j, "target");
    read_loops(loops, t);
    if (!read_marks(marks, t))
        return false;
    read_model(member(j, "model"), t);
    return true;
}

static int take_table(recording *r, const char *what)
{
    cJSON *j = cJSON_Parse(r->marks);
    bool ok = read_table(j, &r->table);
    cJSON_Delete(j);
    if (!ok)
        report("%s: its table of marks is damaged: profile the kernel again",
               what);
    return ok ? EXIT_DONE : EXIT_INPUT;
}

/* ---- From the device ---- */

int recording_take(recording *r, const tc_profile_shape *shape, char *marks,
                   void *data)
{
    size_t n = (size_t)TC_PROFILE_PROGRAMS * shape->writers;
    const tc_profile_record *records = data;
    const tc_profile_head *heads = (const void *)(records + n * shape->records);
    r->marks = marks;
    r->memory = data;
    r->records = shape->records;
    r->rings = calloc(n, sizeof *r->rings);
    if (!r->rings) {
        report("no memory for the profile");
        return EXIT_MACHINE;
    }
    for (size_t i = 0; i < n; i++)
        if (heads[i].sm & TC_PROFILE_BEGUN)
            r->rings[r->nrings++] = (profile_ring){
                (uint32_t)(i / shape->writers), (uint32_t)(i % shape->writers),
                heads[i], records + i * shape->records};
    return take_table(r, "the profile");
}

/* ---- From a file ---- */

static int damaged(const char *path, const char *why)
{
    report("%s: %s: expected a file of `tilec profile --record`",
           printable(path).text, why);
    return EXIT_INPUT;
}

static int read_header(recording *r, const char *path, const char *text,
                       size_t size)
{
    bool no_memory;
    cJSON *j = tc_json_parse(text, size, NULL, &no_memory);
    const cJSON *table = member(j, "table");
    double records = number(j, "records", 0), rings = number(j, "rings", -1);
    int code = EXIT_DONE;
    if (!table || !tc_is_profile((int64_t)records) || rings < 0 ||
        rings > TC_PROFILE_PROGRAMS * MOST_WRITERS) {
        code = damaged(path, "its header is damaged");
    } else {
        copy_text(r->device, sizeof r->device, j, "device");
        copy_text(r->workload, sizeof r->workload, j, "workload");
        r->us = number(j, "us", 0);
        r->us_marked = number(j, "us_marked", 0);
        r->same = cJSON_IsTrue(member(j, "same"));
        r->records = (unsigned)records;
        r->nrings = (size_t)rings;
        r->marks = cJSON_PrintUnformatted(table);
    }
    cJSON_Delete(j);
    if (code)
        return code;
    return r->marks ? take_table(r, printable(path).text) : EXIT_MACHINE;
}

enum { RING_NUMBERS = 2 * sizeof(uint32_t) };

static size_t ring_size(const recording *r)
{
    return RING_NUMBERS + sizeof(tc_profile_head) +
           r->records * sizeof(tc_profile_record);
}

/* The records are copied: in a file they lie at any byte. */
static int read_rings(recording *r, const char *path, const char *at,
                      size_t size)
{
    size_t bytes = r->records * sizeof(tc_profile_record);
    if (size != r->nrings * ring_size(r)) {
        report("%s: %zu of %zu bytes of %zu rings: the file was cut off: "
               "record it again",
               printable(path).text, size, r->nrings * ring_size(r), r->nrings);
        return EXIT_INPUT;
    }
    r->rings = calloc(r->nrings + 1, sizeof *r->rings);
    char *records = r->memory = malloc(r->nrings * bytes + 1);
    if (!r->rings || !records)
        return EXIT_MACHINE;
    for (size_t i = 0; i < r->nrings; i++, at += ring_size(r)) {
        profile_ring *ring = &r->rings[i];
        memcpy(&ring->program, at, sizeof ring->program);
        memcpy(&ring->writer, at + sizeof(uint32_t), sizeof ring->writer);
        memcpy(&ring->head, at + RING_NUMBERS, sizeof ring->head);
        ring->records = (const void *)(records + i * bytes);
        memcpy(records + i * bytes, at + RING_NUMBERS + sizeof ring->head,
               bytes);
        if (ring->writer >= r->table.nwriters)
            return damaged(path, "a ring is of no writer");
    }
    return EXIT_DONE;
}

int recording_read(recording *r, const char *path)
{
    size_t size, header = 0;
    char *text = read_text(path, &size), *end;
    if (!text)
        return EXIT_INPUT;
    int code = EXIT_DONE;
    size_t first = strlen(format);
    if (size > first && memcmp(text, format, first) == 0)
        header = strtoul(text + first, &end, 10);
    if (!header || *end != '\n' || (size_t)(text + size - end - 1) < header)
        code = damaged(path, "it is no recording, or was cut off");
    if (!code)
        code = read_header(r, path, end + 1, header);
    if (!code)
        code = read_rings(r, path, end + 1 + header,
                          (size_t)(text + size - end - 1) - header);
    free(text);
    return code;
}

/* ---- To a file ---- */

static size_t count_rings(const recording *r, unsigned programs)
{
    size_t n = 0;
    for (size_t i = 0; i < r->nrings; i++)
        n += r->rings[i].program < programs;
    return n;
}

static char *print_header(const recording *r, size_t rings)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "device", r->device);
    cJSON_AddStringToObject(j, "workload", r->workload);
    cJSON_AddNumberToObject(j, "us", r->us);
    cJSON_AddNumberToObject(j, "us_marked", r->us_marked);
    cJSON_AddBoolToObject(j, "same", r->same);
    cJSON_AddNumberToObject(j, "records", r->records);
    cJSON_AddNumberToObject(j, "rings", (double)rings);
    cJSON_AddItemToObject(j, "table", cJSON_Parse(r->marks));
    char *text = cJSON_PrintUnformatted(j);
    cJSON_Delete(j);
    return text;
}

static char *put(char *to, const void *from, size_t size)
{
    memcpy(to, from, size);
    return to + size;
}

int recording_write(const recording *r, const char *path, unsigned programs)
{
    size_t n = count_rings(r, programs);
    char *header = print_header(r, n);
    size_t length = header ? strlen(header) : 0;
    char *all = malloc(length + n * ring_size(r) + 64);
    int code = EXIT_MACHINE;
    if (header && all) {
        char *at = all + sprintf(all, "%s%zu\n", format, length);
        at = put(at, header, length);
        for (size_t i = 0; i < r->nrings; i++) {
            const profile_ring *ring = &r->rings[i];
            if (ring->program >= programs)
                continue;
            at = put(at, &ring->program, sizeof ring->program);
            at = put(at, &ring->writer, sizeof ring->writer);
            at = put(at, &ring->head, sizeof ring->head);
            at = put(at, ring->records, r->records * sizeof(tc_profile_record));
        }
        code = write_data(path, all, (size_t)(at - all));
    } else {
        report("no memory for %s", printable(path).text);
    }
    free(header);
    free(all);
    return code;
}

void recording_free(recording *r)
{
    free(r->table.loops);
    free(r->table.marks);
    free(r->marks);
    free(r->rings);
    free(r->memory);
    *r = (recording){0};
}
