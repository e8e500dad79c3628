/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs of a kernel's code, and the cache key that follows from them.
 *
 * The program is the text of the printer, so that comments and blanks do not
 * matter, but with the place of each op: code contains places, for profilers
 * and failed asserts.
 */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "codegen/host/jit/compile.h"
#include "codegen/host/jit/cpus.h"
#include "lib/gpu/gpu.h"

#include <cjson/cJSON.h>
#include <llvm-c/Core.h>

#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- The build of this library ---- */

/* The linker's hash of what it linked: another compiler makes other code, be
 * its version the same. */
struct build {
    uintptr_t inside; /* an address in the object that is looked for */
    const unsigned char *id;
    size_t size;
    struct stat file; /* of the object, where the linker left no hash */
};

static bool holds(const struct dl_phdr_info *object, uintptr_t address)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        if (p->p_type == PT_LOAD &&
            address - (object->dlpi_addr + p->p_vaddr) < p->p_memsz)
            return true;
    }
    return false;
}

static size_t padded(size_t n)
{
    return (n + 3) & ~(size_t)3;
}

static void find_note(struct build *b, const unsigned char *at, size_t size)
{
    ElfW(Nhdr) note;
    while (size >= sizeof note) {
        memcpy(&note, at, sizeof note);
        size_t room =
            sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
        if (room > size)
            return;
        if (note.n_type == NT_GNU_BUILD_ID) {
            b->id = at + sizeof note + padded(note.n_namesz);
            b->size = note.n_descsz;
            return;
        }
        at += room;
        size -= room;
    }
}

static int look_at(struct dl_phdr_info *object, size_t size, void *arg)
{
    struct build *b = arg;
    (void)size;
    if (!holds(object, b->inside))
        return 0;
    for (int i = 0; i < object->dlpi_phnum && !b->id; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        if (p->p_type == PT_NOTE)
            find_note(b,
                      (const unsigned char *)(object->dlpi_addr + p->p_vaddr),
                      p->p_memsz);
    }
    if (!b->id)
        (void)stat(*object->dlpi_name ? object->dlpi_name : "/proc/self/exe",
                   &b->file);
    return 1;
}

static const char *build_id(tc_arena *a)
{
    struct build b = {.inside = (uintptr_t)build_id};
    dl_iterate_phdr(look_at, &b);
    tc_text text = {.arena = a};
    tc_text_add(&text, tilec_version());
    tc_text_add(&text, " ");
    for (size_t i = 0; i < b.size && i < 20; i++)
        tc_text_printf(&text, "%02x", b.id[i]);
    if (!b.size)
        tc_text_printf(&text, "%lld %lld.%09ld", (long long)b.file.st_size,
                       (long long)b.file.st_mtim.tv_sec,
                       b.file.st_mtim.tv_nsec);
    return text.data;
}

/* ---- Parts ---- */

struct list {
    tc_arena *arena;
    tc_recipe *recipe;
};

static void recipe_add(struct list *l, const char *name, const char *value)
{
    l->recipe->parts[l->recipe->n++] = (tc_recipe_part){name, value};
}

static void add_number(struct list *l, const char *name, unsigned value)
{
    recipe_add(l, name, tc_arena_printf(l->arena, "%u", value));
}

static const char *llvm_version(tc_arena *a)
{
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    return tc_arena_printf(a, "%u.%u.%u", major, minor, patch);
}

/* Code for the CPU is for this one, or those that the context names. */
static void add_machine(struct list *l, const char *cpu)
{
    tc_host_machine machine = tc_host_this_machine(l->arena);
    const tc_host_cpu *named = cpu ? tc_host_cpu_get(cpu) : NULL;
    recipe_add(l, "triple", machine.triple);
    recipe_add(l, "CPU", named ? named->name : machine.cpu);
    recipe_add(l, "features", named ? named->features : machine.features);
}

static tc_key hash(tc_arena *a, const tc_recipe *r)
{
    tc_text all = {.arena = a};
    for (unsigned i = 0; i < r->n; i++) {
        tc_text_printf(&all, "%s=%zu:", r->parts[i].name,
                       strlen(r->parts[i].value));
        tc_text_add(&all, r->parts[i].value);
    }
    return tc_key_of(all.data, all.len);
}

void tc_recipe_make(tc_job *job, const tilec_compile_options *o,
                    const tc_target *target, const char *kernel,
                    const tc_bound *bound, tc_recipe *out)
{
    tc_arena *a = &job->cx->arena;
    struct list l = {a, out};
    *out = (tc_recipe){0};
    out->parts = tc_arena_array(a, tc_recipe_part, 18 + bound->ngiven);
    recipe_add(&l, "tilec", build_id(a));
    recipe_add(&l, "LLVM", llvm_version(a));
    if (tc_target_is_gpu(target))
        add_number(&l, "ABI", TC_NVPTX_ABI);
    else
        add_machine(&l, job->owner->cpu);
    recipe_add(&l, "target", target->name);
    recipe_add(&l, "pipeline", o->pipeline ? o->pipeline : target->pipeline);
    recipe_add(&l, "kernel", kernel);
    add_number(&l, "warps", o->warps);
    add_number(&l, "stages", o->stages);
    add_number(&l, "ptxas", o->ptxas_level);
    recipe_add(&l, "tiles",
               o->tiles ? tc_tiles_word((tc_tiles)o->tiles) : "any");
    recipe_add(&l, "float32",
               o->float32_precision ? o->float32_precision : "ieee");
    recipe_add(&l, "enforce", tc_enforce_word((tc_enforce)o->enforce));
    recipe_add(&l, "alignment", job->any_alignment ? "any" : "as wanted");
    recipe_add(&l, "sizes", job->any_sizes ? "any" : "as wanted");
    for (unsigned i = 0; i < bound->ngiven; i++)
        recipe_add(&l, tc_arena_printf(a, "-D %s", bound->given[i].name),
                   bound->given[i].value);
    tc_text program = {.arena = a};
    tc_module_print(&program, job->module, TC_PRINT_LOCATIONS);
    recipe_add(&l, "program", program.data ? program.data : "");
    out->key = hash(a, out);
}

/* ---- In an entry ---- */

const char *tc_recipe_program(const tc_recipe *r)
{
    return r->parts[r->n - 1].value;
}

char *tc_recipe_print(const tc_recipe *r)
{
    cJSON *j = cJSON_CreateObject();
    bool ok = j != NULL;
    for (unsigned i = 0; ok && i + 1 < r->n; i++)
        ok = cJSON_AddStringToObject(j, r->parts[i].name, r->parts[i].value);
    char *text = ok ? cJSON_PrintUnformatted(j) : NULL;
    cJSON_Delete(j);
    return text;
}

static bool has_text(const tc_entry *entry, const char *name, const char *text)
{
    const tc_cache_section *s = tc_entry_find(entry, name);
    return s && s->size == strlen(text) && memcmp(s->data, text, s->size) == 0;
}

bool tc_recipe_is_of(const tc_recipe *r, const tc_entry *entry)
{
    char *parts = tc_recipe_print(r);
    bool same = parts && has_text(entry, "recipe", parts) &&
                has_text(entry, "program", tc_recipe_program(r));
    free(parts);
    return same;
}
