/* SPDX-License-Identifier: Apache-2.0
 *
 * Links an object of LLVM's to an image (image.h): all sections one after the
 * other, code first, and relocations between them applied once and for all, as
 * none of the large code model's depends on where the image is loaded.
 */
#include "codegen/host/jit/image.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SECTIONS = 64 };

typedef struct linker {
    const unsigned char *object;
    size_t size;
    Elf64_Ehdr head;
    unsigned nsections;
    Elf64_Shdr sections[MOST_SECTIONS];
    size_t places[MOST_SECTIONS]; /* in the image; SIZE_MAX: not in it */
    const Elf64_Shdr *symbols;
    const Elf64_Shdr *names;
    tc_image *image;
    unsigned char *bytes; /* the image's, to be written */
    char *why;
    size_t room;
} linker;

static bool say(const linker *l, const char *what, const char *name)
{
    snprintf(l->why, l->room, "no image of this object: %s%.64s", what, name);
    return false;
}

/* ---- Reading the object, which LLVM has just made ---- */

static bool is_inside(const linker *l, uint64_t at, uint64_t n)
{
    return at <= l->size && n <= l->size - at;
}

static bool read_head(linker *l)
{
    static const unsigned char magic[] = {0x7f, 'E', 'L', 'F', 2, 1};
    if (l->size < sizeof l->head || memcmp(l->object, magic, sizeof magic) != 0)
        return say(l, "it is no ELF of 64 bits", "");
    memcpy(&l->head, l->object, sizeof l->head);
    if (l->head.e_machine != EM_X86_64)
        return say(l, "images are for x86-64 alone", "");
    l->nsections = l->head.e_shnum;
    if (l->nsections > MOST_SECTIONS ||
        !is_inside(l, l->head.e_shoff, l->nsections * sizeof *l->sections))
        return say(l, "too many sections", "");
    memcpy(l->sections, l->object + l->head.e_shoff,
           l->nsections * sizeof *l->sections);
    for (unsigned i = 0; i < l->nsections; i++) {
        const Elf64_Shdr *s = &l->sections[i];
        if (s->sh_type != SHT_NOBITS && !is_inside(l, s->sh_offset, s->sh_size))
            return say(l, "a section lies outside of it", "");
        if (s->sh_type == SHT_SYMTAB && s->sh_link < l->nsections) {
            l->symbols = s;
            l->names = &l->sections[s->sh_link];
        }
    }
    return l->symbols || say(l, "it has no symbols", "");
}

static bool get_symbol(const linker *l, uint64_t index, Elf64_Sym *out,
                       const char **name)
{
    if (index >= l->symbols->sh_size / sizeof *out)
        return false;
    memcpy(out, l->object + l->symbols->sh_offset + index * sizeof *out,
           sizeof *out);
    const char *names = (const char *)l->object + l->names->sh_offset;
    *name = names + out->st_name;
    return out->st_name < l->names->sh_size &&
           memchr(*name, 0, l->names->sh_size - out->st_name);
}

/* ---- Placing sections ---- */

/* Tables for unwinding are left out: nothing throws through a kernel. */
static bool is_wanted(const linker *l, unsigned i)
{
    const Elf64_Shdr *s = &l->sections[i];
    const char *name = "";
    if (l->head.e_shstrndx < l->nsections &&
        s->sh_name < l->sections[l->head.e_shstrndx].sh_size)
        name = (const char *)l->object +
               l->sections[l->head.e_shstrndx].sh_offset + s->sh_name;
    return (s->sh_flags & SHF_ALLOC) && s->sh_size &&
           strcmp(name, ".eh_frame") != 0;
}

static size_t aligned(size_t at, size_t to)
{
    return to > 1 ? (at + to - 1) / to * to : at;
}

static size_t place(linker *l, size_t at, bool is_code)
{
    for (unsigned i = 0; i < l->nsections; i++) {
        const Elf64_Shdr *s = &l->sections[i];
        bool code = (s->sh_flags & SHF_EXECINSTR) != 0;
        if (!is_wanted(l, i) || code != is_code)
            continue;
        at = aligned(at, s->sh_addralign);
        l->places[i] = at;
        at += s->sh_size;
    }
    return at;
}

