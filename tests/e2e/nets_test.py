"""The jobs of larger nets: ResNet-18, the GPT, the VAE, the U-Net and the LSTM against PyTorch in float64, and all of them for a few steps."""
import unittest

import numpy as np

from flow import JOBS, FlowTest, golden_arrays, part_of, relative

SMALL = {"resnet18": ["vars.width=3", "vars.batch=5"], "gpt_tiny": ["vars.width=8", "vars.heads=2", "vars.batch=3"]}


def sets(*changes):
    return [word for change in changes for word in ("--set", change)]


class GoldenNets(FlowTest):
    """tests/golden/NET/make/make.py: ten steps of a small configuration."""

    def train(self, net, entry, kinds, steps, *more):
        watches = ["--watch", f"{entry}:1000"]
        for kind in kinds:
            watches += ["--watch-diff", f"{entry}/{kind}:1000"]
        self.flowrun("train", JOBS / f"{net}.yaml", "-o", "out", "--steps", steps, *watches,
                     *sets("jobs.train.returns.to=npy", "jobs.train.run.shuffle=false", *SMALL[net], *more))

    def agrees(self, net, entry, kinds):
        self.train(net, entry, kinds, 10, "jobs.train.precision=float64")
        for name, array in golden_arrays(f"{net}/{net}").items():
            self.save(f"golden/{name}", array)
        for golden, ours in (("returns", "out/returns"), ("watch", "out/watch"), ("checkpoint", self.checkpoint("out"))):
            self.call("flowdiff", f"golden/{golden}", ours, "--rtol", "1e-9", "--atol", "1e-9", "--brief")

    def is_near_in_float32(self, net, entry, kinds, tolerance):
        """PyTorch's own float32 ResNet-18 is up to 1.2e-5 from its float64: batch statistics of a few rows magnify roundings."""
        self.train(net, entry, kinds, 1)
        for name, golden in part_of(golden_arrays(f"{net}/{net}"), "watch").items():
            with self.subTest(name):
                self.assertLessEqual(relative(self.load(f"out/watch/{name}.npy"), golden), tolerance)

    def test_resnet18_agrees_over_ten_steps(self): self.agrees("resnet18", "resnet", ["**/weight", "**/gamma", "**/beta", "output/bias"])

    def test_gpt_agrees_over_ten_steps(self): self.agrees("gpt_tiny", "gpt", ["**/weight", "**/bias", "**/gamma", "**/beta", "wpe"])

    def test_the_vae_agrees_over_ten_steps(self):
        golden = golden_arrays("vae/vae")
        some = slice(400, 410)
        self.flowrun("train", JOBS / "vae.yaml", "-o", "out", "--steps", 10, "--watch", "latent:1000", "--watch-diff", "*code/**:1000", *sets(
            "vars.width=8", "vars.latent=3", "vars.batch=5", "jobs.train.precision=float64", "jobs.train.run={steps: 10}",
            "jobs.train.inputs.images.from={type: random_uniform, low: 0, high: 1}", "jobs.train.inputs.images.dtype=float64"))

        def check(what, got):
            expected = golden[what]
            if got.shape != expected.shape:
                got = got[:, some] if got.shape[0] == expected.shape[0] else got[some]
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max(), err_msg=what)
        check("losses", np.array([line["loss"] for line in self.metrics("out")]))
        check("latent", self.load("out/watch/latent/value.npy")[0])
        for what in golden:
            kind, _, variable = what.partition("/")
            if kind == "diff":
                check(what, self.load(f"out/watch/{variable}/diff.npy")[0] / 5)      # of the sum over rows
            if kind == "after":
                check(what, np.load(self.checkpoint("out") / f"{variable}.npy"))

    def agrees_from_weights(self, net, network, inputs, *changes):
        """tests/golden/nets/make/make.py: ten steps of the job as it is, from the weights of a module of PyTorch."""
        golden = golden_arrays(f"nets/{net}")
        for name in inputs:
            np.save(self.dir / f"{name}.npy", golden[name])
        np.savez(self.dir / "weights.npz", **part_of(golden, "before"))
        names = ", ".join(f'{{from: "{rule}", to: "{network}/{to}"}}' for rule, to in
                          (("*.*", "{1}/{2}"), ("*.*.*", "{1}/{2}/{3}"), ("*.*.*.*", "{1}/{2}/{3}/{4}")))
        self.flowrun("train", JOBS / f"{net}.yaml", "-o", "out", "--watch", f"{network}:1000", "--watch-diff", f"{network}/**:1000", *sets(
            "jobs.train.precision=float64", f"jobs.train.run={{steps: 10, checkpoint: {{load: {self.dir}/weights.npz, names: [{names}]}}}}", *changes))

        def check(what, got):
            np.testing.assert_allclose(got, golden[what], rtol=1e-9, atol=1e-9 * np.abs(golden[what]).max(), err_msg=what)
        check("losses", np.array([line["loss"] for line in self.metrics("out")]))
        check("logits", self.load(f"out/watch/{network}/value.npy")[0])
        kinds = [what.partition("/")[0] for what in golden]
        self.assertEqual(kinds.count("diff"), kinds.count("before"))
        self.assertEqual(kinds.count("after"), kinds.count("before"))
        losses = golden["logits"].size // golden["logits"].shape[-1] if net == "lstm_text" else golden["logits"].size
        for what in golden:
            kind, _, variable = what.partition("/")
            path = f"{network}/{variable.replace('.', '/')}"
            if kind == "diff":
                check(what, self.load(f"out/watch/{path}/diff.npy")[0] / losses)     # of the sum
            if kind == "after":
                check(what, np.load(self.checkpoint("out") / f"{path}.npy"))

    def test_the_unet_agrees_over_ten_steps(self):
        self.agrees_from_weights("unet", "unet", ["images", "noise"], "vars.width=2", "vars.batch=3", f"data.mnist_train.images={{npy: {self.dir}/images.npy}}",
                                 f"jobs.train.inputs.noise.from={{npy: {self.dir}/noise.npy}}")

    def test_the_lstm_agrees_over_ten_steps(self):
        self.agrees_from_weights("lstm_text", "text", ["windows"], "vars.vocabulary=23", "vars.width=6", "vars.units=5", "vars.layers=2", "vars.context=9",
                                 "vars.batch=4", "vars.steps=10", f"data.story.windows={{npy: {self.dir}/windows.npy}}")

    def test_resnet18_in_float32_is_near_at_step_0(self):
        self.is_near_in_float32("resnet18", "resnet", ["**/weight", "**/gamma", "**/beta", "output/bias"], 2e-5)

    def test_gpt_in_float32_is_near_at_step_0(self):
        self.is_near_in_float32("gpt_tiny", "gpt", ["**/weight", "**/bias", "**/gamma", "**/beta", "wpe"], 2e-6)


