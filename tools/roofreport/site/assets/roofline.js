// SPDX-License-Identifier: Apache-2.0
"use strict";
// The cases of one night under its roofs.
(async () => {
  const catalog = await data.catalog();
  const ids = new Map(catalog.nights.map((night) => [night.id, night]));
  const [chooser, family] = ["night", "family"].map(dom.find);
  const rate = (value) => units.shown(value, "FLOP/s");

  const cases = ({ roofline }) => roofline.marks.map(([place, x, y, roof, color, shape, doubt]) => ({
    x, y, doubt, color: roofline.colors[color], shape: catalog.shapes[shape][0], name: catalog.cases[place], family: catalog.families[place], rate: rate(y),
    roof: units.shown(roof, "fraction"), share: roof, place }));

  const HEIGHT = 460, FRAME = { left: 112, right: 12, top: 8, bottom: 62 };  // pixels; the axes fit into the borders
  const LETTER = 6.5, LINE = 12, ASIDE = 9, CLEAR = 5, MARK = 5;  // pixels: of a label, beside its line, and of half a mark
  // Between the places that a label may have, and as much worse as the other side of its line is.
  const STEP = 3, OTHER_SIDE = 40;
  const MOST_CROSSED = 0.2;  // of the letters of a label that can be read
  /** Pixels that something is on. */
  const covered = ([width, height]) => {
    const pixels = new Uint8Array(width * height);
    const cover = ([x, y], reach) => {
      for (let row = Math.max(Math.round(y - reach), 0); row <= Math.min(y + reach, height - 1); row++) {
        pixels.fill(1, row * width + Math.max(Math.round(x - reach), 0), row * width + Math.max(Math.min(Math.round(x + reach), width - 1), 0));
      }
    };
    return { cover, has: ([x, y]) => pixels[Math.round(y) * width + Math.round(x)] === 1 };
  };
  /** Of the roofs, beside their lines: where each is inside the chart, clear of those before, and of as many lines and
      marks as possible; as labels.py places them. The list has all. */
  const labels = (plot, { lines, x: across, y: up }, rows, colors) => {
    const size = [Math.max(dom.find("chart").clientWidth - FRAME.left - FRAME.right, 1), HEIGHT - FRAME.top - FRAME.bottom];
    const log = (range, value) => Math.log(value / range[0]) / Math.log(range[1] / range[0]);
    const pixel = (x, y) => [log(across, x) * size[0], log(up, y) * size[1]];
    const drawn = covered(size), taken = covered(size);
    const paths = lines.map(([text, , below, x, y, end, top]) => {
      const from = pixel(x, y), to = pixel(end, top), total = Math.hypot(to[0] - from[0], to[1] - from[1]);
      const [cos, sin] = [0, 1].map((i) => (to[i] - from[i]) / total);
      /** A point so far along it, and so far to its left. */
      const at = (along, side) => [from[0] + along * cos - side * sin, from[1] + along * sin + side * cos];
      for (let along = 0; along < total; along++) drawn.cover(at(along, 0), CLEAR);
      return { text, below, total, at, left: from[0], flat: y === top, angle: Math.atan2(sin, cos) };
    });
    for (const { x, y } of rows) drawn.cover(pixel(x, y), CLEAR + MARK);
    for (const { text, below, total, at, left, flat, angle } of paths.sort((a, b) => b.flat - a.flat)) {  // which have fewer places
      const length = LETTER * text.length;
      // A flat one ends at the end of its line, and may begin before it; along a slope it would cross what ends that.
      const steps = Array.from({ length: Math.max(Math.floor((total - length + (flat ? left : 0)) / STEP), 0) }, (_, i) => (i + 0.5) * STEP);
      const places = steps.flatMap((step) => [-1, 1].map((side) => ({ step, side, rank: step + OTHER_SIDE * (side < 0 !== below) })));
      let least = Infinity, best;
      for (const { step, side } of places.sort((a, b) => a.rank - b.rank)) {
        const start = flat ? total - length - step : step;
        const points = Array.from({ length: text.length + 1 }, (_, i) => at(start + i * LETTER, side * ASIDE));
        const inside = points.every((point) => point.every((value, i) => value > LINE / 2 && value < size[i] - LINE / 2));
        if (!inside || points.some(taken.has)) continue;
        const crossed = points.filter(drawn.has).length;
        if (crossed < least) [least, best] = [crossed, points];
        if (!least) break;
      }
      if (!best || least > MOST_CROSSED * text.length) continue;
      for (const point of best) taken.cover(point, LINE + 1);
      const [x, y] = best[0].map((value, i) => [across, up][i][0] * ([across, up][i][1] / [across, up][i][0]) ** (value / size[i]));
      charts.label(plot, { x, y, text, angle, text_baseline: "middle", text_color: colors.dim, text_font_size: "11px",
        background_fill_color: colors.back });
    }
  };

  const made = ({ roofline }, rows) => (colors) => {
    const [x_range, y_range] = [roofline.x, roofline.y].map(charts.range);
    const plot = charts.figure(colors, { height: HEIGHT, x_axis_type: "log", y_axis_type: "log", tools: "pan,box_zoom",
      x_range, y_range, ...Object.fromEntries(Object.entries(FRAME).map(([side, pixels]) => [`min_border_${side}`, pixels])),
      x_axis_label: "arithmetic intensity (FLOP/byte)", y_axis_label: "arithmetic rate (FLOP/s)" });
    charts.words(plot.xaxes[0], (value) => units.shown(value, ""));
    charts.words(plot.yaxes[0], rate);
    for (const line of roofline.lines) {
      const [, dashed, , ...ends] = line;
      plot.line([ends[0], ends[2]], [ends[1], ends[3]], {
        line_color: colors.ink, line_width: dashed ? 1.2 : 2, line_dash: dashed ? "dashed" : "solid" });
    }
    labels(plot, roofline, rows, colors);
    const marks = plot.scatter({ field: "x" }, { field: "y" }, {
      source: charts.source(rows.map((row) => ({ ...row, said: row.doubt || "no", ...row.doubt ? { rim: colors.ink, alpha: 0.55 }
        : { rim: colors.back, alpha: 1 } })), "x", "y", "name", "rate", "roof", "color", "shape", "said", "rim", "alpha"),
      size: 10, marker: { field: "shape" }, fill_color: { field: "color" }, line_color: { field: "rim" },
      fill_alpha: { field: "alpha" }, line_alpha: { field: "alpha" }, level: "overlay" });
    charts.hover(plot, [marks], [["case", "@name"], ["rate", "@rate"], ["of its roof", "@roof"], ["in doubt", "@said"]]);
    return plot;
  };

  const keys = ({ roofline }) => roofline.keys.map(([label, color, shape, doubtful]) =>
    dom.make("li", {}, dom.sign(catalog.shapes[shape][1], roofline.colors[color], doubtful), ` ${label}`));

  const list = (night, rows) => {
    const cell = (text, value, label) =>
      dom.make("td", { "data-value": value ?? "", "data-label": label, class: label === "in doubt" ? "" : "figure" }, text);
    dom.find("cases").tBodies[0].replaceChildren(...rows.map((row) => {
      const series = catalog.series.find((one) => one.place === row.place && one.environment === night.environment);
      const words = dom.name(row.name);
      const name = series ? [dom.make("a", { href: link.to("case", { series: series.id, night: night.id }) }, ...words)] : words;
      return dom.make("tr", {}, dom.make("td", { "data-value": row.name, class: "name" }, ...name),
        cell(row.rate, row.y, "rate"), cell(units.shown(row.x, ""), row.x, "FLOP/byte"),
        cell(row.roof, row.share, "of its roof"), cell(row.doubt, row.doubt, "in doubt"));
    }));
  };

  const show = async (wanted) => {
    const newest = catalog.nights.at(-1)?.id ?? "";
    const chosen = ids.has(wanted.night) ? wanted.night : newest;
    const title = (night) => `${units.moment(night.started)}, ${night.machine}`;
    dom.options(chooser, [...catalog.nights].reverse().map((night) => [night.id, title(night)]), chosen);
    if (!chosen) { dom.say("There is no run in this history yet."); dom.ready("usable"); return; }
    const night = await data.load(`night/${chosen}`);
    const all = cases(night);
    const families = [...new Set(all.map((row) => row.family))];
    dom.options(family, [["", "all"], ...families.map((name) => [name, name])], families.includes(wanted.family) ? wanted.family : "");
    const rows = all.filter((row) => !family.value || row.family === family.value);
    dom.fill("roofs", ...night.roofline.lines.map(([label, dashed]) => dom.make("li", {}, `${dashed ? "╌" : "─"} ${label}`)));
    dom.fill("keys", ...keys(night));
    list(ids.get(chosen), rows);
    if (wanted.sort) table.sort(dom.find("cases"), wanted.sort);
    const drawn = rows.length > 0 || night.roofline.lines.length > 0;
    dom.find("chart").hidden = !drawn;
    if (drawn) await charts.draw("chart", made(night, rows));
    dom.ready("usable");
  };

  const state = () => ({ night: chooser.value, family: family.value, sort: link.read().sort ?? "" });
  for (const one of [chooser, family]) one.addEventListener("change", () => { link.write(state()); return show(state()); });
  table.sorting(dom.find("cases"), (by) => { table.sort(dom.find("cases"), by); link.write({ ...state(), sort: by }); });
  await link.follow(show);
})().catch((error) => dom.say(`This page cannot be shown: ${error.message}`));
