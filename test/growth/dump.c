#include "test/growth/texts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* dump: list; dump NAME: text */
int main(int argc, char **argv)
{
    if (argc < 2) {
        for (unsigned i = 0; i < growth_ncases; i++) {
            const struct growth_case *c = &growth_cases[i];
            printf("%s %s %d", c->name, c->kernel ? c->kernel : "-",
                   c->gpu_only);
            for (int j = 0; j < 8 && c->bindings[j]; j++)
                printf(" %s", c->bindings[j]);
            printf("\n");
        }
        return 0;
    }
    const struct growth_case *c = growth_find(argv[1]);
    if (!c)
        return 1;
    fputs(growth_text(c, argc > 2 ? atoi(argv[2]) : 0), stdout);
    return 0;
}
