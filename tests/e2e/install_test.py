"""`cmake --install`: a prefix that works wherever it is moved, and refusals of one line."""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from flow import BIN, FlowTest, train_job

BUILD = BIN.parent


@unittest.skipUnless(shutil.which("cmake") and (BUILD / "manuals/stamp").exists(), "not built, or no cmake")
class Install(FlowTest):
    def install(self, prefix, status=0, **options):
        done = subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], capture_output=True, text=True, **options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def run_in(self, prefix, program, *words):
        done = subprocess.run([prefix / "bin" / program, *words], cwd=self.dir, capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.dir)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_a_moved_prefix_works(self):
        self.install(self.dir / "first")
        moved = self.dir / "somewhere else"
        (self.dir / "first").rename(moved)
        self.write("job.yaml", train_job(3))
        self.run_in(moved, "flowrun", "job.yaml", "-o", "out", "--quiet")
        self.run_in(moved, "flowdiff", "out", "out")
        self.assertIn("conv2d", self.run_in(moved, "flowc", "help", "ops").stdout)
        jobs = moved / "share/flow/jobs"
        self.run_in(moved, "flowrun", "train", jobs / "mlp.yaml", "-o", "mlp", "--steps", "2", "--quiet")
        said = self.run_in(moved, "flowc", "init", "mlp").stderr
        self.assertIn(f"--root '{jobs}'", said)
        for name in ("share/man/man1/flowrun.1", "share/man/man5/flow-job.5", "share/flow/schemas/job.schema.json",
                     "share/bash-completion/completions/flowc", "share/zsh/site-functions/_flowc",
                     "share/fish/vendor_completions.d/flowc.fish", "share/doc/flow/LICENSE", "share/doc/flow/docs/tutorial.md",
                     "lib/python3/dist-packages/flowhook.py"):
            self.assertTrue((moved / name).exists(), name)
        folder = moved / "share/doc/flow"
        for page in folder.rglob("*.md"):
            for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)", page.read_text()):
                self.assertTrue((page.parent / target).exists(), f"{page.relative_to(folder)}: link to {target}")
        ours = subprocess.run(["readelf", "-d", moved / "bin/flowrun"], capture_output=True, text=True).stdout
        self.assertIn("$ORIGIN/", ours)
        self.assertNotIn(str(BUILD), ours)

    @unittest.skipUnless(shutil.which("pkg-config") and shutil.which("g++"), "no pkg-config")
    def test_programs_link_the_library(self):
        prefix = self.dir / "prefix"
        self.install(prefix)
        self.write("program.cpp", '#include <cstdio>\n#include "runtime/io/npy.h"\n#include "runtime/exec/core/module.h"\n'
                                  'int main() { std::puts(flow::exec::build_id()); }\n')
        pc = next(prefix.rglob("flow.pc"))
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "flow"], capture_output=True, text=True, check=True,
                               env={**os.environ, "PKG_CONFIG_PATH": str(pc.parent)}).stdout.split()
        subprocess.run(["g++", "program.cpp", *flags, "-o", "program"], cwd=self.dir, check=True)
        done = subprocess.run([self.dir / "program"], capture_output=True, text=True, check=True,
                              env={"LD_LIBRARY_PATH": str(pc.parent.parent)})
        version = self.run_in(prefix, "flowc", "--version").stdout.split()[1]
        self.assertTrue(done.stdout.startswith(version + "-"), done.stdout)

    def test_over_an_older_version(self):
        prefix = self.dir / "prefix"
        self.install(prefix)
        pc = next(prefix.rglob("flow.pc"))
        pc.write_text(pc.read_text().replace("Version: ", "Version: 0.0."))
        old = prefix / "share/flow/jobs/gone.yaml"
        old.write_text("flow: 1\n")
        done = self.install(prefix)
        self.assertRegex(done.stdout, r"^-- Install configuration: .*\n-- installed flow [\d.]+ to \S+/prefix, in place of 0\.0\.[\d.]+\n$")
        self.assertFalse(old.exists())
        self.run_in(prefix, "flowc", "--version")

    def test_a_prefix_without_permission(self):
        prefix = self.dir / "prefix"
        prefix.write_text("a file is in the way")
        done = self.install(prefix / "inside", status=1)
        said = " ".join(done.stderr.split())
        self.assertIn(f"cannot install flow to {prefix}/inside: {prefix} is not a writable directory; use sudo, or --prefix FOLDER", said)
        self.assertNotIn("Call Stack", said)


if __name__ == "__main__":
    unittest.main()
