/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of tuned configurations (lib/files/config.h has the format): read, an
 * entry added or replaced, published whole.
 */
#ifndef TOOL_CONFIG_FILE_H
#define TOOL_CONFIG_FILE_H

#include "lib/files/config.h"
#include "tools/measure/space.h"

/* The cases that an entry is for; NULL or 0 leaves a field open. */
typedef struct config_key {
    const char *kernel, *target, *dtype, *mask, *score;
    int64_t d, dv, v_contig_dim, length;
    /* Of the present configuration: what the variant leaves open was measured
     * like that, and the entry is to say so. */
    tc_config present;
} config_key;

typedef struct config_file {
    const char *path;
    struct cJSON *root;
} config_file;

/* A file that is not there is an empty one. EXIT_INPUT: it is damaged, or of
 * another kernel; said. config_file_free in any case. */
int config_file_read(config_file *f, const char *path, const char *kernel);
void config_file_free(config_file *f);
/* In the place of the entry with just that key, else after the last. The
 * variant's values are whole numbers. False: no memory. */
bool config_file_put(config_file *f, const config_key *key, const space *s,
                     const variant *v);
/* The text of one entry, for malloc's free. */
char *config_entry_text(const config_key *key, const space *s,
                        const variant *v);
/* To a file next to it, then renamed. The exit code. */
int config_file_write(const config_file *f);

#endif
