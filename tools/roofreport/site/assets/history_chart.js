// SPDX-License-Identifier: Apache-2.0
"use strict";
// The history of a series: its nights, the levels they had with the noise around them, and what was said of them.
const historyChart = (() => {
  const HALF_A_DAY = 432e5;
  const STROKES = { roof: "solid", sheet: "dashed" };

  const drawLevels = (plot, view, colors) => {
    const rows = view.series.levels.map(([first, last, middle, low, high]) => ({
      left: view.nights[first].started - HALF_A_DAY, right: view.nights[last].started + HALF_A_DAY, middle, low, high }));
    const source = charts.source(rows, "left", "right", "middle", "low", "high");
    const [left, right, middle] = [{ field: "left" }, { field: "right" }, { field: "middle" }];
    plot.quad(left, right, { field: "low" }, { field: "high" },
      { source, fill_color: colors.band, line_color: null });
    plot.segment(left, middle, right, middle, { source, line_color: colors.ink, line_width: 2 });
    for (const row of rows.slice(1)) charts.upright(plot, row.left, { line_color: colors.ink, line_dash: "dashed" });
  };

  const drawReadings = (plot, view, colors) => {
    const rows = view.series.values.flatMap((y, place) => y === null ? [] : [{
      place, y, x: view.nights[place].started, day: units.day(view.nights[place].started),
      figure: units.shown(y, view.unit), commit: view.nights[place].revision.slice(0, 12) || "unknown",
      fill: view.series.doubts[place] ? colors.back : colors.accent }]);
    const source = charts.source(rows, "x", "y", "day", "figure", "commit", "fill");
    const dots = plot.scatter({ field: "x" }, { field: "y" }, {
      source, size: 6, line_color: colors.accent, fill_color: { field: "fill" }, nonselection_alpha: 1 });
    charts.hover(plot, [dots], [["night", "@day"], [view.series.label, "@figure"], ["commit", "@commit"]]);
    source.selected.properties.indices.change.connect(() => {
      const [first] = source.selected.indices;
      if (first !== undefined) view.choose(rows[first].place);
    });
    return rows.map((row) => row.y);
  };

  /** Every process, at its own time. */
  const drawProcesses = (plot, view, colors) => {
    const dots = view.places.flatMap((processes, place) => processes
      .filter((process) => view.series.processes[process] !== null)
      .map((process) => [view.nights[place].started + 1e3 * view.details.seconds[process], view.series.processes[process]]));
    plot.scatter(dots.map(([x]) => x), dots.map(([, y]) => y), { size: 4, line_color: colors.dim, fill_color: colors.dim });
  };

  const drawMissing = (plot, view, colors, lowest) => {
    const places = [...view.series.states].flatMap((state, place) => state === "m" ? [] : [place]);
    plot.scatter(places.map((place) => view.nights[place].started), places.map(() => lowest),
      { marker: "x", size: 9, line_color: colors.worse, line_width: 2 });
  };

  const drawBounds = (plot, view, colors) => {
    for (const [name, row] of Object.entries(view.series.bounds)) {
      const places = row.flatMap((value, place) => value === null ? [] : [place]);
      plot.line(places.map((place) => view.nights[place].started), places.map((place) => row[place]),
        { line_color: colors.better, line_width: 2, line_dash: STROKES[name] });
    }
  };

  const shortDay = (moment) => {
    const [day, time] = new Date(moment).toISOString().split("T");
    return `${day.slice(5)}${time.startsWith("00:00") ? "" : ` ${time.slice(0, 5)}`}`;
  };

  /** `view`: the series' data, its nights, unit and chosen night, what else shows, and choose(place). */
  const made = (view) => (colors) => {
    const plot = charts.figure(colors, {
      height: 340, x_axis_type: "datetime", y_axis_type: view.roofs ? "log" : "linear", tools: "xpan,xbox_zoom,tap" });
    charts.words(plot.yaxes[0], (value) => units.shown(value, view.unit));
    charts.words(plot.xaxes[0], shortDay);
    const years = [...new Set([0, view.nights.length - 1].map((place) => new Date(view.nights[place].started).getUTCFullYear()))];
    plot.xaxes[0].axis_label = `night (month-day of ${years.join(" to ")}, UTC)`;
    plot.yaxes[0].axis_label = view.series.label;
    drawLevels(plot, view, colors);
    if (view.roofs) drawBounds(plot, view, colors);
    if (view.each) drawProcesses(plot, view, colors);
    const readings = drawReadings(plot, view, colors);
    drawMissing(plot, view, colors, Math.min(...readings));
    // Of a single night, or of equal figures.
    plot.x_range.default_span = 8 * HALF_A_DAY;
    plot.y_range.default_span = view.roofs ? 1 : 0.2 * Math.max(...readings);
    for (const [since] of view.series.annotations) {
      charts.upright(plot, since, { line_color: colors.better, line_dash: "dotted", line_width: 2 });
    }
    for (const one of view.series.findings.filter(({ group }) => group === "worse")) {
      // At the dot of its night, which is at the first process.
      const at = view.catalog.nights[one.night]?.started ?? one.since;
      charts.upright(plot, at, { line_color: colors.worse, line_width: 2 });
    }
    // Under all else: the page opens on the newest night, which may be the one of an alarm.
    charts.upright(plot, view.nights[view.night].started,
      { level: "underlay", line_color: colors.accent, line_alpha: 0.35, line_width: 11 });
    return plot;
  };
  return { made };
})();
