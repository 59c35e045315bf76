// SPDX-License-Identifier: Apache-2.0
"use strict";
// Tables that sort by their headers and that arrow keys walk through.
const table = (() => {
  const key = (row, column) => row.cells[column]?.dataset.value ?? "";
  const number = (text) => text !== "" && Number.isFinite(Number(text)) ? Number(text) : null;

  const compare = (x, y) => {
    const a = number(x), b = number(y);
    return a !== null && b !== null ? a - b : x.localeCompare(y, "en", { numeric: true });
  };

  /** By a column, given by the name that its header carries in data-key; a name with a minus in front: descending. */
  const sort = (element, by) => {
    const name = by.replace(/^-/, "");
    const headers = [...element.tHead.rows[0].cells];
    const column = headers.findIndex((header) => header.dataset.key === name);
    if (column < 0) return;
    const sign = by.startsWith("-") ? -1 : 1;
    for (const header of headers) header.removeAttribute("aria-sort");
    headers[column].setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
    const body = element.tBodies[0];
    const rows = [...body.rows].map((row, place) => ({ row, place, key: key(row, column) }));
    // Rows without a figure stay at the end.
    rows.sort((a, b) => (a.key === "") - (b.key === "") || sign * compare(a.key, b.key) || a.place - b.place);
    body.append(...rows.map(({ row }) => row));
  };

  /** A header of a column that sorts: `pressed` is called with what to sort by. */
  const sorting = (element, pressed) => {
    element.tHead.addEventListener("click", (event) => {
      const header = event.target.closest("button")?.closest("th");
      if (!header?.dataset.key) return;
      const first = header.dataset.first === "descending" ? "-" : "";
      const other = first ? "" : "-";
      const again = header.getAttribute("aria-sort") === (first ? "descending" : "ascending");
      pressed((again ? other : first) + header.dataset.key);
    });
  };

  /** Arrow keys go from link to link of the rows that show, and from the first back into `box`. */
  const walking = (element, box) => {
    const links = () => [...element.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.querySelector("a"));
    const step = (event) => {
      const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
      const all = links();
      const place = all.indexOf(document.activeElement) + by;
      const next = place < 0 ? box : all[place];
      if (!next || (by < 0 && document.activeElement === box)) return;
      event.preventDefault();
      next.focus();
    };
    element.addEventListener("keydown", step);
    box.addEventListener("keydown", step);
  };

  const matcher = (words) => {
    const parts = words.toLowerCase().split(/\s+/).filter(Boolean);
    return (text) => parts.every((part) => text.includes(part));
  };
  /** The geometric mean of the changes of each family and metric, of rows that carry them in data-. */
  const families = (element, rows) => {
    const found = new Map();
    for (const { dataset: { family, metric, change, group } } of rows) {
      if (change === "" || !(Number(change) > -1)) continue;
      const name = metric ? `${family}, ${metric}` : family;
      found.set(name, [...found.get(name) ?? [], { log: Math.log1p(change), group }]);
    }
    const lines = [...found].sort(([x], [y]) => x.localeCompare(y, "en")).map(([name, own]) => {
      const count = (group) => String(own.filter((one) => one.group === group).length);
      const mean = Math.expm1(own.reduce((sum, { log }) => sum + log, 0) / own.length);
      return dom.make("tr", {}, dom.make("th", { scope: "row" }, name),
        ...[String(own.length), units.change(mean), count("worse"), count("better")].map((text) => dom.make("td", {}, text)));
    });
    element.tBodies[0].replaceChildren(...lines);
  };
  return { sort, sorting, walking, matcher, families };
})();
