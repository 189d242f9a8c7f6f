// The attest worker for kernels written in JavaScript: `attest check node:my.mjs:attention`.
//
// attest starts it; nobody else does. It speaks the worker protocol (../PROTOCOL.md) on descriptor 3. Node cannot
// map memory, so tensors are read from and written to the arena file, descriptor 4. A kernel is an exported
// function, with its contract beside it:
//
//   export const contract = {contract: "attest-1", dtypes: ["f32"], features: ["causal"], lse: "none"};
//   export function attention({q, k, v, scale, causal}) { ... return out; }
//
// A tensor is {data, shape}: dense in the layout that the contract names, data a Float32Array (f32, f16 and bf16),
// Float64Array, Uint8Array (masks, fp8) or BigInt64Array (lengths). Every tensor and option that the call has is a
// member of the one argument. The function returns out as an array of numbers, or an object of those that were
// asked for (wantLse and so on: out, lse, weights, scores, present_k, present_v), or a promise of either. The
// member outputs has the element type and shape of each: {out: {dtype: "f16", shape: [1, 2, 4, 8]}, ...}. An
// error with the name "Unsupported" means UNSUPPORTED; any other means FAILED, and is named by file and line.
//
// A contract with "backward" has a second function beside the first, of the same name with Backward. Its argument has
// what the first got, and out, lse (where the contract has one) and dout as tensors; outputs now speaks of dq, dk, dv,
// and of dbias and dsink where "backward" has them and the call a bias or sinks. It returns an object of those.
//
// Create options (`node:my.mjs?tile=8`) are members of the argument too, as text. The function must name them, in its
// pattern ({q, k, v, tile}) or in the file (export const options = ["tile"]); others are refused.
import {spawnSync} from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import readline from "node:readline";
import {fileURLToPath, pathToFileURL} from "node:url";

const kControl = 3, kArena = 4, kProtocol = 1;
const Status = {ok: 0, unsupported: 1, failed: 3};

// The numbers of attest/kernel.h.
const kInputs = {
  1: "q", 2: "k", 3: "v", 4: "mask", 5: "bias", 6: "key_lengths", 7: "query_lengths", 8: "cu_key_lengths",
  9: "cu_query_lengths", 10: "diagonal_offset", 11: "document_ids", 12: "prefix_lengths", 13: "block_mask",
  14: "sinks", 15: "alibi_slopes", 16: "dropout_mask", 17: "past_k", 18: "past_v", 19: "page_table",
  20: "q_scale", 21: "k_scale", 22: "v_scale", 23: "key_document_ids", 24: "ring_start",
};
const kOutputs = {64: "out", 65: "lse", 66: "weights", 67: "scores", 68: "present_k", 69: "present_v"};
const kDout = 96, kGradients = {97: "dq", 98: "dk", 99: "dv", 100: "dbias", 101: "dsink"};
const kWants = {lse: "wantLse", weights: "wantWeights", scores: "wantScores", present_k: "wantPresentK",
                present_v: "wantPresentV"};
const kOptions = {
  1: "scale", 2: "causal", 3: "windowLeft", 4: "windowRight", 5: "softcap", 6: "dropout", 7: "blockQ", 8: "blockK",
  9: "scoreMode", 10: "fp8",
};
// What members of the argument mean already; no create option bears such a name.
const kOwn = new Set([...Object.values(kInputs), ...Object.values(kOptions), ...Object.values(kWants),
                      ...Object.values(kOutputs), ...Object.values(kGradients), "dout", "outputs"]);
const kBytes = {f32: 4, f64: 8, f16: 2, bf16: 2, bool: 1, i64: 8, e4m3: 1, e5m2: 1};
const kArrays = {f32: Float32Array, f64: Float64Array, f16: Float32Array, bf16: Float32Array, bool: Uint8Array,
                 i64: BigInt64Array, e4m3: Uint8Array, e5m2: Uint8Array};

const kMessageLimit = 4000;  // characters: the harness takes no endless line

class Unsupported extends Error {
  name = "Unsupported";
}

// What this worker itself says of a kernel: it stands for itself, without a place.
class Refused extends Error {}

const kHere = fileURLToPath(import.meta.url);

// The first "file:line" in a stack that lies in a file of the user's: none of Node's, of a package or of ours.
function placeIn(stack) {
  for (const [, url, file, line] of stack.matchAll(/(?<!\w)(file:\/\/)?(\/[^\n:()]*):(\d+)/g)) {
    const path = url ? fileURLToPath(url + file) : file;
    if (path !== kHere && !path.includes("/node_modules/")) return `${path}:${line}`;
  }
  return "";
}

