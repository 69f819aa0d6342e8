// An integer with a meaning: a Rank is not an Epoch, and adding the two does not compile.
#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <utility>

namespace maypole {

template <typename Tag, typename T>
class StrongInt {
 public:
  using ValueType = T;

  constexpr StrongInt() = default;

  constexpr explicit StrongInt(T value) : value_(value) {}

  constexpr T value() const { return value_; }

  friend constexpr auto operator<=>(StrongInt, StrongInt) = default;

  template <typename H>
  friend H AbslHashValue(H state, StrongInt id) {
    return H::combine(std::move(state), id.value_);
  }

  friend std::ostream& operator<<(std::ostream& out, StrongInt id) { return out << id.value_; }

 private:
  T value_ = 0;
};

}  // namespace maypole

template <typename Tag, typename T>
struct std::hash<maypole::StrongInt<Tag, T>> {
  std::size_t operator()(maypole::StrongInt<Tag, T> id) const { return std::hash<T>()(id.value()); }
};
