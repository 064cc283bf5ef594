"""A Lightning training script that knows nothing of any recorder."""

try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl
import torch


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 1024), torch.nn.GELU(),
                                       torch.nn.LayerNorm(1024), torch.nn.Linear(1024, 10))

    def training_step(self, batch, index):
        return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-3)


data = torch.utils.data.TensorDataset(torch.randn(64 * 80, 256), torch.randint(0, 10, (64 * 80,)))
trainer = pl.Trainer(max_steps=60, accelerator="auto", devices=1, logger=False, enable_checkpointing=False,
                     enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Classifier(), torch.utils.data.DataLoader(data, batch_size=64))
print("trained", trainer.global_step, flush=True)
