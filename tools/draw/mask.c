/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec info mask: which blocks of a mask are full, partial and empty, and how
 * the attention kernels find that out.
 *
 *   causal: 512 queries, 512 keys, blocks of 128x128
 *   16 blocks: 6 full, 4 partial, 6 empty (37.5 %)
 *   50.1 % of all pairs are seen; every query surely sees a key: its own
 *   position
 *   over keys: ranges, 10 blocks visited: the loop is cut at its end, ..
 *   over queries: ranges, 10 blocks visited: the loop is cut at its start, ..
 *
 *   +...
 *   #+..
 *   ##+.
 *   ###+
 */
#include "tools/draw/mask.h"

#include "lib/attention/mask_blocks.h"
#include "tools/measure/inputs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_BLOCKS = 1 << 24,
    MOST_ACROSS = 100,
    MOST_ARGUMENTS = 80,
    MOST_PAIRS = 1 << 22
};

typedef struct job {
    const tool_args *args;
    tilec_context *cx;
    inputs in;
    mask_map map;
    int batch, head;
    owned_tensor kinds, visits, seen, pairs;
    tc_text ways[2];
    tc_context *texts; /* the memory of ways, and of output */
} job;

/* ---- The command line ---- */

static int get_number(const job *j, const char *option, int missing, int least,
                      int *out)
{
    const char *text = tool_value(j->args, option);
    char *end;
    *out = missing;
    if (!text)
        return EXIT_DONE;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (end == text || *end || errno || n < least || n > INT_MAX / 2)
        return tool_usage(j->args->command,
                          "%s is `%s`, expected a number from %d to %d", option,
                          text, least, INT_MAX / 2);
    *out = (int)n;
    return EXIT_DONE;
}

static int get_sides(job *j)
{
    const char *text = tool_value(j->args, "--block");
    char more;
    int q = 128, k = 128;
    int n = text ? sscanf(text, "%dx%d%c", &q, &k, &more) : 2;
    if (n == 1 && !strpbrk(text, "x"))
        k = q;
    else if (n != 2)
        q = 0;
    if (q < 8 || k < 8 || q > 256 || k > 256 || q % 8 || k % 8)
        return tool_usage(j->args->command,
                          "--block is `%s`, expected sides such as 128 or "
                          "128x64: multiples of 8, up to 256",
                          text);
    j->map.q_side = q;
    j->map.k_side = k;
    return EXIT_DONE;
}

static int get_options(job *j)
{
    mask_map *m = &j->map;
    if (j->args->nwords < 2)
        return tool_usage(j->args->command,
                          "expected a mask, such as `causal`");
    if (!tool_value(j->args, "--q-len"))
        return tool_usage(j->args->command,
                          "expected --q-len, the number of queries");
    m->expression = j->args->words[1];
    int code = get_number(j, "--q-len", 0, 1, &m->q_len);
    code = code ? code : get_number(j, "--kv-len", m->q_len, 1, &m->kv_len);
    code = code ? code : get_number(j, "--batch", 0, 0, &j->batch);
    code = code ? code : get_number(j, "--head", 0, 0, &j->head);
    code = code ? code : get_sides(j);
    if (code)
        return code;
    m->rows = (m->q_len - 1) / m->q_side + 1;
    m->columns = (m->kv_len - 1) / m->k_side + 1;
    if ((int64_t)m->rows * m->columns * (j->batch + 1) * (j->head + 1) >
        MOST_BLOCKS)
        return tool_usage(j->args->command,
                          "%d x %d blocks are too many to show: take a "
                          "larger --block",
                          m->rows, m->columns);
    for (int i = 2; !code && i < j->args->nwords; i++)
        code = inputs_add(&j->in, j->args->words[i]);
    return code;
}

/* ---- Kernels ---- */

/* The input for a captured parameter: by its name, with or without `mask.`. */
static const tilec_argument *find_input(const job *j, const char *name)
{
    const char *dot = strchr(name, '.');
    for (size_t i = 0; i < j->in.n; i++)
        if (strcmp(j->in.list[i].name, name) == 0 ||
            (dot && strcmp(j->in.list[i].name, dot + 1) == 0))
            return &j->in.arguments[i];
    return NULL;
}

