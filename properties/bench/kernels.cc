#include "properties/bench/kernels.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "properties/bench/kernel_calls.h"
#include "properties/bench/kernel_memory.h"
#include "properties/bench/yardstick_threads.h"
#include "properties/bench/yardsticks.h"

namespace attest {
namespace {

struct Shape {
  int64_t q_heads, kv_heads, q_len, kv_len, dim;
  bool causal = false;
  int64_t window = 0;  // keys a row sees at most; 0 = all

  bool is_decode() const { return q_len == 1; }
};

// One column of a table. Of yardsticks `kernel` is empty.
struct Column {
  std::string title;
  std::string kernel;    // as on the command line; f32 and bf16 may differ
  bool is_ours = false;  // and so must work
};

std::vector<Column> Columns(const std::string& dtype) {
  const std::string cache = "?cache=" + dtype;  // what ggml keeps keys and values in
  return {{"fast", "tiled:fast", true},
          {"readable", "tiled", true},
          {"ort-attn", "onnxruntime:attention", false},
          {"ort-mha", "onnxruntime:mha", false},
          {"ort-gqa", "onnxruntime:gqa", false},
          {"ggml", "ggml:flash" + cache, false},
          {"ggml-mm", "ggml:unfused" + cache, false},
          {"torch", "torch:sdpa", false},
          {"onednn", "onednn:composed", false}};
}

std::vector<Shape> Shapes(int64_t max_len) {
  std::vector<Shape> shapes;
  for (const int64_t len : {128, 512, 2048, 8192}) {
    const int64_t heads = len > 2048 ? 2 : 8;
    for (const int64_t dim : {64, 128}) {
      shapes.push_back({heads, heads, len, len, dim, false});
      shapes.push_back({heads, heads, len, len, dim, true});
    }
  }
  for (const int64_t len : {2048, 8192}) shapes.push_back({2, 2, len, len, 64, true, 256});
  shapes.push_back({16, 2, 1024, 1024, 128, true});
  shapes.push_back({32, 32, 1, 4096, 128});
  shapes.push_back({32, 4, 1, 4096, 128});
  std::erase_if(shapes, [&](const Shape& s) { return s.kv_len > max_len; });
  return shapes;
}

std::string TitleOf(const Shape& s) {
  const std::string heads = s.q_heads == s.kv_heads ? fmt::format("{}", s.q_heads)
                                                    : fmt::format("{}:{}", s.q_heads, s.kv_heads);
  const char* kind = s.is_decode()   ? "decode"
                     : s.window != 0 ? "window"
                     : s.causal      ? "causal"
                                     : "full";
  return fmt::format("{:6} {:>5} x {:4} x {:3}", kind, heads, s.kv_len, s.dim);
}

Problem ProblemOf(const Shape& s, DType dtype) {
  Problem p;
  p.dtype = dtype;
  p.q_heads = s.q_heads;
  p.kv_heads = s.kv_heads;
  p.q_len = s.q_len;
  p.kv_len = s.kv_len;
  p.head_dim = p.value_dim = s.dim;
  p.causal = s.causal;
  if (s.window != 0) p.window.left = s.window - 1;
  return p;
}

Inputs RandomInputs(const Problem& p) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> draw(-1.7, 1.7);
  Inputs inputs{Array(p.QShape()), Array(p.KShape()), Array(p.VShape()), {}};
  for (Array* tensor : {&inputs.q, &inputs.k, &inputs.v}) {
    for (double& value : tensor->values) value = RoundTo(p.dtype, draw(random));
  }
  return inputs;
}

// What a call does: floating-point operations, or of decoding bytes of keys and values.
double WorkOf(const Shape& s, DType dtype) {
  if (s.is_decode()) {
    const int64_t elements = 2 * s.kv_heads * s.kv_len * s.dim;
    return static_cast<double>(elements) * static_cast<double>(ByteSize(dtype));
  }
  double pairs = 0;
  for (int64_t i = 0; i < s.q_len; ++i) {
    const int64_t before = s.causal ? i + 1 : s.kv_len;
    pairs += static_cast<double>(s.window != 0 ? std::min(before, s.window) : before);
  }
  return 4.0 * static_cast<double>(s.dim * s.q_heads) * pairs;
}

// Keeps the best seconds an iteration of each benchmark.
class BestTimes : public benchmark::BenchmarkReporter {
 public:
  explicit BestTimes(bool by_cpu) : by_cpu_(by_cpu) {}

  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration || run.iterations == 0) continue;
      const double all = by_cpu_ ? run.cpu_accumulated_time : run.real_accumulated_time;
      const double seconds = all / static_cast<double>(run.iterations);
      const auto [at, is_new] = best_.emplace(run.run_name.function_name, seconds);
      if (!is_new) at->second = std::min(at->second, seconds);
    }
  }
  double Of(const std::string& name) const {
    const auto found = best_.find(name);
    return found == best_.end() ? 0 : found->second;
  }

 private:
  const bool by_cpu_;
  std::map<std::string, double> best_;
};

