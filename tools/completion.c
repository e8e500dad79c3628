/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec completion: scripts for shells.
 */
#include "tools/shell/shell.h"

#include <string.h>

static int completion_run(const tool_args *args)
{
    static const struct {
        const char *name;
        void (*put)(void);
    } shells[] = {{"bash", shell_put_bash},
                  {"zsh", shell_put_zsh},
                  {"fish", shell_put_fish}};
    for (int i = 0; args->nwords == 1 && i < 3; i++)
        if (strcmp(args->words[0], shells[i].name) == 0) {
            shells[i].put();
            return EXIT_DONE;
        }
    return tool_usage(args->command, "expected a shell: bash, zsh or fish");
}

static const tool_option options[] = {{0}};

const tool_command tool_completion = {
    "completion",
    "bash | zsh | fish",
    "Prints a script that completes command lines.",
    "For this session:\n"
    "  bash  eval \"$(tilec completion bash)\"\n"
    "  zsh   eval \"$(tilec completion zsh)\"; compdef _tilec tilec\n"
    "  fish  tilec completion fish | source\n"
    "`cmake --install` puts the scripts to where shells look for them.\n",
    options,
    completion_run};
