# SPDX-License-Identifier: Apache-2.0
"""lsp.py TILEC: dialogues with `tilec lsp`, from initialize to rename."""
import json
import subprocess
import sys

URI = "file:///f.tile"
TEXT = """func @twice(%x: f32) -> f32 {
  // \U0001d400 two UTF-16 units
  %y = %x + %x /**/
  return %y
}
func @four(%x: f32) -> f32 {
  %a = call @twice(%x)
  return @twice(%a)
}
""".replace(" /**/", "").replace("call @twice", "@twice")
DOCUMENT = {"uri": URI}


def frame(message):
    data = message if isinstance(message, bytes) else json.dumps(
        message).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(data), data)


def talk(*frames):
    """The messages that the server sends, and its exit code."""
    done = subprocess.run([sys.argv[1], "lsp"], input=b"".join(frames),
                          capture_output=True, check=False)
    rest, answers = done.stdout, []
    while rest:
        head, rest = rest.split(b"\r\n\r\n", 1)
        n = int(head.split(b":")[1])
        answers.append(json.loads(rest[:n]))
        rest = rest[n:]
    assert not done.stderr, done.stderr
    return answers, done.returncode


def ask(number, method, **params):
    return frame({"jsonrpc": "2.0", "id": number, "method": method,
                  "params": params})


def tell(method, **params):
    return frame({"jsonrpc": "2.0", "method": method, "params": params})


def at(line, character):
    return {"textDocument": DOCUMENT,
            "position": {"line": line, "character": character}}


def change(*changes):
    return tell("textDocument/didChange", textDocument=DOCUMENT,
                contentChanges=list(changes))


def opened(text, *frames):
    """Answers by their number, and what was published."""
    answers, code = talk(
        ask(0, "initialize"),
        tell("textDocument/didOpen", textDocument={"uri": URI, "text": text}),
        *frames, ask(99, "shutdown"), tell("exit"))
    assert code == 0, code
    return ({a["id"]: a for a in answers if "id" in a},
            [a["params"]["diagnostics"] for a in answers if "method" in a])


def starts(ranges):
    return [(r["start"]["line"], r["start"]["character"]) for r in ranges]


def check_symbols():
    replies, published = opened(
        TEXT, ask(1, "textDocument/hover", **at(2, 3)),
        ask(2, "textDocument/definition", **at(2, 8)),
        ask(3, "textDocument/references", **at(0, 13)),
        ask(4, "textDocument/rename", newName="z", **at(2, 3)),
        ask(5, "textDocument/rename", newName="two", **at(7, 12)),
        ask(6, "textDocument/completion", **at(3, 10)),
        ask(7, "textDocument/hover", **at(3, 4)),
        ask(8, "textDocument/rename", newName="a b", **at(2, 3)))
    assert published == [[]], published
    assert replies[1]["result"]["contents"]["value"] == "%y: f32", replies[1]
    assert starts(r["range"] for r in replies[2]["result"]) == [(0, 12)]
    # The %x of @four is another one.
    assert starts(r["range"] for r in replies[3]["result"]) == [
        (0, 12), (2, 7), (2, 12)], replies[3]
    edits = replies[4]["result"]["changes"][URI]
    assert starts(e["range"] for e in edits) == [(2, 3), (3, 10)], edits
    edits = replies[5]["result"]["changes"][URI]
    assert starts(e["range"] for e in edits) == [(0, 6), (6, 8), (7, 10)]
    labels = {i["label"] for i in replies[6]["result"]}
    assert {"x", "y"} <= labels and "a" not in labels, labels
    assert "return" in replies[7]["result"]["contents"]["value"]
    assert replies[8]["error"]["code"] == -32602


def check_words():
    replies, _ = opened(TEXT, ask(1, "textDocument/completion", **at(3, 4)),
                        ask(2, "textDocument/completion", **at(6, 12)))
    assert {"return", "exp2", "f32", "kernel"} <= {
        i["label"] for i in replies[1]["result"]}
    assert {i["label"] for i in replies[2]["result"]} == {"twice", "four"}


def check_changes():
    line = {"start": {"line": 1, "character": 5},
            "end": {"line": 1, "character": 7}}
    name = {"start": {"line": 3, "character": 10},
            "end": {"line": 3, "character": 11}}
    replies, published = opened(
        TEXT, change({"range": line, "text": "B"}),
        change({"range": name, "text": "q"}),
        change({"text": "func @f(%x:f32)->f32{return %x}\n"}),
        ask(1, "textDocument/formatting", textDocument=DOCUMENT),
        ask(2, "textDocument/hover", **at(700, 3)),
        tell("textDocument/didClose", textDocument=DOCUMENT),
        ask(3, "textDocument/hover", **at(0, 0)))
    assert [len(p) for p in published] == [0, 0, 1, 0, 0], published
    error = published[2][0]
    assert error["message"].startswith("%q is not defined"), error
    assert error["range"] == {"start": {"line": 3, "character": 9},
                              "end": {"line": 3, "character": 11}}, error
    text = replies[1]["result"][0]["newText"]
    assert text.startswith("func @f(%x: f32) -> f32 {"), text
    assert replies[2]["result"] is None
    assert replies[3]["error"]["code"] == -32602


def check_bad_input():
    answers, code = talk(ask(1, "textDocument/hover"),
                         b"Content-Length: x\r\n\r\n", frame(b"{"),
                         frame({"id": 2}), ask(3, "initialize"),
                         ask(4, "no/such"), ask(5, "textDocument/hover"),
                         tell("textDocument/didOpen"), frame(b"[1]"),
                         tell("exit"))
    codes = [a["error"]["code"] for a in answers if "error" in a]
    assert codes == [-32002, -32700, -32700, -32600, -32601, -32602,
                     -32600], codes
    assert code == 1


def main():
    check_symbols()
    check_words()
    check_changes()
    check_bad_input()


main()
