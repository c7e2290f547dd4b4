"use strict";

// The page of perfl explore: the selection, and what it shows: flame graph, tables, histograms, commands.
(function () {
const { plain, withUnit, newElement } = window.pageText;
const byId = id => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const samples = window.readSamples(data), { events, tasks } = samples, { about, flame } = data;
const MOST_ROWS = 200;
const whole = { from: 0, to: samples.end };
const chosen = { events: events.map(() => true), cpu: null, tid: null };
let range = null; // the selection; null: all
let sums = null; // of the selection
data.chunks = null;

// ---- sums of the selection ----

function add(map, key, value) {
  const sums = map.get(key) || [0, 0];
  sums[0]++;
  sums[1] += value;
  map.set(key, sums);
}
const lastTime = new Map(); // of a CPU, for the intervals
function bucketOf(value) { return value < 1 ? 0 : 2 ** Math.floor(Math.log2(value)); }
function sumUp(selected) {
  const nodes = flame.func.length;
  const found = { nr: 0, own: new Float64Array(nodes), values: new Float64Array(nodes), comm: new Map(),
    task: new Map(), cpu: new Map(), event: new Map(), sizes: new Map(), intervals: new Map() };
  lastTime.clear();
  samples.visit(selected, chosen, i => {
    const value = samples.value[i], node = samples.node[i] - 1, task = tasks[samples.task[i]], cpu = samples.cpu[i];
    found.nr++;
    found.own[node]++;
    found.values[node] += value;
    add(found.comm, task.comm, value);
    add(found.task, samples.task[i], value);
    add(found.cpu, cpu, value);
    add(found.event, samples.event[i], value);
    const size = bucketOf(value);
    found.sizes.set(size, (found.sizes.get(size) || 0) + 1);
    if (lastTime.has(cpu)) {
      const interval = bucketOf(samples.time[i] - lastTime.get(cpu));
      found.intervals.set(interval, (found.intervals.get(interval) || 0) + 1);
    }
    lastTime.set(cpu, samples.time[i]);
  });
  return found;
}
// The own and the total samples of each function; a stack counts once in the total of a recursive function.
function functionSums(own) {
  const nr = flame.functions.length, selfs = new Float64Array(nr), totals = new Float64Array(nr);
  const open = new Uint32Array(nr), path = [], below = new Float64Array(own.length);
  const close = n => {
    const f = flame.func[n] - 1;
    open[f]--;
    if (!open[f]) totals[f] += below[n];
    if (path.length) below[path[path.length - 1]] += below[n];
  };
  for (let n = 0; n < own.length; n++) {
    while (path.length >= flame.depth[n]) close(path.pop());
    path.push(n);
    open[flame.func[n] - 1]++;
    below[n] += own[n];
    selfs[flame.func[n] - 1] += own[n];
  }
  while (path.length) close(path.pop());
  return { selfs, totals };
}

// ---- the value of a sample, besides one sample: of the chosen events, if they have the same ----

function chosenValue() {
  const list = events.filter((event, e) => chosen.events[e]);
  const counted = events.every((event, e) => !chosen.events[e] || samples.isCounted[e]);
  const { name, unit } = list.length ? list[0].value : {};
  return list.length && !counted && list.every(event => event.value.name === name) ? { name, unit } : null;
}

// The chosen events are waits: their time is what counts, as for perfl offcputime.
function hasOnlyWaits() {
  return events.some((event, e) => chosen.events[e]) && events.every((event, e) => !chosen.events[e] || event.wait);
}
function foldedText() { return window.foldedStacks(flame, hasOnlyWaits() ? sums.values : sums.own); }

// ---- tables and histograms ----

// As the search of the flame graph sees it.
function labelOf([name, file]) {
  return file && file !== name ? name + " [" + file.replace(/^\[|\]$/g, "") + "]" : name;
}
const isMs = value => value && value.unit === "ns";
const tables = {
  functions: { title: "Functions", by: ["function"], values: [{ name: "samples" }, { name: "total" }],
    rows() {
      const { selfs, totals } = functionSums(sums.own), list = [];
      totals.forEach((total, f) => {
        if (total > 0) list.push([labelOf(flame.functions[f]), selfs[f], total]);
      });
      return list;
    },
    pick(row) { searchFor(row && row[0], "$"); } },
  comms: { title: "Commands", by: ["command"], rows: () => [...sums.comm].map(([comm, s]) => [comm, ...s]),
    pick(row) { searchFor(row && row[0], "( \\[|$)"); } },
  tasks: { title: "Tasks", by: ["command", "pid", "tid"],
    rows: () => [...sums.task].map(([t, s]) => [tasks[t].comm, tasks[t].pid, tasks[t].tid, ...s]),
    pick(row) { chosen.tid = row ? row[2] : null; changed(); } },
  cpus: { title: "CPUs", by: ["CPU"], rows: () => [...sums.cpu].map(([cpu, s]) => [cpu, ...s]),
    pick(row) { chosen.cpu = row ? row[0] : null; changed(); } },
  events: { title: "Events", by: ["event"], rows: () => [...sums.event].map(([e, s]) => [events[e].name, ...s]) },
};
const panels = []; // { name, tab, box }
function showPanel(name) {
  for (const panel of panels) {
    panel.box.hidden = panel.name !== name;
    panel.tab.setAttribute("aria-selected", String(panel.name === name));
    panel.tab.tabIndex = panel.name === name ? 0 : -1;
  }
}
function addPanel(name, title) {
  const tab = newElement("button", title), box = newElement("div");
  tab.type = "button";
  tab.setAttribute("role", "tab");
  tab.addEventListener("click", () => showPanel(name));
  tab.addEventListener("keydown", e => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!by) return;
    const next = panels[(panels.findIndex(p => p.name === name) + by + panels.length) % panels.length];
    showPanel(next.name);
    next.tab.focus();
    e.preventDefault();
  });
  box.setAttribute("role", "tabpanel");
  box.setAttribute("aria-label", title);
  box.id = "table-" + name;
  byId("tabs").append(tab);
  byId("values").append(box);
  panels.push({ name, tab, box });
  return box;
}
// The table is made anew if the columns change: the value of another event.
function makeTable(table, value) {
  table.key = JSON.stringify(value);
  table.box.replaceChildren();
  const extra = value ? [{ name: value.name, unit: isMs(value) ? "ms" : undefined }] : [];
  table.shown = window.showValues(table.box, { name: table.name, kind: "count", title: table.title, by: table.by,
    values: table.values || [{ name: "samples" }, ...extra], still: true, pick: table.pick });
  table.box.classList.toggle("plain", !table.pick);
}
let showSizes = null, showIntervals = null; // histograms
function showTables() {
  const value = chosenValue();
  for (const table of Object.values(tables)) {
    if (table.key !== JSON.stringify(value)) makeTable(table, value);
    const keys = table.by.length, all = table.rows().sort((a, b) => b[keys] - a[keys] || b[keys + 1] - a[keys + 1]);
    if (!table.values) {
      for (const row of all) {
        if (!value) row.length = keys + 1;
        else if (isMs(value)) row[keys + 1] = row[keys + 1] / 1e6;
      }
    }
    table.list = all;
    const remarks = all.length > MOST_ROWS ? ["the " + MOST_ROWS + " largest of " + plain(all.length)] : [];
    table.shown.update({ rows: all.slice(0, MOST_ROWS), keys: all.length, all: sums.nr, remarks }, 0);
  }
  const task = chosen.tid === null ? null : tables.tasks.list.find(row => row[2] === chosen.tid);
  tables.tasks.shown.pick(task ? task.slice(0, 3) : null);
  tables.cpus.shown.pick(chosen.cpu === null ? null : [chosen.cpu]);
  const cells = map => [...map].sort((a, b) => a[0] - b[0]).flatMap(
    ([low, count]) => [low, low ? 2 * low : 1, count]);
  const unit = value ? value.unit === "count" ? "" : value.unit : "";
  const isWait = events.some((event, e) => chosen.events[e] && event.wait);
  const what = isWait ? "duration" : value ? value.name : "value";
  showSizes(what + " of a sample", value ? cells(sums.sizes) : [], unit);
  showIntervals("time between two samples of a CPU", cells(sums.intervals), "ns");
}
function makePanels() {
  for (const [name, table] of Object.entries(tables)) {
    table.name = name;
    table.box = addPanel(name, table.title);
  }
  const box = addPanel("histograms", "Histograms");
  const bars = () => window.makeBars(box.appendChild(newElement("div", undefined, "bars")));
  showSizes = bars();
  showIntervals = bars();
  showPanel("functions");
}

