// A strict reader of the pages that --report writes: every tag closed in order, every attribute quoted.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace stepcast::html_tests {

struct Node {
  std::string name;
  std::map<std::string, std::string> attributes;  // unescaped
  std::string text;                               // of the node itself, unescaped; scripts and styles as they are
  std::vector<std::unique_ptr<Node>> children;
  const Node* parent = nullptr;

  [[nodiscard]] std::string attribute(const std::string& key) const;
  [[nodiscard]] bool has(const std::string& key) const { return attributes.contains(key); }
  [[nodiscard]] double number(const std::string& key) const;  // throws when it is none
  // Below this node, in order; every name when `wanted` is empty.
  [[nodiscard]] std::vector<const Node*> all(const std::string& wanted = {}) const;
};

// Throws std::runtime_error with the place and what was found there.
[[nodiscard]] std::unique_ptr<Node> parse_page(const std::string& html);

}  // namespace stepcast::html_tests
