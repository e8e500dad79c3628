/* SPDX-License-Identifier: Apache-2.0
 *
 * A TextMate grammar, as VS Code and others read it. At each place the first
 * pattern of the list that matches wins. In the sides of a tile a word ends at
 * `x`: what begins at `tile<` has patterns of its own.
 */
#include "tools/editors/syntax.h"

#include <cjson/cJSON.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const scopes[SYNTAX_GROUPS] = {
    [SYNTAX_KEYWORD] = "keyword.control.tilec",
    [SYNTAX_CLAUSE] = "storage.modifier.tilec",
    [SYNTAX_TYPE] = "storage.type.tilec",
    [SYNTAX_CONSTANT] = "constant.language.tilec",
    [SYNTAX_OP] = "support.function.tilec",
    [SYNTAX_MACHINE_OP] = "support.function.machine.tilec",
    [SYNTAX_ATTRIBUTE] = "entity.other.attribute-name.tilec",
    [SYNTAX_VALUE] = "constant.language.value.tilec",
};

/* ---- Patterns ---- */

static cJSON *add_match(cJSON *list, const char *scope, const char *match)
{
    cJSON *pattern = cJSON_CreateObject();
    cJSON_AddStringToObject(pattern, "name", scope);
    cJSON_AddStringToObject(pattern, "match", match);
    cJSON_AddItemToArray(list, pattern);
    return pattern;
}

static void add_include(cJSON *list, const char *name)
{
    cJSON *pattern = cJSON_CreateObject();
    cJSON_AddStringToObject(pattern, "include", name);
    cJSON_AddItemToArray(list, pattern);
}

/* begin .. end; its patterns. */
static cJSON *add_region(cJSON *list, const char *begin, const char *end)
{
    cJSON *region = cJSON_CreateObject();
    cJSON_AddStringToObject(region, "begin", begin);
    cJSON_AddStringToObject(region, "end", end);
    cJSON_AddItemToArray(list, region);
    return cJSON_AddArrayToObject(region, "patterns");
}

/* Group 1 of the pattern that begins the last region of the list. */
static void name_begin(cJSON *list, const char *scope)
{
    cJSON *region = cJSON_GetArrayItem(list, cJSON_GetArraySize(list) - 1);
    cJSON *captures = cJSON_AddObjectToObject(region, "beginCaptures");
    cJSON_AddStringToObject(cJSON_AddObjectToObject(captures, "1"), "name",
                            scope);
}

/* "BEFORE(?:a|b)AFTER" of the words of a group. */
static void add_words(cJSON *list, const syntax_words *words,
                      syntax_group group, const char *before, const char *after)
{
    char *match;
    size_t size;
    FILE *out = open_memstream(&match, &size);
    if (!out)
        return;
    fprintf(out, "%s(?:", before);
    const char *between = "";
    for (size_t i = 0; i < words->n; i++)
        if (words->all[i].group == group) {
            fprintf(out, "%s%.*s", between, (int)words->all[i].n,
                    words->all[i].text);
            between = "|";
        }
    fprintf(out, ")%s", after);
    if (fclose(out) == 0)
        add_match(list, scopes[group], match);
    free(match);
}

/* ---- The grammar ---- */

static cJSON *add_part(cJSON *repository, const char *name)
{
    return cJSON_AddArrayToObject(cJSON_AddObjectToObject(repository, name),
                                  "patterns");
}

static void add_text(cJSON *repository)
{
    cJSON *list = add_part(repository, "comment");
    add_match(list, "comment.line.double-slash.tilec", "//.*$");
    list = add_part(repository, "string");
    cJSON *inside = add_region(list, "\"", "\"|$");
    cJSON_AddStringToObject(cJSON_GetArrayItem(list, 0), "name",
                            "string.quoted.double.tilec");
    add_match(inside, "constant.character.escape.tilec",
              "\\\\(?:x[0-9a-fA-F]{2}|[nrt\\\\\"])");
}

