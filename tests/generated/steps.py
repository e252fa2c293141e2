"""One iteration of the loop: shapes from the batch to the step, over `x`, `y` and the count `i`.

`$name` is whatever the layout calls an object; `@slot` is a line that other axes fill in.
"""

from __future__ import annotations

SHAPES: dict[str, str] = {
    "contiguous": """
@move
@zero
@forward
loss.backward()
@grads
@step
@sched
@log
""",
    "receiver": """
@move
@zero
@inline.backward()
@grads
@step
@sched
""",
    "interleaved": """
@move
started = time.time()
out = $model(x)
correct = int((out.detach().argmax(dim=1) == 0).sum())
loss = @crit(out, y)
elapsed = time.time() - started
@zero
loss.backward()
@grads
@step
@sched
@log
""",
    "metric_between": """
@move
@zero
out = $model(x)
seen.append(out.detach().cpu().numpy().mean())
loss = @crit(out, y)
loss.backward()
@grads
@step
@sched
@log
""",
    "penalised": """
@move
@zero
@forward
if i % 2 == 1:
    loss = loss + 0.01 * $model(x).pow(2).mean()
loss.backward()
@grads
@step
@sched
@log
""",
    "weight_penalty": """
@move
@zero
@forward
penalty = 0.0
for p in $model.parameters():
    penalty = penalty + p.abs().sum()
loss = loss + 1e-3 * penalty
loss.backward()
@grads
@step
@sched
@log
""",
    "out_of_memory": """
@move
@zero
try:
    @forward
    loss.backward()
except RuntimeError as error:
    if "out of memory" in str(error):
        continue
    raise
@grads
@step
@sched
@log
""",
    "chunks": """
@move
@zero
loss = 0
for xc, yc in zip(x.chunk(2), y.chunk(2)):
    loss = loss + @crit($model(xc), yc)
loss = loss / 2
loss.backward()
@grads
@step
@sched
@log
""",
    "accumulate": """
@move
@forward
loss = loss / 2
loss.backward()
if (i + 1) % 2 == 0:
    @grads
    @step
    @zero
    @sched
@log
""",
    "accumulate_trailing": """
@move
@forward
(loss / 2).backward()
if (i + 1) % 3 == 0 or i + 1 == 4:
    @grads
    @step
    @zero
@log
""",
    "several": """
@move
@zero
out = $model(x)
loss_a = @crit(out, y)
loss_b = 0.1 * out.pow(2).mean()
loss = loss_a + loss_b
loss.backward()
@grads
@step
@sched
@log
""",
    "two_backwards": """
@move
@zero
loss_a = 0.1 * $model(x).abs().mean()
loss_a.backward()
@forward
loss.backward()
@grads
@step
@sched
@log
""",
    "retain": """
@move
@zero
out = $model(x)
loss_a = 0.1 * out.abs().mean()
loss = @crit(out, y)
loss_a.backward(retain_graph=True)
loss.backward()
@grads
@step
@sched
@log
""",
    "gan": """
@move
fake = $model(x)
$optimizer2.zero_grad()
real_loss = F.binary_cross_entropy_with_logits($model2(y), torch.ones(y.size(0), 1, device=y.device))
fake_loss = F.binary_cross_entropy_with_logits($model2(fake.detach()), torch.zeros(y.size(0), 1, device=y.device))
loss_d = real_loss + fake_loss
loss_d.backward()
$optimizer2.step()
@zero
loss = F.binary_cross_entropy_with_logits($model2(fake), torch.ones(y.size(0), 1, device=y.device))
loss.backward()
@grads
@step
@sched
@log
""",
    "gan_logits_split": """
@move
ones = torch.ones(y.size(0), 1, device=y.device)
# the critic first
$optimizer2.zero_grad()
output = $model2(y)
err_real = F.binary_cross_entropy_with_logits(output, ones)
err_real.backward()
fake = $model(x)
output = $model2(fake.detach())
err_fake = F.binary_cross_entropy_with_logits(output, 0 * ones)
err_fake.backward()
$optimizer2.step()
# then the generator
@zero
output = $model2(fake)
loss = F.binary_cross_entropy_with_logits(output, ones)
loss.backward()
@grads
@step
@log
""",
    "teacher": """
@move
@zero
with torch.no_grad():
    soft = torch.softmax($teacher(x), dim=1)
out = $model(x)
loss = @crit(out, y) + F.kl_div(F.log_softmax(out, dim=1), soft, reduction="batchmean")
loss.backward()
@grads
@step
@sched
@log
""",
    "target_network": """
@move
q = $model(x).gather(1, torch.zeros(x.size(0), 1, dtype=torch.long, device=x.device))
with torch.no_grad():
    best = $teacher(x + 0.1).max(1)[0].unsqueeze(1)
    target = 0.5 + 0.9 * best
loss = F.smooth_l1_loss(q, target)
@zero
loss.backward()
@grads
@step
if i % 2 == 0:
    $teacher.load_state_dict($model.state_dict())
@log
""",
    "siamese": """
@move
@zero
one, other = $model(x), $model(x.flip(0))
distance = F.pairwise_distance(one, other)
loss = torch.mean(distance.pow(2) + torch.clamp(1.0 - distance, min=0.0).pow(2))
loss.backward()
@grads
@step
@sched
@log
""",
    "acting": """
@move
state = environment.reset()
for _ in range(3):
    with torch.no_grad():
        action = $model(torch.as_tensor(state, device=x.device).view(1, -1)).argmax(1).item()
    state, reward = environment.step(action)
    memory.append((state, reward))
states = torch.stack([torch.as_tensor(s) for s, _ in memory[-3:]]).to(x.device)
rewards = torch.tensor([r for _, r in memory[-3:]], device=x.device)
values = $model(states)[:, 0]
loss = F.mse_loss(values, rewards)
@zero
loss.backward()
@grads
@step
@log
""",
    "replay": """
@move
state = environment.reset()
log_probs, rewards = [], []
for _ in range(4):
    logits = $model(torch.as_tensor(state, device=x.device).view(1, -1))
    chosen = torch.distributions.Categorical(logits=logits)
    action = logits.argmax(dim=1)
    state, reward = environment.step(action.item())
    log_probs.append(chosen.log_prob(action))
    rewards.append(reward)
loss = -(torch.cat(log_probs) * torch.tensor(rewards, device=x.device)).mean()
@zero
loss.backward()
@grads
@step
@log
""",
    "gradient_penalty": """
@move
fake = $model(x)
$optimizer2.zero_grad()
mixed = (0.5 * y + 0.5 * fake.detach()).requires_grad_(True)
scores = $model2(mixed)
gradient = torch.autograd.grad(scores.sum(), mixed, create_graph=True)[0]
penalty = ((gradient.norm(2, dim=1) - 1) ** 2).mean()
loss_d = $model2(fake.detach()).mean() - $model2(y).mean() + penalty
loss_d.backward()
$optimizer2.step()
@zero
loss = -$model2($model(x)).mean()
loss.backward()
@grads
@step
@log
""",
    "closure": """
@move
def closure():
    $optimizer.zero_grad()
    value = @inline
    value.backward()
    return value
loss = $optimizer.step(closure)
@log
""",
    "grad_mode": """
@move
@zero
with torch.set_grad_enabled(i != 3):
    @forward
    if i != 3:
        loss.backward()
        @grads
        @step
@log
""",
    "walrus": """
@move
@zero
(loss := @inline).backward()
@grads
@step
@sched
@log
""",
    "nan_guard": """
@move
@zero
@forward
if not torch.isfinite(loss):
    print("loss is", loss.item())
    raise SystemExit(1)
loss.backward()
@grads
@step
@sched
@log
""",
    "critic_steps": """
@move
for _ in range(2):
    $optimizer2.zero_grad()
    loss_d = $model2($model(x).detach()).mean() - $model2(y).mean()
    loss_d.backward()
    $optimizer2.step()
    for p in $model2.parameters():
        p.data.clamp_(-0.5, 0.5)
@zero
loss = -$model2($model(x)).mean()
loss.backward()
@grads
@step
@log
""",
    "backward_list": """
@move
@zero
out = $model(x)
loss = @crit(out, y)
loss_b = 0.1 * out.abs().mean()
torch.autograd.backward([loss, loss_b])
@grads
@step
@sched
@log
""",
    "vector_sum": """
@move
@zero
rows = ($model(x) - $model(x.flip(0)).detach()).pow(2).mean(dim=1)
loss = rows.sum()
loss.sum().backward()
@grads
@step
@log
""",
    "two_optimizers": """
@move
@zero
$optimizer2.zero_grad()
code = $model(x)
loss = F.mse_loss($model2(code), y[:, :1]) + 0.1 * code.pow(2).mean()
loss.backward()
@grads
@step
$optimizer2.step()
@log
""",
    "alternating": """
@move
if i % 2 == 0:
    @zero
    loss = F.mse_loss($model(x), y)
    loss.backward()
    @grads
    @step
else:
    $optimizer2.zero_grad()
    loss = F.mse_loss($model2(y), y[:, :1])
    loss.backward()
    $optimizer2.step()
@log
""",
    "augmented": """
x = augment(x)
@move
x = normalise(x)
@zero
@forward
loss.backward()
@grads
@step
@sched
@log
""",
    "mixup": """
@move
lam = 0.7
order = torch.arange(x.size(0) - 1, -1, -1, device=x.device)
mixed = lam * x + (1 - lam) * x[order]
@zero
out = $model(mixed)
loss = lam * @crit(out, y) + (1 - lam) * @crit(out, y[order])
loss.backward()
@grads
@step
@sched
@log
""",
    "ema": """
@move
@zero
@forward
loss.backward()
@grads
@step
with torch.no_grad():
    for mine, theirs in zip($teacher.parameters(), $model.parameters()):
        mine.mul_(0.9).add_(theirs, alpha=0.1)
@log
""",
    "phases": """
@move
for phase in ["train", "val"]:
    if phase == "train":
        $model.train()
    else:
        $model.eval()
    @zero
    with torch.set_grad_enabled(phase == "train"):
        out = $model(x)
        loss = @crit(out, y)
    if phase == "train":
        loss.backward()
        @grads
        @step
@log
""",
    "while_loop": """
@move
tries = 0
while tries < 2:
    @zero
    @forward
    loss.backward()
    @grads
    @step
    tries += 1
@log
""",
    "loss_dict": """
@move
@zero
out = $model(x)
terms = {"fit": @crit(out, y), "size": 0.1 * out.pow(2).mean()}
loss = sum(terms.values())
loss.backward()
@grads
@step
@sched
@log
""",
    "adversarial": """
@move
probe = x.clone().requires_grad_(True)
value = @crit($model(probe), y)
step = torch.autograd.grad(value, probe)[0]
x = x + 0.01 * step.sign()
@zero
@forward
loss.backward()
@grads
@step
@log
""",
    "stored_output": """
@move
@zero
out = $model(x)
outputs = [out]
outputs.append($model(x.flip(1)))
loss = torch.stack([@crit(o, y) for o in outputs]).mean()
loss.backward()
@grads
@step
@sched
@log
""",
    "running_hidden": """
@move
@zero
carry = torch.zeros(x.size(0), 6, device=x.device)
losses = []
for t in range(3):
    out = $model(x + carry)
    carry = carry + torch.cat([out, out], dim=1).detach() * 0.1
    losses.append(@crit(out, y))
loss = torch.stack(losses).sum()
loss.backward()
@grads
@step
@log
""",
    "conditional_step": """
@move
@zero
@forward
if loss.item() < 1e6:
    loss.backward()
    @grads
    @step
@log
""",
    "autograd_demo": """
@move
a = torch.ones(3, requires_grad=True)
b = (a * a).sum()
b.backward()
seen.append(float(a.grad.sum()))
@zero
@forward
loss.backward()
@grads
@step
@sched
@log
""",
}

