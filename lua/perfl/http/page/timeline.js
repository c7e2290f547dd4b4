"use strict";

// Values over time: the slots that the server keeps, heat maps and rates of them, and the range that the user selects.
(function () {
const { plain, withUnit, clock, newElement } = window.pageText, { heatColors, heatOf } = window.heatScale;
const LEFT = 76, RIGHT = 6, BOTTOM = 18; // px around a chart
const HEIGHTS = { heat: 190, rate: 74 };
const SECOND = 1000;

// ---- slots ----

// Adds up lists of low, high, count.
function mergedCells(lists) {
  const at = new Map(), all = [];
  for (const cells of lists) {
    for (let i = 0; i < cells.length; i += 3) {
      const key = cells[i] + " " + cells[i + 1], known = at.get(key);
      if (known === undefined) {
        at.set(key, all.length);
        all.push(cells[i], cells[i + 1], cells[i + 2]);
      } else {
        all[known + 2] += cells[i + 2];
      }
    }
  }
  return all;
}
function mergedSums(lists) {
  return lists[0].map((_, i) => lists.reduce((sum, list) => sum + (list[i] || 0), 0));
}
function mergeParts(slots, field, merge) {
  const names = new Set(), result = Object.create(null);
  for (const slot of slots) for (const name of Object.keys(slot[field] || {})) names.add(name);
  for (const name of names) result[name] = merge(slots.map(s => (s[field] || {})[name]).filter(list => list));
  return result;
}
function mergedSlot(slots) {
  return { begin: slots[0].begin, end: slots[slots.length - 1].end, heat: mergeParts(slots, "heat", mergedCells),
    sums: mergeParts(slots, "sums", mergedSums) };
}

// ---- scales ----

// The position of a value, 0 to 1: logarithmic if the values span more than two powers of ten.
function valueScale(cells) {
  let low = Infinity, high = -Infinity, above0 = Infinity;
  for (let i = 0; i < cells.length; i += 3) {
    low = Math.min(low, cells[i]);
    high = Math.max(high, cells[i + 1]);
    const bottom = cells[i] > 0 ? cells[i] : cells[i + 1] / 2;
    if (bottom > 0) above0 = Math.min(above0, bottom);
  }
  if (low > high) { low = 0; high = 1; above0 = 1; }
  const marks = [];
  if (high > 0 && high / above0 > 100) {
    const from = Math.log(above0), to = Math.log(high);
    const at = value => value <= above0 ? 0 : (Math.log(value) - from) / (to - from);
    for (let mark = 10 ** Math.ceil(Math.log10(above0) - 1e-9); mark <= high; mark *= 10) marks.push(mark);
    return { at, marks };
  }
  const step = 10 ** Math.floor(Math.log10((high - low) / 2 || 1));
  const by = [1, 2, 5, 10].map(n => n * step).find(n => (high - low) / n <= 5) || step * 10;
  for (let mark = Math.ceil(low / by) * by; mark <= high; mark += by) marks.push(mark);
  return { at: value => high > low ? (value - low) / (high - low) : 0, marks };
}
const timeSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600].map(s => s * SECOND);

// ---- all charts: their slots, window, cursor and selection ----

// onSelect(from, to): ms since the start, or null
window.makeTimelines = function (onSelect) {
  const charts = [];
  let slots = [], most = 1000, started = 0, window_ms = 300 * SECOND, cursor = -1, anchor = -1, mark = null;
  let selection = null, waiting = false;

  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      for (const chart of charts) chart.draw();
    });
  }
  function lastEnd() { return slots.length ? slots[slots.length - 1].end : 0; }
  function windowStart() {
    const first = slots.length ? slots[0].begin : 0;
    return Math.max(first, lastEnd() - window_ms);
  }
  function slotAt(ms) {
    let low = 0, high = slots.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (slots[middle].end > ms) high = middle; else low = middle + 1;
    }
    return slots.length ? low : -1;
  }
  function firstInWindow() { return slots.length ? slotAt(windowStart()) : -1; }
  function selectSlots(a, b, isFinal) {
    if (a < 0 || b < 0) return;
    selection = { from: slots[Math.min(a, b)].begin, to: slots[Math.max(a, b)].end };
    redraw();
    if (isFinal) onSelect(selection);
  }
  function clearSelection() {
    anchor = -1;
    selection = null;
    redraw();
    onSelect(null);
  }

  const all = { charts, redraw, lastEnd, clearSelection,
    reset(run, list) {
      most = run.fine + run.coarse + 2;
      started = run.started_ms;
      slots = list;
      cursor = anchor = -1;
      redraw();
    },
    add(slot) {
      slots.push(slot);
      while (slots.length > most) slots.splice(0, 2, mergedSlot(slots.slice(0, 2)));
      redraw();
    },
    merge(begin, end) {
      const which = slots.filter(s => s.begin >= begin && s.end <= end);
      if (which.length < 2) return;
      const first = slots.indexOf(which[0]), removed = which.length - 1;
      slots.splice(first, which.length, mergedSlot(which));
      if (cursor > first) cursor = Math.max(first, cursor - removed);
      if (anchor > first) anchor = Math.max(first, anchor - removed);
    },
    mark(ms) { mark = ms; redraw(); },
    selection: () => selection,
    slots: () => slots.length,
    // The cells of a part in the selected range.
    cells(name, from, to) {
      return mergedCells(slots.filter(s => s.begin >= from && s.end <= to && s.heat && s.heat[name]).map(
        s => s.heat[name]));
    },
    setWindow(ms) {
      window_ms = ms;
      for (const chart of charts) chart.showWindow(ms);
      redraw();
    },
    remove() { charts.length = 0; },
  };

  // Adds a chart to a box. part: { name, title, unit, kind: "heat" or "rate" }
  all.add_chart = function (box, part) {
    const line = newElement("div", undefined, "line"), told = newElement("span", "", "told");
    const canvas = newElement("canvas"), pick = newElement("select"), clear = newElement("button", "Clear selection");
    const heading = newElement("h3", part.title);
    for (const [ms, word] of [[60, "1 minute"], [300, "5 minutes"], [86400, "all that is kept"]]) {
      const option = newElement("option", word);
      option.value = ms * SECOND;
      pick.append(option);
    }
    pick.value = window_ms;
    pick.setAttribute("aria-label", "Time that the charts show");
    told.setAttribute("role", "status");
    clear.type = "button";
    clear.hidden = true;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", part.title +
      ". Arrow keys move, with Shift they select a range, Enter selects a slot, Escape clears the selection.");
    line.append(heading, told, clear, pick);
    box.replaceChildren(line, canvas);
    const pen = canvas.getContext("2d");
    let width = 0, height = 0, shown = null;

    const xOf = ms => LEFT + (width - LEFT - RIGHT) * (ms - windowStart()) / (Math.max(lastEnd() - windowStart(), 1));
    function indexAt(clientX) {
      const box = canvas.getBoundingClientRect();
      const share = (clientX - box.left - LEFT) / Math.max(width - LEFT - RIGHT, 1);
      return slotAt(windowStart() + Math.max(0, Math.min(0.999999, share)) * (lastEnd() - windowStart()));
    }
    function drawAxis(look) {
      const from = windowStart(), to = lastEnd();
      const step = timeSteps.find(s => (to - from) / s * 74 <= width - LEFT - RIGHT) || 2 * 3600 * SECOND;
      pen.fillStyle = look.soft;
      pen.textAlign = "center";
      for (let t = Math.ceil((started + from) / step) * step; t <= started + to; t += step) {
        const x = xOf(t - started);
        if (x > LEFT + 20 && x < width - 24) pen.fillText(clock(t), x, height - 6);
      }
    }
    function drawHeat(look) {
      const visible = slots.slice(Math.max(firstInWindow(), 0)).filter(s => s.heat && s.heat[part.name]);
      const scale = valueScale([].concat(...visible.map(s => s.heat[part.name])));
      const high = height - BOTTOM - 4, y = value => 4 + high * (1 - scale.at(value));
      const density = (slot, count) => count * SECOND / Math.max(slot.end - slot.begin, 1);
      let top = 0;
      for (const slot of visible) {
        const cells = slot.heat[part.name];
        for (let i = 2; i < cells.length; i += 3) top = Math.max(top, density(slot, cells[i]));
      }
      const colors = heatColors(look.dark);
      for (const slot of visible) {
        const cells = slot.heat[part.name], x0 = Math.max(xOf(slot.begin), LEFT), x1 = xOf(slot.end);
        for (let i = 0; i < cells.length; i += 3) {
          const bottom = y(cells[i]), upper = y(cells[i + 1]);
          pen.fillStyle = colors[heatOf(density(slot, cells[i + 2]), top)];
          pen.fillRect(x0, upper, Math.max(x1 - x0, 1), Math.max(bottom - upper, 1));
        }
      }
      pen.fillStyle = look.soft;
      pen.textAlign = "right";
      let above = Infinity;
      for (const mark of scale.marks) {
        if (above - y(mark) < 13) continue;
        above = y(mark);
        pen.fillText(withUnit(mark, part.unit), LEFT - 8, Math.min(Math.max(above + 4, 12), height - BOTTOM));
      }
      shown = scale;
    }
    function rateOf(slot) {
      const sums = slot.sums && slot.sums[part.name];
      return sums ? sums[0] * SECOND / Math.max(slot.end - slot.begin, 1) : 0;
    }
    function drawRate(look) {
      const visible = slots.slice(Math.max(firstInWindow(), 0));
      const top = visible.reduce((most, s) => Math.max(most, rateOf(s)), 0) || 1, high = height - BOTTOM - 6;
      pen.fillStyle = "hsl(24,80%,58%)";
      for (const slot of visible) {
        const x0 = Math.max(xOf(slot.begin), LEFT), x1 = xOf(slot.end), tall = high * rateOf(slot) / top;
        if (tall > 0) pen.fillRect(x0, 6 + high - tall, Math.max(x1 - x0 - (x1 - x0 > 4 ? 1 : 0), 1), tall);
      }
      pen.fillStyle = look.soft;
      pen.textAlign = "right";
      pen.fillText(withUnit(Number(top.toPrecision(3)), part.unit), LEFT - 8, 14);
      pen.fillText("0", LEFT - 8, height - BOTTOM);
    }
    function drawBox(range, color) {
      const x0 = Math.max(xOf(range.from), LEFT), x1 = Math.min(xOf(range.to), width - RIGHT);
      if (x1 <= x0) return;
      pen.strokeStyle = color;
      pen.lineWidth = 2;
      pen.strokeRect(x0 + 1, 3, Math.max(x1 - x0 - 2, 1), height - BOTTOM - 2);
    }
    // The rest is pale.
    function drawSelection(look) {
      const end = width - RIGHT, x0 = Math.min(Math.max(xOf(selection.from), LEFT), end);
      const x1 = Math.min(Math.max(xOf(selection.to), LEFT), end);
      pen.globalAlpha = 0.6;
      pen.fillStyle = look.paper;
      pen.fillRect(LEFT, 2, x0 - LEFT, height - BOTTOM);
      pen.fillRect(x1, 2, end - x1, height - BOTTOM);
      pen.globalAlpha = 1;
      drawBox(selection, look.select);
    }
    function draw() {
      const ratio = window.devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
      const color = word => style.getPropertyValue("--" + word).trim();
      const look = { soft: color("soft"), line: color("line"), ink: color("ink"), select: color("select"),
        paper: color("paper"), dark: document.documentElement.dataset.theme === "dark" };
      width = canvas.clientWidth;
      height = HEIGHTS[part.kind];
      canvas.style.height = height + "px";
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
      pen.fillStyle = look.paper;
      pen.fillRect(LEFT, 2, Math.max(width - LEFT - RIGHT, 0), height - BOTTOM);
      if (slots.length) {
        if (part.kind === "heat") drawHeat(look); else drawRate(look);
        drawAxis(look);
      }
      if (mark !== null && mark >= windowStart() && slots.length) {
        pen.fillStyle = look.ink;
        pen.fillRect(Math.min(xOf(mark), width - RIGHT - 2), 2, 2, height - BOTTOM);
      }
      if (selection) drawSelection(look);
      if (slots[cursor] && canvas.matches(":focus-visible")) {
        drawBox({ from: slots[cursor].begin, to: slots[cursor].end }, look.ink);
      }
      canvas.dataset.slots = slots.length;
      clear.hidden = !selection;
    }
    // Says what a slot holds; clientY: of the mouse, for the cell under it.
    function tell(index, clientY) {
      const slot = slots[index];
      if (!slot) { told.textContent = ""; return; }
      const time = clock(started + slot.begin) + " (" + plain((slot.end - slot.begin) / SECOND) + " s): ";
      if (part.kind === "rate") {
        const sums = slot.sums && slot.sums[part.name];
        told.textContent = time + withUnit(sums ? sums[0] : 0, part.unit) + ", " +
          withUnit(Number(rateOf(slot).toPrecision(4)), part.unit) + " per second";
        return;
      }
      const cells = slot.heat && slot.heat[part.name] || [];
      let sum = 0, under = "";
      const y = clientY === undefined ? -1 : clientY - canvas.getBoundingClientRect().top;
      const at = shown && y >= 0 ? 1 - (y - 4) / (height - BOTTOM - 4) : -1;
      for (let i = 0; i < cells.length; i += 3) {
        sum += cells[i + 2];
        if (at >= 0 && shown.at(cells[i]) <= at && at < shown.at(cells[i + 1])) {
          under = plain(Math.round(cells[i + 2])) + " of " + withUnit(cells[i], part.unit) + " to " +
            withUnit(cells[i + 1], part.unit) + ", ";
        }
      }
      told.textContent = time + under + plain(Math.round(sum)) + " in all";
    }

    canvas.addEventListener("pointerdown", e => {
      if (e.button !== 0 || !slots.length) return;
      cursor = anchor = indexAt(e.clientX);
      canvas.setPointerCapture(e.pointerId);
      selectSlots(anchor, anchor, false);
    });
    canvas.addEventListener("pointermove", e => {
      if (!slots.length) return;
      const index = indexAt(e.clientX);
      tell(index, e.clientY);
      if (canvas.hasPointerCapture(e.pointerId) && anchor >= 0) {
        cursor = index;
        selectSlots(anchor, index, false);
      }
    });
    canvas.addEventListener("pointerup", e => {
      if (anchor >= 0 && selection) selectSlots(anchor, indexAt(e.clientX), true);
    });
    canvas.addEventListener("pointerleave", () => { told.textContent = ""; });
    canvas.addEventListener("focus", () => {
      if (!slots[cursor]) cursor = slots.length - 1;
      redraw();
    });
    canvas.addEventListener("blur", redraw);
    canvas.addEventListener("keydown", e => {
      if (e.ctrlKey || e.metaKey || e.altKey || !slots.length) return;
      const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -slots.length, End: slots.length };
      if (by[e.key]) {
        if (!slots[cursor]) cursor = slots.length - 1;
        if (e.shiftKey && anchor < 0) anchor = cursor;
        cursor = Math.max(Math.max(firstInWindow(), 0), Math.min(slots.length - 1, cursor + by[e.key]));
        if (e.shiftKey) selectSlots(anchor, cursor, true); else anchor = -1;
        tell(cursor);
      } else if (e.key === "Enter" || e.key === " ") {
        anchor = cursor;
        selectSlots(cursor, cursor, true);
      } else if (e.key === "Escape") {
        clearSelection();
      } else {
        return;
      }
      e.preventDefault();
      redraw();
    });
    clear.addEventListener("click", () => { clearSelection(); canvas.focus(); });
    pick.addEventListener("change", () => all.setWindow(Number(pick.value)));
    const chart = { draw, showWindow(ms) { pick.value = ms; } };
    charts.push(chart);
    return chart;
  };
  window.addEventListener("resize", redraw);
  return all;
};
})();
