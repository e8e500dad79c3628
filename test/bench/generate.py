#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens a second of transformers' generate(), attn_implementation="tilec"
beside "sdpa" (and "eager" with --eager).

    TILEC_LIBRARY=build/libtilec.so python3 test/bench/generate.py
        [--device cpu] [--batch 8] [--prompt 4032] [--new 64] [--rounds 3]
        [--profile] [--cache dynamic] [--whole] [--keys 2048,8192]
        [--json generate.json]

The model has the shapes of Llama 3.2 1B (1.24 billion parameters) and random
weights in bf16. Greedy; dynamic and static caches. Each contender generates in
a thread of its own, and they take turns step by step, in random order: what
else the machine does slows all alike. `decode` leaves the prompt and the first
token out; a step's time is a median. The first round is shown by itself: code
is compiled, and each length of the keys is new (cuDNN makes a plan for each,
once a thread). First the logits of a prompt and of a decode step are compared with those of
the model in float32 with eager attention. Exit status 1: tilec is off by more
than twice what sdpa is off; 77: there is no transformers, or no such device. On
the CPU the model is tiny.

--whole times whole calls instead, one after the other in one thread; `decode`
is what comes after the first token.

--keys times decode steps alone, over dynamic caches of random keys of these
lengths.
"""
import argparse
import copy
import json
import os
import pathlib
import random
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] /
                       "lib" / "python"))
os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import torch
    import transformers
except ImportError:
    print("no transformers here")
    sys.exit(77)

LLAMA_1B = dict(vocab_size=128256, hidden_size=2048, intermediate_size=8192,
                num_hidden_layers=16, num_attention_heads=32,
                num_key_value_heads=8, max_position_embeddings=131072,
                rope_theta=500000.0, tie_word_embeddings=True)
TINY = dict(vocab_size=512, hidden_size=64, intermediate_size=128,
            num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=8192)
CACHES = {"dynamic": {},
          "static": dict(cache_implementation="static", disable_compile=True)}


def model_of(device):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        **(LLAMA_1B if device == "cuda" else TINY), pad_token_id=0,
        bos_token_id=1, eos_token_id=None, initializer_range=0.05)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = transformers.LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model.generation_config.eos_token_id = None
    return model.eval()


def off(x, y):
    """The relative distance, in the 2-norm."""
    return ((x.double() - y.double()).norm() / y.double().norm()).item()


@torch.no_grad()
def logits(model, name, ids):
    """Of the prompt's last token, and of one more token by the cache."""
    model.set_attn_implementation(name)
    first = model(ids[:, :-1], logits_to_keep=1)
    second = model(ids[:, -1:], past_key_values=first.past_key_values)
    return torch.cat([first.logits, second.logits], 1).float()


def check(model, ids):
    """Whether tilec's logits are as near to those in float32 as sdpa's."""
    ids = ids[:2, :1024]
    found = {n: logits(model, n, ids) for n in ("tilec", "sdpa")}
    exact = logits(model.float(), "eager", ids)
    model.bfloat16()
    ours, theirs = off(found["tilec"], exact), off(found["sdpa"], exact)
    same = (found["tilec"].argmax(-1) == found["sdpa"].argmax(-1)).float()
    print("logits against float32: tilec off by %.4f, sdpa by %.4f; next "
          "tokens equal: %.0f %%" % (ours, theirs, 100 * same.mean().item()))
    return ours <= 2 * theirs


class Contender(threading.Thread):
    """Calls of generate() of a model, of which `step` runs as much as makes a
    token, or, after the last one of a call, ends it."""

    def __init__(self, model, ids, new, calls, options, wait):
        super().__init__()
        self._model, self._ids, self._wait = model, ids, wait
        self._calls = calls
        self._options = dict(options, max_new_tokens=new, min_new_tokens=new,
                             do_sample=False, stopping_criteria=[_Turn(self)])
        self._go, self._come = threading.Semaphore(0), threading.Semaphore(0)
        self.seconds, self.failure = [], None  # of steps, by call

    def run(self):
        try:
            for _ in range(self._calls):
                self._wait_for_turn()
                self.seconds.append([])
                self._model.generate(
                    self._ids, attention_mask=torch.ones_like(self._ids),
                    **self._options)
                self._come.release()
        except Exception as e:
            self.failure = e
            self._come.release()

    def _wait_for_turn(self):
        self._go.acquire()
        self._since = time.perf_counter()

    def hand_over(self):
        self._wait()
        self.seconds[-1].append(time.perf_counter() - self._since)
        self._come.release()
        self._wait_for_turn()

    def step(self):
        self._go.release()
        self._come.acquire()
        if self.failure:
            raise self.failure


