"""What is true on a GPU, and what it refuses with which words: expressions over the names of
`on_simulated_gpu`.
"""

TRUE = (
    "x.is_cuda", "x.device == torch.device('cuda', 0)", "torch.cuda.is_available()",
    "x.cpu().device.type == 'cpu'", "(x + x.cpu().sum()).is_cuda", "copy.deepcopy(linear).weight.is_cuda",
    "saved(x).is_cuda", "saved(x, 'cpu').device.type == 'cpu'", "same_dropout()", "same_noise()",
    "same_address(linear)", "not torch.is_autocast_enabled('cpu')", "cpu_region()", "torch.equal(view(), ones)",
    "x.to(0).is_cuda", "type(x) is torch.Tensor",
    "not hasattr(torch, 'accelerator') or torch.accelerator.is_available()",
    "trains(nn.RMSNorm(4))", "trains(nn.LSTM(4, 5, 2, dropout=0.1))", "trains(nn.GRU(4, 5))",
    "twice(nn.LSTM(4, 5, 2))", "twice(nn.GRU(4, 5))", "twice(nn.LSTMCell(4, 5))", "twice(nn.GRUCell(4, 5, bias=False))",
    "trains(nn.TransformerEncoderLayer(4, 2))", "F.scaled_dot_product_attention(*[x[None]] * 3).is_cuda",
    "torch.backends.cudnn.version() is None",
    "x.cpu().type(torch.cuda.FloatTensor).is_cuda", "x.cpu().type('torch.cuda.HalfTensor').dtype is torch.half",
    "not x.type(torch.FloatTensor).is_cuda", "x.type(torch.half).is_cuda", "x.type() == 'torch.cuda.FloatTensor'",
    "torch.cuda.FloatTensor(2, 3).shape == (2, 3)", "torch.cuda.LongTensor([1, 2]).dtype is torch.int64",
    "isinstance(x, torch.cuda.FloatTensor)", "not isinstance(x.cpu(), torch.cuda.FloatTensor)",
    "not isinstance(x, torch.cuda.HalfTensor)",
    "x.clone().t_().shape == (4, 3)", "torch.equal(x.clone().transpose_(0, 1), x.mT)",
    "x.clone().unsqueeze_(0).shape == (1, 3, 4)", "x[:1].clone().squeeze_().shape == (4,)",
    "x.clone().as_strided_((2, 2), (1, 1)).shape == (2, 2)", "x.clone().resize_as_(x[:2]).shape == (2, 4)",
    "nn.GRU(4, 5, batch_first=True).cuda()(x[None])[0].shape == (1, 3, 5)",
    "nn.RNN(4, 5, batch_first=True).cuda()(x[None])[0].shape == (1, 3, 5)",
)  # fmt: skip
REFUSED = {
    "x + x.cpu()": "same device",
    "x.cpu() @ x.T": "same device",
    "linear(x.cpu())": "same device",
    "torch.zeros((), device='cpu').add_(x.sum())": "same device",
    "x.numpy()": "can't convert cuda",
    "torch.histc(x.half())": "not implemented for 'Half'",
    "torch.igamma(x.half(), x.half())": "not implemented for 'Half'",
    "x.half() @ x.T": "same dtype",
    "torch.zeros(3, 4, device='cuda').index_put_((torch.arange(3),), x.half())": "dtypes match",
}