static bool place_sections(linker *l)
{
    tc_image *m = l->image;
    for (unsigned i = 0; i < l->nsections; i++) {
        l->places[i] = SIZE_MAX;
        if (is_wanted(l, i) && l->sections[i].sh_flags & SHF_WRITE)
            return say(l, "it has data that is written", "");
    }
    m->text_size = place(l, 0, true);
    m->data_at = aligned(m->text_size, TC_IMAGE_PAGE);
    m->table_at = aligned(place(l, m->data_at, false), sizeof(void *));
    /* As many addresses as there may be: cut when all are known. */
    m->size = m->table_at + TC_IMAGE_MOST_NAMES * sizeof(void *);
    l->bytes = calloc(1, m->size);
    if (!l->bytes || m->text_size == 0)
        return say(l, l->bytes ? "it has no code" : "out of memory", "");
    for (unsigned i = 0; i < l->nsections; i++)
        if (l->places[i] != SIZE_MAX && l->sections[i].sh_type != SHT_NOBITS)
            memcpy(l->bytes + l->places[i],
                   l->object + l->sections[i].sh_offset,
                   l->sections[i].sh_size);
    return true;
}

/* ---- Relocations ---- */

/* The place of a function's address in the table. */
static bool table_slot(linker *l, const char *name, uint64_t *out)
{
    tc_image *m = l->image;
    unsigned i = 0;
    while (i < m->nnames && strcmp(m->names[i], name) != 0)
        i++;
    if (i == TC_IMAGE_MOST_NAMES)
        return say(l, "it calls too many functions", "");
    if (i == m->nnames)
        m->names[m->nnames++] = name;
    *out = m->table_at + i * sizeof(void *);
    return true;
}

/* Where a symbol of the object is in the image. */
static bool symbol_place(const linker *l, const Elf64_Sym *s, const char *name,
                         uint64_t *out)
{
    if (s->st_shndx >= l->nsections || l->places[s->st_shndx] == SIZE_MAX)
        return say(l, "a relocation to ", *name ? name : "what is left out");
    *out = l->places[s->st_shndx] + s->st_value;
    return true;
}

/* The global offset table begins where the addresses do. */
static bool apply(linker *l, size_t section, const Elf64_Rela *r)
{
    uint64_t type = ELF64_R_TYPE(r->r_info), value = 0;
    uint64_t at = l->places[section] + r->r_offset;
    size_t width = type == R_X86_64_PC32 || type == R_X86_64_PLT32 ? 4 : 8;
    Elf64_Sym s;
    const char *name;
    if (r->r_offset > l->sections[section].sh_size ||
        width > l->sections[section].sh_size - r->r_offset ||
        !get_symbol(l, ELF64_R_SYM(r->r_info), &s, &name))
        return say(l, "a relocation is not sound", "");
    uint64_t got = l->image->table_at, addend = (uint64_t)r->r_addend;
    switch (type) {
    case R_X86_64_GOTPC64: value = got + addend - at; break;
    case R_X86_64_GOT64:
        if (s.st_shndx != SHN_UNDEF)
            return say(l, "the address of ", name);
        if (!table_slot(l, name, &value))
            return false;
        value += addend - got;
        break;
    case R_X86_64_GOTOFF64:
        if (!symbol_place(l, &s, name, &value))
            return false;
        value += addend - got;
        break;
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
    case R_X86_64_PC64:
        if (!symbol_place(l, &s, name, &value))
            return false;
        value += addend - at;
        break;
    default: {
        char number[16];
        snprintf(number, sizeof number, "%u", (unsigned)type);
        return say(l, "a relocation of kind ", number);
    }
    }
    memcpy(l->bytes + at, &value, width); /* both little-endian */
    return true;
}

static bool apply_section(linker *l, const Elf64_Shdr *rela)
{
    size_t target = rela->sh_info;
    if (target >= l->nsections || l->places[target] == SIZE_MAX)
        return true;
    for (uint64_t i = 0; i < rela->sh_size / sizeof(Elf64_Rela); i++) {
        Elf64_Rela r;
        memcpy(&r, l->object + rela->sh_offset + i * sizeof r, sizeof r);
        if (!apply(l, target, &r))
            return false;
    }
    return true;
}

static bool find_entry(linker *l)
{
    Elf64_Sym s;
    const char *name;
    for (uint64_t i = 0; get_symbol(l, i, &s, &name); i++)
        if (strcmp(name, "kernel") == 0) {
            uint64_t at;
            bool ok = symbol_place(l, &s, name, &at);
            l->image->entry = ok ? at : 0;
            return ok;
        }
    return say(l, "it has no kernel", "");
}

bool tc_image_make(const void *object, size_t object_size, tc_image *out,
                   char *why, size_t room)
{
    *out = (tc_image){0};
    linker l = {.object = object,
                .size = object_size,
                .image = out,
                .why = why,
                .room = room};
    bool ok = read_head(&l) && place_sections(&l) && find_entry(&l);
    for (unsigned i = 0; ok && i < l.nsections; i++)
        if (l.sections[i].sh_type == SHT_RELA)
            ok = apply_section(&l, &l.sections[i]);
    out->bytes = l.bytes;
    out->size = out->table_at + out->nnames * sizeof(void *);
    if (ok)
        return true;
    free(l.bytes);
    *out = (tc_image){0};
    return false;
}
