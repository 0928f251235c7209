"""What the processes of a distributed training run; here, so that spawned ones find it."""

from typing import Any

import torch
from torch.utils.data import DataLoader

from pipeline.reader import FeatureStore
from pipeline.torch_data import FeatureStream


def stream_of_rank(rank: int, ranks: int, path: str, results: Any) -> None:
    """Joins the group, reads the stream of this rank to its end, and puts the ids into `results`."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}/init", rank=rank, world_size=ranks)
    loader: DataLoader[Any] = DataLoader(
        FeatureStream(FeatureStore.open(f"{path}/store")),
        batch_size=None,
        num_workers=1,
        multiprocessing_context="spawn",
    )
    results.put([item.id for item in loader])
    torch.distributed.destroy_process_group()