// ---- the flame graph ----

function profileOf() {
  const value = chosenValue(), isWait = hasOnlyWaits();
  const values = [{ name: isWait ? "waits" : "samples", unit: "count" }], own = [sums.own];
  if (value) {
    values.push(value);
    own.push(sums.values);
  }
  if (isWait) for (const list of [values, own]) list.reverse();
  return { title: "Flame graph", values, functions: flame.functions, func: flame.func, depth: flame.depth, own };
}
const empty = { title: "Flame graph", values: [{ name: "samples", unit: "count" }], functions: [], func: [], depth: [],
  own: [[]] };
const loadFlame = window.showFlameGraph(empty, { live: true });
function searchFor(word, end) {
  const pattern = word ? "^" + word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + end : "";
  byId("search").value = pattern;
  byId("search").dispatchEvent(new Event("input"));
}

// ---- the selection ----

const charts = window.makeCharts(samples, { heat: byId("heat"), lanes: byId("lanes"), curve: byId("curve") }, chosen,
  select, word => {
    if (word === "zoom") zoomIn();
    if (word === "whole") zoomOut();
    saveInAddress();
  });

function showRange() {
  const shown = range || whole;
  for (const [id, ns] of [["from", shown.from], ["to", shown.to]]) {
    if (document.activeElement !== byId(id)) byId(id).value = samples.textOf(ns);
    byId(id).setAttribute("aria-invalid", "false");
  }
  byId("clear").disabled = range === null && chosen.cpu === null && chosen.tid === null;
  byId("zoom").disabled = range === null || range.to <= range.from;
  byId("whole").disabled = !charts.isZoomed();
}
// The commands that print the same stacks; see doc/explore.md.
function commands(shown) {
  if (!about.replay) return [];
  const list = [], parts = [about.replay, "--from " + samples.textOf(shown.from), "--to " + samples.textOf(shown.to)];
  if (chosen.cpu !== null) parts.push("-C " + chosen.cpu);
  if (chosen.tid !== null) parts.push("-t " + chosen.tid);
  const words = parts.join(" ");
  events.forEach((event, e) => {
    if (!chosen.events[e]) return;
    if (event.wait) {
      if (chosen.cpu === null) list.push("perfl offcputime " + words + about.side);
    } else if (chosen.cpu === null || chosen.cpu >= 0) {
      list.push("perfl profile " + words + " -e " + event.word + about.side + (about.idle ? " --idle" : ""));
    }
  });
  return list;
}
function showCommands(shown) {
  const list = commands(shown).map(text => newElement("code", text));
  byId("commands").replaceChildren(...list.length ? list : [newElement("span", about.replay ?
    "no command of perfl prints this selection" : "The page belongs to no recording: with --record FILE it shows " +
    "the command that prints the same stacks.", "none")]);
}
function showFilters() {
  const button = (text, undo) => {
    const one = newElement("button", "only " + text + " ×");
    one.type = "button";
    one.addEventListener("click", () => { undo(); changed(); });
    return one;
  };
  const list = [];
  if (chosen.cpu !== null) list.push(button("CPU " + chosen.cpu, () => { chosen.cpu = null; }));
  if (chosen.tid !== null) list.push(button("task " + chosen.tid, () => { chosen.tid = null; }));
  byId("filters").replaceChildren(...list);
}
function show() {
  const shown = range || whole;
  sums = sumUp(shown);
  loadFlame(profileOf());
  showTables();
  showRange();
  showCommands(shown);
  showFilters();
  byId("shown").textContent = withUnit(shown.to - shown.from + 1, "ns") + ", " + plain(sums.nr) + " of " +
    plain(samples.nr) + " samples";
  byId("save").disabled = sums.nr === 0;
  document.body.dataset.shown = samples.textOf(shown.from) + " " + samples.textOf(shown.to);
}
// Selects a range; null: all. Not isFinal: the user is still dragging.
function select(selected, isFinal) {
  range = selected;
  charts.show(range);
  if (!isFinal) {
    showRange();
    return;
  }
  show();
  saveInAddress();
}
// The chosen events, CPU or task are others.
function changed() {
  charts.recount();
  show();
  saveInAddress();
}
function zoomIn() {
  if (range) charts.setView(range);
  showRange();
}
function zoomOut() {
  charts.setView(null);
  showRange();
}

