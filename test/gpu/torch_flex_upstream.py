# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own tests of FlexAttention, run on tilec.

    torch_flex_upstream.py PYTORCH/test/inductor [-n WORKERS] [--device cpu]

loads test_flex*.py of a PyTorch checkout, puts tilec in the place of what they
test, runs each case in a worker process (-n 0: in this one) and prints a table of the cases that
do not pass and the counts. Nothing of PyTorch's code is part of this program.

A case runs once for each front:

    compile   flex_attention is torch's: eager calls are the reference, what
              torch.compile compiles runs on tilec. create_block_mask is tilec's
    call      flex_attention is tilec's function, but in float64, where it is
              the reference of the tests. What is compiled runs on tilec too
    torch     nothing is replaced: what torch itself passes

and passes if it passes with all of them. torch_flex_upstream.txt names cases
that test something else than attention, or that tilec refuses, with reasons.
On the CPU the cases for GPUs run as if it were one.
"""
import argparse
import collections
import fnmatch
import json
import os
import re
import select
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = ("test_flex_attention.py", "test_flex_decoding.py")
LAST = 10  # seconds that cases may take when the budget is spent
TABLE = os.path.join(HERE, "torch_flex_upstream.txt")

# ---- In a worker ----

# For a machine without a GPU: what the files ask, and the answer.
_AS_IF_CUDA = (
    (r"\.cuda\(\)", ""),
    (r"torch\.cuda\.is_available\(\)", "True"),
    (r"torch\.cuda\.get_device_capability\(\)", "(9, 0)"),
    (r"(torch\.utils\._triton\.)?has_triton\(\)", "True"),
    (r"\bPLATFORM_SUPPORTS_BF16\b(?!,)(?=\s+else|\s*\n\s+else)", "True"),
)


def _source(path, device):
    with open(path) as f:
        text = f.read()
    if device == "cpu":
        # A device without a number compares equal to tensors' own, and unequal
        # to "cpu", for which the files leave gradients out.
        own = '"cpu:0"' if "instantiate_device_type" in text else \
            'torch.device("cpu")'
        text = text.replace('"cuda"', own)
        for what, by in _AS_IF_CUDA:
            text = re.sub(what, by, text)
    return text


def _as_if_cuda():
    """The tests' own tests of the machine, answered."""
    from torch.testing._internal import common_device_type as kinds
    kinds.flex_attention_supported_platform = lambda test: test

    class OnCpu(kinds.DeviceTypeTestBase):
        device_type = "cuda"

        @classmethod
        def get_primary_device(cls):
            return "cpu:0"

        @classmethod
        def get_all_devices(cls):
            return ["cpu:0"]

    kinds.get_device_type_test_bases = lambda: [OnCpu]
    # torch's definition has gradients on the CPU, and refuses them.
    from torch.nn.attention import flex_attention as theirs
    theirs._validate_device = lambda query, key, value: None


class _Front:
    """What stands for FlexAttention in the files."""

    def __init__(self, name, rest):
        self.name, self.rest = name, rest
        if name == "torch":
            return
        import torch
        from torch._dynamo import testing
        import tilec.flex_attention as ours
        self._compile, self._ours = torch.compile, ours
        self._theirs = torch.nn.attention.flex_attention.flex_attention
        torch.compile = self.compile
        counter, front = testing.CompileCounterWithBackend, self

        class Counter(counter):
            def __init__(self, backend):
                super().__init__(front.backend if backend == "inductor"
                                 else backend)
        testing.CompileCounterWithBackend = Counter

    def backend(self, gm, inputs, **_):
        from tilec.flex_attention import _backend
        return _backend.compile(gm, inputs, options={"rest": self.rest})

    def compile(self, model=None, **how):
        """torch.compile, whose own backend is tilec's."""
        if how.get("backend", "inductor") == "inductor":
            how["backend"] = self.backend
            how.pop("mode", None)
            how.pop("options", None)
        return self._compile(model, **how) if model is not None else \
            lambda f: self._compile(f, **how)

    def attention(self, query, *rest, **named):
        import torch
        if isinstance(query, torch.Tensor) and query.dtype == torch.float64:
            return self._theirs(query, *rest, **named)
        return self._ours.flex_attention(query, *rest, **named)

    def into(self, space):
        if self.name == "torch":
            return
        space["create_block_mask"] = self._ours.create_block_mask
        if self.name == "call":
            space["flex_attention"] = self.attention


def _cases(folder, device, front):
    """{name: (class, method)} of all files."""
    import types
    import unittest
    found = {}
    for name in sorted(os.listdir(folder)):
        if not fnmatch.fnmatch(name, "test_flex*.py"):
            continue
        path = os.path.join(folder, name)
        module = types.ModuleType(name[:-3])
        sys.modules[module.__name__] = module
        module.__file__ = path
        exec(compile(_source(path, device), path, "exec"), module.__dict__)
        front.into(module.__dict__)
        for kind in list(vars(module).values()):
            if isinstance(kind, type) and issubclass(
                    kind, unittest.TestCase) and \
                    kind.__module__ == module.__name__:
                for method in unittest.TestLoader().getTestCaseNames(kind):
                    found["%s.%s.%s" % (module.__name__[10:], kind.__name__,
                                        method)] = kind, method
    return found


