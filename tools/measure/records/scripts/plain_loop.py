"""A plain PyTorch training loop that knows nothing of any recorder."""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
layers = [m for _ in range(6) for m in (torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.BatchNorm2d(64), torch.nn.ReLU())]
net = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3, padding=1), *layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                          torch.nn.Linear(64, 10)).to(device)
optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
images, classes = torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))
for step in range(60):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(images.to(device)), classes.to(device))
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, f"{loss.item():.3f}", flush=True)
