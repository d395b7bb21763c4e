// Expected failures as values.
//
// Everything that can fail on user input returns Result<T>: a value, or one or
// more Errors. A reader collects all errors of a file before it returns.
// Broken invariants are STEPCAST_ASSERT, on in release, never reachable from input.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace stepcast {

enum class ErrorCode : unsigned char {
  usage,        // the command line (exit 2)
  not_found,    // a file or a catalogue name
  unreadable,   // a file that exists but cannot be read as what it should be
  invalid,      // a value out of its range, of the wrong type, or contradictory
  infeasible,   // a valid scenario that cannot run (memory)
  unsupported,  // understood, and refused with the reason
  unwritable,   // output
};

struct Error {
  ErrorCode code = ErrorCode::invalid;
  std::string message;  // what was found, what is allowed, the nearest valid name
  std::string where;    // "file:line:column /json/pointer", a flag, or empty
};

using Errors = std::vector<Error>;

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}              // NOLINT: implicit by design
  Result(Error error) : state_(Errors{std::move(error)}) {}  // NOLINT
  Result(Errors errors) : state_(std::move(errors)) {}       // NOLINT

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] T& value() { return std::get<0>(state_); }
  [[nodiscard]] const T& value() const { return std::get<0>(state_); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  [[nodiscard]] const Errors& errors() const { return std::get<1>(state_); }

 private:
  std::variant<T, Errors> state_;
};

struct Unit {};
using Status = Result<Unit>;

inline Error make_error(ErrorCode code, std::string message, std::string where = {}) {
  return Error{code, std::move(message), std::move(where)};
}

// The valid name nearest to `found` by edit distance, if one is near enough to be a likely slip.
[[nodiscard]] std::optional<std::string> nearest_name(const std::string& found, const std::vector<std::string>& valid);

// "; did you mean 'x'?" or "", to append to a message about an unknown name.
[[nodiscard]] std::string suggestion(const std::string& found, const std::vector<std::string>& valid);

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace stepcast

#define STEPCAST_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::stepcast::assertion_failed(#condition, __FILE__, __LINE__))