def _outcome(kind, method):
    """(class, text) of a case."""
    import unittest
    result = unittest.TestResult()
    try:
        kind(method).run(result)
    finally:
        pass
    if result.skipped:
        return "skipped", result.skipped[0][1]
    if result.errors or result.failures or result.unexpectedSuccesses:
        text = (result.errors + result.failures + [
            (None, "unexpected success")])[0][1]
        return "fails", text
    return "passes", ""


def _loaded(args, front):
    """{name: (class, method)}, in this process."""
    sys.argv = sys.argv[:1]
    import torch
    torch.set_num_threads(1 if args.device == "cuda" else 2)
    if args.device == "cpu":
        _as_if_cuda()
    import warnings
    warnings.simplefilter("ignore")
    return _cases(args.folder, args.device, _Front(front, args.rest))


def worker(args):
    """Reads names of cases, writes a line of JSON for each."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if not args.verbose:
        os.dup2(1, 2)
    cases = _loaded(args, args.front)
    out.write(json.dumps(sorted(cases)) + "\n")
    for line in sys.stdin:
        out.write(json.dumps(_outcome(*cases[line.strip()])) + "\n")


# ---- In the main process ----


class Worker:
    def __init__(self, args, front):
        own = [sys.executable, os.path.abspath(__file__), args.folder,
               "--worker", "--device", args.device, "--front", front,
               "--rest", args.rest]
        self.process = subprocess.Popen(
            own + ["--verbose"] * args.verbose, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)
        self._read = b""
        self.front, self.case, self.since, self.cases = front, None, 0, None

    def start(self, case):
        self.case, self.since = case, time.time()
        self.process.stdin.write(case.encode() + b"\n")
        self.process.stdin.flush()

    def answer(self):
        """A line that is there, or None; "" when the process has ended."""
        data = os.read(self.process.stdout.fileno(), 1 << 20)
        self._read += data
        if b"\n" in self._read:
            line, self._read = self._read.split(b"\n", 1)
            return line.decode()
        return None if data else ""

    def end(self):
        self.process.kill()
        self.process.wait()


# The first parameter, in the names that parametrize makes.
_PARAMETERS = re.compile(r"(?<!test)_(%s)[^.]*$" % "|".join((
    r"b?float\d", "batch:", r"(score_mod|score_mask_mod|head_dims|batch_dims|"
    r"shape|permute_order|[qk]_s)\d", "score_mod_name", r"BLOCK_SIZE(_|\d)",
    "(backend|compile|full_indices|head_dim|mode|page_size)_",
    r"ops_to_save\d")))


def _stem(case):
    """The test without its parameters."""
    return _PARAMETERS.sub("", case)


def chosen(cases, args):
    """The cases to run, in turn one of each test: what a budget leaves out are
    cases of tests that have run."""
    turns, count = [], collections.Counter()
    for c in cases:
        if re.search(args.only, c):
            count[_stem(c)] += 1
            turns.append((count[_stem(c)], c))
    i, n = args.shard
    return [c for turn, c in sorted(turns)
            if not args.each or turn <= args.each][i - 1::n]


def run(args, front):
    """[(case, class, text, seconds)]."""
    began, found = time.time(), []
    first = Worker(args, front)
    line = first.answer()
    while line is None:
        line = first.answer()
    if not line:
        raise SystemExit("torch_flex_upstream: a worker does not start; "
                         "--verbose shows why")
    todo = collections.deque(c for c in chosen(json.loads(line), args)
                             if (front, c) not in args.known)
    first.cases = True
    workers = [first] + [Worker(args, front) for _ in range(
        min(args.n, len(todo)) - 1)]

    def next_for(w):
        late = args.budget and time.time() - began > args.budget
        if todo and not late:
            w.start(todo.popleft())
        else:
            w.case = None

    next_for(first)
    while any(w.case or (not w.cases and todo) for w in workers):
        ready, _, _ = select.select([w.process.stdout for w in workers], [],
                                    [], 1.0)
        for i, w in enumerate(workers):
            ended = None
            if w.process.stdout in ready:
                line = w.answer()
                if line == "":
                    ended = "fails", "the process died, code %s" % (
                        w.process.wait())
                elif line and not w.cases:
                    w.cases = True
                    next_for(w)
                elif line:
                    found.append((w.case, *json.loads(line),
                                  time.time() - w.since))
                    if args.progress:
                        print(*found[-1][:2], last_line(found[-1][2]),
                              file=sys.stderr)
                    next_for(w)
            elif w.case and time.time() - w.since > args.limit:
                ended = "fails", "time limit of %g s" % args.limit
            if ended:
                if w.case:
                    found.append((w.case, *ended, time.time() - w.since))
                w.end()
                workers[i] = Worker(args, front)
        if args.budget and time.time() - began > args.budget + LAST:
            break
    for w in workers:
        w.end()
        if w.case:
            todo.append(w.case)
    found += [(c, "not run", "", 0) for c in todo]
    return found


def run_here(args, front):
    """The same without workers, and so without a limit of a case's time."""
    cases, began, found = _loaded(args, front), time.time(), []
    for case in chosen(sorted(cases), args):
        if (front, case) in args.known:
            continue
        since = time.time()
        if args.budget and since - began > args.budget:
            found.append((case, "not run", "", 0))
            continue
        found.append((case, *_outcome(*cases[case]), time.time() - since))
        if args.progress:
            print(*found[-1][:2], last_line(found[-1][2]), file=sys.stderr)
    return found


