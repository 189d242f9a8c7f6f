// The problem of a case file: sizes, options, masks and documents.
#include <algorithm>

#include "properties/harness/case/toml_parser.h"

namespace attest {
namespace {

// 2^24 elements in all tensors together: half a second and 128 MiB to materialise.
constexpr int64_t kMaxElements = int64_t{1} << 24;

}  // namespace

void CaseParser::ReadSizes(const toml::table& table) {
  Problem& p = file_.c.problem;
  const std::pair<const char*, int64_t*> sizes[] = {
      {"batch", &p.batch},        {"q_heads", &p.q_heads}, {"kv_heads", &p.kv_heads},
      {"q_len", &p.q_len},        {"kv_len", &p.kv_len},   {"head_dim", &p.head_dim},
      {"value_dim", &p.value_dim}};
  for (const auto& [name, size] : sizes) {
    *size = reader_.Integer(table, name, true, 0, kMaxTomlSize).value_or(0);
  }
}

// Counts rows, scores and every tensor, as if no extent were zero: an empty tensor with huge other
// extents is no use to anyone, and loops over its rows never end.
void CaseParser::CheckVolume(const toml::table& table) {
  const Problem& p = file_.c.problem;
  const auto at_least_one = [](int64_t size) {
    return static_cast<double>(std::max<int64_t>(size, 1));
  };
  const double rows = at_least_one(p.batch) * at_least_one(p.q_heads) * at_least_one(p.q_len);
  const double keys = at_least_one(p.batch) * at_least_one(p.kv_heads) * at_least_one(p.kv_len);
  const double lanes = at_least_one(p.head_dim) + at_least_one(p.value_dim);
  const double total = (rows + keys) * lanes + rows * at_least_one(p.kv_len);
  if (total > static_cast<double>(kMaxElements)) {
    reader_.FailAt(table, fmt::format("the sizes of the problem make more than {} elements; make "
                                      "them smaller",
                                      kMaxElements));
  }
}

std::vector<int64_t> CaseParser::ReadIntegers(const toml::array& array, std::string_view what,
                                              int64_t least, int64_t most) {
  std::vector<int64_t> values;
  for (const toml::node& node : array) values.push_back(reader_.IntegerIn(node, what, least, most));
  return values;
}

std::optional<std::vector<int64_t>> CaseParser::ReadLengths(const toml::table& table,
                                                            std::string_view key) {
  const toml::array* lengths = reader_.ArrayAt(table, key, false);
  if (lengths == nullptr) return std::nullopt;
  return ReadIntegers(*lengths, key, 0, kMaxTomlSize);
}

std::optional<std::vector<double>> CaseParser::ReadPerHead(const toml::table& table,
                                                           std::string_view key) {
  const toml::array* array = reader_.ArrayAt(table, key, false);
  if (array == nullptr) return std::nullopt;
  std::vector<double> values;
  for (const toml::node& node : *array) values.push_back(reader_.DoubleIn(node, key));
  return values;
}

void CaseParser::ReadDiagonal(const toml::table& table) {
  Problem& p = file_.c.problem;
  p.causal = reader_.Bool(table, "causal");
  if (const toml::table* window = reader_.Table(table, "window", false)) {
    reader_.CheckKeys(*window, "window", {"left", "right"});
    // As long as a problem's may be: "far beyond every key" is a window worth asking for.
    constexpr int64_t kMaxSide = int64_t{1} << 24;
    p.window.left = reader_.Integer(*window, "left", false, 0, kMaxSide);
    p.window.right = reader_.Integer(*window, "right", false, 0, kMaxSide);
  }
  if (const toml::array* offsets = reader_.ArrayAt(table, "diagonal_offset", false)) {
    p.diagonal_offset = ReadIntegers(*offsets, "diagonal_offset", -kMaxTomlSize, kMaxTomlSize);
  }
}

void CaseParser::ReadScoring(const toml::table& table) {
  Problem& p = file_.c.problem;
  p.scale = reader_.Double(table, "scale");
  p.softcap = reader_.Double(table, "softcap").value_or(0);
  p.alibi_slopes = ReadPerHead(table, "alibi_slopes");
  p.sinks = ReadPerHead(table, "sinks");
}

void CaseParser::ReadFp8(const toml::table& table) {
  const toml::table* fp8 = reader_.Table(table, "fp8", false);
  if (fp8 == nullptr) return;
  reader_.CheckKeys(*fp8, "fp8", {"format", "q_scale", "k_scale", "v_scale"});
  Fp8& read = file_.c.problem.fp8.emplace();
  if (!fp8->contains("format")) reader_.FailAt(*fp8, "format is missing in fp8: e4m3 or e5m2");
  ReadWord(*fp8, "format", ParseDType, read.format);
  read.q_scale = reader_.Double(*fp8, "q_scale").value_or(1);
  read.k_scale = reader_.Double(*fp8, "k_scale").value_or(1);
  read.v_scale = reader_.Double(*fp8, "v_scale").value_or(1);
}

void CaseParser::ReadOptions(const toml::table& table) {
  Problem& p = file_.c.problem;
  ReadWord(table, "dtype", ParseDType, p.dtype);
  if (table.contains("bias_dtype"))
    ReadWord(table, "bias_dtype", ParseDType, p.bias_dtype.emplace());
  ReadFp8(table);
  ReadScoring(table);
  ReadDiagonal(table);
  p.key_lengths = ReadLengths(table, "key_lengths");
  p.query_lengths = ReadLengths(table, "query_lengths");
  p.prefix_lengths = ReadLengths(table, "prefix_lengths");
  p.want_lse = reader_.Bool(table, "want_lse");
  p.want_weights = reader_.Bool(table, "want_weights");
  if (table.contains("want_scores")) {
    ReadWord(table, "want_scores", ParseScoreMode, p.want_scores.emplace());
  }
  p.want_gradients = reader_.Bool(table, "want_gradients");
}

void CaseParser::ReadProblem(const toml::table& root) {
  const toml::table* table = reader_.Table(root, "problem", true);
  if (table == nullptr) return;
  reader_.CheckKeys(
      *table, "[problem]",
      {"batch",    "q_heads",         "kv_heads",     "q_len",         "kv_len",
       "head_dim", "value_dim",       "dtype",        "bias_dtype",    "fp8",
       "scale",    "softcap",         "alibi_slopes", "sinks",         "causal",
       "window",   "diagonal_offset", "key_lengths",  "query_lengths", "prefix_lengths",
       "want_lse", "want_weights",    "want_scores",  "want_gradients"});
  ReadSizes(*table);
  CheckVolume(*table);
  ReadOptions(*table);
}

void CaseParser::ReadShape(const toml::table& table, const Shape4& full, BitPlane& plane) {
  const toml::array* shape = reader_.ArrayAt(table, "shape", true);
  if (shape == nullptr) return;
  if (shape->size() != 4) return reader_.FailAt(*shape, "shape must have 4 extents");
  for (size_t axis = 0; axis < 4; ++axis) {
    plane.shape[axis] = reader_.IntegerIn(*shape->get(axis), "shape", 0, kMaxTomlSize);
    if (plane.shape[axis] != 1 && plane.shape[axis] != full[axis]) {
      reader_.FailAt(*shape, fmt::format("shape[{}] = {} is neither 1 nor the full extent {}", axis,
                                         plane.shape[axis], full[axis]));
    }
  }
}

void CaseParser::ReadRows(const toml::table& table, BitPlane& plane) {
  const toml::array* rows = reader_.ArrayAt(table, "rows", true);
  if (rows == nullptr) return;
  const int64_t wanted = plane.shape[0] * plane.shape[1] * plane.shape[2];
  if (static_cast<int64_t>(rows->size()) != wanted) {
    return reader_.FailAt(*rows, fmt::format("rows has {} strings where the shape asks for {}",
                                             rows->size(), wanted));
  }
  for (const toml::node& node : *rows) {
    const auto* row = node.as_string();
    if (row == nullptr) return reader_.FailAt(node, "rows must hold strings of 0 and 1");
    const std::string& bits = row->get();
    if (static_cast<int64_t>(bits.size()) != plane.shape[3] ||
        bits.find_first_not_of("01") != std::string::npos) {
      return reader_.FailAt(node,
                            fmt::format("a row must be {} characters 0 or 1", plane.shape[3]));
    }
    for (const char bit : bits) plane.bits.push_back(bit == '1' ? 1 : 0);
  }
}

BitPlane CaseParser::ReadPlane(const toml::table& table, const Shape4& full) {
  BitPlane plane;
  ReadShape(table, full, plane);
  plane.rank = static_cast<int>(reader_.Integer(table, "rank", false, 2, 4).value_or(4));
  if (reader_.ok()) ReadRows(table, plane);
  return plane;
}

std::optional<BitPlane> CaseParser::ReadMask(const toml::table& root, std::string_view section) {
  const toml::table* table = reader_.Table(root, section, false);
  if (table == nullptr) return std::nullopt;
  reader_.CheckKeys(*table, fmt::format("[{}]", section), {"shape", "rank", "rows"});
  return ReadPlane(*table, file_.c.problem.WeightsShape());
}

void CaseParser::ReadBlockMask(const toml::table& root) {
  const toml::table* table = reader_.Table(root, "block_mask", false);
  if (table == nullptr) return;
  reader_.CheckKeys(*table, "[block_mask]", {"block_q", "block_k", "shape", "rank", "rows"});
  Problem& p = file_.c.problem;
  BlockMask& mask = p.block_mask.emplace();
  mask.block_q = reader_.Integer(*table, "block_q", true, 1, kMaxTomlSize).value_or(1);
  mask.block_k = reader_.Integer(*table, "block_k", true, 1, kMaxTomlSize).value_or(1);
  mask.plane = ReadPlane(*table, {p.batch, p.q_heads, (p.q_len + mask.block_q - 1) / mask.block_q,
                                  (p.kv_len + mask.block_k - 1) / mask.block_k});
}

void CaseParser::ReadDropout(const toml::table& root) {
  const toml::table* table = reader_.Table(root, "dropout", false);
  if (table == nullptr) return;
  reader_.CheckKeys(*table, "[dropout]", {"probability", "shape", "rank", "rows"});
  Dropout& dropout = file_.c.problem.dropout.emplace();
  const std::optional<double> probability = reader_.Double(*table, "probability");
  if (!probability) reader_.FailAt(*table, "probability is missing in [dropout]");
  dropout.probability = probability.value_or(0);
  dropout.keep = ReadPlane(*table, file_.c.problem.WeightsShape());
}

// One array of numbers for each batch item.
std::vector<int64_t> CaseParser::ReadIds(const toml::table& table, std::string_view key,
                                         int64_t len) {
  std::vector<int64_t> ids;
  const toml::array* items = reader_.ArrayAt(table, key, true);
  if (items == nullptr) return ids;
  if (static_cast<int64_t>(items->size()) != file_.c.problem.batch) {
    reader_.FailAt(*items, fmt::format("{} must hold an array for each of {} batch items", key,
                                       file_.c.problem.batch));
  }
  for (const toml::node& node : *items) {
    const toml::array* item = node.as_array();
    if (item == nullptr || static_cast<int64_t>(item->size()) != len) {
      reader_.FailAt(node, fmt::format("{}: a batch item must be an array of {}", key, len));
      return ids;
    }
    const std::vector<int64_t> read = ReadIntegers(*item, key, INT64_MIN, INT64_MAX);
    ids.insert(ids.end(), read.begin(), read.end());
  }
  return ids;
}

void CaseParser::ReadDocuments(const toml::table& root) {
  const toml::table* table = reader_.Table(root, "documents", false);
  if (table == nullptr) return;
  reader_.CheckKeys(*table, "[documents]", {"query", "key"});
  Documents& documents = file_.c.problem.documents.emplace();
  documents.query = ReadIds(*table, "query", file_.c.problem.q_len);
  documents.key = ReadIds(*table, "key", file_.c.problem.kv_len);
}

void CaseParser::ReadPlanes(const toml::table& root) {
  file_.c.problem.mask = ReadMask(root, "mask");
  file_.c.problem.bias = ReadMask(root, "bias");
  ReadDocuments(root);
  ReadBlockMask(root);
  ReadDropout(root);
}

}  // namespace attest
