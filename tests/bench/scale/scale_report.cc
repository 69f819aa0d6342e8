// scale_report FOLDER: writes scale.md and its pictures. Exit code 1 if the automatic choice is
// anywhere more than 1.25 times as slow as the best algorithm.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "cli/svg_plot.h"
#include "daemon/parse.h"
#include "tests/bench/scale/scale.h"

namespace maypole::scale {
namespace {

constexpr std::uint32_t kMembers[] = {2, 4, 8, 16, 64, 256, 1024, 4096};
constexpr std::uint64_t kSizes[] = {
    4ull << 10, 64ull << 10, 1ull << 20, 16ull << 20, 128ull << 20, 1ull << 30};

constexpr std::uint64_t kDrawn = 1 << 20;

constexpr const char* kHead = R"(# How it scales

Written by `tests/bench/scale/make`; do not edit. The simulator (`collective/simulate.h`) runs the real schedules of every algorithm on
modelled networks. Links carry 25 Gbit/s each way with 5 us of latency, a message costs a port 1 us whatever its size, and at most 16
messages to one peer are on the way. Sums cost nothing, and switches never drop.

The bound is max(2N(P-1)/(P b), ceil(log2 P) a): no all-reduce moves fewer bytes, and none of which a member sends one message at a time
has fewer rounds. It knows no uplinks and no cost of messages; a slow member must at least send N. The columns of the algorithms are their times over the bound, each with the slice size that suits it best by
the cost model; *automatic* is what the tuning table chooses (`collective/tuning.h`), and *of the best* its time over that of
the best column. *hierarchical* is a ring in each rack of 32 and halving-doubling across racks.

Symmetric members are simulated once (`collective/symmetry.h`), and a tree of more than 256 slices goes on at the pace of the last half of those.
)";

std::string FileOf(Kind kind) {
  std::string name = "scale_" + Name(kind) + ".svg";
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

// The times of the cells of one size by the number of members.
std::string Picture(Kind kind, const std::vector<Cell>& cells) {
  cli::PlotLine automatic = {.name = "automatic", .points = {}, .strong = true};
  cli::PlotLine bound = {.name = "bound", .points = {}};
  std::map<collective::Algorithm, cli::PlotLine> algorithms;
  for (const Cell& cell : cells) {
    automatic.points.emplace_back(cell.members, cell.chosen_seconds);
    bound.points.emplace_back(cell.members, cell.bound_seconds);
    for (const auto& [algorithm, seconds] : cell.seconds) {
      cli::PlotLine& line = algorithms[algorithm];
      line.name = std::string(collective::Name(algorithm));
      line.points.emplace_back(cell.members, seconds);
    }
  }
  cli::Plot plot = {
      .title = "All-reduce of " + daemon::FormatBytes(kDrawn) + " on the network: " + Name(kind),
      .x_label = "members",
      .y_label = "time",
      .x_text = [](double members) { return std::to_string(static_cast<int>(members)); },
      .y_text = cli::TickText,
      .lines = {automatic, bound}};
  for (const auto& [algorithm, line] : algorithms) {
    plot.lines.push_back(line);
  }
  return SvgText(plot);
}

// Returns how much longer the automatic choice takes than the best, at most.
double Report(Kind kind, const std::string& folder, std::ofstream& report) {
  report << "\n## " << Name(kind) << "\n\n"
         << Description(kind) << "\n\n![time by members](" << FileOf(kind) << ")\n\n"
         << TableHead();
  double worst = 0;
  std::vector<Cell> drawn;
  for (const std::uint32_t members : kMembers) {
    for (const std::uint64_t bytes : kSizes) {
      const Cell cell = Measure(kind, members, bytes);
      report << Line(cell) << std::flush;
      worst = std::max(worst, cell.chosen_seconds / cell.BestSeconds());
      if (bytes == kDrawn) {
        drawn.push_back(cell);
      }
    }
  }
  char text[96];
  std::snprintf(text,
                sizeof(text),
                "\nThe automatic choice takes at most %.2f times as long as the best.\n",
                worst);
  report << text;
  std::ofstream(folder + "/" + FileOf(kind)) << Picture(kind, drawn);
  return worst;
}

}  // namespace
}  // namespace maypole::scale

int main(int argc, char** argv) {
  using namespace maypole::scale;
  const std::string folder = argc > 1 ? argv[1] : ".";
  std::ofstream report(folder + "/scale.md");
  report << kHead;
  double worst = 0;
  for (const Kind kind : kKinds) {
    worst = std::max(worst, Report(kind, folder, report));
  }
  if (!report.flush()) {
    std::fprintf(stderr, "cannot write into %s\n", folder.c_str());
    return 1;
  }
  return worst > 1.25 ? 1 : 0;
}
