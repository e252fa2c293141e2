"""Models: how the hidden layer is made, and the class around it."""

from __future__ import annotations

from typing import NamedTuple

from tests.generated.hazards import HAZARDS


class Body(NamedTuple):
    """What makes the hidden `h` (8, 8) of `x` (8, 6)."""

    init: tuple[str, ...]
    forward: tuple[str, ...]


BODIES: dict[str, Body] = {
    "mlp": Body(("self.fc1 = nn.Linear(6, 8)",), ("h = torch.relu(self.fc1(x))",)),
    "sequential": Body(
        ("self.fc1 = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8))",),
        ("h = self.fc1(x)",),
    ),
    "cnn": Body(
        ("self.conv = nn.Conv2d(1, 4, (1, 2))", "self.fc1 = nn.Linear(16, 8)"),
        ("h = F.relu(self.conv(x.view(-1, 1, 2, 3)))", "h = self.fc1(h.flatten(1))"),
    ),
    "batch_norm": Body(
        ("self.fc1 = nn.Linear(6, 8)", "self.norm = nn.BatchNorm1d(8)"),
        ("h = F.relu(self.norm(self.fc1(x)))",),
    ),
    "layer_norm": Body(
        ("self.fc1 = nn.Linear(6, 8)", "self.norm = nn.LayerNorm(8)"),
        ("h = self.norm(F.gelu(self.fc1(x)))",),
    ),
    "lstm": Body(
        ("self.rnn = nn.LSTM(3, 8, batch_first=True)",),
        ("h = self.rnn(x.view(-1, 2, 3))[0][:, -1]",),
    ),
    "lstm_state": Body(
        ("self.rnn = nn.LSTM(3, 8, batch_first=True)",),
        (
            "h0 = torch.zeros(1, x.size(0), 8, device=x.device)",
            "h = self.rnn(x.view(-1, 2, 3), (h0, h0))[0][:, -1]",
        ),
    ),
    "gru_cell": Body(
        ("self.cell = nn.GRUCell(3, 8)",),
        (
            "h = torch.zeros(x.size(0), 8, device=x.device)",
            "for part in x.split(3, dim=1):",
            "    h = self.cell(part, h)",
        ),
    ),
    "attention": Body(
        (
            "self.fc1 = nn.Linear(3, 4)",
            "self.attention = nn.MultiheadAttention(4, 2, batch_first=True)",
        ),
        (
            "h = self.fc1(x.view(-1, 2, 3))",
            "h = self.attention(h, h, h, need_weights=False)[0].flatten(1)",
        ),
    ),
    "embedding": Body(
        ("self.table = nn.Embedding(2, 8)", "self.fc1 = nn.Linear(8, 8)"),
        ("h = self.fc1(self.table((x > 0).long()).mean(dim=1))",),
    ),
    "parameters": Body(
        ("self.w = nn.Parameter(0.3 * torch.randn(6, 8))", "self.b = nn.Parameter(torch.zeros(8))"),
        ("h = torch.tanh(x @ self.w + self.b)",),
    ),
    "residual": Body(
        (
            "self.fc1 = nn.Linear(6, 8)",
            "self.more = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])",
        ),
        ("h = self.fc1(x)", "for layer in self.more:", "    h = h + F.relu(layer(h))"),
    ),
    "dropout": Body(
        ("self.fc1 = nn.Linear(6, 8)", "self.drop = nn.Dropout(0.2)"),
        ("h = self.drop(F.relu(self.fc1(x)))",),
    ),
}


def net(body: str, hazard: str, extra: list[str]) -> list[str]:
    """`class Net`, and what stands beside it; `extra` are further methods."""
    made, risk = BODIES[body], HAZARDS[hazard]
    lines = [*risk.module, "", ""] if risk.module else []
    lines += ["class Net(nn.Module):", "    def __init__(self):", "        super().__init__()"]
    lines += [f"        {line}" for line in (*made.init, *risk.init)]
    lines += ["        self.fc2 = nn.Linear(8, 3)", "", "    def forward(self, x):"]
    forward = [*made.forward, *risk.hidden, "o = self.fc2(h)", *risk.output, "return o"]
    return [*lines, *(f"        {line}" for line in forward), *extra]


CRITIC = [
    "class Critic(nn.Module):",
    "    def __init__(self):",
    "        super().__init__()",
    "        self.net = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))",
    "",
    "    def forward(self, y):",
    "        return self.net(y)",
]
