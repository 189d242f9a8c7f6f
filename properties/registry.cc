// Every property, family by family.
#include "properties/property.h"

namespace attest {

std::span<const Property> AllProperties() {
  static const std::vector<Property> kAll = [] {
    std::vector<Property> all;
    for (const auto family :
         {EquivalenceProperties(),  RowSumsProperties(),     CausalProperties(),
          PaddingProperties(),      EmptyRowsProperties(),   TilingProperties(),
          MasksProperties(),        WindowProperties(),      VisibilityFeaturesProperties(),
          QueryPaddingProperties(), SensitivityProperties(), SymmetryProperties(),
          AlgebraProperties(),      HeadsProperties(),       NumericsProperties(),
          ScoresProperties(),       DropoutProperties(),     GradientsProperties(),
          CacheProperties(),        Fp8Properties(),         MemoryProperties(),
          DeterminismProperties()}) {
      all.insert(all.end(), family.begin(), family.end());
    }
    return all;
  }();
  return kAll;
}

const Property* FindProperty(std::string_view id) {
  for (const Property& property : AllProperties()) {
    if (property.id == id) return &property;
  }
  return nullptr;
}

}  // namespace attest
