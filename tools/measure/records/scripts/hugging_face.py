"""A Hugging Face training script that knows nothing of any recorder: a small GPT-2 with random weights on random tokens."""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        ids = torch.randint(0, 8000, (128,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids}


model = GPT2LMHeadModel(GPT2Config(vocab_size=8000, n_positions=128, n_embd=256, n_layer=4, n_head=4))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, max_steps=60, per_device_train_batch_size=8, logging_steps=20, save_strategy="no",
                                  report_to="none", disable_tqdm=True, bf16=torch.cuda.is_available())
    result = Trainer(model=model, args=arguments, train_dataset=Tokens()).train()
print("trained", result.global_step, flush=True)
