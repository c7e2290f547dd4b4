"use strict";

// Numbers and times as text, and new elements, for the pages that draw values.
(function () {
const scales = {
  ns: [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]],
  bytes: [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
};
const nsPer = { us: 1e3, ms: 1e6, s: 1e9 };
function plain(value) { return value.toLocaleString("en-US", { maximumFractionDigits: 2 }); }
// A value with its unit, scaled: 2500 ns is "2.5 µs".
function withUnit(value, unit) {
  if (nsPer[unit]) return withUnit(value * nsPer[unit], "ns");
  for (const [size, word] of scales[unit] || []) {
    if (Math.abs(value) >= size) return plain(Number((value / size).toPrecision(4))) + " " + word;
  }
  return plain(value) + (unit && !scales[unit] ? " " + unit : "");
}
function clock(ms) { return new Date(ms).toLocaleTimeString("en-GB"); }
function newElement(tag, text, kind) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (kind) e.className = kind;
  return e;
}
window.pageText = { plain, withUnit, clock, newElement };
})();
