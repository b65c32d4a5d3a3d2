"""What programs do with a GPU, from the first line to the last file; skipped where there is none. Much runs here on a stand-in for one."""
import io
import json
import re
import shutil
import signal
import subprocess
import threading
import unittest

import numpy as np

from first_test import LENET, First, hash_of
from flow import BIN, FlowTest, device, train_job
from launchers import RanksTest

HOOKS = """    hooks:
      - {watch: hidden, every: 3}
      - {watch_diff: "**", every: 2}
      - {watch: hidden, every: 5, to: {type: command, run: "cat > $FLOW_RUN_DIR/stream"}}
"""


@unittest.skipIf(device() == "cpu", "no GPU here")
class Gpu(FlowTest):
    def setUp(self):
        super().setUp()
        self.write("job.yaml", train_job(12) + HOOKS)

    def run_job(self, out, *words, **options):
        return self.flowrun("job.yaml", "-o", out, *words, **options)

    def same_files(self, one, other, *folders):
        for folder in folders:
            self.assertEqual(self.state(f"{one}/{folder}"), self.state(f"{other}/{folder}"), folder)
            self.assertTrue(self.state(f"{one}/{folder}"))

    def test_a_job_takes_the_gpu_by_itself_and_says_which(self):
        done = self.run_job("out")
        named = re.match(r"flowrun: train on (cuda:0 .*), writing to out\n", done.stderr)[1]
        record = json.loads((self.dir / "out/run.json").read_text())
        self.assertEqual(record["device"], named)
        self.assertRegex(record["instruction_set"], r"^sm_\d+$")
        self.assertTrue({"cuda", "driver"} <= set(record["libraries"]))

    def test_the_version_lists_devices_and_libraries(self):
        report = json.loads(self.flowrun("--version", "--json").stdout)
        self.assertTrue(report["gpu"]["usable"])
        self.assertGreater(len(report["gpu"]["devices"]), 0)
        self.assertIn("libcuda.so.1", report["libraries"])

    def test_graphs_and_single_steps_give_the_same_bits_and_the_cpu_nearly(self):
        self.run_job("graphs")
        self.run_job("eager", "--eager")
        self.run_job("cpu", "--device", "cpu")
        self.same_files("graphs", "eager", "watch", "checkpoints/000012")
        self.assertEqual((self.dir / "graphs/stream").read_bytes(), (self.dir / "eager/stream").read_bytes())
        self.call("flowdiff", "cpu", "graphs", "--rtol", "1e-4", "--atol", "1e-5")

    def test_a_profile_lists_the_steps_of_the_gpu_and_changes_no_bit(self):
        self.run_job("quiet")
        done = self.run_job("out", "--profile")
        self.same_files("quiet", "out", "watch", "checkpoints/000012")
        self.assertRegex(done.stderr, r"(?m)^  compute +wait for the device +12 ")
        self.assertRegex(done.stderr, r"(?m)^  inputs +copy to the device +12 ")
        self.assertRegex(done.stderr, r"(?m)^  hidden/matmul +matmul +(plain loops|cuBLASLt algorithm \d+), .* 12 ")
        trace = json.loads((self.dir / "out/profile.json").read_text())
        self.assertEqual([(job["job"], job["calls"]) for job in trace["jobs"]], [("train", 12)])

    def test_a_dry_run_counts_what_lies_on_the_gpu(self):
        line = json.loads(self.run_job("out", "--dry-run", "--json").stdout)
        told = line["bytes"]
        self.assertIn("hidden/matmul", [kernel["step"] for kernel in line["kernels"]])
        self.assertNotIn("workspace_limit", line)
        self.assertRegex(self.run_job("out", "--dry-run").stdout, r"(?m)^    hidden/matmul +\d.*B  (plain loops|cuBLASLt algorithm \d+)$")
        self.assertGreater(told["arena"], 0)
        # Each variable begins at a multiple of 256 bytes.
        self.assertEqual(told["variables"], sum(-(-4 * elements // 256) * 256 for elements in (8 * 6, 8, 4 * 8, 4)))

    def test_a_layer_on_the_cpu_computes_the_same_nearly(self):
        self.write("placed.yaml", (self.dir / "job.yaml").read_text().replace("units: 8,", "units: 8, placement: {device: cpu},"))
        self.run_job("whole")
        said = self.flowrun("placed.yaml", "-o", "placed").stderr
        self.assertRegex(said, r"^flowrun: train on cuda:0 .* and cpu, ")
        self.call("flowdiff", "whole", "placed", "--rtol", "1e-4", "--atol", "1e-5")
        self.flowrun("placed.yaml", "-o", "eager", "--eager")
        self.same_files("placed", "eager", "watch", "checkpoints/000012")

    def test_a_job_that_the_file_or_the_plan_gives_to_the_cpu_says_so(self):
        self.write("placed.yaml", train_job(2) + "    placement: {device: cpu}\n")
        self.assertIn("train on cpu (set by the job file), ", self.flowrun("placed.yaml", "-o", "file", "--device", "gpu").stderr)
        self.call("flowc", "build", "job.yaml", "-o", "cpu.plan")
        self.assertIn("train on cpu (the plan is compiled for the CPU), ", self.flowrun("cpu.plan", "-o", "plan").stderr)
        said = self.flowrun("cpu.plan", "-o", "out", "--device", "gpu", status=2).stderr
        self.assertIn("job `train` of cpu.plan is compiled for the CPU", said)
        self.assertIn("flowc build --device gpu", said)
        self.call("flowc", "build", "job.yaml", "-o", "gpu.plan", "--device", "gpu")
        self.assertIn("train on cuda:0 ", self.flowrun("gpu.plan", "-o", "on_gpu", "--device", "gpu").stderr)

    def test_an_interrupted_run_resumes_to_the_same_bits(self):
        endless = ["--set", "jobs.train.run.steps=1000000", "--set", "jobs.train.hooks=[{watch: loss, to: {type: print, reduce: mean}}]"]
        run = subprocess.Popen([BIN / "flowrun", "job.yaml", "-o", "parts", *endless], cwd=self.dir, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        for _ in range(5):
            run.stdout.readline()
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
        self.assertEqual(run.returncode, -signal.SIGINT, said)
        steps = int(re.search(r"stopped after (\d+) steps?; ", said)[1]) + 7
        for out, resume in (("parts", ["--resume"]), ("whole", [])):
            self.run_job(out, "--quiet", "--steps", steps, *resume, *endless)
        self.same_files("whole", "parts", f"checkpoints/{steps:06}")

    def test_a_tuned_run_keeps_its_algorithms_when_it_is_resumed(self):
        caches = {"XDG_CACHE_HOME": str(self.dir / "caches")}
        self.run_job("whole", "--tune", env=caches)
        kept = self.files("whole/algorithms")
        self.assertTrue(kept)
        self.run_job("dry", "--tune", "--dry-run", env=caches)
        self.assertFalse((self.dir / "dry").exists())
        self.run_job("parts", "--tune", "--steps", "5", env=caches)
        shutil.rmtree(self.dir / "caches", ignore_errors=True)
        self.run_job("parts", "--resume", env=caches)
        self.assertEqual(self.files("parts/algorithms"), kept)
        self.same_files("whole", "parts", "watch", "checkpoints/000012")
        self.run_job("plain", "--steps", "5")
        self.assertIn("without timed algorithms", self.run_job("plain", "--resume", "--tune").stderr)
        self.assertFalse((self.dir / "plain/algorithms").exists())
        self.run_job("whole", "--force")
        self.assertFalse((self.dir / "whole/algorithms").exists())

    def test_without_fusion_a_run_computes_the_same_nearly(self):
        self.run_job("fused")
        self.run_job("apart", "--no-fusion")
        self.call("flowdiff", "fused", "apart", "--rtol", "1e-4", "--atol", "1e-5")

    def test_a_label_out_of_range_is_told_with_its_step_and_row(self):
        labels = np.zeros((12, 8), np.int32)
        labels[5, 3] = 4
        np.save(self.dir / "labels.npy", labels)
        for words in ([], ["--eager"]):
            said = self.run_job("out", "--force", "--input", "labels=@labels.npy", *words, status=3).stderr
            self.assertIn("step 5: `labels` contains 4 at row 3; expected a value in [0, 4)", said)
            self.assertEqual([line["step"] for line in self.metrics("out")], list(range(5)))

    def test_a_loss_that_is_not_finite_ends_the_run_at_its_step(self):
        said = self.run_job("out", "--set", "vars.lr=1e30", status=1).stderr
        self.assertRegex(said, r"job.yaml:\d+:\d+: step \d+: the loss `loss` is (nan|inf)")

    def test_an_input_that_is_made_in_step_with_the_run_is_waited_for(self):
        """Each record is written when the loss of the step before has been seen, also by a callback."""
        for returns in ("Numpy", "Callback[Numpy]"):
            printing = ["--input", "x=@/dev/stdin", "--set",
                        f"+jobs.train.returns={{type: '{returns}', value: loss, to: {{type: print, reduce: mean}}}}"]
            with subprocess.Popen([BIN / "flowrun", "job.yaml", "-o", "out", "--quiet", "--force", *printing], cwd=self.dir,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
                watchdog = threading.Timer(60, run.kill)
                watchdog.start()
                self.addCleanup(watchdog.cancel)
                for step in range(12):
                    record = io.BytesIO()
                    np.save(record, np.full((8, 6), step, np.float32))
                    run.stdin.write(record.getvalue())
                    run.stdin.flush()
                    self.assertIn(b"loss", run.stdout.readline())
                run.stdin.close()
                self.assertEqual((run.stdout.read(), run.wait(timeout=60)), (b"", 0))


@unittest.skipIf(device() == "cpu", "no GPU here")
class Fingerprints(First, RanksTest):
    SHARDS = ("    optimizer:", "    shards: 2\n    optimizer:")
    PER_SHARD = ("op: dropout, rate: 0.25", "op: identity")

    def record(self, out, *words):
        self.flowrun("train", "job.yaml", "-o", out, "--fingerprint=1", "--steps", 2, *words)
        return self.fingerprints(out)

    def agrees(self, values, array, what, expected=None):
        """Of one fingerprint with the tensor. `expected`: the hash, where words are others."""
        count, total, absolute, square, least, most, bad, hashed = values
        x = array.astype(np.float64)
        self.assertEqual((count, bad, hashed), (x.size, 0, expected or hash_of(array)), what)
        np.testing.assert_allclose([total, absolute, square, least, most], [x.sum(), abs(x).sum(), (x * x).sum(), x.min(), x.max()], rtol=1e-9, atol=1e-9)

    def alike(self, one, other, what):
        """But for the last digits of sums."""
        self.assertEqual((one[0], *one[4:]), (other[0], *other[4:]), what)
        np.testing.assert_allclose(one[1:4], other[1:4], rtol=1e-12, atol=1e-12 * one[2], err_msg=str(what))

    def test_fingerprints_are_those_of_the_tensors_and_of_the_cpu_where_values_are(self):
        self.write("job.yaml", LENET)
        watched = ("conv1", "pool2", "dense2", "dense1/weight", "labels")
        steps, names = self.record("gpu", *(word for name in watched for word in ("--watch", name)))
        self.assertEqual(sorted(steps), [0, 1])
        self.assertEqual(len(set(names)), len(names))
        for name in watched:
            for step, found in steps.items():
                self.agrees(found[self.tensor("gpu", name)], self.load(f"gpu/watch/{name}/value.npy")[step], (name, step))
        on_cpu, named_there = self.record("cpu", "--device", "cpu")
        first = [name for name in names if name in ("x", "labels") or name.count("/") and ":" not in name]
        self.assertGreater(len(first), 15)  # inputs, variables and slots
        self.assertGreater(len(set(names) & set(named_there)), 30)
        for name in set(first) & set(named_there) & {"x", "labels", "conv1/weight", "conv2/weight", "dense1/weight", "dense1/bias"}:
            self.alike(steps[0][name], on_cpu[0][name], name)
        report = self.first("cpu", "gpu", "--no-rerun", status=0)
        self.assertEqual((report["by"], report["first"]), ("distance", None))

    def test_results_and_fingerprints_depend_on_neither_graphs_nor_recorded_steps(self):
        self.write("job.yaml", LENET)
        self.flowrun("train", "job.yaml", "-o", "plain", "--steps", 2)
        done = self.flowrun("train", "job.yaml", "-o", "second", "--steps", 2, "--fingerprint=2")
        self.assertRegex(done.stderr, r"fingerprints of \d+ tensors every 2 steps took \d+\.\d % of the time of all steps")
        graphs, _ = self.record("graphs")
        eager, _ = self.record("eager", "--eager")
        self.assertEqual(self.outputs("plain"), self.outputs("graphs"))
        self.assertEqual(self.outputs("plain"), self.outputs("second"))
        self.assertEqual(graphs, eager)
        self.assertEqual(self.fingerprints("second")[0], {0: graphs[0]})
        self.assertIsNone(self.first("graphs", "eager", status=0)["first"])

    def test_the_first_difference_is_found_and_made_again(self):
        self.write("job.yaml", LENET)
        self.record("a")
        self.record("b", "--set", "jobs.train.optimizer.momentum=0.8")
        report = self.first("a", "b", "-o", "kept")
        self.assertEqual((report["by"], report["first"]["step"], report["first"]["agreed_at"], report["recurs"]), ("hash", 1, 0, True))
        self.assertIn(":update", report["first"]["made_by"])

    def test_two_devices_have_the_fingerprints_of_one_and_of_each_copy(self):
        self.write("job.yaml", LENET.replace("units: 20,", "units: 20, placement: {device: cpu},"))
        watched = ("conv2", "dense1", "dense2", "dense1/weight")
        two, names = self.record("two", *(word for name in watched for word in ("--watch", name)))
        graph = json.loads((self.dir / "two/plan.json").read_text())["jobs"][0]
        made = [tensor for step in graph["steps"] for tensor in step["outputs"]]
        self.assertEqual([name for name in made if name in names], [name for name in names if name in made])
        copies = {step["outputs"][0]: step["inputs"][0] for step in graph["steps"] if step["op"] == "copy" and not step["tap"]}
        self.assertLessEqual({"dense1/relu:gpu", "flat:cpu"}, copies.keys())
        self.assertLessEqual(copies.keys(), set(names))
        for step, found in two.items():
            for name in watched:
                self.agrees(found[self.tensor("two", name)], self.load(f"two/watch/{name}/value.npy")[step], (name, step))
            for copy, source in copies.items():
                if source in found:
                    self.alike(found[copy], found[source], (step, copy))
        self.assertEqual(self.record("eager", "--eager"), (two, names))
        self.assertIsNone(self.first("two", "eager", status=0)["first"])
        for one in ("cpu", "gpu"):
            self.record(one, "--device", one, *(["--set", "jobs.train.graph.dense1.placement.device=gpu"] if one == "gpu" else []))
            for sides in (("two", one), (one, "two")):
                report = self.first(*sides, "--no-rerun", status=0)
                self.assertEqual((report["by"], report["first"]), ("distance", None))
        self.record("late", "--set", "jobs.train.optimizer.momentum=0.8")
        report = self.first("two", "late", "-o", "kept")
        self.assertEqual((report["by"], report["first"]["step"], report["recurs"]), ("hash", 1, True))
        self.assertIn(":update", report["first"]["made_by"])

    def test_shards_and_ranks_have_the_fingerprints_of_the_whole(self):
        self.write("job.yaml", LENET.replace(*self.SHARDS).replace(*self.PER_SHARD))
        one, names = self.record("one", "--watch", "dense1", "--watch", "conv2", "--watch", "x")
        for step, found in one.items():
            for name in ("dense1", "conv2", "x"):
                self.agrees(found[self.tensor("one", name)], self.load(f"one/watch/{name}/value.npy")[step], (name, step))
        self.ranks(2, "train", "job.yaml", "-o", "two", "--fingerprint=1", "--steps", 2)
        two, named = self.fingerprints("two")
        self.assertEqual(named, names)
        for step, found in two.items():
            for name, values in found.items():
                self.alike(one[step][name], values, (step, name))

    def test_images_with_channels_last_have_the_fingerprints_of_their_order_in_the_plan(self):
        self.write("job.yaml", LENET.replace("    type: train\n", "    type: train\n    precision: mixed_bfloat16\n"))
        steps, _ = self.record("out", "--watch", "conv2", "--watch", "pool1")
        for watched, tensor in (("conv2", "conv2/relu:bfloat16"), ("pool1", "pool1:bfloat16")):
            for step, found in steps.items():
                values = self.load(f"out/watch/{watched}/value.npy")[step]
                self.assertTrue((values.view(np.uint32) & 0xFFFF == 0).all())
                self.agrees(found[tensor], values, (watched, step), hash_of(values.view(np.uint32) >> 16))

    def test_passes_of_a_loop_lie_one_behind_the_other(self):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.save(self.dir / "x.npy", x)
        self.write("job.yaml", """flow: 1
data: {d: {x: {npy: x.npy}}}
jobs:
  train:
    type: predict
    inputs: {x: {shape: [2, 3], dtype: float32, from: d.x}}
    graph: {next: {op: add, in: [x, 1]}}
    returns: {value: next, to: npy}
    run: {loop: {feed: {x: next}, steps: 3}}
""")
        self.flowrun("train", "job.yaml", "-o", "out", "--fingerprint=1")
        self.agrees(self.fingerprints("out")[0][0]["next"], np.stack([x + 1, x + 2, x + 3]), "next")


if __name__ == "__main__":
    unittest.main()
