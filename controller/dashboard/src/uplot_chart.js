/** One chart over time: uPlot with our axes, bands, thresholds, shaded spans and a tip at the pointer. */

import uPlot from "./uPlot.esm.js";
import { colour } from "./theme.js";
import { tip } from "./chart_tip.js";

const HEIGHT = 190;
const NARROW_HEIGHT = 170;
// From the seventh on, colours alone are hard to distinguish.
const DASHES = [[], [], [], [], [], [], [6, 3], [6, 3], [6, 3], [2, 3], [2, 3], [2, 3]];

export class Chart {
  #box;
  #plot = null;
  #shape = "";
  #spec = null;
  #data = null;

  /** `sync` names the charts with a common pointer. */
  constructor(box, sync) {
    this.#box = box;
    this.sync = sync;
    new ResizeObserver(() => this.#resize()).observe(box);
  }

  /**
   * Draw. `spec` is {series: [{id, slot}], stack, format, max, thresholds: [{name, value}], spans}; `data` is
   * [x, ...columns]; `plain` has the unstacked columns.
   */
  draw(spec, data, plain) {
    this.#spec = { ...spec, plain };
    this.#data = data;
    const shape = JSON.stringify([spec.series, spec.stack, spec.name]);
    if (this.#plot === null || shape !== this.#shape) this.#make(shape);
    else this.#plot.setData(data);
  }

  /** Draw again, in the colours of the theme. */
  repaint() {
    if (this.#spec !== null) this.#make(this.#shape);
  }

  /** Emphasize one server, or with null none. */
  bringOut(id) {
    if (this.#plot === null) return;
    const index = this.#spec.series.findIndex((each) => each.id === id);
    this.#plot.setSeries(index === -1 ? null : index + 1, { focus: index !== -1 });
  }

  #size() {
    const width = Math.max(200, Math.floor(this.#box.clientWidth));
    return { width, height: width < 420 ? NARROW_HEIGHT : HEIGHT };
  }

  #resize() {
    const { width, height } = this.#size();
    if (this.#plot !== null && this.#plot.width !== width) this.#plot.setSize({ width, height });
  }

  #make(shape) {
    this.#plot?.destroy();
    this.#shape = shape;
    const spec = () => this.#spec;
    const { series, stack, format, max } = this.#spec;
    const grid = { stroke: colour("grid"), width: 1 };
    const axis = { stroke: colour("muted"), grid, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    this.#plot = new uPlot(
      {
        ...this.#size(),
        series: [{}, ...series.map((each) => lineOf(each, stack))],
        bands: stack ? series.slice(1).map((_, index) => ({ series: [index + 2, index + 1] })) : [],
        axes: [
          { ...axis, size: 26, gap: 4, space: 70, values: (_, splits) => splits.map(minute) },
          { ...axis, size: 48, gap: 4, space: 34, values: (_, splits) => splits.map(format) },
        ],
        scales: {
          x: { time: true, range: (_, from, to) => [Math.min(from ?? to, to - 60), to] },
          y: { range: (_, from, to) => [0, max ?? Math.max(to * 1.08, 1e-9)] },
        },
        legend: { show: false },
        focus: { alpha: 0.18 },
        cursor: { sync: { key: this.sync.key, setSeries: false }, drag: { x: false, y: false }, points: { show: false }, y: false },
        hooks: { drawClear: [(plot) => shade(plot, spec())], draw: [(plot) => thresholds(plot, spec())] },
        plugins: [tip(spec)],
      },
      this.#data,
      this.#box,
    );
  }
}

function lineOf({ slot }, stack) {
  const stroke = slot === null ? colour("others") : colour(`s${slot}`);
  const dash = stack || slot === null ? [] : DASHES[slot];
  return { stroke, dash, width: stack ? 1 : 1.75, fill: stack ? `${stroke}cc` : undefined, points: { show: false }, spanGaps: false };
}

function minute(atS) {
  return new Date(atS * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: atS % 60 ? "2-digit" : undefined, hour12: false });
}

function shade(plot, { spans = [] }) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.fillStyle = colour("shade");
  for (const { fromS, toS } of spans) {
    const from = Math.max(bbox.left, plot.valToPos(fromS, "x", true));
    const to = plot.valToPos(toS, "x", true);
    if (to > from) ctx.fillRect(from, bbox.top, Math.max(2, to - from), bbox.height);
  }
  ctx.restore();
}

function thresholds(plot, { thresholds: lines = [] }) {
  const { ctx, bbox } = plot;
  const unit = devicePixelRatio;
  ctx.save();
  ctx.textAlign = "left";
  ctx.font = `600 ${11 * unit}px system-ui, sans-serif`;
  ctx.setLineDash([5 * unit, 4 * unit]);
  ctx.lineWidth = unit;
  ctx.strokeStyle = ctx.fillStyle = colour("text");
  for (const { name, value } of lines) {
    const y = Math.round(plot.valToPos(value, "y", true));
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    // H below its line and L above: they are often too near for both on one side. At the left edge and on a
    // ground of its own, the text stays readable over the curves.
    const label = `${name} = ${value}`;
    const baseline = name === "H" ? y + 14 * unit : y - 6 * unit;
    const { width } = ctx.measureText(label);
    ctx.fillStyle = colour("box");
    ctx.fillRect(bbox.left + 3 * unit, baseline - 11 * unit, width + 6 * unit, 14 * unit);
    ctx.fillStyle = colour("text");
    ctx.fillText(label, bbox.left + 6 * unit, baseline);
  }
  ctx.restore();
}