class Nets(FlowTest):
    def losses(self, job, file, steps, *changes):
        """Trains for a few steps in DIR/out; the losses that it logs."""
        self.flowrun(job, JOBS / file, "-o", "out", "--force", "--steps", steps, *sets(*changes))
        return np.array([line["loss"] for line in self.metrics("out")])

    def falls(self, losses):
        self.assertTrue(np.isfinite(losses).all())
        tenth = max(1, len(losses) // 10)
        self.assertLess(losses[-tenth:].mean(), losses[:tenth].mean())

    def predict(self, job, file, *changes):
        return self.flowrun(job, JOBS / file, "-o", job, "--load", "out", *sets(*changes))

    def test_resnet18_learns_digits(self):
        small = ["vars.width=4", "vars.batch=20"]
        self.falls(self.losses("train", "resnet18.yaml", 30, *small))
        self.flowrun("accuracy", JOBS / "resnet18.yaml", "-o", "accuracy", "--load", "out", "--steps", 3, *sets(*small))

    def test_resnet18_reads_three_channels(self):
        random = np.random.default_rng(1)
        np.save(self.dir / "images.npy", random.integers(0, 256, (40, 3, 32, 32), np.uint8))
        np.save(self.dir / "labels.npy", random.integers(0, 10, 40, np.uint8))
        losses = self.losses("train_cifar", "resnet18.yaml", 4, "vars.width=4", "vars.batch=10",
                             f"data.cifar.images.npy={self.dir}/images.npy", f"data.cifar.labels.npy={self.dir}/labels.npy")
        self.assertEqual(len(losses), 4)
        weight = np.load(self.checkpoint("out") / "cifar" / "stem" / "conv" / "weight.npy")
        self.assertEqual(weight.shape, (4, 3, 3, 3))

    def test_the_gpt_learns_letters(self):
        small = ["vars.width=16", "vars.heads=2", "vars.batch=8", "vars.lr=1e-2"]
        self.falls(self.losses("train", "gpt_tiny.yaml", 60, *small))
        self.predict("eval", "gpt_tiny.yaml", *small)
        self.predict("next", "gpt_tiny.yaml", *small)
        expected = self.load("next/returns/expected/value.npy")
        self.assertEqual(expected.shape, (325, 64))
        self.assertTrue(((0 <= expected) & (expected < 128)).all())

    def test_the_gpt_sees_no_character_before_its_time(self):
        windows = np.load(JOBS / "data" / "prose" / "windows.npy")[:25].copy()
        small = sets("vars.width=16", "vars.heads=2", "jobs.next.inputs.window.from={npy: w.npy}".replace("w.npy", f"{self.dir}/w.npy"),
                     "jobs.next.returns.value=gpt")
        results = []
        for last in (windows[:, 40], windows[:, 40] ^ 1):
            windows[:, 40] = last
            np.save(self.dir / "w.npy", windows.astype(np.int32))
            self.flowrun("next", JOBS / "gpt_tiny.yaml", "-o", f"run{len(results)}", "--load", "none", *small)
            results.append(self.load(f"run{len(results)}/returns/gpt/value.npy").reshape(25, 64, 128))
        np.testing.assert_array_equal(results[0][:, :40], results[1][:, :40])
        self.assertTrue((results[0][:, 40:] != results[1][:, 40:]).any(axis=(0, 2)).all())

    def test_resnet50_trains_on_random_images(self):
        small = ["vars.width=4", "vars.size=40", "vars.classes=10", "vars.batch=6", "vars.rows=20", "vars.epochs=2"]
        for precision in ("float32", "mixed_bfloat16"):
            losses = self.losses("train", "resnet50.yaml", 6, *small, f"vars.precision={precision}")
            self.assertEqual(len(losses), 6)       # two epochs of 20 // 6 batches
            self.assertTrue(np.isfinite(losses).all())
        self.assertEqual(np.load(self.checkpoint("out") / "resnet/stage4/widen/around/conv/weight.npy").shape, (128, 64, 1, 1))

    def test_resnet50_reads_images(self):
        random = np.random.default_rng(1)
        np.save(self.dir / "images.npy", random.integers(0, 256, (12, 3, 32, 32), np.uint8))
        np.save(self.dir / "labels.npy", random.integers(0, 10, 12, np.int32))
        losses = self.losses("train_imagenet", "resnet50.yaml", 3, "vars.width=4", "vars.size=32", "vars.classes=10", "vars.batch=4",
                             f"data.imagenet.images.npy={self.dir}/images.npy", f"data.imagenet.labels.npy={self.dir}/labels.npy")
        self.assertEqual(len(losses), 3)

    def test_gpt2_starts_at_a_random_guess(self):
        small = ["vars.width=24", "vars.layers=2", "vars.context=16", "vars.vocabulary=100", "vars.batch=4"]
        for precision in ("float32", "mixed_bfloat16"):
            losses = self.losses("train", "gpt2.yaml", 4, *small, f"vars.precision={precision}")
            np.testing.assert_allclose(losses, np.log(100), atol=0.05)

    def test_gpt2_learns_tokens(self):
        np.save(self.dir / "windows.npy", np.tile(np.arange(17, dtype=np.int32) % 5, (40, 1)))
        self.falls(self.losses("train_tokens", "gpt2.yaml", 40, "vars.width=24", "vars.layers=2", "vars.context=16", "vars.vocabulary=100",
                               "vars.batch=4", "vars.lr=0.01", "vars.adamw.learning_rate.warmup.steps=1", f"data.tokens.windows.npy={self.dir}/windows.npy"))

    def test_llama_learns_tokens(self):
        small = ["vars.width=24", "vars.layers=2", "vars.heads=4", "vars.inner=32", "vars.context=16", "vars.vocabulary=100", "vars.batch=4"]
        for precision in ("float32", "mixed_bfloat16"):
            losses = self.losses("train", "llama.yaml", 2, *small, f"vars.precision={precision}")
            np.testing.assert_allclose(losses, np.log(100), atol=0.05)
        np.save(self.dir / "windows.npy", np.tile(np.arange(17, dtype=np.int32) % 5, (40, 1)))
        self.falls(self.losses("train_tokens", "llama.yaml", 40, *small, "vars.lr=0.01", "vars.adamw.learning_rate.warmup.steps=1",
                               f"data.tokens.windows.npy={self.dir}/windows.npy"))

    def test_bert_learns_classes_of_padded_texts(self):
        """A text is of class 1 where token 3 is among those before its length."""
        random = np.random.default_rng(1)
        tokens = random.integers(3, 12, (64, 6), np.int32)
        lengths = random.integers(1, 7, 64, np.int32)
        texts = {"tokens": tokens, "types": np.zeros_like(tokens), "lengths": lengths,
                 "labels": ((tokens == 3) & (np.arange(6) < lengths[:, None])).any(axis=1).astype(np.int32)}
        for name, array in texts.items():
            np.save(self.dir / f"{name}.npy", array)
        small = ["vars.width=16", "vars.layers=1", "vars.heads=2", "vars.inner=16", "vars.context=6", "vars.positions=8", "vars.vocabulary=12", "vars.batch=16",
                 "vars.dropout=0", "jobs.train.optimizer.learning_rate=0.01", "vars.epochs=20", *(f"data.texts.{name}.npy={self.dir}/{name}.npy" for name in ("tokens", "types", "lengths")),
                 f"data.labels.labels.npy={self.dir}/labels.npy"]
        self.falls(self.losses("train", "bert_classify.yaml", 80, *small))
        self.flowrun("predict", JOBS / "bert_classify.yaml", "-o", "classes", "--load", "out", *sets(*small))
        self.assertGreater((self.load("classes/returns/class/value.npy") == texts["labels"]).mean(), 0.9)

    def test_the_vision_transformer_learns_digits(self):
        small = ["vars.batch=20", "vars.width=32", "vars.layers=2", "vars.inner=32"]
        self.falls(self.losses("train", "vit.yaml", 60, *small))
        self.flowrun("predict", JOBS / "vit.yaml", "-o", "digits", "--load", "out", "--steps", 2, *sets(*small))
        self.assertEqual(self.load("digits/returns/digit/value.npy").shape, (40,))

    def test_the_siamese_network_learns_pairs(self):
        self.falls(self.losses("train", "siamese.yaml", 40, "vars.batch=20"))
        self.predict("eval", "siamese.yaml")
        names = {path.name for path in self.checkpoint("out").iterdir()}
        self.assertEqual(names, {"encode", "checkpoint.json", "files.json"})      # one set of variables for both images

    def test_the_two_networks_of_the_gan_take_turns(self):
        losses = self.losses("train_discriminator", "gan.yaml", 10, "vars.batch=20")
        self.assertTrue(np.isfinite(losses).all())
        self.predict("sample", "gan.yaml")
        self.assertEqual(self.load("sample/returns/generator/value.npy").reshape(-1, 28, 28).shape, (64, 28, 28))
        first = self.checkpoint("out")
        self.flowrun("train_discriminator", JOBS / "gan.yaml", "-o", "one", "--steps", 1, *sets("vars.batch=20"))
        for name in ("generator/pixels/weight", "discriminator/logit/weight"):      # both move, in every step
            self.assertFalse((np.load(first / (name + ".npy")) == np.load(self.checkpoint("one") / (name + ".npy"))).all(), name)

    def test_the_autoencoder_learns_to_reconstruct(self):
        self.falls(self.losses("train", "autoencoder.yaml", 40, "vars.batch=20"))
        self.predict("reconstruct", "autoencoder.yaml")
        images = self.load("reconstruct/returns/reconstruction/value.npy")
        self.assertEqual(images.shape, (10000, 1, 28, 28))
        self.assertTrue(((0 <= images) & (images <= 1)).all())

    def test_the_vae_learns_and_makes_images(self):
        small = ["vars.width=32", "vars.latent=4", "vars.batch=20"]
        losses = self.losses("train", "vae.yaml", 60, *small)
        self.falls(losses)
        self.assertLess(losses[-1], 0.6 * losses[0])
        self.predict("reconstruct", "vae.yaml", *small)
        self.assertEqual(self.load("reconstruct/returns/latents/value.npy").shape, (10000, 4))
        self.predict("sample", "vae.yaml", *small)
        images = self.load("sample/returns/images/value.npy")
        self.assertEqual(images.shape, (1, 20, 1, 28, 28))
        self.assertTrue(((0 <= images) & (images <= 1)).all())
        self.assertGreater(images.std(axis=1).max(), 0.01)        # not one image twenty times

    def test_the_unet_learns_where_digits_are(self):
        losses = self.losses("train", "unet.yaml", 40, "vars.batch=10", "vars.width=4")
        self.falls(losses)
        self.assertLess(losses[-1], 0.5)
        self.flowrun("masks", JOBS / "unet.yaml", "-o", "masks", "--load", "out", "--steps", 2, *sets("vars.width=4", "vars.batch=10"))
        masks = self.load("masks/returns/masks/value.npy")
        self.assertEqual(masks.shape, (20, 1, 28, 28))
        self.assertTrue(((0 <= masks) & (masks <= 1)).all())

    def test_the_lstm_learns_characters(self):
        small = ["vars.units=32", "vars.width=8", "vars.batch=8", "vars.lr=0.02"]
        for op in ("lstm", "gru", "rnn"):
            losses = self.losses("train", "lstm_text.yaml", 40, *small, f"networks.text.graph.state.op={op}")
            self.assertAlmostEqual(losses[0], np.log(128), delta=0.3)
            self.assertLess(losses[-1], 3.5)
        self.flowrun("next", JOBS / "lstm_text.yaml", "-o", "next", "--load", "out", *sets(*small, "networks.text.graph.state.op=rnn"))
        self.assertEqual(self.load("next/returns/expected/value.npy").shape, (325, 64))


if __name__ == "__main__":
    unittest.main()
