"""The callback in real trainers. Each test is left out where its framework is not installed."""

import os

import foretrace
import pytest
import torch
from foretrace.recorder import RecordingWarning, record, recorded_figures

torch.set_num_threads(1)
SHORT = dict(steps=2, measure=3, warmup=1)
NEEDED = 1 + 3 + 3 + 2


def layer_names(path):
    trace = foretrace.load(path)
    return {n for n in trace.names(trace.select("annotation")) if n.startswith("layer:")}


@pytest.fixture(params=["lightning.pytorch", "pytorch_lightning"])
def lightning(request):
    return pytest.importorskip(request.param)


def make_lightning(lightning, tmp_path, callback, steps, **options):
    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Linear(8, 1)
            self.fail_at = None

        def training_step(self, batch, index):
            if index == self.fail_at:
                raise ValueError("mine")
            return self.net(batch).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    loader = torch.utils.data.DataLoader(torch.randn(4 * 64, 8), batch_size=4)
    trainer = lightning.Trainer(max_steps=steps, callbacks=[callback], accelerator="cpu", logger=False,
                                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                                default_root_dir=tmp_path, **options)
    return trainer, Module(), loader


@pytest.mark.filterwarnings("ignore:.*num_workers|.*GPU|.*logging:")
def test_lightning(lightning, tmp_path):
    r = record(tmp_path / "out.json.gz", **SHORT)
    trainer, module, loader = make_lightning(lightning, tmp_path, r.callback(), NEEDED + 2)
    trainer.fit(module, loader)
    assert r.done and layer_names(r.path) == {"layer:net|Linear"}
    assert not module.net._forward_hooks


@pytest.mark.filterwarnings("ignore:.*num_workers|.*GPU|.*logging:")
def test_lightning_counts_optimizer_steps(lightning, tmp_path):
    r = record(tmp_path / "out.json.gz", **SHORT)
    trainer, module, loader = make_lightning(lightning, tmp_path, r.callback(), NEEDED, accumulate_grad_batches=2)
    trainer.fit(module, loader)
    trace = foretrace.load(r.path)
    assert len(trace.steps) == 2
    assert all(len(trace.select("annotation", name="layer:net|Linear", step=s)) == 2 for s in trace.steps)


@pytest.mark.filterwarnings("ignore:.*num_workers|.*GPU|.*logging:")
def test_lightning_that_fails(lightning, tmp_path):
    r = record(tmp_path / "out.json.gz", **SHORT)
    trainer, module, loader = make_lightning(lightning, tmp_path, r.callback(), NEEDED)
    module.fail_at = NEEDED - 1
    with pytest.raises(ValueError, match="mine"):
        trainer.fit(module, loader)
    assert r.done and not r.path.exists() and not torch.autograd._profiler_enabled()


def make_hugging_face(transformers, tmp_path, callback, steps, **options):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Linear(8, 1)

        def forward(self, x):
            return {"loss": self.net(x).square().mean()}

    data = [{"x": torch.randn(8)} for _ in range(256)]
    arguments = transformers.TrainingArguments(output_dir=str(tmp_path / "run"), max_steps=steps, report_to=[], use_cpu=True,
                                               per_device_train_batch_size=4, save_strategy="no", disable_tqdm=True, **options)
    return transformers.Trainer(model=Net(), args=arguments, train_dataset=data, callbacks=[callback])


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_hugging_face(tmp_path):
    transformers = pytest.importorskip("transformers")
    r = record(tmp_path / "out.json.gz", **SHORT)
    make_hugging_face(transformers, tmp_path, r.callback(), NEEDED + 1, gradient_accumulation_steps=2).train()
    assert r.done and layer_names(r.path) == {"layer:net|Linear"}
    trace = foretrace.load(r.path)
    assert all(len(trace.select("annotation", name="layer:net|Linear", step=s)) == 2 for s in trace.steps)
    assert recorded_figures(trace)["measured_steps"] == 3


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_hugging_face_that_ends_early(tmp_path):
    transformers = pytest.importorskip("transformers")
    r = record(tmp_path / "out.json.gz", **SHORT)
    trainer = make_hugging_face(transformers, tmp_path, r.callback(), NEEDED - 1)
    with pytest.warns(RecordingWarning, match="holds 1 of 2 steps"):
        trainer.train()
    assert "out.json.gz" in os.listdir(tmp_path)
