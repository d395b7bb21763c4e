// Every page given, in both colour schemes, wide and at phone width. Prints what is wrong; exit code 1 if anything is.
// usage: CHROMIUM=/usr/bin/chromium PROFILE=EMPTY_FOLDER node check.mjs SHOTS FILE.html...
import { basename, resolve } from "node:path";
import puppeteer from "puppeteer-core";

const [shots, ...files] = process.argv.slice(2);
const settings = [
  { name: "light", scheme: "light", width: 1100, height: 900 },
  { name: "dark", scheme: "dark", width: 1100, height: 900 },
  { name: "phone", scheme: "light", width: 390, height: 844 },
  { name: "phone-dark", scheme: "dark", width: 390, height: 844 },
];
const faults = [];

// In the page: what no static check can see.
const inspect = () => {
  const wrong = [];
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (pointer) => pointer.split("/").slice(1)
    .reduce((value, key) => value?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], data);
  for (const number of document.querySelectorAll("data[data-at]")) {
    if (at(number.dataset.at) !== Number(number.value)) wrong.push(`not the JSON's number: ${number.outerHTML}`);
  }
  const root = document.documentElement;
  if (root.scrollWidth > innerWidth + 1) wrong.push(`the page is ${root.scrollWidth} wide in a window of ${innerWidth}`);
  for (const svg of document.querySelectorAll("figure svg[role=img]")) {
    const frame = svg.getBoundingClientRect();
    // Marks lie inside of the area that the axes and the grid span; where there is none, inside of the drawing.
    const lines = [...svg.querySelectorAll(":scope > line.axis, :scope > line.grid, :scope > rect.lane")]
      .map((line) => line.getBoundingClientRect());
    const area = lines.length === 0 ? frame : {
      left: Math.min(...lines.map((box) => box.left)), right: Math.max(...lines.map((box) => box.right)),
      top: Math.min(...lines.map((box) => box.top)), bottom: Math.max(...lines.map((box) => box.bottom)),
    };
    const marks = [...svg.querySelectorAll("rect, circle, path")].filter((mark) => !mark.closest(".plot") || mark.closest("svg") === svg);
    if (marks.length === 0 && svg.querySelector(".plot *") === null) wrong.push(`${svg.dataset.chart}: no marks`);
    const room = 9 * frame.width / 760;  // half a dot, and the circles of numbered places
    for (const mark of marks) {
      const box = mark.getBoundingClientRect();
      if (![box.left, box.right, box.top, box.bottom].every(Number.isFinite) || box.left < area.left - room ||
          box.right > area.right + room || box.top < area.top - room || box.bottom > area.bottom + room) {
        wrong.push(`${svg.dataset.chart}: a mark outside of the axes: ${mark.outerHTML.slice(0, 160)}`);
      }
    }
    const words = [...svg.querySelectorAll("text")].filter((text) => text.textContent)
      .map((text) => ({ text: text.textContent, box: text.getBoundingClientRect() }));
    for (const { text, box } of words) {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) {
        wrong.push(`${svg.dataset.chart}: "${text}" leaves the drawing`);
      }
    }
    words.forEach((a, i) => words.slice(i + 1).forEach((b) => {
      const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
      const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
      if (wide > 1 && high > 4) wrong.push(`${svg.dataset.chart}: "${a.text}" and "${b.text}" overlap`);
    }));
  }
  return wrong;
};

// Tab until it comes round: which controls were reached.
const reach = async (page) => {
  const wanted = await page.evaluate(() => {
    document.querySelectorAll("details").forEach((details) => { details.open = true; });
    const controls = [...document.querySelectorAll("a[href], button, summary, [tabindex='0']")];
    controls.forEach((control, i) => { control.dataset.control = i; });
    return controls.length;
  });
  const reached = new Set();
  for (let i = 0; i < wanted + 60 && reached.size < wanted; ++i) {
    await page.keyboard.press("Tab");
    const control = await page.evaluate(() => document.activeElement?.dataset.control);
    if (control !== undefined) reached.add(control);
  }
  return wanted - reached.size;
};

const operate = () => {
  const wrong = [];
  const paper = () => getComputedStyle(document.body).backgroundColor;
  const before = paper();
  document.getElementById("theme").click();
  if (paper() === before) wrong.push("the colour button does nothing");
  document.getElementById("theme").click();
  if (paper() !== before) wrong.push("the colour button does not come back");
  for (const table of document.querySelectorAll("table.sortable")) {
    const rows = table.tBodies[0].rows.length;
    for (const head of table.querySelectorAll("th .sort")) {
      head.click();
      const column = head.closest("th").cellIndex;
      const values = [...table.tBodies[0].rows].map((row) => row.cells[column].querySelector("data")?.value)
        .filter((value) => value !== undefined).map(Number);
      if (values.some((value, i) => i > 0 && value > values[i - 1])) wrong.push(`${table.caption?.textContent}: not sorted`);
    }
    if (table.tBodies[0].rows.length !== rows) wrong.push("sorting loses rows");
  }
  for (const svg of document.querySelectorAll("[data-hover=strips]")) {
    const plot = svg.querySelector(".plot");
    const view = () => plot.getAttribute("viewBox");
    const whole = view();
    const press = (action) => svg.closest("figure").querySelector(`[data-zoom=${action}]`).click();
    press("in");
    const near = view();
    press("right");
    if (near === whole || view() === near) wrong.push(`${svg.dataset.chart}: zooming does nothing`);
    press("all");
    if (view().split(" ").map(Number).join() !== whole.split(" ").map(Number).join()) wrong.push("the whole step is lost");
  }
  let text = null;
  URL.createObjectURL = (blob) => { text = blob; return "#"; };
  const data = JSON.parse(document.getElementById("data").textContent);
  const files = [...document.querySelectorAll("[data-csv]")].map(async (button) => {
    button.click();
    const lines = (await text.text()).split("\r\n").length - 2;
    const rows = data.charts[button.dataset.csv].rows.length;
    if (lines < rows) wrong.push(`${button.dataset.csv}: ${lines} lines of ${rows} rows`);
  });
  return Promise.all(files).then(() => wrong);
};

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM,
  userDataDir: process.env.PROFILE,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
for (const file of files) {
  const name = basename(file, ".html");
  const url = `file://${resolve(file)}`;
  for (const setting of settings) {
    const say = (what) => faults.push(`${name} ${setting.name}: ${what}`);
    const page = await browser.newPage();
    page.on("console", (message) => { if (message.type() !== "log") say(`console: ${message.text()}`); });
    page.on("pageerror", (error) => say(`error: ${error.message}`));
    page.on("request", (request) => {
      if (request.url() !== url && request.url() !== "data:,") say(`request: ${request.url()}`);
    });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: setting.scheme }]);
    await page.setViewport({ width: setting.width, height: setting.height, deviceScaleFactor: 1 });
    await page.goto(url);
    for (const what of await page.evaluate(inspect)) say(what);
    await page.screenshot({ path: `${shots}/${name}-${setting.name}.png`, fullPage: true });
    if (setting.name === "light") {
      for (const what of await page.evaluate(operate)) say(what);
      const missed = await reach(page);
      if (missed > 0) say(`${missed} controls cannot be reached by keyboard`);
      await page.pdf({ path: `${shots}/${name}.pdf`, format: "a4", printBackground: true });
    }
    await page.close();
  }
  console.log(`${name}: seen in ${settings.length} settings`);
}
await browser.close();
for (const fault of faults) console.log(fault);
console.log(faults.length === 0 ? "no faults" : `${faults.length} faults`);
process.exit(faults.length === 0 ? 0 : 1);
