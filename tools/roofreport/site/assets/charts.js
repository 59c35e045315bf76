// SPDX-License-Identifier: Apache-2.0
"use strict";
// All that the pages use of Bokeh: figures in the colors of the page. A figure is redrawn when the page turns dark or light.
const charts = (() => {
  Bokeh.logger.set_level("warn");
  const drawn = new Map();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const COLORS = ["ink", "dim", "faint", "back", "accent", "worse", "better", "band"];

  const palette = () => {
    const style = getComputedStyle(document.body);
    return Object.fromEntries(COLORS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  };

  /** Ticks of an axis in words: `shown` takes a value. */
  class Words extends Bokeh.TickFormatter {
    doFormat(ticks) { return ticks.map(this.shown); }
  }
  const words = (axis, shown) => {
    const formatter = new Words();
    formatter.shown = shown;
    axis.formatter = formatter;
  };

  const figure = (colors, options) => {
    const plot = Bokeh.Plotting.figure({
      sizing_mode: "stretch_width", toolbar_location: null, background_fill_color: colors.back,
      border_fill_color: colors.back, outline_line_color: colors.faint, min_border: 8, ...options });
    for (const axis of [...plot.xaxes, ...plot.yaxes]) {
      axis.setv({
        axis_label_text_color: colors.dim, major_label_text_color: colors.dim, axis_line_color: colors.faint,
        major_tick_line_color: colors.faint, minor_tick_line_color: null, axis_label_text_font_style: "normal" });
    }
    for (const grid of [...plot.xgrids, ...plot.ygrids]) grid.grid_line_color = colors.faint;
    return plot;
  };

  /** Rows of objects as columns of their fields. */
  const source = (rows, ...names) => new Bokeh.ColumnDataSource({
    data: Object.fromEntries(names.map((name) => [name, rows.map((row) => row[name])])) });

  const hover = (plot, renderers, rows) =>
    plot.add_tools(new Bokeh.HoverTool({ renderers, tooltips: rows, point_policy: "snap_to_data" }));

  const range = ([start, end]) => new Bokeh.Range1d({ start, end });

  const label = (plot, options) => plot.add_layout(new Bokeh.Label(options));

  /** A line across the whole height. */
  const upright = (plot, location, style) =>
    plot.add_layout(new Bokeh.Span({ dimension: "height", location, level: "overlay", ...style }));

  /** `made(colors)` gives the figure that `id` shows from now on. */
  const draw = async (id, made) => {
    const turn = { made };
    const scheme = dark.matches ? "dark" : "light";
    drawn.get(id)?.view?.remove();
    drawn.set(id, turn);
    dom.find(id).replaceChildren();
    turn.view = await Bokeh.Plotting.show(made(palette()), dom.find(id));
    if (drawn.get(id) !== turn) return turn.view.remove();
    await turn.view.ready;
    dom.find(id).dataset.scheme = scheme;
  };
  dark.addEventListener("change", () => { for (const [id, { made }] of [...drawn]) draw(id, made); });

  return { figure, source, words, hover, range, label, upright, draw };
})();
