/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion for bash, zsh and fish.
 */
#include "tools/shell/shell.h"

#include <stdlib.h>
#include <string.h>

typedef void put_fn(const tool_command *c, const tool_option *o);

static void each_option(const tool_command *c, put_fn *put)
{
    static const tool_option help = {"--help", NULL, "say what it takes"};
    for (const tool_option *o = c->options; o->name; o++)
        put(c, o);
    for (const tool_option *o = tool_options_everywhere; o->name; o++)
        put(c, o);
    put(c, &help);
}

/* ---- bash ---- */

static void put_bash_name(const tool_command *c, const tool_option *o)
{
    (void)c;
    printf(" %s%s", o->name, shell_is_optional(o) ? " " : "");
    if (shell_is_optional(o))
        printf("%s=all", o->name);
}

static void put_bash_value(const tool_command *c, const tool_option *o)
{
    char *words;
    shell_values kind = shell_values_of(o, &words);
    if (o->value) {
        printf("        '%s %s')", c->name, o->name);
        if (kind == SHELL_WORDS)
            printf(" values='%s'", words);
        else if (kind == SHELL_FILES)
            printf(" files=1");
        else if (kind == SHELL_FOLDERS)
            printf(" folders=1");
        puts(shell_is_optional(o) ? " optional=1 ;;" : " ;;");
    }
    free(words);
}

/* Without the package bash-completion. `=` breaks words: --emit = ptx. */
void shell_put_bash(void)
{
    puts("# bash completion for tilec; made by `tilec completion bash`\n"
         "_tilec()\n"
         "{\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} "
         "before=${COMP_WORDS[COMP_CWORD - 1]}\n"
         "    local command=${COMP_WORDS[1]} values= files= folders= optional= "
         "assigned=\n"
         "    local options= words= takes_files= i\n"
         "    COMPREPLY=()\n"
         "    if [[ $COMP_CWORD -eq 1 ]]; then");
    printf("        COMPREPLY=($(compgen -W 'help --help --version");
    for (int i = 0; tool_commands[i]; i++)
        printf(" %s", tool_commands[i]->name);
    puts("' -- \"$cur\"))\n"
         "        return\n"
         "    fi\n"
         "    if [[ $command == help ]]; then");
    printf("        COMPREPLY=($(compgen -W '");
    for (int i = 0; tool_commands[i]; i++)
        printf(" %s", tool_commands[i]->name);
    puts("' -- \"$cur\"))\n"
         "        return\n"
         "    fi\n"
         "    if [[ $cur == = ]]; then\n"
         "        cur= assigned=1\n"
         "    elif [[ $before == = ]]; then\n"
         "        before=${COMP_WORDS[COMP_CWORD - 2]} assigned=1\n"
         "    fi\n"
         "    case $command in");
    for (int i = 0; tool_commands[i]; i++) {
        const tool_command *c = tool_commands[i];
        char *words = shell_words_of(c);
        printf("        %s)\n            options='", c->name);
        each_option(c, put_bash_name);
        printf("'\n            words='%s'", words ? words : "");
        puts(shell_takes_files(c) ? " takes_files=1 ;;" : " ;;");
        free(words);
    }
    puts("        *) return ;;\n"
         "    esac\n"
         "    # An option takes no value after `--`.\n"
         "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
         "        [[ ${COMP_WORDS[i]} == -- ]] && before= options=\n"
         "    done\n"
         "    case \"$command $before\" in");
    for (int i = 0; tool_commands[i]; i++)
        each_option(tool_commands[i], put_bash_value);
    puts("        *) optional=1 ;;\n"
         "    esac\n"
         "    if [[ -z $optional || ($assigned && $values) ]]; then\n"
         "        if [[ $files ]]; then\n"
         "            compopt -o filenames 2>/dev/null\n"
         "            COMPREPLY=($(compgen -f -- \"$cur\"))\n"
         "        elif [[ $folders ]]; then\n"
         "            compopt -o filenames 2>/dev/null\n"
         "            COMPREPLY=($(compgen -d -- \"$cur\"))\n"
         "        else\n"
         "            COMPREPLY=($(compgen -W \"$values\" -- \"$cur\"))\n"
         "        fi\n"
         "    elif [[ $cur == -* ]]; then\n"
         "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
         "    else\n"
         "        compopt -o filenames 2>/dev/null\n"
         "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "        [[ $takes_files || $assigned ]] &&\n"
         "            COMPREPLY+=($(compgen -f -- \"$cur\"))\n"
         "    fi\n"
         "    return 0\n"
         "}\n"
         "complete -F _tilec tilec");
}

/* ---- zsh ---- */

