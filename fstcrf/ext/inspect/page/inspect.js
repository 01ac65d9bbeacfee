"use strict";
// The page of fstcrf inspect. Whatever comes from a model or a text is put in as text, never as markup.

const WIDTH = 60, FAINT = 0.0005;
const $ = (id) => document.getElementById(id);
const state = { text: "", mode: "text", decode: null, rules: null, weights: null, edits: [], first: 0, paths: 5, every: false, sentence: null };
let model = null, shown = null, gold = {}, ranked = [], compared = [], judged = [], token = "", listed = 0, place = null;
let turn = 0, whyTurn = 0, timer = 0, aborter = null;

function element(name, content = "", className = "") {
  const made = document.createElement(name);
  if (content !== "") made.textContent = content;
  if (className) made.className = className;
  return made;
}

function say(message, error = false) {
  $("status").textContent = message;
  $("status").classList.toggle("error", error);
}

async function ask(path, body, signal) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const options = body === undefined ? { headers, signal } : { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, signal, body: JSON.stringify(body) };
  const response = await fetch(path, options);
  const found = await response.json();
  if (!response.ok) throw new Error(found.error || `status ${response.status}`);
  return found;
}

// --- State, and the link that holds it ------------------------------------------------------------

function encoded(value) {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function decoded(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return JSON.parse(new TextDecoder().decode(Uint8Array.from(binary, (c) => c.charCodeAt(0))));
}

function sound(found) { // whoever made the link: of the kinds that the page works with
  const whole = (value) => Number.isInteger(value) && value >= 0, text = (value) => typeof value === "string";
  const all = (holds) => (value) => Array.isArray(value) && value.every(holds), or = (holds) => (value) => value === null || holds(value);
  const edit = (value) => value !== null && text(value.tape) && whole(value.token) && whole(value.label) && ["force", "forbid"].includes(value.kind);
  const kinds = {
    text, mode: (value) => ["text", "rows"].includes(value), decode: or(text), rules: or(all(whole)), weights: or(all(Number.isFinite)),
    edits: all(edit), first: whole, paths: (value) => whole(value) && value >= 1 && value <= 100, every: (value) => typeof value === "boolean", sentence: or(whole),
  };
  return found !== null && Object.keys(kinds).every((name) => !(name in found) || kinds[name](found[name]));
}

function readLink() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.has("token")) {
    sessionStorage.setItem("token", given.get("token"));
    given.delete("token");
    history.replaceState(null, "", `#${given}`);
  }
  token = sessionStorage.getItem("token") || "";
  if (!given.has("q")) return false;
  try {
    const found = decoded(given.get("q"));
    if (!sound(found)) throw new Error("other things than a link holds");
    for (const name of Object.keys(state)) if (name in found) state[name] = found[name];
    return true;
  } catch {
    say("the link is damaged: it was not read", true);
    return false;
  }
}

function writeLink() {
  history.replaceState(null, "", `#q=${encoded(state)}`);
}

function rowsOf() {
  if (state.mode === "text") return state.text.split(/\s+/u).filter(Boolean).map((word) => [word]);
  const lines = state.text.split("\n").map((line) => line.trim());
  while (lines.length && !lines[0]) lines.shift();
  const end = lines.indexOf("");
  return (end < 0 ? lines : lines.slice(0, end)).map((line) => line.split(model.literal ? "\t" : /\s+/u));
}

function question() {
  const rows = rowsOf();
  const edits = state.edits.filter((edit) => edit.token < rows.length);
  return { rows, decode: state.decode, rules: state.rules, weights: state.weights, edits };
}

// --- Asking ---------------------------------------------------------------------------------------

function busy(is) {
  document.body.setAttribute("aria-busy", String(is));
}

function later(wait = 180) {
  clearTimeout(timer);
  timer = setTimeout(look, wait);
  busy(true);
}

