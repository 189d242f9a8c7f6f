// Building the page as a tree, which makes every text in it harmless: pugixml escapes, and CleanText
// drops what no page can hold. Private to the HTML writer.
#ifndef ATTEST_HARNESS_REPORT_HTML_TREE_H_
#define ATTEST_HARNESS_REPORT_HTML_TREE_H_

#include <string>
#include <string_view>

#include <pugixml.hpp>

#include "properties/harness/report/verdict_mark.h"

namespace attest::html {

// Sets an attribute, cleaned.
void Set(pugi::xml_node node, const char* name, std::string_view value);

// Appends text, cleaned.
void Write(pugi::xml_node node, std::string_view text);

// Appends an element; `style` is its class, "" = none.
pugi::xml_node Add(pugi::xml_node parent, const char* tag, std::string_view style = "");

// Likewise, with a text in it.
pugi::xml_node AddText(pugi::xml_node parent, const char* tag, std::string_view text,
                       std::string_view style = "");

// A link within the page or to a file beside it; `href` must not come from a kernel.
pugi::xml_node AddLink(pugi::xml_node parent, std::string_view href, std::string_view text);

// Sign and word, in the colour of the state. The sign is hidden from screen readers, which have the
// word.
pugi::xml_node AddMark(pugi::xml_node parent, const Mark& mark);

// A header cell; scope is "col", "row" or "rowgroup".
pugi::xml_node AddHeader(pugi::xml_node row, const char* scope, std::string_view text);

// A scrolling box of its own, which the keyboard reaches, for what may be wider than the screen.
pugi::xml_node AddScrollBox(pugi::xml_node parent, std::string_view label);

// A table with its caption.
pugi::xml_node AddTable(pugi::xml_node parent, std::string_view caption, std::string_view style);

// A closed part that opens by a click on its heading, and in print.
pugi::xml_node AddDetails(pugi::xml_node parent, std::string_view heading, bool open = false);

// A term and what it stands for, in a <dl>.
void AddFact(pugi::xml_node list, std::string_view term, std::string_view fact);

}  // namespace attest::html

#endif  // ATTEST_HARNESS_REPORT_HTML_TREE_H_
