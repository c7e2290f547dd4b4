// page_browser.mjs - the live page of a run of perfl in headless Chromium.
//
// node page_browser.mjs NODE_MODULES PERFL_ARGUMENTS_AS_JSON < ACTIONS
//
// Starts perfl (without arguments: no run), opens its page, and runs the actions: the body of an async function with
// the names below. Prints their report as JSON. perfl and the browser end with this program.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const WAIT_MS = 20000;
const [modules, words] = process.argv.slice(2);
const puppeteer = createRequire(resolve(modules) + "/")("puppeteer-core");
const actions = readFileSync(0, "utf8");
const dir = mkdtempSync(join(tmpdir(), "page-"));
const argv = JSON.parse(words);
let perfl, browser, page, ending = false;

// Starts perfl; url(), signal(name), end() -> { out, err }
function startPerfl() {
  const child = spawn(argv[0], argv.slice(1), { stdio: ["ignore", "pipe", "pipe"] });
  const said = { out: "", err: "" };
  let served, ended;
  const url = new Promise((done, failed) => { served = done; ended = failed; });
  const end = new Promise(done => child.on("close", () => {
    ended(new Error("perfl ended: " + said.err));
    done(said);
  }));
  url.catch(() => {});
  child.stdout.on("data", text => { said.out += text; });
  child.stderr.on("data", text => {
    said.err += text;
    const at = said.err.match(/serving (http:\S+)/);
    if (at) served(at[1]);
  });
  return { url: () => url, signal: name => child.kill(name), end: () => { child.kill("SIGINT"); return end; },
    kill: () => child.kill("SIGKILL"), said: () => said };
}

const report = { errors: [], requests: [] };
try {
  browser = await puppeteer.launch({ executablePath: "/usr/bin/chromium", headless: true, userDataDir: dir,
    protocolTimeout: 4 * WAIT_MS, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio",
      "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"] });
  page = await browser.newPage();
  page.setDefaultTimeout(WAIT_MS);
  await page.setViewport({ width: 1280, height: 800 });
  page.on("pageerror", e => report.errors.push(String(e)));
  page.on("console", m => { if (m.type() === "error" && !ending) report.errors.push(m.text()); });
  page.on("request", r => report.requests.push(r.url()));
  perfl = argv.length ? startPerfl() : null;
  const names = {
    page, perfl, report, browser,
    open: async path => page.goto(perfl ? await perfl.url() + (path || "") : path),
    // The text of the first element that matches.
    text: selector => page.$eval(selector, e => e.textContent),
    texts: selector => page.$$eval(selector, list => list.map(e => e.textContent)),
    // Waits until f(...arguments), which runs in the page, is true.
    until: (f, ...given) => page.waitForFunction(f, { polling: 50 }, ...given),
    untilText: (selector, text) => page.waitForFunction((s, t) => {
      const e = document.querySelector(s);
      return e && e.textContent.includes(t);
    }, { polling: 50 }, selector, text),
    // The numbers of a table: a list for each row, its cells without separators.
    rows: box => page.$$eval(box + " .rows tbody tr", list => list.map(row => [...row.children].map(
      cell => cell.textContent.replace(/,(?=\d{3})/g, "")))),
    endPerfl: async () => { ending = true; return perfl.end(); },
    // Presses a key of the page, not of a control.
    key: async word => {
      await page.evaluate(() => document.activeElement.blur());
      await page.keyboard.press(word);
    },
  };
  const AsyncFunction = (async () => {}).constructor;
  await new AsyncFunction(...Object.keys(names), actions)(...Object.values(names));
} catch (e) {
  report.failed = String(e && e.stack || e) + "\n" + report.errors.join("\n") +
    (perfl ? "\n" + perfl.said().err : "") + (page ? "\n" + await page.evaluate(
    () => document.body.innerText.slice(0, 1000)).catch(() => "") : "") + "\n" + report.requests.slice(-9).join("\n");
} finally {
  ending = true;
  if (perfl) perfl.kill();
  if (browser) await browser.close().catch(() => {});
  rmSync(dir, { recursive: true, force: true });
}
console.log(JSON.stringify(report));
process.exit(0);
