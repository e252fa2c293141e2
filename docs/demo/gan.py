import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
generator, critic = nn.Linear(4, 8).to(device), nn.Linear(8, 1).to(device)
optimizer_g = torch.optim.Adam(generator.parameters())
optimizer_d = torch.optim.Adam(critic.parameters())
criterion = nn.BCEWithLogitsLoss()

for _ in range(4):
    real, ones = torch.randn(16, 8, device=device), torch.ones(16, 1, device=device)
    fake = generator(torch.randn(16, 4, device=device))
    optimizer_d.zero_grad()
    loss_d = criterion(critic(real), ones) + criterion(critic(fake.detach()), 0 * ones)
    loss_d.backward()
    optimizer_d.step()
    optimizer_g.zero_grad()
    loss_g = criterion(critic(fake), ones)
    loss_g.backward()
    optimizer_g.step()
