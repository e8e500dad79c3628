#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tilec beside its peers on one GPU, in one process, in turns.

    python3 test/bench/peers.py --lib build/libtilec.so [--set forward]
        [--json out.json] [--table out.md] [--only D=128] [--rounds 7]

Loads libtilec with ctypes beside torch: FlexAttention, cuDNN and
FlashAttention-2 (both through scaled_dot_product_attention), cuBLAS for
matmul. Each case gets fresh random inputs; every contender's output is checked
against float32 attention of some heads in the same run; then the contenders
take turns, in an order rotated each round, each turn a replay of a CUDA graph
of several launches. Times are medians over the rounds. The JSON holds every
turn, the commit, the GPU and what failed; the table has the ratios to tilec.
"""
import argparse
import ctypes as C
import datetime
import json
import math
import statistics
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

torch._dynamo.config.cache_size_limit = 1000
torch._dynamo.config.recompile_limit = 1000

# ---- libtilec through ctypes ----


class Device(C.Structure):
    _fields_ = [("type", C.c_int), ("id", C.c_int)]


class DType(C.Structure):
    _fields_ = [("code", C.c_uint8), ("bits", C.c_uint8), ("lanes", C.c_uint16)]


class DLTensor(C.Structure):
    _fields_ = [("data", C.c_void_p), ("device", Device), ("ndim", C.c_int),
                ("dtype", DType), ("shape", C.POINTER(C.c_int64)),
                ("strides", C.POINTER(C.c_int64)),
                ("byte_offset", C.c_uint64)]


class Argument(C.Structure):
    _fields_ = [("name", C.c_char_p), ("kind", C.c_int),
                ("tensor", C.POINTER(DLTensor)), ("i", C.c_int64),
                ("f", C.c_double)]


class Binding(C.Structure):
    _fields_ = [("name", C.c_char_p), ("value", C.c_char_p)]


class Source(C.Structure):
    _fields_ = [("name", C.c_char_p), ("text", C.c_char_p),
                ("length", C.c_size_t)]


class ContextOptions(C.Structure):
    _fields_ = [("size", C.c_size_t), ("target", C.c_char_p),
                ("remarks", C.c_int)]


class CompileOptions(C.Structure):
    _fields_ = [("size", C.c_size_t), ("kernel", C.c_char_p),
                ("target", C.c_char_p), ("bindings", C.POINTER(Binding)),
                ("nbindings", C.c_size_t), ("examples", C.POINTER(Argument)),
                ("nexamples", C.c_size_t), ("pipeline", C.c_char_p),
                ("verify_each", C.c_int), ("print_before", C.c_char_p),
                ("print_after", C.c_char_p), ("on_pass", C.c_void_p),
                ("user", C.c_void_p), ("reproducer_dir", C.c_char_p),
                ("warps", C.c_uint), ("stages", C.c_uint),
                ("ptxas_level", C.c_uint), ("no_load", C.c_int),
                ("no_cache", C.c_int)]


class AttentionOptions(C.Structure):
    _fields_ = [("size", C.c_size_t), ("target", C.c_char_p),
                ("scale", C.c_double), ("mask", C.c_char_p),
                ("score", C.c_char_p), ("sources", C.POINTER(Source)),
                ("nsources", C.c_size_t), ("read_source", C.c_void_p),
                ("user", C.c_void_p), ("bindings", C.POINTER(Binding)),
                ("nbindings", C.c_size_t), ("warps", C.c_uint),
                ("stages", C.c_uint)]


class AttentionTensors(C.Structure):
    _fields_ = [("size", C.c_size_t)] + [
        (n, C.POINTER(DLTensor)) for n in ("q", "k", "v", "o", "lse")] + [
        ("captured", C.POINTER(Argument)), ("ncaptured", C.c_size_t)]


class LaunchOptions(C.Structure):
    _fields_ = [("size", C.c_size_t), ("stream", C.c_void_p),
                ("threads", C.c_int), ("print", C.c_void_p),
                ("progress", C.c_void_p), ("user", C.c_void_p)]


class Error(C.Structure):
    _fields_ = [("status", C.c_int), ("message", C.c_char * 480),
                ("file", C.c_char * 160), ("line", C.c_uint32),
                ("column", C.c_uint32), ("program", C.c_int32 * 3)]


class Diagnostic(C.Structure):
    pass


Diagnostic._fields_ = [
    ("next", C.POINTER(Diagnostic)), ("severity", C.c_int),
    ("message", C.c_char_p), ("pass_", C.c_char_p), ("file", C.c_char_p),
    ("line", C.c_uint32), ("column", C.c_uint32), ("source", C.c_char_p),
    ("notes", C.POINTER(Diagnostic))]

# DLPack's type codes.
CODES = {torch.float32: (2, 32), torch.float16: (2, 16),
         torch.bfloat16: (4, 16), torch.int32: (0, 32), torch.int64: (0, 64)}


class View:
    """A DLTensor of a torch tensor, alive as long as this is."""

    def __init__(self, t):
        self.tensor = t
        self.shape = (C.c_int64 * t.dim())(*t.shape)
        self.strides = (C.c_int64 * t.dim())(*t.stride())
        code, bits = CODES[t.dtype]
        self.dl = DLTensor(t.data_ptr(), Device(2, t.device.index or 0),
                           t.dim(), DType(code, bits, 1), self.shape,
                           self.strides, 0)
        self.ref = C.pointer(self.dl)


class Tilec:
    def __init__(self, path, target):
        self.lib = C.CDLL(path)
        self.lib.tilec_diagnostics.restype = C.POINTER(Diagnostic)
        self.lib.tilec_version.restype = C.c_char_p
        self.lib.tilec_kernel_target.restype = C.c_char_p
        self.lib.tilec_attention_kernel.restype = C.c_void_p
        options = ContextOptions(C.sizeof(ContextOptions), target, 0)
        self.context = C.c_void_p()
        self.lib.tilec_context_new(C.byref(options), C.byref(self.context))

    def why(self):
        d, lines = self.lib.tilec_diagnostics(self.context), []
        while d:
            lines.append("%s:%d: %s" % ((d.contents.file or b"").decode(),
                                        d.contents.line,
                                        d.contents.message.decode()))
            d = d.contents.next
        return "; ".join(lines)

    def attention(self, q, k, v, mask=None, score=None, bindings=(), warps=0,
                  stages=0, captured=()):
        """A function that runs it on torch's current stream; captured: (name,
        tensor) pairs that the mods read."""
        o = torch.empty(*q.shape[:3], v.shape[3], device="cuda", dtype=q.dtype)
        lse = torch.empty(*q.shape[:3], device="cuda", dtype=torch.float32)
        views = {n: View(t) for n, t in
                 dict(q=q, k=k, v=v, o=o, lse=lse).items()}
        pairs = (Binding * len(bindings))(
            *[Binding(n.encode(), str(x).encode()) for n, x in bindings])
        held = [View(t) for _, t in captured]
        buffers = (Argument * len(held))(
            *[Argument(n.encode(), 0, view.ref, 0, 0.0)
              for (n, _), view in zip(captured, held)])
        options = AttentionOptions(
            C.sizeof(AttentionOptions), None, 0.0,
            mask.encode() if mask else None, score.encode() if score else None,
            None, 0, None, None, pairs, len(bindings), warps, stages)
        plan = C.c_void_p()
        if self.lib.tilec_attention_plan(
                self.context, views["q"].ref, views["k"].ref, views["v"].ref,
                C.byref(options), C.byref(plan)):
            raise RuntimeError(self.why())
        tensors = AttentionTensors(C.sizeof(AttentionTensors),
                                   *[views[n].ref for n in
                                     ("q", "k", "v", "o", "lse")],
                                   buffers, len(held))
        launch = LaunchOptions(C.sizeof(LaunchOptions), None, 0, None, None,
                               None)
        error = Error()

        def run(keep=(views, held)):
            launch.stream = torch.cuda.current_stream().cuda_stream
            if self.lib.tilec_attention_forward(plan, C.byref(tensors),
                                                C.byref(launch),
                                                C.byref(error)):
                raise RuntimeError(error.message.decode())
            return o

        run.plan = plan
        return run

    def kernel(self, name, arguments, bindings=(), warps=0, stages=0,
               ptxas_level=0):
        """Compiles an embedded kernel for these (name, tensor) arguments."""
        views = [View(t) for _, t in arguments]
        args = (Argument * len(views))(
            *[Argument(n.encode(), 0, view.ref, 0, 0.0)
              for (n, _), view in zip(arguments, views)])
        pairs = (Binding * len(bindings))(
            *[Binding(n.encode(), str(x).encode()) for n, x in bindings])
        source = Source(name.encode(), None, 0)
        options = CompileOptions(
            size=C.sizeof(CompileOptions), kernel=None, target=None,
            bindings=pairs, nbindings=len(bindings), examples=args,
            nexamples=len(views), warps=warps, stages=stages,
            ptxas_level=ptxas_level)
        kernel = C.c_void_p()
        if self.lib.tilec_compile(self.context, C.byref(source),
                                  C.c_size_t(1), C.byref(options),
                                  C.byref(kernel)):
            raise RuntimeError(self.why())
        launch = LaunchOptions(C.sizeof(LaunchOptions), None, 0, None, None,
                               None)
        error = Error()

        def run(keep=views):
            launch.stream = torch.cuda.current_stream().cuda_stream
            if self.lib.tilec_launch(kernel, args, C.c_size_t(len(views)),
                                     C.byref(launch), C.byref(error)):
                raise RuntimeError(error.message.decode())

        return run


# ---- Cases ----


def heads(b, h, s, d, hk=None, causal=False, dv=None, mod=None):
    return dict(kind="attention", B=b, H=h, S=s, D=d, DV=dv or d, HK=hk or h,
                causal=causal, mod=mod)


def tokens(s, d, causal=False, mod=None):
    """16384 tokens in all, 2048 wide."""
    return heads(16384 // s, 2048 // d, s, d, causal=causal, mod=mod)


SETS = {
    "forward": [heads(*shape, causal=c) for shape in
                ((4, 32, 4096, 64), (4, 16, 4096, 128), (4, 8, 4096, 256),
                 (4, 32, 4096, 128, 8)) for c in (False, True)],
    "small": [heads(2, 16, 512, 64)],
    "matmul": [dict(kind="matmul", M=4096, N=4096, K=4096)],
    "hopper": [tokens(s, d, c) for d in (64, 128, 256)
               for c in (False, True) for s in (1024, 4096, 16384)] +
              [heads(4, 16, 4096, 192, 4, c, dv=128) for c in (False, True)],
    "mods": [tokens(s, d, mod=m) for d in (64, 128) for s, m in (
        (4096, None), (4096, "alibi"), (4096, "relative_bias"),
        (4096, "soft_cap"), (16384, "sliding_window"), (16384, None))],
    "matmul8k": [dict(kind="matmul", M=8192, N=8192, K=8192)],
    "quick": [heads(1, 8, 1024, 64), heads(1, 8, 1000, 128, causal=True)],
}
SETS["all"] = SETS["forward"] + SETS["small"] + SETS["matmul"]


def flops(case):
    if case["kind"] == "matmul":
        return 2 * case["M"] * case["N"] * case["K"]
    f = 2 * case["B"] * case["H"] * case["S"] ** 2 * (case["D"] + case["DV"])
    return f / 2 if case["causal"] else f


def label(case):
    if case["kind"] == "matmul":
        return "matmul %dx%dx%d" % (case["M"], case["N"], case["K"])
    h = "%d" % case["H"]
    if case["HK"] != case["H"]:
        h += "/%d" % case["HK"]
    d = "%d" % case["D"]
    if case["DV"] != case["D"]:
        d += "/%d" % case["DV"]
    return "%dx%sx%dx%s %s" % (case["B"], h, case["S"], d, case.get("mod") or
                               ("causal" if case["causal"] else "full"))


WINDOW, CAP = 1024, 20.0


def mods_of(case):
    """(tilec's mask, its score, captured), (torch's mask_mod, score_mod)."""
    mod = case.get("mod")
    if mod == "alibi":
        slopes = 2.0 ** (-8.0 * torch.arange(
            1, case["H"] + 1, device="cuda", dtype=torch.float32) / case["H"])
        return ((None, "alibi", [("score.slopes", slopes)]),
                (None, lambda s, b, h, i, j: s + slopes[h] * (j - i)))
    if mod == "relative_bias":
        return ((None, mod, []), (None, lambda s, b, h, i, j: s + (i - j)))
    if mod == "soft_cap":
        return ((None, "soft_cap(cap=%g)" % CAP, []),
                (None, lambda s, b, h, i, j: CAP * torch.tanh(s / CAP)))
    if mod == "sliding_window":
        return (("sliding_window(w=%d)" % WINDOW, None, []),
                (lambda b, h, i, j: (i >= j) & (i - j < WINDOW), None))
    if case["causal"]:
        return ("causal", None, []), (lambda b, h, i, j: i >= j, None)
    return (None, None, []), (None, None)


def reference(q, k, v, mods, b, h):
    """Float32 attention of one head, some rows at a time."""
    mask_mod, score_mod = mods
    g = q.shape[1] // k.shape[1]
    kf, vf = k[b, h // g].float(), v[b, h // g].float()
    j, parts = torch.arange(k.shape[2], device="cuda")[None], []
    for begin in range(0, q.shape[2], 2048):
        rows = q[b, h, begin:begin + 2048].float()
        i = begin + torch.arange(rows.shape[0], device="cuda")[:, None]
        s = rows @ kf.T / math.sqrt(q.shape[3])
        if score_mod:
            s = score_mod(s, b, h, i, j)
        if mask_mod:
            s = torch.where(mask_mod(b, h, i, j), s, -math.inf)
        parts.append(s.softmax(-1) @ vf)
    return torch.cat(parts)


def attention_contenders(case, tilec, dtype):
    """{name: function}, and a function that gives the error of an output."""
    B, H, S, D = (case[n] for n in "BHSD")
    q = torch.randn(B, H, S, D, device="cuda", dtype=dtype)
    k = torch.randn(B, case["HK"], S, D, device="cuda", dtype=dtype)
    v = torch.randn(B, case["HK"], S, case["DV"], device="cuda", dtype=dtype)
    causal, gqa = case["causal"], case["HK"] != H
    ours, theirs = mods_of(case)
    torch.backends.cuda.matmul.allow_tf32 = False
    some = [(0, 0), (B - 1, H - 1)]
    want = [reference(q, k, v, theirs, b, h) for b, h in some]

    def error(o):
        return max(((o[b, h].float() - w).norm() / w.norm()).item()
                   for (b, h), w in zip(some, want))

    def sdpa(backend):
        def run():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(
                    q, k, v, is_causal=causal, enable_gqa=gqa)
        return run

    def flex():
        compiled = torch.compile(flex_attention, dynamic=False)
        mask = create_block_mask(theirs[0], None, None, S, S,
                                 device="cuda") if theirs[0] else None
        return lambda: compiled(q, k, v, score_mod=theirs[1], block_mask=mask,
                                enable_gqa=gqa)

    makers = {"tilec": lambda: tilec.attention(q, k, v, ours[0], ours[1],
                                               captured=ours[2]),
              "flex": flex}
    if not case.get("mod"):
        makers["cudnn"] = lambda: sdpa(SDPBackend.CUDNN_ATTENTION)
        makers["fa2"] = lambda: sdpa(SDPBackend.FLASH_ATTENTION)
    return makers, error


def matmul_contenders(case, tilec, dtype):
    a = torch.randn(case["M"], case["K"], device="cuda", dtype=dtype)
    b = torch.randn(case["K"], case["N"], device="cuda", dtype=dtype)
    want = a[:64].float() @ b.float()

    def error(c):
        return ((c[:64].float() - want).norm() / want.norm()).item()

    def ours():
        c = torch.empty(case["M"], case["N"], device="cuda", dtype=dtype)
        run = tilec.kernel("matmul", [("a", a), ("b", b), ("c", c)])
        return lambda: (run(), c)[1]

    return {"tilec": ours, "cublas": lambda: (lambda: a @ b)}, error


# ---- Timing ----


class Turn:
    """A CUDA graph of several launches."""

    def __init__(self, run, target_ms):
        self.run = run  # holds the tensors that the graph reads and writes
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.output = run()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        once = self.time_of(lambda: run())
        self.n = max(2, min(200, int(target_ms / max(once, 1e-3))))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for _ in range(self.n):
                self.output = run()
        self.graph.replay()
        torch.cuda.synchronize()

    @staticmethod
    def time_of(f):
        start = torch.cuda.Event(enable_timing=True)
        stop = torch.cuda.Event(enable_timing=True)
        start.record()
        f()
        stop.record()
        torch.cuda.synchronize()
        return start.elapsed_time(stop)

    def microseconds(self):
        return 1e3 * self.time_of(self.graph.replay) / self.n


def run_case(case, tilec, args):
    make = (matmul_contenders if case["kind"] == "matmul"
            else attention_contenders)
    makers, error_of = make(case, tilec, torch.bfloat16)
    turns, failures, errors = {}, {}, {}
    for name, maker in makers.items():
        if args.contenders and name not in args.contenders:
            continue
        try:
            turn = Turn(maker(), args.turn_ms)
            errors[name] = error_of(turn.output)
            if not errors[name] < 1e-2:
                raise RuntimeError("output is wrong: relative error %.3g"
                                   % errors[name])
            turns[name] = turn
        except Exception as e:  # a peer without such a kernel
            failures[name] = str(e).splitlines()[0][:300]
    times = {name: [] for name in turns}
    order = list(turns)
    for i in range(args.rounds):
        shift = i % max(1, len(order))
        for name in order[shift:] + order[:shift]:
            times[name].append(turns[name].microseconds())
    return dict(case=case, label=label(case), flops=flops(case),
                microseconds=times, errors=errors, failures=failures,
                median={n: statistics.median(t) for n, t in times.items()})


def table_of(rows):
    names = []
    for row in rows:
        names += [n for n in row["median"] if n not in names]
        names += [n for n in row["failures"] if n not in names]
    lines = ["| case | " + " | ".join(n + " TFLOP/s" for n in names) + " | " +
             " | ".join("tilec / " + n for n in names if n != "tilec") + " |",
             "|" + "---|" * (2 * len(names))]
    for row in rows:
        m = row["median"]
        cells = ["%.0f" % (row["flops"] / m[n] / 1e6) if n in m else "-"
                 for n in names]
        ratios = ["%.2f" % (m[n] / m["tilec"])
                  if n in m and "tilec" in m else "-"
                  for n in names if n != "tilec"]
        lines.append("| " + " | ".join([row["label"]] + cells + ratios) + " |")
    return "\n".join(lines) + "\n"


def commit():
    try:
        return subprocess.run(["git", "rev-parse", "HEAD"], check=True,
                              capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--lib", required=True, help="libtilec.so")
    p.add_argument("--target", default="auto")
    p.add_argument("--set", default="all", choices=sorted(SETS))
    p.add_argument("--only", help="cases whose label holds this text")
    p.add_argument("--contenders", type=lambda s: s.split(","))
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--turn-ms", type=float, default=20.0)
    p.add_argument("--commit", default=commit(),
                   help="what the library was built from")
    p.add_argument("--json", help="where all figures go")
    p.add_argument("--table", help="where the table goes, else to stdout")
    args = p.parse_args()
    torch.manual_seed(int(datetime.datetime.now().timestamp()))
    tilec = Tilec(args.lib, args.target.encode())
    rows = []
    for case in SETS[args.set]:
        if args.only and args.only not in label(case):
            continue
        rows.append(run_case(case, tilec, args))
        row = rows[-1]
        print("%-28s %s %s" % (row["label"], {
            n: "%.1f us, %.0f TFLOP/s, error %.1e" %
            (t, row["flops"] / t / 1e6, row["errors"][n])
            for n, t in row["median"].items()}, row["failures"] or ""),
            file=sys.stderr, flush=True)
        torch.cuda.empty_cache()
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(dict(
                date=datetime.datetime.now(datetime.timezone.utc).isoformat(),
                commit=args.commit, gpu=torch.cuda.get_device_name(),
                torch=torch.__version__,
                cudnn=torch.backends.cudnn.version(),
                tilec=tilec.lib.tilec_version().decode(),
                command=sys.argv, rows=rows), f, indent=1)
    table = table_of(rows)
    if args.table:
        with open(args.table, "w", encoding="utf-8") as f:
            f.write(table)
    else:
        print(table)
    failed = [r["label"] for r in rows if "tilec" not in r["median"]]
    if failed:
        sys.exit("tilec failed in: " + ", ".join(failed))


if __name__ == "__main__":
    main()
