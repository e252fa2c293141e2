"""Six programs for the speed table: plain float32 loops, and the same loops with AMP written by
hand.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """\
import torch
from torch import nn

torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = {tf32}
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


{model}

"""

LOOP = """
model, x, y = make({size})
model, x, y = model.to(device), x.to(device), y.to(device)
criterion = {criterion}
optimizer = torch.optim.{optimizer}
for step in range({steps}):
    optimizer.zero_grad()
    output = model(x)
    loss = criterion(output, y)
    loss.backward()
    optimizer.step()
print(loss.item())
"""

GAN = """
generator, discriminator, z, real = make({size})
generator, discriminator, z, real = (thing.to(device) for thing in (generator, discriminator, z, real))
criterion = {criterion}
d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
g_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
ones = torch.ones(len(real), device=device)
zeros = torch.zeros(len(real), device=device)
for step in range({steps}):
    d_optimizer.zero_grad()
    fake = generator(z)
    loss = criterion(discriminator(real), ones) + criterion(discriminator(fake.detach()), zeros)
    loss.backward()
    d_optimizer.step()
    g_optimizer.zero_grad()
    g_loss = criterion(discriminator(fake), ones)
    g_loss.backward()
    g_optimizer.step()
print(loss.item())
"""

RESNET = """\
class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        width = outside // 4
        self.body = nn.Sequential(
            nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, outside, 1, bias=False), nn.BatchNorm2d(outside),
        )
        self.skip = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


def make(width, depths, batch, side):
    layers = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inside = width
    for stage, depth in enumerate(depths):
        for block in range(depth):
            outside = width * 4 * 2**stage
            layers.append(Block(inside, outside, 2 if stage and not block else 1))
            inside = outside
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))
    return model, torch.randn(batch, 3, side, side), torch.randint(1000, (batch,))
"""

GPT = """\
class Gpt(nn.Module):
    def __init__(self, width, heads, layers, words, length):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.zeros(length, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)
        self.register_buffer("mask", torch.triu(torch.ones(length, length, dtype=torch.bool), 1))

    def forward(self, tokens):
        return self.head(self.body(self.words(tokens) + self.places, self.mask)).flatten(0, 1)


def make(width, heads, layers, words, length, batch):
    tokens = torch.randint(words, (batch, length + 1))
    return Gpt(width, heads, layers, words, length), tokens[:, :-1], tokens[:, 1:].flatten()
"""

UNET = """\
def pair(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, 1, 1), nn.BatchNorm2d(outside), nn.ReLU(),
        nn.Conv2d(outside, outside, 3, 1, 1), nn.BatchNorm2d(outside), nn.ReLU(),
    )


class Unet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        widths = [width * 2**i for i in range(depth)]
        self.down = nn.ModuleList([pair(a, b) for a, b in zip([3, *widths], widths)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:])])
        self.join = nn.ModuleList([pair(2 * a, a) for a in widths[:-1]])
        self.last = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        kept = []
        for i, layer in enumerate(self.down):
            x = layer(nn.functional.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for i in reversed(range(len(self.up))):
            x = self.join[i](torch.cat([kept[i], self.up[i](x)], 1))
        return self.last(x)


def make(width, depth, batch, side):
    return Unet(width, depth), torch.randn(batch, 3, side, side), torch.rand(batch, 1, side, side).round()
"""

LSTM = """\
class Tagger(nn.Module):
    def __init__(self, words, width, layers):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.body = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.body(self.words(tokens))[0]).flatten(0, 1)


def make(words, width, layers, batch, length):
    tokens = torch.randint(words, (batch, length + 1))
    return Tagger(words, width, layers), tokens[:, :-1], tokens[:, 1:].flatten()
"""

DCGAN = """\
def make(width, batch):
    up, down, inside = [], [], 3
    for outside in (width, 2 * width, 4 * width, 8 * width):
        down += [nn.Conv2d(inside, outside, 4, 2, 1), nn.BatchNorm2d(outside), nn.LeakyReLU(0.2)]
        inside = outside
    inside = 64
    for outside, stride, pad in ((8 * width, 1, 0), (4 * width, 2, 1), (2 * width, 2, 1), (width, 2, 1)):
        up += [nn.ConvTranspose2d(inside, outside, 4, stride, pad), nn.BatchNorm2d(outside), nn.ReLU()]
        inside = outside
    generator = nn.Sequential(*up, nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())
    discriminator = nn.Sequential(*down, nn.Conv2d(8 * width, 1, 4), nn.Flatten(0))
    return generator, discriminator, torch.randn(batch, 64, 1, 1), torch.rand(batch, 3, 64, 64) * 2 - 1
"""

MLP = """\
def make(width, layers, batch):
    body = [layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*body, nn.Linear(width, 10)), torch.randn(batch, width), torch.randint(10, (batch,))
"""

SWITCH = 'scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")\n'
REGION = 'with torch.autocast("cuda", dtype=torch.{dtype}, enabled={switch}):\n'


@dataclass(frozen=True)
class Case:
    """A program: its model, its loop, and its size on a GPU and in the tests."""

    model: str
    large: str
    toy: str
    loop: str = LOOP
    criterion: str = "nn.CrossEntropyLoss()"
    optimizer: str = "SGD(model.parameters(), lr=0.01, momentum=0.9)"

    def plain(self, toy: bool, steps: int, tf32: bool = False) -> str:
        """The float32 program."""
        loop = self.loop.format(
            size=self.toy if toy else self.large,
            criterion=self.criterion,
            optimizer=self.optimizer,
            steps=steps,
        )
        return HEAD.format(tf32=tf32, model=self.model) + loop

    def by_hand(self, toy: bool, steps: int, dtype: str) -> str:
        """The same with AMP, as PyTorch's documentation writes it."""
        scaled = dtype == "float16"
        switch = "scaler.is_enabled()" if scaled else 'device.type == "cuda"'
        result = []
        for line in self.plain(toy, steps).splitlines(keepends=True):
            name, _, call = line.strip().partition(".")
            if line.startswith(("    output =", "    fake =", "    g_loss =")):
                result.append("    " + REGION.format(dtype=dtype, switch=switch))
            if line.startswith(("    output =", "    loss =", "    fake =", "    g_loss =")):
                result.append("    " + line)
            elif scaled and line.startswith("for step"):
                result.append(SWITCH + line)
            elif scaled and call == "backward()":
                result.append(f"    scaler.scale({name}).backward()\n")
            elif scaled and call == "step()":
                last = name != "d_optimizer"
                result.append(f"    scaler.step({name})\n" + "    scaler.update()\n" * last)
            else:
                result.append(line)
        return "".join(result)


ADAM = "AdamW(model.parameters(), lr=3e-4)"
BCE = "nn.BCEWithLogitsLoss()"
CASES = {
    "ResNet-50": Case(RESNET, "64, (3, 4, 6, 3), 128, 224", "4, (1, 1), 4, 32"),
    "GPT": Case(GPT, "1024, 16, 12, 32000, 512, 8", "16, 2, 1, 50, 8, 4", optimizer=ADAM),
    "U-Net": Case(UNET, "64, 5, 16, 256", "4, 2, 2, 16", criterion=BCE, optimizer=ADAM),
    "LSTM": Case(LSTM, "10000, 1024, 3, 128, 128", "30, 8, 1, 4, 6", optimizer=ADAM),
    "DCGAN": Case(DCGAN, "128, 256", "2, 4", loop=GAN, criterion=BCE),
    "MLP": Case(MLP, "8192, 8, 4096", "16, 2, 8"),
}