// "Cannot find package 'x' imported from FILE" says no line: that of FILE which names the last part of x.
function placeOfImport(message) {
  const [, what, file] = message.match(/'([^']+)' imported from (\S+)/) ?? [];
  if (!file) return "";
  const name = path.basename(what);
  const lines = fs.readFileSync(file, "utf8").split("\n");
  const line = lines.findIndex((text) => /import|from|require/.test(text) && text.includes(name)) + 1;
  return line > 0 ? `${file}:${line}` : file;
}

// What was thrown, which may be anything, in one line, and with where from if that is known: "mine.mjs:12: Error: ...".
function oneLine(error, file) {
  try {
    const text = String(error?.message ?? error).slice(0, kMessageLimit).replace(/\s+/g, " ");
    if (error instanceof Refused || error?.name === "Unsupported") return text;
    const isError = error instanceof Error;
    const place = isError ? placeOfImport(error.message) || placeIn(String(error.stack)) : "";
    const kind = isError ? error.name : "thrown, and no Error with a line";
    return `${place || file}: ${kind}: ${text}`;
  } catch {
    return `${file}: threw what has no text`;
  }
}

// Whether brackets are closed: a comma there is none of ours.
const isWhole = (text) => (text.match(/[([{]/g) ?? []).length === (text.match(/[)\]}]/g) ?? []).length;

// The names in the pattern of a function's one parameter; none where it is no pattern.
function namesInPattern(kernel) {
  const text = String(kernel).replace(/\/\*[^]*?\*\/|\/\/[^\n]*/g, "");
  const begin = text.search(/\(\s*\{/);
  if (begin < 0 || begin !== text.indexOf("(")) return [];
  const parts = [""];
  for (const piece of text.slice(text.indexOf("{") + 1).split(/([,}])/)) {
    const last = parts.length - 1;
    if (isWhole(parts[last]) && piece === "}") break;
    if (isWhole(parts[last]) && piece === ",") parts.push("");
    else parts[last] += piece;
  }
  return parts.map((part) => part.match(/^\s*([\w$]+)/)?.[1]).filter((name) => name !== undefined);
}

// The user's own files that a file imports, itself among them, as far as its text says.
function filesOf(file, found = new Set()) {
  if (found.has(file) || !fs.existsSync(file)) return found;
  found.add(file);
  const imports = fs.readFileSync(file, "utf8").matchAll(/(?:from|import)[\s(]*["'](\.{1,2}\/[^"']+)["']/g);
  for (const [, name] of imports) filesOf(path.resolve(path.dirname(file), name), found);
  return found;
}

// Half of a surrogate pair, which JSON cannot carry, becomes U+FFFD.
function wellFormed(key, value) {
  return typeof value === "string" ? Buffer.from(value, "utf8").toString("utf8") : value;
}

const scratch = new DataView(new ArrayBuffer(8));

function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25));
}

// Rounds to nearest, ties to even, without rounding to float first.
function toHalf(value) {
  if (Number.isNaN(value)) return 0x7e00;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0, size = Math.abs(value);
  if (size >= 65520) return sign | 0x7c00;
  const exponent = Math.max(-14, Math.floor(Math.log2(size || 2 ** -24)));
  const unit = 2 ** (exponent - 10);
  let steps = Math.floor(size / unit);
  const rest = size / unit - steps;
  if (rest > 0.5 || (rest === 0.5 && steps % 2 === 1)) ++steps;
  return sign | (steps + (exponent + 14) * 1024);
}

function fromBfloat(bits) {
  scratch.setUint32(0, bits << 16);
  return scratch.getFloat32(0);
}

function toBfloat(value) {
  if (Number.isNaN(value)) return 0x7fc0;
  scratch.setFloat32(0, value);
  const bits = scratch.getUint32(0);
  const kept = bits >>> 16, rest = bits & 0xffff;
  // A double that rounded to the middle of two bf16 values is told by which side it came from.
  const back = scratch.getFloat32(0), beyond = Math.abs(value) - Math.abs(back);
  const up = rest > 0x8000 || (rest === 0x8000 && (beyond > 0 || (beyond === 0 && kept % 2 === 1)));
  return up ? kept + 1 : kept;
}

function load(view, at, dtype) {
  switch (dtype) {
    case "f32": return view.getFloat32(at, true);
    case "f64": return view.getFloat64(at, true);
    case "f16": return fromHalf(view.getUint16(at, true));
    case "bf16": return fromBfloat(view.getUint16(at, true));
    case "i64": return view.getBigInt64(at, true);
    default: return view.getUint8(at);
  }
}

