// SPDX-License-Identifier: Apache-2.0
"use strict";
// The page is complete without this: it adds sorting, hovering and families that can be faded out.
(() => {
  const body = document.querySelector("#cases tbody");
  const rows = new Map([...body.rows].map((row) => [row.dataset.row, row]));
  const marks = [...document.querySelectorAll(".mark[data-row]")];
  const tip = document.getElementById("tip");

  const sortBy = (header) => {
    const column = header.cellIndex;
    const descending = header.getAttribute("aria-sort") !== "descending" && column > 0
      || header.getAttribute("aria-sort") === "ascending";
    for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const key = (row) => row.cells[column] ? row.cells[column].dataset.value ?? "" : "";
    const sign = descending ? -1 : 1;
    [...body.rows].sort((a, b) => {
      const x = key(a), y = key(b);
      if (x === "" || y === "") return (x === "") - (y === "");
      return sign * (column === 0 ? x.localeCompare(y, undefined, { numeric: true }) : x - y);
    }).forEach((row) => body.append(row));
  };
  for (const button of document.querySelectorAll("#cases th button")) {
    button.addEventListener("click", () => sortBy(button.parentNode));
  }

  const show = (mark) => {
    const row = rows.get(mark.dataset.row);
    const box = mark.getBoundingClientRect();
    tip.textContent = mark.querySelector("title").textContent;
    tip.hidden = false;
    const left = window.scrollX + box.right + 10;
    const most = window.scrollX + document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = `${Math.min(left, most)}px`;
    tip.style.top = `${window.scrollY + box.bottom + 8}px`;
    mark.classList.add("on");
    row.classList.add("on");
  };
  const hide = (mark) => {
    tip.hidden = true;
    mark.classList.remove("on");
    rows.get(mark.dataset.row).classList.remove("on");
  };
  for (const mark of marks) {
    mark.addEventListener("mouseenter", () => show(mark));
    mark.addEventListener("mouseleave", () => hide(mark));
    mark.addEventListener("focus", () => show(mark));
    mark.addEventListener("blur", () => hide(mark));
    mark.addEventListener("click", () => rows.get(mark.dataset.row).scrollIntoView({ block: "center" }));
    const row = rows.get(mark.dataset.row);
    row.addEventListener("mouseenter", () => mark.classList.add("on"));
    row.addEventListener("mouseleave", () => mark.classList.remove("on"));
  }

  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") === "false";
      button.setAttribute("aria-pressed", String(shown));
      for (const mark of marks) {
        if (rows.get(mark.dataset.row).dataset.family === button.dataset.family) mark.classList.toggle("off", !shown);
      }
    });
  }
})();
