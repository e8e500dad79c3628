/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA's programs, if they are installed: ptxas makes cubins without a
 * device, nvdisasm and cuobjdump show the machine code.
 */
#define _GNU_SOURCE /* pipe2 */
#include "lib/gpu/gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- Finding them ---- */

static char *in_folder(const char *folder, size_t n, const char *name)
{
    char *path = malloc(n + strlen(name) + 2);
    if (!path)
        return NULL;
    memcpy(path, folder, n);
    path[n] = '/';
    strcpy(path + n + 1, name);
    if (access(path, X_OK) == 0)
        return path;
    free(path);
    return NULL;
}

char *tc_find_program(const char *name, const char *given)
{
    if (given)
        return access(given, X_OK) == 0 ? strdup(given) : NULL;
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t n = strcspn(path, ":");
        char *found = n ? in_folder(path, n, name) : NULL;
        if (found)
            return found;
        path += n + (path[n] == ':');
    }
    static const char usual[] = "/usr/local/cuda/bin";
    return in_folder(usual, sizeof usual - 1, name);
}

/* ---- Running them ---- */

/* The output of a program, up to `room` bytes of it when room is not 0;
 * malloc'd. */
struct output {
    char *text;
    size_t size, most;
};

static bool drain(int fd, struct output *o)
{
    char part[4096];
    for (;;) {
        ssize_t n = read(fd, part, sizeof part);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0;
        size_t take = (size_t)n;
        if (o->most && take > o->most - o->size)
            take = o->most - o->size;
        char *more = realloc(o->text, o->size + take + 1);
        if (!more)
            return false;
        o->text = more;
        memcpy(o->text + o->size, part, take);
        o->size += take;
        o->text[o->size] = 0;
    }
}

/* Its exit code. Where the process ignores what becomes of its children, or
 * another thread has asked first, nobody knows: then its output says. */
