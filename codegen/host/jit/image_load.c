/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads an image (image.h) into this process.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "codegen/host/jit/image.h"

#include "codegen/host/runtime/symbols.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool say(char *why, size_t room, const char *text)
{
    snprintf(why, room, "%s", text);
    return false;
}

/* Tables and sizes lie in the image, in order. */
static bool is_sound(const tc_image *m)
{
    size_t table = m->nnames * sizeof(void *);
    return m->text_size > 0 && m->text_size <= m->data_at &&
           m->data_at % TC_IMAGE_PAGE == 0 && m->data_at <= m->size &&
           m->table_at >= m->data_at && m->table_at % sizeof(void *) == 0 &&
           m->table_at <= m->size && table <= m->size - m->table_at &&
           m->entry < m->text_size;
}

static void unmap(tc_host_kernel *k)
{
    munmap(k->linked, k->linked_size);
}

/* NULL: `why` says which function is unknown. */
static bool fill_table(const tc_image *m, unsigned char *at, char *why,
                       size_t room)
{
    for (unsigned i = 0; i < m->nnames; i++) {
        void *address = tc_host_symbol_find(m->names[i]);
        if (!address) {
            snprintf(why, room,
                     "it calls %.64s, which this version of the library does "
                     "not have",
                     m->names[i]);
            return false;
        }
        memcpy(at + m->table_at + i * sizeof address, &address, sizeof address);
    }
    return true;
}

/* Mapped whole; memory of pages that are larger than an image's parts may not
 * be both written and executed, so it is refused. */
bool tc_image_load(tc_host_kernel *k, const tc_image *m, char *why, size_t room)
{
    if (sysconf(_SC_PAGESIZE) != TC_IMAGE_PAGE)
        return say(why, room, "the system's pages are not of 4096 bytes");
    if (!is_sound(m))
        return say(why, room, "its image is not sound");
    unsigned char *at = mmap(NULL, m->size, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return say(why, room, "out of memory");
    k->linked = at;
    k->linked_size = m->size;
    k->unlink = unmap;
    memcpy(at, m->bytes, m->size);
    if (!fill_table(m, at, why, room))
        return false;
    size_t rest = m->size - m->data_at;
    if (mprotect(at, m->data_at, PROT_READ | PROT_EXEC) ||
        (rest && mprotect(at + m->data_at, rest, PROT_READ)))
        return say(why, room, "the system does not let memory be executed");
    k->fn = (tc_host_fn *)(uintptr_t)(at + m->entry);
    tc_host_count_words(k);
    return true;
}
