# SPDX-License-Identifier: Apache-2.0
#
# Remarks on memory are true: what they say of the width of a load, store or
# gather is the width of the PTX instructions at its place in the program. What
# became a copy to shared memory is as wide as the remark on that copy says.
#
#   widths.py TILEC ROOT
import re
import subprocess
import sys

tilec, root = sys.argv[1:3]
OWN = root + "/test/nvptx/widths.tile"
CASES = [(OWN + "@" + name, OWN, []) for name in (
    "mixed", "again", "gathered", "rows", "masked", "added", "product", "odd")]
CASES += [(name, "%s/kernels/%s.tile" % (root, name), words) for name, words in (
    ("softmax", []), ("layernorm", []),
    ("matmul", ["-D", "T=bf16"]), ("matmul", ["-D", "T=f32"]),
    ("attention_fwd", ["-D", "T=bf16", "-D", "D=64"]))]
TARGETS = "sm_80", "sm_90a"

ACCESS = re.compile(r"\b(ld|st|red)\b[.\w:]*?\.global\b([.\w:]*?)\.[bfsu](\d+)\b")
ASYNC = re.compile(r"cp\.async\.c[ag]\.shared\.global [^;]*?\], (\d+)")
BULK = re.compile(r"cp\.(?:reduce\.)?async\.bulk\.(?:tensor\.\dd\.)?"
                  r"(shared|global)")
REMARK = re.compile(r":(\d+):(\d+): remark: (.*) \[[\w-]+\]$", re.M)
KINDS = {"load": ("ld",), "gather": ("ld",), "store": ("st", "red")}


# (line, column) -> {(kind, bytes)}; kinds: ld, st, red, copy, bulk
def accesses_of(ptx):
    found, at = {}, None
    for line in ptx.splitlines():
        loc = re.match(r"\s*\.loc\s+1\s+(\d+)\s+(\d+)", line)
        if loc:
            at = int(loc.group(1)), int(loc.group(2))
        here = found.setdefault(at, set())
        for kind, vector, bits in ACCESS.findall(line):
            n = re.search(r"\.v(\d)", vector)
            here.add((kind, int(bits) // 8 * (int(n.group(1)) if n else 1)))
        here.update(("copy", int(n)) for n in ASYNC.findall(line))
        here.update(("bulk", side) for side in BULK.findall(line))
    return found


# Bytes of an element of what the program's line accesses; None: not seen there.
def bytes_there(source, kernel, line):
    named = re.search(r"(?:load|store|base\(|=) ?(%\w+)", source[line - 1])
    text = "\n".join(source)
    text = text[text.index("kernel @" + kernel):] if kernel else text
    bits = named and re.search(
        re.escape(named.group(1)) + r": tensor<\[[^]]*\] x \D*(\d+)", text)
    return int(bits.group(1)) // 8 if bits else None


def faults(name, path, words, target):
    run = subprocess.run([tilec, "compile", name, "--target", target,
                          "--emit=ptx", "--remarks=all", "--no-cache", *words],
                         check=True, capture_output=True, text=True)
    ptx = accesses_of(run.stdout)
    with open(path, encoding="utf-8") as f:
        source = f.read().splitlines()
    kernel = name.split("@")[1] if "@" in name else ""
    said = [(int(l), int(c), text) for l, c, text in REMARK.findall(run.stderr)]
    copies = {(l, c): int(n) for l, c, text in said
              for n in re.findall(r"(\d+) bytes a copy", text)}
    for line, column, text in said:
        what = re.match(r"(load|gather|store): (?:in vectors of (\d+) bytes|"
                        r"element by element)", text)
        if not what:
            continue
        there = ptx.get((line, column), set())
        threads = {n for kind, n in there if kind in KINDS[what.group(1)]}
        wide = (int(what.group(2)) if what.group(2)
                else bytes_there(source, kernel, line))
        copied = {n for kind, n in there if kind == "copy"}
        if copied - {copies.get((line, column))}:
            yield "%d:%d: copies of %s bytes, said: %s" % (
                line, column, copied, copies.get((line, column)))
        if wide and threads - {wide}:
            yield "%d:%d: %s bytes in PTX, said: %s" % (line, column, threads,
                                                        text)
        global checked
        checked += bool(wide and threads)


failed = checked = 0
for case in CASES:
    for target in TARGETS:
        for fault in faults(*case, target):
            failed += 1
            print("FAILED %s %s %s: %s" % (case[0], " ".join(case[2]), target,
                                           fault))
print("%d remarks compared, %d not so" % (checked, failed))
sys.exit(failed != 0 or checked < 40)