async function look() {
  clearTimeout(timer);
  timer = null;
  busy(false);
  const mine = ++turn;
  if (aborter) aborter.abort();
  aborter = new AbortController();
  if (state.text.length > model.limits.characters) { // splitting it takes long enough to be felt
    say(`${state.text.length} characters; the page takes at most ${model.limits.characters}: use fstcrf tag`, true);
    return;
  }
  const signal = aborter.signal, rows = rowsOf();
  if (rows.length > model.limits.tokens) {
    say(`${rows.length} tokens; the page shows at most ${model.limits.tokens}: use fstcrf tag`, true);
    return;
  }
  writeLink();
  const asked = { question: question(), first: state.first, width: WIDTH, paths: state.paths };
  say("…");
  busy(true);
  const begun = performance.now();
  try {
    const found = await ask("/api/answer", asked, signal);
    if (mine !== turn) return;
    shown = found;
    [compared, ranked] = [[], []];
    draw();
    const spent = Math.round(performance.now() - begun);
    if (shown.dead) say(rows.length ? shown.dead : "Type or paste a sentence.", rows.length > 0);
    else say(`${shown.tokens} tokens in ${spent} ms`);
    if (!rows.length) return;
    compared = await ask("/api/compare", asked, signal);
    if (mine !== turn) return;
    drawWays();
    ranked = await ask("/api/rank", asked, signal);
    if (mine !== turn) return;
    $("ranked").replaceChildren(rankedTable());
    if (model.rules.length) {
      judged = await ask("/api/judge", asked, signal);
      if (mine === turn) drawRules();
    }
  } catch (error) {
    if (error.name !== "AbortError" && mine === turn) say(error.message, true);
  } finally {
    if (mine === turn && timer === null) busy(false);
  }
}

async function why(tape, at, label) {
  const mine = ++whyTurn;
  const name = model.tapes[tape][label];
  $("cell").textContent = `Why ${name} at ${shown.rows[at - shown.first][0]}`;
  try {
    const found = await ask("/api/explain", { question: question(), tape, token: at, label });
    if (mine !== whyTurn) return;
    const parts = [
      element("p", `${tape}: probability ${found.probability.toFixed(4)}, features add up to ${found.emission.toFixed(3)}`),
      pushes(found.pushes, name),
    ];
    if (found.best !== name) {
      parts.push(element("p", `Best: ${found.best}, features add up to ${found.best_emission.toFixed(3)}`), pushes(found.best_pushes, found.best));
    }
    $("why").replaceChildren(...parts);
  } catch (error) {
    if (mine === whyTurn) $("why").replaceChildren(element("p", error.message));
  }
}

function pushes(given, label) {
  if (!given.length) return element("p", `No feature speaks for or against ${label}.`);
  return plain(`Features for and against ${label}`, ["", "feature", "of"], given.map((push) => [
    (push.value >= 0 ? "+" : "") + push.value.toFixed(3),
    push.attribute + push.given.map(([tape, found]) => `; reads ${tape} ${found}`).join(""),
    push.tagger,
  ]), [0]);
}

// --- Drawing --------------------------------------------------------------------------------------

function plain(name, heads, rows, numbers = []) {
  const table = element("table", "", "plain"), top = element("tr");
  table.setAttribute("aria-label", name);
  heads.forEach((head, k) => top.append(element("th", head, numbers.includes(k) ? "number" : "")));
  const body = element("tbody");
  for (const row of rows) {
    const line = element("tr");
    row.forEach((value, k) => line.append(element("td", String(value), numbers.includes(k) ? "number" : "")));
    body.append(line);
  }
  const head = element("thead");
  head.append(top);
  table.append(head, body);
  return table;
}

function draw() {
  const hold = place && document.activeElement && document.activeElement.dataset.tape !== undefined;
  $("note").textContent = shown.note;
  $("tapes").replaceChildren(...shown.tapes.map(heat));
  const last = shown.first + shown.rows.length;
  $("window").hidden = shown.tokens <= shown.rows.length;
  $("where").textContent = `tokens ${shown.first + 1} to ${last} of ${shown.tokens}`;
  $("back").disabled = shown.first === 0;
  $("on").disabled = last >= shown.tokens;
  $("ranked").replaceChildren(rankedTable());
  $("spans").replaceChildren(spansTable());
  drawWays();
  const cell = place && cellAt(place.tape, place.token, place.label);
  if (cell) {
    focusable(cell);
    if (hold) cell.focus();
  }
}

