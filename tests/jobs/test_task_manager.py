"""A task manager on a thread of this process, and a job master that does what the test says."""

from task_managers import Master, graph_of


def test_a_job_runs_to_its_end_on_one_manager():
    out = []
    with Master(graph_of(range(1000), lambda value: value * 2, out.append, 2)) as master:
        master.add()
        master.deploy_all()
        assert set(master.wait_for_end()) == {"FINISHED"}
    assert sorted(out) == [2 * value + 1 for value in range(1000)]