class _Turn(transformers.StoppingCriteria):
    """Called for each new token; stops nothing."""

    def __init__(self, contender):
        self._contender = contender

    def __call__(self, ids, scores, **named):
        self._contender.hand_over()
        return torch.zeros(len(ids), dtype=torch.bool, device=ids.device)


def measured(models, ids, new, rounds, options, wait):
    """{name: [seconds of each step] by round}, the prompt's first; one round
    more than asked, the first."""
    found = {name: Contender(model, ids, new, rounds + 1, options, wait)
             for name, model in models.items()}
    for contender in found.values():
        contender.start()
    for _ in range((rounds + 1) * (new + 1)):
        for contender in random.sample([*found.values()], len(found)):
            contender.step()
    for contender in found.values():
        contender.join()
    return {name: contender.seconds for name, contender in found.items()}


def show(cache, times, batch):
    steps = {n: [x for r in rounds[1:] for x in r[1:]]
             for n, rounds in times.items()}
    for name, rounds in times.items():
        x = steps[name]
        print("%-8s %-6s decode %5.0f tokens/s   a step %.2f ms, %.2f to %.2f "
              "in half of the steps   prompt %.1f ms   in the first round a "
              "step %.2f ms" % (
                  cache, name, batch * len(x) / sum(x),
                  *[1e3 * y for y in (
                      statistics.median(x), *statistics.quantiles(x, n=4)[::2],
                      statistics.median([r[0] for r in rounds[1:]]),
                      statistics.median(rounds[0][1:]))]), flush=True)
        if name != "tilec":
            less = [y - z for y, z in zip(x, steps["tilec"])]
            print("%-8s a step of tilec takes %.2f ms less than one of %s "
                  "beside it; less in %.0f %% of the steps" % (
                      cache, statistics.median(less) * 1e3, name, 100 *
                      sum(y > 0 for y in less) / len(less)), flush=True)


class _First(transformers.StoppingCriteria):
    """When the first new token is there; stops nothing."""

    def __init__(self, wait):
        self._wait, self.time = wait, None

    def __call__(self, ids, scores, **named):
        if self.time is None:
            self._wait()
            self.time = time.perf_counter()
        return torch.zeros(len(ids), dtype=torch.bool, device=ids.device)


def whole_call(model, ids, new, options, wait):
    """Seconds of a call, and of what follows its first token."""
    first = _First(wait)
    wait()
    start = time.perf_counter()
    model.generate(ids, attention_mask=torch.ones_like(ids),
                   max_new_tokens=new, min_new_tokens=new, do_sample=False,
                   stopping_criteria=[first], **options)
    wait()
    end = time.perf_counter()
    return end - start, end - first.time


def whole_calls(models, ids, new, rounds, options, wait):
    """{name: (seconds, decode's) of each round}, the first round left out."""
    found = {name: [] for name in models}
    for r in range(rounds + 1):
        for name in random.sample([*models], len(models)):
            found[name].append(whole_call(models[name], ids, new, options,
                                          wait))
    return {name: x[1:] for name, x in found.items()}


def show_whole(cache, times, tokens, batch):
    """`tokens`: new ones of a call."""
    for name, rounds in times.items():
        whole, decode = ([x[i] for x in rounds] for i in range(2))
        print("%-8s %-6s whole calls %5.0f tokens/s, %.3f s, %.3f to %.3f   "
              "decode %5.0f tokens/s" % (
                  cache, name, tokens / statistics.median(whole),
                  statistics.median(whole), min(whole), max(whole),
                  (tokens - batch) / statistics.median(decode)), flush=True)


