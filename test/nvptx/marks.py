# SPDX-License-Identifier: Apache-2.0
#
# Marks of a profile are all that the clause profile(..) changes: the program at
# machine level without them is that of the plain kernel, byte for byte. The PTX
# of the plain kernel reads no clock; that of the other one has a record for
# each mark, before it one clock read.
#
#   marks.py TILEC
import re
import subprocess
import sys

tilec = sys.argv[1]
CASES = [
    ("attention_fwd", "sm_90a", ["mask_mod=@causal", "D=128", "T=bf16"]),
    ("attention_fwd", "sm_80", ["D=64", "T=f16"]),
    ("attention_bwd@attention_bwd", "sm_90a", ["D=64", "T=bf16"]),
    ("matmul", "sm_90a", ["T=bf16"]),
    ("matmul", "sm_80", ["T=f16"]),
]
MARK = re.compile(r"^ *mark number\((\d+)\) kind\((\w+)\).*\n", re.MULTILINE)
RECORD = re.compile(r"mov\.u32 c, %clock;\nmov\.u32 n, (\d+);\n"
                    r"mov\.b64 a, \{tilec_mark_lo, tilec_mark_hi\};\n"
                    r"@tilec_mark_on st\.global\.v2\.b32 \[a\], \{c, n\};")
READS = ("%clock", "%globaltimer", "tilec_mark")


def compiled(kernel, target, emit, bindings):
    words = [w for b in bindings for w in ("-D", b)]
    return subprocess.run(
        [tilec, "compile", kernel, "--target", target, f"--emit={emit}", *words],
        check=True, capture_output=True, text=True).stdout


def check(kernel, target, bindings):
    marked = bindings + ["kernel.profile=256"]
    plain = compiled(kernel, target, "machine", bindings)
    text = compiled(kernel, target, "machine", marked)
    marks = [int(n) for n, _ in MARK.findall(text)]
    without = MARK.sub("", text.replace(" profile(256)", ""))
    if without != plain:
        for a, b in zip(plain.splitlines(), without.splitlines()):
            if a != b:
                return f"without marks `{b}`, plain `{a}`"
        return "without marks it is longer or shorter"
    if "mark" in plain or not marks:
        return "marks in the plain kernel, or none in the other one"
    if marks != list(range(1, len(marks) + 1)):
        return f"the marks' numbers are {marks}"
    ptx = compiled(kernel, target, "ptx", bindings)
    found = [word for word in READS if word in ptx]
    if found:
        return f"the plain PTX has {found}"
    records = {int(n) for n in RECORD.findall(
        compiled(kernel, target, "ptx", marked))}
    if records != set(marks):
        return f"records {sorted(records)} of marks 1 to {len(marks)}"
    return None


wrong = 0
for case in CASES:
    why = check(*case)
    if why:
        print(*case[:2], *case[2], ":", why)
        wrong += 1
sys.exit(f"{wrong} of {len(CASES)} kernels" if wrong else 0)
