"use strict";

// Shows a profile in the elements of frame_view.html. options: `live`: the page shows one profile after the other, and
// is not the only one that uses the keys and the address. Returns load(profile), which shows another profile.
window.showFlameGraph = function (firstProfile, options) {
const byId = id => document.getElementById(id);
const isLive = Boolean(options && options.live);
const UNKNOWN = 3;
const MIN_DRAWN = 0.5; // px: narrower frames are not drawn
const MATCH_WIDTH = 40; // px: the width that zooming gives a narrow match

// ---- the tree: node 0 is the root, the subtree of n is the nodes n to last[n] ----

let data, N, func, depth, last, parent, cache;

function readTree(profile) {
  data = profile;
  N = data.func.length;
  func = new Int32Array(N + 1);
  depth = new Int32Array(N + 1);
  last = new Int32Array(N + 1);
  parent = new Int32Array(N + 1);
  cache = {};
  const open = [0];
  func[0] = -1;
  for (let n = 1; n <= N; n++) {
    func[n] = data.func[n - 1] - 1;
    depth[n] = data.depth[n - 1];
    while (depth[open[open.length - 1]] >= depth[n]) last[open.pop()] = n - 1;
    parent[n] = open[open.length - 1];
    open.push(n);
  }
  while (open.length) last[open.pop()] = N;
}

function sumTree(list) {
  const own = new Float64Array(N + 1), total = new Float64Array(N + 1), x = new Float64Array(N + 1);
  for (let n = 1; n <= N; n++) total[n] = own[n] = list[n - 1];
  for (let n = N; n > 0; n--) total[parent[n]] += total[n];
  const next = [0];
  for (let n = 0; n <= N; n++) { // each child starts where its previous sibling ends
    const d = depth[n];
    x[n] = next[d];
    next[d] += Math.max(total[n], 0);
    next[d + 1] = x[n];
  }
  return { own, total, x };
}
function cachedSums(side, value) {
  const lists = side === "base" ? data.base : data.own;
  const key = side + value;
  return cache[key] || (cache[key] = sumTree(lists[value]));
}

const state = { zoom: 0, selected: -1, query: "", inverted: false, value: 0, side: "now" };
let now, compared; // sums of the side that is drawn, and of the side it is compared with
let match = null, matched = 0;
let largestChange = 0; // the largest change, for the colours

function nameOf(n) { return n === 0 ? "all" : data.functions[func[n]][0]; }
function moduleOf(n) { return n === 0 ? "" : data.functions[func[n]][1]; }
function labelOf(f) {
  const module = data.functions[f][1];
  const word = data.functions[f][0];
  return module && module !== word ? word + " [" + module.replace(/^\[|\]$/g, "") + "]" : word;
}

// ---- numbers ----

const scales = {
  ns: [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]],
  bytes: [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
};
function formatNumber(value) { return value.toLocaleString("en-US", { maximumFractionDigits: 2 }); }
function formatValue(value) {
  const unit = data.values[state.value].unit;
  for (const [size, word] of scales[unit] || []) {
    if (Math.abs(value) >= size) return formatNumber(value / size) + " " + word;
  }
  return formatNumber(value);
}
function valueWithName(value) {
  const { name: word, unit } = data.values[state.value];
  return formatValue(value) + (unit === "count" || !scales[unit] ? " " + word : "");
}
function percent(part, all) { return all ? (100 * part / all).toFixed(2) + "%" : "–"; }
function withSign(text) { return text.startsWith("-") ? "−" + text.slice(1) : "+" + text; }

// The change of a node against the baseline: of its share, or of its value as a part of the larger total.
function changeOf(n) {
  const a = cachedSums("now", state.value), b = cachedSums("base", state.value);
  if (!byId("normal").checked) return (a.total[n] - b.total[n]) / (Math.max(a.total[0], b.total[0]) || 1);
  return a.total[n] / (a.total[0] || 1) - b.total[n] / (b.total[0] || 1);
}

// ---- colours ----

const root = document.documentElement;
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
let theme = "auto";
function isDark() { return theme === "auto" ? prefersDark.matches : theme === "dark"; }

// kind -> hue, range of hues, saturation, added lightness; dark text is readable on all of them
const hues = [[18, 36, 86, 0], [140, 34, 46, 0], [200, 22, 70, 8], [40, 0, 4, 3]];
function frameColor(f, dark) {
  const [, , kind, shade] = data.functions[f];
  const [hue, span, saturation, lighter] = hues[kind];
  const light = (dark ? 52 : 64) + lighter + (shade * 7 % 12);
  return "hsl(" + (hue + span * shade / 100) + "," + saturation + "%," + light + "%)";
}
function changeColor(t, dark) {
  const size = Math.sqrt(Math.min(Math.abs(t), 1));
  const light = dark ? 74 - 20 * size : 91 - 31 * size;
  return "hsl(" + (t > 0 ? 6 : 214) + "," + (size < 0.05 ? 4 : 18 + 68 * size) + "%," + light + "%)";
}
function colorOf(n, dark) {
  if (n === 0) return dark ? "hsl(40,5%,58%)" : "hsl(40,8%,82%)";
  if (match && match[func[n]]) return dark ? "#e879f9" : "#d946ef";
  return data.base ? changeColor(largestChange ? changeOf(n) / largestChange : 0, dark) : frameColor(func[n], dark);
}

// ---- drawing ----

const view = byId("view"), canvas = byId("canvas"), scrollArea = byId("room"), pen = canvas.getContext("2d");
let rowHeight = 18, fontSize = 12, letter = 7.2, width = 0, rows = 1;

function measureFont() {
  const rem = parseFloat(getComputedStyle(root).fontSize) || 16;
  fontSize = Math.max(12, rem * 0.78);
  rowHeight = Math.round(fontSize * 1.55);
  pen.font = font();
  letter = pen.measureText("M").width;
}
function font() { return fontSize + "px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"; }

function scale() { return now.total[state.zoom] > 0 ? width / now.total[state.zoom] : 0; }
function isDrawn(n) { return now.total[n] > 0 && now.total[n] * scale() >= MIN_DRAWN; }

// Calls onFrame(n) for each visible frame of the zoomed subtree, and onRun(x0, x1, depth) for neighbouring frames
// that are each too narrow to draw but together are not.
function visitVisible(onFrame, onRun) {
  const s = scale(), x0 = now.x[state.zoom];
  let from = -1, to = -1, row = 0;
  const flush = () => {
    if (from >= 0 && to - from >= MIN_DRAWN) onRun(from, to, row);
    from = -1;
  };
  for (let n = state.zoom; n <= last[state.zoom]; n++) {
    if (isDrawn(n) || n === state.zoom) {
      flush();
      onFrame(n);
      continue;
    }
    if (now.total[n] > 0) {
      const x = (now.x[n] - x0) * s;
      if (from < 0 || depth[n] !== row || x - to > 0.01) {
        flush();
        from = x;
        row = depth[n];
      }
      to = x + now.total[n] * s;
    }
    n = last[n];
  }
  flush();
}
// Counts the rows: the zoomed frame, its callers and its visible callees.
function countRows() {
  let deepest = depth[state.zoom];
  visitVisible(n => { if (depth[n] > deepest) deepest = depth[n]; }, (x0, x1, d) => { if (d > deepest) deepest = d; });
  rows = deepest + 1;
}
function topOfRow(d) { return state.inverted ? d * rowHeight : (rows - 1 - d) * rowHeight; }
function topOfFrame(n) { return topOfRow(depth[n]); }
function leftOfFrame(n) {
  if (n <= state.zoom && state.zoom <= last[n]) return 0;
  return (now.x[n] - now.x[state.zoom]) * scale();
}
function widthOfFrame(n) {
  if (n <= state.zoom && state.zoom <= last[n]) return width;
  return now.total[n] * scale();
}

function cutText(text, space) {
  const fits = Math.floor((space - 7) / letter);
  if (text.length <= fits) return text;
  return fits < 3 ? "" : text.slice(0, fits - 1) + "…";
}

function drawFrame(n, y0, dark, look) {
  const x = leftOfFrame(n), w = widthOfFrame(n), y = topOfFrame(n) - y0;
  const isCaller = n < state.zoom;
  pen.globalAlpha = isCaller ? look.dim : match && n > 0 && !match[func[n]] ? look.dim + 0.25 : 1;
  pen.fillStyle = colorOf(n, dark);
  pen.fillRect(x, y, Math.max(w - (w > 3 ? 1 : 0), MIN_DRAWN), rowHeight - 1);
  pen.globalAlpha = 1;
  const text = cutText(nameOf(n), w);
  if (text) {
    pen.fillStyle = isCaller ? look.soft : "#14110d";
    if (match && n > 0 && !match[func[n]] && dark && !isCaller) pen.fillStyle = "#0a0a0a";
    pen.fillText(text, x + 4, y + rowHeight / 2 + 0.5);
  }
  if (n === state.selected) {
    pen.strokeStyle = look.ink;
    pen.lineWidth = 2;
    pen.strokeRect(x + 1, y + 1, Math.max(w - 3, 1), rowHeight - 3);
  }
}

function draw() {
  const ratio = window.devicePixelRatio || 1;
  width = view.clientWidth;
  countRows();
  const height = Math.min(view.clientHeight, rows * rowHeight);
  scrollArea.style.height = rows * rowHeight + "px";
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = font();
  pen.textBaseline = "middle";
  const style = getComputedStyle(root), y0 = view.scrollTop, dark = isDark();
  const look = { ink: style.getPropertyValue("--ink"), soft: style.getPropertyValue("--soft"),
    line: style.getPropertyValue("--line"), dim: parseFloat(style.getPropertyValue("--dim")) };
  const inSight = d => topOfRow(d) + rowHeight > y0 && topOfRow(d) < y0 + height;
  for (let n = parent[state.zoom], up = state.zoom; up !== 0; up = n, n = parent[n]) {
    if (inSight(depth[n])) drawFrame(n, y0, dark, look);
  }
  visitVisible(n => { if (inSight(depth[n])) drawFrame(n, y0, dark, look); }, (x0, x1, d) => {
    if (!inSight(d)) return;
    pen.fillStyle = look.line;
    pen.fillRect(x0, topOfRow(d) - y0, x1 - x0, rowHeight - 1);
  });
}
let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}

