"use strict";

// The live page: takes the events of the server and shows the run, its aggregators and its profiles.
(function () {
const { plain, clock, newElement } = window.pageText;
const byId = id => document.getElementById(id);
const MINUTE = 60000, RETRY_MS = 3000, MOST_REST_MS = 5000;
const nothing = { title: "", values: [{ name: "samples", unit: "count" }], functions: [], func: [], depth: [],
  own: [[]] };

const loadFlame = window.showFlameGraph(nothing, { live: true });
byId("buttons").append(byId("theme"));
let events = null, run = null, parts = Object.create(null), paused = false, ended = false, lastUpdate = null;

// ---- header ----

function setStatus(state, text) {
  byId("status").dataset.state = state;
  byId("status").textContent = text;
}
function duration(ms) {
  const s = Math.floor(ms / 1000), two = n => String(n).padStart(2, "0");
  return s < 60 ? (ms / 1000).toFixed(0) + " s" : s < 3600 ? Math.floor(s / 60) + ":" + two(s % 60) :
    Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) + ":" + two(s % 60);
}
function showFacts(list) {
  const box = byId("facts");
  while (box.childElementCount < list.length) {
    const pair = newElement("div");
    pair.append(newElement("dt"), newElement("dd"));
    box.append(pair);
  }
  list.forEach(([word, value], i) => {
    box.children[i].firstElementChild.textContent = word;
    box.children[i].lastElementChild.textContent = value;
  });
}
function showHeader(update) {
  const { totals, cpu_ms, elapsed_ms } = update, before = lastUpdate;
  const span = before ? update.elapsed_ms - before.elapsed_ms : 0;
  const rate = span > 0 ? (totals.records - before.totals.records) * 1000 / span : 0;
  const load = span > 0 ? 100 * (cpu_ms - before.cpu_ms) / span : elapsed_ms > 0 ? 100 * cpu_ms / elapsed_ms : 0;
  showFacts([["host", run.host], ["running", duration(elapsed_ms)],
    ["records", plain(totals.records)], ["records per s", plain(Math.round(Math.max(rate, 0)))],
    ["lost", plain(totals.lost)], ["own CPU", (cpu_ms / 1000).toFixed(2) + " s, " + load.toFixed(1) + "%"]]);
  const losses = update.losses || [];
  byId("losses").hidden = losses.length === 0;
  byId("losses").textContent = losses.join("; ");
  lastUpdate = update;
}

// ---- time: selection and mark ----

const flame = { range: "all", mark: null, busy: false, wanted: false, next: 0, profile: null };
const timelines = window.makeTimelines(selection => {
  const radio = document.querySelector("[name=range][value=selected]");
  radio.disabled = !selection;
  if (selection) chooseRange("selected");
  else if (flame.range === "selected") chooseRange("all");
  showRanges();
});
function timeWords(from, to) {
  return clock(run.started_ms + from) + " to " + clock(run.started_ms + to) + " (" + plain((to - from) / 1000) + " s)";
}
// The histograms show the selected range, too.
function showRanges() {
  const selection = timelines.selection();
  for (const part of Object.values(parts)) {
    if (!part.values || !part.about.heat || part.about.kind !== "hist") continue;
    if (selection) {
      part.values.showRange(timelines.cells(part.about.name, selection.from, selection.to),
        timeWords(selection.from, selection.to));
    } else {
      part.values.showRange(null);
    }
  }
}

// ---- the flame graph ----

function chooseRange(value) {
  flame.range = value;
  document.querySelector("[name=range][value=" + value + "]").checked = true;
  loadProfile(true);
}
function queryOf() {
  const words = new URLSearchParams({ profile: flame.profile });
  const end = timelines.lastEnd(), selection = timelines.selection();
  if (flame.range === "minute") words.set("from", Math.max(0, end - MINUTE));
  if (flame.range === "mark") words.set("mark", flame.mark);
  if (flame.range === "selected" && selection) {
    words.set("from", selection.from);
    words.set("to", selection.to);
  }
  return words;
}
function shownText(profile) {
  if (flame.range === "mark") {
    return "since " + clock(run.started_ms + profile.from) + ", compared with all before";
  }
  return (profile.to > profile.from ? timeWords(profile.from, profile.to) : "no samples") +
    (profile.left_out ? ", " + plain(profile.left_out) + " small frames are in (other)" : "");
}
// Asks for the profile of the chosen time: at once if the user has chosen it; refreshes leave time for the rest.
function loadProfile(isChosen) {
  if (!flame.profile || !run) return;
  if (flame.busy) { flame.wanted = flame.wanted || isChosen; return; }
  const began = performance.now();
  if (began < flame.next && !isChosen) return;
  flame.busy = true;
  flame.wanted = false;
  fetch("/flame.json?" + queryOf(), { cache: "no-store" }).then(answer => {
    if (!answer.ok) throw new Error(answer.status);
    return answer.json();
  }).then(profile => {
    loadFlame(profile);
    byId("shown").textContent = shownText(profile);
    flame.next = performance.now() + Math.min(4 * (performance.now() - began), MOST_REST_MS);
  }).catch(() => {
    flame.next = performance.now() + RETRY_MS;
  }).then(() => {
    flame.busy = false;
    if (flame.wanted) loadProfile(true);
  });
}
function setMark() {
  if (!run || !flame.profile) return;
  flame.mark = timelines.lastEnd();
  timelines.mark(flame.mark);
  byId("mark").textContent = "Mark " + clock(run.started_ms + flame.mark);
  document.querySelector("[name=range][value=mark]").disabled = false;
  chooseRange("mark");
}

// ---- the parts of the page ----

function unitOf(part) { return part.values[0].unit === "count" ? "" : part.values[0].unit; }
function showProfiles(list) {
  byId("flame").hidden = list.length === 0;
  byId("profiles").hidden = list.length < 2;
  byId("profile").replaceChildren(...list.map(part => {
    const option = newElement("option", part.title);
    option.value = part.name;
    return option;
  }));
  if (list.length === 0) return;
  if (!list.some(part => part.name === flame.profile)) flame.profile = list[0].name;
  byId("profile").value = flame.profile;
  showRate(list.find(part => part.name === flame.profile));
}
let rateChart = null;
function showRate(part) {
  if (rateChart) timelines.charts.splice(timelines.charts.indexOf(rateChart), 1);
  rateChart = timelines.add_chart(byId("rate"), { name: part.name, kind: "rate", unit: unitOf(part),
    title: part.values[0].name + " per second" });
}
function showParts(list) {
  timelines.remove();
  rateChart = null;
  for (const part of Object.values(parts)) if (part.box) part.box.remove();
  parts = Object.create(null);
  for (const about of list.filter(part => part.type === "aggregator")) {
    const box = newElement("section", undefined, "panel");
    byId("parts").append(box);
    parts[about.name] = { about, box, values: window.showValues(box, about) };
    if (about.heat) {
      const chart = newElement("div", undefined, "timeline");
      box.append(chart);
      timelines.add_chart(chart, { name: about.name, kind: "heat", unit: about.unit,
        title: (about.by.length ? "all keys" : about.title) + " over time" });
    }
  }
  showProfiles(list.filter(part => part.type === "profile"));
}
function spanWords(ms) {
  const minutes = ms / MINUTE;
  return minutes === 60 ? "hour" : minutes % 60 === 0 ? minutes / 60 + " hours" : plain(minutes) + " minutes";
}
function start(hello) {
  const isSame = run && run.started_ms === hello.run.started_ms &&
    JSON.stringify(hello.parts) === JSON.stringify(run.parts);
  run = hello.run;
  run.parts = hello.parts;
  lastUpdate = null;
  byId("script").textContent = run.script;
  byId("command").textContent = run.command;
  document.title = run.script + " on " + run.host + " – perfl";
  byId("kept").textContent = "While a page is open, perfl keeps the last " + spanWords(run.fine * run.slot_ms) +
    " in slots of " + duration(run.slot_ms) + ", and the " + spanWords(run.coarse * run.coarse_ms) +
    " before them in slots of " + duration(run.coarse_ms) + ". Older slots are merged into one. " +
    "A range is rounded to slots.";
  if (!isSame) {
    flame.mark = null;
    timelines.mark(null);
    byId("mark").textContent = "Mark";
    showParts(hello.parts);
    if (timelines.selection()) timelines.clearSelection();
    if (flame.range !== "all") chooseRange("all");
    document.querySelector("[name=range][value=mark]").disabled = true;
  }
  timelines.reset(run, hello.slots);
  setStatus("live", "live");
}
function take(update) {
  for (const [begin, end] of update.merged || []) timelines.merge(begin, end);
  if (update.slot) timelines.add(update.slot);
  for (const [name, state] of Object.entries(update.parts || {})) {
    if (parts[name]) parts[name].values.update(state, update.elapsed_ms);
  }
  showHeader(update);
  if (flame.range !== "selected" && !document.hidden) loadProfile(false);
}

// ---- the stream ----

function connect() {
  if (events) events.close();
  events = new EventSource("/events");
  const read = f => e => { if (!paused) f(JSON.parse(e.data)); };
  events.addEventListener("hello", read(start));
  events.addEventListener("update", read(take));
  events.addEventListener("end", () => {
    ended = true;
    events.close();
    setStatus("ended", "the run has ended");
  });
  events.addEventListener("error", () => {
    if (paused || ended) return;
    setStatus("lost", "no answer: the run may have ended; trying again");
    if (events.readyState !== EventSource.CLOSED) return; // the browser tries again itself
    const failed = events;
    setTimeout(() => { if (events === failed && !paused) connect(); }, RETRY_MS);
  });
}
function pause(yes) {
  if (ended) return;
  paused = yes;
  byId("pause").setAttribute("aria-pressed", String(yes));
  byId("pause").textContent = yes ? "Resume" : "Pause";
  if (yes) {
    events.close();
    setStatus("paused", "paused");
  } else {
    setStatus("waiting", "connecting");
    connect();
  }
}

byId("pause").addEventListener("click", () => pause(!paused));
byId("mark").addEventListener("click", setMark);
byId("profile").addEventListener("change", e => {
  flame.profile = e.target.value;
  showRate(run.parts.find(part => part.name === flame.profile));
  timelines.redraw();
  loadProfile(true);
});
byId("ranges").addEventListener("change", e => chooseRange(e.target.value));
document.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT)$/.test(e.target.tagName) || byId("keys").open) return;
  if (e.key === "p") pause(!paused);
  if (e.key === "m") setMark();
});
new MutationObserver(timelines.redraw).observe(document.documentElement, { attributes: true,
  attributeFilter: ["data-theme"] });
connect();
})();