/* After the n arguments of the kernel itself. -1: one is missing, said. */
static int add_captured(const job *j, const tilec_kernel *k,
                        const tilec_argument *values, size_t nvalues,
                        tilec_argument *args, int n)
{
    const tilec_parameter *p;
    for (size_t i = 0; (p = tilec_kernel_parameter(k, i)); i++) {
        if (!p->captured || n == MOST_ARGUMENTS)
            continue;
        const tilec_argument *from = find_input(j, p->name);
        for (size_t v = 0; !from && v < nvalues; v++)
            if (strcmp(values[v].name, p->name) == 0)
                from = &values[v];
        if (!from) {
            const char *dot = strchr(p->name, '.');
            report("the mask reads `%s`, a %s: give it as "
                   "%s=VALUE",
                   dot ? dot + 1 : p->name, p->type, dot ? dot + 1 : p->name);
            return -1;
        }
        args[n] = *from;
        args[n++].name = p->name;
    }
    return n;
}

static int launch(const job *j, const tilec_kernel *k,
                  const tilec_argument *values, size_t nvalues,
                  tilec_argument *args, int n)
{
    args[n++] = tilec_int("q_len", j->map.q_len);
    args[n++] = tilec_int("kv_len", j->map.kv_len);
    n = add_captured(j, k, values, nvalues, args, n);
    if (n < 0)
        return EXIT_INPUT;
    tilec_launch_options o = TILEC_INIT(tilec_launch_options);
    tilec_error e = TILEC_INIT(tilec_error);
    return tilec_launch(k, args, (size_t)n, &o, &e) ? report_error(&e)
                                                    : EXIT_DONE;
}

/* Tensors first. */
static int run_kernel(job *j, const char *kernel, bool by_key,
                      tilec_argument *args, int n)
{
    tc_mask_blocks from = {
        .texts = {.texts = {[TC_MOD_MASK] = j->map.expression},
                  .read_source = read_source},
        .target = "cpu",
        .kernel = kernel,
        .q_side = (unsigned)j->map.q_side,
        .k_side = (unsigned)j->map.k_side,
        .by_key = by_key,
        .q_len = j->map.q_len,
        .k_len = j->map.kv_len,
    };
    tilec_kernel *k = NULL;
    tilec_argument *values;
    size_t nvalues;
    tilec_status s = tc_mask_blocks_new(j->cx, &from, &k, &values, &nvalues);
    if (s != TILEC_OK)
        return report_compile(j->cx, s);
    int code = launch(j, k, values, nvalues, args, n);
    tilec_kernel_free(k);
    return code;
}

static int out_of_memory(void)
{
    report("out of memory");
    return EXIT_MACHINE;
}

/* Of the batch and head that are shown, in the last place. */
static int32_t *shown(const job *j, const owned_tensor *t)
{
    int64_t of_one = 1;
    for (int i = 2; i < t->dl.ndim; i++)
        of_one *= t->dl.shape[i];
    int64_t at = (int64_t)(j->batch + 1) * (j->head + 1) - 1;
    return (int32_t *)t->dl.data + at * of_one;
}

static int find_kinds(job *j)
{
    mask_map *m = &j->map;
    DLDataType i32 = {kDLInt, 32, 1};
    int64_t shape[] = {j->batch + 1, j->head + 1, m->rows, m->columns};
    int64_t n = (int64_t)m->rows * m->columns;
    m->kinds = calloc((size_t)n, 1);
    if (!tensor_new(&j->kinds, i32, 4, shape) || !m->kinds)
        return out_of_memory();
    tilec_argument args[MOST_ARGUMENTS] = {tilec_tensor("kinds", &j->kinds.dl)};
    int code = run_kernel(j, "block_kinds", false, args, 1);
    for (int64_t i = 0; !code && i < n; i++)
        m->kinds[i] = (unsigned char)shown(j, &j->kinds)[i];
    return code;
}

/* ---- What the compiler says ---- */

