/* SPDX-License-Identifier: Apache-2.0
 *
 * Syntax of vim (and neovim). Words are keywords, which win over patterns; but
 * attributes, which are so only before `(` or `=`. In the sides of a tile a
 * word ends at `x`: `tile<` begins a region with patterns of its own.
 */
#include "tools/editors/syntax.h"

#include <stdio.h>

static const struct {
    const char *name, *link;
} groups[SYNTAX_GROUPS] = {
    [SYNTAX_KEYWORD] = {"tilecKeyword", "Statement"},
    [SYNTAX_CLAUSE] = {"tilecClause", "StorageClass"},
    [SYNTAX_TYPE] = {"tilecType", "Type"},
    [SYNTAX_CONSTANT] = {"tilecConstant", "Constant"},
    [SYNTAX_OP] = {"tilecOp", "Function"},
    [SYNTAX_MACHINE_OP] = {"tilecMachineOp", "Special"},
    [SYNTAX_ATTRIBUTE] = {"tilecAttribute", "Label"},
    [SYNTAX_VALUE] = {"tilecValue", "Constant"},
};

static void put_words(const syntax_words *words, syntax_group group,
                      const char *between)
{
    const char *before = "";
    for (size_t i = 0; i < words->n; i++)
        if (words->all[i].group == group) {
            printf("%s%.*s", before, (int)words->all[i].n, words->all[i].text);
            before = between;
        }
}

static void put_keywords(const syntax_words *words, syntax_group group)
{
    printf("syn keyword %s ", groups[group].name);
    put_words(words, group, " ");
    puts("");
}

/* What ends the words of sides, and what may stand between them. */
static void put_sides(const syntax_words *words)
{
    puts("syn region tilecShape oneline transparent "
         "start=/\\%(\\<\\%(tile\\|block_ptr\\|smem\\)\\)\\@<=</ end=/>/ "
         "contains=tilecSide,tilecBy,tilecSideType,tilecInner,tilecSize,"
         "tilecLayout,tilecComment,tilecSideParameter");
    puts("syn region tilecInner contained oneline transparent "
         "start=/\\%(_\\@1<!ptr\\|tensor\\)\\@<=</ end=/>/ "
         "contains=TOP,tilecShape");
    puts("syn region tilecSize contained containedin=tilecSize oneline "
         "transparent start=/(/ end=/)/ contains=TOP,tilecShape");
    puts("syn match tilecSideParameter /\\a[A-Za-wyz0-9_]*/ contained");
    puts("syn match tilecSide /\\d\\+/ contained");
    puts("syn match tilecBy /x/ contained");
    printf("syn match tilecSideType /\\%%(");
    put_words(words, SYNTAX_TYPE, "\\|");
    puts("\\)/ contained");
}

static void put_patterns(const syntax_words *words)
{
    printf("syn match tilecAttribute /\\<\\%%(");
    put_words(words, SYNTAX_ATTRIBUTE, "\\|");
    puts("\\)\\>\\ze\\s*\\%((\\|==\\@!\\)/");
    puts("syn match tilecParameter /\\<\\u\\w*\\>/\n"
         "syn match tilecNumber /\\<\\d\\+\\%(\\.\\d\\+\\)\\=\\%([eE][-+]\\=\\d"
         "\\+\\)\\=\\>/\n"
         "syn match tilecNumber /\\<\\d\\+\\%(x\\d\\+\\)\\+\\>/\n"
         "syn match tilecNumber /\\<0[xX]\\x\\+\\>/\n"
         "syn match tilecValueName /%[A-Za-z0-9_.]\\+/\n"
         "syn match tilecFunction /@[A-Za-z0-9_.]\\+/\n"
         "syn match tilecLayout /#\\h\\w*/\n"
         "syn match tilecOperator "
         "/\\<x\\>\\|->\\|+:\\|[-+*\\/=!<>]=\\=\\|[<>]\\{2,3}\\|[&|^~?]/\n"
         "syn match tilecEscape /\\\\\\%(x\\x\\x\\|[nrt\\\\\"]\\)/ contained\n"
         "syn region tilecString start=/\"/ skip=/\\\\./ end=/\"/ oneline "
         "contains=tilecEscape\n"
         "syn match tilecComment /\\/\\/.*$/ contains=tilecTodo,@Spell\n"
         "syn keyword tilecTodo contained TODO FIXME");
    put_sides(words);
}

static void put_links(void)
{
    static const char *const links[][2] = {
        {"tilecComment", "Comment"},    {"tilecTodo", "Todo"},
        {"tilecString", "String"},      {"tilecEscape", "SpecialChar"},
        {"tilecNumber", "Number"},      {"tilecSide", "Number"},
        {"tilecSideType", "Type"},      {"tilecBy", "Operator"},
        {"tilecOperator", "Operator"},  {"tilecValueName", "Identifier"},
        {"tilecFunction", "Function"},  {"tilecLayout", "PreProc"},
        {"tilecParameter", "Constant"}, {"tilecSideParameter", "Constant"},
    };
    for (int i = 0; i < SYNTAX_GROUPS; i++)
        printf("hi def link %s %s\n", groups[i].name, groups[i].link);
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        printf("hi def link %s %s\n", links[i][0], links[i][1]);
}

void syntax_put_vim(void)
{
    static syntax_words words;
    syntax_collect(&words);
    puts("\" Vim syntax of the tile language; made by `tilec info vim`\n"
         "if exists('b:current_syntax')\n"
         "  finish\n"
         "endif\n"
         "syn case match\n"
         "syn iskeyword @,48-57,_");
    put_patterns(&words);
    for (int group = 0; group < SYNTAX_GROUPS; group++)
        if (group != SYNTAX_ATTRIBUTE)
            put_keywords(&words, (syntax_group)group);
    put_links();
    puts("let b:current_syntax = 'tilec'");
}
