"""A language model of torch.nn modules: attest check-model python:torch_model.py:model"""

import torch

VOCAB, MAX_LEN, DIM = 16, 32, 16
TENSORS = "torch"
CONTRACT = {
    "contract": "attest-model-1", "kind": "decoder", "vocab": VOCAB, "max_len": MAX_LEN, "dtype": "f32",
    "padding": ["left", "right"], "positions": "absolute", "bits_invariant": ["rerun"],
}


class model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.tokens, self.positions = torch.nn.Embedding(VOCAB, DIM), torch.nn.Embedding(MAX_LEN, DIM)
        layer = torch.nn.TransformerEncoderLayer(DIM, nhead=2, dim_feedforward=32, batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(DIM, VOCAB)
        self.eval()  # or dropout is on

    @torch.inference_mode()
    def logits(self, tokens, lengths, padding):
        index = torch.arange(tokens.shape[1])
        real = index >= tokens.shape[1] - lengths[:, None] if padding == "left" else index < lengths[:, None]
        places = (real.cumsum(1) - 1).clamp(min=0)
        later = torch.triu(torch.ones(len(index), len(index), dtype=torch.bool), 1)
        # Padding sees itself: a row that sees nothing is NaN.
        hidden = (later | ~real[:, None, :]) & ~torch.eye(len(index), dtype=torch.bool)
        x = self.tokens(tokens) + self.positions(places)
        return self.head(self.layers(x, mask=hidden.repeat_interleave(2, 0)))
