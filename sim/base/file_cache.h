// What was made from a file, kept for as long as the file stays as it is.
//
// For catalogues: a sweep of 200,000 points, or a search, would read the same dozen of files for every point. An entry
// is valid while the file has the same size and time of change (nanoseconds where the file system has them), so a
// caller cannot tell that there is a cache unless a file is changed twice within one tick of that clock. Failures are
// not kept. Entries are as many as names asked for; nothing is evicted. Safe to share between threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "sim/base/error.h"

namespace stepcast {

struct FileStamp {
  std::int64_t changed = 0;
  std::uintmax_t bytes = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

// Of a file or a folder (whose time changes with its entries); nothing where there is none.
[[nodiscard]] std::optional<FileStamp> stamp_of(const std::filesystem::path& file);

template <class T>
class FileCache {
 public:
  // What `make()` gives, a Result<T>, or what it gave before for this file and `key`. Two threads that ask at once may
  // both make it.
  template <class Make>
  [[nodiscard]] Result<T> get(const std::filesystem::path& file, const std::string& key, Make&& make) {
    const auto stamp = stamp_of(file);
    if (!stamp) return make();
    const auto place = std::make_pair(file.string(), key);
    if (const auto known = find(place, *stamp)) return T(*known);
    Result<T> made = make();
    if (made) {
      const std::scoped_lock lock(mutex_);
      entries_[place] = {*stamp, std::make_shared<const T>(*made)};
    }
    return made;
  }

 private:
  struct Entry {
    FileStamp stamp;
    std::shared_ptr<const T> value;
  };

  [[nodiscard]] std::shared_ptr<const T> find(const std::pair<std::string, std::string>& place,
                                              const FileStamp& stamp) const {
    const std::scoped_lock lock(mutex_);
    const auto found = entries_.find(place);
    return found != entries_.end() && found->second.stamp == stamp ? found->second.value : nullptr;
  }

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Entry> entries_;
};

}  // namespace stepcast
