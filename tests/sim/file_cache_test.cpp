// What is kept of a file: made once, made again when the file changes, never of a failure.
#include "sim/base/file_cache.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <oneapi/tbb/parallel_for.h>
#include <catch2/catch.hpp>

using namespace stepcast;

namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path() / ("file_cache_test." + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

void write(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }

std::string read(const fs::path& file) {
  std::string text;
  std::getline(std::ifstream(file), text);
  return text;
}

}  // namespace

TEST_CASE("a file is read again when it has changed, and only then") {
  const Folder folder;
  const fs::path file = folder.path / "entry";
  FileCache<std::string> cache;
  int made = 0;
  const auto get = [&] {
    return cache.get(file, "", [&]() -> Result<std::string> {
      ++made;
      if (!fs::exists(file)) return make_error(ErrorCode::not_found, "no such file");
      return read(file);
    });
  };
  CHECK(!get().ok());
  write(file, "one");
  CHECK(get().value() == "one");
  CHECK(get().value() == "one");
  CHECK(made == 2);
  write(file, "another");
  CHECK(get().value() == "another");
  CHECK(made == 3);
  // The same size: the time tells.
  write(file, "changed");
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  CHECK(get().value() == "changed");
  fs::remove(file);
  CHECK(!get().ok());
}

TEST_CASE("keys of one file are apart, and failures are not kept") {
  const Folder folder;
  const fs::path file = folder.path / "entry";
  write(file, "text");
  FileCache<int> cache;
  CHECK(cache.get(file, "a", [] { return Result<int>(1); }).value() == 1);
  CHECK(cache.get(file, "b", [] { return Result<int>(2); }).value() == 2);
  CHECK(cache.get(file, "a", [] { return Result<int>(3); }).value() == 1);
  CHECK(!cache.get(file, "c", [] { return Result<int>(make_error(ErrorCode::invalid, "no")); }).ok());
  CHECK(cache.get(file, "c", [] { return Result<int>(4); }).value() == 4);
}

TEST_CASE("threads get the same from a file") {
  const Folder folder;
  const fs::path file = folder.path / "entry";
  write(file, "text");
  FileCache<std::string> cache;
  std::vector<int> right(64, 0);
  tbb::parallel_for(0, 64, [&](int i) {
    const auto key = std::to_string(i % 4);
    const auto got = cache.get(file, key, [&] { return Result<std::string>(key + read(file)); });
    right[static_cast<std::size_t>(i)] = got.ok() && *got == key + "text" ? 1 : 0;
  });
  CHECK(std::count(right.begin(), right.end(), 1) == 64);
}
