#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A mask of one's own and a learned bias, trained: on a GPU, else on the CPU.

    PYTHONPATH=lib/python python3 lib/python/examples/train.py

The model must say which token came 5 places before each one. It can learn that
in the bias alone: a number for each head and distance, which tilec's gradients
of captured tensors train like any other weight.
"""
import torch

import tilec

# The last w keys, and the first one, which takes what no other key wants.
MASK = """
func @window_and_sink(%b: i32, %h: i32, %q: i32, %k: i32, %w: i32) -> i1 {
  return %k <= %q and (%q - %k < %w or %k == 0)
}
"""
# table[h, distance], for distances below its width.
SCORE = """
func @by_distance(%score: f32, %b: i32, %h: i32, %q: i32, %k: i32,
                  %table: tensor<[?, ?] x f32>) -> f32 {
  %far = min(max(%q - %k, 0), size(%table, 1) - 1)
  return %score + %table[%h, %far]
}
"""
HEADS, DIM, TOKENS, BACK, WINDOW = 2, 32, 16, 5, 12


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(TOKENS, HEADS * DIM)
        self.qkv = torch.nn.Linear(HEADS * DIM, 3 * HEADS * DIM)
        self.out = torch.nn.Linear(HEADS * DIM, TOKENS)
        self.table = torch.nn.Parameter(torch.zeros(HEADS, WINDOW + 1))

    def forward(self, tokens):
        batch, length = tokens.shape
        x = self.qkv(self.embed(tokens))
        # [batch, length, 3, heads, dim], and views of it: nothing is copied.
        q, k, v = x.view(batch, length, 3, HEADS, DIM).transpose(1, 3).unbind(2)
        o = tilec.attention(q, k, v, mask_mod=MASK, w=WINDOW, score_mod=SCORE,
                            table=self.table)
        return self.out(o.transpose(1, 2).flatten(2))


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Model().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(101):
        # Any length: nothing is compiled again.
        length = int(torch.randint(40, 100, ()))
        tokens = torch.randint(TOKENS, (8, length), device=device)
        said = model(tokens)[:, BACK:]
        loss = torch.nn.functional.cross_entropy(
            said.flatten(0, 1), tokens[:, :-BACK].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print("step %3d: loss %.3f" % (step, loss.item()))
    print("bias by distance, head 0:",
          " ".join("%.1f" % x for x in model.table[0].tolist()))
    found = model.table.max(dim=1).values.argmax()
    assert model.table[found].argmax().item() == BACK
    assert loss.item() < 0.5
    print("learned: distance %d" % BACK)


if __name__ == "__main__":
    main()