// One table: a dtype and a number of threads.
class Table {
 public:
  Table(const KernelsOptions& options, const std::string& dtype, int threads)
      : options_(options),
        dtype_(*ParseDType(dtype)),
        threads_(threads),
        columns_(Columns(dtype)),
        yardstick_threads_(threads),
        read_(size_t{1} << 25) {}

  bool Print();

 private:
  using Rates = std::map<std::string, double>;  // by column; absent = not measured
  using Calls = std::map<std::string, std::unique_ptr<PreparedCall>>;  // likewise

  void LoadKernels();
  void PrintHead() const;
  void PrintRow(const Shape& shape);
  bool IsTooLong(const Column& column, const Shape& shape) const;
  Calls PrepareCalls(const Shape& shape);
  Rates Measure(const Shape& shape, const Calls& calls);
  void RegisterCall(const std::string& name, PreparedCall& call);
  void RegisterYardstick(const std::string& name);
  Measured RunYardstick(const std::string& name);
  void PrintRates(const Shape& shape, const Rates& rates) const;

  const KernelsOptions& options_;
  const DType dtype_;
  const int threads_;
  const std::vector<Column> columns_;
  YardstickThreads yardstick_threads_;
  const std::vector<float> read_;  // 128 MiB, for the reading yardstick
  std::map<std::string, BenchKernel> kernels_;
  Rates last_rates_;
  std::map<std::string, std::string> failures_;
};

constexpr std::array<const char*, 3> kYardsticks = {"peak", "eigen", "openblas"};
constexpr const char* kReading = "reading";

void Table::LoadKernels() {
  for (const Column& column : columns_) {
    auto kernel = BenchKernel::Load(column.kernel, threads_);
    if (kernel) {
      kernels_.emplace(column.title, std::move(*kernel));
    } else {
      failures_[column.title] = kernel.error();
    }
  }
}

void Table::PrintHead() const {
  fmt::print("\n{}, {} thread{}\n{:28}", Name(dtype_), threads_, threads_ == 1 ? "" : "s",
             "heads x keys x dim");
  for (const char* name : kYardsticks) fmt::print(" {:>8}", name);
  for (const Column& column : columns_) fmt::print(" {:>8}", column.title);
  fmt::print(" | {:>7} {:>7}\n", "of peak", "of best");
}

Measured Table::RunYardstick(const std::string& name) {
  return yardstick_threads_.Run([&](int n) {
    if (name == "peak") return RunFmaPeak();
    if (name == "eigen") return RunEigenProduct();
    if (name == "openblas") return RunOpenBlasProduct();
    const size_t share = read_.size() / static_cast<size_t>(threads_) / 64 * 64;
    return RunReading(std::span(read_).subspan(static_cast<size_t>(n) * share, share));
  });
}

void Table::RegisterCall(const std::string& name, PreparedCall& call) {
  auto* made = benchmark::RegisterBenchmark(name.c_str(), [&call](benchmark::State& state) {
    for ([[maybe_unused]] auto _ : state) call.Run();
  });
  made->MinTime(options_.seconds)->Repetitions(options_.repetitions);
  threads_ == 1 ? made->MeasureProcessCPUTime() : made->UseRealTime();
}

