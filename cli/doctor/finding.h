// What `maypole doctor` has to say about one aspect of this machine.
#pragma once

#include <string>
#include <vector>

namespace maypole::cli {

enum class Level {
  kOk,
  kWarn,  // works, but something is worth doing
  kFail,  // Maypole does not work, or is not safe, until it is done
};

struct Finding {
  Level level = Level::kOk;
  std::string aspect;  // "memlock limit"
  std::string text;    // what was found
  std::string remedy;  // what to do; empty if nothing
};

}  // namespace maypole::cli
