"""What a job file can be made of: other files, the environment, networks with params, overrides."""
import unittest

import numpy as np

from flow import FlowTest

JOB = """
include: [parts/net.yaml]
flow: 1
vars: {units: 3}
jobs:
  predict:
    type: predict
    inputs: {x: {shape: [2, 4], dtype: float32, from: {npy: x.npy}}}
    graph:
      y: {op: tower, in: x, depth: 2}
      z: {op: multiply, in: [y, $env(FLOW_E2E_FACTOR:-2)]}
    returns: {value: z}
    run: {checkpoint: {load: none}}
"""

NET = """
include: [../defaults.yaml]
networks:
  tower:
    inputs: [x]
    params: {depth: required}
    graph:
      wide: {op: dense, in: x, units: $units, kernel_initializer: ones}
      deep: {op: dense, in: wide, units: $units, repeat: $depth, kernel_initializer: $start}
"""

DEFAULTS = """
vars: {units: 100, start: {type: constant, value: 1/2}}
"""


class LanguageTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.write("jobs/job.yaml", JOB)
        self.write("jobs/parts/net.yaml", NET)
        self.write("jobs/defaults.yaml", DEFAULTS)
        self.x = np.arange(8, dtype=np.float32).reshape(2, 4)
        np.save(self.dir / "jobs/x.npy", self.x)

    def result(self, *words, **options):
        self.flowrun("predict", "jobs/job.yaml", "-o", "out", "--quiet", "--force", *words, **options)
        return self.load("out/returns/z/value.npy")[0]

    def test_included_files_are_merged_below_the_one_that_includes(self):
        wide = np.repeat(self.x.sum(1, keepdims=True), 3, 1)
        np.testing.assert_allclose(self.result(), wide * 1.5 ** 2 * 2)

    def test_the_environment_and_overrides_reach_every_file(self):
        wide = np.repeat(self.x.sum(1, keepdims=True), 2, 1)
        words = ["--set", "vars.units=2", "--set", "vars.start.value=1", "--set", "jobs.predict.graph.y.depth=1"]
        np.testing.assert_allclose(self.result(*words, env={"FLOW_E2E_FACTOR": "10"}), wide * 2 * 10)

    def test_errors_stand_in_the_file_that_makes_them(self):
        self.write("jobs/defaults.yaml", "vars: {start: {type: constnat, value: 1/2}}")
        done = self.call("flowc", "check", "jobs/job.yaml", status=2)
        self.assertIn("jobs/defaults.yaml:1:22: error:", done.stderr)
        self.write("jobs/parts/net.yaml", NET.replace("op: dense, in: x", "op: dnese, in: x"))
        done = self.call("flowc", "check", "jobs/job.yaml", status=2)
        self.assertIn("jobs/parts/net.yaml:8:18: error:", done.stderr)

    def test_a_file_includes_itself_under_no_other_name_either(self):
        (self.dir / "jobs/link.yaml").symlink_to("job.yaml")
        self.write("jobs/defaults.yaml", "include: [link.yaml]\n" + DEFAULTS)
        done = self.call("flowc", "check", "jobs/job.yaml", status=2)
        cycle = "jobs/job.yaml -> jobs/parts/net.yaml -> jobs/defaults.yaml -> jobs/link.yaml"
        self.assertIn(f"jobs/defaults.yaml:1:11: error: `jobs/link.yaml` includes itself: {cycle} [E0127]\n", done.stderr)

    def test_a_file_that_is_included_is_of_this_version_too(self):
        self.write("jobs/defaults.yaml", "flow: 2" + DEFAULTS)
        done = self.call("flowc", "check", "jobs/job.yaml", status=2)
        self.assertIn("jobs/defaults.yaml:1:7: error: unsupported language version; expected `flow: 1` [E0", done.stderr)
        self.write("jobs/defaults.yaml", "flow: 1" + DEFAULTS)
        self.call("flowc", "check", "jobs/job.yaml")

    def test_a_thousand_files_are_included_and_no_more(self):
        self.write("jobs/empty.yaml", "vars: {}\n")
        for more, status in ((0, 0), (1, 2), (5, 2)):
            files = ["empty.yaml"] * (998 + more) + ["parts/net.yaml"]  # and the one that this includes
            self.write("jobs/job.yaml", JOB.replace("[parts/net.yaml]", f"[{', '.join(files)}]"))
            done = self.call("flowc", "check", "jobs/job.yaml", status=status)
            self.assertEqual(done.stderr.count("error: more than 1000 included files [E0126]"), min(more, 1))

    def test_entries_that_are_included_read_those_above_them_in_their_file(self):
        self.write("jobs/parts/net.yaml", NET.replace("op: dense, in: wide", "op: dense").replace("in: x, units", "units"))
        wide = np.repeat(self.x.sum(1, keepdims=True), 3, 1)
        np.testing.assert_allclose(self.result(), wide * 1.5 ** 2 * 2)
        changes = """
networks:
  tower:
    graph:
      wide: {kernel_initializer: {type: constant, value: 2}}
      more: {op: negative}                      # above it in this file stands `wide`
      both: {op: subtract, in: [deep, more]}
    output: both
"""
        self.write("jobs/job.yaml", JOB.replace("\njobs:", changes + "jobs:"))
        np.testing.assert_allclose(self.result(), (2 * wide * 1.5 ** 2 + 2 * wide) * 2)

    def test_entries_of_the_command_line_say_what_they_read(self):
        for word, status in (("{op: negative}", 2), ("{op: negative, in: deep}", 0)):
            done = self.call("flowc", "check", "jobs/job.yaml", "--set", f"+networks.tower.graph.last={word}", status=status)
            self.assertEqual("an entry of `--set` has no default operand [E0303]" in done.stderr, status == 2)

    def overlay(self, network, *sets):
        """What `predict` returns of a network that a file changes which includes the one that includes it, and what is said."""
        self.write("jobs/over.yaml", "include: [job.yaml]\nflow: 1\n" + network)
        done = self.flowrun("predict", "jobs/over.yaml", "-o", "out", "--quiet", "--force", *sets)
        return self.load("out/returns/z/value.npy")[0], done.stderr

    def test_an_entry_that_is_added_to_watch_it_does_not_change_what_a_network_returns(self):
        same, silent = self.overlay("")
        self.assertNotIn("W0906", silent)
        seen = "networks: {tower: {graph: {seen: {op: square, in: wide}}}}\n"
        for network, sets in ((seen, ()), ("", ("--set", "+networks.tower.graph.seen={op: square, in: wide}"))):
            value, said = self.overlay(network, *sets)
            np.testing.assert_array_equal(value, same)
            self.assertIn("warning: `seen` is added to network `tower`, but the network still returns `deep` [W0906]\n", said)
            self.assertIn("hint: write `output: deep` or `output: seen` in the network\n", said)
        for output, wanted in (("deep", same), ("seen", 2 * np.repeat(self.x.sum(1, keepdims=True), 3, 1) ** 2)):
            value, said = self.overlay(seen + "", "--set", f"networks.tower.output={output}")
            np.testing.assert_allclose(value, wanted)
            self.assertNotIn("W0906", said)

    def test_the_innermost_file_of_a_graph_says_what_its_network_returns(self):
        same, _ = self.overlay("")
        middle = JOB.replace("\njobs:", "\nnetworks: {tower: {graph: {seen: {op: square, in: wide}}}}\njobs:")
        self.write("jobs/job.yaml", middle)
        value, said = self.overlay("networks: {tower: {graph: {more: {op: exp, in: wide}}}}\n")
        np.testing.assert_array_equal(value, same)
        self.assertEqual(said.count("W0906"), 1)
        self.assertIn("but the network still returns `deep`", said)

    def test_a_deleted_default_output_is_told(self):
        wide = np.repeat(self.x.sum(1, keepdims=True), 3, 1)
        for network, sets in (("networks: {tower: {graph: {'~deep': true}}}\n", ()), ("", ("--set", "~networks.tower.graph.deep"))):
            value, said = self.overlay(network, *sets)
            np.testing.assert_allclose(value, 2 * wide)
            self.assertIn("network `tower` returns `wide`, because its last entry `deep` is deleted [W0906]\n", said)

    def test_a_written_file_says_what_its_networks_return(self):
        self.write("jobs/over.yaml", "include: [job.yaml]\nflow: 1\nnetworks: {tower: {graph: {seen: {op: square, in: wide}}}}\n")
        same = self.result()
        for form in ((), ("--full",), ("--minimal",)):
            self.call("flowc", "config", "jobs/over.yaml", *form, "-o", "jobs/written.yaml")
            self.flowrun("predict", "jobs/written.yaml", "-o", "out", "--quiet", "--force")
            np.testing.assert_array_equal(self.load("out/returns/z/value.npy")[0], same)

    def test_a_deletion_takes_a_key_out_of_an_included_file(self):
        value, said = self.overlay("networks: {tower: {graph: {deep: {'~kernel_initializer': true, '~repeat': true}}}}\n"
                                   "vars: {'~start': true}\n", "--set", "+networks.tower.graph.deep.kernel_initializer=ones")
        np.testing.assert_allclose(value, 6 * np.repeat(self.x.sum(1, keepdims=True), 3, 1))
        self.write("jobs/over.yaml", "include: [job.yaml]\nflow: 1\nvars: {'~unitz': true}\n")
        done = self.call("flowc", "check", "jobs/over.yaml", status=2)
        self.assertIn("jobs/over.yaml:3:8: error: `~unitz` deletes nothing", done.stderr)
        self.assertIn("did you mean `units`?", done.stderr)

    def test_a_job_extends_one_of_an_included_file(self):
        self.write("jobs/over.yaml", "include: [job.yaml]\nflow: 1\njobs:\n  again:\n    type: predict\n    extends: predict\n"
                                     "    graph: {y: {depth: 1}}\n    returns: {value: z}\n    run: {checkpoint: {load: none}}\n")
        self.flowrun("again", "jobs/over.yaml", "-o", "again", "--quiet")
        expected = self.result("--set", "jobs.predict.graph.y.depth=1")
        np.testing.assert_array_equal(self.load("again/returns/z/value.npy")[0], expected)

    def test_a_file_over_the_limit_is_refused_without_being_read(self):
        limit = 4 << 20
        with (self.dir / "huge.yaml").open("wb") as file:
            file.write(b"flow: 1\n")
            file.truncate(100 << 30)  # no memory holds it
        self.write("includes.yaml", "flow: 1\ninclude: [huge.yaml]\n")
        for file in ("huge.yaml", "includes.yaml"):
            done = self.call("flowc", "check", file, status=2, timeout=60)
            self.assertIn(f"error: huge.yaml has {100 << 30} bytes; expected at most {limit} [E0118]\n", done.stderr)
        done = self.call("flowc", "check", "/dev/zero", status=2, timeout=60)
        self.assertIn(f"error: /dev/zero has more than {limit} bytes; expected at most {limit} [E0118]\n", done.stderr)

    def test_rows_go_on_to_the_end_of_their_file(self):
        np.save(self.dir / "rows.npy", np.arange(10, dtype=np.float32))
        job = '''flow: 1
data: {d: {x: {npy: rows.npy, rows: [7.., 0..2]}}}
jobs: {j: {type: predict, inputs: {x: {shape: [5], dtype: float32, from: d.x}}, graph: {y: {op: identity, in: x}}, returns: {value: y}}}
'''
        self.write("rows.yaml", job)
        self.flowrun("rows.yaml", "-o", "rows", "--quiet")
        np.testing.assert_array_equal(self.load("rows/returns/y/value.npy"), [7, 8, 9, 0, 1])
        self.write("rows.yaml", job.replace("[7.., 0..2]", "10.."))
        done = self.flowrun("rows.yaml", "-o", "none", "--quiet", status=3)
        self.assertIn("rows.npy has 10 rows; the column selects rows 10..", done.stderr)

    def test_a_hook_fires_from_a_step_on(self):
        self.flowrun("predict", "jobs/job.yaml", "-o", "out", "--quiet", "--steps", 6, "--set", "+jobs.predict.hooks={watch: y, steps: [3.., 0]}")
        np.testing.assert_array_equal(self.load("out/watch/y/steps.npy"), [0, 3, 4, 5])

    def test_a_constant_of_a_bool_is_true_or_false(self):
        self.write("truth.yaml", "flow: 1\njobs: {j: {type: predict, graph: {t: {op: constant, value: true, dtype: bool, shape: [2]}, "
                                 "f: {op: constant, value: false, dtype: bool}}, returns: {value: [t, f]}}}\n")
        self.flowrun("truth.yaml", "-o", "truth", "--quiet")
        np.testing.assert_array_equal(self.load("truth/returns/t/value.npy"), [[True, True]])
        np.testing.assert_array_equal(self.load("truth/returns/f/value.npy"), [False])

    def test_a_plan_needs_none_of_the_files(self):
        self.call("flowc", "build", "jobs/job.yaml", "-o", "plan.json")
        for name in ["job.yaml", "parts/net.yaml", "defaults.yaml"]:
            (self.dir / "jobs" / name).unlink()
        self.flowrun("predict", "plan.json", "-o", "out", "--quiet")


if __name__ == "__main__":
    unittest.main()