NEEDS: dict[str, tuple[str, ...]] = {
    "gan": ("model2", "optimizer2"),
    "gan_logits_split": ("model2", "optimizer2"),
    "gradient_penalty": ("model2", "optimizer2"),
    "critic_steps": ("model2", "optimizer2"),
    "two_optimizers": ("model2", "optimizer2"),
    "alternating": ("model2", "optimizer2"),
    "teacher": ("teacher",),
    "target_network": ("teacher",),
    "ema": ("teacher",),
}
OWN_LOSS = {
    "gan",
    "gan_logits_split",
    "gradient_penalty",
    "critic_steps",
    "two_optimizers",
    "alternating",
    "target_network",
    "acting",
    "replay",
    "vector_sum",
    "siamese",
}
"""Shapes that compute a loss of their own, so that the task's criterion is not needed."""
WITHOUT_LOSS = {"receiver"}
ONLY_IN_LOOPS = {"out_of_memory"}
"""Shapes with a `continue`."""

GRADIENTS: dict[str, tuple[str, ...]] = {
    "none": (),
    "clip_norm": ("torch.nn.utils.clip_grad_norm_($model.parameters(), 1.0)",),
    "clip_value": ("torch.nn.utils.clip_grad_value_($model.parameters(), 0.5)",),
    "own_clipper": ("clip_gradient($optimizer, 0.5)",),
    "norm_log": (
        "total = 0.0",
        "for p in $model.parameters():",
        "    if p.grad is not None:",
        "        total += p.grad.norm(2).item() ** 2",
        'print("gradient", round(total, 1) >= 0)',
    ),
    "average": (
        "for p in $model.parameters():",
        "    if p.grad is not None:",
        "        p.grad.div_(2.0)",
    ),
    "check_nan": (
        "bad = any(torch.isnan(p.grad).any() for p in $model.parameters() if p.grad is not None)",
        "if bad:",
        "    $optimizer.zero_grad()",
    ),
    "clip_conditional": (
        "if i > 0:",
        "    torch.nn.utils.clip_grad_norm_($model.parameters(), 0.7)",
    ),
    "noise": (
        "for p in $model.parameters():",
        "    if p.grad is not None:",
        "        p.grad += 1e-3 * torch.ones_like(p.grad)",
    ),
    "manual_zero": (
        "norms.append(max(float(p.grad.abs().max()) for p in $model.parameters() if p.grad is not None))",
    ),
    "clip_logged": (
        "norm = torch.nn.utils.clip_grad_norm_($model.parameters(), max_norm=1.0)",
        "norms.append(float(norm))",
    ),
    "clip_method": ("clip_all([p for p in $model.parameters() if p.grad is not None], 1.0)",),
    "grad_none_check": ("assert any(p.grad is not None for p in $model.parameters())",),
    "scale_by_hand": (
        "for group in $optimizer.param_groups:",
        '    for p in group["params"]:',
        "        if p.grad is not None:",
        "            p.grad.data.mul_(0.5)",
    ),
    "hook": (),
}

