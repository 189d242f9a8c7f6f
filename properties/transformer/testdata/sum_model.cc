// A model that is no Transformer, for the tests of the properties: the logits at a token are sums over the tokens
// that it sees, of numbers made from both and from their places. So small that every fault is one line:
// ./sum_model.so:FAULT?kind=encoder&positions=relative.
#include <attest/model.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr int64_t kVocab = 11, kMaxLen = 24;

struct Model {
  std::string fault, kind = "decoder", positions = "absolute", batcher, contract;
  uint64_t seed = 1;
  int64_t calls = 0;
  bool Is(const char* name) const { return fault == name; }
};

// What a cache holds of an item; a whole sequence is one that is fed at once.
struct Item {
  std::vector<int64_t> tokens, positions, source;
};
struct Cache {
  std::string kind;
  std::vector<Item> items;
};

uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// From -1 to 1, with few digits, so that sums of them are exact in any order.
double Term(std::initializer_list<int64_t> parts) {
  uint64_t hash = 0;
  for (const int64_t part : parts) hash = Mix(hash ^ static_cast<uint64_t>(part + 7));
  return static_cast<double>(hash >> 44) / (1 << 19) - 1;
}

bool Sees(const Model& m, int64_t at, int64_t from) {
  if (m.Is("deaf-to-the-first") && from == 0 && at > 0) return false;
  if (m.Is("sees-the-next")) return from <= at + 1;
  if (m.Is("triangle-transposed")) return from >= at;
  if (m.Is("sees-itself-alone")) return from == at;
  if (m.Is("causal")) return from <= at;
  return m.kind == "encoder" || from <= at;
}

// The logits of the item's token `at`.
void Speak(const Model& m, const Item& item, int64_t at, float* logits) {
  const auto len = static_cast<int64_t>(item.tokens.size());
  const bool ordered = m.positions != "none" ? !m.Is("orderless") : m.Is("ordered");
  const bool relative = m.positions == "relative" && !m.Is("absolute");
  for (int64_t v = 0; v < kVocab; ++v) {
    double sum = 0;
    for (int64_t from = 0; from < len; ++from) {
      if (!Sees(m, at, from)) continue;
      const int64_t here = item.positions[static_cast<size_t>(at)];
      const int64_t there = item.positions[static_cast<size_t>(from)];
      sum += Term({static_cast<int64_t>(m.seed), v, item.tokens[static_cast<size_t>(at)],
                   item.tokens[static_cast<size_t>(from)], ordered ? here - there : 0,
                   ordered && !relative ? here : 0});
    }
    for (size_t from = 0; from < item.source.size(); ++from) {
      if (m.Is("cross-attention-causal") && static_cast<int64_t>(from) > at) continue;
      sum += Term({v, item.source[from], static_cast<int64_t>(from), 3});
    }
    if (m.Is("mean-of-the-length")) sum /= static_cast<double>(len);
    if (m.Is("nan-at-the-first") && at == 0) sum = 0.0 / 0.0;
    logits[v] = static_cast<float>(sum);
  }
}

// The columns of a row that hold its tokens.
std::pair<int64_t, int64_t> Range(const attest_tokens& tokens, int64_t b) {
  const int64_t own = tokens.lengths[b];
  if (tokens.padding == ATTEST_PADDING_LEFT) return {tokens.len - own, tokens.len};
  return {0, own};
}

std::vector<int64_t> TokensOf(const attest_tokens& tokens, int64_t b) {
  if (tokens.tokens == nullptr) return {};
  const auto [begin, end] = Range(tokens, b);
  return {tokens.tokens + b * tokens.len + begin, tokens.tokens + b * tokens.len + end};
}

