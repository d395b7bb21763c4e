// The pictures of the README: parts of pages as PNG.
// usage: CHROMIUM=/usr/bin/chromium PROFILE=EMPTY_FOLDER node screenshots.mjs OUT NAME=FILE.html,SCHEME,WIDTH,HEIGHT,ANCHOR...
// ANCHOR: id of the element at the picture's top, or "top".
import { resolve } from "node:path";
import puppeteer from "puppeteer-core";

const [out, ...pictures] = process.argv.slice(2);
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM,
  userDataDir: process.env.PROFILE,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
for (const picture of pictures) {
  const [name, rest] = picture.split("=");
  const [file, scheme, width, height, anchor] = rest.split(",");
  const page = await browser.newPage();
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.setViewport({ width: Number(width), height: Number(height), deviceScaleFactor: 1 });
  await page.goto(`file://${resolve(file)}`);
  const y = await page.evaluate((id) => (id === "top" ? 0
    : document.getElementById(id).getBoundingClientRect().top + scrollY - 12), anchor);
  await page.screenshot({ path: `${out}/${name}.png`, clip: { x: 0, y, width: Number(width), height: Number(height) } });
  await page.close();
}
await browser.close();
