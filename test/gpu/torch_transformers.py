#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""transformers' models with attn_implementation="tilec" against their own.

    TILEC_LIBRARY=build/libtilec.so python3 test/gpu/torch_transformers.py
        [--device cpu] [--only TEXT]

Tiny models with random weights, in float32: logits of padded batches, tokens of
generate, packed sequences, a training step. Exit status 77: no transformers, or
no such device.
"""
import os
import sys

import torch_cases  # first: finds tilec

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import torch
    import transformers
except ImportError:
    print("no transformers here")
    sys.exit(77)
from tilec.flex_attention import _mods
from tilec.integrations import transformers as integration
from tilec.integrations.transformers import register

COMMON = dict(vocab_size=128, hidden_size=64, intermediate_size=96,
              num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=256,
              pad_token_id=0, bos_token_id=1, eos_token_id=2,
              attention_dropout=0.0)
MODELS = {
    "Llama": {},
    "Mistral": dict(sliding_window=8, head_dim=16),
    "Gemma2": dict(head_dim=16, sliding_window=8, attn_logit_softcapping=5.0,
                   query_pre_attn_scalar=16),
    "GptOss": dict(head_dim=16, sliding_window=8, num_local_experts=2,
                   num_experts_per_tok=1),
    "Qwen3": dict(head_dim=16, use_sliding_window=True, sliding_window=8,
                  max_window_layers=1),
}


def model_of(name, device):
    torch.manual_seed(0)
    config = getattr(transformers, name + "Config")(**COMMON, **MODELS[name])
    model = getattr(transformers, name + "ForCausalLM")._from_config(
        config, attn_implementation="eager").to(device).eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.2)
    return model


def batch(device):
    """Token ids and their mask, one row padded on the left."""
    ids = torch.randint(3, 128, (2, 24), device=device)
    seen = torch.ones_like(ids)
    seen[0, :7] = 0
    return ids, seen


def both(model, f):
    """f by tilec, and by transformers itself."""
    found = []
    for name in ("tilec", "eager"):
        model.set_attn_implementation(name)
        found.append(f())
    return found


def near(x, y, most=1e-5):
    off = ((x - y).norm() / y.norm()).item()
    assert off <= most, "off by %g" % off


def check_logits(name, device):
    model, (ids, seen) = model_of(name, device), batch(device)
    with torch.no_grad():
        near(*both(model, lambda: model(
            ids, attention_mask=seen).logits[seen.bool()]))
        near(*both(model, lambda: model(ids).logits))
        packed = torch.cat([torch.arange(10), torch.arange(14)])[None]
        near(*both(model, lambda: model(
            ids[:1], position_ids=packed.to(device), use_cache=False).logits))


def check_generate(name, device):
    """Equal tokens; and after a few steps no step needs another text."""
    model, (ids, seen) = model_of(name, device), batch(device)
    for options in ({}, dict(cache_implementation="static",
                             disable_compile=True)):
        ours, theirs = both(model, lambda: model.generate(
            ids, attention_mask=seen, max_new_tokens=12, do_sample=False,
            **options))
        assert torch.equal(ours, theirs)
    model.set_attn_implementation("tilec")
    texts = sum(len(e.texts) for e in _mods._entries.values())
    model.generate(ids, attention_mask=seen, max_new_tokens=30,
                   do_sample=False)
    now = sum(len(e.texts) for e in _mods._entries.values())
    assert now == texts, "%d more texts" % (now - texts)


def check_untraced(name, device):
    """Without padding a plain causal mask is neither traced nor made."""
    model, (ids, seen) = model_of(name, device), batch(device)
    seen[:] = 1
    traced, of = [], _mods.of
    _mods.of = lambda *a: traced.append(1) or of(*a)
    try:
        ours, theirs = both(model, lambda: model.generate(
            ids, attention_mask=seen, max_new_tokens=8, do_sample=False))
    finally:
        _mods.of = of
    assert not traced and torch.equal(ours, theirs)


def check_split_keys(name, device):
    """Decode steps whose keys are split over programs, as those of many keys
    are."""
    model, (ids, seen) = model_of(name, device), batch(device)
    calls, attention = [], integration._api.attention

    def split(query, *rest, **named):
        if query.shape[2] == 1:
            calls.append(1)
            named["kernel_options"] = {"SPLIT_KEYS": True}
        return attention(query, *rest, **named)
    integration._api.attention = split
    try:
        ours, theirs = both(model, lambda: model.generate(
            ids, attention_mask=seen, max_new_tokens=8, do_sample=False))
    finally:
        integration._api.attention = attention
    assert calls and torch.equal(ours, theirs)


def check_training(name, device):
    model, (ids, seen) = model_of(name, device), batch(device)
    model.train()
    labels = ids.masked_fill(seen == 0, -100)
    # A query that sees no key gives 0, and in eager attention a mean of all
    # values: the last one of the padding would predict a token.
    labels[0, 7] = -100

    def step():
        model.zero_grad()
        loss = model(ids, attention_mask=seen, labels=labels).loss
        loss.backward()
        return torch.cat([loss.detach()[None], *[
            p.grad.flatten() for p in model.parameters()
            if p.grad is not None]])

    near(*both(model, step), 3e-5)


def check_dropout(name, device):
    """It is applied in training, and torch's seed repeats it."""
    model, (ids, _) = model_of(name, device), batch(device)
    for module in model.modules():
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.3
    model.set_attn_implementation("tilec")
    model.train()
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(model(ids).logits)
    assert torch.equal(*found[:2]) and not torch.equal(*found[1:])


