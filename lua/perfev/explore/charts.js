"use strict";

// The charts of the page: the heat map of offsets, the lanes of CPUs or tasks, the rate; and the selected range.
(function () {
const { plain, withUnit, newElement } = window.pageText, { heatColors, heatOf } = window.heatScale;
const LEFT = 112, NARROW_LEFT = 76, RIGHT = 8, TOP = 3, BOTTOM = 18; // px around a chart
const ROWS = 50; // of the heat map: parts of a column's time
const HEAT_HEIGHT = 200, RATE_HEIGHT = 64, LANE = 15, LEAST_LANE = 4, LANES_HEIGHT = 320, TASKS = 12;
const STEPS = 200; // of the keyboard, on a chart
const units = [1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 6e10, 6e11, 36e11];
const IDEAL_COLUMNS = [20, 240], MOST_SECONDS = 600;

function unitFor(span) {
  const columns = unit => span / unit;
  if (columns(1e9) >= 8 && columns(1e9) <= MOST_SECONDS) return 1e9;
  const fits = units.filter(unit => columns(unit) <= IDEAL_COLUMNS[1]);
  return fits.filter(unit => columns(unit) >= IDEAL_COLUMNS[0]).pop() || fits[0] || units[units.length - 1];
}
function axisStep(span, room) {
  let step = 1;
  const least = Math.max(room, 84); // a hidden chart has no room
  for (let i = 0; span / step * 84 > least; i++) step *= [2, 2.5, 2][i % 3];
  return step;
}
function hueOf(word) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < word.length; i++) hash = Math.imul(hash ^ word.charCodeAt(i), 0x01000193) >>> 0;
  return (hash ^ hash >>> 15) % 360;
}

