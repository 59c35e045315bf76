// SPDX-License-Identifier: Apache-2.0
"use strict";
// One night of a case: the median of its processes or one of them, its samples, its commits, every counter.
const night = (() => {
  const STATES = { m: "measured", s: "skipped", f: "failed", i: "interrupted" };

  /** The places of those processes of a night whose median its figure is, in lists of processes. */
  const counting = ({ series, places }, night) => {
    const all = places[night] ?? [], found = all.filter((place) => series.counts[place] === "1");
    return found.length ? found : all;
  };
  const medianOf = (view) => {
    const count = counting(view, view.night).length, all = view.places[view.night].length;
    return count === all ? String(count) : `${count} of ${all}`;
  };
  const chosen = (view) => view.process ? [view.places[view.night][Number(view.process) - 1]] : counting(view, view.night);

  const about = (view) => {
    const { series, details } = view, places = view.process ? chosen(view) : view.places[view.night];
    const one = view.nights[view.night], first = places[0], alone = places.length === 1;
    const value = alone ? series.processes[first] : series.values[view.night];
    const state = alone ? details.states[first] : series.states[view.night];
    const bounds = Object.entries(series.bounds).filter(([, row]) => row[view.night] !== null)
      .map(([name, row]) => [name === "roof" ? "the roof allows" : `${series.reference || "the datasheet"} allows`,
        units.shown(row[view.night], view.unit)]);
    const reason = series.reasons[view.night];
    const stops = [...new Set(places.map((place) => details.stops[place]).filter(Boolean))];
    const doubts = places.map((place) => details.doubts[place]).filter(Boolean);
    return dom.facts([
      ["night", units.moment(one.started)],
      ...(view.process ? [["process", `${view.process}, ${units.moment(one.started + 1e3 * details.seconds[first])}`]] : []),
      [alone ? series.label : `${series.label}, median of ${medianOf(view)} processes`, units.shown(value, view.unit)],
      ...bounds,
      ["state", `${STATES[state]}${reason && state === series.states[view.night] ? `: ${reason}` : ""}`],
      ...(doubts.length ? [["not judged", `${alone ? "" : `${doubts.length} of ${units.counted(places.length, "process", "es")}: `}${[...new Set(doubts)].join("; ")}`]] : []),
      ["sampling ended", stops.join(", ") || "-"],
      ["commit", one.revision || "unknown"],
    ]);
  };

  const same = (revision, other) => {
    const [plain, listed] = [revision, other].map((one) => one.replace(/-dirty$/, ""));
    return plain.length >= 7 && (listed.startsWith(plain) || plain.startsWith(listed));
  };

  /** The commits since the previous night, newest first; null if they are unknown. */
  const commits = (view, listed) => {
    if (view.night > 0 && same(...[0, 1].map((back) => view.nights[view.night - back].revision))) return [];
    const [now, before] = [view.night, view.night - 1].map((place) =>
      place < 0 ? -1 : listed.findIndex(([revision]) => same(view.nights[place].revision, revision)));
    return now < 0 || before < now ? null : listed.slice(now, before);
  };

  const showCommits = (view, listed) => {
    const found = commits(view, listed);
    if (found === null) return dom.make("p", {}, "The commits since the previous night are unknown.");
    if (!found.length) return dom.make("p", {}, "The same commit as the night before.");
    return dom.make("ul", { class: "commits" }, ...found.map(([revision, subject]) =>
      dom.make("li", {}, dom.make("code", {}, revision.slice(0, 12)), ` ${subject}`)));
  };

  /** A counter's median over some processes; a column is one figure where all have the same. */
  const over = (column, places) => units.median(places.map((place) => Array.isArray(column) ? column[place] : column));

  const counters = (view) => {
    const here = chosen(view), previous = counting(view, view.night - 1);
    const rows = Object.entries(view.details.counters).map(([name, column]) => {
      const unit = view.catalog.metric(name).unit;
      const now = over(column, here), before = over(column, previous);
      const change = typeof now === "number" && typeof before === "number" && before ? now / before - 1 : NaN;
      return dom.make("tr", {}, dom.make("th", { scope: "row" }, ...dom.name(name)), dom.make("td", {}, units.shown(now, unit)),
        dom.make("td", {}, units.shown(before, unit)), dom.make("td", {}, units.change(change)));
    });
    dom.find("counters").tBodies[0].replaceChildren(...rows);
  };

  /** One over another, of several processes. */
  const histograms = (shapes, unit) => (colors) => {
    const plot = charts.figure(colors, { height: 190, tools: "", x_axis_label: "time of a step", y_axis_label: "samples" });
    charts.words(plot.xaxes[0], (value) => units.shown(value, unit));
    for (const [, low, , counts, , high] of shapes) {
      const width = (high - low) / counts.length || Math.abs(low) * 0.01 || 1;
      const left = counts.map((_, i) => low + i * width);
      plot.quad(left, left.map((edge) => edge + width), counts.map(() => 0), counts,
        { fill_color: colors.accent, line_color: colors.back, fill_alpha: shapes.length > 1 ? 0.5 : 1 });
    }
    return plot;
  };

  const samples = async (view) => {
    const places = chosen(view), shapes = places.map((place) => view.details.samples[place]).filter(Boolean);
    const low = Math.min(...shapes.map((shape) => shape[1])), high = Math.max(...shapes.map((shape) => shape[2]));
    const sum = (column) => shapes.reduce((found, shape) => found + shape[column], 0);
    const count = sum(0), beyond = sum(4);
    dom.fill("samples-said", shapes.length
      ? `${units.counted(count, "sample")}${shapes.length > 1 ? ` of ${shapes.length} processes` : ""}, ${units.shown(low, "s")} to ${units.shown(high, "s")}${
        beyond ? `; the slowest ${beyond} (beyond 99 %) are not drawn` : ""}`
      : "The night has no journal, so its samples are missing.");
    dom.find("samples").hidden = !shapes.length;
    if (shapes.length) await charts.draw("samples", histograms(shapes, "s"));
  };

  const show = async (view) => {
    dom.fill("night-facts", about(view));
    counters(view);
    dom.fill("commits", showCommits(view, await data.load("commits")));
    await samples(view);
  };
  return { show, medianOf };
})();
