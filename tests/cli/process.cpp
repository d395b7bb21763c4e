#include "tests/cli/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace stepcast::cli_tests {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double longest_run_s = 120;

struct Pipes {
  std::array<int, 2> out{-1, -1}, err{-1, -1};  // read end, write end
};

Pipes open_pipes(bool terminal) {
  Pipes pipes;
  if (terminal) {
    int master = -1, slave = -1;
    if (openpty(&master, &slave, nullptr, nullptr, nullptr) != 0) throw std::runtime_error("no terminal to be had");
    pipes.out = {master, slave};
    pipes.err = {-1, slave};
    return pipes;
  }
  if (pipe2(pipes.out.data(), O_CLOEXEC) != 0 || pipe2(pipes.err.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipe to be had");
  }
  return pipes;
}

[[noreturn]] void become(const std::vector<std::string>& arguments, const Setting& setting, const Pipes& pipes) {
  const int null = ::open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(pipes.out[1], STDOUT_FILENO);
  dup2(pipes.err[1], STDERR_FILENO);
  if (!setting.standard_output.empty()) {
    const int file = ::open(setting.standard_output.c_str(), O_WRONLY);
    if (file < 0) _exit(126);
    dup2(file, STDOUT_FILENO);
  }
  if (!setting.folder.empty() && chdir(setting.folder.c_str()) != 0) _exit(126);
  std::vector<std::string> environment = setting.environment;
  environment.emplace_back("PATH=/usr/bin:/bin");
  environment.emplace_back("TERM=xterm");
  std::vector<std::string> all = {STEPCAST_BINARY};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv, envp;
  for (std::string& argument : all) argv.push_back(argument.data());
  for (std::string& variable : environment) envp.push_back(variable.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  execve(STEPCAST_BINARY, argv.data(), envp.data());
  _exit(127);
}

// False when the other end is closed.
bool take(int descriptor, std::string& text) {
  std::array<char, 4096> buffer{};
  const ssize_t n = read(descriptor, buffer.data(), buffer.size());
  if (n <= 0) return false;
  text.append(buffer.data(), static_cast<std::size_t>(n));
  return true;
}

}  // namespace

Outcome run(const std::vector<std::string>& arguments, const Setting& setting) {
  Pipes pipes = open_pipes(setting.terminal);
  const pid_t child = fork();
  if (child == 0) become(arguments, setting, pipes);
  close(pipes.out[1]);
  if (pipes.err[1] != pipes.out[1]) close(pipes.err[1]);

  Outcome outcome;
  const auto start = Clock::now();
  bool interrupt_due = setting.interrupt_after_s >= 0;
  std::array<pollfd, 2> open_ends = {pollfd{pipes.out[0], POLLIN, 0}, pollfd{pipes.err[0], POLLIN, 0}};
  while (open_ends[0].fd >= 0 || open_ends[1].fd >= 0) {
    poll(open_ends.data(), open_ends.size(), 20);
    if (open_ends[0].revents != 0 && !take(open_ends[0].fd, outcome.out)) open_ends[0].fd = -1;
    if (open_ends[1].revents != 0 && !take(open_ends[1].fd, outcome.err)) open_ends[1].fd = -1;
    open_ends[0].revents = open_ends[1].revents = 0;
    const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    if (interrupt_due && elapsed > setting.interrupt_after_s) {
      kill(child, SIGINT);
      interrupt_due = false;
    }
    if (elapsed > longest_run_s) kill(child, SIGKILL);
  }
  close(pipes.out[0]);
  if (pipes.err[0] >= 0) close(pipes.err[0]);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> list;
  for (std::string word; in >> word;) list.push_back(word);
  return list;
}

ScratchFolder::ScratchFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "stepcast-cli-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch folder to be had");
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace stepcast::cli_tests