// samples: of samples.js; boxes: { heat, lanes, curve }; chosen: as for samples.visit();
// onSelect(range or null, isFinal); onKey(word): "zoom" or "whole"
window.makeCharts = function (samples, boxes, chosen, onSelect, onKey) {
  const whole = { from: 0, to: Math.max(samples.end, 1) };
  const canWait = samples.events.some(event => event.wait);
  let view = whole, selection = null, unit = unitFor(whole.to), lanesBy = "cpu", waiting = false;
  let version = 0; // grows when the counts of the charts are no longer true

  const [scaleOfTimes, unitOfTimes] = whole.to < 1e6 ? [1e3, " µs"] : whole.to < 1e9 ? [1e6, " ms"] : [1e9, " s"];
  function sinceStart(ns) {
    return "+" + (ns / scaleOfTimes).toLocaleString("en-US", { maximumFractionDigits: 9 }) + unitOfTimes;
  }
  function look() {
    const style = getComputedStyle(document.documentElement);
    const color = word => style.getPropertyValue("--" + word).trim();
    return { soft: color("soft"), line: color("line"), ink: color("ink"), paper: color("paper"),
      select: color("select"), dark: document.documentElement.dataset.theme === "dark" };
  }
  function visitView(visit) { // waits that are only partly in view, too
    const end = samples.indexAt(view.to + 1);
    for (let i = samples.indexAt(view.from); i < end; i++) if (samples.isChosen(i, chosen)) visit(i);
  }

  // ---- a chart: a canvas with its line of text, the mouse and the keys ----

  // spec: title, height(), draw(pen, place, look), cellAt(x, y, place) -> range, tell(range, x, y, place) -> text,
  // step() -> [ns of a small step, of a large one]
  function makeChart(box, spec, control) {
    const line = newElement("div", undefined, "line"), told = newElement("span", "", "told");
    const canvas = newElement("canvas"), pen = canvas.getContext("2d");
    const place = { left: LEFT, width: 0, height: 0 };
    let anchor = null, cursor = null;
    told.setAttribute("role", "status");
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", spec.title + ". Arrow keys move, with Shift they select a range, Enter selects " +
      "a step, Escape selects all, z and x zoom in and out.");
    line.append(newElement("h3", spec.title), told);
    if (control) line.append(control);
    box.replaceChildren(line, canvas);
    place.x = ns => place.left + (place.width - place.left - RIGHT) * (ns - view.from) / (view.to + 1 - view.from);

    function draw() {
      const ratio = window.devicePixelRatio || 1, colors = look();
      place.width = canvas.clientWidth;
      place.left = place.width < 700 ? NARROW_LEFT : LEFT;
      place.height = spec.height();
      canvas.style.height = place.height + "px";
      canvas.width = Math.round(place.width * ratio);
      canvas.height = Math.round(place.height * ratio);
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
      pen.fillStyle = colors.paper;
      pen.fillRect(place.left, TOP, Math.max(place.width - place.left - RIGHT, 0), place.height - TOP - BOTTOM);
      spec.draw(pen, place, colors);
      if (cursor && canvas.matches(":focus-visible")) spec.outline(pen, place, cursor, colors.ink);
    }
    const at = e => {
      const area = canvas.getBoundingClientRect();
      return [e.clientX - area.left, e.clientY - area.top];
    };
    const joined = (a, b) => ({ from: Math.max(Math.min(a.from, b.from), 0), to: Math.max(a.to, b.to) });
    canvas.addEventListener("pointerdown", e => {
      if (e.button !== 0 || !samples.nr) return;
      anchor = cursor = spec.cellAt(...at(e), place);
      canvas.setPointerCapture(e.pointerId);
      onSelect(joined(anchor, anchor), false);
    });
    canvas.addEventListener("pointermove", e => {
      if (!samples.nr) return;
      const cell = spec.cellAt(...at(e), place);
      told.textContent = spec.tell(cell, ...at(e), place);
      if (canvas.hasPointerCapture(e.pointerId) && anchor) onSelect(joined(anchor, cell), false);
    });
    canvas.addEventListener("pointerup", e => {
      if (anchor && canvas.hasPointerCapture(e.pointerId)) onSelect(joined(anchor, spec.cellAt(...at(e), place)), true);
      anchor = null;
    });
    canvas.addEventListener("pointercancel", () => { anchor = null; });
    canvas.addEventListener("pointerleave", () => { told.textContent = ""; });
    canvas.addEventListener("focus", redraw);
    canvas.addEventListener("blur", redraw);
    canvas.addEventListener("keydown", e => {
      if (e.ctrlKey || e.metaKey || e.altKey || !samples.nr) return;
      const [small, large] = spec.step();
      const by = { ArrowUp: small, ArrowDown: -small, ArrowLeft: -large, ArrowRight: large,
        PageUp: -10 * large, PageDown: 10 * large, Home: -Infinity, End: Infinity }[e.key];
      if (by) {
        const old = cursor || { from: selection ? selection.from : view.from };
        if (e.shiftKey && !anchor) anchor = cursor || spec.cellOf(old.from);
        cursor = spec.cellOf(Math.max(view.from, Math.min(view.to, old.from + by)));
        told.textContent = spec.tell(cursor);
        if (e.shiftKey) onSelect(joined(anchor, cursor), true); else anchor = null;
      } else if ((e.key === "Enter" || e.key === " ") && cursor) {
        onSelect(joined(cursor, cursor), true);
      } else if (e.key === "Escape") {
        onSelect(null, true);
      } else if (e.key === "z" || e.key === "x") {
        onKey(e.key === "z" ? "zoom" : "whole");
      } else {
        return;
      }
      e.preventDefault();
      redraw();
    });
    return { draw, forget() { cursor = anchor = null; } };
  }

  function drawTimes(pen, place, colors) {
    const room = place.width - place.left - RIGHT, step = axisStep(view.to - view.from, room);
    pen.fillStyle = colors.soft;
    pen.textAlign = "center";
    for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
      const x = place.x(t);
      if (x > place.left + 8 && x < place.width - 24) pen.fillText(sinceStart(t), x, place.height - 5);
    }
  }
  // What is not selected is pale.
  function drawSelection(pen, place, colors) {
    if (!selection) return;
    const end = place.width - RIGHT, inside = x => Math.min(Math.max(x, place.left), end);
    const x0 = inside(place.x(selection.from)), x1 = inside(place.x(selection.to + 1));
    const tall = place.height - TOP - BOTTOM;
    pen.globalAlpha = 0.66;
    pen.fillStyle = colors.paper;
    pen.fillRect(place.left, TOP, x0 - place.left, tall);
    pen.fillRect(x1, TOP, end - x1, tall);
    pen.globalAlpha = 1;
    pen.strokeStyle = colors.select;
    pen.lineWidth = 1.5;
    pen.strokeRect(x0 - 0.75, TOP + 0.75, Math.max(x1 - x0, 0) + 1.5, tall - 1.5);
  }
  function outlineRange(pen, place, range, color) {
    pen.strokeStyle = color;
    pen.lineWidth = 2;
    pen.strokeRect(place.x(range.from), TOP + 1, Math.max(place.x(range.to + 1) - place.x(range.from), 2),
      place.height - TOP - BOTTOM - 2);
  }
  // Of the charts whose time goes to the right: the time of a pixel, and of a step of the keyboard.
  const linear = {
    outline: outlineRange,
    cellAt(x, y, place) {
      const room = place.width - place.left - RIGHT, span = view.to + 1 - view.from;
      const left = Math.max(0, Math.min(room - 1, Math.floor(x - place.left)));
      const from = Math.floor(view.from + span * left / room);
      return { from, to: Math.max(Math.floor(view.from + span * (left + 1) / room) - 1, from) };
    },
    cellOf(ns) {
      const [step] = linear.step(), from = view.from + Math.floor((ns - view.from) / step) * step;
      return { from, to: from + step - 1 };
    },
    step() {
      const step = Math.max(1, Math.round((view.to - view.from) / STEPS));
      return [step, step];
    },
  };

  // ---- the heat map ----

  const pickUnit = newElement("select");
  pickUnit.setAttribute("aria-label", "Time of a column");
  function offerUnits() {
    const span = view.to - view.from, some = units.filter(u => u === unit || span / u <= 1000 && span / u >= 2);
    pickUnit.replaceChildren(...some.map(u => {
      const option = newElement("option", withUnit(u, "ns") + " a column");
      option.value = u;
      return option;
    }));
    pickUnit.value = unit;
  }
  const heat = { first: 0, columns: 1, counts: null, most: 1 };
  function countHeat() {
    heat.first = Math.floor(view.from / unit);
    heat.columns = Math.floor(view.to / unit) - heat.first + 1;
    heat.counts = new Uint32Array(heat.columns * ROWS);
    const step = unit / ROWS, base = heat.first * ROWS;
    visitView(i => {
      heat.counts[Math.floor(samples.time[i] / step) - base]++;
    });
    // The strongest colour begins at the 99th of 100 cells, so that a single burst does not make the rest pale.
    const there = heat.counts.filter(count => count > 0).sort();
    heat.most = there[Math.floor(there.length * 0.99)] || 1;
  }
  const heatPlace = place => ({ wide: (place.width - place.left - RIGHT) / heat.columns,
    tall: (place.height - TOP - BOTTOM) / ROWS, bottom: place.height - BOTTOM });
  // Calls paint(column, first row, last row) for each column of a range.
  function visitColumns(range, paint) {
    const step = unit / ROWS, a = Math.floor(range.from / step), b = Math.floor(range.to / step);
    const first = heat.first * ROWS, last = first + heat.columns * ROWS - 1;
    for (let cell = Math.max(a, first); cell <= Math.min(b, last);) {
      const column = Math.floor(cell / ROWS), end = Math.min((column + 1) * ROWS - 1, b);
      paint(column - heat.first, cell - column * ROWS, end - column * ROWS);
      cell = end + 1;
    }
  }
  function outlineCells(pen, place, range, color) {
    const { wide, tall, bottom } = heatPlace(place);
    pen.fillStyle = color;
    visitColumns(range, (column, low, high) => {
      const x = place.left + column * wide, y0 = bottom - low * tall, y1 = bottom - (high + 1) * tall;
      pen.fillRect(x, y0 - 1.5, wide, 1.5);
      pen.fillRect(x, y1, wide, 1.5);
    });
    for (const [ns, side] of [[range.from, 0], [range.to, 1]]) {
      visitColumns({ from: ns, to: ns }, column => {
        let low = 0, high = ROWS - 1;
        visitColumns(range, (c, a, b) => { if (c === column) { low = a; high = b; } });
        const x = place.left + (column + side) * wide;
        pen.fillRect(x - 0.75, bottom - (high + 1) * tall, 1.5, (high + 1 - low) * tall);
      });
    }
  }
  function drawHeat(pen, place, colors) {
    const { wide, tall, bottom } = heatPlace(place), scale = heatColors(colors.dark);
    const gap = wide > 5 ? 0.5 : 0;
    for (let cell = 0; cell < heat.counts.length; cell++) {
      const count = heat.counts[cell];
      if (!count) continue;
      const column = Math.floor(cell / ROWS), row = cell % ROWS;
      const strength = Math.min(1, Math.sqrt(count / heat.most)); // few samples are visible beside many
      pen.fillStyle = scale[Math.floor(strength * (scale.length - 1))];
      pen.fillRect(place.left + column * wide, bottom - (row + 1) * tall, Math.max(wide - gap, 1), tall - gap / 2);
    }
    pen.fillStyle = colors.soft;
    pen.textAlign = "right";
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      pen.fillText(withUnit(unit * part, "ns"), place.left - 6,
        Math.min(Math.max(bottom - (bottom - TOP) * part + 4, 11), bottom));
    }
    pen.textAlign = "center";
    const every = Math.max(1, Math.ceil(axisStep(heat.columns * unit, place.width - place.left - RIGHT) / unit));
    for (let c = Math.ceil(heat.first / every) * every; c < heat.first + heat.columns; c += every) {
      const x = place.left + (c - heat.first + 0.5) * wide;
      if (x > place.left + 8 && x < place.width - 24) pen.fillText(sinceStart(c * unit), x, place.height - 5);
    }
    if (!selection) return;
    pen.globalAlpha = 0.66;
    pen.fillStyle = colors.paper;
    const selected = [];
    visitColumns(selection, (column, low, high) => { selected[column] = [low, high]; });
    for (let column = 0; column < heat.columns; column++) {
      const [low, high] = selected[column] || [ROWS, ROWS], x = place.left + column * wide;
      pen.fillRect(x, bottom - low * tall, wide, low * tall);
      pen.fillRect(x, TOP, wide, Math.max((ROWS - 1 - high) * tall, 0));
    }
    pen.globalAlpha = 1;
    outlineCells(pen, place, selection, colors.select);
  }
  const heatChart = makeChart(boxes.heat, {
    title: "Samples by offset",
    height: () => HEAT_HEIGHT,
    draw: drawHeat,
    outline: outlineCells,
    cellAt(x, y, place) {
      const { wide, tall, bottom } = heatPlace(place), step = unit / ROWS;
      const column = Math.max(0, Math.min(heat.columns - 1, Math.floor((x - place.left) / wide)));
      const row = Math.max(0, Math.min(ROWS - 1, Math.floor((bottom - y) / tall)));
      const from = (heat.first + column) * unit + row * step;
      return { from, to: from + step - 1 };
    },
    cellOf(ns) {
      const step = unit / ROWS, from = Math.floor(ns / step) * step;
      return { from, to: from + step - 1 };
    },
    step: () => [unit / ROWS, unit],
    tell(range) {
      const count = heat.counts[Math.floor(range.from / (unit / ROWS)) - heat.first * ROWS] || 0;
      return sinceStart(range.from) + " to " + sinceStart(range.to + 1) + ": " + plain(count) +
        (count === 1 ? " sample" : " samples");
    },
  }, pickUnit);
  pickUnit.addEventListener("change", () => {
    unit = Number(pickUnit.value);
    heatChart.forget();
    countHeat();
    redraw();
  });

  // ---- the lanes: a CPU or a task in each ----

  const pickLanes = newElement("select");
  pickLanes.setAttribute("aria-label", "What a lane is");
  for (const [value, word] of [["cpu", "a lane for each CPU"], ["task", "a lane for each task"]]) {
    const option = newElement("option", word);
    option.value = value;
    pickLanes.append(option);
  }
  const taskName = task => task.comm + " " + (task.tid < 0 ? "" : task.tid);
  let lanes = [], laneOf = null, bins = null;
  function chooseLanes() {
    if (lanesBy === "cpu") {
      const at = new Map(samples.cpus.map((cpu, i) => [cpu, i]));
      lanes = samples.cpus.map(cpu => ({ name: cpu < 0 ? "no CPU" : "CPU " + cpu }));
      laneOf = i => at.get(samples.cpu[i]);
      return;
    }
    const counts = new Float64Array(samples.tasks.length);
    visitView(i => { counts[samples.task[i]]++; });
    const order = [...counts.keys()].filter(t => counts[t] > 0).sort((a, b) => counts[b] - counts[a]);
    const at = new Int32Array(samples.tasks.length).fill(TASKS);
    lanes = order.slice(0, TASKS).map((t, i) => {
      at[t] = i;
      return { name: taskName(samples.tasks[t]) };
    });
    const nr = order.length - TASKS; // of tasks without a lane
    if (nr > 0) lanes.push({ name: plain(nr) + (nr === 1 ? " other" : " others") });
    laneOf = i => at[samples.task[i]];
  }
  // Finds the samples of each pixel of a lane, and the task that has most of them; and the share of waits.
  function countLanes(place) {
    const width = Math.max(Math.floor(place.width - place.left - RIGHT), 1);
    if (bins && bins.version === version && bins.width === width) return;
    const counts = new Uint32Array(lanes.length * width), tasks = new Int32Array(lanes.length * width);
    const waits = canWait && lanesBy === "task" ? new Float32Array(lanes.length * (width + 1)) : null;
    const open = lanes.map(() => ({ bin: -1, tasks: new Map() }));
    const close = (lane, one) => {
      let most = 0;
      for (const [task, n] of one.tasks) if (n > most) { most = n; tasks[lane * width + one.bin] = task; }
      one.tasks.clear();
    };
    const scale = width / (view.to + 1 - view.from);
    const visit = i => {
      const lane = laneOf(i), bin = Math.min(width - 1, Math.floor((samples.time[i] - view.from) * scale));
      if (samples.events[samples.event[i]].wait) {
        if (!waits) return;
        const begin = Math.max(0, Math.floor((samples.time[i] - samples.value[i] - view.from) * scale));
        if (begin >= width) return;
        waits[lane * (width + 1) + begin]++;
        waits[lane * (width + 1) + Math.min(bin + 1, width)]--;
        return;
      }
      if (samples.time[i] > view.to) return;
      const one = open[lane];
      if (one.bin !== bin) { if (one.bin >= 0) close(lane, one); one.bin = bin; }
      counts[lane * width + bin]++;
      one.tasks.set(samples.task[i], (one.tasks.get(samples.task[i]) || 0) + 1);
    };
    const end = waits ? samples.nr : samples.indexAt(view.to + 1); // a wait that ends later may begin in the view
    for (let i = samples.indexAt(view.from); i < end; i++) {
      if (samples.isChosen(i, chosen) && laneOf(i) < lanes.length) visit(i);
    }
    open.forEach((one, lane) => { if (one.bin >= 0) close(lane, one); });
    let most = 1;
    for (let i = 0; i < counts.length; i++) most = Math.max(most, counts[i]);
    bins = { width, counts, tasks, waits, most, version };
  }
  const laneHeight = () => Math.max(LEAST_LANE, Math.min(LANE, Math.floor(LANES_HEIGHT / Math.max(lanes.length, 1))));
  function drawLanes(pen, place, colors) {
    const tall = laneHeight();
    countLanes(place);
    const { width, counts, tasks, waits, most } = bins;
    lanes.forEach((lane, l) => {
      const y = TOP + l * tall;
      pen.textAlign = "right";
      pen.fillStyle = colors.soft;
      if (tall >= 11 || l % Math.ceil(11 / tall) === 0) {
        const fits = Math.floor((place.left - 8) / 6.2), { name } = lane;
        pen.fillText(name.length > fits ? name.slice(0, fits - 1) + "…" : name, place.left - 6, y + tall - 3);
      }
      if (waits) {
        let open = 0, begin = -1;
        pen.fillStyle = colors.line;
        for (let x = 0; x <= width; x++) {
          open += waits[l * (width + 1) + x];
          if (open > 0 && begin < 0) begin = x;
          if ((open <= 0 || x === width) && begin >= 0) {
            pen.fillRect(place.left + begin, y + tall / 2 - 1, Math.max(x - begin, 1), 2);
            begin = -1;
          }
        }
      }
      for (let x = 0; x < width; x++) {
        const count = counts[l * width + x];
        if (!count) continue;
        const strength = (0.45 + 0.55 * heatOf(count, most) / 15).toFixed(2);
        pen.fillStyle = "hsla(" + hueOf(samples.tasks[tasks[l * width + x]].comm) + "," +
          (colors.dark ? "62%,62%," : "62%,45%,") + strength + ")";
        pen.fillRect(place.left + x, y + 1, 1, Math.max(tall - 2, 1));
      }
      pen.fillStyle = colors.line;
      pen.fillRect(place.left, y + tall - 0.5, width, 0.5);
    });
    drawTimes(pen, place, colors);
    drawSelection(pen, place, colors);
  }
  const laneChart = makeChart(boxes.lanes, Object.assign({
    title: "Tasks over time",
    height: () => TOP + Math.max(lanes.length, 1) * laneHeight() + BOTTOM,
    draw: drawLanes,
    tell(range, x, y, place) {
      const time = sinceStart(range.from) + " to " + sinceStart(range.to + 1);
      const lane = y === undefined ? -1 : Math.floor((y - TOP) / laneHeight());
      if (!lanes[lane] || !bins) return time;
      const bin = lane * bins.width + Math.max(0, Math.min(bins.width - 1, Math.floor(x - place.left)));
      const count = bins.counts[bin], task = samples.tasks[bins.tasks[bin]];
      return lanes[lane].name + ", " + time + ": " + (count ? (lanesBy === "cpu" ? taskName(task) + ", " : "") +
        plain(count) + (count === 1 ? " sample" : " samples") : "no samples");
    },
  }, linear), pickLanes);
  pickLanes.addEventListener("change", () => { setLanes(pickLanes.value); onKey("lanes"); });

  // ---- the rate ----

  const rate = { counts: null, most: 1, nr: 1 };
  function countRate(nr) {
    if (rate.version === version && rate.nr === nr) return;
    const scale = nr / (view.to + 1 - view.from), counts = new Uint32Array(nr);
    visitView(i => { counts[Math.min(nr - 1, Math.floor((samples.time[i] - view.from) * scale))]++; });
    let most = 1;
    for (const count of counts) most = Math.max(most, count);
    Object.assign(rate, { counts, most, nr, version });
  }
  function drawCurve(pen, place, colors) {
    const width = Math.max(place.width - place.left - RIGHT, 1), nr = Math.max(1, Math.floor(width / 3));
    countRate(nr);
    const { counts, most } = rate, scale = nr / (view.to + 1 - view.from);
    const bottom = place.height - BOTTOM, high = bottom - TOP - 4, wide = width / nr;
    pen.beginPath();
    pen.moveTo(place.left, bottom);
    counts.forEach((count, i) => {
      const y = bottom - high * count / most;
      pen.lineTo(place.left + i * wide, y);
      pen.lineTo(place.left + (i + 1) * wide, y);
    });
    pen.lineTo(place.left + width, bottom);
    pen.fillStyle = "hsl(24,80%,58%)";
    pen.fill();
    pen.fillStyle = colors.soft;
    pen.textAlign = "right";
    pen.fillText(plain(Number((most * scale * 1e9).toPrecision(3))) + " /s", place.left - 6, 13);
    pen.fillText("0", place.left - 6, bottom);
    drawTimes(pen, place, colors);
    drawSelection(pen, place, colors);
  }
  const curve = makeChart(boxes.curve, Object.assign({
    title: "Samples per second",
    height: () => RATE_HEIGHT,
    draw: drawCurve,
    tell(range) {
      const per = rate.nr / (view.to + 1 - view.from);
      const count = rate.counts ? rate.counts[Math.min(rate.nr - 1, Math.floor((range.from - view.from) * per))] : 0;
      return sinceStart(range.from) + ": " + plain(Number((count * per * 1e9).toPrecision(3))) + " samples per second";
    },
  }, linear));

  // ---- all charts ----

  const charts = [heatChart, laneChart, curve];
  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      for (const chart of charts) chart.draw();
    });
  }
  function recount() {
    version++;
    countHeat();
    chooseLanes();
    redraw();
  }
  function setLanes(by) {
    lanesBy = by;
    pickLanes.value = by;
    recount();
  }
  function setView(range) {
    view = range && range.to > range.from ? { from: range.from, to: range.to } : whole;
    unit = unitFor(view.to - view.from);
    offerUnits();
    for (const chart of charts) chart.forget();
    recount();
  }
  window.addEventListener("resize", redraw);
  new MutationObserver(redraw).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  setView(null);
  return { recount, redraw, setView, setLanes, lanes: () => lanesBy, isZoomed: () => view !== whole, view: () => view,
    show(range) { selection = range; redraw(); } };
};
})();
