// The claims that attest check-model holds a model to. One table a family, a file each; the registry puts them
// together. Callers: attest check-model, its runner's tests, the program that lists them.
#ifndef ATTEST_PROPERTIES_TRANSFORMER_MODEL_PROPERTIES_H_
#define ATTEST_PROPERTIES_TRANSFORMER_MODEL_PROPERTIES_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "properties/harness/model/model_property.h"

namespace attest {

std::span<const ModelProperty> LogitsProperties();
std::span<const ModelProperty> DependencyProperties();
std::span<const ModelProperty> ModelPaddingProperties();
std::span<const ModelProperty> ModelBatchProperties();
std::span<const ModelProperty> GenerationProperties();
std::span<const ModelProperty> PositionProperties();
std::span<const ModelProperty> TeacherForcingProperties();

// All of them, in the order above.
const std::vector<ModelProperty>& AllModelProperties();
// nullptr when the id is unknown.
const ModelProperty* FindModelProperty(std::string_view id);

// What the logits of a sequence depend on beside what they may depend on, as two pictures side by side: rows are
// positions, columns tokens, # where one depends on the other. Of the case's first item.
std::string DependencyPicture(const ModelCase& c, ModelLab& lab);

}  // namespace attest

#endif  // ATTEST_PROPERTIES_TRANSFORMER_MODEL_PROPERTIES_H_
