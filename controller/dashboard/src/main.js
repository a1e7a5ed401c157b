/** The page: it watches the upstream in the address, and paints at most once a frame. */

import { Problem, request, token } from "./api.js";
import { Actions, authorized } from "./actions.js";
import { AuditLog } from "./audit.js";
import { Charts } from "./charts.js";
import { toast } from "./dialogs.js";
import { $, set, text } from "./dom.js";
import * as gate from "./gate.js";
import * as glossary from "./glossary.js";
import * as header from "./header.js";
import { LiveUpstream } from "./live_upstream.js";
import * as overviewBoxes from "./overview_boxes.js";
import { Panel } from "./panel.js";
import { searchBox } from "./pager.js";
import { link, parse, query } from "./route.js";
import { ROWS, Table } from "./table.js";
import * as theme from "./theme.js";
import * as upstreams from "./upstreams.js";

// The list of upstreams and the controller's role are polled; all else arrives in the stream.
const ASK_MS = 5000;

let service = null;
let list = null;
let laws = null;
let listProblem = null;
let watched = null;
let refusedToken = false;
let route = parse(location.hash);
let asked = false;
let askAnew = false;
let painting = false;

const actions = new Actions(() => watched.overview.totals, tokenGiven);
const buttons = (upstream, id) => actions.buttons(upstream, id);
const audit = new AuditLog(tokenGiven);
const charts = new Charts();
const table = new Table(buttons, wanted);
const panel = new Panel(buttons, () => (location.hash = link(route.upstream, null, route)));
const showSearch = searchBox($("all-filter"), wanted);

function paint() {
  if (painting) return;
  painting = true;
  requestAnimationFrame(() => {
    painting = false;
    draw();
  });
}

function draw() {
  const overview = watched?.overview ?? null;
  const tickS = service?.tick_s ?? 1;
  const closed = listProblem?.status === 401;
  gate.draw(closed ? { wrong: refusedToken || token.get() !== null, given: useToken } : null);
  if (list !== null) upstreams.tabs(list, watched?.name ?? null);
  header.role(service);
  header.connection(closed ? { kind: "denied" } : (watched?.connection ?? (listProblem ? { kind: "waiting", until: Date.now() + ASK_MS } : { kind: list ? "idle" : "connecting", attempt: 0 })));
  notices(overview, closed);
  const empty = !closed && list?.total === 0 && watched === null;
  set($("fleet"), "hidden", closed || watched !== null || list === null || empty);
  $("fleet").classList.toggle("stale", listProblem !== null);
  set($("one"), "hidden", closed || overview === null);
  set($("empty"), "hidden", !empty);
  set($("upstreams"), "hidden", closed);
  audit.show(watched?.name ?? null, closed || (list === null && overview === null) ? null : empty ? $("main") : watched === null ? $("all-side") : $("one-audit"));
  text($("empty"), "No upstream is declared yet. Declare one in the controller's YAML file or with PUT /v1/upstreams/NAME (see “API”).");
  showSearch(route.search);
  set($("all-attention"), "checked", route.troubled);
  if (watched === null && list !== null) upstreams.all(list, route, to);
  const need = watched === null ? (list?.totals?.fault ?? 0) + (list?.totals?.warning ?? 0) : 0;
  document.title = watched === null ? `${need > 0 ? `(${need}) ` : ""}Steelyard` : `${watched.name} · Steelyard`;
  set($("forget"), "hidden", token.get() === null);
  set($("give"), "hidden", closed || token.get() !== null);
  if (overview === null || closed) return;
  $("one").classList.toggle("stale", watched.connection.kind !== "live");
  text($("one-title"), overview.upstream);
  text($("one-law"), `Picker ${overview.picker}, generation ${overview.generation} of term ${overview.term}.`);
  overviewBoxes.draw(overview, tickS, laws?.[overview.law]);
  charts.draw(overview, watched.history, watched.drawn, tickS);
  table.draw(overview, tickS, (id) => charts.slot(id), route, to);
  panel.draw(overview, laws);
}

