/* SPDX-License-Identifier: Apache-2.0
 *
 * Manual pages: tilec.1, tilec-run.1, ...
 */
#include "tools/shell/shell.h"

#include <ctype.h>
#include <string.h>

/* Text for roff: no line is a request, `-` is one that can be copied. */
static void put_text(const char *s, size_t n)
{
    bool begins = true;
    for (; n--; s++) {
        if (begins && (*s == '.' || *s == '\''))
            fputs("\\&", stdout);
        begins = *s == '\n';
        if (*s == '\\')
            fputs("\\e", stdout);
        else if (*s == '-')
            fputs("\\-", stdout);
        else
            putchar(*s);
    }
}

static void put_line(const char *s)
{
    put_text(s, strlen(s));
    puts("");
}

/* A text of lines; an empty one begins a paragraph. */
static void put_paragraphs(const char *s)
{
    while (*s) {
        size_t n = strcspn(s, "\n");
        if (n) {
            put_text(s, n);
            puts("");
        } else if (s[1]) {
            puts(".PP");
        }
        s += n + (s[n] == '\n');
    }
}

static void put_option(const tool_option *o)
{
    printf(".TP\n\\fB");
    put_text(o->name, strlen(o->name));
    printf("\\fR");
    if (o->value && o->value[0] == '[')
        printf("[=\\fI%.*s\\fR]", (int)strcspn(o->value + 2, "]"),
               o->value + 2);
    else if (o->value) {
        printf(" \\fI");
        put_text(o->value, strlen(o->value));
        printf("\\fR");
    }
    puts("");
    put_line(o->help);
}

static void put_head(const char *name, const char *summary)
{
    printf(".TH ");
    for (const char *s = name; *s; s++)
        putchar(toupper((unsigned char)*s));
    printf(" 1 \"\" \"tilec %s\" \"tilec\"\n.SH NAME\n", tilec_version());
    put_text(name, strlen(name));
    printf(" \\- ");
    size_t n = strcspn(summary, "\n");
    n -= n && summary[n - 1] == '.';
    putchar(tolower((unsigned char)*summary));
    put_text(summary + 1, n - 1);
    puts("");
}

static void put_end(void)
{
    puts(".SH EXIT STATUS\n.TP\n0\nDone.\n.TP\n1\nThe input is wrong: a "
         "program, a tensor, a file; or a check failed.\n.TP\n2\nThe command "
         "line is wrong.\n.TP\n3\nThe machine failed: out of memory, disk "
         "full.");
}

static void put_tilec(void)
{
    put_head("tilec", "Compiles kernels in tile IR and runs them.");
    puts(".SH SYNOPSIS\n.B tilec\n.I COMMAND\n.RI [ OPTIONS ]\n.br\n.B tilec "
         "help\n.I COMMAND\n.SH DESCRIPTION\n.B tilec\ncompiles kernels for "
         "attention, and other kernels that work on tiles, for NVIDIA GPUs\n"
         "and the CPU, and runs them.\n.SH COMMANDS");
    for (int i = 0; tool_commands[i]; i++) {
        printf(".TP\n\\fBtilec\\-%s\\fR(1)\n", tool_commands[i]->name);
        put_line(tool_commands[i]->summary);
    }
    put_end();
    puts(".SH ENVIRONMENT\n.TP\n.B TILEC_CACHE_DIR\nThe folder of compiled "
         "code; else \\fI$XDG_CACHE_HOME/tilec\\fR or "
         "\\fI\\(ti/.cache/tilec\\fR.\n.TP\n.B NO_COLOR\nMessages have no "
         "color.");
}

void shell_put_man(const tool_command *c)
{
    static const tool_option help = {"--help", NULL, "Say what it takes."};
    char name[64];
    if (!c) {
        put_tilec();
        return;
    }
    snprintf(name, sizeof name, "tilec-%s", c->name);
    put_head(name, c->summary);
    printf(".SH SYNOPSIS\n\\fBtilec %s\\fR ", c->name);
    put_line(c->words);
    puts(".SH DESCRIPTION");
    put_line(c->summary);
    put_paragraphs(c->help);
    puts(".SH OPTIONS");
    for (const tool_option *o = c->options; o->name; o++)
        put_option(o);
    for (const tool_option *o = tool_options_everywhere; o->name; o++)
        put_option(o);
    put_option(&help);
    put_end();
    puts(".SH SEE ALSO\n.BR tilec (1)");
}
