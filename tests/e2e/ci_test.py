"""Workflows of jobs/ci: the shell script by itself, and the commands of the GitHub and GitLab files."""
import json
import os
import shutil
import subprocess
import unittest
import xml.etree.ElementTree as ElementTree

import yaml

from flow import BIN, JOBS, FlowTest, train_job


class ContinuousIntegration(FlowTest):
    def setUp(self):
        super().setUp()
        self.write("job.yaml", train_job(8))
        shutil.copytree(JOBS / "ci", self.dir / "ci")

    def sh(self, command, status=0, **env):
        environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **env}
        done = subprocess.run(["bash", "-ec", command], cwd=self.dir, capture_output=True, text=True, timeout=600, env=environment)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def regression(self, *words, status=0):
        return self.sh(" ".join(["ci/regression.sh", *words]), status)

    def accept(self):
        self.regression("train", "job.yaml", "golden/job", status=2)
        self.regression("accept", "golden/job", "'first run'")

    def test_the_first_run_is_accepted_and_the_next_one_passes(self):
        done = self.regression("train", "job.yaml", "golden/job", status=2)
        self.assertIn("golden/job has no golden run yet; accept runs/job with: ci/regression.sh accept golden/job", done.stderr)
        self.regression("accept", "golden/job", "'first run'")
        self.assertEqual(json.loads((self.dir / "golden/job/golden.json").read_text())["reason"], "first run")
        self.regression("train", "job.yaml", "golden/job")
        self.assertEqual(ElementTree.parse(self.dir / "reports/job.xml").getroot().get("failures"), "0")

    def test_a_change_fails_with_reports_until_it_is_accepted(self):
        self.accept()
        change = ("train", "job.yaml", "golden/job", "--set", "seed=99")
        done = self.regression(*change, status=1)
        self.assertIn("if the difference is intended: ci/regression.sh accept golden/job", done.stderr)
        self.assertNotEqual(ElementTree.parse(self.dir / "reports/job.xml").getroot().get("failures"), "0")
        self.assertIn("differ", (self.dir / "reports/job.md").read_text())
        self.regression("accept", "golden/job", "'another seed'")
        self.regression(*change)

    def test_a_job_that_fails_leaves_no_report_of_an_earlier_run(self):
        self.accept()
        self.regression("train", "job.yaml", "golden/job")
        self.regression("train", "job.yaml", "golden/job", "--set", "seed=none", status=2)
        self.assertEqual(list(self.dir.glob("reports/*")), [])

    def test_git_ignores_what_a_run_leaves(self):
        for words in (["init", "--quiet"], ["add", "ci", "job.yaml"]):
            subprocess.run(["git", *words], cwd=self.dir, check=True)
        self.accept()
        self.regression("train", "job.yaml", "golden/job")
        left = subprocess.run(["git", "status", "--porcelain", "--untracked-files=all"], cwd=self.dir, check=True, capture_output=True, text=True).stdout
        self.assertEqual([line for line in left.splitlines() if line.startswith("??") and " golden/" not in line], [])

    def test_missing_words_show_the_usage(self):
        for words in (["train", "job.yaml"], ["accept", "golden", "why", "again"]):
            self.assertIn("usage: ci/regression.sh JOB FILE GOLDEN", self.regression(*words, status=2).stderr)

    def test_the_commands_of_the_workflows_run(self):
        """Without the installation: flow is on the PATH."""
        github = yaml.safe_load((JOBS / "ci/github.yml").read_text())["jobs"]["compare"]["steps"]
        gitlab = yaml.safe_load((JOBS / "ci/gitlab.yml").read_text())["regression"]
        show, = (step["run"] for step in github if step.get("if") == "always()")
        self.sh(show, GITHUB_STEP_SUMMARY="first.md")
        self.assertEqual((self.dir / "first.md").read_text(), "Nothing was compared.\n")
        self.accept()
        for commands in ([step["run"] for step in github if "run" in step], gitlab["script"]):
            self.assertEqual(commands[0], "ci/install.sh")
            for command in commands[1:]:
                self.sh(command, GITHUB_STEP_SUMMARY="summary.md")
        self.assertIn("equal", (self.dir / "summary.md").read_text())
        self.assertEqual(len(list(self.dir.glob(gitlab["artifacts"]["reports"]["junit"]))), 1)


class Install(FlowTest):
    """ci/install.sh with stand-ins for the programs that need a network, or take long: they write down how they were called."""
    STAND_INS = {
        "apt-get": "",
        "git": 'if [ "$1" = clone ]; then mkdir -p "$4"; echo \'echo setup >>"$LOG"\' >"$4/setup.sh"; chmod +x "$4/setup.sh"; fi',
        "cmake": "",
        "cpack": 'mkdir -p "$4"; echo built >"$4/flow_1_amd64.deb"',
        "flowrun": "echo flowrun 1"}

    def setUp(self):
        super().setUp()
        for name, command in self.STAND_INS.items():
            self.write(f"bin/{name}", f'#!/bin/sh\necho "{name} $*" >>"$LOG"\n{command}\n').chmod(0o755)

    def install(self, status=0, **settings):
        self.write("log", "")
        env = {"PATH": f"{self.dir}/bin:{os.environ['PATH']}", "LOG": str(self.dir / "log"), **settings}
        done = subprocess.run(["bash", JOBS / "ci/install.sh"], cwd=self.dir, capture_output=True, text=True, timeout=60, env=env)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done, (self.dir / "log").read_text().splitlines()

    def test_a_cached_package_is_installed(self):
        self.write("flow.deb", "cached")
        done, calls = self.install()
        self.assertEqual(done.stdout, "flowrun 1\n")
        self.assertEqual(calls, ["apt-get update -qq", "apt-get install -y -qq --no-install-recommends ./flow.deb", "flowrun --version"])

    def test_a_package_is_built_from_the_revision(self):
        done, calls = self.install(FLOW_REPOSITORY="https://example.org/flow", FLOW_REVISION="v1")
        self.assertEqual((self.dir / "flow.deb").read_text(), "built\n")
        self.assertTrue(any(call.startswith("git clone --quiet https://example.org/flow ") for call in calls), calls)
        self.assertTrue(any(call.endswith(" checkout --quiet v1") for call in calls), calls)
        self.assertLess(calls.index("setup"), calls.index("cmake --build --preset release"))
        self.assertEqual(calls[-1], "flowrun --version")

    def test_without_a_package_and_a_repository_it_says_what_to_set(self):
        done, calls = self.install(status=1)
        self.assertIn("set FLOW_REPOSITORY to the URL of the repository of flow", done.stderr)
        self.assertEqual(calls, [])


if __name__ == "__main__":
    unittest.main()
