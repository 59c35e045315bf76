// SPDX-License-Identifier: Apache-2.0
"use strict";
// One night of a case: its run, its samples, its commits, every counter.
const night = (() => {
  const STATES = { m: "measured", s: "skipped", f: "failed", i: "interrupted" };

  const about = (view) => {
    const run = view.runs[view.night], { series } = view;
    const bounds = Object.entries(series.bounds).filter(([, row]) => row[view.night] !== null)
      .map(([name, row]) => [name === "roof" ? "the roof allows" : `${series.reference || "the datasheet"} allows`,
        units.shown(row[view.night], view.unit)]);
    const reason = series.reasons[view.night];
    return dom.facts([
      ["night", units.moment(run.started)],
      [series.label, units.shown(series.values[view.night], view.unit)],
      ...bounds,
      ["state", `${STATES[series.states[view.night]]}${reason ? `: ${reason}` : ""}`],
      ["sampling ended", view.details.stops[view.night] || "-"],
      ["commit", run.revision || "unknown"],
    ]);
  };

  const same = (revision, listed) => {
    const plain = revision.replace(/-dirty$/, "");
    return plain.length >= 7 && (listed.startsWith(plain) || plain.startsWith(listed));
  };

  /** The commits since the previous night, newest first; null if they are unknown. */
  const commits = (view, listed) => {
    const [now, before] = [view.night, view.night - 1].map((place) =>
      place < 0 ? -1 : listed.findIndex(([revision]) => same(view.runs[place].revision, revision)));
    return now < 0 || before < now ? null : listed.slice(now, before);
  };

  const showCommits = (view, listed) => {
    const found = commits(view, listed);
    if (found === null) return dom.make("p", {}, "The commits since the previous night are unknown.");
    if (!found.length) return dom.make("p", {}, "The same commit as the night before.");
    return dom.make("ul", { class: "commits" }, ...found.map(([revision, subject]) =>
      dom.make("li", {}, dom.make("code", {}, revision.slice(0, 12)), ` ${subject}`)));
  };

  const at = (column, place) => Array.isArray(column) ? column[place] : column;

  const counters = (view) => {
    const rows = Object.entries(view.details.counters).map(([name, column]) => {
      const unit = view.catalogue.metric(name).unit;
      const now = at(column, view.night), before = view.night > 0 ? at(column, view.night - 1) : null;
      const change = typeof now === "number" && typeof before === "number" && before ? now / before - 1 : NaN;
      return dom.make("tr", {}, dom.make("th", { scope: "row" }, name), dom.make("td", {}, units.shown(now, unit)),
        dom.make("td", {}, units.shown(before, unit)), dom.make("td", {}, units.change(change)));
    });
    dom.find("counters").tBodies[0].replaceChildren(...rows);
  };

  const histogram = (shape, unit) => (colors) => {
    const [, low, high, counts] = shape;
    const width = (high - low) / counts.length || Math.abs(low) * 0.01 || 1;
    const plot = charts.figure(colors, { height: 190, tools: "" });
    charts.words(plot.xaxes[0], (value) => units.shown(value, unit));
    const left = counts.map((_, i) => low + i * width);
    plot.quad(left, left.map((edge) => edge + width), counts.map(() => 0), counts,
      { fill_color: colors.accent, line_color: colors.back });
    return plot;
  };

  const samples = async (view) => {
    const shape = view.details.samples[view.night];
    dom.fill("samples-said", shape
      ? `${shape[0]} samples, ${units.shown(shape[1], "s")} to ${units.shown(shape[2], "s")}`
      : "This run has no journal, which would contain the samples.");
    dom.find("samples").hidden = !shape;
    if (shape) await charts.draw("samples", histogram(shape, "s"));
  };

  const show = async (view) => {
    dom.fill("night-facts", about(view));
    counters(view);
    dom.fill("commits", showCommits(view, await data.load("commits")));
    await samples(view);
  };
  return { show };
})();