/* ", 24 of them empty" */
static const char *empties_of(const job *j, int64_t visited)
{
    static char text[48];
    const mask_map *m = &j->map;
    for (int64_t i = 0; i < (int64_t)m->rows * m->columns; i++)
        visited -= m->kinds[i] != MASK_EMPTY;
    snprintf(text, sizeof text, ", %lld of them empty", (long long)visited);
    return visited > 0 ? text : "";
}

/* The way that attention goes over the blocks of one side, in a line. */
static int find_way(job *j, bool by_key)
{
    DLDataType i32 = {kDLInt, 32, 1};
    int rows = by_key ? j->map.columns : j->map.rows;
    int64_t shape[] = {j->batch + 1, j->head + 1, rows}, visited = 0;
    free(j->visits.dl.data);
    j->visits.dl.data = NULL;
    if (!tensor_new(&j->visits, i32, 3, shape))
        return out_of_memory();
    tilec_argument args[MOST_ARGUMENTS] = {
        tilec_tensor("visits", &j->visits.dl)};
    int code = run_kernel(j, "block_visits", by_key, args, 1);
    if (code)
        return code;
    for (int i = 0; i < rows; i++)
        visited += shown(j, &j->visits)[i];
    const tilec_diagnostic *way = NULL, *unknown = NULL, *jump = NULL;
    for (const tilec_diagnostic *d = tilec_diagnostics(j->cx); d; d = d->next) {
        if (!d->pass)
            continue;
        if (strcmp(d->pass, "skip-gaps") == 0)
            jump = d;
        if (strcmp(d->pass, "bound-loops") != 0)
            continue;
        if (strstr(d->message, "is not known"))
            unknown = unknown ? unknown : d;
        else
            way = d;
    }
    tc_text *to = &j->ways[by_key];
    *to = (tc_text){.arena = &j->texts->arena};
    tc_text_printf(to, "over %s: ", by_key ? "queries" : "keys");
    if (unknown)
        tc_text_printf(to, "list: %s (%s:%u:%u)", unknown->message,
                       unknown->file ? unknown->file : "", unknown->line,
                       unknown->column);
    else
        tc_text_printf(to, "ranges, %lld blocks visited%s: %s%s%s",
                       (long long)visited, empties_of(j, visited),
                       way ? way->message : "the mask hides nothing",
                       jump ? "; " : "", jump ? jump->message : "");
    j->map.ways[by_key] = to->data;
    return EXIT_DONE;
}

/* "its own position": a key that each query surely sees; "" if unknown. */
static const char *sure_key(const job *j)
{
    static char key[64];
    *key = 0;
    for (const tilec_diagnostic *d = tilec_diagnostics(j->cx); d; d = d->next)
        sscanf(d->message, "every query sees a key (%63[^)])", key);
    return key;
}

/* How many pairs are seen, and whether each query sees a key: attention gives
 * zeros where one does not. */
static int put_queries(job *j)
{
    const mask_map *m = &j->map;
    DLDataType i32 = {kDLInt, 32, 1};
    int64_t shape[] = {j->batch + 1, j->head + 1, m->q_len}, sum = 0;
    if (!tensor_new(&j->seen, i32, 3, shape))
        return out_of_memory();
    tilec_argument args[MOST_ARGUMENTS] = {tilec_tensor("seen", &j->seen.dl)};
    int code = run_kernel(j, "keys_seen", false, args, 1);
    if (code)
        return code;
    int blind = 0, first = 0;
    for (int q = m->q_len - 1; q >= 0; q--) {
        int n = shown(j, &j->seen)[q];
        sum += n;
        blind += n == 0;
        first = n ? first : q;
    }
    printf("%.1f %% of all pairs are seen; ",
           100.0 * (double)sum / ((double)m->q_len * m->kv_len));
    if (blind)
        printf("%d queries see no key, the first is %d\n", blind, first);
    else if (*sure_key(j))
        printf("every query surely sees a key: %s\n", sure_key(j));
    else
        printf("every query sees a key\n");
    return EXIT_DONE;
}