function drawWays() {
  $("ways").replaceChildren(waysTable());
  [...$("tapes").querySelectorAll("thead")].forEach((head, k) => {
    for (const line of head.querySelectorAll("tr.way")) line.remove();
    for (const way of compared.slice(1)) head.append(wayRow(way, shown.tapes[k]));
    if (shown.tapes[k].name in gold) head.append(goldRow(shown.tapes[k]));
  });
}

function probability(value) {
  return value === null ? "?" : value > 0 && value < 0.0001 ? value.toExponential(1) : value.toFixed(4);
}

function rankedTable() {
  if (!ranked.length) return element("p", shown.dead || "…");
  return plain("Best paths", ["", "probability", "score", "other tokens", ""], ranked.map((path, k) =>
    [k + 1, probability(path.probability), path.score.toFixed(3), path.differs, path.exact ? "" : "not proven"]), [0, 1, 2, 3]);
}

function spansTable() {
  if (!shown.spans.length) return element("p", "None here.");
  return plain("Spans", ["tape", "type", "tokens", "probability"], shown.spans.map((span) => {
    const inside = shown.rows.slice(Math.max(0, span.start - shown.first), Math.max(0, span.end - shown.first));
    return [span.tape, span.type, `${inside.map((row) => row[0]).join(" ")} (${span.start + 1}–${span.end})`, probability(span.probability)];
  }), [3]);
}

function waysTable() {
  if (model.decodes.length === 1) {
    return plain("Ways to decide", ["", "", "score"], [[shown.decode, "as shown", shown.score === null ? "" : shown.score.toFixed(3)]], [2]);
  }
  if (!compared.length) return element("p", shown.dead || "…");
  // One unit for the column: what the model's own way gives the labels of each way.
  const rows = compared.map((way, k) => {
    const count = way.differs.length;
    const other = count ? `other labels at ${count} tokens, first ${way.differs[0] + 1}` : "the same labels";
    const score = way.score === null ? "forbidden" : way.score.toFixed(3);
    return [way.decode, way.dead || (k ? other : "as shown"), way.dead ? "" : score];
  });
  return plain("Ways to decide", ["", "", `score by ${model.decode}`], rows, [2]);
}

function labelsShown(tape) {
  const all = model.tapes[tape.name].map((_, k) => k);
  if (state.every || !tape.marginals.length) return all;
  const edited = new Set(state.edits.filter((edit) => edit.tape === tape.name).map((edit) => edit.label));
  const some = all.filter((k) => edited.has(k) || tape.best.includes(k) || tape.marginals.some((row) => row[k] > FAINT));
  return some.length ? some : all;
}

function heat(tape) {
  const box = element("div", "", "heat"), table = element("table");
  const known = model.tapes[tape.name], labels = labelsShown(tape);
  table.setAttribute("role", "grid");
  table.setAttribute("aria-label", `Probabilities of the labels of ${tape.name}`);
  const top = element("tr");
  top.append(element("th", tape.name + (tape.given.length ? ` | ${tape.given.join(", ")}` : "")));
  for (const row of shown.rows) {
    const head = element("th", row[0]);
    head.title = row.join(" ");
    top.append(head);
  }
  const head = element("thead");
  head.append(top);
  const body = element("tbody");
  for (const label of labels) {
    const line = element("tr");
    line.append(element("th", known[label]));
    shown.rows.forEach((row, k) => line.append(cellOf(tape, k, label, row[0])));
    body.append(line);
  }
  table.append(head, body);
  box.append(table);
  const first = body.querySelector("td");
  if (first) first.tabIndex = 0;
  if (labels.length < known.length) box.append(element("p", `${known.length - labels.length} labels below ${FAINT} everywhere here are left out`, "keys"));
  return box;
}