def table():
    """[(class, pattern, reason)] of torch_flex_upstream.txt."""
    rows = []
    with open(TABLE) as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                rows.append(line.strip().split(None, 2))
    return rows


def last_line(text):
    """Of a traceback: the line that names the error."""
    lines = [x.strip() for x in text.strip().splitlines() if x.strip()]
    lines = [x for x in lines if not x.startswith((
        "To execute", "This message", "python ", "Set TORCH", "from user code",
        "File "))]
    named = [x for x in lines if re.match(r"[\w.]*(Error|Exception|Failed|"
                                          r"Unsupported|Warning)\b", x)]
    return (named or lines or [""])[-1][:200]


def judge(outcomes):
    """One row a case: (case, class, reason), of its outcomes with all fronts.
    """
    rows, kinds = [], table()
    for case, all_of in sorted(outcomes.items()):
        classes = {c for _, c, _ in all_of}
        texts = ["%s: %s" % (front, last_line(text))
                 for front, c, text in all_of if c == "fails"]
        named = next((r for r in kinds if fnmatch.fnmatch(case, r[1])), None)
        if "not run" in classes:
            rows.append((case, "not run", ""))
        elif "fails" in classes:
            rows.append((case, named[0], named[2]) if named else
                        (case, "fails", " | ".join(texts)))
        elif "skipped" in classes:
            rows.append((case, "skipped", ""))
        else:
            rows.append((case, "passes", ""))
    return rows


def report(rows, grouped):
    counts = collections.Counter(c for _, c, _ in rows)
    groups = collections.OrderedDict()
    for case, kind, reason in rows:
        if kind not in ("passes", "skipped", "not run"):
            key = (kind, _stem(case), reason) if grouped else \
                (kind, case, reason)
            groups.setdefault(key, []).append(case)
    for (kind, case, reason), cases in groups.items():
        print("%-9s %s%s: %s" % (kind, case, " (%d)" % len(cases)
                                 if len(cases) > 1 else "", reason))
    print(", ".join("%s %d" % x for x in sorted(counts.items())))
    ran = sum(counts.values()) - counts["skipped"] - counts["not run"]
    own = ran - counts["internals"]
    for what, n in (("of all cases", ran), ("without internals", own)):
        if n:
            print("passes %s: %d of %d, %.1f %%" % (
                what, counts["passes"], n, 100.0 * counts["passes"] / n))


def _shard(text):
    i, n = text.split("/")
    return int(i), int(n)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("folder")
    p.add_argument("-n", type=int, default=2, help="worker processes; 0: all "
                   "cases of one front run in this process")
    p.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    p.add_argument("--front", default="compile,call",
                   help="compile, call, torch, or several with commas")
    p.add_argument("--rest", default="aot_eager",
                   help="the backend of the graphs' other operators")
    p.add_argument("--only", default="", help="a regular expression")
    p.add_argument("--each", type=int, help="at most so many of each test")
    p.add_argument("--shard", type=_shard, default=(1, 1), help="i/n")
    p.add_argument("--limit", type=float, default=120, help="seconds a case")
    p.add_argument("--budget", type=float, default=0,
                   help="seconds after which no case starts, of each front")
    p.add_argument("--grouped", action="store_true",
                   help="a line a test and reason, not a case")
    p.add_argument("--out", help="a file for all outcomes, JSON")
    p.add_argument("--done", action="append", default=[],
                   help="a file that --out has written: what passed there is "
                   "counted, and does not run again")
    p.add_argument("--progress", action="store_true",
                   help="a line to stderr as soon as a case has run")
    p.add_argument("--verbose", action="store_true")
    p.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.worker:
        return worker(args)
    if not args.n and "," in args.front:
        p.error("-n 0 runs one front, --front names %s" % args.front)
    outcomes, raw = collections.OrderedDict(), []
    for name in args.done:
        with open(name) as f:
            raw += [x for x in json.load(f) if x[2] == "passes"]
    for front, case, kind, text, _ in raw:
        outcomes.setdefault(case, []).append((front, kind, text))
    args.known = {tuple(x[:2]) for x in raw}
    for front in args.front.split(","):
        for case, kind, text, seconds in (run if args.n else run_here)(
                args, front):
            outcomes.setdefault(case, []).append((front, kind, text))
            raw.append((front, case, kind, text, seconds))
        if args.out:
            with open(args.out, "w") as f:
                json.dump(raw, f)
    report(judge(outcomes), args.grouped)


if __name__ == "__main__":
    main()
