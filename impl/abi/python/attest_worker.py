"""The attest worker for kernels written in Python: `attest check python:my.py:attention`.

attest starts it; nobody else does. It speaks the worker protocol (../PROTOCOL.md) on descriptor 3 and maps the
arena, descriptor 4. Of models attest_model.py says more. A kernel is a function in a file, with its contract beside it:

    CONTRACT = {"contract": "attest-1", "dtypes": ["f32"], "features": ["causal"], "lse": "none"}

    def attention(q, k, v, *, scale, causal=False): ...

Tensors are numpy arrays over the shared memory, inputs read-only, in a layout that the contract names; every
other tensor and option of a call comes as a keyword (NAMES below), and only where the call has it. A bf16
tensor comes as float32, for numpy has no such type, and an fp8 one as bytes. With `TENSORS = "torch"` in the
file they are torch tensors over the same memory (DLPack), bf16 included; inputs lie on the CPU and must not be
written, results may come from any device. The function returns out, or a tuple in the order out, lse, weights,
scores, present_k, present_v of those that were asked for (want_lse and so on), or a dictionary of them.
NotImplementedError means UNSUPPORTED; any other exception means FAILED.

A contract with "backward" has a second function beside the first, of the same name with _backward. It gets what
the first got, and out, lse (where the contract has one) and dout as keywords, and returns dq, dk and dv, then dbias
where "backward" has it and there is a bias, and dsink likewise.

Create options (`python:my.py?tile=8`) come as keywords too, as text: each must be a parameter of the function,
under a name that attest does not use itself. What raises an exception is named by file and line.

A function with a parameter `outputs` also learns what it is to fill: {"out": ("f16", [1, 2, 4, 8]), ...} has
the element type and the shape of every output asked for. The inputs leave these open in two places: out's type
beside fp8 inputs, and kv_len, the last extent of weights, beside pages (at least the largest of key_lengths; a mask or
bias may have more keys).
"""

import bisect
import ctypes
import importlib.util
import inspect
import json
import mmap
import os
import resource
import socket
import struct
import sys
import sysconfig
import traceback

import attest_model

CONTROL, ARENA = 3, 4
PROTOCOL = 1
MESSAGE_LIMIT = 4000  # characters: the harness takes no endless line
SYSTEM_PYTHON = "/usr/bin/python3"

try:
    import numpy
except ImportError:
    if os.path.exists(SYSTEM_PYTHON) and os.path.realpath(sys.executable) != os.path.realpath(SYSTEM_PYTHON):
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON] + sys.argv)
    numpy = None

OK, UNSUPPORTED, INVALID_ARGUMENT, FAILED = range(4)

# The numbers of attest/kernel.h.
NAMES = {
    1: "q", 2: "k", 3: "v", 4: "mask", 5: "bias", 6: "key_lengths", 7: "query_lengths", 8: "cu_key_lengths",
    9: "cu_query_lengths", 10: "diagonal_offset", 11: "document_ids", 12: "prefix_lengths", 13: "block_mask",
    14: "sinks", 15: "alibi_slopes", 16: "dropout_mask", 17: "past_k", 18: "past_v", 19: "page_table",
    20: "q_scale", 21: "k_scale", 22: "v_scale", 23: "key_document_ids", 24: "ring_start",
}
OUTPUTS = {64: "out", 65: "lse", 66: "weights", 67: "scores", 68: "present_k", 69: "present_v"}
DOUT, GRADIENTS = 96, {97: "dq", 98: "dk", 99: "dv", 100: "dbias", 101: "dsink"}
OPTIONS = {
    1: "scale", 2: "causal", 3: "window_left", 4: "window_right", 5: "softcap", 6: "dropout", 7: "block_q",
    8: "block_k", 9: "score_mode", 10: "fp8",
}
FLAGS = {"causal"}
# What a function's parameters mean already; no create option bears such a name.
OWN = {*NAMES.values(), *OPTIONS.values(), *("want_" + name for name in OUTPUTS.values()), "outputs"}
TYPES = {
    "f32": "<f4", "f64": "<f8", "f16": "<f2", "bf16": "<u2", "bool": "|u1", "i64": "<i8", "e4m3": "|u1",
    "e5m2": "|u1",
}


