"""The directory of a job's checkpoints: the one that was configured, or one of the job's own while it runs.

Where no directory was configured and all tasks are on this machine, files are better than the memory of the program:
the job gets a temporary directory. Elsewhere the job master keeps all state.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, replace

from flinkbuf.checkpoints.locations import normalized
from flinkbuf.checkpoints.storage import storage_of
from flinkbuf.log import logger
from flinkbuf.runtime.checkpoint.checkpoint_config import CheckpointCoordinatorConfig
from flinkbuf.runtime.driver.target import Target
from flinkbuf.streaming.chain.operator_config import ExecutionSettings


@dataclass(frozen=True)
class CheckpointDirectory:
    """The directory of one job's checkpoints, from `make` to `remove`.

    Attributes
    ----------
    settings : ExecutionSettings
    checkpointing : CheckpointCoordinatorConfig
        Both say where.
    job_id : str
    is_temporary : bool
    """

    settings: ExecutionSettings
    checkpointing: CheckpointCoordinatorConfig
    job_id: str
    is_temporary: bool

    @classmethod
    def of(
        cls,
        checkpointing: CheckpointCoordinatorConfig | None,
        settings: ExecutionSettings | None,
        target: Target,
        job_id: str,
    ) -> CheckpointDirectory:
        """Choose the directory; nothing is made yet."""
        config, tasks = checkpointing or CheckpointCoordinatorConfig(), settings or ExecutionSettings()
        directory = config.directory or tasks.checkpoint_directory
        is_temporary = not directory and config.interval_ms > 0 and target.shares_files()
        if directory:
            directory = normalized(directory)
        elif is_temporary:
            directory = os.path.join(tempfile.gettempdir(), f"flinkbuf-checkpoints-{job_id}")
        savepoints = normalized(config.savepoint_directory) if config.savepoint_directory else ""
        config = replace(config, directory=directory, savepoint_directory=savepoints)
        return cls(replace(tasks, checkpoint_directory=directory), config, job_id, is_temporary)

    @property
    def path(self) -> str:
        """Return the directory path, or ''."""
        return self.settings.checkpoint_directory

    def make(self) -> None:
        """Make the directory, if checkpoints are to be taken.

        Raises
        ------
        OSError
            The directory cannot be written.
        """
        if self.is_temporary:
            os.mkdir(self.path, mode=0o700)  # the name is secret until then, so no other user can have made it
        elif self.path and self.checkpointing.interval_ms > 0:
            storage_of(self.path).create_directory(self.path)

    def remove(self, *, is_over: bool) -> None:
        """Remove the files that no later run needs; of a job that goes on elsewhere, nothing. Never raises."""
        try:
            if self.is_temporary:
                shutil.rmtree(self.path, ignore_errors=True)
            elif self.path and is_over:
                storage_of(self.path).remove_job_directory(self.job_id)
        except Exception as error:
            logger.warning("the directory of the checkpoints of job %s was not removed: %s", self.job_id, error)
