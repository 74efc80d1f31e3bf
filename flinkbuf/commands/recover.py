"""``python -m flinkbuf recover``: goes on with jobs whose programs are gone."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable

from flinkbuf.commands.output import say
from flinkbuf.common.configuration import Configuration, default_configuration
from flinkbuf.common.web_options import web_config_of
from flinkbuf.errors import CorruptDataError
from flinkbuf.log import logger, printable_line
from flinkbuf.runtime.driver.recovery import recover
from flinkbuf.runtime.driver.running_job import RunningJob
from flinkbuf.runtime.driver.stored_job import StoredJob

FAILED = 1
HELP = """Go on with all unfinished jobs of a directory, without the programs that made them.

DIR is their high-availability.storageDir. Each begins again from its latest checkpoint. A job that another program
still runs is waited for: it is taken over when that program gives no sign of life any more. Each is served where its
program has served it; a token that was given as rest.token has to be given again, in FLINKBUF_PROPERTIES."""
EXAMPLES = """examples:
  python -m flinkbuf recover /mnt/shared/ha
  python -m flinkbuf recover /mnt/shared/ha --cluster-id nightly
  python -m flinkbuf recover /mnt/shared/ha --fall-back

A job whose record is damaged is named by its directory; the others go on. A job whose newest checkpoint is damaged does
not go on, unless --fall-back says so: what was committed after the older checkpoint is committed again.

exit codes: 0 if all jobs have finished, or there was none; 1 if one has not."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options of ``python -m flinkbuf recover``."""
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.description, parser.epilog = HELP, EXAMPLES
    parser.add_argument("directory", metavar="DIR", help="high-availability.storageDir of the programs")
    parser.add_argument("--cluster-id", metavar="ID", help="only jobs of this high-availability.cluster-id")
    parser.add_argument(
        "--fall-back",
        action="store_true",
        help="where the newest checkpoint of a job is damaged, begin from the newest one that is whole, as "
        "execution.state-recovery.fall-back does; reads every byte of a checkpoint before",
    )


def main(arguments: Namespace) -> int:
    """Take the jobs over and wait for their ends; return the exit code."""
    try:
        ends = recover(arguments.directory, arguments.cluster_id, falls_back=arguments.fall_back, serve=_serve)
    except (OSError, CorruptDataError, ValueError) as error:
        say(error, file=sys.stderr)
        return FAILED
    for name, status in ends:
        say(f"{printable_line(name)}: {status}")
    if not ends:
        say(f"no unfinished jobs at {arguments.directory}")
    return 0 if all(status == "FINISHED" for _, status in ends) else FAILED


def _serve(job: RunningJob, stored: StoredJob) -> Callable[[], None]:
    """Have a job looked at as its program did, as far as that can be: it goes on in any case."""
    from flinkbuf.web.serving import check, serve_and_say

    configuration = Configuration.from_dict({**stored.web_settings, **default_configuration().to_dict()})
    try:
        web = check(web_config_of(configuration))
        if web.is_watched:
            return serve_and_say(job, web, stored.configuration, stored.job_parameters, sys.stderr).end
    except Exception as error:
        logger.warning("job %s goes on without a page, unlike before: %s", stored.graph.settings.job_name, error)
    return lambda: None
