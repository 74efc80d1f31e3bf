"""One program, all ways: what a program gives depends on the program alone.

A **program** is a function that builds a stream on `Inputs`, from bounded records, and a **model** beside it: plain
Python over lists, which gives the records that must come out. The model shares no code with flinkbuf; what counts as
the same value, or the same key, is said in `values`. Records are compared as a multiset, or key by key in their order
where the program determines it.

A **way** (`ways`) is a state backend × a target × a parallelism × streaming or batch × a hash seed of Python,
undisturbed, or with a function that raises once or a process that is killed once, with checkpoints (each result exactly
once), or stopped with a savepoint and begun again at another parallelism on another backend. Whatever the way, the
records are those of the model.

Programs come from two places. The written ones (`written`) are of every family of the API. The generated ones
(`generated`) are drawn by hypothesis, over values and keys that hurt. The generator makes valid programs only, and only
those whose results are determined: what hangs on the order in which two streams meet is left out by its rules, never by
a tolerance of the comparison. A program that fails shrinks to a few lines, which are printed as a script.

A **worker** (`worker`) is a process of one hash seed that stays up and runs what it is sent, a line of JSON for each;
`runner` starts workers as ways need them, compares, and counts.

    python -m pytest tests/matrix                        # the short form
    make test-matrix HOURS=1                             # new programs for an hour, and what was found
    MATRIX_SPARK=1 python -m pytest tests/matrix         # ways on Spark, too
"""
