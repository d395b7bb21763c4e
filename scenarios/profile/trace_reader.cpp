#include "scenarios/profile/trace_reader.h"

#include <zlib.h>

#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace stepcast::scenarios {
namespace {

constexpr std::int64_t longest_us = 9'000'000'000'000'000;  // fits nanoseconds in 64 bits; the year 2255
constexpr std::size_t deepest = 512;
constexpr std::size_t longest_text = 4096;  // kept of a name

enum class Field : std::uint8_t {
  none,
  phase,
  name,
  category,
  begin,
  length,
  pid,
  tid,
  label,
  collective,
  group_name,
  group_description,
  element_type,
  exposed_as,
  waits_as,
  correlation,
  in_elements,
  out_elements,
  group_size,
  order,
  issued,
  ready,
  sent,
  stage_end,
};

Field event_field(std::string_view key) {
  static const std::unordered_map<std::string_view, Field> fields = {
      {"ph", Field::phase},   {"name", Field::name}, {"cat", Field::category}, {"ts", Field::begin},
      {"dur", Field::length}, {"pid", Field::pid},   {"tid", Field::tid}};
  const auto found = fields.find(key);
  return found == fields.end() ? Field::none : found->second;
}

Field argument_field(std::string_view key) {
  static const std::unordered_map<std::string_view, Field> fields = {
      {"name", Field::label},
      {"Collective name", Field::collective},
      {"Process Group Name", Field::group_name},
      {"Process Group Description", Field::group_description},
      {"dtype", Field::element_type},
      {"correlation", Field::correlation},
      {"In msg nelems", Field::in_elements},
      {"Out msg nelems", Field::out_elements},
      {"Group size", Field::group_size},
      {"exposed_as", Field::exposed_as},
      {"waits_as", Field::waits_as},
      {"order", Field::order},
      {"issued_us", Field::issued},
      {"ready_us", Field::ready},
      {"sent_us", Field::sent},
      {"stage_end_us", Field::stage_end}};
  const auto found = fields.find(key);
  return found == fields.end() ? Field::none : found->second;
}

// "123.4567" microseconds as nanoseconds, rounded; `absent` for what is no plain decimal or out of range.
std::int64_t nanoseconds(std::string_view text) {
  const bool negative = !text.empty() && text.front() == '-';
  if (negative) text.remove_prefix(1);
  const std::size_t dot = std::min(text.find('.'), text.size());
  std::int64_t whole = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + dot, whole);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + dot || whole > longest_us) return absent;
  std::int64_t fraction = 0, scale = 1;
  bool up = false;
  for (std::size_t i = dot + 1; i < text.size(); ++i) {
    if (text[i] < '0' || text[i] > '9') return absent;
    if (scale < 1000) {
      fraction = 10 * fraction + (text[i] - '0');
      scale *= 10;
    } else if (i == dot + 4) {
      up = text[i] >= '5';
    }
  }
  const std::int64_t ns = whole * 1000 + fraction * (1000 / scale) + (up ? 1 : 0);
  return negative ? -ns : ns;
}

// A file's bytes, decompressed where they are gzip.
class Bytes {
 public:
  explicit Bytes(const std::filesystem::path& file) : file_(gzopen(file.c_str(), "rb")) {
    if (file_ == nullptr) return;
    gzbuffer(file_, 1 << 18);
    refill();
  }
  ~Bytes() {
    if (file_ != nullptr) gzclose(file_);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  [[nodiscard]] bool open() const { return file_ != nullptr; }
  [[nodiscard]] bool ended() const { return at_ == size_; }
  [[nodiscard]] const char& current() const { return buffer_[at_]; }
  void next() {
    if (++at_ == size_) refill();
  }
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  void refill() {
    const int got = gzread(file_, buffer_.data(), static_cast<unsigned>(buffer_.size()));
    at_ = 0;
    size_ = got > 0 ? static_cast<std::size_t>(got) : 0;
    int code = Z_OK;
    const char* const message = gzerror(file_, &code);
    if (code != Z_OK && code != Z_STREAM_END) failure_ = message != nullptr && *message != 0 ? message : "read error";
  }

  gzFile file_;
  std::array<char, 1 << 16> buffer_{};
  std::size_t at_ = 0, size_ = 0;
  std::string failure_;
};

class ByteIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  ByteIterator() = default;
  explicit ByteIterator(Bytes& bytes) : bytes_(&bytes) {}
  reference operator*() const { return bytes_->current(); }
  ByteIterator& operator++() {
    bytes_->next();
    return *this;
  }
  ByteIterator operator++(int) {
    bytes_->next();
    return *this;
  }
  bool operator==(const ByteIterator& other) const { return ended() == other.ended(); }
  bool operator!=(const ByteIterator& other) const { return ended() != other.ended(); }