// ---- the address: a link shows the same selection ----

let written = null;
function saveInAddress() {
  const words = new URLSearchParams();
  if (range) {
    words.set("from", samples.textOf(range.from));
    words.set("to", samples.textOf(range.to));
  }
  if (chosen.events.includes(false)) {
    events.forEach((event, e) => { if (chosen.events[e]) words.append("event", event.name); });
  }
  if (chosen.cpu !== null) words.set("cpu", chosen.cpu);
  if (chosen.tid !== null) words.set("tid", chosen.tid);
  if (charts.lanes() !== "cpu") words.set("lanes", charts.lanes());
  written = "#" + words;
  try {
    history.replaceState(null, "", written);
  } catch (e) { /* some browsers refuse this for file: addresses; the page does not change */ }
}
function restoreFromAddress() {
  if (written !== null && (location.hash || "#") === written) return;
  const words = new URLSearchParams(location.hash.slice(1));
  const number = key => /^-?\d+$/.test(words.get(key) || "") ? Number(words.get(key)) : null;
  const named = words.getAll("event").filter(name => events.some(event => event.name === name));
  events.forEach((event, e) => { chosen.events[e] = !named.length || named.includes(event.name); });
  chosen.cpu = number("cpu");
  chosen.tid = number("tid");
  showEvents();
  charts.setLanes(words.get("lanes") === "task" ? "task" : "cpu");
  range = readRange(words.get("from") || samples.textOf(0), words.get("to") || samples.textOf(samples.end));
  if (!words.get("from") && !words.get("to")) range = null;
  charts.show(range);
  show();
}
function readRange(from, to) {
  const begin = samples.timeOf(from, false), end = samples.timeOf(to, true);
  return begin !== null && end !== null && begin <= end ? { from: begin, to: end } : null;
}

