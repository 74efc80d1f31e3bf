"""`python -m flinkbuf doctor` inside a session of Spark looks at its workers, too."""

from flinkbuf.commands.cli import main


def test_the_workers_of_the_active_session_are_compared_with_this_process(spark, capsys):
    assert main(["doctor"]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if "spark worker" in line]
    assert line.startswith("ok       spark workers: 1 host have this Python and these versions, and reach ")
