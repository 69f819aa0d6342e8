#include "cli/svg_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_replace.h>

namespace maypole::cli {
namespace {

constexpr int kWidth = 820;
constexpr int kHeight = 460;
constexpr int kLeft = 84;
constexpr int kRight = 640;  // the names of the lines stand right of it
constexpr int kTop = 44;
constexpr int kBottom = 404;
constexpr std::size_t kTicksMost = 10;

const std::vector<double> kDecade = {2, 2.5, 2};

// Told apart by people who see few colours too (Okabe and Ito's palette, and grey).
constexpr std::array kColours = {"#0072b2",
                                 "#d55e00",
                                 "#009e73",
                                 "#cc79a7",
                                 "#e69f00",
                                 "#56b4e9",
                                 "#777777",
                                 "#000000",
                                 "#999933"};

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

// Values around [least, most] of which each is a factor of `factors` times the one before, in turn.
std::vector<double> Scale(double least, double most, const std::vector<double>& factors) {
  double period = 1;
  for (const double factor : factors) {
    period *= factor;
  }
  double value = std::pow(period, std::floor(std::log(least) / std::log(period) + 1e-9));
  std::vector<double> ticks = {value};
  for (std::size_t i = 0; ticks.back() < most * (1 - 1e-9) || ticks.size() < 2; ++i) {
    value *= factors[i % factors.size()];
    ticks.push_back(value);
    if (ticks[1] <= least * (1 + 1e-9)) {
      ticks.erase(ticks.begin());
    }
  }
  return ticks;
}

// A logarithmic axis over a scale.
class Axis {
 public:
  Axis(std::vector<double> scale, int from, int to)
      : scale_(std::move(scale)), from_(from), to_(to) {}

  double At(double value) const {
    const double place =
        std::log(value / scale_.front()) / std::log(scale_.back() / scale_.front());
    return from_ + place * (to_ - from_);
  }

  // Every one of the scale, or every second, ..., if there are many.
  std::vector<double> Ticks() const {
    const std::size_t step = (scale_.size() + kTicksMost - 1) / kTicksMost;
    std::vector<double> ticks;
    for (std::size_t tick = 0; tick < scale_.size(); tick += step) {
      ticks.push_back(scale_[tick]);
    }
    return ticks;
  }

 private:
  std::vector<double> scale_;
  int from_;
  int to_;
};

std::string TextAt(double x, double y, const char* anchor, const std::string& text) {
  return absl::StrFormat(
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, Escaped(text));
}

std::string LineFrom(double x1, double y1, double x2, double y2) {
  return absl::StrFormat(
      "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#dddddd\"/>\n",
      x1,
      y1,
      x2,
      y2);
}

std::string Grid(const Plot& plot, const Axis& x, const Axis& y) {
  std::string svg;
  for (const double tick : x.Ticks()) {
    absl::StrAppend(&svg,
                    LineFrom(x.At(tick), kTop, x.At(tick), kBottom),
                    TextAt(x.At(tick), kBottom + 18, "middle", plot.x_text(tick)));
  }
  for (const double tick : y.Ticks()) {
    absl::StrAppend(&svg,
                    LineFrom(kLeft, y.At(tick), kRight, y.At(tick)),
                    TextAt(kLeft - 8, y.At(tick) + 4, "end", plot.y_text(tick)));
  }
  return svg;
}

std::string Line(const PlotLine& line, const char* colour, const Axis& x, const Axis& y) {
  std::string points;
  std::string dots;
  for (const auto& [value, height] : line.points) {
    absl::StrAppendFormat(&points, "%.1f,%.1f ", x.At(value), y.At(height));
    absl::StrAppendFormat(&dots,
                          "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" fill=\"%s\"/>\n",
                          x.At(value),
                          y.At(height),
                          line.strong ? "3.5" : "2.5",
                          colour);
  }
  return absl::StrFormat(
             "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"/>\n",
             points,
             colour,
             line.strong ? "3" : "1.5") +
         dots;
}

// Only what a logarithm can show.
std::vector<PlotLine> Drawable(const std::vector<PlotLine>& lines) {
  std::vector<PlotLine> drawable;
  for (PlotLine line : lines) {
    std::erase_if(line.points, [](const auto& point) {
      return !(point.first > 0 && point.second > 0) || std::isinf(point.second);
    });
    if (!line.points.empty()) {
      drawable.push_back(std::move(line));
    }
  }
  return drawable;
}

}  // namespace

std::string TickText(double seconds) {
  if (seconds < 0.99e-3) {
    return absl::StrFormat("%.3g us", seconds * 1e6);
  }
  return seconds < 0.99 ? absl::StrFormat("%.3g ms", seconds * 1e3)
                        : absl::StrFormat("%.3g s", seconds);
}

std::string SvgText(const Plot& plot) {
  const std::vector<PlotLine> lines = Drawable(plot.lines);
  double x_least = std::numeric_limits<double>::max();
  double y_least = x_least;
  double x_most = 0;
  double y_most = 0;
  for (const PlotLine& line : lines) {
    for (const auto& [x, y] : line.points) {
      x_least = std::min(x_least, x);
      x_most = std::max(x_most, x);
      y_least = std::min(y_least, y);
      y_most = std::max(y_most, y);
    }
  }
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      kWidth,
      kHeight);
  absl::StrAppend(&svg, TextAt(kLeft, 24, "start", plot.title));
  if (!lines.empty()) {
    const Axis x(Scale(x_least, x_most, plot.x_factors), kLeft, kRight);
    const Axis y(Scale(y_least, y_most, kDecade), kBottom, kTop);
    absl::StrAppend(&svg, Grid(plot, x, y));
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const char* colour = kColours.at(i % kColours.size());
      const double height = kTop + 8 + 20.0 * static_cast<double>(i);
      absl::StrAppend(&svg,
                      Line(lines[i], colour, x, y),
                      absl::StrFormat("<rect x=\"%d\" y=\"%.1f\" width=\"14\" height=\"4\" "
                                      "fill=\"%s\"/>\n",
                                      kRight + 16,
                                      height - 6,
                                      colour),
                      TextAt(kRight + 36, height, "start", lines[i].name));
    }
  }
  absl::StrAppend(&svg,
                  TextAt((kLeft + kRight) / 2.0, kHeight - 14, "middle", plot.x_label),
                  absl::StrFormat("<text transform=\"translate(20 %d) rotate(-90)\" "
                                  "text-anchor=\"middle\">%s</text>\n",
                                  (kTop + kBottom) / 2,
                                  Escaped(plot.y_label)),
                  "</svg>\n");
  return svg;
}

}  // namespace maypole::cli
