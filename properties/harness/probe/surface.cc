// What calls a kernel takes at all: its form, element types, layouts and strides.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "attest/kernel.h"
#include "properties/harness/probe/experiments.h"

namespace attest::probe {
namespace {

using namespace contract_words;

constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};
constexpr std::array<int64_t, 4> kHeadDims = {8, 16, 64, 128};

// The forms to try: first what the contract declares, then everything.
std::vector<Form> Candidates(const Contract& declared) {
  const bool bhsd = declared.layouts.count(TensorLayout::kBhsd) != 0;
  const Layout likely = bhsd ? Layout::kBhsd : Layout::kBshd;
  const Layout other = bhsd ? Layout::kBshd : Layout::kBhsd;
  std::vector<Form> forms;
  const int64_t multiple = declared.limits.head_dim_multiple;
  for (const DType dtype : declared.dtypes) {
    forms.push_back({dtype, (7 + multiple) / multiple * multiple, likely});
  }
  for (const Layout layout : {likely, other})
    for (const int64_t head_dim : kHeadDims)
      for (const DType dtype : kFloats) forms.push_back({dtype, head_dim, layout});
  return forms;
}

void ProbeDTypes(Notebook& notes) {
  notes.found.dtypes.clear();
  for (const DType dtype : kFloats) {
    Form form = notes.form;
    form.dtype = dtype;
    const Trial trial = Try(notes, TinyCall(form, {1, 1, 1, 2, 3, 0}), PlainWeight, PlainWeight);
    if (trial.uptake == Uptake::kWorks) notes.found.dtypes.insert(dtype);
    NoteOffer(notes, fmt::format("dtype {}", Name(dtype)), notes.declared.dtypes.count(dtype) != 0,
              trial);
  }
}

// q, k and v at half their values, each with a scale of 2.
void ProbeFp8(Notebook& notes) {
  notes.found.fp8.clear();
  for (const DType format : {DType::kE4M3, DType::kE5M2}) {
    TinyCall call = notes.Plain(2, 3);
    call.data_dtype = format;
    for (Array* array : {&call.q, &call.k, &call.v}) {
      for (double& value : array->values) value /= 2;
    }
    call.Option(ATTEST_OPTION_FP8, int64_t{format == DType::kE4M3 ? 1 : 2});
    for (const int32_t role : {ATTEST_ROLE_Q_SCALE, ATTEST_ROLE_K_SCALE, ATTEST_ROLE_V_SCALE}) {
      call.Floats(role, DType::kF32, {1}, {2.0});
    }
    const Trial trial = Try(notes, call, PlainWeight, PlainWeight);
    if (trial.uptake == Uptake::kWorks) notes.found.fp8.insert(format);
    NoteOffer(notes, fmt::format("fp8 {}", Name(format)), notes.declared.fp8.count(format) != 0,
              trial);
  }
}

// The second head has twice the values, so that a mixed-up layout shows.
Trial TryLayout(Notebook& notes, Layout layout, bool is_shared) {
  TinyCall call(notes.form, {1, 2, 2, 2, 3, 0});
  call.q_layout = call.out_layout = is_shared ? notes.form.layout : layout;
  call.k_layout = call.v_layout = layout;
  if (!is_shared) {
    for (int64_t j = 0; j < 3; ++j) call.v.At(0, 1, j, j) = 2;
  }
  Reading reading = notes.lab.Run(call);
  if (!reading.computed()) return TrialOf(std::move(reading), false, false, "");
  const double second = is_shared ? 1 : 2;
  Array& out = reading.outputs[ATTEST_ROLE_OUT];
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t d = 0; d < out.shape[3]; ++d) out.At(0, 1, i, d) /= second;
  const bool works = HasWeights(reading, call, PlainWeight);
  std::string evidence = fmt::format("row 1 of heads 0, 1: {} {}", RowText(reading, 0, 0, 1, 3),
                                     RowText(reading, 0, 1, 1, 3));
  return TrialOf(std::move(reading), works, false, std::move(evidence));
}

bool NoteLayout(Notebook& notes, Layout layout, bool is_declared) {
  const Trial trial = TryLayout(notes, layout, layout == Layout::kSharedHead);
  NoteOffer(notes, fmt::format("layout {}", Name(layout)), is_declared, trial);
  return trial.uptake == Uptake::kWorks;
}