def from_bf16(words):
    return (words.astype(numpy.uint32) << 16).view(numpy.float32)


def to_bf16(values):
    """Rounds to nearest, ties to even; a NaN stays one."""
    values = numpy.ascontiguousarray(values, numpy.float32)
    bits = values.view(numpy.uint32)
    rounded = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(numpy.uint16)
    return numpy.where(numpy.isnan(values), numpy.uint16(0x7FC0), rounded)


def json_of(contract, place):
    """The contract as text; what JSON has no form for (NaN, numpy's numbers) is refused by its key."""
    for key, value in contract.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            kind = type(value).__name__
            raise Refused(f"{place}: contract: {key}: {value!r} ({kind}) is nothing that JSON holds") from None
    return json.dumps(contract)


class Refused(Exception):
    """The call cannot be made of this kernel; the text is the reason."""


class Returned(Refused):
    """What a function, else the kernel's own, gave back cannot be taken; the text is the reason, without the place."""

    def __init__(self, text, function=None):
        super().__init__(text)
        self.function = function


MAP_FIXED, MAP_NORESERVE = 0x10, 0x4000


def map_memory(address, size, protection, flags, file=-1, offset=0):
    """mmap of the C library: Python's own takes no address."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                             ctypes.c_int64]
    place = library.mmap(address, size, protection, flags, file, offset)
    if place == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), f"cannot map {size} bytes: {os.strerror(ctypes.get_errno())}")
    return place


class Slot:
    def __init__(self, slot, address):
        self.offset, self.bytes, self.address = slot["offset"], slot["bytes"], address
        map_memory(address, self.bytes, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | MAP_FIXED, ARENA,
                   self.offset)
        self.buffer = (ctypes.c_char * self.bytes).from_address(address)


class Memory:
    """The arena: each slot by itself, between regions that cannot be accessed. Inputs are read-only to numpy and
    writable beneath it: who writes to one past numpy (ctypes, a library) then learns from the harness which input was
    changed, where a crash would say less. What was mapped once stays: a kernel may have kept an array."""

    def __init__(self):
        self.note = mmap.mmap(ARENA, mmap.PAGESIZE)
        self.slots, self.offsets = [], []

    def map(self, slots, guard):
        known = [(slot.offset, slot.bytes) for slot in self.slots]
        if [(slot["offset"], slot["bytes"]) for slot in slots[:len(known)]] != known:
            self.slots = []
        added = slots[len(self.slots):]
        size = guard + sum(slot["bytes"] + guard for slot in added)
        place = map_memory(None, size, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
        for slot in added:
            self.slots.append(Slot(slot, place + guard))
            place += guard + slot["bytes"]
        self.offsets = [slot.offset for slot in self.slots]

    def array(self, tensor, writable):
        dtype = numpy.dtype(TYPES[tensor["dtype"]])
        shape = tensor["shape"]
        if 0 in shape:
            return numpy.zeros(shape, dtype)
        strides = [dtype.itemsize * stride for stride in tensor["strides"]]
        slot = self.slots[bisect.bisect_right(self.offsets, tensor["offset"]) - 1]
        array = numpy.ndarray(shape, dtype, slot.buffer, tensor["offset"] - slot.offset, strides)
        array.flags.writeable = writable
        return array


def is_own(file):
    """Whether a file is the user's, and none that came with Python, with a package or with attest."""
    libraries = [sysconfig.get_path("stdlib"), os.path.abspath(__file__)]
    return (os.path.isfile(file) and not any(file.startswith(library) for library in libraries)
            and "site-packages" not in file and "dist-packages" not in file)


