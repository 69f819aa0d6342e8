// Cuts a stream of bytes into lines. Pure. A line longer than kLongestLine is given out in pieces,
// so that a process that never writes a newline costs bounded memory.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace maypole::cli {

class LineSplitter {
 public:
  static constexpr std::size_t kLongestLine = 65536;

  // Calls sink(std::string_view) once per completed line, without its newline.
  template <typename Sink>
  void Add(std::string_view bytes, Sink&& sink) {
    partial_ += bytes;
    std::size_t begin = 0;
    for (std::size_t end = partial_.find('\n'); end != std::string::npos;
         end = partial_.find('\n', begin)) {
      sink(std::string_view(partial_).substr(begin, end - begin));
      begin = end + 1;
    }
    partial_.erase(0, begin);
    if (partial_.size() >= kLongestLine) {
      Flush(sink);
    }
  }

  // Gives out what has no newline yet; at the end of the stream.
  template <typename Sink>
  void Flush(Sink&& sink) {
    if (!partial_.empty()) {
      const std::string line = std::exchange(partial_, {});
      sink(std::string_view(line));
    }
  }

 private:
  std::string partial_;
};

}  // namespace maypole::cli