function store(view, at, dtype, value) {
  switch (dtype) {
    case "f32": return view.setFloat32(at, value, true);
    case "f64": return view.setFloat64(at, value, true);
    case "f16": return view.setUint16(at, toHalf(value), true);
    default: return view.setUint16(at, toBfloat(value), true);
  }
}

// Calls visit(element number, offset in elements) in row-major order.
function forEachElement({shape, strides}, visit) {
  const index = shape.map(() => 0);
  const count = shape.reduce((a, b) => a * b, 1);
  let at = 0;
  for (let n = 0; n < count; ++n) {
    visit(n, at);
    for (let axis = shape.length - 1; axis >= 0; --axis) {
      at += strides[axis];
      if (++index[axis] < shape[axis]) break;
      at -= index[axis] * strides[axis];
      index[axis] = 0;
    }
  }
}

function storageBytes({shape, strides, dtype}) {
  if (shape.includes(0)) return 0;
  return kBytes[dtype] * shape.reduce((extent, n, axis) => extent + (n - 1) * strides[axis], 1);
}

function readTensor(tensor) {
  const bytes = Buffer.alloc(storageBytes(tensor));
  fs.readSync(kArena, bytes, 0, bytes.length, tensor.offset);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const data = new kArrays[tensor.dtype](tensor.shape.reduce((a, b) => a * b, 1));
  const size = kBytes[tensor.dtype];
  forEachElement(tensor, (n, at) => { data[n] = load(view, at * size, tensor.dtype); });
  return {data, shape: tensor.shape};
}

function writeTensor(tensor, kernel, name, data) {
  const count = tensor.shape.reduce((a, b) => a * b, 1);
  if (data === undefined) throw new Refused(`${kernel} returned no ${name}`);
  if (data.length !== count) {
    throw new Refused(`${kernel} returned ${data.length} elements of ${name}, expected ${count} for [${tensor.shape}]`);
  }
  const bytes = Buffer.alloc(storageBytes(tensor));
  fs.readSync(kArena, bytes, 0, bytes.length, tensor.offset);  // what lies between the elements stays
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const size = kBytes[tensor.dtype];
  forEachElement(tensor, (n, at) => store(view, at * size, tensor.dtype, data[n]));
  fs.writeSync(kArena, bytes, 0, bytes.length, tensor.offset);
}

const shown = ({dtype, shape}) => ({dtype, shape});

function argumentsOf(call, options) {
  const argument = {...options, outputs: {}}, outputs = {}, gradients = {};
  let dout;
  for (const tensor of call.tensors) {
    if (tensor.role in kGradients) {
      gradients[kGradients[tensor.role]] = tensor;
    } else if (tensor.role === kDout) {
      dout = readTensor(tensor);
    } else if (tensor.role in kOutputs) {
      const name = kOutputs[tensor.role];
      outputs[name] = tensor;
      argument.outputs[name] = shown(tensor);
      if (name in kWants) argument[kWants[name]] = true;
    } else if (tensor.role in kInputs) {
      argument[kInputs[tensor.role]] = readTensor(tensor);
    } else {
      throw new Unsupported(`role ${tensor.role}`);
    }
  }
  for (const option of call.options) {
    const name = kOptions[option.id];
    if (!name) throw new Unsupported(`option ${option.id}`);
    const value = "f" in option ? Number(String(option.f).replace(/inf$/, "Infinity")) : option.i;
    argument[name] = name === "causal" ? value !== 0 : value;
  }
  return {argument, outputs, gradients, dout};
}

// What the backward pass gets: no wishes, and what the forward pass has left.
function backwardArgument({argument, outputs, gradients, dout}) {
  const wants = new Set(Object.values(kWants));
  const passed = Object.fromEntries(Object.entries(argument).filter(([name]) => !wants.has(name)));
  passed.outputs = Object.fromEntries(Object.entries(gradients).map(([name, tensor]) => [name, shown(tensor)]));
  for (const [name, tensor] of Object.entries(outputs)) passed[name] = readTensor(tensor);
  return {...passed, dout};
}

// Writes what a function returned, by name, into the tensors of those names.
function writeAll(tensors, whose, results) {
  for (const [name, tensor] of Object.entries(tensors)) writeTensor(tensor, whose, name, results?.[name]);
}

function isNumbers(result) {
  return Array.isArray(result) || ArrayBuffer.isView(result);
}

