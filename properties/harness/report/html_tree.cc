#include "properties/harness/report/html_tree.h"

#include "properties/harness/report/clean_text.h"

namespace attest::html {

void Set(pugi::xml_node node, const char* name, std::string_view value) {
  node.append_attribute(name).set_value(CleanText(value).c_str());
}

void Write(pugi::xml_node node, std::string_view text) {
  node.append_child(pugi::node_pcdata).set_value(CleanText(text).c_str());
}

pugi::xml_node Add(pugi::xml_node parent, const char* tag, std::string_view style) {
  pugi::xml_node node = parent.append_child(tag);
  if (!style.empty()) Set(node, "class", style);
  return node;
}

pugi::xml_node AddText(pugi::xml_node parent, const char* tag, std::string_view text,
                       std::string_view style) {
  pugi::xml_node node = Add(parent, tag, style);
  Write(node, text);
  return node;
}

pugi::xml_node AddLink(pugi::xml_node parent, std::string_view href, std::string_view text) {
  pugi::xml_node link = AddText(parent, "a", text);
  Set(link, "href", href);
  return link;
}

pugi::xml_node AddMark(pugi::xml_node parent, const Mark& mark) {
  pugi::xml_node node = Add(parent, "span", "mark " + std::string(mark.style));
  Set(AddText(node, "span", mark.sign), "aria-hidden", "true");
  Write(node, " " + std::string(mark.word));
  return node;
}

pugi::xml_node AddHeader(pugi::xml_node row, const char* scope, std::string_view text) {
  pugi::xml_node header = AddText(row, "th", text);
  Set(header, "scope", scope);
  return header;
}

pugi::xml_node AddScrollBox(pugi::xml_node parent, std::string_view label) {
  pugi::xml_node box = Add(parent, "div", "scroll");
  Set(box, "role", "region");
  Set(box, "tabindex", "0");
  Set(box, "aria-label", label);
  return box;
}

pugi::xml_node AddTable(pugi::xml_node parent, std::string_view caption, std::string_view style) {
  pugi::xml_node table = Add(parent, "table", style);
  AddText(table, "caption", caption);
  return table;
}

pugi::xml_node AddDetails(pugi::xml_node parent, std::string_view heading, bool open) {
  pugi::xml_node details = Add(parent, "details");
  if (open) Set(details, "open", "");
  AddText(details, "summary", heading);
  return details;
}

void AddFact(pugi::xml_node list, std::string_view term, std::string_view fact) {
  pugi::xml_node pair = Add(list, "div");
  AddText(pair, "dt", term);
  AddText(pair, "dd", fact);
}

}  // namespace attest::html
