/** The page: it watches the upstream in the address, and paints at most once a frame. */

import { Problem, request, token } from "./api.js";
import { Actions, authorized } from "./actions.js";
import { AuditLog } from "./audit.js";
import { Charts } from "./charts.js";
import { toast } from "./dialogs.js";
import { $, set, text } from "./dom.js";
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
  if (list !== null) upstreams.tabs(list, watched?.name ?? null);
  header.role(service);
  header.connection(watched?.connection ?? (listProblem ? { kind: "waiting", until: Date.now() + ASK_MS } : { kind: list ? "idle" : "connecting", attempt: 0 }));
  notices(overview);
  set($("all"), "hidden", watched !== null || list === null || list.total === 0);
  set($("one"), "hidden", overview === null);
  set($("empty"), "hidden", !(list?.total === 0 && watched === null));
  text($("empty"), "No upstream is declared yet. Declare one in the controller's YAML file or with PUT /v1/upstreams/NAME (see “API”).");
  showSearch(route.search);
  if (watched === null && list !== null) upstreams.all(list, route, to);
  document.title = watched === null ? "Steelyard" : `${watched.name} · Steelyard`;
  set($("forget"), "hidden", token.get() === null);
  if (overview === null) return;
  $("one").classList.toggle("stale", watched.connection.kind !== "live");
  text($("one-title"), overview.upstream);
  text($("one-law"), `law ${overview.law}, picker ${overview.picker}, generation ${overview.generation} of term ${overview.term}`);
  overviewBoxes.draw(overview, tickS, laws?.[overview.law]);
  charts.draw(overview, watched.history, watched.drawn, tickS);
  table.draw(overview, tickS, (id) => charts.slot(id), route, to);
  panel.draw(overview, laws);
}

function notices(overview) {
  const state = watched?.connection;
  const denied = state?.kind === "denied";
  const down = denied || state?.kind === "waiting" || (state?.kind === "connecting" && state.attempt > 0);
  header.notices({
    lost: down ? { detail: state.detail ?? lostBefore, sinceMs: watched.heardMs, denied, retry: () => (denied ? askAgain() : watched.retry()) } : null,
    refused: state?.kind === "live" ? state.refused : null,
    failed: listProblem && !down ? listProblem.message : watched?.deleted ? `There is no upstream ${watched.name}.` : null,
    waiting: state?.kind === "live" && overview === null ? `${watched.name} waits for its first tick.` : null,
    degraded: [...new Set([...(list?.controller.degraded ?? []), ...(service?.degraded ?? []), ...(overview?.degraded ?? [])])],
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
  audit.show(name);
  paint();
}

async function ask() {
  askAnew = asked;
  if (asked) return;
  asked = true;
  try {
    const part = watched === null ? query(route, upstreams.CARDS) : query(parse(""), upstreams.MOST_TABS);
    list = await request("GET", `/v1/upstreams?${part}`);
    service = await request("GET", "/v1/service");
    laws ??= Object.fromEntries((await request("GET", "/v1/laws")).laws.map((law) => [law.name, law]));
    listProblem = null;
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

async function askAgain() {
  const answer = await authorized(() => request("GET", "/v1/upstreams"), tokenGiven).catch(() => null);
  if (answer === null) return;
  watched?.retry();
  ask();
}

function tokenGiven() {
  set($("forget"), "hidden", false);
}

async function start() {
  theme.install($("theme"), () => charts.repaint());
  glossary.install();
  $("forget").addEventListener("click", () => {
    token.forget();
    set($("forget"), "hidden", true);
    toast("The token is forgotten.");
  });
  addEventListener("hashchange", () => {
    go();
    ask();
  });
  document.addEventListener("visibilitychange", () => document.hidden || (watched?.retry(), ask()));
  go();
  await ask();
  if (listProblem?.status === 401) await askAgain();
  setInterval(() => document.hidden || ask(), ASK_MS);
  // The seconds until the next try.
  setInterval(() => watched?.connection.kind === "waiting" && paint(), 1000);
}

start();
