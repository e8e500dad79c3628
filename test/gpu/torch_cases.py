# SPDX-License-Identifier: Apache-2.0
"""The frame of the torch tests: the path of tilec, options, cases by name,
refusals, what passed. Exit status 77 where torch is missing."""
import argparse
import collections
import pathlib
import sys
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] /
                       "lib" / "python"))
try:
    import torch
except ImportError:
    print("no torch here")
    sys.exit(77)


def parser(doc):
    p = argparse.ArgumentParser(description=doc.splitlines()[0])
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    p.add_argument("--only", default="", help="what has this in its name")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--part", type=share, default=(0, 1), metavar="I/N",
                   help="each N-th case only, for several processes")
    return p


def share(text):
    """"2/4" as (1, 4)."""
    i, _, n = text.partition("/")
    if not (i.isdigit() and n.isdigit() and 1 <= int(i) <= int(n)):
        raise argparse.ArgumentTypeError("expected I/N, 1 to N")
    return int(i) - 1, int(n)


def parse(p):
    """Exit status 77 where there is no such device."""
    args = p.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device here")
        sys.exit(77)
    return args


def refused(kind, text, f):
    """The exception of f(), which must be of that kind and say the text."""
    try:
        f()
    except kind as e:
        assert text in str(e), "%r, expected %r" % (str(e), text)
        return e
    raise AssertionError("not refused: expected %r" % text)


def run(tasks, args):
    """Pairs of a name and a function, which returns what is to be said, or
    "skipped", or raises; --only and --part choose some. Exits: 1 where one
    failed, or none passed."""
    counts, failures = collections.Counter(), []
    first, step = args.part
    chosen = [(name, f) for name, f in tasks if args.only in name]
    for name, f in chosen[first::step]:
        try:
            said = f() or "ok"
            counts["skipped" if said == "skipped" else "passed"] += 1
        except Exception as e:
            counts["failed"] += 1
            said = "FAILED: %s" % (str(e) or type(e).__name__)
            failures.append("%s\n%s" % (name, traceback.format_exc()[-1500:]))
        print("%-52s %s" % (name, said), flush=True)
    print("".join(failures), end="")
    print("%d passed, %d failed, %d skipped" % (
        counts["passed"], counts["failed"], counts["skipped"]))
    sys.exit(1 if counts["failed"] or not counts["passed"] else 0)