/* %value, @function, #layout, parameters in capitals, numbers. */
static void add_names(cJSON *repository)
{
    cJSON *list = add_part(repository, "name");
    add_match(list, "variable.other.tilec", "%[A-Za-z0-9_.]+");
    add_match(list, "entity.name.function.tilec", "@[A-Za-z0-9_.]+");
    add_match(list, "entity.name.tag.layout.tilec", "#[A-Za-z_][A-Za-z0-9_]*");
    add_match(list, "variable.parameter.tilec", "\\b[A-Z][A-Za-z0-9_]*\\b");
    add_match(list, "constant.numeric.tilec",
              "\\b(?:0[xX][0-9a-fA-F]+|[0-9]+(?:x[0-9]+)+|[0-9]+(?:\\.[0-9]+)?"
              "(?:[eE][-+]?[0-9]+)?)\\b");
    add_match(list, "keyword.operator.tilec",
              "\\bx\\b|->|\\+:|>>>|<<|>>|[=!<>]=|[-+*/=<>&|^~!?]");
}

static void add_word_patterns(cJSON *repository, const syntax_words *words)
{
    cJSON *list = add_part(repository, "word");
    for (int group = 0; group < SYNTAX_GROUPS; group++)
        add_words(list, words, (syntax_group)group, "\\b",
                  group == SYNTAX_ATTRIBUTE ? "\\b(?=\\s*(?:\\(|=(?!=)))"
                                            : "\\b");
}

/* (N / (M + 1)): each bracket ends its own. */
static void add_sizes(cJSON *repository)
{
    cJSON *inside = add_region(add_part(repository, "size"), "\\(", "\\)|$");
    add_include(inside, "#size");
    add_include(inside, "$self");
}

/* tile<128x(2 * D)xptr<f32>, #blocked(1x4)> */
static void add_sides(cJSON *repository, const syntax_words *words)
{
    cJSON *list = add_part(repository, "shape");
    cJSON *inside = add_region(list, "\\b(tile|block_ptr|smem)<", ">|$");
    name_begin(list, scopes[SYNTAX_TYPE]);
    cJSON *outer = inside;
    cJSON *nested = add_region(outer, "(ptr|tensor)<", ">|$");
    name_begin(outer, scopes[SYNTAX_TYPE]);
    add_include(nested, "$self");
    add_include(outer, "#size");
    add_match(inside, "entity.name.tag.layout.tilec",
              "#[A-Za-z_][A-Za-z0-9_]*");
    add_include(inside, "#comment");
    add_words(inside, words, SYNTAX_TYPE, "", "\\b");
    add_match(inside, "constant.numeric.tilec", "[0-9]+");
    add_match(inside, "keyword.operator.tilec", "x");
    add_match(inside, "variable.parameter.tilec", "[A-Z_a-wyz][A-Za-wyz0-9_]*");
}

void syntax_put_textmate(void)
{
    static syntax_words words;
    syntax_collect(&words);
    cJSON *grammar = cJSON_CreateObject();
    cJSON_AddStringToObject(grammar, "name", "tilec");
    cJSON_AddStringToObject(grammar, "scopeName", "source.tilec");
    cJSON_AddStringToObject(grammar, "comment",
                            "made by `tilec info textmate`");
    cJSON *types = cJSON_AddArrayToObject(grammar, "fileTypes");
    cJSON_AddItemToArray(types, cJSON_CreateString("tile"));
    cJSON *list = cJSON_AddArrayToObject(grammar, "patterns");
    cJSON *repository = cJSON_AddObjectToObject(grammar, "repository");
    static const char *const parts[] = {"#comment", "#string", "#shape",
                                        "#word", "#name"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        add_include(list, parts[i]);
    add_text(repository);
    add_names(repository);
    add_word_patterns(repository, &words);
    add_sizes(repository);
    add_sides(repository, &words);
    char *text = cJSON_Print(grammar);
    if (text)
        puts(text);
    free(text);
    cJSON_Delete(grammar);
}