function wayRow(way, tape) {
  const line = element("tr", "", "way"), place = shown.tapes.indexOf(tape);
  line.append(element("th", way.decode));
  shown.rows.forEach((_, k) => {
    const label = way.labels.length ? way.labels[place][k] : -1;
    const cell = element("td", label < 0 ? "–" : model.tapes[tape.name][label]);
    if (label !== tape.best[k]) cell.classList.add("differs");
    line.append(cell);
  });
  return line;
}

function goldRow(tape) {
  const line = element("tr", "", "way gold"), labels = model.tapes[tape.name];
  line.append(element("th", "gold"));
  shown.rows.forEach((_, k) => {
    const label = gold[tape.name][shown.first + k], cell = element("td", label);
    if (label !== labels[tape.best[k]]) cell.classList.add("differs");
    line.append(cell);
  });
  return line;
}

function editOf(tape, at, label) {
  return state.edits.find((edit) => edit.tape === tape && edit.token === at && edit.label === label);
}

function cellOf(tape, k, label, word) {
  const at = shown.first + k, cell = element("td"), p = tape.marginals.length ? tape.marginals[k][label] : 0;
  const edit = editOf(tape.name, at, label), best = tape.best[k] === label;
  cell.dataset.tape = tape.name;
  cell.dataset.token = at;
  cell.dataset.label = label;
  cell.tabIndex = -1;
  cell.style.setProperty("--p", p.toFixed(3));
  if (p >= 0.005) cell.textContent = p.toFixed(2).replace(/^0/u, "");
  cell.classList.toggle("strong", p >= 0.1);
  cell.classList.toggle("best", best);
  if (edit) cell.classList.add(edit.kind);
  const name = model.tapes[tape.name][label];
  cell.setAttribute("aria-label", `${word}: ${name}, probability ${p.toFixed(3)}${best ? ", best path" : ""}${edit ? `, ${edit.kind === "force" ? "forced" : "forbidden"}` : ""}`);
  return cell;
}

function drawRules() {
  for (const rule of judged) {
    const label = $("rules").querySelectorAll("label")[rule.number];
    if (!label) continue;
    label.classList.toggle("forbids", rule.forbids);
    const where = rule.token === null ? "what is missing at the end" : `${rule.found} at token ${rule.token + 1}`;
    label.querySelector("span").textContent = rule.forbids ? ` forbids ${where}` : "";
  }
}

// --- Cells ----------------------------------------------------------------------------------------

function cellAt(tape, at, label) {
  for (const cell of $("tapes").querySelectorAll("td[data-tape]")) {
    if (cell.dataset.tape === tape && Number(cell.dataset.token) === at && Number(cell.dataset.label) === label) return cell;
  }
  return null;
}

function focusable(cell) {
  for (const other of cell.closest("tbody").querySelectorAll("td[tabindex='0']")) other.tabIndex = -1;
  cell.tabIndex = 0;
}

function chosen(cell) {
  place = { tape: cell.dataset.tape, token: Number(cell.dataset.token), label: Number(cell.dataset.label) };
  focusable(cell);
  why(place.tape, place.token, place.label);
}

function change(cell, kind) {
  const { tape, token: at, label } = { tape: cell.dataset.tape, token: Number(cell.dataset.token), label: Number(cell.dataset.label) };
  const before = editOf(tape, at, label);
  state.edits = state.edits.filter((edit) => !(edit.tape === tape && edit.token === at && (edit.label === label || kind === "force" || edit.kind === "force")));
  if (!before || before.kind !== kind) {
    if (state.edits.length >= model.limits.edits) {
      say(`at most ${model.limits.edits} clicks`, true);
      return;
    }
    state.edits.push({ tape, token: at, label, kind });
  }
  look();
}

function moved(cell, key) {
  const line = cell.parentElement, column = [...line.children].indexOf(cell);
  if (key === "ArrowLeft") return cell.previousElementSibling;
  if (key === "ArrowRight") return cell.nextElementSibling;
  if (key === "Home") return line.children[1];
  if (key === "End") return line.lastElementChild;
  const other = key === "ArrowUp" ? line.previousElementSibling : line.nextElementSibling;
  return other && other.children[column];
}