// Recomputes the picture after a change of value, zoom, size or direction.
function layout(keepPlace) {
  now = cachedSums(state.side, state.value);
  compared = data.base ? cachedSums(state.side === "now" ? "base" : "now", state.value) : null;
  width = view.clientWidth;
  largestChange = 0;
  if (data.base) for (let n = 1; n <= N; n++) largestChange = Math.max(largestChange, Math.abs(changeOf(n)));
  countRows();
  scrollArea.style.height = rows * rowHeight + "px";
  if (!keepPlace) view.scrollTop = state.inverted ? Math.max(0, (depth[state.zoom] - 2) * rowHeight) :
    Math.max(0, topOfFrame(state.zoom) + 3 * rowHeight - view.clientHeight);
  byId("reset").disabled = state.zoom === 0;
  byId("total").textContent = (state.side === "base" ? "baseline " : "") + valueWithName(now.total[0]) +
    (compared ? ", " + otherSide() + " " + valueWithName(compared.total[0]) : "");
  countMatches();
  showDetails(selectedOrZoomed());
  redraw();
}

// ---- from a place to its frame ----

function nodeAt(clientX, clientY) {
  const box = canvas.getBoundingClientRect();
  const x = clientX - box.left, y = clientY - box.top + view.scrollTop;
  if (x < 0 || x > width || clientY < box.top || clientY > box.bottom) return -1;
  const row = Math.floor(y / rowHeight), d = state.inverted ? row : rows - 1 - row;
  let n = state.zoom;
  if (d < 0 || d >= rows) return -1;
  if (d <= depth[n]) {
    while (depth[n] > d) n = parent[n];
    return n;
  }
  const at = now.x[n] + x / scale();
  while (depth[n] < d) {
    let c = n + 1, found = 0;
    while (c <= last[n]) {
      if (isDrawn(c) && at >= now.x[c] && at < now.x[c] + now.total[c]) { found = c; break; }
      c = last[c] + 1;
    }
    if (!found) return -1;
    n = found;
  }
  return n;
}

