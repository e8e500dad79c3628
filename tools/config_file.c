/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/config_file.h"

#include "lib/files/json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Reading ---- */

static const char *text_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

/* The error in the file; NULL: none. */
static const char *fault(const cJSON *root, const char *kernel)
{
    const cJSON *entry, *list = NULL;
    const char *name = text_of(root, "kernel");
    if (!cJSON_IsObject(root))
        return "it is no JSON object";
    if (!name || strcmp(name, kernel) != 0)
        return "it is not of this kernel";
    list = cJSON_GetObjectItemCaseSensitive(root, "configs");
    if (!cJSON_IsArray(list))
        return "it has no list of `configs`";
    cJSON_ArrayForEach(entry, list)
    {
        if (!cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(entry, "use")))
            return "an entry has no `use`";
    }
    return NULL;
}

static bool begin(config_file *f, const char *kernel)
{
    f->root = cJSON_CreateObject();
    return f->root && cJSON_AddStringToObject(f->root, "kernel", kernel) &&
           cJSON_AddArrayToObject(f->root, "configs");
}

int config_file_read(config_file *f, const char *path, const char *kernel)
{
    *f = (config_file){.path = path};
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return begin(f, kernel) ? EXIT_DONE : EXIT_MACHINE;
    size_t length;
    char *text = read_text(path, &length);
    if (!text)
        return EXIT_INPUT;
    bool no_memory;
    const char *end;
    f->root = tc_json_parse(text, length, &end, &no_memory);
    const char *why = !f->root || end[strspn(end, " \t\r\n")]
                          ? "it is no JSON"
                          : fault(f->root, kernel);
    free(text);
    if (no_memory) {
        report("%s: out of memory", path);
        return EXIT_MACHINE;
    }
    if (!why)
        return EXIT_DONE;
    report("%s: %s (@%s); it is left as it is", path, why, kernel);
    return EXIT_INPUT;
}

void config_file_free(config_file *f)
{
    cJSON_Delete(f->root);
    f->root = NULL;
}

/* ---- Entries ---- */

static bool add_text(cJSON *to, const char *name, const char *value)
{
    return !value || cJSON_AddStringToObject(to, name, value);
}

static bool add_number(cJSON *to, const char *name, int64_t value)
{
    return !value || cJSON_AddNumberToObject(to, name, (double)value);
}

static bool add_unless(cJSON *use, const char *name, int64_t value)
{
    return cJSON_GetObjectItemCaseSensitive(use, name) ||
           add_number(use, name, value);
}

static bool add_present(cJSON *use, const tc_config *c)
{
    bool ok = true;
    for (unsigned i = 0; ok && i < c->nbindings; i++) {
        const char *name = c->bindings[i].name, *value = c->bindings[i].value;
        ok = !strchr(name, '.') ? add_unless(use, name, atoll(value))
                                : cJSON_GetObjectItemCaseSensitive(use, name) ||
                                      add_text(use, name, value);
    }
    return ok && add_unless(use, "warps", c->warps) &&
           add_unless(use, "stages", c->stages) &&
           (!c->ptxas_level || add_unless(use, "ptxas", c->ptxas_level)) &&
           (!c->tiles || cJSON_GetObjectItemCaseSensitive(use, "tiles") ||
            add_text(use, "tiles", tc_tiles_word(c->tiles)));
}

static cJSON *entry_of(const config_key *k, const space *s, const variant *v)
{
    cJSON *entry = cJSON_CreateObject();
    bool ok = entry && add_text(entry, "target", k->target) &&
              add_text(entry, "dtype", k->dtype) &&
              add_number(entry, "d", k->d) && add_number(entry, "dv", k->dv) &&
              add_number(entry, "v_contig_dim", k->v_contig_dim) &&
              add_text(entry, "mask", k->mask) &&
              add_text(entry, "score", k->score) &&
              add_number(entry, "length", k->length);
    cJSON *use = ok ? cJSON_AddObjectToObject(entry, "use") : NULL;
    ok = use != NULL;
    for (unsigned i = 0; ok && i < s->naxes; i++) {
        const char *name = s->axes[i].name, *value = v->values[i];
        ok = strcmp(name, "tiles") == 0 || strchr(name, '.')
                 ? add_text(use, name, value)
                 : cJSON_AddNumberToObject(use, name, atof(value)) != NULL;
    }
    if (ok && add_present(use, &k->present))
        return entry;
    cJSON_Delete(entry);
    return NULL;
}

/* The same in all but what it says to use. */
static bool same_key(const cJSON *a, const cJSON *b)
{
    static const char *const names[] = {"target", "dtype",        "d",
                                        "dv",     "v_contig_dim", "mask",
                                        "score",  "dropout",      "length"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const cJSON *x = cJSON_GetObjectItemCaseSensitive(a, names[i]);
        const cJSON *y = cJSON_GetObjectItemCaseSensitive(b, names[i]);
        if ((x || y) && !cJSON_Compare(x, y, 1))
            return false;
    }
    return true;
}

bool config_file_put(config_file *f, const config_key *key, const space *s,
                     const variant *v)
{
    cJSON *list = cJSON_GetObjectItemCaseSensitive(f->root, "configs");
    cJSON *entry = entry_of(key, s, v);
    if (!entry)
        return false;
    for (int i = 0; i < cJSON_GetArraySize(list); i++)
        if (same_key(cJSON_GetArrayItem(list, i), entry))
            return cJSON_ReplaceItemInArray(list, i, entry);
    return cJSON_AddItemToArray(list, entry);
}

/* ---- Text: an entry a line ---- */

static void write_item(FILE *to, const cJSON *item);

static void put_members(FILE *to, const cJSON *item, const char *between)
{
    for (const cJSON *i = item->child; i; i = i->next) {
        if (i->string)
            fprintf(to, "\"%s\": ", i->string);
        write_item(to, i);
        if (i->next)
            fputs(between, to);
    }
}

static void write_item(FILE *to, const cJSON *item)
{
    if (cJSON_IsObject(item) || cJSON_IsArray(item)) {
        fputc(cJSON_IsObject(item) ? '{' : '[', to);
        put_members(to, item, ", ");
        fputc(cJSON_IsObject(item) ? '}' : ']', to);
        return;
    }
    char *text = cJSON_PrintUnformatted(item);
    fputs(text ? text : "null", to);
    cJSON_free(text);
}

static void put_file(FILE *to, const cJSON *root)
{
    fputs("{\n", to);
    for (const cJSON *i = root->child; i; i = i->next) {
        fprintf(to, "  \"%s\": ", i->string);
        if (cJSON_IsArray(i) && cJSON_IsObject(i->child)) {
            fputs("[\n    ", to);
            put_members(to, i, ",\n    ");
            fputs("\n  ]", to);
        } else {
            write_item(to, i);
        }
        fputs(i->next ? ",\n" : "\n", to);
    }
    fputs("}\n", to);
}

char *config_entry_text(const config_key *key, const space *s, const variant *v)
{
    char *text = NULL;
    size_t size;
    cJSON *entry = entry_of(key, s, v);
    FILE *to = entry ? open_memstream(&text, &size) : NULL;
    if (to) {
        write_item(to, entry);
        fclose(to);
    }
    cJSON_Delete(entry);
    return text;
}

int config_file_write(const config_file *f)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    int code = EXIT_MACHINE;
    if (to) {
        put_file(to, f->root);
        code = fclose(to) == 0 ? write_data(f->path, text, size) : EXIT_MACHINE;
    }
    free(text);
    return code;
}
