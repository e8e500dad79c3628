/* SPDX-License-Identifier: Apache-2.0
 *
 * A mask as JSON, for the inspector's page.
 */
#include "lib/inspect/writer.h"
#include "tools/draw/mask.h"

static void put_blocks(tc_json_writer *w, const mask_map *m)
{
    static const char kinds[MASK_KINDS] = {
        [MASK_EMPTY] = '.', [MASK_PARTIAL] = '+', [MASK_FULL] = '#'};
    tc_json_open(w, "blocks", '[');
    for (int r = 0; r < m->rows; r++) {
        tc_text row = {.arena = w->out->arena};
        for (int c = 0; c < m->columns; c++) {
            const char kind[] = {kinds[m->kinds[(int64_t)r * m->columns + c]],
                                 0};
            tc_text_add(&row, kind);
        }
        tc_json_string(w, NULL, row.data);
    }
    tc_json_close(w, ']');
}

/* For each query the runs of keys that it sees: from, to, from, to, .. */
static void put_runs(tc_json_writer *w, const int32_t *seen, int n)
{
    tc_json_open(w, NULL, '[');
    for (int k = 0; k < n; k++) {
        if (seen[k] && (k == 0 || !seen[k - 1]))
            tc_json_int(w, NULL, k);
        if (seen[k] && (k + 1 == n || !seen[k + 1]))
            tc_json_int(w, NULL, k + 1);
    }
    tc_json_close(w, ']');
}

void mask_json(tc_text *out, const mask_map *m)
{
    tc_json_writer w = {.out = out};
    tc_json_open(&w, NULL, '{');
    tc_json_string(&w, "schema", "tilec.mask");
    tc_json_int(&w, "version", 1);
    tc_json_string(&w, "expression", m->expression);
    tc_json_int(&w, "q_len", m->q_len);
    tc_json_int(&w, "kv_len", m->kv_len);
    tc_json_int(&w, "q_side", m->q_side);
    tc_json_int(&w, "k_side", m->k_side);
    tc_json_int(&w, "rows", m->rows);
    tc_json_int(&w, "columns", m->columns);
    put_blocks(&w, m);
    tc_json_open(&w, "ways", '[');
    for (int i = 0; i < 2; i++)
        if (m->ways[i])
            tc_json_string(&w, NULL, m->ways[i]);
    tc_json_close(&w, ']');
    if (m->pairs) {
        tc_json_open(&w, "elements", '[');
        for (int q = 0; q < m->q_len; q++)
            put_runs(&w, m->pairs + (int64_t)q * m->kv_len, m->kv_len);
        tc_json_close(&w, ']');
    }
    tc_json_close(&w, '}');
    tc_text_add(out, "\n");
}