// The nearest drawn frame in the same row; by: 1 to the right, -1 to the left.
function neighbour(n, by) {
  for (let m = n + by; m >= state.zoom && m <= last[state.zoom]; m += by) {
    if (depth[m] === depth[n] && isDrawn(m)) return m;
  }
  return n;
}
function frameAbove(n) {
  if (n < state.zoom) { // a caller of the zoomed frame: step towards it
    let m = state.zoom;
    while (parent[m] !== n) m = parent[m];
    return m;
  }
  let best = n;
  for (let c = n + 1; c <= last[n]; c = last[c] + 1) {
    if (isDrawn(c) && (best === n || now.total[c] > now.total[best])) best = c;
  }
  return best;
}

// ---- details of a frame ----

function selectedOrZoomed() { return state.selected >= 0 ? state.selected : state.zoom; }
function otherSide() { return state.side === "now" ? "baseline" : "this profile"; }
function changeText(n) {
  const points = (100 * changeOf(n)).toFixed(2);
  return withSign(points) + (byId("normal").checked ? " points" : "% of all");
}
function showDetails(n) {
  byId("name").textContent = nameOf(n) + (moduleOf(n) && moduleOf(n) !== nameOf(n) ? "  " + moduleOf(n) : "");
  let text = valueWithName(now.total[n]) + ", " + percent(now.total[n], now.total[0]);
  const isBelowZoom = state.zoom && n > state.zoom;
  if (isBelowZoom) text += " (" + percent(now.total[n], now.total[state.zoom]) + " of the zoomed frame)";
  text += ", itself " + formatValue(now.own[n]);
  if (compared && n > 0) text += ", " + changeText(n);
  byId("what").textContent = text;
}
function newElement(tag, text, kind) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (kind) e.className = kind;
  return e;
}
const tip = byId("tip");
function addRow(table, ...cells) {
  const tr = table.insertRow();
  for (const cell of cells) tr.insertCell().textContent = cell;
}
const kinds = ["", "inlined", "kernel", ""];
function showTip(n, event) {
  if (n < 0) { tip.hidden = true; return; }
  tip.replaceChildren(newElement("div", nameOf(n), "name"));
  const kind = n > 0 ? kinds[data.functions[func[n]][2]] : "";
  const from = [moduleOf(n), kind].filter(w => w && w !== nameOf(n) && !moduleOf(n).includes("[" + w)).join(", ");
  if (from) tip.append(newElement("div", from, "from"));
  const table = tip.appendChild(newElement("table"));
  const all = now.total[0];
  addRow(table, "total", valueWithName(now.total[n]), percent(now.total[n], all));
  addRow(table, "itself", valueWithName(now.own[n]), percent(now.own[n], all));
  const isBelowZoom = state.zoom && n > state.zoom;
  if (isBelowZoom) addRow(table, "of the zoomed frame", "", percent(now.total[n], now.total[state.zoom]));
  if (compared) {
    addRow(table, otherSide(), valueWithName(compared.total[n]), percent(compared.total[n], compared.total[0]));
    if (n > 0) addRow(table, "change", "", changeText(n));
  }
  tip.hidden = false;
  const box = tip.getBoundingClientRect(), gap = 14;
  let x = event.clientX + gap, y = event.clientY + gap;
  if (x + box.width > innerWidth - 4) x = Math.max(4, event.clientX - gap - box.width);
  if (y + box.height > innerHeight - 4) y = Math.max(4, event.clientY - gap - box.height);
  tip.style.left = x + "px";
  tip.style.top = y + "px";
}

