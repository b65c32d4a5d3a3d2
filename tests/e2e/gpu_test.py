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

from flow import BIN, FlowTest, device, train_job

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


if __name__ == "__main__":
    unittest.main()
