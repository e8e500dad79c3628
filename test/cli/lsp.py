# SPDX-License-Identifier: Apache-2.0
"""lsp.py TILEC: dialogues with `tilec lsp`, from initialize to rename."""
import json
import pathlib
import subprocess
import sys
import tempfile

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
    labels = {i["label"] for i in replies[2]["result"]}
    assert {"twice", "four"} <= labels and "exp2" not in labels, labels


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


GRID = """func @count(%n: i32) -> i32 {
  %y = %n + 1
  return %y
}
kernel @k(%a: tensor<[?] x f32>) grid(@count(size(%a, 0))) {
  %t = load %a[0 +: 64] boundary(0) pad(0)
  store %a[0 +: 64], %t boundary(0)
}
"""


def replace(text, line, old, new):
    start = text.split("\n")[line].index(old)
    return change({"range": {
        "start": {"line": line, "character": start},
        "end": {"line": line, "character": start + len(old)}}, "text": new})


def check_other_bodies():
    """A change in one body may make an error of another one."""
    _, published = opened(TEXT, replace(TEXT, 2, "%x + %x", "@four(%x)"),
                          change({"text": TEXT}))
    assert [len(p) for p in published] == [0, 2, 0], published
    assert "calls itself" in published[1][0]["message"], published
    _, published = opened(
        GRID, replace(GRID, 1, "%y", "%t = range(64)\n  %y"))
    assert [len(p) for p in published] == [0, 1], published
    assert "cannot be called in a grid" in published[1][0]["message"], published


def check_one_body():
    """After a change in one body the others are known too."""
    replies, published = opened(
        TEXT, replace(TEXT, 2, "+", "*\n    "),
        ask(1, "textDocument/hover", **at(7, 3)),
        ask(2, "textDocument/references", **at(0, 8)),
        replace(TEXT, 0, "@twice", "@once"),
        change({"text": TEXT}),
        replace(TEXT, 6, "%a", "%b"),
        ask(3, "textDocument/completion", **at(7, 17)))
    assert [len(p) for p in published] == [0, 0, 2, 0, 1], published
    assert replies[1]["result"]["contents"]["value"] == "%a: f32", replies[1]
    assert len(replies[2]["result"]) == 3, replies[2]
    assert {i["label"] for i in replies[3]["result"]} == {"x", "b"}, replies[3]


KERNEL = """kernel @k[BK: int](%a: tensor<[?, ?] x bf16>,
           %b: tensor<[?, ?] x bf16>, %c: tensor<[?, ?] x f32>) grid(1) {
  %zero = splat(0.0, tile<128x128 x f32>)
  %sum = for %i = 0 to size(%a, 1) step BK carry(%acc = %zero) {
    %at = load %a[0 +: 128, %i +: BK] boundary(0, 1) pad(0)
    %bt = load %b[%i +: BK, 0 +: 128] boundary(0, 1) pad(0)
    %next = dot(%at, %bt, %acc)
    yield %next
  }
  store %c[0 +: 128, 0 +: 128], %sum boundary(0, 1)
}
"""


def compiled(options, *frames):
    answers, _ = talk(
        ask(0, "initialize", initializationOptions=options),
        tell("textDocument/didOpen",
             textDocument={"uri": URI, "text": KERNEL}),
        *frames, ask(99, "shutdown"), tell("exit"))
    return {a["id"]: a["result"]["contents"]["value"] for a in answers
            if 0 < a.get("id", 0) < 99}


def check_compiled():
    """Hover tells layouts and remarks of the last compile."""
    hovers = [ask(1, "textDocument/hover", **at(6, 6)),
              ask(2, "textDocument/hover", **at(4, 12)),
              ask(3, "textDocument/hover", **at(2, 4))]
    wrong = replace(KERNEL, 7, "%next", "%nxt")
    said = compiled({"target": "sm_90a", "bindings": {"BK": "64"}}, *hovers,
                    wrong, ask(4, "textDocument/hover", **at(4, 12)))
    assert said[1].startswith("%next: tile<128x128 x f32>\n\n@k for sm_90a:\n"
                              "tile<128x128 x f32, #mma("), said[1]
    assert "m64k16" in said[1], said[1]
    assert "load of %a made a TMA copy" in said[2], said[2]
    assert said[4] == said[2], "a wrong text: %r" % said[4]
    said = compiled({"target": "sm_80", "bindings": {"BK": "32"}}, *hovers)
    assert "@k for sm_80:" in said[1] and "m16n8k16" in said[1], said[1]
    assert "TMA" not in said[2], said[2]
    for options in (None, {}, {"bindings": ["64"]}, {"target": 90}):
        said = compiled(options, *hovers)
        assert "@k for sm_90a: not compiled: " in said[1], said[1]
    assert "`nothing`" in compiled({"target": "nothing"}, *hovers)[1]