// ---- searching ----

function searchFor(text) {
  state.query = text;
  match = null;
  byId("search").setAttribute("aria-invalid", "false");
  if (text) {
    const plain = text.toLowerCase() === text;
    let test;
    try {
      const pattern = new RegExp(text, plain ? "i" : "");
      test = label => pattern.test(label);
    } catch (e) { // not a valid pattern (yet): search for the text itself
      byId("search").setAttribute("aria-invalid", "true");
      test = plain ? label => label.toLowerCase().includes(text) : label => label.includes(text);
    }
    match = new Uint8Array(data.functions.length);
    for (let f = 0; f < match.length; f++) match[f] = test(labelOf(f)) ? 1 : 0;
  }
  countMatches();
  redraw();
}
// Sums the matches below the zoomed frame, each stack once.
function countMatches() {
  let sum = 0, nr = 0;
  if (match) {
    for (let n = state.zoom; n <= last[state.zoom]; n++) {
      if (n > 0 && match[func[n]] && now.total[n] > 0) {
        sum += now.total[n];
        for (let m = n; m <= last[n]; m++) nr += match[func[m]] && now.total[m] > 0 ? 1 : 0;
        n = last[n];
      }
    }
  }
  matched = nr;
  byId("found").textContent = !match ? "" : nr === 0 ? "no match" :
    percent(sum, now.total[state.zoom]) + (state.zoom ? " of the zoomed frame" : "") + " in " + formatNumber(nr) +
    (nr > 1 ? " frames" : " frame");
  byId("found").className = nr > 0 ? "some" : "";
}
// Selects the match after the selected frame, or before it. If no match is wide enough to draw, zooms until one is
// MATCH_WIDTH wide.
function nextMatch(by) {
  if (!match || !matched) return;
  const first = state.zoom, size = last[first] - first + 1;
  let n = state.selected >= first ? state.selected : first, narrow = 0;
  for (let i = 0; i < size; i++) {
    n = first + (n - first + by + size) % size;
    if (n === 0 || !match[func[n]] || now.total[n] <= 0) continue;
    if (isDrawn(n)) { selectFrame(n); return; }
    narrow = narrow || n;
  }
  if (!narrow) return;
  const isWideIn = zoomed => now.total[narrow] * width >= MATCH_WIDTH * now.total[zoomed];
  let around = narrow;
  while (parent[around] > first && isWideIn(parent[around])) around = parent[around];
  zoomTo(around);
  selectFrame(narrow);
}