class Worker {
  async load(request) {
    if (request.protocol !== kProtocol) throw new Refused("unknown protocol version");
    const {variant = "attention", ...options} = Object.fromEntries(request.options);
    this.file = path.resolve(request.library);
    const module = await this.imported();
    this.kernel = module[variant];
    this.name = `${path.basename(this.file)}:${variant}`;
    if (typeof this.kernel !== "function") {
      const others = Object.keys(module).filter((name) => typeof module[name] === "function");
      throw new Refused(`${this.file}: exports no function ${variant}; it exports ` +
                        (others.map((name) => `${name}${this.lineOf(name)}`).join(", ") || "none"));
    }
    const contract = this.kernel.contract ?? module.contract;
    if (typeof contract !== "object") {
      throw new Refused(`${this.file}: put the contract beside ${variant}${this.lineOf(variant)}: ` +
                        "export const contract = {...}");
    }
    this.backward = module[`${variant}Backward`];
    if ("backward" in contract && typeof this.backward !== "function") {
      throw new Refused(`${this.file}: the contract has a backward pass, so ${variant}Backward must be exported ` +
                        `beside ${variant}${this.lineOf(variant)}, or leave the key backward out`);
    }
    this.refuseUnknown(variant, options, [...namesInPattern(this.kernel), ...(module.options ?? [])]);
    this.options = options;
    return {name: this.name, version: String(module.version ?? "1"), contract: JSON.stringify(contract),
            files: [...filesOf(this.file)]};
  }

  // The user's file. A syntax error does not know its place; `node --check` prints it before all else.
  async imported() {
    try {
      return await import(pathToFileURL(this.file));
    } catch (error) {
      if (!(error instanceof SyntaxError) || placeIn(String(error.stack))) throw error;
      for (const file of filesOf(this.file)) {
        const {stderr} = spawnSync(process.execPath, ["--check", file], {encoding: "utf8"});
        const place = placeIn(stderr.split("\n")[0]);
        if (place) throw new Refused(`${place}: SyntaxError: ${error.message}`);
      }
      throw error;
    }
  }

  // Where a name is exported, as " at FILE:LINE"; "" where the text does not say.
  lineOf(name) {
    const lines = fs.readFileSync(this.file, "utf8").split("\n");
    const line = lines.findIndex((text) => /export/.test(text) && text.includes(name)) + 1;
    return line > 0 ? ` at ${this.file}:${line}` : "";
  }

  refuseUnknown(variant, options, names) {
    const known = names.filter((name) => !kOwn.has(name)).sort();
    const unknown = Object.keys(options).find((name) => !known.includes(name));
    if (unknown === undefined) return;
    const takes = known.length > 0 ? `known are ${known.join(", ")}` : "it takes none";
    throw new Refused(`${this.file}: ${variant}() takes no option '${unknown}'; ${takes}`);
  }

  map(request) {
    // No addresses: a crash of Node itself is not traced to a tensor.
    return {addresses: request.slots.map((slot) => slot.offset)};
  }

  note(inCall) {
    const word = Buffer.alloc(4);
    word.writeUInt32LE(inCall);
    fs.writeSync(kArena, word, 0, 4, 0);
  }

  async run(request) {
    for (const [number, call] of request.calls.entries()) {
      const reply = {id: request.id, call: number, status: Status.ok};
      this.note(1);
      try {
        const parts = argumentsOf(call, this.options);
        const result = await this.kernel(parts.argument);
        const named = isNumbers(result) ? {out: result} : result;
        writeAll(parts.outputs, this.name, named);
        if (parts.dout) writeAll(parts.gradients, `${this.name}Backward`, await this.backward(backwardArgument(parts)));
      } catch (error) {
        reply.status = error?.name === "Unsupported" ? Status.unsupported : Status.failed;
        reply.message = oneLine(error, this.file);
      }
      this.note(0);
      this.reply(reply);
    }
  }

  reply(fields) {
    this.control.write(JSON.stringify(fields, wellFormed) + "\n");
  }

  async answer(request) {
    if (request.op === "run") return this.run(request);
    try {
      this.reply({id: request.id, ...await this[request.op](request)});
    } catch (error) {
      this.reply({id: request.id, error: oneLine(error, this.file)});
    }
  }

  async serve() {
    this.control = new net.Socket({fd: kControl, readable: true, writable: true});
    for await (const line of readline.createInterface({input: this.control})) await this.answer(JSON.parse(line));
  }
}

await new Worker().serve();
process.exit(0);
