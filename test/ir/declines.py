# SPDX-License-Identifier: Apache-2.0
#
# A pass declines each edit of a program that it changes.
#
#   declines.py TILEC --pass NAME [--before PASSES] [--after PASSES] [OPTION..]
#               FILE
#
# The pass must change the program of FILE. The comments of FILE hold cases:
#
#   // CASE: two stores in a step
#   //   - the old text
#   //   + the new text; \n starts a line
#   //   @ --target sm_80
#   //   = a part of the remark
#
# Each case makes its edits (all occurrences; the old text must occur), and adds
# its options. The pass must then leave the program as it was, and say what `=`
# expects; without `=` it must say nothing. --before and --after: passes that
# run in any case, so that the pass has its usual input, and so that ops that
# it leaves unused are gone. Exit status 1: a case failed, with the reason.
import re
import subprocess
import sys

CASE = re.compile(r"\s*// CASE: (.*)")
LINE = re.compile(r"\s*//   ([-+@=]) ?(.*)")


def read(path):
    """The program without comment lines, and its cases."""
    program, cases = [], []
    for line in open(path, encoding="utf-8"):
        case, part = CASE.match(line), LINE.match(line)
        if case:
            cases.append({"name": case[1], "parts": []})
        elif part and cases:
            cases[-1]["parts"].append((part[1], part[2].rstrip("\n")))
        elif not line.lstrip().startswith("//"):
            program.append(line)
    return "".join(program), cases


def compile_text(tilec, text, passes, options):
    """What is left of the program, and its remarks."""
    run = subprocess.run(
        [tilec, "opt", "--round-trip", "--remarks=all", "-p", passes,
         *options, "-"], input=text, capture_output=True, text=True)
    if run.returncode:
        raise Wrong("does not compile with %s:\n%s" % (passes, run.stderr))
    return run.stdout, run.stderr


class Wrong(Exception):
    pass


class Pass:
    def __init__(self, args):
        self.tilec, self.path, self.options = args[0], args[-1], []
        flags = {"--pass": "", "--before": "", "--after": ""}
        rest = iter(args[1:-1])
        for word in rest:
            if word in flags:
                flags[word] = next(rest)
            else:
                self.options.append(word)
        self.name, before, after = (flags[f] for f in
                                    ("--pass", "--before", "--after"))
        self.without = ",".join(p for p in (before, after) if p)
        self.pipeline = ",".join(p for p in (before, self.name, after) if p)

    def run(self, text, more):
        """Whether the pass changes the text; what it says."""
        options = self.options + more
        old, _ = compile_text(self.tilec, text, self.without, options)
        new, log = compile_text(self.tilec, text, self.pipeline, options)
        remarks = [l for l in log.splitlines() if "[%s]" % self.name in l]
        return old != new, remarks


def edited(program, case):
    parts, options, expected = case["parts"], [], []
    for i, (kind, text) in enumerate(parts):
        if kind == "@":
            options += text.split()
        elif kind == "=":
            expected.append(text)
        elif kind == "-":
            if text not in program:
                raise Wrong("`%s` does not occur" % text)
            if i + 1 == len(parts) or parts[i + 1][0] != "+":
                raise Wrong("`%s` has no new text" % text)
            program = program.replace(text,
                                      parts[i + 1][1].replace("\\n", "\n"))
    return program, options, expected


def check(p, program, case):
    text, options, expected = edited(program, case)
    if not case["parts"]:
        raise Wrong("no edit")
    changed, remarks = p.run(text, options)
    if changed:
        raise Wrong("the pass changes the program: %s" % remarks)
    if len(remarks) != len(expected) or any(
            e not in r for e, r in zip(expected, remarks)):
        raise Wrong("remarks are %s, expected %s" % (remarks, expected))


def main():
    p = Pass(sys.argv[1:])
    program, cases = read(p.path)
    failed = 0
    if not cases:
        raise Wrong("%s has no cases" % p.path)
    if not p.run(program, [])[0]:
        raise Wrong("the pass declines the program without edits")
    for case in cases:
        try:
            check(p, program, case)
        except Wrong as why:
            print("%s: %s" % (case["name"], why))
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
