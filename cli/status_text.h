// The coordinator's status as text for a person. Pure.
#pragma once

#include <string>

namespace maypole::v1 {
class Status;
}

namespace maypole::cli {

std::string StatusText(const v1::Status& status);

}  // namespace maypole::cli