// ---- actions ----

function selectFrame(n) {
  state.selected = n;
  const y = topOfFrame(n);
  if (y < view.scrollTop) view.scrollTop = y;
  if (y + rowHeight > view.scrollTop + view.clientHeight) view.scrollTop = y + rowHeight - view.clientHeight;
  showDetails(n);
  redraw();
}
function zoomTo(n, quiet) {
  if (now.total[n] <= 0) return;
  const moved = state.zoom !== n;
  state.zoom = n;
  state.selected = n;
  tip.hidden = true;
  layout();
  if (!quiet) saveInAddress(moved);
}
function invert(yes) {
  state.inverted = yes;
  byId("invert").setAttribute("aria-pressed", String(yes));
  layout();
}
function showTheme() {
  root.dataset.theme = isDark() ? "dark" : "light";
  byId("theme").textContent = isDark() ? "Light" : "Dark";
  showLegend();
  redraw();
}
function showLegend() {
  const box = byId("legend"), dark = isDark();
  box.replaceChildren();
  const entry = (text, paint, kind) => {
    const span = newElement("span"), mark = newElement("i", undefined, kind);
    mark.style.background = paint;
    span.append(mark, text);
    box.append(span);
  };
  if (data.base) {
    const stops = [-1, -0.5, -0.1, 0, 0.1, 0.5, 1].map(t => changeColor(t, dark)).join(",");
    box.append("less than baseline");
    entry("more", "linear-gradient(90deg," + stops + ")", "scale");
    return;
  }
  const words = ["program and libraries", "inlined", "kernel", "unknown"];
  const there = new Set(data.functions.map(f => f[2]));
  for (let kind = 0; kind <= UNKNOWN; kind++) {
    if (there.has(kind) && there.size > 1) {
      const [hue, span, saturation, lighter] = hues[kind];
      entry(words[kind], "hsl(" + (hue + span / 2) + "," + saturation + "%," + ((dark ? 58 : 69) + lighter) + "%)");
    }
  }
}