function onCellKey(event) {
  const cell = event.target.closest("td[data-tape]");
  if (!cell) return;
  if (["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) {
    const next = moved(cell, event.key);
    if (next && next.dataset.tape !== undefined) {
      focusable(next);
      next.focus();
    }
    event.preventDefault();
  } else if (event.key === "Enter" || event.key === " ") {
    change(cell, "force");
    event.preventDefault();
  } else if (event.key === "Delete" || event.key === "Backspace" || event.key === "x") {
    change(cell, "forbid");
    event.preventDefault();
  }
}

function onListKey(event) {
  const buttons = [...$("sentences").querySelectorAll("button")], at = buttons.indexOf(event.target);
  const to = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: buttons.length - 1 }[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  if (!buttons[to]) return;
  event.target.tabIndex = -1;
  buttons[to].tabIndex = 0;
  buttons[to].focus();
}

// --- The form -------------------------------------------------------------------------------------

function slider(name, k) {
  const label = element("label", `${name} `), input = element("input"), value = element("output");
  input.type = "range";
  input.min = "0";
  input.max = "3";
  input.step = "0.05";
  input.value = String(state.weights ? state.weights[k] : model.weights[k]);
  value.textContent = input.value;
  input.addEventListener("input", () => {
    value.textContent = input.value;
    state.weights = [...$("weights").querySelectorAll("input")].map((other) => Number(other.value));
    if (state.weights.every((weight, at) => weight === model.weights[at])) state.weights = null;
    later();
  });
  label.append(input, value);
  return label;
}

function ruleBox(name, k) {
  const label = element("label"), input = element("input");
  input.type = "checkbox";
  input.checked = state.rules === null || state.rules.includes(k);
  input.addEventListener("change", () => {
    const boxes = [...$("rules").querySelectorAll("input")];
    state.rules = boxes.flatMap((box, at) => (box.checked ? [at] : []));
    if (state.rules.length === boxes.length) state.rules = null;
    look();
  });
  label.append(input, document.createTextNode(` ${name}`), element("span"));
  return label;
}

function fillForm() {
  $("model").textContent = model.name;
  $("text").value = state.text;
  if (model.columns.length > 1 || model.literal) {
    $("mode").querySelector("option[value='text']").disabled = true;
    state.mode = "rows";
  }
  $("mode").querySelector("option[value='rows']").textContent = model.literal ? "one token a line, its attributes between tabs" : `one token a line: ${model.columns.join(" ")}`;
  $("mode").value = state.mode;
  if (!model.decodes.includes(state.decode)) state.decode = null;
  $("decode").replaceChildren(...model.decodes.map((way) => {
    const option = element("option", way);
    option.value = way;
    return option;
  }));
  $("decode").value = state.decode || model.decode;
  $("decode").disabled = model.decodes.length < 2;
  $("paths").value = String(state.paths);
  $("every").checked = state.every;
  if (state.weights && state.weights.length !== model.weights.length) state.weights = null;
  if (state.rules) state.rules = state.rules.filter((rule) => rule < model.rules.length);
  state.edits = state.edits.filter((edit) => edit.tape in model.tapes && edit.label < model.tapes[edit.tape].length);
  $("weights").hidden = model.taggers.length < 2;
  $("weights").replaceChildren($("weights").firstElementChild, ...model.taggers.map(slider));
  $("rules").hidden = !model.rules.length;
  $("rules").replaceChildren($("rules").firstElementChild, ...model.rules.map(ruleBox));
}

async function list() {
  const found = await ask(`/api/sentences?first=${listed}`);
  $("file").hidden = false;
  $("earlier").disabled = listed === 0;
  $("later").disabled = listed + found.length >= model.sentences || !found.length;
  $("sentences").start = listed + 1;
  $("sentences").replaceChildren(...found.map((sentence, k) => {
    const line = element("li"), button = element("button");
    button.type = "button";
    button.tabIndex = k ? -1 : 0; // one stop of the tab key: arrows move in the list
    const errors = sentence.errors === null ? "" : ` (${sentence.errors} wrong)`;
    button.textContent = `${sentence.number + 1}${errors}: ${sentence.text}${sentence.tokens > 12 ? " …" : ""}`;
    button.dataset.number = sentence.number;
    button.addEventListener("click", () => open(sentence.number));
    line.append(button);
    return line;
  }));
  mark();
}

function mark() {
  for (const button of $("sentences").querySelectorAll("button")) {
    if (Number(button.dataset.number) === state.sentence) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}

function asText(rows) {
  if (model.columns.length === 1 && !model.literal) return rows.map((row) => row[0]).join(" ");
  return rows.map((row) => row.join(model.literal ? "\t" : " ")).join("\n");
}

function typed() { // no longer a sentence of the file
  state.sentence = null;
  gold = {};
  mark();
}

async function open(number) {
  try {
    const found = await ask(`/api/sentences/${number}`);
    state.mode = model.columns.length === 1 && !model.literal ? "text" : "rows";
    state.text = asText(found.rows);
    state.sentence = number;
    gold = found.gold;
    mark();
    state.edits = [];
    state.first = 0;
    fillForm();
    look();
  } catch (error) {
    say(error.message, true);
  }
}

function connect() {
  $("text").addEventListener("input", () => {
    state.text = $("text").value;
    typed();
    state.edits = [];
    state.first = 0;
    later();
  });
  $("mode").addEventListener("change", () => { state.mode = $("mode").value; look(); });
  $("decode").addEventListener("change", () => { state.decode = $("decode").value; look(); });
  $("paths").addEventListener("change", () => {
    state.paths = Math.min(100, Math.max(1, Math.trunc(Number($("paths").value)) || 1));
    $("paths").value = String(state.paths);
    look();
  });
  $("every").addEventListener("change", () => { state.every = $("every").checked; writeLink(); if (shown) draw(); });
  $("free").addEventListener("click", () => { state.edits = []; look(); });
  $("back").addEventListener("click", () => { state.first = Math.max(0, state.first - WIDTH); look(); });
  $("on").addEventListener("click", () => { state.first += WIDTH; look(); });
  $("earlier").addEventListener("click", () => { listed = Math.max(0, listed - 200); list().catch((error) => say(error.message, true)); });
  $("later").addEventListener("click", () => { listed += 200; list().catch((error) => say(error.message, true)); });
  $("copy").addEventListener("click", async () => {
    writeLink();
    try {
      await navigator.clipboard.writeText(location.href);
      say("link copied");
    } catch {
      say("the address of this page is the link");
    }
  });
  $("tapes").addEventListener("click", (event) => {
    const cell = event.target.closest("td[data-tape]");
    if (!cell) return;
    chosen(cell);
    cell.focus();
    change(cell, event.shiftKey ? "forbid" : "force");
  });
  $("tapes").addEventListener("keydown", onCellKey);
  $("sentences").addEventListener("keydown", onListKey);
  $("tapes").addEventListener("focusin", (event) => {
    const cell = event.target.closest("td[data-tape]");
    const same = cell && place && cell === cellAt(place.tape, place.token, place.label);
    if (cell && !same) chosen(cell);
  });
  window.addEventListener("hashchange", () => { if (readLink()) { fillForm(); goldOf().then(look); } });
}

async function goldOf() { // of the sentence of the file that a link names, if it is that still
  gold = {};
  if (state.sentence === null) return;
  if (state.sentence >= model.sentences) {
    typed();
    return;
  }
  try {
    const found = await ask(`/api/sentences/${state.sentence}`);
    if (asText(found.rows) === state.text) gold = found.gold;
    else typed();
  } catch {
    typed();
  }
}

async function begin() {
  const linked = readLink();
  try {
    model = await ask("/api/model");
  } catch (error) {
    say(error.message, true);
    return;
  }
  fillForm();
  connect();
  if (linked) {
    await goldOf();
    look();
  }
  else say("Type or paste a sentence.");
  if (!model.sentences) return;
  try {
    await list();
    if (!linked) await open(Number($("sentences").querySelector("button").textContent.split(/\D/u)[0]) - 1);
  } catch (error) {
    say(error.message, true);
  }
}

begin();
