"""Trains a tiny network by a few schemes of tools/measure/schemes on ranks of the CPU and prints, as JSON, how far parameters end from
those of DistributedDataParallel, relative to how far those moved. usage: schemes_against_ddp.py RANKS CASE…"""

import json
import os
import sys
import time
from mmap import mmap
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))
from tools.measure.schemes.networks import NETWORKS
from tools.measure.schemes.plan import SetUp
from tools.measure.schemes.rank import Rank, Watch
from tools.measure.schemes.training import step, training_of

NETWORK, STEPS = "vgg16", 4


def trained(here, case):
    model = here.model(NETWORK)
    training = training_of(case, NETWORK, model, here.place)
    for number in range(STEPS):
        torch.manual_seed(100 * number + here.rank)
        batch = NETWORKS[NETWORK].job.data(2, True)
        if not training.serves or training.servers.sizes:
            step(training, batch, NETWORKS[NETWORK].job.loss)
        if number == 1:
            training.settle()
            training.begin()
    training.settle()
    for layer in getattr(training.scheme, "optimizers", []):  # of P3, in front of the forward pass that does not come
        training.scheme._before_layer(layer)
    found = {name: getattr(p, "full_tensor", lambda p=p: p)().detach().clone() for name, p in training.model.named_parameters()}
    training.close()
    dist.barrier()
    return found


def largest(one, other):
    return max((one[name].reshape(p.shape) - p).abs().max().item() for name, p in other.items())


def rank_main(rank, world, cases, shared):
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": str(20000 + os.getppid() % 20000)}
    here = Rank(rank, SetUp("cpu", world, 1, ()), Path(os.devnull), False, shared, Watch(np.zeros(2)), time.time() + 600)
    wanted = trained(here, "ddp")
    start = {name: p.detach() for name, p in here.models[NETWORK].named_parameters()}
    found = {case: largest(trained(here, case), wanted) / largest(start, wanted) for case in cases}
    if rank == 0:
        print(json.dumps(found))


def main():
    world, cases = int(sys.argv[1]), sys.argv[2:]
    shared = np.frombuffer(mmap(-1, 1 << 16), dtype=np.int64)
    ranks = []
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                rank_main(rank, world, cases, shared)
                code = 0
            finally:
                sys.stdout.flush()
                os._exit(code)
        ranks.append(pid)
    return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0 for pid in ranks)


if __name__ == "__main__":
    sys.exit(main())
