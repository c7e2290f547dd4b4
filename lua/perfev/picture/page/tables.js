"use strict";

// The values of an aggregator: a table that can be sorted, and the histogram of a key, of all keys or of a time.
(function () {
const { plain, withUnit, newElement } = window.pageText;
const BARS = 48; // more buckets are added up
const COUNTED = { count: true, top: true, sum: true, hist: true, quantile: true, stats: true };

// An integer that is too large for a number comes as text.
function numberOf(cell) { return typeof cell === "string" ? Number(cell) : cell; }
function numberText(cell) {
  if (cell === null || cell === undefined) return "";
  if (typeof cell === "string") return cell.replace(/\B(?=(\d{3})+$)/g, ",");
  return Number.isInteger(cell) ? plain(cell) : cell.toLocaleString("en-US", { minimumFractionDigits: 2,
    maximumFractionDigits: 2 });
}
function keyText(cell) { return typeof cell === "number" ? String(cell) : cell === null ? "" : String(cell); }
function setText(element, text) { if (element.textContent !== text) element.textContent = text; }

// Gives a parent so many children, made by make().
function resize(parent, nr, make) {
  while (parent.childElementCount < nr) parent.append(make());
  while (parent.childElementCount > nr) parent.lastElementChild.remove();
}

// ---- histograms ----

// At most BARS bars: neighbours are added up.
function bars(cells) {
  const list = [];
  for (let i = 0; i < cells.length; i += 3) list.push({ low: cells[i], high: cells[i + 1], count: cells[i + 2] });
  list.sort((a, b) => (a.low === null ? -Infinity : a.low) - (b.low === null ? -Infinity : b.low));
  const by = Math.ceil(list.length / BARS);
  if (by < 2) return list;
  const fewer = [];
  for (let i = 0; i < list.length; i += by) {
    const some = list.slice(i, i + by);
    fewer.push({ low: some[0].low, high: some[some.length - 1].high, count: some.reduce((n, b) => n + b.count, 0) });
  }
  return fewer;
}
function rangeText(bar, unit) {
  if (bar.low === null) return "below " + withUnit(bar.high, unit);
  if (bar.high === null) return "from " + withUnit(bar.low, unit);
  if (bar.high - bar.low === 1 && Number.isInteger(bar.low)) return withUnit(bar.low, unit);
  return withUnit(bar.low, unit) + " to " + withUnit(bar.high, unit);
}
function barRow() {
  const row = newElement("tr"), long = newElement("td", undefined, "long");
  long.append(newElement("span"));
  row.append(newElement("td"), long, newElement("td"), newElement("td"));
  return row;
}
// Shows a histogram in a box made by makeBars().
function makeBars(box) {
  const heading = newElement("h3"), table = newElement("table"), body = newElement("tbody");
  table.append(body);
  box.append(heading, table);
  return (title, cells, unit) => {
    const list = bars(cells), most = Math.max(1, ...list.map(b => b.count));
    const all = list.reduce((sum, b) => sum + b.count, 0);
    setText(heading, title);
    heading.title = title;
    table.setAttribute("aria-label", "Histogram, " + title);
    resize(body, list.length, barRow);
    list.forEach((bar, i) => {
      const [range, long, count, share] = body.children[i].children;
      setText(range, rangeText(bar, unit));
      long.firstElementChild.style.setProperty("--share", bar.count / most);
      long.firstElementChild.hidden = bar.count === 0;
      setText(count, plain(bar.count));
      setText(share, all ? (100 * bar.count / all).toFixed(1) + "%" : "");
    });
  };
}

const SPARK = "http://www.w3.org/2000/svg";
function newSpark() {
  const svg = document.createElementNS(SPARK, "svg"), path = document.createElementNS(SPARK, "path");
  svg.setAttribute("viewBox", "0 0 128 16");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  svg.append(path);
  return svg;
}
// Draws the buckets of a row between the lowest and the highest bucket of all rows.
function drawSpark(svg, cells, bounds) {
  const wide = 128 / Math.max(bounds.list.length, 1);
  let most = 1, d = "";
  for (let i = 2; i < cells.length; i += 3) most = Math.max(most, cells[i]);
  for (let i = 0; i < cells.length; i += 3) {
    const x = bounds.at.get(cells[i]) * wide, tall = cells[i + 2] ? Math.max(1, 16 * cells[i + 2] / most) : 0;
    if (tall) d += "M" + x.toFixed(1) + " 16v" + (-tall).toFixed(1) + "h" + Math.max(wide - 0.5, 0.5).toFixed(1) +
      "v" + tall.toFixed(1) + "z";
  }
  if (svg.firstElementChild.getAttribute("d") !== d) svg.firstElementChild.setAttribute("d", d);
}
function boundsOf(rows) {
  const lows = new Set();
  for (const cells of rows) for (let i = 0; i < cells.length; i += 3) lows.add(cells[i]);
  const list = [...lows].sort((a, b) => (a === null ? -Infinity : a) - (b === null ? -Infinity : b));
  return { list, at: new Map(list.map((low, i) => [low, i])) };
}

// ---- the table ----

// part: as in the event hello of the live page; `still`: its values do not grow, so there are no rates; `pick(row)`: a
// row is clicked. Returns { update(state, time_ms), showRange(cells, words), pick(key) }.
window.makeBars = makeBars;
window.showValues = function (box, part) {
  const isHist = part.kind === "hist", nrKeys = part.by.length, weight = nrKeys;
  const isCounted = Boolean(COUNTED[part.kind]), hasTable = nrKeys > 0 || !isHist, isPicked = isHist || part.pick;
  const head = newElement("div", undefined, "head"), columns = newElement("div", undefined, "columns");
  const about = newElement("span", "", "about"), heading = newElement("h2", part.title);
  const remarks = newElement("ul", undefined, "remarks"), nothing = newElement("p", "no values yet", "nothing");
  heading.id = "part-" + part.name;
  box.setAttribute("aria-labelledby", heading.id);
  head.append(heading, about);
  box.append(head, nothing, columns, remarks);

  const names = part.by.map(c => ({ text: c, isKey: true })).concat(part.values.map((v, i) => ({
    text: v.name + (v.unit ? " (" + v.unit + ")" : ""), index: nrKeys + i })));
  if (isCounted && nrKeys > 0) {
    names.push({ text: "%", share: true });
    if (!part.still) names.push({ text: "per s", rate: true });
  }
  if (isHist) names.push({ text: "distribution", spark: true });
  let sortBy = weight, descending = true, state = { rows: [], buckets: [] }, previous = null, rates = new Map();
  let selected = null, range = null, order = [];

  const table = newElement("table"), body = newElement("tbody"), foot = newElement("tfoot"), top = newElement("tr");
  const scroll = newElement("div", undefined, "rows");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", part.title + ", table");
  const headRow = newElement("thead");
  headRow.append(top);
  table.append(headRow, body, foot);
  scroll.append(table);
  const barsBox = newElement("div", undefined, "bars");
  const showBars = isHist ? makeBars(barsBox) : null;
  if (hasTable) columns.append(scroll);
  if (isHist) columns.append(barsBox);
  if (!isHist || !hasTable) columns.classList.add("single");

  function keyOf(row) { return JSON.stringify(row.slice(0, nrKeys)); }
  function sortValue(row, column) {
    if (column.share) return numberOf(row[weight]);
    if (column.rate) return rates.get(keyOf(row)) || 0;
    const cell = row[column.isKey ? names.indexOf(column) : column.index];
    return column.isKey ? cell : numberOf(cell);
  }
  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }
  function sortRows() {
    const column = names[sortBy];
    order = state.rows.map((_, i) => i);
    order.sort((a, b) => {
      const by = compare(sortValue(state.rows[a], column), sortValue(state.rows[b], column));
      return (descending ? -by : by) || a - b;
    });
  }
  function showHead() {
    names.forEach((column, i) => {
      const cell = top.children[i];
      if (column.spark) return;
      cell.setAttribute("aria-sort", i !== sortBy ? "none" : descending ? "descending" : "ascending");
    });
  }
  names.forEach((column, i) => {
    const cell = newElement("th", undefined, column.isKey || column.spark ? "" : "number");
    cell.scope = "col";
    if (column.spark) {
      cell.append(newElement("span", column.text, "plain"));
    } else {
      const button = newElement("button", column.text);
      button.type = "button";
      button.addEventListener("click", () => {
        descending = sortBy === i ? !descending : !column.isKey;
        sortBy = i;
        showHead();
        showRows();
      });
      cell.append(button);
    }
    top.append(cell);
  });
  showHead();

  function newRow() {
    const row = newElement("tr");
    names.forEach((column, i) => {
      const cell = newElement("td", undefined, column.isKey ? "key" : column.spark ? "" : "number");
      if (i === weight && isCounted) cell.classList.add("weight");
      if (column.spark) cell.append(newSpark());
      row.append(cell);
    });
    if (isPicked) row.tabIndex = -1;
    return row;
  }
  function fillRow(element, row, cells, bounds, all) {
    const isSelected = selected !== null && keyOf(row) === selected;
    if (isPicked) element.setAttribute("aria-selected", String(isSelected));
    names.forEach((column, i) => {
      const cell = element.children[i];
      if (column.isKey) {
        setText(cell, keyText(row[i]));
        if (cell.title !== cell.textContent) cell.title = cell.textContent;
      } else if (column.spark) {
        drawSpark(cell.firstElementChild, cells || [], bounds);
      } else if (column.share) {
        setText(cell, all ? (100 * numberOf(row[weight]) / all).toFixed(1) : "");
      } else if (column.rate) {
        const rate = rates.get(keyOf(row));
        setText(cell, rate === undefined ? "–" : plain(Number(rate.toFixed(rate < 10 ? 1 : 0))));
      } else {
        setText(cell, numberText(row[column.index]));
      }
      if (i === weight && isCounted) {
        cell.style.setProperty("--share", all ? Math.max(0, Math.min(1, numberOf(row[weight]) / all)).toFixed(4) : 0);
      }
    });
  }
  function showRows() {
    sortRows();
    const all = state.all, bounds = isHist ? boundsOf(state.buckets) : null;
    resize(body, order.length, newRow);
    order.forEach((from, i) => fillRow(body.children[i], state.rows[from], state.buckets && state.buckets[from],
      bounds, all));
    if (isPicked && body.firstElementChild && !body.querySelector("[tabindex='0']")) {
      body.firstElementChild.tabIndex = 0;
    }
    resize(foot, state.other ? 1 : 0, () => { const row = newRow(); row.className = "rest"; return row; });
    if (state.other) {
      fillRow(foot.firstElementChild, state.other, state.other_buckets, bounds || boundsOf([]), all);
      foot.firstElementChild.removeAttribute("tabindex");
    }
  }
  function showHistogram() {
    if (!showBars) return;
    if (range) {
      showBars("all keys, " + range.words, range.cells, part.unit);
      return;
    }
    const from = selected === null ? -1 : state.rows.findIndex(row => keyOf(row) === selected);
    if (from >= 0) {
      const words = part.by.map((column, i) => column + " " + keyText(state.rows[from][i]));
      showBars(words.join(", "), state.buckets[from], part.unit);
    } else {
      showBars(nrKeys > 0 ? "all keys, since start" : "since start", state.all_buckets || [], part.unit);
    }
  }
  function select(element) {
    const row = state.rows[order[[...body.children].indexOf(element)]];
    if (!row) return;
    const key = keyOf(row);
    selected = selected === key ? null : key;
    if (part.pick) part.pick(selected === null ? null : row);
    showRows();
    showHistogram();
  }
  if (isPicked) {
    body.addEventListener("click", e => { if (e.target.closest("tr")) select(e.target.closest("tr")); });
    body.addEventListener("keydown", e => {
      const row = e.target.closest("tr");
      const other = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[e.key];
      if (e.key === "Enter" || e.key === " ") select(row);
      else if (other) {
        row.tabIndex = -1;
        other.tabIndex = 0;
        other.focus();
      } else return;
      e.preventDefault();
    });
  }

  // Rates between two updates, of the keys that both have.
  function noteRates(time) {
    rates = new Map();
    const weights = new Map(state.rows.map(row => [keyOf(row), numberOf(row[weight])]));
    if (previous && time > previous.time) {
      for (const [key, value] of weights) {
        const before = previous.weights.get(key);
        if (before !== undefined) rates.set(key, Math.max(0, (value - before) * 1000 / (time - previous.time)));
      }
    }
    previous = { time, weights };
  }
  function aboutText() {
    const words = [part.kind];
    if (part.unit) words.push("in " + part.unit);
    if (nrKeys > 0) {
      words.push(plain(state.keys) + (state.keys === 1 ? " key" : " keys"));
      if (state.keys > state.rows.length) words.push("the " + plain(state.rows.length) + " largest are shown");
    }
    return words.join(" · ");
  }
  return {
    update(newState, time) {
      state = newState;
      if (isCounted && nrKeys > 0 && !part.still) noteRates(time);
      const isEmpty = state.rows.length === 0 && !state.other;
      nothing.hidden = !isEmpty;
      columns.hidden = isEmpty;
      setText(about, aboutText());
      showRows();
      showHistogram();
      resize(remarks, state.remarks.length, () => newElement("li"));
      state.remarks.forEach((text, i) => setText(remarks.children[i], text));
    },
    // Marks the row with these keys, or none.
    pick(keys) {
      selected = keys ? JSON.stringify(keys) : null;
      showRows();
    },
    showRange(cells, words) {
      range = cells ? { cells, words } : null;
      showHistogram();
    },
  };
};
})();