void Table::RegisterYardstick(const std::string& name) {
  auto* made = benchmark::RegisterBenchmark(name.c_str(), [this, name](benchmark::State& state) {
    for ([[maybe_unused]] auto _ : state) state.SetIterationTime(RunYardstick(name).seconds);
  });
  made->MinTime(options_.seconds)->Repetitions(options_.repetitions);
  threads_ == 1 ? made->MeasureProcessCPUTime() : made->UseManualTime();
}

// All of one row in random order, so that they meet the machine in the same states.
Table::Rates Table::Measure(const Shape& shape, const Calls& calls) {
  benchmark::ClearRegisteredBenchmarks();
  std::map<std::string, double> works;
  for (const auto& [name, call] : calls) {
    works[name] = WorkOf(shape, dtype_);
    RegisterCall(name, *call);
  }
  for (const std::string name : {"peak", "eigen", "openblas", kReading}) {
    if ((name == kReading) != shape.is_decode()) continue;
    works[name] = RunYardstick(name).work;
    if (works[name] > 0) RegisterYardstick(name);
  }
  BestTimes times(threads_ == 1);
  benchmark::RunSpecifiedBenchmarks(&times);
  Rates rates;
  for (const auto& [name, done] : works) {
    if (times.Of(name) > 0) rates[name] = 1e-9 * done / times.Of(name);
  }
  return rates;
}

// By its rate on the shape before: over a second a call.
bool Table::IsTooLong(const Column& column, const Shape& shape) const {
  constexpr double kSeconds = 1;
  const auto last = last_rates_.find(column.title);
  if (last == last_rates_.end() || shape.is_decode()) return false;
  return 1e-9 * WorkOf(shape, dtype_) / last->second > kSeconds;
}

// Those of the kernels that can take the shape, each made once to warm up.
Table::Calls Table::PrepareCalls(const Shape& shape) {
  const Problem problem = ProblemOf(shape, dtype_);
  const Inputs inputs = RandomInputs(problem);
  Calls calls;
  for (const Column& column : columns_) {
    const auto kernel = kernels_.find(column.title);
    if (kernel == kernels_.end() || IsTooLong(column, shape)) continue;
    auto call = kernel->second.Prepare(problem, inputs);
    const auto why = call ? (*call)->Run() : std::optional(call.error());
    if (!why) {
      calls.emplace(column.title, std::move(*call));
    } else {
      failures_[column.title] = *why;
    }
  }
  return calls;
}

void Table::PrintRow(const Shape& shape) {
  const Rates rates = Measure(shape, PrepareCalls(shape));
  if (!shape.is_decode()) last_rates_ = rates;
  PrintRates(shape, rates);
}

void Table::PrintRates(const Shape& shape, const Rates& rates) const {
  const auto of = [&](const std::string& name) {
    const auto found = rates.find(name);
    return found == rates.end() ? 0 : found->second;
  };
  const auto print = [&](double rate) {
    rate == 0 ? fmt::print(" {:>8}", "-") : fmt::print(" {:8.1f}", rate);
  };
  fmt::print("{:28}", TitleOf(shape));
  for (const char* name : kYardsticks) {
    const bool is_first = name == kYardsticks.front();
    print(shape.is_decode() ? is_first ? of(kReading) : 0 : of(name));
  }
  double best = 0;
  for (const Column& column : columns_) {
    print(of(column.title));
    if (!column.is_ours) best = std::max(best, of(column.title));
  }
  const double bound = of(shape.is_decode() ? kReading : "peak");
  fmt::print(" | {:7.2f} ", of("fast") / bound);
  best == 0 ? fmt::print("{:>7}\n", "-") : fmt::print("{:7.2f}\n", of("fast") / best);
  std::fflush(stdout);
}

// False where a kernel of ours fails.
bool Table::Print() {
  LoadKernels();
  PrintHead();
  for (const Shape& shape : Shapes(options_.max_len)) PrintRow(shape);
  for (const auto& [name, why] : failures_) fmt::print("{}: {}\n", name, why);
  return std::none_of(columns_.begin(), columns_.end(), [this](const Column& column) {
    return column.is_ours && failures_.count(column.title) != 0;
  });
}

// Loading a peer's libraries takes longer than all else of a short shape.
constexpr int64_t kShortest = 2048;