static int wait_for(pid_t child)
{
    int status;
    pid_t found;
    do
        found = waitpid(child, &status, 0);
    while (found < 0 && errno == EINTR);
    if (found < 0)
        return 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/* Its exit code, -1 where it did not run (errno). Both outputs to `o`. */
static int assemble_run(char *const *words, struct output *o)
{
    int ends[2], code = -1;
    pid_t child;
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    if (posix_spawn_file_actions_init(&actions) == 0) {
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
        posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
        errno = posix_spawn(&child, words[0], &actions, NULL, words, environ);
        close(ends[1]);
        ends[1] = -1;
        if (errno == 0) {
            drain(ends[0], o);
            close(ends[0]); /* not to wait for one that has more to say */
            ends[0] = -1;
            code = wait_for(child);
        }
        posix_spawn_file_actions_destroy(&actions);
    }
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    return code;
}

/* ---- Files for them ---- */

static bool write_file(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(data, 1, size, f) == size;
    return f && fclose(f) == 0 && ok;
}

static bool read_file(const char *path, void **data, size_t *size)
{
    struct stat s;
    FILE *f = fopen(path, "rb");
    *data =
        f && fstat(fileno(f), &s) == 0 ? malloc((size_t)s.st_size + 1) : NULL;
    *size = *data ? fread(*data, 1, (size_t)s.st_size, f) : 0;
    bool ok = *data && *size == (size_t)s.st_size;
    if (f)
        fclose(f);
    if (!ok) {
        free(*data);
        *data = NULL;
    }
    return ok;
}

/* A folder for the files of one run, and the two paths that are used in it. */
struct workplace {
    char folder[64], in[80], out[80];
};

static bool open_workplace(struct workplace *w)
{
    const char *base = getenv("TMPDIR");
    size_t room = sizeof w->folder - sizeof "/tilec-XXXXXX";
    if (!base || !*base || strlen(base) > room)
        base = "/tmp";
    snprintf(w->folder, sizeof w->folder, "%.*s/tilec-XXXXXX", (int)room, base);
    if (!mkdtemp(w->folder))
        return false;
    snprintf(w->in, sizeof w->in, "%s/in", w->folder);
    snprintf(w->out, sizeof w->out, "%s/out", w->folder);
    return true;
}

static void close_workplace(const struct workplace *w)
{
    unlink(w->in);
    unlink(w->out);
    rmdir(w->folder);
}

/* ---- The two uses ---- */

static tilec_status assemble_say(tilec_error *error, const char *program,
                                 int code, const struct output *o)
{
    if (code < 0)
        return tc_fail(error, TILEC_MACHINE, "%s does not run: %s", program,
                       strerror(errno));
    return tc_fail_lines(error, TILEC_MACHINE, "%s failed: %s", program,
                         o->text ? o->text : "it does not say why");
}

static tilec_status assemble_at(const struct workplace *w, const char *ptxas,
                                const char *arch, unsigned level,
                                const char *ptx, void **cubin, size_t *size,
                                struct output *o, tilec_error *error)
{
    char option[32], optimise[16];
    snprintf(option, sizeof option, "-arch=%s", arch);
    snprintf(optimise, sizeof optimise, "-O%u", level ? level : 3);
    char *words[] = {(char *)(uintptr_t)ptxas,
                     option,
                     optimise,
                     "-v",
                     "-lineinfo",
                     (char *)(uintptr_t)w->in,
                     "-o",
                     (char *)(uintptr_t)w->out,
                     NULL};
    if (!write_file(w->in, ptx, strlen(ptx)))
        return tc_fail(error, TILEC_MACHINE, "%s: %s", w->in, strerror(errno));
    int code = assemble_run(words, o);
    if (code)
        return assemble_say(error, ptxas, code, o);
    return read_file(w->out, cubin, size) ? TILEC_OK
                                          : assemble_say(error, ptxas, 0, o);
}

tilec_status tc_assemble(const char *ptxas, const char *arch, unsigned level,
                         const char *ptx, void **cubin, size_t *size,
                         char *said, size_t room, tilec_error *error)
{
    struct workplace w;
    struct output o = {.most = room - 1};
    *cubin = NULL;
    if (!open_workplace(&w))
        return tc_fail(error, TILEC_MACHINE, "no folder for %s: %s", ptxas,
                       strerror(errno));
    tilec_status s =
        assemble_at(&w, ptxas, arch, level, ptx, cubin, size, &o, error);
    close_workplace(&w);
    snprintf(said, room, "%s", o.text ? o.text : "");
    free(o.text);
    return s;
}

static tilec_status
disassemble_at(const struct workplace *w, const char *program,
               const char *const options[TC_NVDISASM_OPTIONS],
               const void *cubin, size_t size, struct output *o,
               tilec_error *error)
{
    char *words[TC_NVDISASM_OPTIONS + 3] = {(char *)(uintptr_t)program};
    unsigned n = 1;
    for (unsigned i = 0; i < TC_NVDISASM_OPTIONS && options[i]; i++)
        words[n++] = (char *)(uintptr_t)options[i];
    words[n] = (char *)(uintptr_t)w->in;
    if (!write_file(w->in, cubin, size))
        return tc_fail(error, TILEC_MACHINE, "%s: %s", w->in, strerror(errno));
    int code = assemble_run(words, o);
    return code ? assemble_say(error, program, code, o) : TILEC_OK;
}

tilec_status tc_disassemble(const void *cubin, size_t size, char **text,
                            tilec_error *error)
{
    struct workplace w;
    struct output o = {0};
    char *nvdisasm = tc_find_program("nvdisasm", NULL);
    char *program = nvdisasm ? nvdisasm : tc_find_program("cuobjdump", NULL);
    const char *const options[TC_NVDISASM_OPTIONS] = {nvdisasm ? "-c"
                                                               : "-sass"};
    *text = NULL;
    if (!program)
        return tc_fail(error, TILEC_MACHINE,
                       "sass is shown by nvdisasm or cuobjdump, and neither is "
                       "on $PATH or in /usr/local/cuda/bin: install the CUDA "
                       "toolkit's binary utilities");
    tilec_status s = TILEC_MACHINE;
    if (open_workplace(&w)) {
        s = disassemble_at(&w, program, options, cubin, size, &o, error);
        close_workplace(&w);
    } else {
        tc_fail(error, s, "no folder for %s: %s", program, strerror(errno));
    }
    free(program);
    if (s == TILEC_OK) {
        *text = o.text ? o.text : strdup("");
        return *text ? s : tc_fail_memory(error);
    }
    free(o.text);
    return s;
}

char *tc_nvdisasm(const void *cubin, size_t size,
                  const char *const options[TC_NVDISASM_OPTIONS])
{
    struct workplace w;
    struct output o = {0};
    char *program = tc_find_program("nvdisasm", NULL);
    tilec_status s = TILEC_MACHINE;
    if (program && open_workplace(&w)) {
        s = disassemble_at(&w, program, options, cubin, size, &o, NULL);
        close_workplace(&w);
    }
    free(program);
    if (s == TILEC_OK)
        return o.text;
    free(o.text);
    return NULL;
}
