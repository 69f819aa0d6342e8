// Lines over two logarithmic axes as an SVG picture, without a library. Pure.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace maypole::cli {

struct PlotLine {
  std::string name;
  std::vector<std::pair<double, double>> points;  // both above 0; x ascending
  bool strong = false;                            // drawn thicker
};

struct Plot {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::function<std::string(double)> x_text;  // of a tick
  std::function<std::string(double)> y_text;
  std::vector<double> x_factors = {2};  // from tick to tick, in turn
  std::vector<PlotLine> lines;          // at most 8 with colours of their own
};

// "20 us", "1.5 ms", "3 s": for ticks.
std::string TickText(double seconds);

// 820 x 460 pixels. Points that are not above 0 are left out.
std::string SvgText(const Plot& plot);

}  // namespace maypole::cli
