// Assertions for our own bugs; on in release builds. Input from elsewhere is validated, never
// checked.
#pragma once

namespace maypole {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace maypole

#define MAYPOLE_CHECK(condition)                              \
  do {                                                        \
    if (!(condition)) {                                       \
      ::maypole::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                         \
  } while (false)
