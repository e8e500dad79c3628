#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times this tree against a variant of it: its code without a pass, with
another constant of the machine model, or with another line.

    python3 test/bench/variant.py [--without PASS] [--set NAME=VALUE]
        [--replace FILE FROM TO] [--rounds 5] -- ARGS of `tilec bench`
    python3 test/bench/variant.py .. --peers NAME -- ARGS of peers.py

The variant is a copy of the tracked files in build/variants, built there once.
Both run in turns; the last line is `ratio R`, the time of this tree as a share
of the variant's: below 1, this tree is faster. With --peers the time is that of
the contender NAME, of each case of peers.py, which runs once with each library.
--build only builds the variant, for a machine without compilers; --check only
says whether the edits apply.
"""
import argparse
import hashlib
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = "passes/target/machine_model.h"


# ---- Edits: (file, from, to) ----


def without(name):
    """A pass that leaves all as it is."""
    head = "tc_change tc_pass_%s(tc_func *f, tc_pass_env *env)\n{" % (
        name.replace("-", "_"))
    for path in sorted((ROOT / "passes").rglob("*.c")):
        if head in path.read_text():
            return (path.relative_to(ROOT).as_posix(), head,
                    head + "\n    if (f)\n        return TC_UNCHANGED;")
    sys.exit("there is no pass `%s`" % name)


def setting(text):
    name, _, value = text.partition("=")
    found = re.search(r"\b%s = [^,\n/]+" % re.escape(name),
                      (ROOT / MODEL).read_text())
    if not found or not value:
        sys.exit("%s has no constant `%s`, or no value was given" % (MODEL,
                                                                     name))
    return MODEL, found.group(), "%s = %s" % (name, value)


def edits_of(args):
    edits = [without(name) for name in args.without]
    edits += [setting(text) for text in args.set]
    edits += args.replace
    for file, old, _ in edits:
        if not (ROOT / file).exists():
            sys.exit("there is no file %s" % file)
        if old not in (ROOT / file).read_text():
            sys.exit("%s: `%s` is not in it" % (file, old))
    if not edits:
        sys.exit("expected --without, --set or --replace")
    return edits


# ---- The variant ----


def copy(to, edits):
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to / name)
    for file, old, new in edits:
        text = (to / file).read_text().replace(old, new)
        (to / file).write_text(text)


def make(edits):
    """The folder of the variant, built."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True,
                          capture_output=True, text=True).stdout
    key = hashlib.sha256((head + json.dumps(edits)).encode()).hexdigest()[:12]
    to = ROOT / "build" / "variants" / key
    if not (to / "built").exists():
        copy(to, edits)
        quiet = dict(cwd=to, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--preset", "default",
                        "-DTILEC_TESTS=OFF"], **quiet)
        subprocess.run(["cmake", "--build", "build"], **quiet)
        (to / "built").touch()
    return to


# ---- Times ----


def bench(tree, words):
    done = subprocess.run([str(tree / "build/tilec"), "bench", *words,
                           "--json"], check=True, stdout=subprocess.PIPE,
                          text=True)
    return json.loads(done.stdout.splitlines()[-1])["median_us"]


def peers(tree, contender, words):
    with tempfile.NamedTemporaryFile(suffix=".json") as f:
        pathlib.Path(f.name).unlink()
        subprocess.run([sys.executable, str(ROOT / "test/bench/peers.py"),
                        "--lib", str(tree / "build/libtilec.so"), "--json",
                        f.name, *words], check=True, stdout=sys.stderr)
        rows = json.loads(pathlib.Path(f.name).read_text())["rows"]
        pathlib.Path(f.name).touch()
    return statistics.geometric_mean(r["median"][contender] for r in rows)


def ratio(args, variant):
    times = {ROOT: [], variant: []}
    for i in range(1 if args.peers else args.rounds):
        for tree in (ROOT, variant) if i % 2 == 0 else (variant, ROOT):
            times[tree].append(
                peers(tree, args.peers, args.words) if args.peers
                else bench(tree, args.words))
    return statistics.median(times[ROOT]) / statistics.median(times[variant])


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--without", action="append", default=[], metavar="PASS")
    p.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    p.add_argument("--replace", action="append", default=[], nargs=3,
                   metavar=("FILE", "FROM", "TO"))
    p.add_argument("--peers", metavar="CONTENDER")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--check", action="store_true")
    p.add_argument("--build", action="store_true")
    p.add_argument("words", nargs="*")
    args = p.parse_args()
    edits = edits_of(args)
    if args.check:
        return
    variant = make(edits)
    if not args.build:
        print("ratio %.3f" % ratio(args, variant))


main()