def profile(model, name, ids, options):
    """Where the host's time of decode steps goes."""
    import cProfile
    import pstats
    model.set_attn_implementation(name)
    p = cProfile.Profile()
    p.enable()
    model.generate(ids[:, :64], max_new_tokens=40, min_new_tokens=40,
                   do_sample=False, **options)
    p.disable()
    print("profile of", name)
    pstats.Stats(p).sort_stats("tottime").print_stats(18)


def filled_cache(model, batch, keys):
    """A cache with so many random keys of each layer."""
    c = model.config
    shape = (batch, c.num_key_value_heads, keys,
             c.hidden_size // c.num_attention_heads)
    cache = transformers.DynamicCache()
    for layer in range(c.num_hidden_layers):
        cache.update(*[torch.randn(shape, dtype=model.dtype,
                                   device=model.device) for _ in range(2)],
                     layer)
    return cache


@torch.no_grad()
def step_times(model, name, ids, cache, keys, steps, wait):
    """Seconds of decode steps; the cache has its length again after them."""
    model.set_attn_implementation(name)
    wait()
    start = time.perf_counter()
    for _ in range(steps):
        model(ids, past_key_values=cache)
    wait()
    took = time.perf_counter() - start
    for layer in cache.layers:
        layer.keys = layer.keys[:, :, :keys].contiguous()
        layer.values = layer.values[:, :, :keys].contiguous()
    return took / steps


def steps_of(model, ids, lengths, rounds, wait):
    """{keys: {name: seconds of a decode step}}, medians; printed."""
    found = {}
    for keys in lengths:
        cache = filled_cache(model, ids.shape[0], keys)
        times = {n: [] for n in ("tilec", "sdpa")}
        for i in range(rounds + 1):
            for name in times:
                took = step_times(model, name, ids[:, :1], cache, keys, 10,
                                  wait)
                if i:
                    times[name].append(took)
        found[keys] = {n: statistics.median(t) for n, t in times.items()}
        print("a step of %d sequences over %6d keys: %s" % (
            ids.shape[0], keys, ", ".join(["%s %.2f ms" % (n, t * 1e3)
                                           for n, t in found[keys].items()])),
              flush=True)
        del cache
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=4032)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--cache", choices=CACHES, help="this one alone")
    parser.add_argument("--whole", action="store_true",
                        help="whole calls, one after the other")
    parser.add_argument("--keys", type=lambda s: [int(x) for x in s.split(
        ",")], help="decode steps over so many keys, with commas, and no more")
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device here")
        sys.exit(77)
    import tilec.integrations.transformers
    tilec.integrations.transformers.register()
    model = model_of(args.device)
    wait = torch.cuda.synchronize if args.device == "cuda" else lambda: None
    ids = torch.randint(3, model.config.vocab_size, (args.batch, args.prompt),
                        device=args.device)
    print("torch %s, transformers %s, %.2f billion parameters, %d x %d tokens "
          "and %d new ones" % (
              torch.__version__, transformers.__version__,
              sum(p.numel() for p in model.parameters()) / 1e9, args.batch,
              args.prompt, args.new), flush=True)
    good = check(model, ids)
    if args.keys:
        found = steps_of(model, ids, args.keys, args.rounds, wait)
        if args.json:
            pathlib.Path(args.json).write_text(json.dumps(found))
        sys.exit(0 if good else 1)
    models = {n: model if n == "tilec" else copy.deepcopy(model) for n in (
        "tilec", "sdpa", *(["eager"] if args.eager else []))}
    for name, of_name in models.items():
        of_name.set_attn_implementation(name)
    found = {}
    for cache, options in CACHES.items():
        if args.cache not in (None, cache):
            continue
        time_them = whole_calls if args.whole else measured
        found[cache] = time_them(models, ids, args.new, args.rounds, options,
                                 wait)
        if args.whole:
            show_whole(cache, found[cache], args.batch * args.new, args.batch)
        else:
            show(cache, found[cache], args.batch)
        if args.profile:
            for name in ("tilec", "sdpa"):
                profile(models[name], name, ids, options)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(found))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
