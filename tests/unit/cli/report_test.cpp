// Parts of a report: thinned series, escaped text, pictures.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "cli/report/page.h"
#include "cli/report/run_data.h"
#include "runtime/base/array.h"

namespace flow::cli::report {
namespace {

TEST_CASE("a short series keeps every point and its gaps", "[cli]") {
  Series series;
  series.add(0, 3);
  series.add(1, std::numeric_limits<double>::quiet_NaN());
  series.add(2, 1);
  series.add(3, 2);
  const auto points = series.points(100);
  REQUIRE(points.size() == 4);
  CHECK(points[0].y == 3);
  CHECK(std::isnan(points[1].y));
  CHECK(points[3].x == 3);
  CHECK(series.gaps() == 1);
  CHECK(series.least()->x == 2);
  CHECK(series.greatest()->y == 3);
  CHECK(series.last()->y == 2);
}

TEST_CASE("a long series keeps its spikes, its order and its end", "[cli]") {
  Series series;
  const int count = 100'003;
  for (int i = 0; i < count; ++i) series.add(i, i == 77'777 ? 1000 : i == 12'345 ? -1000 : i % 10);
  for (const size_t most : {50u, 300u, 1000u}) {
    const auto points = series.points(most);
    CHECK(points.size() <= most + 1);
    CHECK(points.size() > most / 4);
    bool high = false, low = false;
    for (size_t i = 0; i < points.size(); ++i) {
      if (i > 0) CHECK(points[i - 1].x <= points[i].x);
      high |= points[i].x == 77'777 && points[i].y == 1000;
      low |= points[i].x == 12'345 && points[i].y == -1000;
    }
    CHECK((high && low));
    CHECK(points.back().x == count - 1);
  }
  CHECK(series.count() == static_cast<uint64_t>(count));
}

TEST_CASE("text of a user is escaped and cut between characters", "[cli]") {
  CHECK(Html::text("<script>\"&\"</script>").str() ==
        "&lt;script&gt;&quot;&amp;&quot;&lt;/script&gt;");
  CHECK(Html::text("\x1b[2J").str() == "\\x1b[2J");
  CHECK(clipped("äöü", 3) == "ä…");
  CHECK(clipped("abc", 3) == "abc");
  CHECK(Html::text(std::string(1 << 20, '<'), 10).str().size() == 10 * 4 + 3);
}

TEST_CASE("a fragment's names are replaced once", "[cli]") {
  const Html made = fragment("link", {{"id", Html::text("a")}, {"title", Html::text("{{id}}")}});
  CHECK(made.str() == "<li><a href=\"#a\">{{id}}</a></li>\n");
}

TEST_CASE("a histogram counts finite elements", "[cli]") {
  Array array(DType::kFloat32, Shape{5});
  const float values[] = {0, 1, 1, std::numeric_limits<float>::infinity(), 0.5f};
  std::copy(std::begin(values), std::end(values), array.as<float>().begin());
  const Histogram found = histogram_of(array.view(), 3);
  CHECK(found.step == 3);
  CHECK((found.from == 0 && found.to == 1));
  CHECK(found.counts.front() == 1);
  CHECK(found.counts.back() == 2);
  double sum = 0;
  for (const double count : found.counts) sum += count;
  CHECK(sum == 4);
}

TEST_CASE("arrays look like pictures by their shape", "[cli]") {
  const auto size_of = [](Shape shape) {
    const Array array(DType::kFloat32, std::move(shape));
    Sample sample;
    draw_pictures(array.view(), sample);
    return std::pair(sample.picture_width, sample.picture_height);
  };
  CHECK(size_of({28, 28}) == std::pair<size_t, size_t>(28, 28));
  CHECK(size_of({64, 1, 28, 28}) == std::pair<size_t, size_t>(8 * 30 - 2, 2 * 30 - 2));
  CHECK(size_of({2, 8, 6, 3}) == std::pair<size_t, size_t>(2 * 8 - 2, 8));
  CHECK(size_of({3, 300, 200}) == std::pair<size_t, size_t>(67, 100));
  CHECK(size_of({64, 10}).first == 0);
  CHECK(size_of({100}).first == 0);
  CHECK(size_of({0, 1, 28, 28}).first == 0);
  CHECK(size_of({}).first == 0);
}

TEST_CASE("a picture is a PNG in a data URI", "[cli]") {
  const std::vector<uint8_t> pixels = {0, 128, 255, 0};
  const std::string uri = png_uri(pixels, 2, 2, 1);
  CHECK(uri.starts_with("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAAAAAB"));
  CHECK(uri.substr(uri.find(',') + 1).size() % 4 == 0);
}

}  // namespace
}  // namespace flow::cli::report
