# SPDX-License-Identifier: Apache-2.0
"""lsp.py TILEC ROOT [--seed N] [--count N] [--messages N]: random dialogues
with `tilec lsp`.

Each dialogue opens texts of the repository, edits them at random places, asks
about random places, and sends messages that are wrong in form. The server
answers each request once, in JSON, and ends by `exit` with the status that the
protocol asks for; it writes nothing to standard error, as sanitizers do. A
finding names its seed: `--seed N --count 1` repeats it.
"""
import argparse
import json
import pathlib
import random
import subprocess

URI = "file:///fuzz/%d.tile"
ABOUT = ["hover", "definition", "references", "rename", "completion",
         "formatting", "nothing"]
PIECES = ["%x", "@f", "@causal", "(", ")", "{", "}", "[", "]", "\n", "\r\n",
          " ", "", "import \"0.tile\"\n", "func @f(%x: f32) -> f32 {\n", "\"",
          "tile<64x64 x f32>", ">>", "//", "\t", ":", "=", ",", "12e9", "0x",
          "\u00e9", "\U0001d400", "#mma", "kernel", "params @p", "*@p", "yield",
          "for %i in 0, 4 {", "%y = %x + %x\n", "\ufeff", "max", ";"]
WRONG = [None, True, -1, 1e99, "", "x", [], {}, [1], {"line": -1},
         {"line": 3, "character": 1e18}]
NAMES = ["y", "%z", "@f", "for", "exp2", "", "a b", "\u00e9", "x1"]


def frame(data):
    return b"Content-Length: %d\r\n\r\n%s" % (len(data), data)


class Dialogue:
    """Messages of one seed, and the numbers of those that are answered."""

    def __init__(self, seed, texts, messages):
        self.random = random.Random(seed)
        self.frames, self.asked = [], []
        self.lines = {}
        self.request("initialize", {})
        for i in range(self.random.randint(1, 3)):
            self.open(i, self.random.choice(texts))
        for _ in range(messages):
            self.random.choices(
                [self.change, self.about, self.wrong, self.others],
                [10, 10, 2, 1])[0](texts)
        self.request("shutdown", None)
        self.tell("exit", None)

    def send(self, message):
        self.frames.append(frame(json.dumps(message).encode()))

    def tell(self, method, params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def request(self, method, params):
        self.asked.append(len(self.asked))
        self.send({"jsonrpc": "2.0", "id": self.asked[-1], "method": method,
                   "params": params})

    def open(self, i, text):
        self.lines[i] = text.count("\n")
        self.tell("textDocument/didOpen",
                  {"textDocument": {"uri": URI % i, "text": text}})

    def place(self, i):
        return {"line": self.random.randint(0, self.lines.get(i, 0) + 1),
                "character": self.random.choice([0, 2, 3, 7, 11, 20, 90])}

    def change(self, texts):
        r = self.random
        i = r.randint(0, 2)
        changes = []
        for _ in range(r.randint(1, 3)):
            start, text = self.place(i), r.choice(PIECES)
            end = dict(start, character=start["character"] + r.randint(0, 5))
            if r.random() < 0.1:
                end = self.place(i)
            if r.random() < 0.02:
                changes.append({"text": r.choice(texts)})
            else:
                changes.append({"range": {"start": start, "end": end},
                                "text": text})
        self.tell("textDocument/didChange",
                  {"textDocument": {"uri": URI % i}, "contentChanges": changes})

    def about(self, _):
        i = self.random.randint(0, 2)
        self.request("textDocument/" + self.random.choice(ABOUT),
                     {"textDocument": {"uri": URI % i},
                      "position": self.place(i),
                      "newName": self.random.choice(NAMES)})

    def others(self, texts):
        i = self.random.randint(0, 2)
        if self.random.random() < 0.5:
            self.tell("textDocument/didSave", {"textDocument": {"uri": URI % i}})
        else:
            self.tell("textDocument/didClose",
                      {"textDocument": {"uri": URI % i}})
            self.open(i, self.random.choice(texts))

    def wrong(self, _):
        """No request among them: answers to others stay in order."""
        r = self.random
        self.frames.append(r.choice([
            frame(bytes(r.randrange(256) for _ in range(r.randint(0, 40)))),
            b"Content-Length: -5\r\n\r\n", b"Content-Length: x\r\n\r\n",
            b"X-Other: 1\r\nContent-Length: 2\r\n\r\n{}",
            frame(b"{\"method\": 1, \"id\": {}}"),
            frame(b"[" * r.randint(1, 2000))]))
        self.tell("textDocument/" + r.choice(["didChange", "didOpen",
                                              "didClose", "didSave"]),
                  r.choice([r.choice(WRONG),
                            {"textDocument": r.choice(WRONG),
                             "contentChanges": r.choice(WRONG)},
                            {"textDocument": {"uri": URI % 0},
                             "contentChanges": [r.choice(WRONG), {
                                 "range": r.choice(WRONG), "text": "x"}]}]))


def answers_of(data):
    """The messages in what the server wrote."""
    while data:
        head, data = data.split(b"\r\n\r\n", 1)
        name, n = head.split(b":")
        assert name == b"Content-Length", head
        yield json.loads(data[:int(n)].decode())
        data = data[int(n):]


def problem_of(tilec, dialogue):
    """None: the server did what it should."""
    limit = 600  # a dialogue takes a second; a server that hangs is ended
    try:
        done = subprocess.run([tilec, "lsp"], input=b"".join(dialogue.frames),
                              capture_output=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"no end within {limit} s"
    if done.returncode or done.stderr:
        return f"status {done.returncode}: {done.stderr.decode()[:4000]}"
    try:
        answers = list(answers_of(done.stdout))
    except ValueError as e:
        return f"an answer is no JSON: {e}"
    got = [a["id"] for a in answers if isinstance(a.get("id"), int)]
    if got != dialogue.asked:
        return f"answers to {got}, expected {dialogue.asked}"
    for a in answers:
        kinds = ("result" in a) + ("error" in a) + ("method" in a)
        if kinds != 1 or ("error" in a and not a["error"]["message"]):
            return f"neither a result nor an error: {a}"
    return None


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tilec")
    p.add_argument("root", type=pathlib.Path)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=20)
    p.add_argument("--messages", type=int, default=60)
    o = p.parse_args()
    texts = [f.read_text(encoding="utf-8")
             for folder in ("kernels", "test/ir/roundtrip")
             for f in sorted((o.root / folder).rglob("*.tile"))]
    texts += ["", "\n", "func", "import \"1.tile\"\nfunc @g() {\n}\n"]
    assert len(texts) > 10, "the repository's texts are not there"
    for seed in range(o.seed, o.seed + o.count):
        problem = problem_of(o.tilec, Dialogue(seed, texts, o.messages))
        if problem:
            raise SystemExit(f"seed {seed}: {problem}")
    print(f"{o.count} dialogues of {o.messages} messages")


main()
