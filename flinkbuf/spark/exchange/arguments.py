"""What both doors of an exchange, for RDDs and for DataFrames, check of their arguments."""

import operator
from typing import Any

from flinkbuf.config import NetworkConfig
from flinkbuf.records.partitioner import Partitioner, as_partitioner, by_key
from flinkbuf.spark.stage.barrier_stage import StageUser

MODES = ("blocking", "pipelined")
STAGE_USER = StageUser(
    name="a pipelined exchange",
    log_name="exchange",
    needs="with {count} partitions",
    fewer="pass num_partitions={slots}",
    otherwise="use mode='blocking'",
    once="another pipelined exchange, and two in one stage could wait for each other: use mode='blocking' for one of "
    "the two, or put a shuffle such as repartition() between",
)


def check_mode(mode: object) -> None:
    """Refuse a mode that there is not."""
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, got {mode!r}")


def check_config(config: object) -> None:
    """Refuse what is no configuration."""
    if config is not None and not isinstance(config, NetworkConfig):
        raise TypeError(f"config must be a NetworkConfig, such as fb.NetworkConfig(segment_size=65536), got {config!r}")


def check_count(num_partitions: Any) -> int:
    """Take any kind of int, numpy's too."""
    try:
        count = None if isinstance(num_partitions, bool) else operator.index(num_partitions)
    except TypeError:
        count = None
    if count is None:
        raise TypeError(f"num_partitions must be a whole number, got {num_partitions!r}")
    if count < 1:
        raise ValueError(f"num_partitions must be at least 1, got {num_partitions!r}")
    return count


def choose_partitioner(key: object, partitioner: object) -> Partitioner:
    """Make the partitioner out of the two ways to ask for it."""
    if key is not None and partitioner is not None:
        raise ValueError(f"give either key or partitioner: got key={key!r} and partitioner={partitioner!r}")
    asked = "rebalance" if partitioner is None else partitioner
    return as_partitioner(asked) if key is None else by_key(key)
