// A case as TOML text. Sections that say nothing (no mask, no literals) are left out.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "properties/harness/case/toml.h"

namespace attest {
namespace {

// The shortest decimal that reads back as the same double, with a point or an exponent so that TOML
// takes it for a float.
std::string Number(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

// The length of the well-formed UTF-8 sequence that starts at `at`, 0 where there is none.
size_t Utf8Length(std::string_view text, size_t at) {
  const auto byte = [&](size_t n) { return static_cast<uint8_t>(text[n]); };
  const uint8_t lead = byte(at);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xC2 && lead < 0xE0   ? 2
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (size_t n = 1; n < length; ++n) {
    if ((byte(at + n) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond the last code point.
  const uint8_t second = byte(at + 1);
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F)) return 0;
  if ((lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) return 0;
  return length;
}

// A basic string. Bytes that are not UTF-8, which TOML cannot hold, become '?'.
std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const size_t length = Utf8Length(text, at);
    const char c = text[at];
    if (length == 0) {
      out += '?';
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      out += text.substr(at, length);
    }
    at += length == 0 ? 1 : length;
  }
  return out + "\"";
}

std::string Integers(const std::vector<int64_t>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::string Line(std::string_view key, std::string_view value) {
  return fmt::format("{} = {}\n", key, value);
}

std::string Flag(std::string_view key, bool on) {
  return on ? Line(key, "true") : std::string();
}

// Text for a comment: escaped as in a string, so that it stays on its line.
std::string Bare(std::string_view text) {
  const std::string quoted = Quoted(text);
  return quoted.substr(1, quoted.size() - 2);
}

std::string Head(const CaseFile& file) {
  std::string text = "# attest case";
  if (file.property) text += ": " + Bare(*file.property);
  if (file.property && file.kernel) text += " fails on " + Bare(*file.kernel);
  text += "\nversion = 1\n";
  if (file.property) text += Line("property", Quoted(*file.property));
  if (file.kernel) text += Line("kernel", Quoted(*file.kernel));
  if (file.finding) text += Line("finding", Quoted(*file.finding));
  if (!file.c.origin.empty()) text += Line("origin", Quoted(file.c.origin));
  return text;
}

std::string WindowText(const Window& window) {
  std::string sides;
  if (window.left) sides += fmt::format("left = {}", *window.left);
  if (window.left && window.right) sides += ", ";
  if (window.right) sides += fmt::format("right = {}", *window.right);
  return fmt::format(
      "window = {{{}}}  # keys before and after the diagonal; a side left out is open\n", sides);
}

std::string Fp8Text(const Fp8& fp8) {
  return fmt::format(
      "fp8 = {{format = {}, q_scale = {}, k_scale = {}, v_scale = {}}}  # q = q_scale * (8 bits)\n",
      Quoted(Name(fp8.format)), Number(fp8.q_scale), Number(fp8.k_scale), Number(fp8.v_scale));
}

std::string TypeText(const Problem& p) {
  std::string text = Line("dtype", Quoted(Name(p.dtype)));
  if (p.bias_dtype) text += Line("bias_dtype", Quoted(Name(*p.bias_dtype)));
  return p.fp8 ? text + Fp8Text(*p.fp8) : text;
}

std::string PerHead(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ", ") + Number(value);
  return "[" + text + "]";
}

// What becomes of a score on its way to the softmax.
std::string ScoringText(const Problem& p) {
  std::string text;
  if (p.scale) text += Line("scale", Number(*p.scale));
  if (p.softcap != 0) {
    text +=
        fmt::format("softcap = {}  # s becomes softcap * tanh(s / softcap)\n", Number(p.softcap));
  }
  if (p.alibi_slopes) {
    text += fmt::format("alibi_slopes = {}  # adds -slope[h] * |i + offset - j|\n",
                        PerHead(*p.alibi_slopes));
  }
  if (p.sinks) {
    text += fmt::format("sinks = {}  # one more score in each row of head h, of value 0\n",
                        PerHead(*p.sinks));
  }
  return text;
}

std::string DiagonalText(const Problem& p) {
  std::string text = Flag("causal", p.causal);
  if (p.window.active()) text += WindowText(p.window);
  if (!p.diagonal_offset.empty()) {
    text += fmt::format("diagonal_offset = {}  # row i of item b stands at key i + offset[b]\n",
                        Integers(p.diagonal_offset));
  }
  if (p.prefix_lengths) {
    text += fmt::format("prefix_lengths = {}  # causality hides no key before it\n",
                        Integers(*p.prefix_lengths));
  }
  return text;
}

std::string ProblemText(const Problem& p) {
  std::string text = "\n[problem]\n";
  text += fmt::format("batch = {}\nq_heads = {}\nkv_heads = {}\nq_len = {}\nkv_len = {}\n", p.batch,
                      p.q_heads, p.kv_heads, p.q_len, p.kv_len);
  text += fmt::format("head_dim = {}\nvalue_dim = {}\n", p.head_dim, p.value_dim);
  text += TypeText(p) + ScoringText(p) + DiagonalText(p);
  if (p.key_lengths) text += Line("key_lengths", Integers(*p.key_lengths));
  if (p.query_lengths) {
    text += fmt::format("query_lengths = {}  # rows from it on are padding\n",
                        Integers(*p.query_lengths));
  }
  text += Flag("want_lse", p.want_lse) + Flag("want_weights", p.want_weights);
  if (p.want_scores) text += Line("want_scores", Quoted(Name(*p.want_scores)));
  return text + Flag("want_gradients", p.want_gradients);
}

// One string a row of keys, [b, h, i] in row-major order. A plane with too few bits, which only an
// invalid case has, prints short rows: text of a bad case must show what is bad.
std::string PlaneText(const BitPlane& plane) {
  std::string text = Line("shape", fmt::format("[{}]", fmt::join(plane.shape, ", ")));
  text += fmt::format("rank = {}\nrows = [\n", plane.rank);
  const int64_t rows = plane.shape[0] * plane.shape[1] * plane.shape[2];
  const auto keys = static_cast<size_t>(plane.shape[3]);
  size_t at = 0;
  for (int64_t row = 0; row < rows; ++row) {
    text += "  \"";
    for (size_t j = 0; j < keys && at < plane.bits.size(); ++j) {
      text += plane.bits[at++] != 0 ? '1' : '0';
    }
    text += "\",\n";
  }
  return text + "]\n";
}

// One array for each batch item; numbers that are missing, as in an invalid case, are left out.
std::string IdsText(std::string_view key, const std::vector<int64_t>& ids, int64_t batch,
                    int64_t len) {
  std::string text = fmt::format("{} = [\n", key);
  const auto size = static_cast<int64_t>(ids.size());
  for (int64_t b = 0; b < batch; ++b) {
    const auto at = [&](int64_t n) { return ids.begin() + std::min(n, size); };
    text += fmt::format("  {},\n", Integers({at(b * len), at((b + 1) * len)}));
  }
  return text + "]\n";
}

std::string PlanesText(const Problem& p) {
  std::string text;
  if (p.mask) text += "\n[mask]  # 1 = attend, 0 = hide\n" + PlaneText(*p.mask);
  if (p.bias) text += "\n[bias]  # 1 = finite, 0 = -inf\n" + PlaneText(*p.bias);
  if (p.documents) {
    text += "\n[documents]  # a query sees the keys of its own number only\n";
    text += IdsText("query", p.documents->query, p.batch, p.q_len);
    text += IdsText("key", p.documents->key, p.batch, p.kv_len);
  }
  if (p.block_mask) {
    text += "\n[block_mask]  # a bit for each tile of rows and keys: 1 = attend, 0 = hide\n";
    text +=
        fmt::format("block_q = {}\nblock_k = {}\n", p.block_mask->block_q, p.block_mask->block_k);
    text += PlaneText(p.block_mask->plane);
  }
  if (p.dropout) {
    text += "\n[dropout]  # after the softmax: 1 = weight / (1 - probability), 0 = dropped\n";
    text += Line("probability", Number(p.dropout->probability)) + PlaneText(p.dropout->keep);
  }
  return text;
}

std::string OverridesText(const std::vector<Override>& overrides) {
  std::string text = "set = [  # tensor, batch, head, position, lane, value\n";
  for (const Override& o : overrides) {
    text += fmt::format("  [\"{}\", {}, {}],\n", Name(o.tensor), fmt::join(o.index, ", "),
                        Number(o.value));
  }
  return text + "]\n";
}

bool IsShort(const Array& array) {
  return array.values.size() <= 12;
}

// Nested arrays; one line where they are short, else one line a row of lanes.
std::string ArrayText(const Array& array) {
  const bool is_short = IsShort(array);
  size_t at = 0;
  // The elements of dimension `axis`, in brackets.
  const auto nested = [&](const auto& self, size_t axis) -> std::string {
    std::string text = "[";
    for (int64_t n = 0; n < array.shape[axis]; ++n) {
      if (n > 0) text += ", ";
      if (!is_short && axis < 3) text += "\n" + std::string(axis + 1, ' ');
      text += axis == 3 ? Number(array.values[at++]) : self(self, axis + 1);
    }
    return text + "]";
  };
  return nested(nested, 0);
}

// What a recipe makes, as comments, where it is short enough to check by hand.
std::string MadeDataText(const Case& c, const Inputs& inputs) {
  std::string text;
  for (const auto& [tensor, array] : {std::pair{DataTensor::kQ, &inputs.q},
                                      {DataTensor::kK, &inputs.k},
                                      {DataTensor::kV, &inputs.v},
                                      {DataTensor::kBias, &inputs.bias},
                                      {DataTensor::kDout, &inputs.dout}}) {
    if (array->empty() || !IsShort(*array) || c.literals.contains(tensor)) continue;
    text += fmt::format("# {} = {}\n", Name(tensor), ArrayText(*array));
  }
  return text;
}

std::string DataText(const Case& c) {
  std::string text = "\n[data]\n";
  text += Line("scores", Quoted(Name(c.recipe.scores)));
  text += Line("values", Quoted(Name(c.recipe.values)));
  text += Line("bias", Quoted(Name(c.recipe.bias)));
  if (c.problem.want_gradients || c.recipe.dout != ValueFamily::kOnes) {
    text += Line("dout", Quoted(Name(c.recipe.dout)));
  }
  // TOML integers end at 2^63 - 1; the upper half is written in hexadecimal, as text.
  const bool fits = c.recipe.seed <= static_cast<uint64_t>(INT64_MAX);
  text += Line("seed", fits ? fmt::format("{}", c.recipe.seed)
                            : fmt::format("\"0x{:016x}\"", c.recipe.seed));
  text += fmt::format("recipe_version = {}\n", kRecipeVersion);
  const bool valid = !Validate(c);
  const Inputs inputs = valid ? Materialise(c) : Inputs{};
  if (valid) {
    text += fmt::format("hash = \"0x{:016x}\"  # of the data this makes\n", HashInputs(inputs));
  }
  if (!c.overrides.empty()) text += OverridesText(c.overrides);
  return text + MadeDataText(c, inputs);
}

std::string LiteralsText(const Case& c) {
  if (c.literals.empty()) return "";
  std::string text = "\n[literals]  # [batch][head][position][lane], instead of the recipe\n";
  for (const auto& [tensor, array] : c.literals) text += Line(Name(tensor), ArrayText(array));
  return text;
}

// Left out where everything lies plainly, as in most shrunk cases.
std::string LayoutText(const Case& c) {
  if (c.layouts == Layouts{} && c.placement == Placement::kEnd) return "";
  std::string text = "\n[layout]\n";
  text += Line("q", Quoted(Name(c.layouts.q)));
  text += Line("k", Quoted(Name(c.layouts.k)));
  text += Line("v", Quoted(Name(c.layouts.v)));
  text += Line("out", Quoted(Name(c.layouts.out)));
  return text + Line("placement", c.placement == Placement::kEnd ? "\"end\"" : "\"begin\"");
}

std::string StorageText(const Storage& storage) {
  if (storage == Storage{}) return "";
  std::string text =
      "\n[storage]  # how keys and values reach the kernel; the answer is the same\n";
  if (storage.past > 0) {
    text += fmt::format("past = {}  # so many first keys come as past ones\n", storage.past);
  }
  text += Flag("without_present", storage.without_present);
  if (storage.first_call != FirstCall::kNo) {
    text += Line("first_call", Quoted(Name(storage.first_call)));
  }
  if (storage.page_size > 0) text += fmt::format("page_size = {}\n", storage.page_size);
  return text + Flag("ring", storage.ring) + Flag("packed", storage.packed);
}

std::string CaseText(const Case& c) {
  return ProblemText(c.problem) + PlanesText(c.problem) + DataText(c) + LiteralsText(c) +
         LayoutText(c) + StorageText(c.storage);
}

// Each is a case with its sections inside [[before]].
std::string BeforeText(const std::vector<Case>& before) {
  std::string text;
  for (const Case& c : before) {
    std::string sections = CaseText(c);
    // Only section heads stand at the beginning of a line.
    for (size_t at = 0; (at = sections.find("\n[", at)) != sections.npos; at += 2) {
      sections.insert(at + 2, "before.");
    }
    text += "\n[[before]]  # a call that is made first: without it the case does not fail\n";
    text += "version = 1\n" + sections;
  }
  return text;
}

}  // namespace

std::string ToToml(const CaseFile& file) {
  return Head(file) + CaseText(file.c) + BeforeText(file.before);
}

}  // namespace attest
