// SPDX-License-Identifier: Apache-2.0
"use strict";
// Figures in readable form, as units.py spells them.
const units = (() => {
  const PREFIXES = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const TIMES = [[1, "s", 1], [1e-3, "ms", 1e3], [1e-6, "µs", 1e6], [0, "ns", 1e9]];
  const PER_SECOND = { s: 1, ms: 1e3, us: 1e6, ns: 1e9 };
  const UNKNOWN = "-";

  const digits = (value) => {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1 && size < 1e6) {
      const rounded = Number(value.toPrecision(3));
      return Math.abs(rounded) >= 1000 ? value.toFixed(0) : String(rounded);
    }
    if (size < 1 && size >= 9.995e-5) return String(Number(value.toPrecision(3)));
    return Number(value.toPrecision(3)).toExponential().replace(/e([+-])(\d)$/, "e$10$2");
  };
  const quantity = (value, unit) => {
    const [factor, prefix] = PREFIXES.find(([least]) => Math.abs(value) >= least) ?? [1, ""];
    return `${digits(value / factor)} ${prefix}${unit}`;
  };
  const time = (seconds) => {
    const [, unit, factor] = TIMES.find(([least]) => Math.abs(seconds) >= least);
    return `${digits(seconds * factor)} ${unit}`;
  };

  const shown = (value, unit) => {
    if (value === null || value === undefined || !Number.isFinite(value)) return UNKNOWN;
    if (unit in PER_SECOND) return time(value / PER_SECOND[unit]);
    if (unit === "fraction") return `${digits(100 * value)} %`;
    const name = ["", "count", "number", "0 or 1"].includes(unit) ? "" : unit;
    const scaled = ["B", "B/s", "FLOP/s"].includes(unit) || Math.abs(value) >= 1e6;
    return (scaled ? quantity(value, name) : `${digits(value)} ${name}`).trimEnd();
  };
  const change = (ratio) => {
    if (!Number.isFinite(ratio)) return UNKNOWN;
    if (ratio >= 9) return `${digits(1 + ratio)} times`;
    return `${ratio >= 0 ? "+" : ""}${(100 * ratio).toFixed(1)} %`;
  };
  /** 1 night, 2 nights. */
  const counted = (number, noun, plural = "s") => `${number} ${noun}${number === 1 ? "" : plural}`;
  const day = (milliseconds) => new Date(milliseconds).toISOString().slice(0, 10);
  const moment = (milliseconds) => `${new Date(milliseconds).toISOString().slice(0, 16).replace("T", " ")} UTC`;
  /** The median of the finite values; null without any. */
  const median = (values) => {
    const sorted = values.filter(Number.isFinite).sort((x, y) => x - y), middle = sorted.length >> 1;
    if (!sorted.length) return null;
    return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  };
  return { shown, change, counted, day, moment, median };
})();
