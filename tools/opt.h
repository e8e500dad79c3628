/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_OPT_H
#define TOOL_OPT_H

/* `tilec opt ...`; argv[0] is "opt". Returns the exit code. */
int tool_opt(int argc, char **argv);

#endif
