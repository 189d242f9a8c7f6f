"""The kernel that computes nothing: out is q. For `attest_bench workers`."""

CONTRACT = {"contract": "attest-1", "dtypes": ["f32"]}


def attention(q, k, v, *, scale):
    return q