 private:
  [[nodiscard]] bool ended() const { return bytes_ == nullptr || bytes_->ended(); }
  Bytes* bytes_ = nullptr;
};

class Handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  Handler(TraceInfo& info, const std::function<void(const TraceEvent&)>& each) : info_(info), each_(each) {}

  bool found_events = false;
  std::string failure;  // of the parser, or of what the file is

  bool null() override { return scalar(); }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(number_integer_t value) override { return whole(value); }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto most = static_cast<number_unsigned_t>(INT64_MAX);
    return whole(value > most ? INT64_MAX : static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (is_time(field_)) {
      std::int64_t ns = nanoseconds(text);
      if (ns == absent && std::abs(value) < static_cast<double>(longest_us)) {
        ns = static_cast<std::int64_t>(std::llround(value * 1000));  // with an exponent
      }
      store(ns);
    } else if (std::abs(value) < 9e18) {
      store(static_cast<std::int64_t>(value));
    }
    return scalar();
  }
  bool string(string_t& value) override {
    if (std::string* const target = text_target(); target != nullptr) {
      target->assign(value, 0, longest_text);
    } else if (is_time(field_)) {
      store(nanoseconds(value));  // some writers quote their numbers
    } else if (in_device_ && top_key_ == "deviceProperties" && key_ == "name" && info_.device.empty()) {
      info_.device.assign(value, 0, longest_text);
    } else if (depth_ == 1 && key_ == "traceName") {
      info_.trace_name.assign(value, 0, longest_text);
    }
    return scalar();
  }
  bool binary(binary_t&) override { return scalar(); }

  bool start_object(std::size_t) override {
    if (++depth_ > deepest) return fail("nested deeper than 512");
    if (depth_ == 1) root_object_ = true;
    in_device_ = depth_ == 3 && top_key_ == "deviceProperties";
    if (events_at_ != 0 && depth_ == events_at_ + 1) {
      event_.clear();
      field_ = Field::none;
    }
    if (events_at_ != 0 && depth_ == events_at_ + 2) in_arguments_ = key_ == "args";
    key_.clear();
    return true;
  }
  bool end_object() override {
    if (events_at_ != 0 && depth_ == events_at_ + 1) finish_event();
    if (depth_ == 3) in_device_ = false;
    if (events_at_ != 0 && depth_ <= events_at_ + 2) in_arguments_ = false;
    --depth_;
    field_ = Field::none;
    key_.clear();
    return true;
  }
  bool start_array(std::size_t) override {
    if (++depth_ > deepest) return fail("nested deeper than 512");
    if (depth_ == 1 || (depth_ == 2 && root_object_ && top_key_ == "traceEvents")) {
      events_at_ = depth_;
      found_events = true;
    }
    key_.clear();
    field_ = Field::none;
    return true;
  }
  bool end_array() override {
    if (depth_ == events_at_) events_at_ = 0;
    --depth_;
    field_ = Field::none;
    return true;
  }
  bool key(string_t& value) override {
    key_ = value;
    if (depth_ == 1) top_key_ = value;
    field_ = Field::none;
    if (events_at_ == 0) return true;
    if (depth_ == events_at_ + 1) {
      field_ = event_field(value);
    } else if (in_arguments_ && depth_ == events_at_ + 2) {
      field_ = argument_field(value);
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    const bool early = std::string_view(error.what()).find("unexpected end") != std::string_view::npos;
    failure = fmt::format("byte {}: {}", position, early ? "the text ends too early" : "no JSON from here on");
    return false;
  }

 private:
  static bool is_time(Field field) {
    switch (field) {
      case Field::begin:
      case Field::length:
      case Field::issued:
      case Field::ready:
      case Field::sent:
      case Field::stage_end:
        return true;
      default:
        return false;
    }
  }
  bool fail(const char* why) {
    failure = why;
    return false;
  }
  // A value ends; an element of the event list that is none is counted.
  bool scalar() {
    if (events_at_ != 0 && depth_ == events_at_) ++info_.malformed;
    field_ = Field::none;
    return true;
  }
  bool whole(std::int64_t value) {
    if (is_time(field_)) {
      store(std::abs(value) > longest_us ? absent : value * 1000);
    } else {
      store(value);
    }
    if (depth_ == 2 && top_key_ == "distributedInfo") {
      if (key_ == "rank") info_.rank = value;
      if (key_ == "world_size") info_.world_size = value;
    }
    return scalar();
  }
  std::string* text_target() {
    switch (field_) {
      case Field::phase:
        return &event_.phase;
      case Field::name:
        return &event_.name;
      case Field::category:
        return &event_.category;
      case Field::label:
        return &event_.label;
      case Field::collective:
        return &event_.collective;
      case Field::group_name:
        return &event_.group_name;
      case Field::group_description:
        return &event_.group_description;
      case Field::element_type:
        return &event_.element_type;
      case Field::exposed_as:
        return &event_.exposed_as;
      case Field::waits_as:
        return &event_.waits_as;
      default:
        return nullptr;
    }
  }
  void store(std::int64_t value) {
    switch (field_) {
      case Field::begin:
        event_.begin_ns = value;
        break;
      case Field::length:
        event_.length_ns = value;
        break;
      case Field::pid:
        event_.pid = value;
        break;
      case Field::tid:
        event_.tid = value;
        break;
      case Field::correlation:
        event_.correlation = value;
        break;
      case Field::in_elements:
        event_.in_elements = value;
        break;
      case Field::out_elements:
        event_.out_elements = value;
        break;
      case Field::group_size:
        event_.group_size = value;
        break;
      case Field::order:
        event_.order = value;
        break;
      case Field::issued:
        event_.issued_ns = value;
        break;
      case Field::ready:
        event_.ready_ns = value;
        break;
      case Field::sent:
        event_.sent_ns = value;
        break;
      case Field::stage_end:
        event_.stage_end_ns = value;
        break;
      default:
        break;
    }
  }
  void finish_event() {
    ++info_.events;
    if (event_.phase == "X" && (event_.begin_ns == absent || event_.length_ns == absent || event_.length_ns < 0)) {
      ++info_.malformed;
      return;
    }
    each_(event_);
  }

  TraceInfo& info_;
  const std::function<void(const TraceEvent&)>& each_;
  TraceEvent event_;
  std::size_t depth_ = 0, events_at_ = 0;  // depth of the event list while inside it
  std::string key_, top_key_;
  Field field_ = Field::none;
  bool root_object_ = false, in_arguments_ = false, in_device_ = false;
};

}  // namespace

