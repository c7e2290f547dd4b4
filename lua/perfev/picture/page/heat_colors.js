"use strict";

// The colours of heat maps: those of the pictures (lua/perfev/picture/palette.lua).
(function () {
const HEATS = 16;
function heatColors(dark) {
  const list = [];
  for (let i = 0; i < HEATS; i++) {
    const t = i / (HEATS - 1);
    list.push(dark ? "hsl(" + 52 * t + "," + (60 + 30 * t) + "%," + (24 + 50 * t) + "%)" :
      "hsl(" + (48 - 48 * t) + "," + (95 - 20 * t) + "%," + (86 - 58 * t) + "%)");
  }
  return list;
}
function heatOf(count, most) {
  return Math.max(0, Math.min(HEATS - 1, Math.floor(Math.log(1 + count) / Math.log(1 + most) * HEATS)));
}
window.heatScale = { heatColors, heatOf };
})();
