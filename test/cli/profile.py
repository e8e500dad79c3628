#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tilec profile` without a GPU: rings as a device leaves them, made here.

    profile.py TILEC

Rings that were written around, by a writer that did not end, by none at all,
over a clock's end; damaged rings, heads and files; the trace and the JSON that
come of them; the command line's errors.
"""
import copy
import json
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile

TILEC = sys.argv[1]
BEGUN, ENDED = 0x80000000, 1
RECORDS = 64

# A consumer's loop of wait, math; a producer's of wait, copy.
TABLE = {
    "kernel": "k", "target": "sm_90a",
    "writers": [{"role": "consumers", "group": 0},
                {"role": "consumers", "group": 1},
                {"role": "producer", "group": 0}],
    "loops": [{"role": "producer", "name": "for %i", "parent": -1, "line": 3,
               "column": 5},
              {"role": "consumers", "name": "for %j", "parent": -1, "line": 9,
               "column": 5}],
    "marks": [
        {"number": 1, "loop": -1, "branches": 0, "role": "producer",
         "kind": "begin", "name": "", "line": 1, "column": 1},
        {"number": 2, "loop": 0, "branches": 0, "role": "producer",
         "kind": "wait", "name": "empty", "line": 4, "column": 7},
        {"number": 3, "loop": 0, "branches": 0, "role": "producer",
         "kind": "copy", "name": "k \"1\"\n", "line": 5, "column": 7},
        {"number": 4, "loop": -1, "branches": 0, "role": "producer",
         "kind": "end", "name": "", "line": 6, "column": 1},
        {"number": 5, "loop": -1, "branches": 0, "role": "consumers",
         "kind": "begin", "name": "", "line": 8, "column": 1},
        {"number": 6, "loop": 1, "branches": 0, "role": "consumers",
         "kind": "wait", "name": "full", "line": 10, "column": 7},
        {"number": 7, "loop": 1, "branches": 0, "role": "consumers",
         "kind": "math", "name": "", "line": 11, "column": 7},
        {"number": 8, "loop": -1, "branches": 0, "role": "consumers",
         "kind": "end", "name": "", "line": 12, "column": 1}],
    "model": {"sections": [{"mark": 6, "model": 40}, {"mark": 7, "model": 60}]},
}
MARKS = {0: (5, 6, 7, 8), 1: (5, 6, 7, 8), 2: (1, 2, 3, 4)}


class Ring:
    """What a writer leaves of its events, which are (cycles, mark)."""

    def __init__(self, program, writer, events, begin=1000, ns=5000, ended=True):
        self.program, self.writer = program, writer
        self.begin, self.ns, self.ended = begin, ns, ended
        self.records = [(0, 0)] * RECORDS
        for i, (at, mark) in enumerate(events):
            self.records[i % RECORDS] = ((begin + at) % 2**32, mark)
        self.kept = events[-RECORDS:]
        self.next = len(events) % RECORDS * 8
        self.cycles = events[-1][0] if events else 0
        self.sm = 7

    def bytes(self):
        tail = (0, 0, 0)
        if self.ended: # one cycle is a nanosecond
            tail = (self.ns + self.cycles, (self.begin + self.cycles) % 2**32,
                    self.next | ENDED)
        head = struct.pack("<QIIQII", self.ns, self.begin, self.sm | BEGUN,
                           *tail)
        return struct.pack("<II", self.program, self.writer) + head + \
            b"".join(struct.pack("<II", *r) for r in self.records)

    def sections(self):
        return [(a[0], b[0] - a[0], a[1])
                for a, b in zip(self.kept, self.kept[1:])]


def steps(writer, n, lengths=(30, 70), start=5):
    """Events of n steps of a writer's loop."""
    begin, first, second, end = MARKS[writer]
    at, events = start, [(0, begin)]
    for i in range(n):
        events += [(at, first), (at + lengths[0] + i, second)]
        at += sum(lengths) + i
    return events + [(at, end)]


