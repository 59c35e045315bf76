// SPDX-License-Identifier: Apache-2.0
"use strict";
// The cases of one night under its roofs.
(async () => {
  const catalog = await data.catalog();
  const ids = new Map(catalog.nights.map((night) => [night.id, night]));
  const [chooser, family] = ["night", "family"].map(dom.find);
  const rate = (value) => units.shown(value, "FLOP/s");

  const cases = ({ roofline }) => roofline.marks.map(([place, x, y, roof, color, shape]) => ({
    x, y, color: roofline.colors[color], shape: catalog.shapes[shape], name: catalog.cases[place], family: catalog.families[place], rate: rate(y),
    roof: units.shown(roof, "fraction"), share: roof, place }));

  const HEIGHT = 460, AXES = 70;  // pixels; the axes take about as many of the width and of the height
  /** On its line: along a slope, from where it enters the chart, or at the right end of a flat one. */
  const label = (plot, [text, , below, x, y, end, top], { x: across, y: up }, colors) => {
    const decades = ([low, high]) => Math.log10(high / low);
    const width = Math.max(dom.find("chart").clientWidth - AXES, 1), flat = y === top;
    const angle = flat ? 0 : Math.atan(((HEIGHT - AXES) / decades(up)) / (width / decades(across)));
    const entry = flat ? 1 : Math.max(1.25, up[0] / y);
    const [along, beside] = [flat ? -6 : 12, below ? -3 : 3];
    charts.label(plot, {
      x: flat ? end : x * entry, y: y * entry, text, angle, text_align: flat ? "right" : "left",
      text_baseline: below ? "top" : "bottom", text_color: colors.dim, text_font_size: "11px",
      x_offset: along * Math.cos(angle) - beside * Math.sin(angle), y_offset: along * Math.sin(angle) + beside * Math.cos(angle) });
  };

  const made = ({ roofline }, rows) => (colors) => {
    const [x_range, y_range] = [roofline.x, roofline.y].map(charts.range);
    const plot = charts.figure(colors, { height: HEIGHT, x_axis_type: "log", y_axis_type: "log", tools: "pan,box_zoom",
      x_range, y_range,
      x_axis_label: "arithmetic intensity (FLOP/byte)", y_axis_label: "arithmetic rate (FLOP/s)" });
    charts.words(plot.xaxes[0], (value) => units.shown(value, ""));
    charts.words(plot.yaxes[0], rate);
    for (const line of roofline.lines) {
      const [, dashed, , ...ends] = line;
      plot.line([ends[0], ends[2]], [ends[1], ends[3]], {
        line_color: colors.ink, line_width: dashed ? 1.2 : 2, line_dash: dashed ? "dashed" : "solid" });
      label(plot, line, roofline, colors);
    }
    const marks = plot.scatter({ field: "x" }, { field: "y" }, {
      source: charts.source(rows, "x", "y", "name", "rate", "roof", "color", "shape"), size: 10,
      marker: { field: "shape" }, fill_color: { field: "color" }, line_color: colors.back });
    charts.hover(plot, [marks], [["case", "@name"], ["rate", "@rate"], ["of its roof", "@roof"]]);
    return plot;
  };

  const SIGNS = { circle: "●", square: "■", diamond: "◆", triangle: "▲" };
  const keys = ({ roofline }) => roofline.keys.map(([label, color, shape]) => {
    const sign = dom.make("span", { "aria-hidden": "true" }, SIGNS[catalog.shapes[shape]]);
    sign.style.color = roofline.colors[color];
    return dom.make("li", {}, sign, ` ${label}`);
  });

  const list = (night, rows) => {
    const cell = (text, value, label) => dom.make("td", { "data-value": value ?? "", "data-label": label }, text);
    dom.find("cases").tBodies[0].replaceChildren(...rows.map((row) => {
      const series = catalog.series.find((one) => one.place === row.place && one.environment === night.environment);
      const name = series ? dom.make("a", { href: link.to("case", { series: series.id, night: night.id }) }, row.name) : row.name;
      return dom.make("tr", {}, dom.make("td", { "data-value": row.name, class: "name" }, name),
        cell(row.rate, row.y, "rate"), cell(units.shown(row.x, ""), row.x, "FLOP/byte"),
        cell(row.roof, row.share, "of its roof"));
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
