# SPDX-License-Identifier: Apache-2.0
"""lsp_changes.py TILEC ROOT [--seed N] [--count N] [--changes N]: after each
change, `tilec lsp` says the same of a text as if it was opened so.

One document gets changes, which the server may analyze in part; another one is
closed and opened with the whole text. Diagnostics, hover, completion,
definition and references of both are the same. Changes are small, and half of
them are taken back. A finding names its seed: `--seed N --count 1` repeats it.
"""
import argparse
import json
import pathlib
import random
import re
import subprocess

CHANGED, OPENED = "file:///fuzz/a/x.tile", "file:///fuzz/b/x.tile"
ABOUT = ["hover", "completion", "definition", "references"]
PIECES = ["%x", "@no_score(1.0)", "(", ")", "{", "}", "\n", " ", "", "//", "\"",
          "  %y = 1 + 2\n", "x", "1", "@f", "\n}\nfunc @g() {\n", "grid",
          "}", "  return\n", ", ", "import \"x.tile\"\n"]


class Server:
    def __init__(self, tilec):
        self.process = subprocess.Popen([tilec, "lsp"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.number = 0
        self.request("initialize", {})

    def send(self, message):
        data = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s"
                                 % (len(data), data))
        self.process.stdin.flush()

    def receive(self):
        head = self.process.stdout.readline()
        n = int(head.split(b":")[1])
        self.process.stdout.readline()
        return json.loads(self.process.stdout.read(n))

    def tell(self, method, **params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def request(self, method, params):
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method,
                   "params": params})
        answer = self.receive()
        assert answer.get("id") == self.number, answer
        return answer

    def diagnostics(self, uri):
        message = self.receive()
        assert message["params"]["uri"] == uri, message
        return message["params"]["diagnostics"]

    def open(self, uri, text):
        self.tell("textDocument/didOpen",
                  textDocument={"uri": uri, "text": text})
        return self.diagnostics(uri)

    def close(self, uri):
        self.tell("textDocument/didClose", textDocument={"uri": uri})
        self.diagnostics(uri)

    def end(self):
        self.request("shutdown", None)
        self.tell("exit")
        self.process.communicate()
        return self.process.returncode


def plain(value):
    """Without the names of the two documents."""
    text = json.dumps(value, sort_keys=True)
    return text.replace("/fuzz/b/", "/fuzz/a/")


def position(text, at):
    """Of a text of ASCII characters."""
    line = text.count("\n", 0, at)
    return {"line": line, "character": at - text.rfind("\n", 0, at) - 1}


class Dialogue:
    def __init__(self, server, seed, text):
        self.server, self.random = server, random.Random(seed)
        self.text = self.kept = text
        server.open(CHANGED, text)
        server.open(OPENED, text)
        bodies = [m.start() for m in re.finditer(r"\{\n", text)]
        self.near = self.random.choice(bodies) if bodies else 0

    def edit(self):
        """from, to, text in its place."""
        r = self.random
        if self.text != self.kept and r.random() < 0.5:
            return 0, len(self.text), self.kept
        if r.random() < 0.2:
            self.near = r.randrange(len(self.text) + 1)
        at = min(len(self.text), max(0, self.near + r.randint(-60, 300)))
        to = min(len(self.text), at + r.choice([0, 0, 1, 2, 8]))
        if r.random() < 0.1:
            at = self.text.rfind("\n", 0, at) + 1
            to = self.text.find("\n", at) + 1 or len(self.text)
        return at, to, r.choice(PIECES)

    def change(self):
        at, to, piece = self.edit()
        self.server.tell(
            "textDocument/didChange", textDocument={"uri": CHANGED},
            contentChanges=[{"range": {"start": position(self.text, at),
                                       "end": position(self.text, to)},
                             "text": piece}])
        self.text = self.text[:at] + piece + self.text[to:]
        changed = self.server.diagnostics(CHANGED)
        self.server.close(OPENED)
        opened = self.server.open(OPENED, self.text)
        if not opened and self.random.random() < 0.5:
            self.kept = self.text
        return self.differs("diagnostics", changed, opened)

    def differs(self, what, changed, opened):
        if plain(changed) == plain(opened):
            return None
        return "%s of\n%s\nafter a change:\n%s\nopened:\n%s" % (
            what, self.text, plain(changed), plain(opened))

    def ask(self):
        what = self.random.choice(ABOUT)
        at = min(len(self.text), max(0, self.near + self.random.randint(0, 300)))
        answers = [self.server.request("textDocument/" + what, {
            "textDocument": {"uri": uri}, "position": position(self.text, at)})
            for uri in (CHANGED, OPENED)]
        for a in answers:
            if what == "hover" and a.get("result"):
                # A wrong text keeps what its last compile said.
                contents = a["result"]["contents"]
                contents["value"] = contents["value"].split("\n\n@")[0]
        return self.differs(what + " at %d" % at, answers[0].get("result"),
                            answers[1].get("result"))

    def run(self, changes):
        for _ in range(changes):
            problem = self.change()
            if not problem and self.random.random() < 0.5:
                problem = self.ask()
            if problem:
                return problem
        self.server.close(CHANGED)
        self.server.close(OPENED)
        return None


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tilec")
    p.add_argument("root", type=pathlib.Path)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=12)
    p.add_argument("--changes", type=int, default=40)
    o = p.parse_args()
    paths = sorted(o.root.glob("kernels/**/*.tile"))
    texts = [t for t in (path.read_text() for path in paths) if t.isascii()]
    for seed in range(o.seed, o.seed + o.count):
        server = Server(o.tilec)
        text = random.Random(seed).choice(texts)
        problem = Dialogue(server, seed, text).run(o.changes)
        if problem or server.end():
            print("seed %d: %s" % (seed, problem or "the server ends badly"))
            return 1
    return 0


raise SystemExit(main())