// Appends the call's tokens to the items and gives the logits at them.
void Feed(Model& m, const attest_logits_call& call, bool is_step, Cache& cache) {
  const attest_tokens& tokens = call.tokens;
  auto* logits = static_cast<float*>(call.logits);
  std::fill_n(logits, tokens.batch * tokens.len * kVocab, 0.0F);
  ++m.calls;
  for (int64_t b = 0; b < tokens.batch; ++b) {
    Item& item = cache.items[static_cast<size_t>(b)];
    const auto [begin, end] = Range(tokens, b);
    const auto past = static_cast<int64_t>(item.tokens.size());
    for (int64_t i = begin; i < end; ++i) {
      int64_t place =
          past + i - begin + (call.first_position == nullptr ? 0 : call.first_position[b]);
      if (m.Is("positions-count-padding")) place += begin;
      if (m.Is("step-one-off") && is_step && past > 0) place += 1;
      item.tokens.push_back(tokens.tokens[b * tokens.len + i]);
      item.positions.push_back(place);
    }
    if (m.Is("step-forgets-the-first") && is_step && past > 0) item.tokens[0] = 0;
    if (m.Is("step-wraps") && is_step && past > 0) {
      for (int64_t& position : item.positions) position %= kMaxLen / 2;
    }
    Item seen = item;
    if (m.Is("padding-visible") && begin > 0) {
      seen.tokens[0] = (seen.tokens[0] + tokens.tokens[b * tokens.len]) % kVocab;
    }
    if (m.Is("reads-its-neighbour")) {
      seen.tokens[0] = tokens.tokens[(b + 1) % tokens.batch * tokens.len + begin];
    }
    for (int64_t i = begin; i < end; ++i) {
      float* row = logits + (b * tokens.len + i) * kVocab;
      Speak(m, seen, past + i - begin, row);
      if (m.Is("item-in-logits")) row[0] += static_cast<float>(b);
      if (m.Is("call-in-logits")) row[0] += static_cast<float>(m.calls);
      if (m.Is("first-call-differs") && m.calls == 1) row[0] += 1;
    }
  }
}

void Contract(Model& m) {
  const bool decodes = m.kind != "encoder";
  m.contract =
      R"({"contract":"attest-model-1","vocab":11,"max_len":24,"kind":")" + m.kind +
      R"(","padding":["left","right"],"first_position":true,"positions":")" + m.positions +
      R"(","bits_invariant":["future","padding","padding_content","batch","chunks","rerun"])";
  if (decodes) {
    m.contract +=
        R"(,"caches":["contiguous","paged"],"reorder":true,"cache_bytes":{"per_token":16,"page":4})";
  }
  if (m.kind == "decoder") {
    m.contract += m.batcher == "stream" ? R"(,"batcher":{"eos":2,"joins":true,"drops_last":true})"
                                        : R"(,"batcher":{"pad":0,"bos":1,"eos":2})";
  }
  m.contract += "}";
}

attest_status Create(const attest_create_info* info, void** model) {
  auto* m = new Model;
  for (uint32_t i = 0; i < info->num_options; ++i) {
    const std::string key = info->options[i].key, value = info->options[i].value;
    if (key == "variant") m->fault = value;
    if (key == "kind") m->kind = value;
    if (key == "positions") m->positions = value;
    if (key == "batcher") m->batcher = value;
    if (key == "seed") m->seed = std::stoull(value);
  }
  Contract(*m);
  *model = m;
  return ATTEST_OK;
}

const char* ContractOf(void* model) {
  return static_cast<Model*>(model)->contract.c_str();
}
void Destroy(void* model) {
  delete static_cast<Model*>(model);
}

Cache* NewCache(int64_t batch, const attest_tokens& source) {
  auto* cache = new Cache;
  for (int64_t b = 0; b < batch; ++b) cache->items.push_back({{}, {}, TokensOf(source, b)});
  return cache;
}

attest_status Logits(void* model, const attest_logits_call* call) {
  Model& m = *static_cast<Model*>(model);
  Cache* cache = NewCache(call->tokens.batch, call->source);
  Feed(m, *call, /*is_step=*/false, *cache);
  delete cache;
  if (m.Is("hangs")) {
    for (volatile bool on = true; on;) {
    }
  }
  if (m.Is("crashes")) *static_cast<volatile int*>(nullptr) = 1;
  return ATTEST_OK;
}

