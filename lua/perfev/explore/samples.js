"use strict";

// The samples of the page: their columns as arrays, and the sums of a range of time.
// Times are ns since the first sample or, if that is earlier, the begin of the first wait.
// A range is { from, to }: both ends belong to it, as of perfl --from and --to.
(function () {
const SECOND = 1e9;

// ---- reading ----

const codes = new Uint8Array(128);
[..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].forEach((c, i) => {
  codes[c.charCodeAt(0)] = i;
});
// Returns the numbers of a column of so many rows: see columns.lua.
function readColumn(column, nr) {
  const list = new Float64Array(nr);
  if (typeof column === "number") return list.fill(column);
  let at = 0, bits = 0, held = 0;
  for (let i = 0; i < nr; i++) {
    let value = 0, scale = 1, byte;
    do {
      while (held < 8) {
        bits = (bits << 6 | codes[column.charCodeAt(at++)]) & 0x3fff;
        held += 6;
      }
      held -= 8;
      byte = bits >> held & 0xff;
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte & 128);
    list[i] = value;
  }
  return list;
}
function zigzag(value) { return value % 2 ? -(value + 1) / 2 : value / 2; }

// Puts the samples into the order of time: a record that came late is out of place.
function inOrder(samples) {
  const { time, nr } = samples;
  let i = 1;
  while (i < nr && time[i - 1] <= time[i]) i++;
  if (i >= nr) return;
  const order = Uint32Array.from({ length: nr }, (_, k) => k).sort((a, b) => time[a] - time[b] || a - b);
  for (const name of ["time", "event", "cpu", "task", "node", "value"]) {
    const old = samples[name];
    samples[name] = old.map((_, k) => old[order[k]]);
  }
}

function readChunks(data) {
  const nr = data.about.samples;
  const samples = { nr, time: new Float64Array(nr), event: new Uint16Array(nr), cpu: new Int16Array(nr),
    task: new Int32Array(nr), node: new Int32Array(nr), value: new Float64Array(nr) };
  let at = 0, last = 0;
  for (const [rows, ...columns] of data.chunks) {
    const [time, event, cpu, task, stack, value] = columns.map(column => readColumn(column, rows));
    for (let i = 0; i < rows; i++, at++) {
      last += zigzag(time[i]);
      samples.time[at] = last;
      samples.event[at] = event[i] - 1;
      samples.cpu[at] = cpu[i] - 1;
      samples.task[at] = task[i] - 1;
      samples.node[at] = data.nodes[stack[i] - 1];
      samples.value[at] = value[i];
    }
  }
  inOrder(samples);
  let first = 0; // a late sample, or the begin of a wait, is earlier than the first sample
  const isWait = data.about.events.map(event => event.wait);
  for (let i = 0; i < nr; i++) {
    first = Math.min(first, samples.time[i] - (isWait[samples.event[i]] ? samples.value[i] : 0));
  }
  if (first < 0) {
    for (let i = 0; i < nr; i++) samples.time[i] -= first;
    samples.before = -first;
  }
  return samples;
}

// ---- times as text: seconds on the recording's clock, with nine digits ----

function parseSeconds(text) {
  const words = /^(\d+)(?:\.(\d{0,9}))?$/.exec(text);
  return words && { seconds: Number(words[1]), ns: Number((words[2] || "").padEnd(9, "0")),
    digits: (words[2] || "").length };
}

// data: of the page
window.readSamples = function (data) {
  const samples = readChunks(data), { time, nr } = samples, events = data.about.events;
  const start = parseSeconds(data.about.start);
  start.ns -= samples.before || 0;
  samples.end = nr ? time[nr - 1] : 0;
  samples.events = events;
  samples.tasks = data.tasks.map(([pid, tid, comm]) => ({ pid, tid, comm }));
  samples.cpus = [...new Set(samples.cpu)].sort((a, b) => a - b);
  // An event whose samples all stand for 1 needs no second value.
  const isCounted = events.map(() => true);
  for (let i = 0; i < nr; i++) if (samples.value[i] !== 1) isCounted[samples.event[i]] = false;
  samples.isCounted = isCounted;

  samples.textOf = ns => {
    const whole = start.ns + ns, carry = Math.floor(whole / SECOND);
    return start.seconds + carry + "." + String(whole - carry * SECOND).padStart(9, "0");
  };
  // The text of a --from or --to as ns; six digits of a --to mean the whole microsecond, as perf script prints it.
  samples.timeOf = (text, isEnd) => {
    const words = parseSeconds(text);
    if (!words) return null;
    const ns = (words.seconds - start.seconds) * SECOND + words.ns - start.ns;
    return isEnd && words.digits === 6 ? ns + 999 : ns;
  };
  // The number of the first sample at or after a time.
  samples.indexAt = ns => {
    let low = 0, high = nr;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (time[middle] >= ns) high = middle; else low = middle + 1;
    }
    return low;
  };
  // A wait belongs to a range if its begin and its end do.
  samples.isIn = (i, range) => !events[samples.event[i]].wait || time[i] - samples.value[i] >= range.from;
  // chosen: { events: list of booleans, cpu, tid: null or a number }
  samples.isChosen = (i, chosen) => chosen.events[samples.event[i]] &&
    (chosen.cpu === null || samples.cpu[i] === chosen.cpu) &&
    (chosen.tid === null || samples.tasks[samples.task[i]].tid === chosen.tid);
  // Calls visit(i) for each chosen sample of the range.
  samples.visit = (range, chosen, visit) => {
    const end = samples.indexAt(range.to + 1);
    for (let i = samples.indexAt(range.from); i < end; i++) {
      if (samples.isChosen(i, chosen) && samples.isIn(i, range)) visit(i);
    }
  };
  return samples;
};

// ---- folded stacks ----

// By bytes of UTF-8, which is by code points.
function compareText(a, b) {
  for (let i = 0; i < a.length && i < b.length; i++) {
    const x = a.codePointAt(i), y = b.codePointAt(i);
    if (x !== y) return x - y;
  }
  return a.length - b.length;
}
const marks = ["", "_[i]", "_[k]", ""]; // by the kind of a function
// flame: functions, func, depth; own: the values of the nodes. Returns the text of perfl profile -f folded.
window.foldedStacks = function (flame, own) {
  const names = flame.functions.map(([name, , kind]) => name.replace(/;/g, ":") + marks[kind]);
  const sums = new Map(), path = [];
  for (let n = 0; n < own.length; n++) {
    path.length = flame.depth[n] - 1;
    path.push(names[flame.func[n] - 1]);
    if (own[n]) {
      const text = path.join(";");
      sums.set(text, (sums.get(text) || 0) + own[n]);
    }
  }
  return [...sums].map(([text, sum]) => text + " " + sum + "\n").sort(compareText).join("");
};
})();