// ---- controls and keys ----

function showEvents() {
  if (events.length < 2) return;
  byId("events").replaceChildren(byId("events").firstElementChild, ...events.map((event, e) => {
    const label = newElement("label"), box = newElement("input");
    box.type = "checkbox";
    box.checked = chosen.events[e];
    box.addEventListener("change", () => { chosen.events[e] = box.checked; changed(); });
    label.append(box, event.name);
    return label;
  }));
}
for (const id of ["from", "to"]) {
  byId(id).addEventListener("keydown", e => {
    if (e.key !== "Enter") return;
    const read = readRange(byId("from").value.trim(), byId("to").value.trim());
    byId(id).setAttribute("aria-invalid", String(!read));
    if (read) select(read, true);
  });
  byId(id).addEventListener("blur", showRange);
}
function reset() {
  chosen.cpu = chosen.tid = null;
  charts.recount();
  select(null, true);
}
byId("clear").addEventListener("click", reset);
byId("zoom").addEventListener("click", zoomIn);
byId("whole").addEventListener("click", zoomOut);
byId("save").addEventListener("click", () => {
  const link = newElement("a"), url = URL.createObjectURL(new Blob([foldedText()]));
  link.href = url;
  link.download = "stacks-" + document.body.dataset.shown.replace(" ", "-") + ".folded";
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
});
document.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || byId("keys").open) return;
  if (/^(INPUT|SELECT|CANVAS)$/.test(e.target.tagName) || e.target === byId("view")) return;
  if (e.key === "z") zoomIn();
  if (e.key === "x") zoomOut();
  if (e.key === "Escape") reset();
});
window.addEventListener("hashchange", restoreFromAddress);

byId("buttons").append(byId("theme"), byId("help"));
for (const [key, words] of [["z", "show only the selection in the charts"], ["x", "show all in the charts"],
  ["Esc", "in a chart: select all"]]) {
  const term = newElement("dt"), list = byId("keys").querySelector("dl");
  term.append(newElement("kbd", key));
  list.append(term, newElement("dd", words));
}
byId("facts").textContent = [plain(samples.nr) + " samples",
  ...samples.nr ? [withUnit(samples.end + 1, "ns"), plain(tasks.length) + " tasks"] : [],
  ...events.length === 1 ? [events[0].name] : []].join(" · ");
document.body.classList.toggle("empty", samples.nr === 0);
byId("notes").replaceChildren(...about.notes.map(note => newElement("li", note)));
makePanels();
restoreFromAddress();
window.explored = { folded: foldedText, tables: () => Object.fromEntries(
  Object.entries(tables).map(([name, table]) => [name, table.list])) };
})();