def check_compile(name, device):
    model, (ids, seen) = model_of(name, device), batch(device)
    model.set_attn_implementation("tilec")
    with torch.no_grad():
        want = model(ids, attention_mask=seen, use_cache=False).logits
        got = torch.compile(model, backend="aot_eager")(
            ids, attention_mask=seen, use_cache=False).logits
    near(got[seen.bool()], want[seen.bool()])


def other_kinds(device):
    """An encoder; an encoder and a decoder with position biases."""
    torch.manual_seed(0)
    sizes = dict(vocab_size=128, num_hidden_layers=2)
    bert = transformers.BertModel._from_config(
        transformers.BertConfig(hidden_size=64, intermediate_size=96,
                                num_attention_heads=4, **sizes),
        attn_implementation="eager").to(device).eval()
    t5 = transformers.T5ForConditionalGeneration._from_config(
        transformers.T5Config(vocab_size=128, d_model=64, d_kv=16, d_ff=96,
                              num_layers=2, num_heads=4, dropout_rate=0.0,
                              decoder_start_token_id=0),
        attn_implementation="eager").to(device).eval()
    for p in t5.parameters():
        torch.nn.init.normal_(p, std=0.2)
    ids, seen = batch(device)
    with torch.no_grad():
        near(*both(bert, lambda: bert(
            ids, attention_mask=seen).last_hidden_state[seen.bool()]))
    ours, theirs = both(t5, lambda: t5.generate(
        ids, attention_mask=seen, max_new_tokens=10, do_sample=False))
    assert torch.equal(ours, theirs)

    def step():
        t5.zero_grad()
        t5(input_ids=ids, attention_mask=seen, labels=ids[:, :9].clone()
           ).loss.backward()
        return torch.cat([p.grad.flatten() for p in t5.parameters()])

    near(*both(t5, step), 3e-5)


def main():
    args = torch_cases.parse(torch_cases.parser(__doc__))
    register()
    checks = [(n, f) for n in MODELS for f in (check_logits, check_generate,
                                               check_training)]
    checks += [("Llama", check_untraced), ("Llama", check_dropout), ("GptOss", check_compile)]
    checks += [(n, check_split_keys) for n in ("Llama", "Gemma2", "GptOss")]
    torch_cases.run([
        ("%s %s" % (name, f.__name__[6:]), lambda n=name, f=f: f(n, args.device))
        for name, f in checks] + [
            ("Bert, T5", lambda: other_kinds(args.device))], args)


if __name__ == "__main__":
    main()
