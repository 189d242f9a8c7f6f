#include <algorithm>

#include "properties/transformer/model_properties.h"

namespace attest {

const std::vector<ModelProperty>& AllModelProperties() {
  static const std::vector<ModelProperty> properties = [] {
    std::vector<ModelProperty> all;
    for (const auto family : {LogitsProperties(), DependencyProperties(), ModelPaddingProperties(),
                              ModelBatchProperties(), GenerationProperties(), PositionProperties(),
                              TeacherForcingProperties()}) {
      all.insert(all.end(), family.begin(), family.end());
    }
    return all;
  }();
  return properties;
}

const ModelProperty* FindModelProperty(std::string_view id) {
  const auto& all = AllModelProperties();
  const auto found =
      std::ranges::find_if(all, [&](const ModelProperty& property) { return property.id == id; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace attest