def check_rename_refusals():
    """Names that are taken, words of the language, nothing at the cursor."""
    replies, _ = opened(
        TEXT, ask(1, "textDocument/rename", newName="x", **at(2, 3)),
        ask(2, "textDocument/rename", newName="%for", **at(2, 3)),
        ask(3, "textDocument/rename", newName="sum", **at(2, 3)),
        ask(4, "textDocument/rename", newName="four", **at(0, 7)),
        ask(5, "textDocument/rename", newName="exp2", **at(0, 7)),
        ask(6, "textDocument/rename", newName="b", **at(3, 4)),
        ask(7, "textDocument/rename", newName="y", **at(2, 3)),
        ask(8, "textDocument/rename", newName="a", **at(2, 3)))
    wanted = {1: "there is a value %x in this function already",
              2: "`for` is a word of the language, expected another name",
              4: "there is a function @four already",
              5: "`exp2` is a word of the language, expected another name",
              6: "expected a value or a function at the cursor"}
    for i in range(1, 9):
        # %sum = sum(%x) is usual; %a is a value of another function.
        assert ("error" in replies[i]) == (i in wanted), replies[i]
        if i in wanted:
            assert replies[i]["error"] == {"code": -32602,
                                           "message": wanted[i]}, replies[i]


def check_many_errors():
    text = "func @f(%x: f32) -> f32 {\n" + "".join(
        f"  %y{i} = %x + %z{i}\n" for i in range(300)) + "  return %x\n}\n"
    _, published = opened(text)
    assert len(published[0]) == 300, len(published[0])
    assert [d["range"]["start"]["line"] for d in published[0]] == list(
        range(1, 301))


IMPORTED = """func @half[N: int, T: type = f32](%x: tile<N x T>) -> tile<N x T> {
  return %x
}
func @inner(%x: f32) -> f32 {
  return %x
}
"""
IMPORTS = """import "sub dir/other.tile"
func @f(%x: tile<64 x f32>, %s: f32) -> tile<64 x f32> {
  %a = @half(%x)
  %b = @inner(%a, %s)
  return @half[N=64](%a)
}
"""


def check_imports():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder).resolve() / "sub dir" / "other.tile"
        main = {"uri": (path.parents[1] / "main.tile").as_uri()}

        def place(line, character):
            return {"textDocument": main,
                    "position": {"line": line, "character": character}}

        def talk_of(*frames):
            answers, code = talk(
                ask(0, "initialize"),
                tell("textDocument/didOpen",
                     textDocument={"text": IMPORTS, **main}),
                *frames, ask(99, "shutdown"), tell("exit"))
            assert code == 0, code
            return ({a["id"]: a for a in answers if "id" in a},
                    [a["params"] for a in answers if "method" in a])

        def messages(params):
            return [d["message"] for d in params["diagnostics"]]

        # Without the file there is one error, at its name.
        _, published = talk_of()
        assert len(messages(published[0])) == 1, published
        assert "cannot be read" in messages(published[0])[0]
        path.parent.mkdir()
        path.write_text(IMPORTED, encoding="utf-8")
        replies, published = talk_of(
            ask(1, "textDocument/definition", **place(3, 10)),
            ask(2, "textDocument/definition", **place(0, 10)),
            ask(3, "textDocument/completion", **place(2, 8)),
            ask(4, "textDocument/completion", **place(4, 15)),
            ask(5, "textDocument/hover", **place(2, 3)),
            ask(6, "textDocument/rename", newName="q", **place(2, 10)))
        # An error of meaning, which knows the imported function's types.
        found = messages(published[0])
        assert len(found) == 1 and "@inner" in found[0], found
        assert published[0]["diagnostics"][0]["range"]["start"]["line"] == 3
        there = replies[1]["result"][0]
        assert there == {"uri": path.as_uri(), "range": {
            "start": {"line": 3, "character": 5},
            "end": {"line": 3, "character": 11}}}, there
        assert replies[2]["result"][0]["uri"] == path.as_uri()
        labels = {i["label"] for i in replies[3]["result"]}
        assert {"f", "half", "inner", "causal"} <= labels, labels
        details = {i["label"]: i.get("detail") for i in replies[4]["result"]}
        assert details["N"] == "int" and details["T"] == "type = f32", details
        assert replies[5]["result"]["contents"]["value"] == (
            "%a: tile<64 x f32>"), replies[5]
        assert replies[6]["error"]["message"] == (
            "@half is defined in another file: rename it there"), replies[6]
        # What an editor holds is newer than the file, once it is saved.
        other = {"uri": path.as_uri()}
        text = IMPORTED.replace("return %x\n}\nfunc", "return %z\n}\nfunc")
        _, published = talk_of(
            tell("textDocument/didOpen", textDocument={"text": text, **other}),
            tell("textDocument/didSave", textDocument=other))
        last = published[-1]
        assert last["uri"] == main["uri"], last
        assert len(last["diagnostics"]) == 1, last
        assert "other.tile:2:10: %z is not defined" in messages(last)[0], last
        assert last["diagnostics"][0]["range"]["start"]["line"] == 0


def check_library():
    """Embedded functions are known without an import."""
    text = ("func @f(%b: i32, %h: i32, %q: i32, %k: i32) -> i1 {\n"
            "  return @causal(%b, %h, %q, %k)\n}\n")
    replies, published = opened(
        text, ask(1, "textDocument/definition", **at(1, 11)))
    assert published == [[]], published
    assert replies[1]["result"] == [], replies[1]


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
    check_other_bodies()
    check_one_body()
    check_compiled()
    check_rename_refusals()
    check_many_errors()
    check_imports()
    check_library()
    check_bad_input()


main()
