// The report page in a real browser: makes one with the built `attest` from a mutant, a good kernel, a
// kernel whose name is hostile and a skipped one; opens it in headless Chromium with scripts off; looks
// at it, clicks and tabs through it as a reader would. Fails where the console says anything or the page
// asks for anything.
//
//   node page_test.mjs ATTEST KERNEL_DIR OUTPUT_DIR
//
// Leaves screenshots (light, dark, narrow) and the printed page in OUTPUT_DIR. Exit status 77 where there
// is no Chromium. Speaks DevTools' protocol over two pipes, so that no package is needed.
import assert from 'node:assert/strict';
import {execFileSync, spawn, spawnSync} from 'node:child_process';
import {copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {delimiter, join, resolve} from 'node:path';
import {pathToFileURL} from 'node:url';

const [attest, kernels, output] = process.argv.slice(2).map((path) => resolve(path));

function findChromium() {
  const folders = (process.env.PATH ?? '').split(delimiter);
  return folders.map((folder) => join(folder, 'chromium')).find((path) => existsSync(path));
}

// No '/', '?' or ':', which mean something in a kernel's name.
const hostileName = '<img src=x onerror=alert(1)>|*`"&.so';

function makeReport(folder) {
  copyFileSync(join(kernels, 'attest_kernel_tiled.so'), join(folder, hostileName));
  const run = spawnSync(attest, [
    'check', 'mutant:kv-head-modulo', 'tiled', `./${hostileName}`, '--optional', './<script>x|`.so',
    '--plan', 'smoke', '--property', 'heads.*', '--property', 'causal.*', '--report', 'report',
  ], {cwd: folder, encoding: 'utf8'});
  assert.equal(run.status, 1, run.stderr);
  return join(folder, 'report');
}

// One page in one browser. `events` collects what the page does.
class Browser {
  static async open(chromium, folder) {
    const browser = new Browser();
    browser.process = spawn(chromium, [
      '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync',
      `--user-data-dir=${join(folder, 'profile')}`, '--remote-debugging-pipe',
    ], {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'], detached: true});
    browser.waiting = new Map();
    browser.events = [];
    browser.last = 0;
    browser.listen();
    const {targetId} = await browser.send('Target.createTarget', {url: 'about:blank'});
    const attached = await browser.send('Target.attachToTarget', {targetId, flatten: true});
    browser.session = attached.sessionId;
    for (const domain of ['Page', 'Runtime', 'Log', 'Network', 'DOM']) await browser.send(`${domain}.enable`);
    await browser.send('Emulation.setScriptExecutionDisabled', {value: true});
    return browser;
  }

  // Messages are JSON, each ended by a zero byte.
  listen() {
    let rest = Buffer.alloc(0);
    this.process.stdio[4].on('data', (chunk) => {
      rest = Buffer.concat([rest, chunk]);
      for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
        this.receive(JSON.parse(rest.subarray(0, end).toString()));
        rest = rest.subarray(end + 1);
      }
    });
  }

  receive(message) {
    if (message.id === undefined) {
      this.events.push(message);
      return;
    }
    const {done, fail} = this.waiting.get(message.id);
    this.waiting.delete(message.id);
    if (message.error) fail(new Error(message.error.message));
    else done(message.result);
  }

  send(method, params = {}) {
    const id = ++this.last;
    this.process.stdio[3].write(`${JSON.stringify({id, method, params, sessionId: this.session})}\0`);
    return new Promise((done, fail) => this.waiting.set(id, {done, fail}));
  }

  async go(url) {
    const loads = () => this.events.filter((event) => event.method === 'Page.loadEventFired').length;
    const before = loads();
    await this.send('Page.navigate', {url});
    while (loads() === before) await new Promise((done) => setTimeout(done, 20));
  }

  // The tool's own eyes; the page itself runs no script.
  async see(expression) {
    const {result, exceptionDetails} = await this.send('Runtime.evaluate', {expression, returnByValue: true});
    assert.equal(exceptionDetails, undefined, expression);
    return result.value;
  }

  async click(selector) {
    const {root} = await this.send('DOM.getDocument');
    const {nodeId} = await this.send('DOM.querySelector', {nodeId: root.nodeId, selector});
    assert.notEqual(nodeId, 0, selector);
    await this.send('DOM.scrollIntoViewIfNeeded', {nodeId});
    const {quads} = await this.send('DOM.getContentQuads', {nodeId});
    const [x, y] = [(quads[0][0] + quads[0][4]) / 2, (quads[0][1] + quads[0][5]) / 2];
    for (const type of ['mousePressed', 'mouseReleased']) {
      await this.send('Input.dispatchMouseEvent', {type, x, y, button: 'left', clickCount: 1});
    }
  }

  async press(key) {
    for (const type of ['rawKeyDown', 'keyUp']) {
      await this.send('Input.dispatchKeyEvent', {type, key, code: key, windowsVirtualKeyCode: {Tab: 9, Enter: 13}[key]});
    }
    if (key === 'Enter') await this.send('Input.dispatchKeyEvent', {type: 'char', text: '\r', key});
  }

  async resize(width, height) {
    await this.send('Emulation.setDeviceMetricsOverride', {width, height, deviceScaleFactor: 1, mobile: false});
  }

  async media(media, scheme) {
    await this.send('Emulation.setEmulatedMedia', {media, features: [{name: 'prefers-color-scheme', value: scheme}]});
  }

  async screenshot(name) {
    const {data} = await this.send('Page.captureScreenshot', {format: 'png'});
    const bytes = Buffer.from(data, 'base64');
    writeFileSync(join(output, `${name}.png`), bytes);
    assert.ok(bytes.length > 10000, `${name}: an empty picture`);
  }

  // With all the processes that it started, which write into the profile, too.
  close() {
    const ended = new Promise((done) => this.process.once('exit', done));
    process.kill(-this.process.pid, 'SIGKILL');
    return ended;
  }
}

async function seesEverything(browser) {
  const text = await browser.see('document.body.innerText');
  for (const words of ['mutant:kv-head-modulo', hostileName, 'skipped', '<script>x|`.so', 'memory-safe', 'FAIL', 'PASS']) {
    assert.ok(text.includes(words), `the page does not say ${words}`);
  }
  assert.equal(await browser.see('document.querySelectorAll("script, img, link, iframe").length'), 0);
}

async function followsAFailureByMouse(browser) {
  await browser.click('#matrix td.bad a');
  const id = await browser.see('location.hash');
  assert.match(id, /^#f\d+$/);
  const top = await browser.see('document.querySelector(":target").getBoundingClientRect().top');
  assert.ok(top >= 0 && top < 900, `the finding is at ${top}, out of sight`);
  await browser.screenshot('finding');
}

async function followsALinkIntoAFoldedPart(browser) {
  const folded = await browser.see('document.querySelector("details:not([open]) article.finding")?.id ?? ""');
  assert.notEqual(folded, '', 'no finding is folded away');
  await browser.click(`#matrix a[href="#${folded}"]`);
  assert.ok(await browser.see('document.querySelector(":target").checkVisibility()'), `${folded} stays folded`);
}

async function worksByKeyboard(browser) {
  await browser.go(await browser.see('location.href.split("#")[0]'));
  await browser.press('Tab');
  assert.equal(await browser.see('document.activeElement.className'), 'skip');
  await browser.press('Enter');
  assert.equal(await browser.see('location.hash'), '#findings');
}

async function fitsEveryScreen(browser) {
  await browser.see('scrollTo(0, 0)');
  const ground = () => browser.see('getComputedStyle(document.body).backgroundColor');
  await browser.screenshot('light');
  const light = await ground();
  await browser.media('', 'dark');
  assert.notEqual(await ground(), light, 'dark is as light');
  await browser.screenshot('dark');
  await browser.media('', 'light');
  await browser.resize(380, 800);
  assert.ok((await browser.see('document.documentElement.scrollWidth')) <= 380, 'wider than a narrow screen');
  await browser.screenshot('narrow');
  await browser.resize(1200, 900);
}

async function printsWhatIsFolded(browser) {
  await browser.media('print', 'light');
  const hidden = '[...document.querySelectorAll("details > :not(summary)")].filter((e) => !e.checkVisibility()).length';
  assert.equal(await browser.see(hidden), 0, 'parts stay folded on paper');
  const {data} = await browser.send('Page.printToPDF', {printBackground: false});
  writeFileSync(join(output, 'print.pdf'), Buffer.from(data, 'base64'));
}

// Every request is for the page itself, and the console is silent.
function staysByItself(browser, url) {
  const of = (method) => browser.events.filter((event) => event.method === method).map((event) => event.params);
  const asked = of('Network.requestWillBeSent').map((params) => params.request.url);
  assert.deepEqual(asked.filter((address) => address !== url), []);
  assert.deepEqual(of('Log.entryAdded').map((params) => params.entry.text), []);
  assert.deepEqual(of('Runtime.consoleAPICalled'), []);
  assert.deepEqual(of('Runtime.exceptionThrown'), []);
}

async function main() {
  const chromium = findChromium();
  if (!chromium) {
    console.log('skipped: chromium is not installed (ci/setup --with chromium)');
    return 77;
  }
  console.log(execFileSync(chromium, ['--version'], {encoding: 'utf8'}).trim());
  mkdirSync(output, {recursive: true});
  const folder = mkdtempSync(join(tmpdir(), 'attest-page-'));
  let browser;
  try {
    const report = makeReport(folder);
    assert.match(readFileSync(join(report, 'report.md'), 'utf8'), /^## attest: /);
    const url = pathToFileURL(join(report, 'index.html')).href;
    browser = await Browser.open(chromium, folder);
    await browser.resize(1200, 900);
    await browser.go(url);
    for (const test of [seesEverything, fitsEveryScreen, followsAFailureByMouse, followsALinkIntoAFoldedPart,
      worksByKeyboard, printsWhatIsFolded]) {
      await test(browser);
      console.log(`ok: ${test.name}`);
    }
    staysByItself(browser, url);
  } finally {
    if (browser) await browser.close();
    rmSync(folder, {recursive: true, force: true, maxRetries: 20, retryDelay: 100});
  }
  return 0;
}

process.exitCode = await main();