/* In single quotes, in which brackets and colons mean something. */
static void put_quoted(const char *s, int n, const char *special)
{
    for (; n-- > 0; s++) {
        if (*s == '\'')
            fputs("'\\''", stdout);
        else
            printf(strchr(special, *s) ? "\\%c" : "%c", *s);
    }
}

static void put_zsh_option(const tool_command *c, const tool_option *o)
{
    (void)c;
    char *words;
    shell_values kind = shell_values_of(o, &words);
    bool is_long = strncmp(o->name, "--", 2) == 0;
    printf(" \\\n                '*%s%s[", o->name,
           !o->value              ? ""
           : shell_is_optional(o) ? "=-"
           : is_long              ? "="
                                  : "+");
    put_quoted(o->help, shell_line(o->help), "[]\\:");
    putchar(']');
    if (o->value) {
        fputs(shell_is_optional(o) ? "::" : ":", stdout);
        int dots = (int)strspn(o->value, "[=");
        put_quoted(o->value + dots, (int)strcspn(o->value + dots, "]"),
                   "[]\\:");
        putchar(':');
        if (kind == SHELL_WORDS)
            printf("(%s)", words);
        else if (kind != SHELL_NONE)
            fputs(kind == SHELL_FILES ? "_files" : "_files -/", stdout);
    }
    putchar('\'');
    free(words);
}

void shell_put_zsh(void)
{
    puts("#compdef tilec\n"
         "# zsh completion for tilec; made by `tilec completion zsh`\n"
         "_tilec() {\n"
         "    local context state line curcontext=\"$curcontext\"\n"
         "    _arguments -C '1:command:->command' '*::word:->word'\n"
         "    case $state in\n"
         "    command)\n"
         "        local -a commands=(");
    for (int i = 0; tool_commands[i]; i++) {
        const char *s = tool_commands[i]->summary;
        printf("            '%s:", tool_commands[i]->name);
        put_quoted(s, shell_line(s), ":\\");
        puts("'");
    }
    puts("        )\n"
         "        _describe command commands ;;\n"
         "    word)\n"
         "        case $line[1] in");
    for (int i = 0; tool_commands[i]; i++) {
        const tool_command *c = tool_commands[i];
        char *words = shell_words_of(c);
        printf("        %s)\n            _arguments", c->name);
        each_option(c, put_zsh_option);
        printf(" \\\n                '*:word:_alternative \"words:word:(%s)\"",
               words ? words : "");
        puts(shell_takes_files(c) ? " \"files:file:_files\"' ;;" : "' ;;");
        free(words);
    }
    puts("        esac ;;\n"
         "    esac\n"
         "}\n"
         "_tilec \"$@\"");
}

/* ---- fish ---- */

static void put_fish_option(const tool_command *c, const tool_option *o)
{
    char *words;
    shell_values kind = shell_values_of(o, &words);
    bool is_long = strncmp(o->name, "--", 2) == 0;
    printf("complete -c tilec -n '__fish_seen_subcommand_from %s' -%c %s",
           c->name, is_long ? 'l' : 's', o->name + 1 + is_long);
    if (kind == SHELL_WORDS)
        printf(" -%s -a '%s'", shell_is_optional(o) ? "f" : "x", words);
    else if (kind == SHELL_FOLDERS)
        printf(" -x -a '(__fish_complete_directories)'");
    else if (o->value && !shell_is_optional(o))
        printf(kind == SHELL_FILES ? " -r -F" : " -x");
    printf(" -d '");
    for (int n = shell_line(o->help), i = 0; i < n; i++)
        printf(o->help[i] == '\'' || o->help[i] == '\\' ? "\\%c" : "%c",
               o->help[i]);
    puts("'");
    free(words);
}

void shell_put_fish(void)
{
    puts("# fish completion for tilec; made by `tilec completion fish`\n"
         "complete -c tilec -n __fish_use_subcommand -f -l version -d "
         "'Print the version'\n"
         "complete -c tilec -n __fish_use_subcommand -f -a help -d "
         "'Say what a command takes'");
    for (int i = 0; tool_commands[i]; i++) {
        const tool_command *c = tool_commands[i];
        char *words = shell_words_of(c);
        printf(
            "complete -c tilec -n __fish_use_subcommand -f -a %s -d '%.*s'\n",
            c->name, shell_line(c->summary), c->summary);
        if (words && *words)
            printf("complete -c tilec -n '__fish_seen_subcommand_from %s' %s"
                   "-a '%s'\n",
                   c->name, shell_takes_files(c) ? "" : "-f ", words);
        each_option(c, put_fish_option);
        free(words);
    }
}
