/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/reproducer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* A word of the command: quoted, `"` and `\` escaped. */
static void add_quoted(tc_text *out, const char *before, const char *after)
{
    tc_text_add(out, "\"");
    for (const char *s = before; *s; s++)
        tc_text_printf(out, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
    for (const char *s = after; *s; s++)
        tc_text_printf(out, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
    tc_text_add(out, "\"");
}

static void add_command(tc_text *out, const tc_pass_info *const *passes,
                        unsigned npasses, const tc_pass_options *o)
{
    tc_text_add(out, TC_REPRODUCER_START "-p ");
    for (unsigned i = 0; i < npasses; i++)
        tc_text_printf(out, "%s%s", i ? "," : "", passes[i]->name);
    if (o->kernel) {
        tc_text_add(out, " --kernel ");
        add_quoted(out, o->kernel, "");
    }
    for (unsigned i = 0; i < o->nbindings; i++) {
        tc_text_add(out, " -D ");
        const char *name =
            tc_arena_printf(out->arena, "%s=", o->bindings[i].name);
        add_quoted(out, name, o->bindings[i].value);
    }
    if (o->target)
        tc_text_printf(out, " --target %s", o->target->name);
    if (o->warps)
        tc_text_printf(out, " --warps %u", o->warps);
    if (o->stages)
        tc_text_printf(out, " --stages %u", o->stages);
    if (o->tiles)
        tc_text_printf(out, " --tiles %s", tc_tiles_word(o->tiles));
    if (o->enforce)
        tc_text_printf(out, " --enforce %s", tc_enforce_word(o->enforce));
    if (o->any_alignment)
        tc_text_add(out, " --any-alignment");
    if (o->any_sizes)
        tc_text_add(out, " --any-sizes");
    if (o->no_swizzle)
        tc_text_add(out, " --no-swizzle");
    if (o->verify_each)
        tc_text_add(out, " --verify-each");
    if (o->round_trip)
        tc_text_add(out, " --round-trip");
    tc_text_add(out, "\n");
}

/* A name that is not taken, so that no older file is overwritten. */
static int create(tc_arena *a, const char *dir, const char *pass, char **path)
{
    for (unsigned i = 0; i < 1000; i++) {
        *path = tc_arena_printf(a, "%s/tilec-%s-%u.tile", dir, pass, i);
        int fd = open(*path, O_WRONLY | O_CREAT | O_EXCL, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

static bool write_all(int fd, const char *s, size_t n)
{
    while (n) {
        ssize_t done = write(fd, s, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        s += done;
        n -= (size_t)done;
    }
    return true;
}

void tc_reproducer_write(tc_context *cx, const char *text,
                         const tc_pass_info *const *passes, unsigned npasses,
                         const tc_pass_options *options)
{
    tc_text out = {.arena = &cx->diag_arena};
    add_command(&out, passes, npasses, options);
    tc_text_add(&out, text);
    char *path;
    int fd = create(&cx->diag_arena, options->reproducer_dir, passes[0]->name,
                    &path);
    bool ok = fd >= 0 && write_all(fd, out.data, out.len);
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (ok)
        tc_note(cx, (tc_loc){0}, "to repeat it: tilec opt --run-reproducer %s",
                path);
    else
        tc_note(cx, (tc_loc){0}, "no reproducer: cannot write %s: %s", path,
                strerror(why));
}
