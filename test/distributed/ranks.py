# SPDX-License-Identifier: Apache-2.0
"""Processes of a group on the CPU (gloo), and one that does all by itself.

    start(main, ranks, *args): main(rank, ranks, *args) in each process; exits with 1
    if one fails. Exit status 77: no torch.
"""
import os
import pathlib
import socket
import sys
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib" /
                       "python"))
try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
except ImportError:
    print("no torch here")
    sys.exit(77)
if not dist.is_available() or not dist.is_gloo_available():
    print("no gloo here")
    sys.exit(77)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def join(rank, ranks, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)


def _process(rank, main, ranks, port, args):
    join(rank, ranks, port)
    try:
        main(rank, ranks, *args)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # others that wait for this one end too
    dist.barrier()
    dist.destroy_process_group()


def start(main, ranks, *args):
    try:
        mp.spawn(_process, (main, ranks, free_port(), args), ranks)
    except Exception as e:
        print("FAILED:", str(e).strip().split("\n")[-1])
        sys.exit(1)


def error(x, want):
    """norm(x - want) / norm(want); infinities must agree."""
    x, want = x.detach().double(), want.detach().double()
    if x.shape != want.shape or not torch.equal(x.isinf(), want.isinf()):
        return float("inf")
    finite = want.isfinite()
    size = want[finite].norm().item()
    off = (x[finite] - want[finite]).norm().item()
    return off / size if size else off
