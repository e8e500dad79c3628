#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What comments of the code claim about speed: claims.json.

    python3 test/bench/claims.py              # lists them
    python3 test/bench/claims.py run [ID ..]  # measures them again (a GPU)
    python3 test/bench/claims.py check [ROOT] # a test: form, commands, comments

A row has a claim's id, what it says in a sentence, the command (from the tree's
root), the expected ratio, and the machine and date of its measurement. A claim
may have several rows, one for each case. The ratio is the time with what the code does
as a share of the time without it, from the command's line `ratio R`, or of the
numbers that the two expressions of "ratio_of" find in its output. A row with
"estimate": true has a ratio that this command has not measured yet: it is the
middle of a range that was measured over several shapes, or comes from another
bench.

A comment in passes, codegen, lib or kernels/configs that quotes a measurement
names its claim: `Claim pingpong-begin.`
"""
import datetime
import json
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEYS = {"claim": str, "says": str, "command": str, "expected": (int, float),
        "machine": str, "date": str}
# Keys that a row may have, and whether a value is right.
OPTIONAL = {"estimate": lambda value: value is True,
            "ratio_of": lambda value: isinstance(value, list)
            and len(value) == 2}
CODE = ("passes", "codegen", "lib", "kernels/configs")
ID = r"[a-z0-9]+(?:-[a-z0-9]+)+"
NAMED = re.compile(r'\b[Cc]laim (%s)|"claim": "([^"]*)"' % ID)
# A machine, or a share of time that something takes more or less.
QUOTES = re.compile(r"(?<!NVIDIA )\b[HA][12]00\b(?!'s)|"
                    r"\d ?% (?:faster|slower|longer)|TFLOP/s")


def claims(root):
    return json.loads((root / "test/bench/claims.json").read_text())


# ---- Listing and running ----


def measured(row):
    done = subprocess.run(shlex.split(row["command"]), cwd=ROOT, check=False,
                          capture_output=True, text=True)
    patterns = row.get("ratio_of", [r"^ratio ([\d.]+)"])
    found = [re.search(p, done.stdout, re.MULTILINE) for p in patterns]
    if done.returncode or not all(found):
        return None, (done.stderr or done.stdout).strip().splitlines()[-1:]
    numbers = [float(m.group(1)) for m in found]
    return numbers[0] / numbers[1] if numbers[1:] else numbers[0], None


def expected(row):
    return "~" * ("estimate" in row) + "%.3f" % row["expected"]


def run(wanted):
    rows = [r for r in claims(ROOT) if not wanted or r["claim"] in wanted]
    unknown = set(wanted) - {r["claim"] for r in rows}
    if unknown:
        sys.exit("there is no claim " + ", ".join(sorted(unknown)))
    failed = False
    print("measured expected  claim (~: an estimate)")
    for row in rows:
        value, why = measured(row)
        failed |= value is None
        print("%8s %8s  %s: %s" % (
            "-" if value is None else "%.3f" % value, expected(row),
            row["claim"], row["says"]), flush=True)
        if why:
            print("    failed: " + why[0])
    sys.exit(failed)


def show():
    for row in claims(ROOT):
        print("%-20s %6s  %s (%s, %s)" % (
            row["claim"], expected(row), row["says"], row["machine"],
            row["date"]))


# ---- Checking ----


def script_of(root, command):
    """What the command runs: a script, or the source of a program of tests."""
    words = shlex.split(command)
    word = words[1] if words[0] == "python3" else words[0]
    program = re.fullmatch(r"build/test/bench_(\w+)", word)
    return root / ("test/bench/%s.c" % program.group(1) if program else word)


def wrong_in(root, row):
    for key, kind in KEYS.items():
        if not isinstance(row.get(key), kind):
            yield "has no `%s`, or one of another type" % key
    for key in set(row) - set(KEYS):
        if key not in OPTIONAL:
            yield "has an unknown key `%s`" % key
        elif not OPTIONAL[key](row[key]):
            yield "has a wrong `%s`" % key
    if not re.fullmatch(ID, row.get("claim", "")):
        yield "expected an id of several words, with `-` between"
    try:
        datetime.date.fromisoformat(row.get("date", ""))
    except ValueError:
        yield "expected a date, 2026-11-23"
    script = script_of(root, row.get("command") or "no-command")
    if not script.is_file():
        yield "its command runs %s, which does not exist" % script
    elif script.name == "variant.py":
        words = shlex.split(row["command"])
        words.insert(words.index("--"), "--check")
        done = subprocess.run(words, cwd=root, check=False,
                              capture_output=True, text=True)
        if done.returncode:
            yield "its edit does not apply: " + done.stderr.strip()


def comments(path):
    text = path.read_text()
    if path.suffix == ".json":
        yield 1, text
    for m in re.finditer(r"/\*.*?\*/", text, re.DOTALL):
        yield text[:m.start()].count("\n") + 1, re.sub(r"\s*\n\s*\*?\s*", " ",
                                                       m.group())


def sources(root):
    for top in CODE:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".c", ".h", ".json"):
                yield path


def check(root):
    rows, named = claims(root), set()
    known = {r.get("claim") for r in rows}
    for row in rows:
        for why in wrong_in(root, row):
            yield "claims.json: %s: %s" % (row.get("claim"), why)
    for path in sources(root):
        for line, text in comments(path):
            ids = {a or b for a, b in NAMED.findall(text)}
            where = "%s:%d: " % (path.relative_to(root), line)
            for name in sorted(ids - known):
                yield where + "claims.json has no claim `%s`" % name
            if path.suffix != ".json" and QUOTES.search(text) and not ids:
                yield where + ("quotes a measurement: expected `Claim ID.`, "
                               "with a row in claims.json")
            named |= ids
    for name in sorted(known - named):
        yield "claims.json: %s: no comment names it" % name


def main():
    words = sys.argv[1:] or ["list"]
    if words[0] == "run":
        run(words[1:])
    elif words[0] == "check":
        wrong = list(check(pathlib.Path(words[1]) if words[1:] else ROOT))
        sys.exit("\n".join(wrong) or 0)
    elif words == ["list"]:
        show()
    else:
        sys.exit(__doc__.strip())


main()