def sources_of(modules):
    """The files of the user's own modules."""
    files = (getattr(module, "__file__", None) for module in modules)
    return sorted({os.path.abspath(file) for file in files if file and is_own(file)})


def place_of(function):
    """Where a function begins, as file:line; "" for what has no code of its own."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else ""


def functions_in(module):
    own = [f"{value.__name__} at {place_of(value)}" if inspect.isfunction(value) else f"the class {value.__name__}"
           for value in vars(module).values()
           if (inspect.isfunction(value) or inspect.isclass(value)) and value.__module__ == module.__name__]
    return "it has " + ", ".join(own) if own else "it has none"


class Kernel:
    """The user's function, and how to call it."""

    def __init__(self, path):
        self.path, self.function = os.path.abspath(path), None

    def load(self, options, threads):
        self.backward = None
        path, options = self.path, dict(options)
        name = options.pop("variant", None)
        before = set(sys.modules)
        module = self.imported()
        if name is None:
            name = "model" if hasattr(module, "model") and not hasattr(module, "attention") else "attention"
        self.files = [path, *sources_of(sys.modules[key] for key in set(sys.modules) - before)]
        self.function = getattr(module, name, None)
        self.backward = getattr(module, name + "_backward", None)
        if not callable(self.function):
            raise Refused(f"{path}: has no function {name}; {functions_in(module)}")
        contract = getattr(self.function, "contract", None) or getattr(module, "CONTRACT", None)
        if not isinstance(contract, dict):
            raise Refused(f"{place_of(self.function) or path}: put the contract beside {name}: CONTRACT = {{...}}")
        self.name = f"{os.path.basename(path)}:{name}"
        self.version = str(getattr(module, "__version__", "1"))
        self.contract = json_of(contract, place_of(self.function) or path)
        self.options = options
        self.torch = None
        if getattr(module, "TENSORS", "numpy") == "torch":
            import torch

            torch.set_num_threads(max(1, threads))
            self.torch = torch
        parameters = inspect.signature(self.function).parameters.values()
        self.takes_all = any(p.kind == p.VAR_KEYWORD for p in parameters)
        self.accepted = {p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
        self.refuse_unknown(name, options)
        self.model = attest_model.Model(self, contract, Refused) if attest_model.is_model(contract) else None

    def imported(self):
        """The user's file as a module."""
        sys.path.insert(0, os.path.dirname(self.path))
        spec = importlib.util.spec_from_file_location("attest_kernel", self.path)
        if spec is None:
            raise Refused(f"{self.path}: is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules["attest_kernel"] = module
        spec.loader.exec_module(module)
        return module

    def refuse_unknown(self, name, options):
        """An option must be a parameter by name: **rest takes what attest has, and would swallow a misspelt one."""
        known = sorted(self.accepted - OWN)
        unknown = sorted(key for key in options if key not in known)
        if unknown:
            takes = "known are " + ", ".join(known) if known else "it takes none"
            raise Refused(f"{place_of(self.function) or self.path}: {name}() takes no option '{unknown[0]}'; {takes}")

    def place(self, error):
        """Where in the user's files the error was raised, as file:line; else where the function is."""
        if isinstance(error, SyntaxError) and error.filename and error.lineno:
            return f"{error.filename}:{error.lineno}"
        lines = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
        folder = os.path.dirname(self.path) + os.sep
        for is_theirs in (lambda file: file.startswith(folder) and is_own(file), lambda file: file == self.path):
            for file, line in reversed(lines):
                if is_theirs(file):
                    return f"{file}:{line}"
        return self.function and place_of(self.function) or self.path

    def takes(self, keyword):
        return self.takes_all or keyword in self.accepted

    def shown(self, array, dtype):
        """An input as the function sees it."""
        if self.torch is None:
            if dtype == "bool":
                return array.view(numpy.bool_)
            return from_bf16(array) if dtype == "bf16" else array
        torch = self.torch
        if dtype == "bf16":
            # numpy has no bf16: the bits travel as int16 and are seen as what they are.
            return torch.from_dlpack(array.view(numpy.int16)).view(torch.bfloat16)
        tensor = torch.from_dlpack(array)
        return tensor.view(torch.bool) if dtype == "bool" else tensor

    def store(self, name, result, array, dtype, function=None):
        """Writes a result, a torch tensor or what numpy takes for an array, into an output."""
        whose = function.__name__ if function else self.name
        is_tensor = self.torch is not None and isinstance(result, self.torch.Tensor)
        wrong = wrong_kind(result, is_tensor)
        if wrong:
            raise Returned(f"{whose} returned {name} as {wrong}, expected an array of real numbers", function)
        if not is_tensor:
            result = numpy.asarray(result)
        if tuple(result.shape) != array.shape:
            raise Returned(f"{whose} returned {name} of shape {list(result.shape)}, expected "
                           f"{list(array.shape)}", function)
        if is_tensor:
            self.shown(array, dtype).copy_(result.detach())
            return
        with numpy.errstate(all="ignore"):
            array[...] = to_bf16(result) if dtype == "bf16" else result


def wrong_kind(result, is_tensor):
    """What a result is, where it is no array of real numbers; else None."""
    what = type(result).__name__
    if is_tensor:
        return f"{what} of {result.dtype}" if result.is_complex() else None
    if isinstance(result, numpy.ma.MaskedArray):
        return what
    # Types that numpy learns from others, as bf16, are of kind V, without fields.
    dtype = numpy.asarray(result).dtype
    if dtype.kind in "biufV" and dtype.names is None:
        return None
    return f"{what} of {dtype}" if isinstance(result, (numpy.ndarray, list)) else what


def named(result, asked, function):
    """What the function returned, by output name."""
    if isinstance(result, dict):
        return result
    if not isinstance(result, tuple):
        return {"out": result}
    if len(result) > len(asked):
        raise Returned(f"{function} returned a tuple of {len(result)}, but was asked for {', '.join(asked)} only")
    return dict(zip(asked, result))


def compute_backward(kernel, arguments, outputs, gradients):
    """The backward pass of a call whose forward pass has filled `outputs`; dout is among the arguments."""
    function = kernel.backward
    if not callable(function):
        raise Refused(f"{kernel.path}: the contract has a backward pass, so {kernel.function.__name__}_backward "
                      "must stand beside the function, or leave the key backward out")
    arguments = {name: value for name, value in arguments.items() if not name.startswith("want_")}
    arguments.pop("outputs", None)
    for name, (array, dtype) in outputs.items():
        seen = array.view()
        seen.flags.writeable = kernel.torch is not None
        arguments[name] = kernel.shown(seen, dtype)
    results = named(function(**arguments), list(gradients), function.__name__)
    for name, target in gradients.items():
        if results.get(name) is None:
            raise Returned(f"{function.__name__} returned no {name}", function)
        kernel.store(name, results[name], *target, function)


def compute(kernel, memory, call):
    if kernel.model is not None:
        return kernel.model.compute(memory, call)
    arguments, outputs, gradients, dout = dict(kernel.options), {}, {}, {}
    for tensor in call["tensors"]:
        role, dtype = tensor["role"], tensor["dtype"]
        if role in OUTPUTS:
            outputs[OUTPUTS[role]] = (memory.array(tensor, True), dtype)
        elif role in GRADIENTS:
            gradients[GRADIENTS[role]] = (memory.array(tensor, True), dtype)
        elif role == DOUT:
            dout["dout"] = kernel.shown(memory.array(tensor, kernel.torch is not None), dtype)
        elif role in NAMES:
            # torch knows no read-only memory; the harness finds an input that was changed.
            arguments[NAMES[role]] = kernel.shown(memory.array(tensor, kernel.torch is not None), dtype)
        else:
            raise NotImplementedError(f"role {role}")
    for option in call["options"]:
        name = OPTIONS.get(option["id"])
        if name is None:
            raise NotImplementedError(f"option {option['id']}")
        value = float(option["f"]) if "f" in option else option["i"]
        arguments[name] = bool(value) if name in FLAGS else value
    for name in outputs:
        if name != "out":
            arguments["want_" + name] = True
    if "outputs" in kernel.accepted:
        arguments["outputs"] = {name: (dtype, list(array.shape)) for name, (array, dtype) in outputs.items()}
    for name in arguments:
        if not kernel.takes(name):
            raise NotImplementedError(f"{kernel.name} takes no {name}")
    asked = [name for name in OUTPUTS.values() if name in outputs]
    results = named(kernel.function(**arguments), asked, kernel.name)
    for name in asked:
        if results.get(name) is None:
            raise Returned(f"{kernel.name} returned no {name}")
        kernel.store(name, results[name], *outputs[name])
    if gradients:
        compute_backward(kernel, {**arguments, **dout}, outputs, gradients)


def one_line(error, kernel=None):
    """What went wrong, and with the kernel at hand where: "mine.py:12: ValueError: ..."."""
    try:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:  # a kernel's own exception may not know how to show itself
        text = ""
    text = " ".join(text[:MESSAGE_LIMIT].split()) or type(error).__name__
    if isinstance(error, Returned):
        place = place_of(error.function or kernel.function)
        return f"{place}: {text}" if place else text
    if isinstance(error, (Refused, NotImplementedError)):
        return text
    try:
        where = kernel.place(error) + ": " if kernel else ""
    except Exception:
        where = ""
    return f"{where}{type(error).__name__}: {text}"


class Worker:
    def __init__(self):
        self.control = socket.socket(fileno=CONTROL)
        self.kernel, self.memory = None, Memory()

    def reply(self, **fields):
        # Half of a surrogate pair, which JSON cannot carry, becomes a question mark.
        self.control.sendall((json.dumps(fields, ensure_ascii=False) + "\n").encode("utf-8", "replace"))

    def load(self, request):
        if request["protocol"] != PROTOCOL:
            raise Refused("unknown protocol version")
        if numpy is None:
            raise Refused(f"{sys.executable} has no numpy; install it (Debian: python3-numpy), or name another "
                          "interpreter in ATTEST_PYTHON")
        limit = request["memory_limit"]
        if limit:
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            if hard == resource.RLIM_INFINITY or hard > limit:
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        self.kernel = Kernel(request["library"])
        self.kernel.load(request["options"], request["threads"])
        return {"name": self.kernel.name, "version": self.kernel.version, "contract": self.kernel.contract,
                "threads": self.kernel.torch is not None, "files": self.kernel.files}

    def map(self, request):
        self.memory.map(request["slots"], request["guard"])
        return {"addresses": [slot.address for slot in self.memory.slots]}

    def run(self, request):
        for number, call in enumerate(request["calls"]):
            status, message = OK, ""
            struct.pack_into("<I", self.memory.note, 0, 1)
            try:
                compute(self.kernel, self.memory, call)
            except NotImplementedError as error:
                status, message = UNSUPPORTED, one_line(error)
            except MemoryError as error:
                self.reply(id=request["id"], call=number, status=FAILED, message="",
                           thrown=one_line(error, self.kernel), out_of_memory=True)
                continue
            except Exception as error:
                status, message = FAILED, one_line(error, self.kernel)
            struct.pack_into("<I", self.memory.note, 0, 0)
            fields = {"message": message} if message else {}
            self.reply(id=request["id"], call=number, status=status, **fields)
        sys.stdout.flush()

    def serve(self):
        for line in self.control.makefile("r", encoding="utf-8"):
            request = json.loads(line)
            if request["op"] == "run":
                self.run(request)
                continue
            try:
                answer = {"load": self.load, "map": self.map}[request["op"]](request)
            except (Exception, SystemExit) as error:  # a module that leaves as it is loaded has a line, too
                answer = {"error": one_line(error, self.kernel)}
            self.reply(id=request["id"], **answer)


if __name__ == "__main__":
    Worker().serve()