AFTER: dict[str, tuple[str, ...]] = {
    "none": (),
    "numpy": ("seen.append(out.detach().cpu().numpy().sum())",),
    "bank": ("bank[torch.arange(x.size(0)) % 16] = out.detach().cpu()",),
    "bank_float": ("bank[torch.arange(x.size(0)) % 16] = out.detach().cpu().float()",),
    "sum_metric": ("seen.append(float((out.argmax(1) == 0).float().sum()))",),
    "cat": ("kept.append(out.detach())", "joined = torch.cat(kept)"),
    "outputs_matmul": ("similar = torch.eye(3, device=x.device)[:1] @ out.detach().t()",),
    "evaluate": ("seen.append(evaluate($model, x))",),
    "evaluate_inline": (
        "$model.eval()",
        "with torch.no_grad():",
        "    out = $model(x)",
        "    seen.append(float(out.sum()))",
        "$model.train()",
    ),
    "half_copy": (
        "small = copy.deepcopy($model).half()",
        "seen.append(sum(p.numel() for p in small.parameters()))",
    ),
}
OF_OUTPUT = {"numpy", "bank", "bank_float", "sum_metric", "cat", "outputs_matmul"}
"""Uses of `out`, which the iteration has to bind."""
BINDING = {"criterion", "functional", "helper_tuple", "project_class", "lambda"}
"""Ways to the loss that bind `out`."""

SCHEDULES: dict[str, tuple[str, str]] = {
    "none": ("", ""),
    "step": ("torch.optim.lr_scheduler.StepLR($optimizer, step_size=3, gamma=0.9)", "batch"),
    "epoch": ("torch.optim.lr_scheduler.StepLR($optimizer, step_size=1)", "epoch"),
    "lambda": ("torch.optim.lr_scheduler.LambdaLR($optimizer, lambda k: 1 / (1 + k))", "batch"),
    "plateau": ("torch.optim.lr_scheduler.ReduceLROnPlateau($optimizer, patience=1)", "plateau"),
    "by_hand": ("", "hand"),
    "one_cycle": (
        "torch.optim.lr_scheduler.OneCycleLR($optimizer, max_lr=0.01, total_steps=100)",
        "batch",
    ),
}