function notices(overview, closed) {
  if (closed) {
    header.notices({ lost: null, failed: null, waiting: null, degraded: [] });
    return;
  }
  const state = watched?.connection;
  const denied = state?.kind === "denied";
  const down = denied || state?.kind === "waiting" || (state?.kind === "connecting" && state.attempt > 0);
  header.notices({
    lost: down ? { detail: state.detail ?? lostBefore, sinceMs: watched.heardMs, denied, retry: () => (denied ? askAgain() : watched.retry()) } : null,
    refused: state?.kind === "live" ? state.refused : null,
    failed: listProblem && !down ? listProblem.message : watched?.deleted ? `There is no upstream ${watched.name}.` : null,
    waiting: state?.kind === "live" && overview === null ? `${watched.name} waits for its first tick.` : null,
    degraded: [...new Set([...(list?.controller.degraded ?? []), ...(service?.degraded ?? [])])],
    shared: watched === null ? (list?.troubles ?? []) : [],
  });
}

let lostBefore = "The controller does not answer.";

function onEvent(what, data) {
  if (what === "change") {
    if (!actions.made(data)) toast(`${data.upstream}: ${data.what}`);
    audit.changed();
    ask();
  }
  if (what === "role" || what === "gap") ask();
  if (what === "connection" && data.detail) lostBefore = data.detail;
  paint();
}

/** Keep the token of a link (`steelyard page`), and take it out of the address and the history. */
function takeToken() {
  const given = /^#token=([\w.~+/-]+=*)$/.exec(location.hash);
  if (given === null) return;
  token.set(given[1]);
  history.replaceState(null, "", "#/");
  tokenGiven();
}

/** Return the address with another part of the same view: another page, or another order from its first page on. */
function to(change) {
  return link(watched?.name ?? null, null, { ...route, page: 1, ...change });
}

/** Show another part of the same view. All keys of a search are one step back. */
function wanted(change) {
  if (!("search" in change) || route.search === "") {
    location.hash = to(change);
    return;
  }
  history.replaceState(null, "", to(change));
  go();
  ask();
}

/** Follow the address. */
function go() {
  takeToken();
  route = parse(location.hash);
  // With one upstream the list shows nothing new.
  const name = route.upstream ?? (list?.total === 1 && list.upstreams.length === 1 ? list.upstreams[0].name : null);
  if (name !== (watched?.name ?? null)) {
    watched?.end();
    charts.reset();
    table.reset();
    watched = name === null ? null : new LiveUpstream(name, onEvent);
  }
  watched?.look(query(route, ROWS));
  panel.show(name, route.peer);
  paint();
}

async function ask() {
  askAnew = asked;
  if (asked) return;
  asked = true;
  try {
    const part = watched === null ? query({ ...route, order: route.order || "worst" }, upstreams.CARDS) : query(parse(""), upstreams.MOST_TABS);
    list = await request("GET", `/v1/upstreams?${part}`);
    service = await request("GET", "/v1/service");
    laws ??= Object.fromEntries((await request("GET", "/v1/laws")).laws.map((law) => [law.name, law]));
    listProblem = null;
    // Without an upstream's event stream, nothing else says that something was changed.
    if (watched === null) audit.changed();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    listProblem = problem;
  } finally {
    asked = false;
  }
  if (askAnew) ask();
  if (route.upstream === null) go();
  else paint();
}

/** Ask for the token that the event stream lacks: the list answers the same, and then the gate is shown. */
async function askAgain() {
  await ask();
  if (listProblem === null) watched?.retry();
}

/** Read everything with the token from the gate; if the controller does not know it, the gate says so. */
async function useToken(given) {
  token.set(given);
  await ask();
  refusedToken = listProblem?.status === 401;
  if (refusedToken) token.forget();
  else tokenGiven();
  watched?.retry();
  paint();
}

async function giveToken() {
  // Only the log of changes is never open, so its answer tells whether the token is known.
  await authorized(() => request("GET", "/v1/audit?limit=1"), tokenGiven).catch((problem) => toast(problem.message, { bad: true }));
}

function tokenGiven() {
  refusedToken = false;
  audit.reload();
  paint();
}

async function start() {
  theme.install($("theme"), () => charts.repaint());
  glossary.install();
  $("forget").addEventListener("click", () => {
    token.forget();
    toast("The token is forgotten.");
    audit.reload();
    ask();
  });
  $("give").addEventListener("click", giveToken);
  $("all-attention").addEventListener("change", (event) => wanted({ troubled: event.target.checked }));
  addEventListener("hashchange", () => {
    go();
    ask();
  });
  document.addEventListener("visibilitychange", () => document.hidden || (watched?.retry(), ask()));
  go();
  await ask();
  setInterval(() => document.hidden || ask(), ASK_MS);
  // The seconds until the next try.
  setInterval(() => watched?.connection.kind === "waiting" && paint(), 1000);
}

start();