std::vector<Shape> MemoryShapes(int64_t max_len) {
  std::vector<Shape> shapes = {{2, 2, 128, 128, 128},
                               {2, 2, 2048, 2048, 128},
                               {2, 2, 8192, 8192, 128},
                               {2, 2, 8192, 8192, 128, true},
                               {8, 8, 1, 8192, 128}};
  std::erase_if(shapes, [&](const Shape& s) { return s.kv_len > max_len; });
  return shapes;
}

// One row: MiB and allocations of each kernel, the fast one's MiB a thread and MiB allocated. False where
// one of ours fails, which is in `why` then.
bool PrintMemoryRow(const Shape& shape, const std::string& dtype, int threads, std::string& why) {
  const Problem problem = ProblemOf(shape, *ParseDType(dtype));
  const Inputs inputs = RandomInputs(problem);
  fmt::print("{:28}", TitleOf(shape));
  CallMemory fast;
  bool good = true;
  for (const Column& column : Columns(dtype)) {
    const bool is_left_out = !column.is_ours && shape.kv_len < kShortest;
    const auto memory = is_left_out ? tl::unexpected<std::string>("")
                                    : MeasureMemory(column.kernel, threads, problem, inputs);
    if (memory) {
      fmt::print(" {:7.1f} {:4}", memory->resident, memory->allocations);
      if (column.title == "fast") fast = *memory;
    } else {
      fmt::print(" {:>7} {:>4}", "-", "");
    }
    if (memory || column.title != "fast") continue;
    good = false;
    why = memory.error();
  }
  fmt::print(" | {:8.2f} {:9.2f}\n", fast.resident / threads, fast.allocated);
  std::fflush(stdout);
  return good;
}

// One table, like those of speed. False where the fast kernel fails.
bool PrintMemory(const KernelsOptions& options, const std::string& dtype, int threads) {
  fmt::print("\n{}, {} thread{}\n{:28}", dtype, threads, threads == 1 ? "" : "s",
             "heads x keys x dim");
  for (const Column& column : Columns(dtype)) fmt::print(" {:>12}", column.title);
  fmt::print(" | {:>8} {:>9}\n", "a thread", "allocated");
  bool good = true;
  std::string why;
  for (const Shape& shape : MemoryShapes(options.max_len)) {
    good &= PrintMemoryRow(shape, dtype, threads, why);
  }
  if (!good) fmt::print("fast: {}\n", why);
  return good;
}

bool PrintMemories(const KernelsOptions& options) {
  fmt::print(
      "Memory beside the tensors: MiB that a first call in a process of its own adds to what is "
      "resident, at its\npeak, and how often a second call allocates. The last columns are the "
      "fast "
      "kernel's: those MiB a\nthread, and MiB that its second call allocates, all in all. What "
      "takes "
      "too long is left out.\n");
  bool good = true;
  for (const int threads : options.threads) {
    for (const std::string& dtype : options.dtypes) good &= PrintMemory(options, dtype, threads);
  }
  return good;
}

}  // namespace

bool PrintKernels(const KernelsOptions& options) {
  PrepareYardsticks();
  bool good = PrintMemories(options);
  std::array<std::string, 2> arguments = {"attest_bench",
                                          "--benchmark_enable_random_interleaving=true"};
  std::array<char*, 3> argv = {arguments[0].data(), arguments[1].data(), nullptr};
  int argc = 2;
  benchmark::Initialize(&argc, argv.data());
  fmt::print(
      "\nGFLOP/s over visible pairs; decode: GB/s of keys and values, and in the place of the peak "
      "those of a\nloop that reads 128 MiB. peak: fused multiply-adds in registers; eigen, "
      "openblas: "
      "products of 512 x 512, one\na thread. The best of {} times {:g} s, in random order; one "
      "thread by its CPU time, more by the clock.\nThe last columns compare fast with the peak and "
      "with the best kernel that is not ours; calls that a\nkernel cannot take, or would take over "
      "a "
      "second for, are left out.\n",
      options.repetitions, options.seconds);
  for (const int threads : options.threads) {
    for (const std::string& dtype : options.dtypes) {
      good &= Table(options, dtype, threads).Print();
    }
  }
  return good;
}

}  // namespace attest
