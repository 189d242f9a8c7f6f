"""The models' side of attest_worker.py: `attest check-model python:my.py:model`.

A model is a class in a file, made once with the create options as keywords, or a plain function, which then is
its logits; the contract stands beside it (attest/model.h says what it may hold):

    CONTRACT = {"contract": "attest-model-1", "kind": "decoder", "vocab": 16, "max_len": 32}

    class model:
        def logits(self, tokens, lengths): ...          # [batch, len], [batch] -> [batch, len, vocab]

Only logits is needed. Keywords come where the contract has what they are for: padding ("left", "right") where the
method takes it, source and source_lengths in an encoder_decoder, first_position. What else a contract may offer:

        def open(self, batch, capacity, kind): ...      # -> a cache; source, source_lengths as above
        def step(self, cache, tokens, lengths): ...     # appends [batch, n] tokens -> [batch, n, vocab]; padding as above
        def reorder(self, cache, parents): ...          # item b goes on from parents[b]; may return a new cache
        def bytes(self, cache): ...                     # used by now
        def close(self, cache): ...
        def batch(self, documents, len): ...            # list of [n] -> inputs, targets, weights, each [rows, len]

close, reorder and bytes may be left out.
"""

import functools
import inspect

LOGITS, GENERATE, BATCH = range(3)
OPERATION, PADDING, CACHE_KIND = 64, 65, 66
SIDES = ["none", "right", "left"]
CACHE_KINDS = ["contiguous", "paged", "ring"]

# The numbers of properties/harness/sandbox/model_roles.h.
ROLES = {
    80: "logits", 81: "inputs", 82: "targets", 83: "weights", 84: "rows", 85: "cache_bytes",
    40: "tokens", 41: "lengths", 42: "source", 43: "source_lengths", 44: "first_position", 45: "chunks",
    46: "parents", 47: "decoy", 48: "documents", 49: "document_lengths",
}
OUTPUTS = {"logits", "inputs", "targets", "weights", "rows", "cache_bytes"}


def is_model(contract):
    return str(contract.get("contract", "")).startswith("attest-model")


class Model:
    """The user's model. `kernel` knows its file and how tensors are shown to it and taken from it; `refused` is
    the exception whose text is a reason."""

    def __init__(self, kernel, contract, refused):
        self.kernel, self.refused = kernel, refused
        if inspect.isclass(kernel.function):
            self.object = kernel.function(**kernel.options)
            self.logits = self.method("logits")
        else:
            self.object = None
            self.logits = functools.partial(kernel.function, **kernel.options)
        if contract.get("caches"):
            self.method("open"), self.method("step")
        if contract.get("batcher") is not None:
            self.method("batch")
        sides = contract.get("padding")  # what is no list is refused by its reader
        if isinstance(sides, list) and len(sides) > 1 and not takes(self.logits, "padding"):
            raise refused(f"{kernel.name}: padding comes on both sides: let logits take padding, 'left' or 'right'")

    def method(self, name):
        found = getattr(self.object, name, None)
        if not callable(found):
            raise self.refused(f"{self.kernel.name}: its contract needs the method {name}")
        return found

    def optional(self, name):
        found = getattr(self.object, name, None)
        if found is None:
            raise NotImplementedError(f"{self.kernel.name} has no {name}")
        return found

    def compute(self, memory, call):
        options = {option["id"]: option.get("i") for option in call["options"]}
        arrays, shown, dtypes = {}, {}, {}
        for tensor in call["tensors"]:
            name = ROLES[tensor["role"]]
            is_output = name in OUTPUTS
            arrays[name] = memory.array(tensor, is_output or self.kernel.torch is not None)
            dtypes[name] = tensor["dtype"]
            if not is_output:
                shown[name] = self.kernel.shown(arrays[name], tensor["dtype"])
        part = {LOGITS: self.one_shot, GENERATE: self.generate, BATCH: self.rows}[options[OPERATION]]
        part(options, arrays, shown, dtypes)

    def side(self, function, options, first=True):
        """The keyword padding, for a function that takes it."""
        if not takes(function, "padding"):
            return {}
        return {"padding": SIDES[options.get(PADDING, 0) if first else 0]}

    def one_shot(self, options, arrays, shown, dtypes):
        more = {name: shown[name] for name in ("source", "source_lengths", "first_position") if name in shown}
        result = self.logits(shown["tokens"], shown["lengths"], **more, **self.side(self.logits, options))
        self.kernel.store("logits", result, arrays["logits"], dtypes["logits"], self.logits if self.object else None)

    def opened(self, options, arrays, shown):
        more = {name: shown[name] for name in ("source", "source_lengths") if name in shown}
        batch, capacity = arrays["tokens"].shape
        open_cache = self.method("open")
        if more:
            more.update(self.side(open_cache, options))
        return open_cache(batch, capacity, CACHE_KINDS[options[CACHE_KIND]], **more)

    def generate(self, options, arrays, shown, dtypes):
        close = getattr(self.object, "close", None)
        decoy = self.opened(options, arrays, shown) if "decoy" in shown else None
        cache = self.opened(options, arrays, shown)
        begin = 0
        for number, size in enumerate(arrays["chunks"]):
            end = begin + int(size)
            if decoy is not None:
                self.step(decoy, "decoy", begin, end, options, arrays, shown)
            if "parents" in shown:
                moved = self.optional("reorder")(cache, shown["parents"][number])
                cache = cache if moved is None else moved
            logits = self.step(cache, "tokens", begin, end, options, arrays, shown)
            self.kernel.store("logits", logits, arrays["logits"][:, begin:end], dtypes["logits"], self.method("step"))
            if "cache_bytes" in arrays:
                arrays["cache_bytes"][number] = int(self.optional("bytes")(cache))
            begin = end
        for one in (decoy, cache):
            if close and one is not None:
                close(one)

    def step(self, cache, tokens, begin, end, options, arrays, shown):
        # All padding lies in the first chunk: what a length lacks, this lacks.
        lacking = arrays["tokens"].shape[1] - arrays["lengths"] if begin == 0 else 0 * arrays["lengths"]
        lengths = self.kernel.shown(end - begin - lacking, "i64")
        step = self.method("step")
        return step(cache, shown[tokens][:, begin:end], lengths, **self.side(step, options, begin == 0))

    def rows(self, options, arrays, shown, dtypes):
        documents, begin = [], 0
        for length in arrays["document_lengths"]:
            documents.append(shown["documents"][begin:begin + int(length)])
            begin += int(length)
        made = self.method("batch")(documents, arrays["inputs"].shape[1])
        if not isinstance(made, (tuple, list)) or len(made) != 3:
            raise self.refused(f"{self.kernel.name}: batch returned no inputs, targets, weights")
        used = len(made[0])
        if used > len(arrays["inputs"]):
            raise self.refused(f"{self.kernel.name}: batch returned {used} rows, more than there are tokens")
        arrays["rows"][0] = used
        for name, result in zip(("inputs", "targets", "weights"), made):
            arrays[name][used:] = 0
            self.kernel.store(name, result, arrays[name][:used], dtypes[name], self.method("batch"))


def takes(function, keyword):
    parameters = inspect.signature(function).parameters.values()
    return any(p.name == keyword or p.kind == p.VAR_KEYWORD for p in parameters)