attest_status Open(void* model, const attest_cache_info* info, void** cache) {
  static Cache* last = nullptr;
  Cache* opened = NewCache(info->batch, info->source);
  const bool keeps = static_cast<Model*>(model)->Is("cache-kept") && last != nullptr &&
                     last->items.size() == opened->items.size();
  if (keeps) opened->items = last->items;
  opened->kind = info->kind;
  *cache = last = opened;
  return ATTEST_OK;
}
attest_status Step(void* model, void* cache, const attest_logits_call* call) {
  Feed(*static_cast<Model*>(model), *call, /*is_step=*/true, *static_cast<Cache*>(cache));
  return ATTEST_OK;
}
attest_status Reorder(void* model, void* cache, const int64_t* parents) {
  auto& items = static_cast<Cache*>(cache)->items;
  const std::vector<Item> before = items;
  for (size_t b = 0; b < items.size(); ++b) items[b] = before[static_cast<size_t>(parents[b])];
  if (static_cast<Model*>(model)->Is("reorder-forgotten")) items = before;
  if (!static_cast<Model*>(model)->Is("reorder-in-place")) return ATTEST_OK;
  items = before;
  for (size_t b = 0; b < items.size(); ++b) items[b] = items[static_cast<size_t>(parents[b])];
  return ATTEST_OK;
}
int64_t Bytes(void* model, void* cache) {
  const auto* held = static_cast<Cache*>(cache);
  int64_t bytes = 0;
  for (const Item& item : held->items) {
    const auto tokens = static_cast<int64_t>(item.tokens.size());
    bytes += 16 * (held->kind == "paged" ? (tokens + 3) / 4 * 4 : tokens);
  }
  return static_cast<Model*>(model)->Is("bytes-of-all") ? 16 * kMaxLen : bytes;
}
void Close(void*, void*) {  // "cache-kept" looks at a cache that is closed
}

// d0 d1 eos e0 ... -> d1 eos e0 ..., cut into full rows.
attest_status BatchStream(const Model& m, const attest_batch_call* call) {
  std::vector<int64_t> all;
  const int64_t* document = call->documents;
  for (int64_t d = 0; d < call->num_documents; ++d, document += call->document_lengths[d - 1]) {
    all.insert(all.end(), document, document + call->document_lengths[d]);
    if (!m.Is("ends-skipped")) all.push_back(2);
  }
  // Another order of documents is a stream as well.
  if (m.Is("rotated")) {
    std::rotate(all.begin(), all.begin() + call->document_lengths[0] + 1, all.end());
  }
  const auto steps = static_cast<int64_t>(all.size()) - 1;
  int64_t row = 0;
  for (; (row + (m.Is("drops-a-row") ? 2 : 1)) * call->len <= steps; ++row) {
    for (int64_t at = row * call->len; at < (row + 1) * call->len; ++at) {
      call->inputs[at] = all[static_cast<size_t>(at)];
      call->targets[at] = all[static_cast<size_t>(at) + (m.Is("target-not-shifted") ? 0 : 1)];
      call->weights[at] = m.Is("edge-lost") && (at + 1) % call->len == 0 ? 0 : 1;
    }
  }
  *call->rows_used = row;
  return ATTEST_OK;
}

// bos d0 d1 ... dn -> d0 d1 ... eos, cut into rows.
attest_status Batch(void* model, const attest_batch_call* call) {
  const Model& m = *static_cast<Model*>(model);
  if (m.batcher == "stream") return BatchStream(m, call);
  int64_t row = 0;
  const int64_t* document = call->documents;
  for (int64_t d = 0; d < call->num_documents; ++d, document += call->document_lengths[d - 1]) {
    std::vector<int64_t> all(document, document + call->document_lengths[d]);
    all.insert(all.begin(), 1);
    all.push_back(2);
    const auto steps = static_cast<int64_t>(all.size()) - 1;
    const int64_t shift = m.Is("target-not-shifted") ? 0 : m.Is("target-shifted-twice") ? 2 : 1;
    for (int64_t begin = 0; begin < steps; begin += call->len, ++row) {
      for (int64_t i = 0; i < call->len; ++i) {
        const int64_t at = row * call->len + i, target = begin + i + shift;
        const bool is_input = begin + i < steps, is_target = is_input && target <= steps;
        call->inputs[at] = is_input ? all[static_cast<size_t>(begin + i)] : 0;
        call->targets[at] = is_target ? all[static_cast<size_t>(target)] : 0;
        call->weights[at] = is_target || m.Is("padding-in-loss") ? 1 : 0;
        if (m.Is("edge-lost") && i + 1 == call->len) call->weights[at] = 0;
      }
    }
  }
  *call->rows_used = row;
  return ATTEST_OK;
}

const attest_model_table kTable = {ATTEST_MODEL_ABI_VERSION,
                                   sizeof(attest_model_table),
                                   "sum",
                                   "1",
                                   Create,
                                   ContractOf,
                                   Logits,
                                   Destroy,
                                   Open,
                                   Step,
                                   Reorder,
                                   Bytes,
                                   Close,
                                   Batch};

}  // namespace

extern "C" const attest_model_table* attest_model(void) {
  return &kTable;
}