void ProbeLayouts(Notebook& notes) {
  const Contract& declared = notes.declared;
  const bool any = declared.strides == Strides::kAny;
  const auto has = [&](TensorLayout layout) { return declared.layouts.count(layout) != 0; };
  EnumSet<TensorLayout> taken;
  if (NoteLayout(notes, Layout::kBhsd, any || has(TensorLayout::kBhsd))) {
    taken.insert(TensorLayout::kBhsd);
  }
  if (NoteLayout(notes, Layout::kBshd, any || has(TensorLayout::kBshd))) {
    taken.insert(TensorLayout::kBshd);
  }
  const bool gaps_declared = any || declared.strides == Strides::kLastDimContiguous;
  // Gaps in the order of axes that the kernel takes: one tensor that holds q, k and v leaves them too.
  const bool by_head = taken.count(TensorLayout::kBhsd) != 0;
  const bool gaps = by_head ? NoteLayout(notes, Layout::kGapped,
                                         gaps_declared && (any || has(TensorLayout::kBhsd)))
                            : NoteLayout(notes, Layout::kPackedQkv,
                                         gaps_declared && (any || has(TensorLayout::kBshd)));
  if (by_head) NoteLayout(notes, Layout::kPackedQkv, any);
  const bool transposed = NoteLayout(notes, Layout::kTransposed, any);
  NoteLayout(notes, Layout::kSharedHead, any);
  notes.found.strides = transposed ? Strides::kAny
                        : gaps     ? Strides::kLastDimContiguous
                                   : Strides::kDense;
  // Not every worker can lay tensors out so: what is not declared is not tried.
  notes.found.far_strides = declared.far_strides;
  if (declared.far_strides && notes.found.strides != Strides::kDense) {
    notes.found.far_strides =
        NoteLayout(notes, by_head ? Layout::kFarHeads : Layout::kFarRows, true);
  }
  // Strides that are free say all of the layouts already.
  const bool covers =
      std::includes(taken.begin(), taken.end(), declared.layouts.begin(), declared.layouts.end());
  notes.found.layouts = notes.found.strides == Strides::kAny && covers ? declared.layouts : taken;
}

TinyCall FormCall(const Form& form) {
  return TinyCall(form, {1, 2, 2, 2, 3, 0});  // one head would fit every layout
}

// The answer as that of a form whose every call is causal, where it is: from the top left, or from the
// bottom right.
std::optional<CausalOffset> CausalRule(Form form, const Reading& reading) {
  form.is_causal = true;
  for (const CausalOffset rule : {CausalOffset::kZero, CausalOffset::kKvLenMinusQLen}) {
    form.rule = rule;
    if (HasWeights(reading, FormCall(form), PlainWeight)) return rule;
  }
  return std::nullopt;
}

// Takes the form in which the call was answered, and whether it was answered rightly.
void NoteForm(Notebook& notes, Form form, const TinyCall& call, const Reading& reading) {
  notes.report.answered = true;
  notes.report.faulted = false;
  const bool refuses_plain = form.is_causal;
  bool works = !refuses_plain && HasWeights(reading, call, PlainWeight);
  if (!works) {
    form.rule = CausalRule(form, reading);
    form.is_causal = form.rule.has_value() || refuses_plain;
  }
  notes.form = form;
  notes.found.causal = form.is_causal ? CausalCalls::kAlways : CausalCalls::kOptional;
  const bool declares_always = notes.declared.IsAlwaysCausal();
  works |= form.rule && (declares_always || refuses_plain);
  notes.Add({"plain attention", works ? "as defined" : "another function", "as defined",
             fmt::format("{}, head_dim {}: scores ln 1, ln 2, ln 4 give weights {}",
                         Name(form.dtype), form.head_dim, RowText(reading, 0, 0, 1, 3)),
             works ? Agreement::kAgrees : Agreement::kContradicts});
  // What a call without the flag gives is not asked of a kernel that declares it always.
  Compare(notes, "causal calls", WordOf(kCausalCalls, notes.found.causal),
          WordOf(kCausalCalls, notes.declared.causal), !declares_always || form.is_causal,
          refuses_plain    ? "a call without the causal flag is refused"
          : form.is_causal ? "a call without the causal flag is causal all the same"
                           : "a call without the causal flag hides nothing");
}

}  // namespace

bool FindForm(Notebook& notes) {
  for (Form form : Candidates(notes.declared)) {
    TinyCall call = FormCall(form);
    Reading reading = notes.lab.Run(call);
    if (reading.answer == Answer::kRefused) {  // perhaps for want of the causal flag
      form.is_causal = true;
      call = FormCall(form);
      Reading causal = notes.lab.Run(call);
      if (causal.computed()) reading = std::move(causal);
    }
    if (!reading.computed()) {
      if (notes.report.refusal.empty()) {
        notes.report.refusal = reading.why;
        notes.report.faulted = reading.answer == Answer::kFault;
      }
      continue;
    }
    NoteForm(notes, form, call, reading);
    return true;
  }
  return false;
}

void ProbeSurface(Notebook& notes) {
  ProbeDTypes(notes);
  ProbeFp8(notes);
  ProbeLayouts(notes);
}

}  // namespace attest::probe