def recording(rings, table=None, records=RECORDS, count=None, **more):
    header = {"device": "a GPU", "workload": "test", "us": 10,
              "us_marked": 11.5, "same": True, "records": records,
              "rings": len(rings) if count is None else count,
              "table": table or TABLE, **more}
    text = json.dumps(header).encode()
    return b"tilec-profile 1 %d\n" % len(text) + text + \
        b"".join(r.bytes() for r in rings)


folder = pathlib.Path(tempfile.mkdtemp())
failures = []


def check(true, what):
    if not true:
        failures.append(what)
        print("FAILED:", what)


def run(data, *options):
    (folder / "in").write_bytes(data)
    got = subprocess.run([TILEC, "profile", "--from", "in", *options],
                         cwd=folder, capture_output=True, check=False)
    got.stdout, got.stderr = got.stdout.decode(), got.stderr.decode()
    return got


# ---- Results ----

def spread(values):
    v = sorted(values)
    return {"median": v[len(v) // 2], "p10": v[len(v) // 10],
            "p90": v[len(v) * 9 // 10]}


def measured(rings):
    """By mark: its durations. By loop: those of its steps."""
    sections, loops = {}, {}
    for ring in rings:
        for _, length, mark in ring.sections():
            sections.setdefault(mark, []).append(length)
        loop, first = (0, 2) if ring.writer == 2 else (1, 6)
        begins = [at for at, mark in ring.kept if mark == first]
        loops.setdefault(loop, []).extend(
            b - a for a, b in zip(begins, begins[1:]))
    return sections, loops


# JSON of these shapes; of a list one for all items.
NUMBER = (int, float)
TIMELINE = {
    "schema": str, "version": int, "source": str, "kernel": str, "target": str,
    "unit": str, "length": NUMBER, "step": NUMBER, "device": str,
    "workload": str, "mhz": NUMBER, "programs": int, "us": NUMBER,
    "us_marked": NUMBER, "overhead": NUMBER, "same": bool, "notes": [str],
    "tracks": [{"name": str, "kind": str}],
    "spans": [{"track": int, "start": NUMBER, "end": NUMBER, "kind": str,
               "name": str, "line": int, "column": int, "step?": int}],
    "loops": [{"role": str, "name": str, "steps": int, "line": int,
               "column": int, "median": NUMBER, "p10": NUMBER, "p90": NUMBER,
               "model?": NUMBER}],
    "sections": [{"mark": int, "role": str, "loop": str, "loop_index": int,
                  "kind": str, "name": str, "line": int, "column": int,
                  "median": NUMBER, "p10": NUMBER, "p90": NUMBER,
                  "share": NUMBER, "model?": NUMBER}],
}
NAMING = {"ph": str, "name": str, "pid": int, "tid?": int,
          "args": {"name": str}}
SECTION = {"ph": str, "pid": int, "tid": int, "ts": NUMBER, "dur": NUMBER,
           "cat": str, "name": str, "args": {"cycles": int, "line": int}}


def conforms(value, schema, path=""):
    """Complaints."""
    if isinstance(schema, list):
        if not isinstance(value, list):
            return [f"{path}: no list"]
        return [w for i, v in enumerate(value)
                for w in conforms(v, schema[0], f"{path}[{i}]")]
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            return [f"{path}: no object"]
        known = {name.rstrip("?") for name in schema}
        wrong = [f"{path}.{n}: unknown" for n in value if n not in known]
        for name, inner in schema.items():
            if name.rstrip("?") in value:
                name = name.rstrip("?")
                wrong += conforms(value[name], inner, f"{path}.{name}")
            elif not name.endswith("?"):
                wrong.append(f"{path}.{name}: missing")
        return wrong
    ok = isinstance(value, schema) and \
        (schema is bool or not isinstance(value, bool))
    return [] if ok else [f"{path}: {value!r}"]


def check_timeline(name, got, rings):
    j = json.loads(got.stdout)
    for w in conforms(j, TIMELINE):
        check(False, f"{name}: timeline{w}")
    sections, loops = measured(rings)
    for s in j["sections"]:
        want = spread(sections[s["mark"]])
        check({k: s[k] for k in want} == want, f"{name}: {s}, expected {want}")
    check({s["mark"] for s in j["sections"]} ==
          {m for m in sections if TABLE["marks"][m - 1]["loop"] >= 0},
          f"{name}: sections {sorted(sections)}")
    for i, loop in enumerate(j["loops"]):
        values = loops.get(i, [])
        check(loop["steps"] == len(values), f"{name}: {loop}")
        want = spread(values) if values else dict.fromkeys(
            ("median", "p10", "p90"), 0)
        check({k: loop[k] for k in want} == want, f"{name}: {loop}, {want}")
    for s in j["spans"]:
        check(0 <= s["start"] <= s["end"] <= j["length"] and
              s["track"] < len(j["tracks"]), f"{name}: {s}")
    return j


def check_trace(name, rings):
    """Each section once, in the order of time, in its thread."""
    j = json.loads((folder / "trace").read_text())
    check(set(j) == {"displayTimeUnit", "traceEvents"}, f"{name}: {list(j)}")
    first = min((r.ns for r in rings), default=0)
    mhz = [1000 for r in rings if r.ended and r.cycles]
    mhz = statistics.median(mhz) if mhz else 1
    found = {}
    for e in j["traceEvents"]:
        schema = NAMING if e.get("ph") == "M" else SECTION
        for w in conforms(e, schema):
            check(False, f"{name}: {e}{w}")
        check(e["ph"] in "MX", f"{name}: {e}")
        if e["ph"] == "X":
            found.setdefault((e["pid"], e["tid"]), []).append(e)
    named = [e for e in j["traceEvents"]
             if e["ph"] == "M" and e["name"] == "thread_name"]
    check(len(named) == len(rings), f"{name}: {len(named)} threads")
    for ring in rings:
        events = found.pop((ring.program, ring.writer), [])
        want = ring.sections()
        check(len(events) == len(want),
              f"{name}: {len(events)} events, expected {len(want)}")
        for e, (at, length, mark) in zip(events, want):
            ts = (ring.ns - first) / 1e3 + at / mhz
            check(e["args"]["cycles"] == length and
                  e["args"]["line"] == TABLE["marks"][mark - 1]["line"] and
                  abs(e["ts"] - ts) < 1e-3 and
                  abs(e["dur"] - length / mhz) < 1e-3,
                  f"{name}: {e}, expected {at}, {length} of mark {mark}")
    check(not found, f"{name}: events of {list(found)}")


def good(name, rings):
    """Table, timeline and trace; the timeline."""
    data = recording(rings)
    got = run(data, "--json", "--trace", "trace", "--record", "again")
    check(got.returncode == 0 and not got.stderr, f"{name}: {got}")
    if got.returncode:
        return None
    j = check_timeline(name, got, rings)
    check_trace(name, rings)
    again = (folder / "again").read_bytes()
    check(again.split(b"\n", 1)[1].endswith(b"".join(r.bytes() for r in rings)),
          f"{name}: other rings were written")
    shown = run(again)
    check(shown.returncode == 0 and "nan" not in shown.stdout,
          f"{name}: {shown}")
    check("10.0 us a launch, 11.5 us with marks (+15.0 %)" in shown.stdout,
          f"{name}: {shown.stdout}")
    return j


def test_rings():
    plain = [Ring(0, w, steps(w, 5)) for w in range(3)]
    j = good("plain", plain)
    check(len(j["tracks"]) == 3, f"plain: {j['tracks']}")
    check(j["loops"][1]["model"] == 100, f"plain: {j['loops']}")
    # 4 steps of the hot loop, from both groups and the producer.
    check({s["track"] for s in j["spans"]} == {0, 1, 2}, "plain: tracks")
    good("around", [Ring(0, 0, steps(0, 200)), Ring(0, 2, steps(2, 31))])
    full = Ring(3, 1, steps(1, 31)) # 64 events: the next goes to the begin
    check(full.next == 0 and len(full.kept) == RECORDS, "64 events")
    good("full", [full])
    good("one less", [Ring(3, 1, steps(1, 31)[:-1])])
    good("not ended", [Ring(0, 0, steps(0, 9)[:-1], ended=False)])
    good("not ended, around", [Ring(0, 0, steps(0, 77)[:-1], ended=False)])
    good("clock's end", [Ring(0, 0, steps(0, 40), begin=2**32 - 2000)])
    good("clock's end, not ended",
         [Ring(0, 0, steps(0, 9)[:-1], begin=2**32 - 200, ended=False)])
    good("no records", [Ring(0, 0, []), Ring(0, 2, [], ended=False)])
    good("one record", [Ring(0, 0, [(0, 5)])])
    good("no time", [Ring(0, 0, [(0, 5)] + [(0, 6), (0, 7)] * 9)])
    good("programs", [Ring(p, w, steps(w, 4 + p), ns=5000 + 100 * p)
                      for p in (0, 3, 511) for w in range(3)])


def test_order_of_begins():
    """A role that begins before the first group is shown, too."""
    rings = [Ring(0, 0, steps(0, 6), begin=1000),
             Ring(0, 2, steps(2, 6), begin=990)]
    j = good("earlier", rings)
    spans = [s for s in j["spans"] if s["track"] == 1]
    check(spans, "earlier: the producer has no spans")
    # 10 cycles earlier than the same event of the group.
    waits = [[s["start"] for s in j["spans"]
              if s["track"] == t and s["name"].startswith("wait")][1]
             for t in (0, 1)]
    check(waits[0] - waits[1] == 10, f"earlier: {waits}")


def test_selection():
    rings = [Ring(p, 0, steps(0, 4)) for p in range(3)]
    got = run(recording(rings), "--programs", "2", "--record", "again",
              "--trace", "trace")
    check(got.returncode == 0, f"programs: {got}")
    check_trace("programs", rings[:2])
    check(run((folder / "again").read_bytes()).stdout.count("first 2 programs"),
          "programs: the file has others")


# ---- Damage ----

def refused(name, data, message, code=1):
    for options in ((), ("--json",), ("--trace", "trace")):
        got = run(data, *options)
        check(got.returncode == code and message in got.stderr and
              not got.stdout, f"{name}: {got}, expected {message!r}")


def test_damaged_rings():
    def ring(change):
        r = Ring(4, 1, steps(1, 5))
        change(r)
        return recording([Ring(4, 0, steps(0, 5)), r])

    def record(i, value):
        def change(r):
            r.records[i] = value
        return change

    at = "the ring of program 4, consumers 1: "
    refused("next", ring(lambda r: setattr(r, "next", 8 * RECORDS)),
            at + "its end lies outside of it")
    refused("next, far", ring(lambda r: setattr(r, "next", 2**32 - 8)),
            at + "its end lies outside of it")
    refused("zeros", ring(record(3, (0, 0))),
            at + "a record is of no mark of the kernel")
    refused("mark", ring(record(3, (1100, 9))),
            at + "a record is of no mark of the kernel")
    refused("mark, far", ring(record(3, (1100, 2**32 - 1))),
            at + "a record is of no mark of the kernel")
    refused("role", ring(record(3, (1100, 2))),
            at + "a record is of another role's mark")
    refused("clock", ring(record(3, (1001, 7))), at + "its clock goes back")
    # A count that is too small, or beyond what was written: zeros inside.
    refused("count", ring(lambda r: setattr(r, "next", 40 * 8)),
            at + "a record is of no mark of the kernel")


def test_damaged_files():
    rings = [Ring(0, w, steps(w, 5)) for w in range(3)]
    whole = recording(rings)
    no_recording = "expected a file of `tilec profile --record`"
    refused("empty", b"", no_recording)
    refused("text", b"tilec-profile 2 17\n{}", no_recording)
    refused("length", whole.replace(b"1 ", b"1 999999999999", 1), no_recording)
    refused("negative", whole.replace(b"1 ", b"1 -", 1), no_recording)
    refused("header", whole.replace(b'{"device', b'["device', 1),
            "its header is damaged")
    for records in (0, 63, 65, 100, -64, 2**40, "64", None):
        refused(f"records {records}", recording(rings, records=records),
                "its header is damaged")
    for count in (-1, 512 * 32 + 1, 1e300, "3"):
        refused(f"rings {count}", recording(rings, count=count),
                "its header is damaged")
    for count in (0, 2, 4):
        refused(f"rings {count}", recording(rings, count=count),
                "the file was cut off")
    for n in (1, 8, 40, 100, len(rings[0].bytes())):
        refused(f"cut by {n}", whole[:-n], "the file was cut off")
    rings[2].writer = 3
    refused("writer", recording(rings), "a ring is of no writer")
    refused("none", recording([]), "no program wrote a record")


def test_damaged_tables():
    def table(change):
        t = copy.deepcopy(TABLE)
        change(t)
        return recording([Ring(0, 0, steps(0, 3))], t)

    damaged = "its table of marks is damaged"
    refused("no writers", table(lambda t: t.update(writers=[])), damaged)
    refused("writers", table(lambda t: t.update(
        writers=t["writers"] * 11)), damaged)
    refused("no marks", table(lambda t: t.update(marks=[])), damaged)
    refused("marks", table(lambda t: t["marks"].pop(0)), damaged)
    refused("list", table(lambda t: t.update(marks=7)), damaged)
    # A loop that is its own parent, or of no loop: as without one.
    for parent in (0, 1, 7, -5, "x"):
        got = run(table(lambda t, p=parent: t["loops"][0].update(parent=p)))
        check(got.returncode == 0, f"parent {parent}: {got}")


def test_random_damage():
    seed = random.Random(26)
    whole = recording([Ring(p, w, steps(w, 40)) for p in range(2)
                       for w in range(3)])
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(seed.choice((1, 2, 8))):
            data[seed.randrange(len(data))] = seed.randrange(256)
        got = run(bytes(data), "--json", "--trace", "trace")
        check(got.returncode in (0, 1), f"random: {got}")
        check((got.returncode == 0) == (not got.stderr), f"random: {got}")


# ---- The command line ----

def test_command_line():
    def refuses(code, message, *args):
        got = subprocess.run([TILEC, "profile", *args], cwd=folder, text=True,
                             capture_output=True, check=False)
        check(got.returncode == code and message in got.stderr,
              f"{args}: {got}, expected {code}, {message!r}")

    for n in ("100", "32", "32768"):
        refuses(2, "expected", "softmax", "--records", n)
    refuses(2, "--records is 100, expected a power of two from 64 to 16384",
            "softmax", "--records", "100")
    refuses(2, "--records is `x`, expected 1 to 16384", "softmax", "--records",
            "x")
    refuses(2, "--runs is `0`, expected 1 to 1000", "softmax", "--runs", "0")
    refuses(2, "--programs is `513`, expected 1 to 512", "softmax",
            "--programs", "513")
    refuses(2, "--sweep is for `bench` and `tune`", "attention", "--shape",
            "1x1x64x64", "--sweep", "BM=64,128")
    (folder / "in").write_bytes(recording([Ring(0, 0, steps(0, 3))]))
    refuses(2, "--from FILE is a kernel's profile already", "softmax", "--from",
            "in")
    refuses(1, "missing", "--from", "missing")
    refuses(2, "target cpu has no warp roles to profile", "softmax",
            "x=random:4x64xf32", "y=zeros:4x64xf32", "--target", "cpu")
    refuses(1, "nowhere/trace: No such file", "--from", "in", "--trace", "nowhere/trace")
    refuses(2, "", "--no-such-option")
    refuses(2, "")


for test in (test_rings, test_order_of_begins, test_selection,
             test_damaged_rings, test_damaged_files, test_damaged_tables,
             test_random_damage, test_command_line):
    test()
for path in folder.iterdir():
    path.unlink()
folder.rmdir()
sys.exit(f"{len(failures)} failed" if failures else 0)
