// SPDX-License-Identifier: Apache-2.0
"use strict";
// Elements out of data. Whatever is not an element goes in as text; nothing here reads markup.
const dom = (() => {
  /** `attributes`: of the element; `on…` are listeners, and false leaves one out. */
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  };
  /** The sign of a legend: what `path` encloses, two units wide. */
  const sign = (path, color, doubtful) => {
    const [outer, inner] = ["svg", "path"].map((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
    for (const [name, value] of [["viewBox", "-1.3 -1.3 2.6 2.6"], ["class", doubtful ? "sign doubtful" : "sign"],
      ["fill", color], ["aria-hidden", "true"]]) outer.setAttribute(name, value);
    inner.setAttribute("d", path);
    outer.append(inner);
    return outer;
  };
  const find = (id) => document.getElementById(id);
  const fill = (id, ...children) => { find(id).replaceChildren(...children); };
  const options = (select, rows, chosen) => {
    select.replaceChildren(...rows.map(([value, text]) => make("option", { value }, text)));
    select.value = chosen;
  };
  /** A name that breaks between its parts, and inside of them only where one is wider than the page. */
  const name = (text) => text.split(/(?<=[/_])/).flatMap((part, place) => place ? [make("wbr"), part] : [part]);
  /** A list of names and what they are. */
  const facts = (rows) => make("dl", {}, ...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  /** Shows the reason why a page is empty. */
  const say = (text) => { fill("said", text); };
  /** Marks a state of the page, for tests and measurements. */
  const ready = (what) => {
    document.documentElement.dataset[what] = "yes";
    performance.mark(what);
  };
  // Controls fold where they would fill the screen, unless the address has set them.
  const phone = matchMedia("(max-width: 760px)");
  const fold = () => {
    for (const one of document.querySelectorAll("details.controls")) one.open = !phone.matches || location.hash.length > 1;
  };
  phone.addEventListener("change", fold);
  fold();
  return { make, sign, find, fill, options, name, facts, say, ready };
})();
