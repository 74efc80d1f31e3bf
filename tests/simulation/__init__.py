"""Whole jobs under virtual time: the real job master and the real task executors, and a made-up world around them.

A seed draws the job, its settings and everything that goes wrong. `python -m simulation SEED`, in the folder tests,
tells a run's story again. `world` has the jobs without state, `batch` and `checkpoints` what theirs have besides, and
`flow` the tasks of the latter, which move records.
"""