static void put_summary(const mask_map *m)
{
    long long n[MASK_KINDS] = {0};
    for (long long i = 0; i < (long long)m->rows * m->columns; i++)
        n[m->kinds[i]]++;
    long long all = n[0] + n[1] + n[2];
    printf("%s: %d queries, %d keys, blocks of %dx%d\n", m->expression,
           m->q_len, m->kv_len, m->q_side, m->k_side);
    printf("%lld blocks: %lld full, %lld partial, %lld empty (%.1f %%)\n", all,
           n[MASK_FULL], n[MASK_PARTIAL], n[MASK_EMPTY],
           100.0 * (double)n[MASK_EMPTY] / (double)all);
}

/* A character for so many blocks each way: what all of them are, else `+`. */
static void put_map(const mask_map *m)
{
    int longer = m->rows > m->columns ? m->rows : m->columns;
    int by = (longer - 1) / MOST_ACROSS + 1;
    if (by > 1)
        printf("\na character for %dx%d blocks", by, by);
    putchar('\n');
    for (int r = 0; r < m->rows; r += by) {
        for (int c = 0; c < m->columns; c += by) {
            unsigned found = 0;
            for (int i = r; i < r + by && i < m->rows; i++)
                for (int j = c; j < c + by && j < m->columns; j++)
                    found |= 1u << m->kinds[(int64_t)i * m->columns + j];
            putchar(found == 1u << MASK_FULL    ? '#'
                    : found == 1u << MASK_EMPTY ? '.'
                                                : '+');
        }
        putchar('\n');
    }
}

static int write_picture(const job *j, const char *path)
{
    tc_text out = {.arena = &j->texts->arena};
    mask_svg(&out, &j->map);
    return write_text(path, out.data);
}

/* Which pairs are seen, if they are few enough to show. */
static int find_pairs(job *j)
{
    DLDataType i32 = {kDLInt, 32, 1};
    const mask_map *m = &j->map;
    int64_t shape[] = {j->batch + 1, j->head + 1, m->q_len, m->kv_len};
    if ((double)shape[0] * shape[1] * shape[2] * shape[3] > MOST_PAIRS)
        return EXIT_DONE;
    if (!tensor_new(&j->pairs, i32, 4, shape))
        return out_of_memory();
    tilec_argument args[MOST_ARGUMENTS] = {tilec_tensor("pairs", &j->pairs.dl)};
    int code = run_kernel(j, "pairs_seen", false, args, 1);
    j->map.pairs = code ? NULL : shown(j, &j->pairs);
    return code;
}

static int write_json(job *j, const char *path)
{
    tc_text out = {.arena = &j->texts->arena};
    int code = find_way(j, false);
    code = code ? code : find_way(j, true);
    code = code ? code : find_pairs(j);
    if (code)
        return code;
    mask_json(&out, &j->map);
    return write_text(path, out.data);
}

static int put_text(job *j)
{
    put_summary(&j->map);
    int code = put_queries(j);
    for (int by_key = 0; !code && by_key < 2; by_key++) {
        code = find_way(j, by_key);
        if (!code)
            puts(j->map.ways[by_key]);
    }
    if (!code)
        put_map(&j->map);
    return code;
}

static int show(job *j)
{
    int code = get_options(j);
    code = code ? code : find_kinds(j);
    if (code)
        return code;
    const char *path = tool_value(j->args, "-o");
    if (tool_has(j->args, "--json"))
        return write_json(j, path);
    return path ? write_picture(j, path) : put_text(j);
}

int info_mask(const tool_args *args)
{
    job *j = calloc(1, sizeof *j);
    tilec_context_options o = TILEC_INIT(tilec_context_options);
    o.remarks = 1;
    if (!j || tilec_context_new(&o, &j->cx)) {
        free(j);
        return out_of_memory();
    }
    j->texts = tc_context_new();
    j->args = args;
    j->in.command = args->command;
    int code = show(j);
    inputs_free(&j->in);
    free(j->kinds.dl.data);
    free(j->visits.dl.data);
    free(j->seen.dl.data);
    free(j->pairs.dl.data);
    free(j->map.kinds);
    tc_context_free(j->texts);
    tilec_context_free(j->cx);
    free(j);
    return code;
}
