#include "tests/html/tree.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace stepcast::html_tests {
namespace {

constexpr std::array<std::string_view, 4> without_end = {"meta", "link", "br", "hr"};

std::string unescaped(const std::string& text) {
  static const std::array<std::pair<std::string_view, char>, 5> entities = {
      {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#39;", '\''}}};
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '&') {
      out += text[at++];
      continue;
    }
    const auto* found = std::find_if(entities.begin(), entities.end(),
                                     [&](const auto& e) { return text.compare(at, e.first.size(), e.first) == 0; });
    if (found == entities.end()) throw std::runtime_error("a bare & in: " + text.substr(at, 30));
    out += found->second;
    at += found->first.size();
  }
  return out;
}

class Parser {
 public:
  explicit Parser(const std::string& html) : html_(html) {}

  std::unique_ptr<Node> run() {
    auto root = std::make_unique<Node>();
    if (html_.rfind("<!DOCTYPE html>", 0) != 0) fail("no doctype");
    at_ = 15;
    Node* open = root.get();
    while (at_ < html_.size()) {
      if (html_[at_] != '<') {
        const auto end = std::min(html_.find('<', at_), html_.size());
        open->text += unescaped(html_.substr(at_, end - at_));
        at_ = end;
      } else if (html_.compare(at_, 2, "</") == 0) {
        const auto end = html_.find('>', at_);
        const std::string name = html_.substr(at_ + 2, end - at_ - 2);
        if (name != open->name) fail("</" + name + "> closes <" + open->name + ">");
        open = const_cast<Node*>(open->parent);
        at_ = end + 1;
      } else {
        open = element(open);
      }
    }
    if (open != root.get()) fail("<" + open->name + "> is left open");
    return root;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("at byte " + std::to_string(at_) + ": " + what + ": " + html_.substr(at_, 60));
  }

  // The node that is open afterwards.
  Node* element(Node* parent) {
    ++at_;
    auto node = std::make_unique<Node>();
    node->parent = parent;
    while (at_ < html_.size() && html_[at_] != ' ' && html_[at_] != '>') node->name += html_[at_++];
    const auto letter = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '1' && c <= '6') || (c >= 'A' && c <= 'Z');
    };
    if (node->name.empty() || !std::all_of(node->name.begin(), node->name.end(), letter)) fail("no name of a tag");
    while (at_ < html_.size() && html_[at_] == ' ') attribute(*node);
    if (at_ >= html_.size() || html_[at_] != '>') fail("a tag without end");
    ++at_;
    Node* made = node.get();
    parent->children.push_back(std::move(node));
    if (std::find(without_end.begin(), without_end.end(), made->name) != without_end.end()) return parent;
    if (made->name != "script" && made->name != "style") return made;
    const auto end = html_.find("</" + made->name, at_);
    if (end == std::string::npos) fail("no end of " + made->name);
    made->text = html_.substr(at_, end - at_);
    at_ = end;
    return made;
  }

  void attribute(Node& node) {
    const auto equals = html_.find("=\"", at_);
    if (equals == std::string::npos) fail("an attribute without quotes");
    const std::string key = html_.substr(at_ + 1, equals - at_ - 1);
    if (key.find_first_of(" <>\"'") != std::string::npos) fail("an attribute without value");
    const auto end = html_.find('"', equals + 2);
    if (!node.attributes.emplace(key, unescaped(html_.substr(equals + 2, end - equals - 2))).second) {
      fail("an attribute twice");
    }
    at_ = end + 1;
  }

  const std::string& html_;
  std::size_t at_ = 0;
};

void collect(const Node& node, const std::string& wanted, std::vector<const Node*>& found) {
  for (const auto& child : node.children) {
    if (wanted.empty() || child->name == wanted) found.push_back(child.get());
    collect(*child, wanted, found);
  }
}

}  // namespace

std::string Node::attribute(const std::string& key) const {
  const auto found = attributes.find(key);
  return found == attributes.end() ? std::string{} : found->second;
}

double Node::number(const std::string& key) const {
  const std::string text_of = attribute(key);
  std::size_t used = 0;
  const double value = std::stod(text_of, &used);
  if (used != text_of.size()) throw std::runtime_error(key + " is no number: " + text_of);
  return value;
}

std::vector<const Node*> Node::all(const std::string& wanted) const {
  std::vector<const Node*> found;
  collect(*this, wanted, found);
  return found;
}

std::unique_ptr<Node> parse_page(const std::string& html) { return Parser(html).run(); }

}  // namespace stepcast::html_tests