void TraceEvent::clear() {
  for (std::string* text : {&phase, &name, &category, &label, &collective, &group_name, &group_description,
                            &element_type, &exposed_as, &waits_as}) {
    text->clear();
  }
  for (std::int64_t* number : {&begin_ns, &length_ns, &pid, &tid, &correlation, &in_elements, &out_elements,
                               &group_size, &order, &issued_ns, &ready_ns, &sent_ns, &stage_end_ns}) {
    *number = absent;
  }
}

Result<TraceInfo> read_trace_events(const std::filesystem::path& file,
                                    const std::function<void(const TraceEvent&)>& each) {
  std::error_code code;
  const auto status = std::filesystem::status(file, code);
  if (code || !std::filesystem::exists(status)) return make_error(ErrorCode::not_found, "no such file", file.string());
  if (std::filesystem::is_directory(status)) {
    return make_error(ErrorCode::unreadable, "is a directory, a trace file is needed", file.string());
  }
  const auto bytes = std::make_unique<Bytes>(file);
  if (!bytes->open()) return make_error(ErrorCode::unreadable, "cannot be opened", file.string());
  TraceInfo info;
  Handler handler(info, each);
  if (bytes->ended() && bytes->failure().empty()) return make_error(ErrorCode::unreadable, "is empty", file.string());
  const bool sound = nlohmann::json::sax_parse(ByteIterator(*bytes), ByteIterator(), &handler);
  if (!bytes->failure().empty()) {
    info.broken = "damaged gzip data: " + bytes->failure();
  } else if (!sound) {
    info.broken = handler.failure;
  }
  if (!handler.found_events) {
    return make_error(ErrorCode::unreadable,
                      info.broken.empty() ? "no list 'traceEvents' at the root: not a Chrome trace"
                                          : "not a Chrome trace: " + info.broken,
                      file.string());
  }
  return info;
}

}  // namespace stepcast::scenarios
