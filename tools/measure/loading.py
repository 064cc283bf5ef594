"""Samples that cost something to load: decoded in Python, which holds the interpreter; made by NumPy, which lets it go; read from the disk."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import torch

SIZE, CLASSES = 224, 1000
RUNS = 12000  # of one colour each, in a decoded image
LARGE = 480  # edge of an image before NumPy crops it
FILES = 256
WORDS, VOCABULARY, LENGTH = 2000, 30522, 128


class Samples(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 1 << 20


class Decoded(Samples):
    """Run lengths, taken apart in a loop of Python."""

    def __init__(self, tiny: bool):
        generator = torch.Generator().manual_seed(0)
        self.runs = 100 if tiny else RUNS
        self.size = 32 if tiny else SIZE
        pixels = 3 * self.size * self.size
        self.coded = [(int(v), pixels // self.runs + 1) for v in torch.randint(0, 256, (self.runs,), generator=generator)]

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        out = bytearray()
        for value, times in self.coded:
            out += (value ^ index & 1).to_bytes(1, "little") * times
        image = torch.frombuffer(out, dtype=torch.uint8)[:3 * self.size * self.size].view(3, self.size, self.size)
        return image.float().div_(255), index % CLASSES


class Cropped(Samples):
    """A large image turned to floats, normalised, made smaller and cropped."""

    def __init__(self, tiny: bool):
        import numpy as np
        self.size, self.large = (32, 64) if tiny else (SIZE, LARGE)
        self.image = np.random.default_rng(0).integers(0, 256, (3, self.large, self.large), dtype=np.uint8)
        self.mean, self.spread = (np.array(v, np.float32).reshape(3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        import numpy as np
        x = (self.image.astype(np.float32) / 255 - self.mean) / self.spread
        half = self.large // 2
        x = x.reshape(3, half, 2, half, 2).mean((2, 4))
        at = index % (half - self.size + 1)
        return torch.from_numpy(np.ascontiguousarray(x[:, at:at + self.size, at:at + self.size])), index % CLASSES


class OnDisk(Samples):
    """Files of floats. What was read is dropped from the system's cache again."""

    def __init__(self, tiny: bool):
        self.size, files = (32, 4) if tiny else (SIZE, FILES)
        self.folder = Path(tempfile.gettempdir()) / f"foretrace-samples-{self.size}"
        self.folder.mkdir(exist_ok=True)
        self.paths = [self.folder / f"{i}.raw" for i in range(files)]
        for path in self.paths:
            if not path.exists():
                with path.open("wb") as file:
                    file.write(torch.rand(3, self.size, self.size).numpy().tobytes())
                    file.flush()
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        import numpy as np
        with self.paths[index % len(self.paths)].open("rb") as file:
            x = np.fromfile(file, np.float32)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return torch.from_numpy(x.reshape(3, self.size, self.size)), index % CLASSES


class Tokenised(Samples):
    """Words looked up one by one in a dictionary, by Python; the words wanted are those given."""

    def __init__(self, tiny: bool):
        words = WORDS // 10 if tiny else WORDS
        self.length, most = (4, 100) if tiny else (LENGTH, VOCABULARY)
        self.numbers = {f"word{i}": i % most for i in range(words)}
        self.text = " ".join(f"Word{(i * 7919) % words}," for i in range(words))

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        found = []
        for word in self.text.split(" "):
            found.append(self.numbers.get(word.strip(",.").lower(), 0))
        tokens = torch.tensor(found[:self.length])
        return tokens, tokens.roll(1)


DATASETS: dict[str, Any] = {"decoded": Decoded, "cropped": Cropped, "disk": OnDisk, "tokenised": Tokenised}


def all_cores(_worker: int) -> None:
    """Workers run where the system likes; the process that trains keeps to its half."""
    torch.set_num_threads(1)
    os.sched_setaffinity(0, set(range(os.cpu_count() or 1)))


def batches(dataset: str, batch: int, workers: int, pinned: bool, tiny: bool) -> Any:
    """An iterator over batches, without end for any run here."""
    return iter(torch.utils.data.DataLoader(DATASETS[dataset](tiny), batch, num_workers=workers, pin_memory=pinned, worker_init_fn=all_cores))
