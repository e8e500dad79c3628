# SPDX-License-Identifier: Apache-2.0
#
# Every elementwise op, cast, reduction, scan and atomic of every type, for every GPU
# target, to PTX and through ptxas (if there is one). LLVM aborts on what it
# cannot select: this finds it.
#
#   every_op.py NVPTX_PTX PTXAS_PY [NAME]    NAME: only cases that have it
import subprocess
import sys
import tempfile

FLOATS = {"f8e4m3": 8, "f8e5m2": 8, "f16": 16, "bf16": 16, "f32": 32,
          "f64": 64}
INTS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}
WIDTHS = {**FLOATS, **INTS}
LAYOUT = "#blocked(2, 32, 4)"
PARTS = "#bases(register [], lane [(0), (0), (0), (0), (0)], warp [(1), (2)])"
TARGETS = ["sm_80", "sm_89", "sm_90", "sm_90a"]


def tile(elem, side=256, layout=LAYOUT):
    return "tile<%d x %s, %s>" % (side, elem, layout)


class Kernel:
    """Loads %a, %b, %c of one type; each result goes out where asked for."""

    def __init__(self, elem):
        self.elem = elem
        self.lines = []
        self.names = 0
        self.pointers = {}
        self.emit("%r = range : " + tile("i32"))
        for i, name in enumerate("abc"):
            n = self.new("const %d : i32" % (256 * i))
            at = self.new("splat %s : %s" % (n, tile("i32")))
            at = self.new("add %%r, %s : %s" % (at, tile("i32")))
            self.emit("%%p%s = %s" % (name, self.address("p", elem, at)))
            self.emit("%%%s = load %%p%s : %s" % (name, name, tile(elem)))

    def emit(self, line):
        self.lines.append("  " + line)

    def new(self, op, more=""):
        self.names += 1
        name = "%%v%d" % self.names
        more = more % self.names if more else ""
        self.emit(name + more + " = " + op)
        return name

    def address(self, base, elem, at):
        p = self.new("splat %%%s : %s" % (base, tile("ptr<%s>" % elem)))
        return "ptr_add %s, %s : %s" % (p, at, tile("ptr<%s>" % elem))

    def give(self, op, elem):
        x = self.new(op + " : " + tile(elem))
        name = "q_" + elem
        self.pointers[name] = elem
        self.emit("store %s, %s" % (
            self.new(self.address(name, elem, "%r")), x))

    def text(self):
        args = ["%%p: ptr<%s>" % self.elem]
        args += ["%%%s: ptr<%s>" % p for p in self.pointers.items()]
        return ("kernel @every(%s) warps(4) grid {\n  %%0 = const 1 : i32\n"
                "  yield %%0\n} {\n%s\n  return\n}\n"
                % (", ".join(args), "\n".join(self.lines)))


def arithmetic(elem):
    k = Kernel(elem)
    real, number = elem in FLOATS, elem != "i1"
    two = ["add", "sub", "mul", "div", "rem", "min", "max"] if number else []
    if not real:
        two += ["and", "or", "xor"]
    if elem in INTS:
        two += ["mulhi", "shl", "shr", "shru", "divu", "remu", "minu",
                "maxu"]
    for op in two:
        k.give(op + " %a, %b", elem)
    one = ["neg", "abs"] if number else []
    one += ["floor", "ceil", "round"] if real else ["not"]
    for op in one:
        k.give(op + " %a", elem)
    if real:
        k.give("fma %a, %b, %c", elem)
    preds = ["eq", "ne", "lt", "le", "gt", "ge"]
    for pred in preds + (["ult", "ule", "ugt", "uge"] if elem in INTS else []):
        k.give("cmp %%a, %%b pred(%s)" % pred, "i1")
    m = k.new("cmp %%a, %%c pred(lt) : %s" % tile("i1"))
    k.give("select %s, %%a, %%b" % m, elem)
    return k


def functions(elem):
    k = Kernel(elem)
    for op in ("exp exp2 log log2 sqrt rsqrt rcp sin cos tanh erf").split():
        k.give(op + " %a", elem)
    return k


def conversions(elem):
    k = Kernel(elem)
    for to in list(WIDTHS) + ["i1"]:
        k.give("cast %a", to)
        if to != elem and WIDTHS.get(to) == WIDTHS.get(elem):
            k.give("bitcast %a", to)
    return k


def reductions(elem):
    k = Kernel(elem)
    kinds = ["sum", "prod", "max", "min"] if elem != "i1" else []
    for kind in kinds + ([] if elem in FLOATS else ["and", "or", "xor"]):
        x = k.new("reduce %%a axis(0) kind(%s) within(warp) : %s"
                  % (kind, tile(elem, 4, PARTS)))
        p = k.new("splat %%p : %s" % tile("ptr<%s>" % elem, 4, PARTS))
        r = k.new("range : " + tile("i32", 4, PARTS))
        p = k.new("ptr_add %s, %s : %s"
                  % (p, r, tile("ptr<%s>" % elem, 4, PARTS)))
        k.emit("store %s, %s" % (p, x))
    return k


def scans(elem):
    k = Kernel(elem)
    kinds = ["sum", "prod", "max", "min"] if elem != "i1" else []
    for kind in kinds + ([] if elem in FLOATS else ["and", "or", "xor"]):
        for how in "", " reverse(true) exclusive(true)":
            x = k.new("scan %%a axis(0) kind(%s)%s within(warp) : %s, %s"
                      % (kind, how, tile(elem), tile(elem, 4, PARTS)),
                      more=", %%t%d")
            k.emit("store %s, %s" % (k.new(k.address("p", elem, "%r")), x))
    return k


def atomics(elem):
    k = Kernel(elem)
    kinds = ["add", "max", "min", "exchange"]
    kinds += ["and", "or", "xor"] if elem in INTS else []
    for i, kind in enumerate(kinds):
        order = ["acq_rel", "relaxed", "acquire", "release"][i % 4]
        scope = ["gpu", "block", "system"][i % 3]
        op = "atomic %%pb, %%a kind(%s) order(%s) scope(%s)" % (kind, order,
                                                                scope)
        k.give(op, elem)
        k.new(op + " : " + tile(elem))
    k.give("atomic_cas %pc, %a, %b", elem)
    return k


def cases():
    for elem in list(WIDTHS) + ["i1"]:
        yield "arithmetic " + elem, arithmetic(elem)
        yield "conversions " + elem, conversions(elem)
        yield "reductions " + elem, reductions(elem)
        yield "scans " + elem, scans(elem)
        if elem in FLOATS:
            yield "functions " + elem, functions(elem)
        if elem in ["i32", "i64", "f16", "bf16", "f32", "f64"]:
            yield "atomics " + elem, atomics(elem)


def main():
    tool, ptxas, only = (sys.argv[1:] + [""])[:3]
    failed = 0
    with tempfile.NamedTemporaryFile("w", suffix=".tile") as f:
        for name, kernel in cases():
            if only not in name:
                continue
            f.seek(0)
            f.truncate()
            f.write(kernel.text())
            f.flush()
            for target in TARGETS:
                ptx = subprocess.run([tool, f.name, "--target", target],
                                     capture_output=True, text=True)
                said = ptx.stderr
                bad = ptx.returncode
                if not bad:
                    # Some functions are many registers; spills don't matter.
                    r = subprocess.run(
                        [sys.executable, ptxas, target, "100000"],
                        input=ptx.stdout, capture_output=True, text=True)
                    said, bad = r.stderr, r.returncode
                if bad:
                    failed += 1
                    print("%s, %s: %s\n%s" % (name, target, bad, said))
    sys.exit(failed > 0)


main()