// The address holds the view, so that "back" works and a link shows the same view.
function saveInAddress(isStep) {
  if (isLive) return;
  const words = new URLSearchParams();
  if (state.zoom) words.set("z", state.zoom);
  if (state.query) words.set("s", state.query);
  if (state.inverted) words.set("i", "1");
  if (state.value) words.set("v", state.value);
  if (state.side !== "now") words.set("w", state.side);
  const hash = "#" + words;
  if (hash === (location.hash || "#")) return;
  try {
    if (isStep) history.pushState(null, "", hash);
    else history.replaceState(null, "", hash);
  } catch (e) { /* some browsers refuse this for file: addresses; the picture does not change */ }
}
function restoreFromAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  const number = (key, end) => { const n = Math.trunc(Number(words.get(key))); return n > 0 && n < end ? n : 0; };
  state.value = number("v", data.values.length);
  state.side = data.base && words.get("w") === "base" ? "base" : "now";
  state.inverted = words.get("i") === "1";
  state.selected = -1;
  byId("value").value = state.value;
  byId("side").value = state.side;
  byId("invert").setAttribute("aria-pressed", String(state.inverted));
  now = cachedSums(state.side, state.value);
  const zoom = number("z", N + 1);
  state.zoom = now.total[zoom] > 0 ? zoom : 0;
  byId("search").value = words.get("s") || "";
  layout();
  searchFor(byId("search").value);
}

// ---- mouse, controls and keys ----

view.addEventListener("scroll", redraw);
view.addEventListener("mousemove", e => {
  const n = nodeAt(e.clientX, e.clientY);
  canvas.style.cursor = n >= 0 ? "pointer" : "default";
  showTip(n, e);
  if (n >= 0) showDetails(n);
});
view.addEventListener("mouseleave", () => { tip.hidden = true; showDetails(selectedOrZoomed()); });
view.addEventListener("click", e => {
  const n = nodeAt(e.clientX, e.clientY);
  if (n >= 0) zoomTo(n);
});
byId("search").addEventListener("input", e => { searchFor(e.target.value); saveInAddress(false); });
byId("value").addEventListener("change", e => {
  state.value = Number(e.target.value);
  now = cachedSums(state.side, state.value);
  if (now.total[state.zoom] <= 0) state.zoom = 0;
  layout();
  saveInAddress(false);
});
byId("side").addEventListener("change", e => {
  state.side = e.target.value;
  now = cachedSums(state.side, state.value);
  if (now.total[state.zoom] <= 0) state.zoom = 0;
  layout();
  saveInAddress(false);
});
byId("normal").addEventListener("change", () => layout(true));
byId("reset").addEventListener("click", () => { zoomTo(0); view.focus(); });
byId("invert").addEventListener("click", () => { invert(!state.inverted); saveInAddress(false); });
byId("theme").addEventListener("click", () => { theme = isDark() ? "light" : "dark"; showTheme(); });
byId("help").addEventListener("click", () => byId("keys").showModal());
prefersDark.addEventListener("change", showTheme);
window.addEventListener("resize", () => { measureFont(); layout(true); });
if (!isLive) window.addEventListener("popstate", restoreFromAddress);

