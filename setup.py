"""Builds csrc/*/*.c into one static library and each flinkbuf/_core/*/*.pyx into an extension linked to it.

FLINKBUF_BUILD     release (default), debug, or werror (release with warnings as errors)
FLINKBUF_SANITIZE  a list for -fsanitize=, such as address,undefined

What Cython needs in every module (memory views, its function type) is compiled once, into one more extension that the
others import. A release has no debug symbols, which were 75 of its 90 MB; `perf` names its functions without them. The
core is compiled with -O3, the bindings with -O2: they are no slower, and compiling them takes a fifth less time.
"""

import os
import re
import runpy
from glob import glob
from multiprocessing.pool import ThreadPool
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_clib import build_clib
from setuptools.command.build_py import build_py


class ParallelBuildClib(build_clib):
    """Compiles as many files at once as there are cores, which build_ext can do by itself."""

    def build_libraries(self, libraries):
        compile_in_turn = self.compiler.compile

        def compile_at_once(sources, **options):
            with ThreadPool(os.cpu_count()) as pool:
                compiled = pool.map(lambda source: compile_in_turn([source], **options), sources)
            return [file for files in compiled for file in files]

        self.compiler.compile = compile_at_once
        super().build_libraries(libraries)


class BuildPy(build_py):
    """Notes in what is installed of which sources it is; a tree that is run in place may still change."""

    def run(self):
        super().run()
        if not self.editable_mode:
            build_id = runpy.run_path("flinkbuf/_version.py")["sources_id"](".")
            Path(self.build_lib, "flinkbuf", "_build.py").write_text(f'BUILD_ID = "{build_id}"\n')


build, sanitize = os.environ.get("FLINKBUF_BUILD", "release"), os.environ.get("FLINKBUF_SANITIZE")
has_symbols = build == "debug" or bool(sanitize)
flags = ["-std=gnu11", "-fvisibility=hidden", "-fPIC", "-pthread"]
flags += ["-g", "-O1", "-DFB_DEBUG=1"] if has_symbols else ["-g0", "-DNDEBUG"]
flags += [f"-fsanitize={sanitize}", "-fno-omit-frame-pointer"] if sanitize else []
core_speed, binding_speed = ([], []) if has_symbols else (["-O3"], ["-O2"])
link = ["-pthread"] + ([f"-fsanitize={sanitize}"] if sanitize else [])
warnings = ["-Wall", "-Wextra", "-Wconversion"] + (["-Werror"] if build == "werror" else [])
headers, sources = sorted(glob("csrc/*/*.h") + glob("flinkbuf/_core/*/*.h")), sorted(glob("csrc/*/*.c"))
core = {
    "sources": sources,
    "cflags": flags + core_speed + warnings,
    "include_dirs": ["csrc"],
    "obj_deps": {"": headers},
}


def extension(source):
    return Extension(
        ".".join(Path(source).with_suffix("").parts),
        [source],
        include_dirs=["csrc", "flinkbuf"],
        depends=headers + sources,  # a change in one of these links every extension again
        extra_compile_args=flags + binding_speed,
        extra_link_args=link,
    )


def checked(extensions):
    """Refuse what asks a struct for a field that no .pxd declares: Cython makes a dict of the struct to look in.

    Usages and counters are handed to Python as such dicts on purpose.
    """
    for each in extensions:
        for source in each.sources:
            made = set(re.findall(r"__pyx_convert__to_py_struct__(\w+)", Path(source).read_text(encoding="utf-8")))
            if wrong := [name for name in made if not name.endswith(("_usage", "_counters"))]:
                raise SystemExit(f"{source}: a field of {', '.join(sorted(wrong))} is used that no .pxd declares")
    return extensions


setup(
    cmdclass={"build_clib": ParallelBuildClib, "build_py": BuildPy},
    libraries=[("flinkbuf_core", core)],
    options={"build_ext": {"parallel": os.cpu_count()}},
    ext_modules=checked(
        cythonize(
            [extension(pyx) for pyx in sorted(glob("flinkbuf/_core/*/*.pyx"))]
            + [extension("flinkbuf/_core/_cyutility.c")],
            shared_utility_qualified_name="flinkbuf._core._cyutility",
            build_dir="build/cython",
            nthreads=os.cpu_count() or 1,
            language_level=3,
            compiler_directives={
                "boundscheck": False,
                "wraparound": False,
                "initializedcheck": False,
                "cdivision": True,
                "embedsignature": True,
                "freethreading_compatible": False,
            },
        )
    ),
)
