// Handlers for std::visit, one lambda per alternative:
//   std::visit(Overloaded{[](const A& a) { ... }, [](const B& b) { ... }}, variant);
#pragma once

namespace maypole {

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

}  // namespace maypole