const keys = {
  "/": () => { byId("search").focus(); byId("search").select(); },
  "?": () => byId("keys").showModal(),
  n: () => nextMatch(1),
  N: () => nextMatch(-1),
  i: () => { invert(!state.inverted); saveInAddress(false); },
  t: () => { theme = isDark() ? "light" : "dark"; showTheme(); },
  Enter: () => zoomTo(selectedOrZoomed()),
  Backspace: () => zoomTo(parent[state.zoom]),
  Home: () => selectFrame(state.zoom),
  ArrowLeft: n => selectFrame(neighbour(n, -1)),
  ArrowRight: n => selectFrame(neighbour(n, 1)),
  ArrowUp: n => selectFrame(state.inverted ? parent[n] : frameAbove(n)),
  ArrowDown: n => selectFrame(state.inverted ? frameAbove(n) : parent[n]),
  Escape: () => {
    tip.hidden = true;
    if (state.query) { byId("search").value = ""; searchFor(""); saveInAddress(false); } else zoomTo(0);
  },
};
document.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey || byId("keys").open) return;
  const typing = e.target === byId("search");
  if (typing && e.key !== "Escape" && e.key !== "Enter") return;
  if (typing && e.key === "Enter") { view.focus(); nextMatch(1); return; }
  const isFree = isLive ? e.key === "/" && !/^(INPUT|SELECT)$/.test(e.target.tagName) :
    e.target === document.body || e.key === "/" || e.key === "Escape";
  if (e.target !== view && !typing && !isFree) return;
  const act = keys[e.key];
  if (!act) return;
  e.preventDefault();
  if (typing) view.focus();
  act(selectedOrZoomed());
});

// ---- one profile after the other ----

// The place of a node among others: the functions from the outermost to it.
function pathOf(n) {
  const path = [];
  for (; n > 0; n = parent[n]) path.unshift(labelOf(func[n]));
  return path;
}
// The node at a path, or the innermost one of it that exists.
function nodeAtPath(path) {
  let n = 0;
  for (const label of path) {
    let c = n + 1;
    while (c <= last[n] && labelOf(func[c]) !== label) c = last[c] + 1;
    if (c > last[n]) return n;
    n = c;
  }
  return n;
}

function showOptions() {
  byId("title").textContent = data.title || "Flame graph";
  byId("value").replaceChildren(...data.values.map((value, i) => {
    const option = newElement("option", value.name);
    option.value = i;
    return option;
  }));
  byId("pick").hidden = data.values.length < 2;
  byId("widths").hidden = byId("even").hidden = !data.base;
}

// Shows another profile; the zoomed and the selected frame, the search and the value stay.
function load(profile) {
  const zoomed = pathOf(state.zoom), selected = state.selected >= 0 ? pathOf(state.selected) : null;
  // The outermost frame is at the bottom: the part below the view stays.
  const below = N > 0 && !state.inverted ? Math.max(rows * rowHeight - view.scrollTop, view.clientHeight) : 0;
  readTree(profile);
  if (state.value >= data.values.length) state.value = 0;
  if (!data.base) state.side = "now";
  showOptions();
  byId("value").value = state.value;
  byId("side").value = state.side;
  now = cachedSums(state.side, state.value);
  state.zoom = nodeAtPath(zoomed);
  while (state.zoom && now.total[state.zoom] <= 0) state.zoom = parent[state.zoom];
  state.selected = selected ? Math.max(nodeAtPath(selected), state.zoom) : -1;
  tip.hidden = true;
  showLegend();
  layout(below > 0);
  if (below > 0) view.scrollTop = rows * rowHeight - below;
  searchFor(state.query);
}

readTree(firstProfile);
showOptions();
byId("normal").checked = !data.absolute;
measureFont();
showTheme();
restoreFromAddress();
return load;
};
