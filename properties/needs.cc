#include "properties/needs.h"

namespace attest {
namespace {

std::string_view WordsFor(Feature feature) {
  switch (feature) {
    case Feature::kCausal:
      return "causal masking";
    case Feature::kWindow:
      return "window";
    case Feature::kKeyLengths:
      return "key lengths";
    case Feature::kMask:
      return "boolean mask";
    case Feature::kBias:
      return "additive mask";
    case Feature::kMaskWithBias:
      return "mask beside a bias";
    case Feature::kGqa:
      return "fewer kv heads than query heads";
    case Feature::kValueDim:
      return "value_dim other than head_dim";
    case Feature::kZeroSizes:
      return "sizes of zero";
    case Feature::kWeights:
      return "weights";
    case Feature::kMaskBroadcast:
    case Feature::kMaskKeyBroadcast:
      return "broadcast masks";
    case Feature::kMaskRanks:
      return "masks of rank below 4";
    case Feature::kBiasF32:
      return "bias of f32 beside 16-bit inputs";
    case Feature::kQueryLengths:
      return "query lengths";
    case Feature::kPrefixLengths:
      return "prefix lengths";
    case Feature::kDocuments:
      return "documents";
    case Feature::kBlockMask:
      return "block mask";
    case Feature::kSoftcap:
      return "softcap";
    case Feature::kAlibi:
      return "ALiBi slopes";
    case Feature::kSinks:
      return "sinks";
    case Feature::kDropout:
      return "dropout with a given mask";
    case Feature::kPast:
      return "past keys and values";
    case Feature::kPresent:
      return "present keys and values";
    case Feature::kPages:
      return "pages";
    case Feature::kRing:
      return "ring";
    case Feature::kPacked:
      return "packed sequences";
    case Feature::kBiasGradient:
      return "gradient of the bias";
    case Feature::kSinkGradient:
      return "gradient of the sinks";
  }
  return "such feature";
}

}  // namespace

std::string Lacks(const Contract& contract, Feature feature) {
  if (contract.Has(feature)) return "";
  return "the contract offers no " + std::string(WordsFor(feature));
}

std::string AlwaysSupported(const Contract&) {
  return "";
}
std::string NeedsCausal(const Contract& c) {
  return Lacks(c, Feature::kCausal);
}
std::string NeedsWindow(const Contract& c) {
  return Lacks(c, Feature::kWindow);
}
std::string NeedsLengths(const Contract& c) {
  return c.Has(Feature::kKeyLengths) || NeedsMask(c).empty()
             ? ""
             : "the contract offers no key lengths or mask";
}
std::string NeedsMask(const Contract& c) {
  return c.Has(Feature::kMask) || c.Has(Feature::kBias) ? "" : "the contract offers no mask";
}
std::string NeedsBias(const Contract& c) {
  return Lacks(c, Feature::kBias);
}
std::string NeedsLse(const Contract& c) {
  return c.lse != LseKind::kNone ? "" : "the contract offers no lse";
}
std::string NeedsWeights(const Contract& c) {
  return Lacks(c, Feature::kWeights);
}

std::string LacksSafety(const Contract& c, PoisonTensor tensor, Feature feature,
                        PoisonPlace place) {
  const PoisonPlace counts = c.Has(feature)          ? place
                             : c.Has(Feature::kMask) ? PoisonPlace::kMask
                                                     : PoisonPlace::kBias;
  return c.IsPoisonSafe(tensor, counts) ? ""
                                        : "the contract leaves non-finite hidden data unspecified";
}

}  // namespace attest
