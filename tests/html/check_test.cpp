// The check itself: it must see what is wrong before it may say that nothing is.
#include <catch2/catch.hpp>

#include "scenarios/html/bars.h"
#include "scenarios/html/page.h"
#include "tests/html/check.h"
#include "tests/html/tree.h"

namespace stepcast::html_tests {
namespace {

using scenarios::html::Chart;
using scenarios::html::Page;
using scenarios::html::Unit;

std::string small_page() {
  Page page("Title", "Subtitle", {{"time", 1.5}, {"list", {1, 2}}});
  page.tiles({{"time", page.number("/time", Unit::seconds), ""}});
  page.section("Section");
  Chart chart;
  chart.id = "bars";
  chart.title = "Bars";
  chart.description = "Two bars.";
  chart.columns = {{"what"}, {"time", Unit::seconds}};
  chart.rows.push_back({"a", 1.0});
  chart.rows.push_back({"b", 2.0});
  scenarios::html::Bars bars;
  bars.axis = "time";
  bars.lines = {{"a", {{0, 1, "k-kernels", "a"}}, "1 s", false}, {"b", {{0, 2, "k-kernels", "b"}}, "2 s", true}};
  chart.drawing = draw(bars);
  page.chart(std::move(chart));
  return page.text();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("A page without faults has none") {
  const auto faults = faults_of(small_page());
  CAPTURE(faults);
  CHECK(faults.empty());
  CHECK(numbers_in(small_page()) == 3);
}

TEST_CASE("Every fault of a page is seen") {
  const std::string good = small_page();
  const auto broken = [&](const std::string& from, const std::string& to) {
    CAPTURE(from, to);
    CHECK_FALSE(faults_of(replaced(good, from, to)).empty());
  };
  broken("</main>", "");
  broken("</figure>", "</figure></div>");
  broken("class=\"tiles\"", "class=tiles");
  broken("<td>a", "<td>a & b");
  broken("href=\"#s-Section\"", "href=\"https://example.org/\"");
  broken("href=\"#s-Section\"", "href=\"#nowhere\"");
  broken("href=\"data:,\"", "href=\"icon.png\"");
  broken("* { box-sizing", "@import \"other.css\"; * { box-sizing");
  broken("* { box-sizing", "* { background: url(a.png); box-sizing");
  broken("value=\"1.5\"", "value=\"1.50001\"");
  broken("data-at=\"/result/time\"", "data-at=\"/result/tim\"");
  broken("class=\"k-kernels\"", "class=\"k-kernels\" onclick=\"alert(1)\"");
  broken("<rect x=\"", "<rect x=\"9");
  broken("data-csv=\"bars\"", "data-other=\"bars\"");
  broken("id=\"bars-desc\"", "id=\"bars-descr\"");
  broken("<desc id=\"bars-desc\">Two bars.", "<desc id=\"bars-desc\">");
  broken("id=\"f-bars\"", "id=\"bars-title\"");
  broken("<figure", "<script>alert(1)</script><figure");
  CHECK_FALSE(faults_of(good + std::string(1000000, ' ')).empty());
}

}  // namespace
}  // namespace stepcast::html_tests
